//! The model as commands use it: opened from the command line, asked in as many passes as it takes, and its bill at the end.

use crate::cli::DocumentFormat;
use crate::cli::backend::{BackendArgs, BackendName};
use crate::commands::given::GivenOptions;
use crate::commands::print;
use crate::commands::terminal::notice;
use crate::commands::writing::load_prices;
use crate::run::{progress_with_template, resolve_cache_folder};
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use notes::TextError;
use notes::model::batches::BatchPolling;
use notes::model::client::{ApiKey, Client, Timeouts, parse_base_url};
use notes::model::ledger::{BillingRate, SpendingCaps, apply_rate, format_usd, to_micro_usd};
use notes::model::{AnthropicBackend, AskMode, CostEstimate, ModelEvent, ModelObserver, ModelSetup, RetryPolicy};
use replay::prices::PicoUsd;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use table::human::{
    format_count, format_count_with_plural, format_dollars, format_size, group_digits, round_up_dollars,
};
use transcript::parallel::{parallel_map, with_threads};

/// What may be spent if nothing is said: five dollars.
const DEFAULT_MAX_COST: u64 = 5_000_000;

/// Longest wait that a server may ask for.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Options that only a model has a use for.
const MODEL_OPTIONS: &[&str] = &[
    "estimate",
    "batch",
    "count-tokens",
    "backend-model",
    "max-cost",
    "max-calls",
    "max-tokens",
    "model-prices",
];

/// A model, ready to be asked.
pub struct ModelRunner {
    /// It.
    pub backend: AnthropicBackend,
    mode: AskMode,
    estimate: Option<DocumentFormat>,
    name: String,
    concurrency: usize,
    quiet: bool,
    bar: ProgressBar,
}

/// Answers to questions, in their order, and what stood in the way of the others.
pub struct AskResults<T> {
    /// An answer a question; `None` where there is none.
    pub answers: Vec<Option<T>>,
    failures: Vec<TextError>,
}

impl<T> AskResults<T> {
    /// Fails if a question has no answer, once everything else is done. Those that have one are not asked again.
    pub fn ensure_complete(&self) -> Result<()> {
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
            "some questions were not answered\n  {reasons}\n  hint: answers are stored; the same command asks only for the rest"
        )
    }
}

/// Opens the model that the arguments name; `None` for the offline backend. `cache` is the folder that a command names for
/// its cache, `remembers` whether it may keep anything there.
pub fn open_model(
    args: &BackendArgs,
    given: GivenOptions<'_>,
    cache: Option<&Path>,
    remembers: bool,
    quiet: bool,
) -> Result<Option<ModelRunner>> {
    if args.backend == BackendName::Offline {
        if let Some(given) = given.list(MODEL_OPTIONS) {
            bail!("{given}: the offline backend does not use a model\n  hint: add --backend anthropic");
        }
        return Ok(None);
    }
    let prices = load_prices(args.model_prices.as_deref())?;
    let price = prices.find(&args.backend_model).cloned();
    let caps = spending_caps(args, price.is_some())?;
    let mode = match (&args.estimate, args.batch) {
        (Some(_), _) => AskMode::Estimate,
        (None, true) => AskMode::Batch,
        (None, false) => AskMode::Now,
    };
    let server = parse_base_url(&args.base_url)?;
    let sends = mode != AskMode::Estimate || args.count_tokens;
    let timeouts = Timeouts {
        connect: CONNECT_TIMEOUT.min(Duration::from_secs_f64(args.timeout)),
        idle: Duration::from_secs_f64(args.idle_timeout.min(args.timeout)),
        whole: Duration::from_secs_f64(args.timeout),
    };
    let client = sends
        .then(|| Client::new(&args.base_url, api_key_from_env(), timeouts))
        .transpose()?;
    let folder = resolve_cache_folder(cache).filter(|_| remembers && !args.no_answers);
    let setup = ModelSetup {
        model: args.backend_model.clone(),
        price,
        caps,
        mode,
        counts_tokens: args.count_tokens,
        concurrency: usize::from(args.at_once),
        retry_policy: RetryPolicy {
            retries: args.retries,
            initial_wait: Duration::from_secs_f64(args.retry_wait),
            max_wait: MAX_WAIT,
        },
        polling: BatchPolling {
            interval: Duration::from_secs_f64(args.batch_poll),
            max_wait: Duration::from_secs_f64(args.batch_wait),
        },
        folder: folder.map(|folder| folder.join("model")),
    };
    let bar = spinner(quiet);
    Ok(Some(ModelRunner {
        backend: AnthropicBackend::new(
            setup,
            &server,
            client,
            progress_observer(args.verbose, quiet, bar.clone()),
        ),
        mode,
        estimate: args.estimate,
        name: args.backend_model.clone(),
        concurrency: usize::from(args.at_once),
        quiet,
        bar,
    }))
}

