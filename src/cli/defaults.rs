//! Defaults of options: the table `[options]` of `backcast.toml` in the current folder and of `backcast/policy.toml` in the
//! user's configuration folder. An option on the command line or in the environment comes before both.

#![allow(
    clippy::disallowed_methods,
    reason = "reads configuration files, and asks whether a terminal is there"
)]

use crate::cli::Cli;
use anyhow::{Context, Result, anyhow, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use toml::{Table, Value};

/// The table of a configuration file that holds defaults of options.
pub const OPTIONS_TABLE: &str = "options";

/// The default of an option.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionDefault {
    /// Long name, or `paths` for the logs.
    pub name: String,
    /// The command it is for, such as `memory extract`; every command that has the option if `None`.
    pub command: Option<String>,
    /// Its values; several for an option that may be given several times.
    pub values: Vec<String>,
    /// The file that sets it.
    pub origin: String,
}

/// Defaults of options. Later ones come before earlier ones.
#[derive(Debug, Clone, Default)]
pub struct OptionDefaults(pub Vec<OptionDefault>);

/// Returns the configuration files that exist: that of the user, then that of the current folder.
pub fn config_files() -> Vec<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".config")));
    let user = config.map(|folder| folder.join("backcast").join("policy.toml"));
    let files = user.into_iter().chain([PathBuf::from("backcast.toml")]);
    files.filter(|path| path.is_file()).collect()
}

impl OptionDefaults {
    /// Reads the configuration files.
    pub fn read() -> Result<OptionDefaults> {
        let mut defaults = OptionDefaults::default();
        for path in config_files() {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(&path).with_context(|| format!("reading {name}"))?;
            defaults.add_file(&name, &text).with_context(|| name.clone())?;
        }
        Ok(defaults)
    }

    fn add_file(&mut self, origin: &str, text: &str) -> Result<()> {
        let table = text.parse::<Table>()?;
        let Some(options) = table.get(OPTIONS_TABLE) else {
            return Ok(());
        };
        let options = options.as_table().context("`options` is not a table")?;
        for (name, value) in options {
            match value {
                Value::Table(own) => {
                    for (option, value) in own {
                        self.add(origin, Some(name), option, value)?;
                    }
                }
                value => self.add(origin, None, name, value)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, origin: &str, command: Option<&str>, name: &str, value: &Value) -> Result<()> {
        let values = match value {
            Value::Array(values) => values.iter().map(plain_text).collect::<Option<Vec<_>>>(),
            value => plain_text(value).map(|text| vec![text]),
        };
        self.0.push(OptionDefault {
            name: name.to_owned(),
            command: command.map(str::to_owned),
            values: values
                .with_context(|| format!("options.{name} must be a string, a number, true, false or a list"))?,
            origin: origin.to_owned(),
        });
        Ok(())
    }

    /// Returns the default of an option of a command.
    fn find(&self, command: &str, arg: &Arg) -> Option<&OptionDefault> {
        let is_it = |default: &&OptionDefault| {
            let is_named = is_named(arg, &default.name);
            is_named && default.command.as_deref().is_none_or(|wanted| wanted == command)
        };
        // One for the command itself comes before one for all.
        let mut own = self.0.iter().rev().filter(|default| default.command.is_some());
        own.find(is_it).or_else(|| self.0.iter().rev().find(is_it))
    }

    /// Returns the command line with these defaults.
    fn apply(&self, command: Command) -> Result<Command> {
        for default in &self.0 {
            self.check(default, &command)?;
        }
        Ok(self.apply_below(command, ""))
    }

    fn apply_below(&self, mut command: Command, path: &str) -> Command {
        let set = command.get_arguments().filter_map(|arg| {
            let default = self.find(path, arg).filter(|_| !path.is_empty())?;
            Some((arg.get_id().clone(), default.values.clone()))
        });
        for (id, values) in set.collect::<Vec<_>>() {
            command = command.mut_arg(id, |arg| arg.default_values(values));
        }
        let names = command
            .get_subcommands()
            .map(|sub| sub.get_name().to_owned())
            .collect::<Vec<_>>();
        for name in names {
            let path = format!("{path} {name}").trim_start().to_owned();
            command = command.mut_subcommand(name, |sub| self.apply_below(sub, &path));
        }
        command
    }

    /// Refuses a default that no command has, or that its option does not take.
    fn check(&self, default: &OptionDefault, command: &Command) -> Result<()> {
        let mut found = Vec::new();
        collect_args(command, "", default, &mut found);
        let place = |name: &str| match &default.command {
            Some(command) => format!("{}: options.{command:?}.{name}", default.origin),
            None => format!("{}: options.{name}", default.origin),
        };
        if found.is_empty() {
            bail!("{}: no command has this option", place(&default.name));
        }
        for arg in found {
            let alone = match arg.get_long() {
                Some(long) => Arg::new("value").long(long.to_owned()),
                None => Arg::new("value"),
            };
            let alone = alone
                .value_parser(arg.get_value_parser().clone())
                .action(clap::ArgAction::Append);
            let parser = Command::new("backcast").no_binary_name(true).arg(alone);
            let typed = default.values.iter().map(|value| match arg.get_long() {
                Some(long) => format!("--{long}={value}"),
                None => value.clone(),
            });
            parser.try_get_matches_from(typed).map_err(|error| {
                let reason = error.to_string();
                let reason = reason.lines().next().unwrap_or_default().trim_start_matches("error: ");
                anyhow!("{}: {reason}", place(&default.name))
            })?;
        }
        Ok(())
    }
}

/// Returns a value as it would be typed; `None` for a table or a list.
fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => Some(value.to_string()),
        Value::Array(_) | Value::Table(_) => None,
    }
}

