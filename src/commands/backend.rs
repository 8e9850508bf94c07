//! The model as commands use it: opened from the command line, asked in as many passes as it takes, and its bill at the end.

use crate::cli::backend::{BackendArgs, BackendName};
use crate::cli::memory::Shape;
use crate::commands::print;
use crate::commands::reading::{cache_place, progress};
use crate::commands::writing::load_prices;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use notes::TextError;
use notes::model::batches::Waits;
use notes::model::client::{Client, Key, Timeouts, checked_base};
use notes::model::ledger::{Caps, Rate, at, micro, money};
use notes::model::{Anthropic, Estimate, Event, MODEL, Mode, Patience, Setup, Watch};
use replay::prices::Pico;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use table::words::{count, count_of, dollars, given, grouped, size_text};
use transcript::parallel::{side_by_side, with_threads};

/// What may be spent if nothing is said: five dollars.
const MAX_COST: u64 = 5_000_000;

/// Longest wait that a server may ask for.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Time for a connection.
const CONNECT: Duration = Duration::from_secs(15);

/// A model, ready to be asked.
pub struct Model {
    /// It.
    pub backend: Anthropic,
    mode: Mode,
    estimate: Option<Shape>,
    name: String,
    at_once: usize,
    quiet: bool,
    bar: ProgressBar,
}

/// Answers to questions, in their order, and what stood in the way of the others.
pub struct Asked<T> {
    /// An answer a question; `None` where there is none.
    pub answers: Vec<Option<T>>,
    failures: Vec<TextError>,
}

impl<T> Asked<T> {
    /// Fails if a question has no answer, once everything else is done. Those that have one are not asked again.
    pub fn complete(&self) -> Result<()> {
        if self.failures.is_empty() {
            return Ok(());
        }
        let mut counts = BTreeMap::<String, u64>::new();
        for failure in &self.failures {
            *counts.entry(failure.to_string()).or_insert(0) += 1;
        }
        let all = self.answers.len();
        let reasons = counts.iter().map(|(why, count)| format!("{count} of {all}: {why}"));
        let reasons = reasons.collect::<Vec<_>>().join("\n  ");
        bail!(
            "some questions have no answer\n  {reasons}\n  hint: what was answered is kept; the same command asks only for the rest"
        )
    }
}

/// Opens the model that the arguments name; `None` for the offline backend. `cache` is the folder that a command names for
/// its cache, `remembers` whether it may keep anything there.
pub fn open(args: &BackendArgs, cache: Option<&Path>, remembers: bool, quiet: bool) -> Result<Option<Model>> {
    if args.backend == BackendName::Offline {
        let given = given(&[
            ("--estimate", args.estimate.is_some()),
            ("--batch", args.batch),
            ("--count-tokens", args.count_tokens),
            ("--model", args.model != MODEL),
            ("--max-cost", args.max_cost.is_some()),
            ("--max-calls", args.max_calls.is_some()),
            ("--max-tokens", args.max_tokens.is_some()),
            ("--model-prices", args.model_prices.is_some()),
        ]);
        if let Some(given) = given {
            bail!("{given}: about a model, and the offline backend asks none\n  hint: add --backend anthropic");
        }
        return Ok(None);
    }
    let prices = load_prices(args.model_prices.as_deref())?;
    let price = prices.find(&args.model).cloned();
    let caps = caps(args, price.is_some())?;
    let mode = match (&args.estimate, args.batch) {
        (Some(_), _) => Mode::Estimate,
        (None, true) => Mode::Batch,
        (None, false) => Mode::Now,
    };
    let server = checked_base(&args.base_url)?;
    let sends = mode != Mode::Estimate || args.count_tokens;
    let timeouts = Timeouts {
        connect: CONNECT.min(Duration::from_secs_f64(args.timeout)),
        idle: Duration::from_secs_f64(args.idle_timeout.min(args.timeout)),
        whole: Duration::from_secs_f64(args.timeout),
    };
    let client = sends
        .then(|| Client::new(&args.base_url, key(), timeouts))
        .transpose()?;
    let folder = cache_place(cache).filter(|_| remembers && !args.no_answers);
    let setup = Setup {
        model: args.model.clone(),
        price,
        caps,
        mode,
        counts: args.count_tokens,
        at_once: usize::from(args.at_once),
        patience: Patience {
            retries: args.retries,
            base: Duration::from_secs_f64(args.retry_wait),
            most: MAX_WAIT,
        },
        waits: Waits {
            poll: Duration::from_secs_f64(args.batch_poll),
            most: Duration::from_secs_f64(args.batch_wait),
        },
        folder: folder.map(|folder| folder.join("model")),
    };
    let bar = spinner(quiet);
    Ok(Some(Model {
        backend: Anthropic::new(setup, &server, client, watch(args.verbose, quiet, bar.clone())),
        mode,
        estimate: args.estimate,
        name: args.model.clone(),
        at_once: usize::from(args.at_once),
        quiet,
        bar,
    }))
}