/// What goes on, in one line; silent where nobody watches.
fn spinner(quiet: bool) -> ProgressBar {
    let bar = progress_with_template(0, quiet, "{msg}");
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// A model without a price cannot be held to an amount of money, so it needs another cap.
fn spending_caps(args: &BackendArgs, has_price: bool) -> Result<SpendingCaps> {
    let is_capped = args.max_calls.is_some() || args.max_tokens.is_some();
    if !has_price && (args.max_cost.is_some() || !is_capped) {
        bail!(
            "no price is known for {}, so --max-cost cannot be enforced\n  hint: pass a table with its price (--model-prices FILE), or cap the run with --max-calls or --max-tokens",
            args.backend_model
        );
    }
    Ok(SpendingCaps {
        calls: args.max_calls,
        tokens: args.max_tokens,
        micro_usd: has_price.then(|| args.max_cost.unwrap_or(DEFAULT_MAX_COST)),
    })
}

/// The key, from the environment and from nowhere else.
fn api_key_from_env() -> Option<ApiKey> {
    let read = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let api = read("ANTHROPIC_API_KEY").map(ApiKey::Api);
    api.or_else(|| read("ANTHROPIC_AUTH_TOKEN").map(ApiKey::Bearer))
}

/// Shows what goes on.
fn progress_observer(detail: u8, quiet: bool, bar: ProgressBar) -> ModelObserver {
    let shown = bar.clone();
    let say = move |text: &str| shown.suspend(|| notice!("{text}"));
    let tell = move |event: ModelEvent<'_>| match event {
        ModelEvent::Received(bytes) => bar.set_message(format!("receiving an answer: {}", format_size(bytes as u64))),
        ModelEvent::Trace(_, text) => say(text),
        ModelEvent::Sent(task, at_try) if detail > 0 => say(&format!("{}: asked, try {at_try}", task.name())),
        ModelEvent::Answered(task, tokens) if detail > 0 => say(&format!(
            "{}: answered, {} tokens in and {} out",
            task.name(),
            group_digits(tokens.input_side()),
            group_digits(tokens.output)
        )),
        ModelEvent::Waiting(time, why) if !quiet => say(&format!("{why}; trying again in {:.1} s", time.as_secs_f64())),
        ModelEvent::Batch(id, what) if !quiet => say(&format!("batch {id} {what}")),
        ModelEvent::Warning(what) => say(what),
        ModelEvent::Sent(task, _) => bar.set_message(format!("asking: {}", task.name())),
        _ => {}
    };
    ModelObserver {
        detail,
        on_event: Box::new(tell),
    }
}

