//! The limits of `backcast check`: one option per limit, and files of limits.

use crate::usage::budget;
use crate::usage::budget::{LIMITS, Limit};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The limits of the command line. Their options come from [`LIMITS`].
#[derive(Debug, Default)]
pub struct LimitArgs(pub Vec<(&'static Limit, f64)>);

impl Args for LimitArgs {
    fn augment_args(command: Command) -> Command {
        LIMITS.iter().fold(command, |command, limit| {
            let measure = limit.measure;
            let parse = move |text: &str| -> Result<f64, String> {
                let number = text.parse::<f64>().unwrap_or(f64::NAN);
                measure.validate_value(number)
            };
            command.arg(
                Arg::new(limit.name)
                    .long(limit.name)
                    .value_name(measure.placeholder())
                    .help(limit.about.trim_end_matches('.').to_owned())
                    .long_help(limit.about)
                    .value_parser(parse)
                    .action(ArgAction::Set)
                    .help_heading("Limits"),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LimitArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |limit: &'static Limit| Some((limit, *matches.get_one::<f64>(limit.name)?));
        Ok(LimitArgs(LIMITS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = LimitArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl std::fmt::Debug for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Reads the limits of a TOML file: a table of names and numbers.
pub fn parse_limits(text: &str) -> Result<Vec<(&'static Limit, f64)>, String> {
    let table = text.parse::<toml::Table>().map_err(|error| error.to_string())?;
    let mut limits = Vec::new();
    for (name, value) in &table {
        let Some(limit) = budget::find_limit(name) else {
            let near = LIMITS
                .iter()
                .max_by(|a, b| strsim::jaro_winkler(name, a.name).total_cmp(&strsim::jaro_winkler(name, b.name)));
            let near = near.map_or("", |limit| limit.name);
            return Err(format!(
                "no limit is called `{name}`\n  hint: the nearest is `{near}`; `backcast check --all` shows all"
            ));
        };
        let number = match value {
            toml::Value::Integer(number) => *number as f64,
            toml::Value::Float(number) => *number,
            _ => return Err(format!("`{name}` wants a number")),
        };
        let number = limit
            .measure
            .validate_value(number)
            .map_err(|why| format!("`{name}`: {why}"))?;
        limits.push((limit, number));
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_file() {
        let found = parse_limits("max-cost = 5\nmin-cache-share = 0.8 # of all input\n").unwrap();
        let found = found
            .into_iter()
            .map(|(limit, value)| (limit.name, value))
            .collect::<Vec<_>>();
        assert_eq!(found, [("max-cost", 5.0), ("min-cache-share", 0.8)]);
        for (wrong, why) in [
            ("max-costs = 5", "the nearest is `max-cost`"),
            ("max-cost = \"5\"", "wants a number"),
            ("max-cost = -5", "dollars from 0"),
            ("max-problems = 1.5", "whole number"),
            ("max-cost", "TOML"),
        ] {
            let error = parse_limits(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
