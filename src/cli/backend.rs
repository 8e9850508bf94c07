//! The command line of text backends, as typed.

use crate::cli::DocumentFormat;
use clap::{Args, ValueEnum};
use notes::model::{BASE_URL, DEFAULT_MODEL};
use std::path::PathBuf;

/// What writes texts and finds memories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// Rules and structure: nothing leaves this machine
    #[default]
    Offline,
    /// A model over HTTP: the Messages API, or a server that speaks it
    Anthropic,
}

/// Which backend, and what it may spend.
#[derive(Debug, Args)]
pub struct BackendArgs {
    /// What does the work. `anthropic` sends the words of your sessions, secrets masked, to a model; the key comes from
    /// ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) in the environment and from nowhere else.
    #[arg(long, value_enum, default_value_t, value_name = "NAME", help_heading = "Model")]
    pub backend: BackendName,
    /// The model of the backend.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_MODEL, help_heading = "Model")]
    pub backend_model: String,
    /// The server: https, or http on this machine (a model of your own needs no key).
    #[arg(
        long,
        value_name = "URL",
        default_value = BASE_URL,
        env = "ANTHROPIC_BASE_URL",
        hide_env_values = true,
        help_heading = "Model"
    )]
    pub base_url: String,
    /// Print calls, tokens and dollars, and send nothing (except with --count-tokens).
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text",
        help_heading = "Model"
    )]
    pub estimate: Option<DocumentFormat>,
    /// Have the server count the tokens of each request before it is sent: exact, free, and sends the texts.
    #[arg(long, help_heading = "Model")]
    pub count_tokens: bool,
    /// Send everything in batches: half the price, within a day. If a run is interrupted, the next one resumes it.
    #[arg(long, conflicts_with = "estimate", help_heading = "Model")]
    pub batch: bool,
    /// Maximum cost of a run in dollars; never exceeded [default: 5].
    #[arg(long, value_name = "USD", value_parser = parse_dollars, help_heading = "Model")]
    pub max_cost: Option<u64>,
    /// Maximum number of calls of a run, failed ones included.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub max_calls: Option<u64>,
    /// Maximum number of tokens of a run, sent and received.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub max_tokens: Option<u64>,
    /// Calls in flight at a time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Model")]
    pub at_once: u16,
    /// Do not use or store cached answers.
    #[arg(long, help_heading = "Model")]
    pub no_answers: bool,
    /// Price table to use instead of the built-in one (JSON).
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub model_prices: Option<PathBuf>,
    /// Retries if the server is busy or cannot be reached.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(..=20), help_heading = "Model")]
    pub retries: u32,
    /// Longest time to wait for an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, value_parser = parse_seconds, help_heading = "Model")]
    pub timeout: f64,
    /// Longest silence before or during an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = parse_seconds, help_heading = "Model")]
    pub idle_timeout: f64,
    /// Longest time to wait for a batch; the next run resumes it.
    #[arg(long, value_name = "SECONDS", default_value_t = 90_000.0, value_parser = parse_seconds, help_heading = "Model")]
    pub batch_wait: f64,
    /// Log the traffic: calls, then addresses and statuses (`-vv`), then texts (`-vvv`). Never the key.
    #[arg(long, short, action = clap::ArgAction::Count, help_heading = "Model")]
    pub verbose: u8,
    /// Wait before the second try; doubles with each.
    #[arg(long, hide = true, default_value_t = 1.0, value_parser = parse_seconds)]
    pub retry_wait: f64,
    /// Time between two looks at a batch.
    #[arg(long, hide = true, default_value_t = 30.0, value_parser = parse_seconds)]
    pub batch_poll: f64,
}

/// Dollars in millionths, by their digits: no binary fraction comes between.
fn parse_dollars(text: &str) -> Result<u64, String> {
    let wrong = || "an amount is dollars with at most six digits after the point, like 2.50".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) || part.len() > 6 {
        return Err(wrong());
    }
    let whole = whole.parse::<u64>().map_err(|_| wrong())?;
    let part = format!("{part:0<6}").parse::<u64>().map_err(|_| wrong())?;
    let micro = whole.checked_mul(1_000_000).and_then(|micro| micro.checked_add(part));
    micro.ok_or_else(wrong)
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|_| "a number of seconds".to_owned())?;
    if (0.0..=10_000_000.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("a number of seconds from 0 to 10,000,000".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_digit_by_digit() {
        for (text, micro) in [
            ("5", 5_000_000),
            ("0.1", 100_000),
            ("2.50", 2_500_000),
            ("0.000001", 1),
            ("0", 0),
        ] {
            assert_eq!(parse_dollars(text), Ok(micro), "{text}");
        }
        for wrong in ["", ".", ".5", "-1", "1e3", "0.0000001", "$5", "99999999999999999999"] {
            assert!(parse_dollars(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_plain_numbers() {
        assert_eq!(parse_seconds("0.05"), Ok(0.05));
        for wrong in ["", "-1", "NaN", "inf", "1s"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