impl ModelRunner {
    /// Asks questions, a few at once.
    pub fn ask_all<Q: Sync, T: Send>(
        &self,
        questions: &[Q],
        ask: impl Fn(&AnthropicBackend, &Q) -> Result<T, TextError> + Sync,
    ) -> Result<AskResults<T>> {
        let results = with_threads(Some(self.concurrency), || {
            parallel_map(questions, |question| ask(&self.backend, question))
        })?;
        let mut asked = AskResults {
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

    /// Whether a pass finds out what to ask, and a later one finds the answers.
    pub fn asks_in_batches(&self) -> bool {
        self.mode == AskMode::Batch
    }

    /// Runs a command that asks questions, as often as it takes: with batches, a pass finds out what to ask, and the next
    /// one finds the answers. A pass is told whether it is the last, the one whose results count. `None` if it was only to
    /// be estimated, and was.
    pub fn run_passes<T>(&self, mut pass: impl FnMut(&ModelRunner, bool) -> Result<T>) -> Result<Option<T>> {
        match self.mode {
            AskMode::Now => {}
            AskMode::Estimate => {
                pass(self, false)?;
                self.print_estimate()?;
                return Ok(None);
            }
            AskMode::Batch => loop {
                pass(self, false)?;
                if !self.backend.run_batch().context("the batch")? {
                    break;
                }
            },
        }
        pass(self, true).map(Some)
    }

    /// Says what it came to.
    pub fn print_spending(&self) {
        self.bar.finish_and_clear();
        let tally = self.backend.totals();
        if self.quiet || (tally.spent.calls == 0 && tally.known == 0 && tally.fetched == 0) {
            return;
        }
        let spent = &tally.spent;
        let mut text = format!(
            "{}: {}, {} in ({} of them from the prompt cache), {} out, ${}",
            self.name,
            format_count(spent.calls, "call"),
            format_count(spent.tokens.input_side(), "token"),
            group_digits(spent.tokens.cache_read),
            group_digits(spent.tokens.output),
            format_usd(&to_micro_usd(spent.pico))
        );
        if spent.unsettled_tokens > 0 {
            text.push_str(&format!(
                " (with up to {} of calls whose end is not known)",
                format_count(spent.unsettled_tokens, "token")
            ));
        }
        if tally.known > 0 {
            text.push_str(&format!(
                "; {} known",
                format_count_with_plural(tally.known, "answer was", "answers were")
            ));
        }
        if tally.damaged > 0 {
            text.push_str(&format!(
                "; {} damaged",
                format_count_with_plural(tally.damaged, "stored answer was", "stored answers were")
            ));
        }
        if tally.fetched > 0 {
            text.push_str(&format!(
                "; {} came from an earlier run's batch, ${}",
                group_digits(tally.fetched),
                format_usd(&to_micro_usd(tally.fetched_pico))
            ));
        }
        notice!("{text}");
    }

    fn print_estimate(&self) -> Result<()> {
        let estimate = self.backend.estimate();
        let text = match self.estimate.unwrap_or_default() {
            DocumentFormat::Json => estimate_json(&self.name, &estimate),
            DocumentFormat::Text => estimate_text(&self.name, &estimate),
        };
        print(text.as_bytes())?;
        Ok(())
    }
}

/// Schema version of `--estimate=json`.
const SCHEMA_VERSION: u32 = 1;

fn estimate_json(model: &str, estimate: &CostEstimate) -> String {
    let dollars = |rate| estimate.pico.map(|pico| to_micro_usd(apply_rate(rate, pico)));
    let value = json!({
        "schema_version": SCHEMA_VERSION,
        "kind": "estimate",
        "model": model,
        "calls": estimate.calls,
        "known_answers": estimate.known,
        "input_tokens": estimate.input,
        "input_tokens_from": if estimate.is_counted { "server" } else { "estimate" },
        "max_output_tokens": estimate.output,
        "max_cost_micro_usd": dollars(BillingRate::Full),
        "max_cost_batch_micro_usd": dollars(BillingRate::Half),
    });
    format!("{value:#}\n")
}

/// Picodollars in a millionth of a dollar.
const PICO_PER_MICRO: PicoUsd = 1_000_000;

fn estimate_text(model: &str, estimate: &CostEstimate) -> String {
    // An upper bound is rounded up, never down, to the last digit that is shown.
    let most = |rate| {
        let micro = estimate
            .pico
            .map(|pico| apply_rate(rate, pico).div_ceil(PICO_PER_MICRO));
        let micro = micro.and_then(|micro| i64::try_from(micro).ok());
        micro.map_or("no price is known".to_owned(), |micro| {
            format!("{} at most", format_dollars(round_up_dollars(micro)))
        })
    };
    let counted = if estimate.is_counted {
        "counted by the server"
    } else {
        "estimated"
    };
    format!(
        "model            {model}\ncalls            {}\nknown answers    {}\ntokens in        {} ({counted})\ntokens out       {} at most\ncost             {}\ncost in batches  {}\n",
        group_digits(estimate.calls),
        group_digits(estimate.known),
        group_digits(estimate.input),
        group_digits(estimate.output),
        most(BillingRate::Full),
        most(BillingRate::Half),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_that_it_costs_is_rounded_up() {
        let text = |pico| {
            let estimate = CostEstimate {
                pico,
                ..CostEstimate::default()
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
        assert_eq!(text(Some(1)), "$0.0001 at most");
        assert_eq!(text(Some(0)), "$0.00 at most");
        assert_eq!(text(None), "no price is known");
    }
}