fn is_named(arg: &Arg, name: &str) -> bool {
    match arg.get_long() {
        Some(long) => long == name,
        None => arg.is_positional() && arg.get_id() == name,
    }
}

fn collect_args<'c>(command: &'c Command, path: &str, default: &OptionDefault, found: &mut Vec<&'c Arg>) {
    if default.command.as_deref().is_none_or(|wanted| wanted == path) {
        found.extend(command.get_arguments().filter(|arg| is_named(arg, &default.name)));
    }
    for sub in command.get_subcommands() {
        let path = format!("{path} {}", sub.get_name());
        collect_args(sub, path.trim_start(), default, found);
    }
}

/// Why a command line was not understood.
pub enum ParseFailure {
    /// The command line itself, or a request for help.
    Usage(clap::Error),
    /// A configuration file.
    Config(anyhow::Error),
}

/// Parses a command line with the defaults of the configuration files.
pub fn parse_command_line(typed: &[OsString]) -> Result<(Cli, ArgMatches), ParseFailure> {
    let mut defaults = OptionDefaults::read().map_err(ParseFailure::Config)?;
    let parse = |defaults: &OptionDefaults| {
        let command = defaults.apply(Cli::command()).map_err(ParseFailure::Config)?;
        let matches = command
            .clone()
            .try_get_matches_from(typed)
            .map_err(ParseFailure::Usage)?;
        Ok((command, matches))
    };
    let (command, mut matches) = parse(&defaults)?;
    // A default gives way to a typed option that it conflicts with. Tables on a terminal have local times.
    let overruled = overruled_options(&command, &matches);
    let is_local = wants_local_time(&command, &matches, std::io::stdout().is_terminal());
    if !overruled.is_empty() || is_local {
        defaults.0.retain(|default| !overruled.contains(&default.name));
        if is_local {
            defaults.0.push(OptionDefault {
                name: "timezone".to_owned(),
                command: None,
                values: vec!["local".to_owned()],
                origin: String::new(),
            });
        }
        matches = parse(&defaults)?.1;
    }
    let cli = Cli::from_arg_matches(&matches).map_err(ParseFailure::Usage)?;
    Ok((cli, matches))
}

/// Returns the command that was chosen, and its matches.
fn leaf<'c>(mut command: &'c Command, mut matches: &'c ArgMatches) -> (&'c Command, &'c ArgMatches) {
    while let Some((name, inner)) = matches.subcommand() {
        let Some(sub) = command.find_subcommand(name) else {
            break;
        };
        (command, matches) = (sub, inner);
    }
    (command, matches)
}

fn source(matches: &ArgMatches, arg: &Arg) -> Option<ValueSource> {
    let id = arg.get_id().as_str();
    matches.try_contains_id(id).ok().and_then(|_| matches.value_source(id))
}

/// Returns the options whose defaults conflict with what was typed.
fn overruled_options(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let (command, matches) = leaf(command, matches);
    let is_typed = |arg: &&Arg| source(matches, arg).is_some_and(|source| source != ValueSource::DefaultValue);
    let typed = command.get_arguments().filter(is_typed);
    let conflicts = typed.flat_map(|arg| {
        command
            .get_arg_conflicts_with(arg)
            .into_iter()
            .chain(conflicting(command, arg))
    });
    conflicts.filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
}