/// What goes on, in one line; silent where nobody watches.
fn spinner(quiet: bool) -> ProgressBar {
    let bar = progress(0, quiet, "{msg}");
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// A model without a price cannot be held to an amount of money, so it needs another cap.
fn caps(args: &BackendArgs, has_price: bool) -> Result<Caps> {
    let is_capped = args.max_calls.is_some() || args.max_tokens.is_some();
    if !has_price && (args.max_cost.is_some() || !is_capped) {
        bail!(
            "no price is known for {}, so no amount of money can be kept to\n  hint: --model-prices FILE takes a table that has one; or cap the run with --max-calls or --max-tokens instead",
            args.model
        );
    }
    Ok(Caps {
        calls: args.max_calls,
        tokens: args.max_tokens,
        micro_usd: has_price.then(|| args.max_cost.unwrap_or(MAX_COST)),
    })
}

/// The key, from the environment and from nowhere else.
fn key() -> Option<Key> {
    let read = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let api = read("ANTHROPIC_API_KEY").map(Key::Api);
    api.or_else(|| read("ANTHROPIC_AUTH_TOKEN").map(Key::Bearer))
}

/// Shows what goes on.
fn watch(detail: u8, quiet: bool, bar: ProgressBar) -> Watch {
    let shown = bar.clone();
    let say = move |text: &str| shown.suspend(|| eprintln!("{text}"));
    let tell = move |event: Event<'_>| match event {
        Event::Received(bytes) => bar.set_message(format!("an answer is coming in: {}", size_text(bytes as u64))),
        Event::Trace(_, text) => say(text),
        Event::Sent(task, at_try) if detail > 0 => say(&format!("{}: asked, try {at_try}", task.name())),
        Event::Answered(task, tokens) if detail > 0 => say(&format!(
            "{}: answered, {} tokens in and {} out",
            task.name(),
            grouped(tokens.input_side()),
            grouped(tokens.output)
        )),
        Event::Waiting(time, why) if !quiet => say(&format!("{why}; trying again in {:.1} s", time.as_secs_f64())),
        Event::Batch(id, what) if !quiet => say(&format!("batch {id} {what}")),
        Event::Trouble(what) => say(what),
        Event::Sent(task, _) => bar.set_message(format!("asking: {}", task.name())),
        _ => {}
    };
    Watch {
        detail,
        tell: Box::new(tell),
    }
}

impl Model {
    /// Asks questions, a few at once.
    pub fn ask<Q: Sync, T: Send>(
        &self,
        questions: &[Q],
        ask: impl Fn(&Anthropic, &Q) -> Result<T, TextError> + Sync,
    ) -> Result<Asked<T>> {
        let results = with_threads(Some(self.at_once), || {
            side_by_side(questions, |question| ask(&self.backend, question))
        })?;
        let mut asked = Asked {
            answers: Vec::with_capacity(results.len()),
            failures: Vec::new(),
        };
        for result in results {
            match result {
                Ok(answer) => asked.answers.push(Some(answer)),
                Err(error) => {
                    asked.answers.push(None);
                    asked.failures.push(error);
                }
            }
        }
        Ok(asked)
    }

    /// Runs a command that asks questions, as often as it takes: with batches, a pass finds out what to ask, and the next
    /// one finds the answers. A pass is told whether it is the last, the one whose results count. `None` if it was only to
    /// be estimated, and was.
    pub fn passes<T>(&self, mut pass: impl FnMut(&Model, bool) -> Result<T>) -> Result<Option<T>> {
        match self.mode {
            Mode::Now => {}
            Mode::Estimate => {
                pass(self, false)?;
                self.print_estimate()?;
                return Ok(None);
            }
            Mode::Batch => loop {
                pass(self, false)?;
                if !self.backend.fill().context("the batch")? {
                    break;
                }
            },
        }
        pass(self, true).map(Some)
    }

