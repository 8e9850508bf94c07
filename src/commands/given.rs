//! Which options were typed on the command line, as opposed to set by a default or by the environment.

use clap::ArgMatches;
use clap::parser::ValueSource;

/// The options of the command that runs: those of the innermost subcommand.
#[derive(Clone, Copy)]
pub struct GivenOptions<'m>(&'m ArgMatches);

impl<'m> GivenOptions<'m> {
    /// Takes the matches of the whole command line.
    pub fn new(matches: &'m ArgMatches) -> GivenOptions<'m> {
        let mut leaf = matches;
        while let Some((_, inner)) = leaf.subcommand() {
            leaf = inner;
        }
        GivenOptions(leaf)
    }

    /// Whether an option was typed, by its long name without dashes. An option that the command does not have was not.
    pub fn has(&self, name: &str) -> bool {
        let id = name.replace('-', "_");
        // `value_source` panics for a name that the command does not declare.
        let is_declared = self.0.try_contains_id(&id).is_ok();
        is_declared && self.0.value_source(&id) == Some(ValueSource::CommandLine)
    }

    /// Returns the typed ones of some options as they are typed, `--a, --b`; `None` if none was.
    pub fn list(&self, names: &[&str]) -> Option<String> {
        let typed = names.iter().filter(|name| self.has(name));
        let typed = typed.map(|name| format!("--{name}")).collect::<Vec<_>>();
        (!typed.is_empty()).then(|| typed.join(", "))
    }

    /// Whether an option has a value, typed or not.
    pub fn has_value(&self, name: &str, value: &str) -> bool {
        let values = self.0.try_get_raw(name).ok().flatten();
        values.is_some_and(|mut values| values.any(|known| known == value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn only_what_was_typed_is_given() {
        let typed = [
            "backcast",
            "memory",
            "extract",
            "--backend-model",
            notes::model::DEFAULT_MODEL,
        ];
        let matches = Cli::command().try_get_matches_from(typed).unwrap();
        let given = GivenOptions::new(&matches);
        assert!(given.has("backend-model"));
        assert!(!given.has("base-url"), "a default");
        assert!(!given.has("compare"), "of another command");
        assert_eq!(
            given.list(&["batch", "backend-model"]).as_deref(),
            Some("--backend-model")
        );
        assert_eq!(given.list(&["batch", "max-cost"]), None);
    }
}