/// Returns the options that name `typed` as a conflict: conflicts are declared on one side.
fn conflicting<'c>(command: &'c Command, typed: &Arg) -> Vec<&'c Arg> {
    let names_it = |arg: &&Arg| {
        let conflicts = command.get_arg_conflicts_with(arg);
        conflicts.iter().any(|other| other.get_id() == typed.get_id())
    };
    command.get_arguments().filter(names_it).collect()
}

/// Whether a table goes to a terminal and no time zone is set.
fn wants_local_time(command: &Command, matches: &ArgMatches, is_terminal: bool) -> bool {
    let (command, matches) = leaf(command, matches);
    let value = |name: &str| {
        let values = matches.try_get_raw(name).ok().flatten();
        values
            .and_then(|mut values| values.next())
            .map(|value| value.to_string_lossy().into_owned())
    };
    let is_table = value("format").is_none_or(|format| format == "table" || format == "text");
    let is_file = value("output").is_some_and(|path| path != "-");
    let is_unset = command.get_arguments().any(|arg| {
        let is_default = source(matches, arg) == Some(ValueSource::DefaultValue);
        arg.get_long() == Some("timezone") && is_default && value("timezone").as_deref() == Some("UTC")
    });
    // Without a command the overview is printed, which asks again.
    is_terminal && is_unset && is_table && !is_file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(text: &str) -> OptionDefaults {
        let mut defaults = OptionDefaults::default();
        defaults.add_file("backcast.toml", text).unwrap();
        defaults
    }

    fn value(defaults: &OptionDefaults, typed: &[&str], name: &str) -> Option<String> {
        let command = defaults.apply(Cli::command()).unwrap();
        let matches = command.clone().try_get_matches_from(typed).unwrap();
        let (_, leaf) = leaf(&command, &matches);
        let values = leaf.try_get_raw(name).unwrap()?;
        Some(
            values
                .map(|value| value.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    #[test]
    fn options_have_the_defaults_of_the_file() {
        let defaults = defaults(
            "[options]\ntimezone = \"Europe/Zurich\"\nproject = [\"a\", \"b\"]\nquiet = true\n[options.stats]\nby = \"day\"\ntop = 3\n[options.\"memory extract\"]\nformat = \"json\"",
        );
        assert_eq!(value(&defaults, &["backcast", "stats"], "by").as_deref(), Some("day"));
        assert_eq!(
            value(&defaults, &["backcast", "stats", "--by=model"], "by").as_deref(),
            Some("model")
        );
        assert_eq!(value(&defaults, &["backcast", "audit"], "top").as_deref(), Some("6"));
        assert_eq!(
            value(&defaults, &["backcast", "audit"], "project").as_deref(),
            Some("a b")
        );
        assert_eq!(
            value(&defaults, &["backcast", "audit"], "quiet").as_deref(),
            Some("true")
        );
        assert_eq!(
            value(&defaults, &["backcast", "memory", "extract"], "format").as_deref(),
            Some("json")
        );
    }

    #[test]
    fn a_default_that_cannot_be_is_named() {
        let refuse = |text: &str| defaults(text).apply(Cli::command()).unwrap_err().to_string();
        assert_eq!(
            refuse("options.colour = true"),
            "backcast.toml: options.colour: no command has this option"
        );
        let error = refuse("[options.stats]\nby = \"moon\"");
        assert!(
            error.starts_with("backcast.toml: options.\"stats\".by: invalid value 'moon'"),
            "{error}"
        );
    }

    #[test]
    fn a_typed_option_overrules_a_default_that_conflicts() {
        let defaults = defaults("options.last = \"7d\"");
        let command = defaults.apply(Cli::command()).unwrap();
        let matches = command
            .clone()
            .try_get_matches_from(["backcast", "stats", "--since=2026-01-01"])
            .unwrap();
        assert_eq!(overruled_options(&command, &matches), ["last"]);
    }

    #[test]
    fn only_tables_on_a_terminal_have_local_times() {
        let command = Cli::command();
        let check = |typed: &[&str], is_terminal: bool| {
            let typed = ["backcast"].iter().chain(typed);
            wants_local_time(
                &command,
                &command.clone().try_get_matches_from(typed).unwrap(),
                is_terminal,
            )
        };
        assert!(check(&["stats"], true) && check(&["overview"], true));
        assert!(!check(&["stats"], false));
        assert!(!check(&["stats", "-f", "csv"], true));
        assert!(!check(&["stats", "-o", "x.txt"], true));
        assert!(!check(&["stats", "--timezone=UTC"], true));
    }
}