    /// Says what it came to.
    pub fn close(&self) {
        self.bar.finish_and_clear();
        let tally = self.backend.tally();
        if self.quiet || (tally.spent.calls == 0 && tally.known == 0 && tally.fetched == 0) {
            return;
        }
        let spent = &tally.spent;
        let mut text = format!(
            "{}: {}, {} in ({} of them from the prompt cache), {} out, ${}",
            self.name,
            count(spent.calls, "call"),
            count(spent.tokens.input_side(), "token"),
            grouped(spent.tokens.cache_read),
            grouped(spent.tokens.output),
            money(&micro(spent.pico))
        );
        if spent.unknown_tokens > 0 {
            text.push_str(&format!(
                " (with up to {} of calls whose end is not known)",
                count(spent.unknown_tokens, "token")
            ));
        }
        if tally.known > 0 {
            text.push_str(&format!(
                "; {} known",
                count_of(tally.known, "answer was", "answers were")
            ));
        }
        if tally.fetched > 0 {
            text.push_str(&format!(
                "; {} came from an earlier run's batch, ${}",
                grouped(tally.fetched),
                money(&micro(tally.fetched_pico))
            ));
        }
        eprintln!("{text}");
    }

    fn print_estimate(&self) -> Result<()> {
        let estimate = self.backend.estimate();
        let text = match self.estimate.unwrap_or_default() {
            Shape::Json => estimate_json(&self.name, &estimate),
            Shape::Text => estimate_text(&self.name, &estimate),
        };
        print(text.as_bytes())?;
        Ok(())
    }
}

/// Schema version of `--estimate=json`.
const SCHEMA_VERSION: u32 = 1;

fn estimate_json(model: &str, estimate: &Estimate) -> String {
    let dollars = |rate| estimate.pico.map(|pico| micro(at(rate, pico)));
    let value = json!({
        "schema_version": SCHEMA_VERSION,
        "model": model,
        "calls": estimate.calls,
        "known_answers": estimate.known,
        "input_tokens": estimate.input,
        "input_tokens_from": if estimate.is_counted { "server" } else { "estimate" },
        "max_output_tokens": estimate.output,
        "max_cost_micro_usd": dollars(Rate::Full),
        "max_cost_batch_micro_usd": dollars(Rate::Half),
    });
    format!("{value:#}\n")
}

/// Prices are counted in millionths of a millionth of a dollar.
const PICO_PER_CENT: Pico = 10_000_000_000;

fn estimate_text(model: &str, estimate: &Estimate) -> String {
    // What it costs at most is rounded up to the cent: less would not be the most.
    let most = |rate| {
        let cents = estimate.pico.map(|pico| at(rate, pico).div_ceil(PICO_PER_CENT));
        let micro = cents.and_then(|cents| i64::try_from(cents.saturating_mul(10_000)).ok());
        micro.map_or("no price is known".to_owned(), |micro| {
            format!("{} at most", dollars(Some(micro)))
        })
    };
    let counted = if estimate.is_counted {
        "counted by the server"
    } else {
        "estimated"
    };
    format!(
        "model            {model}\ncalls            {}\nknown answers    {}\ntokens in        {} ({counted})\ntokens out       {} at most\ncost             {}\ncost in batches  {}\n",
        grouped(estimate.calls),
        grouped(estimate.known),
        grouped(estimate.input),
        grouped(estimate.output),
        most(Rate::Full),
        most(Rate::Half),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_it_costs_is_rounded_up_to_the_cent() {
        let text = |pico| {
            let estimate = Estimate {
                pico,
                ..Estimate::default()
            };
            let text = estimate_text("some-model", &estimate);
            let line = text.lines().find(|line| line.starts_with("cost  "));
            line.unwrap_or_default()
                .split_whitespace()
                .skip(1)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(text(Some(15_703_785_000_000)), "$15.71 at most");
        assert_eq!(text(Some(15_710_000_000_000)), "$15.71 at most");
        assert_eq!(text(Some(1)), "$0.01 at most");
        assert_eq!(text(Some(0)), "$0.00 at most");
        assert_eq!(text(None), "no price is known");
    }
}
