//! A model over HTTP: the Messages API, or any server that speaks it.
//!
//! A question is a `Request`; `Anthropic::ask` answers it from what is known already, or asks the model, within the
//! budget. What a transcript says is material to the model, never instruction ([`fence`]), and an answer is used only after
//! it was read into the form that was asked for. The files here, from the wire up: [`client`], [`stream`], [`ledger`],
//! [`answers`], [`batches`]; then what is asked: [`writing`] (summaries and notes), [`extract`], [`dream`], [`recall`].

#![allow(clippy::disallowed_methods, reason = "waits between tries")]

pub mod answers;
pub mod batches;
pub mod client;
pub mod dream;
pub mod extract;
pub mod fence;
pub mod ledger;
pub mod reading;
pub mod recall;
pub mod request;
pub mod stream;
pub mod writing;

use crate::TextError;
use answers::ModelAnswerStore;
use batches::{BatchPolling, BatchRequest, BatchRunner};
use client::{Client, RequestFailure};
use ledger::{BillingRate, Spending, SpendingCaps, SpendingLedger};
use replay::prices::{PicoUsd, Price};
use request::{AnswerKey, ModelRequest, ModelTask};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stream::{AnswerFault, ModelAnswer};
use transcript::record::Tokens;

/// Where the API is, if nothing else is named.
pub const BASE_URL: &str = "https://api.anthropic.com";

/// The model that is asked, if no other is named.
pub const DEFAULT_MODEL: &str = "claude-sonnet-5-5";

/// Largest output that any model gives.
const MAX_OUTPUT: u64 = 128_000;

/// What goes on while a model is asked, for whoever watches.
#[derive(Debug)]
pub enum ModelEvent<'e> {
    /// A call was sent; which try it is, from 1.
    Sent(ModelTask, u32),
    /// So many bytes of the answer are there.
    Received(usize),
    /// An answer is complete.
    Answered(ModelTask, &'e Tokens),
    /// It is waited before the next try.
    Waiting(Duration, &'e str),
    /// News of a batch: its id, and what.
    Batch(&'e str, &'e str),
    /// Something that does not stop the run.
    Warning(&'e str),
    /// What goes over the wire, from level 2 on.
    Trace(u8, &'e str),
}

/// Whoever watches.
pub struct ModelObserver {
    /// How much of the wire is told.
    pub detail: u8,
    /// Takes the news.
    pub on_event: Box<dyn Fn(ModelEvent<'_>) + Send + Sync>,
}

impl ModelObserver {
    /// Nobody.
    pub fn none() -> ModelObserver {
        ModelObserver {
            detail: 0,
            on_event: Box::new(|_| ()),
        }
    }

    fn notify(&self, event: ModelEvent<'_>) {
        (self.on_event)(event);
    }

    #[cfg_attr(not(feature = "model"), allow(dead_code, reason = "only the HTTP client calls it"))]
    fn trace(&self, level: u8, text: impl FnOnce() -> String) {
        if self.detail >= level {
            self.notify(ModelEvent::Trace(level, &text()));
        }
    }

    fn warn_not_stored(&self, error: &std::io::Error) {
        self.notify(ModelEvent::Warning(&format!("an answer could not be kept: {error}")));
    }
}

/// How patient to be with a server that is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries after the first.
    pub retries: u32,
    /// Wait before the second try; it doubles with every further one.
    pub initial_wait: Duration,
    /// Longest wait.
    pub max_wait: Duration,
}

impl RetryPolicy {
    /// How long to wait after a try, counted from 0; `None` if that is not worth it.
    fn backoff(&self, tried: u32, failure: &RequestFailure) -> Option<Duration> {
        if tried >= self.retries {
            return None;
        }
        let doubled = self
            .initial_wait
            .saturating_mul(2_u32.saturating_pow(tried.min(20)))
            .min(self.max_wait);
        match failure.retry_after() {
            // The server knows best; but nobody waits for hours without having been asked.
            Some(asked) => Some(asked).filter(|asked| *asked <= self.max_wait),
            None => Some(doubled),
        }
    }

    /// Tries until it works, or until it is not worth another try.
    fn run_with_retries<T>(
        &self,
        is_worth: impl Fn(&RequestFailure) -> bool,
        watch: &ModelObserver,
        mut attempt: impl FnMut() -> Result<T, RequestFailure>,
    ) -> Result<T, RequestFailure> {
        let mut tried = 0;
        loop {
            let failure = match attempt() {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let wait = Some(&failure).filter(|failure| is_worth(failure));
            let Some(wait) = wait.and_then(|failure| self.backoff(tried, failure)) else {
                return Err(failure);
            };
            watch.notify(ModelEvent::Waiting(wait, &failure.to_string()));
            std::thread::sleep(wait);
            tried += 1;
        }
    }
}

/// What happens to a question that no known answer fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskMode {
    /// It is asked now.
    Now,
    /// It is put down, and asked with the others in a batch (`Anthropic::fill`).
    Batch,
    /// It is only counted.
    Estimate,
}

/// How a model is asked.
#[derive(Debug, Clone)]
pub struct ModelSetup {
    /// The model.
    pub model: String,
    /// Its price, if it has one.
    pub price: Option<Price>,
    /// What may be spent.
    pub caps: SpendingCaps,
    /// When.
    pub mode: AskMode,
    /// Whether the server is asked for the exact size of a request before it is sent.
    pub counts_tokens: bool,
    /// Calls on their way at once.
    pub concurrency: usize,
    /// Patience with failures.
    pub retry_policy: RetryPolicy,
    /// Patience with batches.
    pub polling: BatchPolling,
    /// Folder where answers and notes of batches are kept; `None` keeps them for the run only.
    pub folder: Option<PathBuf>,
}

/// A question that was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestSize {
    input: u64,
    output: u64,
}

/// What a run would send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// Calls.
    pub calls: u64,
    /// Answers that are known already.
    pub known: u64,
    /// Tokens sent, about; as counted by the server if it was asked.
    pub input: u64,
    /// Tokens received, at most.
    pub output: u64,
    /// What it costs at most, in calls and in batches; `None` without a price.
    pub pico: Option<PicoUsd>,
    /// Whether the tokens were counted by the server.
    pub is_counted: bool,
}

/// What a run asked and got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelRunTotals {
    /// What was spent.
    pub spent: Spending,
    /// Answers that were known.
    pub known: u64,
    /// Answers of a batch that an earlier run had sent.
    pub fetched: u64,
    /// What those cost.
    pub fetched_pico: PicoUsd,
    /// Stored answers that were damaged.
    pub damaged: u64,
}

/// The backend.
pub struct AnthropicBackend {
    setup: ModelSetup,
    /// None if nothing is to be sent.
    client: Option<Client>,
    server: String,
    ledger: SpendingLedger,
    answers: ModelAnswerStore,
    observer: ModelObserver,
    slots: CallSemaphore,
    state: Mutex<AskState>,
}

#[derive(Default)]
struct AskState {
    /// Questions for the next batch.
    pending: BTreeMap<AnswerKey, BatchRequest>,
    /// Questions that have no answer in this run.
    failed: BTreeMap<AnswerKey, TextError>,
    counted: BTreeMap<AnswerKey, RequestSize>,
    /// Questions that were answered before this run.
    known: BTreeSet<AnswerKey>,
    /// Questions that were answered in it.
    answered: BTreeSet<AnswerKey>,
    fetched: u64,
    fetched_tokens: Tokens,
    /// Why nothing more is asked.
    fatal_error: Option<TextError>,
}

impl AnthropicBackend {
    /// A backend that asks a server, or none at all: then it answers only what is known.
    pub fn new(setup: ModelSetup, server: &str, client: Option<Client>, watch: ModelObserver) -> AnthropicBackend {
        let folder = |name: &str| setup.folder.as_ref().map(|folder| folder.join(name));
        AnthropicBackend {
            ledger: SpendingLedger::new(setup.caps, setup.price.as_ref().map(Price::tariff)),
            answers: ModelAnswerStore::new(folder("answers")),
            slots: CallSemaphore::new(setup.concurrency),
            server: client.as_ref().map_or(server, Client::base).to_owned(),
            client,
            observer: watch,
            state: Mutex::default(),
            setup,
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, AskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request to the model for at most so much output, or as much as it gives.
    pub fn request(&self, task: ModelTask, max_output: u64, instructions: &str) -> ModelRequest {
        let most = self.setup.price.as_ref().and_then(|price| price.max_output);
        ModelRequest::new(
            task,
            &self.setup.model,
            max_output.min(most.unwrap_or(MAX_OUTPUT)),
            instructions,
        )
    }

    /// What was asked and what it came to.
    pub fn totals(&self) -> ModelRunTotals {
        let state = self.lock_state();
        let pico = self.ledger.cost(&state.fetched_tokens).unwrap_or(0);
        ModelRunTotals {
            spent: self.ledger.spending(),
            known: state.known.len() as u64,
            fetched: state.fetched,
            fetched_pico: ledger::apply_rate(BillingRate::Half, pico),
            damaged: self.answers.damaged_count(),
        }
    }

    /// What a run would send.
    pub fn estimate(&self) -> CostEstimate {
        let state = self.lock_state();
        let mut estimate = CostEstimate {
            known: state.known.len() as u64,
            is_counted: self.setup.counts_tokens,
            pico: self.setup.price.as_ref().map(|_| 0),
            ..CostEstimate::default()
        };
        for counted in state.counted.values() {
            estimate.calls += 1;
            estimate.input += counted.input;
            estimate.output += counted.output;
            if let Some(pico) = &mut estimate.pico {
                *pico += self.ledger.worst_case(counted.input, counted.output).pico;
            }
        }
        estimate
    }

    /// Answers a question: from what is known, else by asking. `read` takes the answer in; what it does not accept is no
    /// answer, is asked for once more, and is never kept.
    pub fn ask<T>(&self, request: &ModelRequest, read: impl Fn(&str) -> Result<T, String>) -> Result<T, TextError> {
        let name = request.answer_key(&self.server);
        if let Some(answer) = self.answers.get(&name) {
            match answer_text(&answer).and_then(|text| read(text).map_err(TextError::Failed)) {
                Ok(done) => {
                    let mut state = self.lock_state();
                    if !state.answered.contains(&name) {
                        state.known.insert(name);
                    }
                    return Ok(done);
                }
                Err(error) => {
                    self.answers.remove_answer(&name);
                    if self.setup.mode == AskMode::Batch {
                        let error =
                            TextError::Failed(format!("the answer is not in the form that was asked for: {error}"));
                        self.lock_state().failed.insert(name, error.clone());
                        return Err(error);
                    }
                }
            }
        }
        let state = self.lock_state();
        if let Some(error) = state.fatal_error.as_ref().or_else(|| state.failed.get(&name)) {
            return Err(error.clone());
        }
        match self.setup.mode {
            AskMode::Now => drop(state),
            AskMode::Batch => {
                let is_new = !state.pending.contains_key(&name);
                drop(state);
                if is_new {
                    let wanted = BatchRequest {
                        max_input_tokens: self.request_size(request)?.1,
                        request: request.clone(),
                    };
                    self.lock_state().pending.insert(name, wanted);
                }
                return Err(TextError::Pending);
            }
            AskMode::Estimate => {
                let is_new = !state.counted.contains_key(&name);
                drop(state);
                if is_new {
                    let counted = RequestSize {
                        input: self.request_size(request)?.0,
                        output: request.max_output(),
                    };
                    self.lock_state().counted.insert(name, counted);
                }
                return Err(TextError::Pending);
            }
        }
        self.ask_until_valid(request, &name, &read).inspect_err(|error| {
            let mut state = self.lock_state();
            if matches!(error, TextError::Budget(_)) {
                state.fatal_error = Some(error.clone());
            }
            state.failed.insert(name.clone(), error.clone());
        })
    }

    /// Tokens of a request: about, and at most.
    fn request_size(&self, request: &ModelRequest) -> Result<(u64, u64), TextError> {
        if !self.setup.counts_tokens {
            return Ok((request.estimate_tokens(), request.max_input_tokens()));
        }
        let client = self.client()?;
        let body = request.count_body();
        let count = || client.json("/v1/messages/count_tokens", Some(&body), &self.observer);
        let answer = self
            .setup
            .retry_policy
            .run_with_retries(RequestFailure::is_transient, &self.observer, count);
        let answer = answer.map_err(|failure| self.record_failure(&failure))?;
        let count = answer["input_tokens"]
            .as_u64()
            .ok_or_else(|| TextError::Failed("the server did not say how many tokens it counts".into()))?;
        // The count is said to be close, not exact.
        Ok((count, count.saturating_add(count / 50).saturating_add(64)))
    }

    fn client(&self) -> Result<&Client, TextError> {
        self.client
            .as_ref()
            .ok_or_else(|| TextError::Failed("nothing may be sent".into()))
    }

    /// Asks the model until it gives an answer in the right form, twice at most.
    fn ask_until_valid<T>(
        &self,
        request: &ModelRequest,
        name: &AnswerKey,
        read: &impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, TextError> {
        let (_, bound) = self.request_size(request)?;
        let mut wrong = String::new();
        for _ in 0..2 {
            let answer = self.fetch(request, bound)?;
            match read(answer_text(&answer)?) {
                Ok(done) => {
                    self.answers
                        .store(name, &answer)
                        .unwrap_or_else(|error| self.observer.warn_not_stored(&error));
                    self.lock_state().answered.insert(name.clone());
                    return Ok(done);
                }
                Err(why) => wrong = why,
            }
        }
        Err(TextError::Failed(format!(
            "the answer is not in the form that was asked for, twice: {wrong}"
        )))
    }

    /// One answer, after as many tries as are worth it. Every try is held against the budget before it is sent.
    fn fetch(&self, request: &ModelRequest, bound: u64) -> Result<ModelAnswer, TextError> {
        let client = self.client()?;
        let body = request.body(true);
        let _slot = self.slots.acquire();
        let mut tried = 0;
        loop {
            if let Some(error) = self.lock_state().fatal_error.clone() {
                return Err(error);
            }
            let worst = self.ledger.worst_case(bound, request.max_output());
            let hold = self.ledger.reserve(worst, BillingRate::Full);
            let hold = hold.map_err(|refusal| TextError::Budget(refusal.to_string()))?;
            self.observer.notify(ModelEvent::Sent(request.task(), tried + 1));
            let failure = match client.message(&body, max_text_bytes(request.max_output()), &self.observer) {
                // A server that does not say what it took is taken at its worst.
                Ok(answer) => {
                    if !answer.usage.is_zero() {
                        hold.settle(&answer.usage);
                    }
                    self.observer
                        .notify(ModelEvent::Answered(request.task(), &answer.usage));
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            if failure.is_unbilled() {
                hold.release();
            } else {
                drop(hold);
            }
            let wait = Some(&failure).filter(|failure| failure.is_transient());
            let Some(wait) = wait.and_then(|failure| self.setup.retry_policy.backoff(tried, failure)) else {
                return Err(self.record_failure(&failure));
            };
            self.observer.notify(ModelEvent::Waiting(wait, &failure.to_string()));
            std::thread::sleep(wait);
            tried += 1;
        }
    }

    /// What a failure means, and whether anything else is worth asking.
    fn record_failure(&self, failure: &RequestFailure) -> TextError {
        let error = to_text_error(failure);
        if failure.is_fatal() {
            self.lock_state().fatal_error = Some(error.clone());
        }
        error
    }

    /// Has the questions of a pass answered in a batch. Whether there were any: then another pass finds the answers.
    pub fn run_batch(&self) -> Result<bool, TextError> {
        let wanted = std::mem::take(&mut self.lock_state().pending);
        if wanted.is_empty() {
            return Ok(false);
        }
        let folder = self.setup.folder.as_ref().map(|folder| folder.join("batches"));
        let batches = BatchRunner {
            client: self.client()?,
            ledger: &self.ledger,
            answers: &self.answers,
            folder: folder.as_deref(),
            polling: self.setup.polling,
            retry_policy: self.setup.retry_policy,
            observer: &self.observer,
        };
        let outcome = batches.answer_requests(&wanted)?;
        let mut state = self.lock_state();
        state.fetched += outcome.fetched;
        ledger::add_tokens(&mut state.fetched_tokens, &outcome.fetched_tokens);
        state.answered.extend(wanted.into_keys());
        state.failed.extend(outcome.failed);
        Ok(true)
    }
}

/// Calls on their way at once.
struct CallSemaphore {
    free: Mutex<usize>,
    freed: Condvar,
}

impl CallSemaphore {
    fn new(count: usize) -> CallSemaphore {
        CallSemaphore {
            free: Mutex::new(count.max(1)),
            freed: Condvar::new(),
        }
    }

    fn acquire(&self) -> CallPermit<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        CallPermit { slots: self }
    }
}

struct CallPermit<'s> {
    slots: &'s CallSemaphore,
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        *self.slots.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.slots.freed.notify_one();
    }
}

/// Bytes that an answer of so many tokens may have: some tokens are long words, none are this long on average.
fn max_text_bytes(max_output: u64) -> usize {
    usize::try_from(max_output.min(MAX_OUTPUT)).unwrap_or(0) * 16 + (64 << 10)
}

/// The text of an answer that came to its end.
fn answer_text(answer: &ModelAnswer) -> Result<&str, TextError> {
    match answer.stop.as_str() {
        "end_turn" | "stop_sequence" | "" => Ok(&answer.text),
        "max_tokens" => Err(TextError::Failed(
            "the answer does not fit into the output that it may have".into(),
        )),
        "refusal" => Err(TextError::Failed("the model declined to answer".into())),
        "model_context_window_exceeded" => Err(TextError::PromptTooLong { excess: None }),
        _ => Err(TextError::Failed(
            "the model stopped for a reason that is no end".into(),
        )),
    }
}

/// What a failure is to those who wanted a text.
fn to_text_error(failure: &RequestFailure) -> TextError {
    match failure {
        RequestFailure::Status {
            status: 400 | 413,
            message,
            ..
        } if is_too_long(message) => TextError::PromptTooLong {
            excess: excess_tokens(message),
        },
        RequestFailure::Status { status: 413, .. } => TextError::PromptTooLong { excess: None },
        RequestFailure::Answer(AnswerFault::Error { message, .. }) if is_too_long(message) => {
            TextError::PromptTooLong {
                excess: excess_tokens(message),
            }
        }
        failure => TextError::Failed(failure.to_string()),
    }
}

fn is_too_long(message: &str) -> bool {
    message.contains("prompt is too long") || message.contains("exceed context limit")
}

/// By how much: `N tokens > M maximum`, or `N + O > M`.
fn excess_tokens(message: &str) -> Option<u64> {
    let (before, after) = message.split_once('>')?;
    let numbers = |text: &str| {
        let parts = text.split(|sign: char| !sign.is_ascii_digit());
        parts.filter_map(|part| part.parse::<u64>().ok()).collect::<Vec<_>>()
    };
    let limit = *numbers(after).first()?;
    let sizes = numbers(before.rsplit_once(':')?.1);
    let size = sizes.iter().copied().reduce(u64::saturating_add)?;
    size.checked_sub(limit).filter(|excess| *excess > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backend that asks nobody.
    pub(in crate::model) fn offline_backend() -> AnthropicBackend {
        let setup = ModelSetup {
            model: DEFAULT_MODEL.into(),
            price: None,
            caps: SpendingCaps::default(),
            mode: AskMode::Estimate,
            counts_tokens: false,
            concurrency: 1,
            retry_policy: RetryPolicy {
                retries: 0,
                initial_wait: Duration::ZERO,
                max_wait: Duration::ZERO,
            },
            polling: BatchPolling {
                interval: Duration::ZERO,
                max_wait: Duration::ZERO,
            },
            folder: None,
        };
        AnthropicBackend::new(setup, BASE_URL, None, ModelObserver::none())
    }

    #[test]
    fn by_how_much_a_prompt_is_too_long() {
        let cases = [
            ("prompt is too long: 208310 tokens > 200000 maximum", Some(8_310)),
            (
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
                Some(42_959),
            ),
            ("prompt is too long", None),
            ("prompt is too long: many > few", None),
            ("prompt is too long: 1 tokens > 2 maximum", None),
        ];
        for (message, wanted) in cases {
            assert!(is_too_long(message));
            assert_eq!(excess_tokens(message), wanted, "{message}");
        }
        let failure = RequestFailure::Status {
            status: 400,
            kind: "invalid_request_error".into(),
            message: cases[0].0.into(),
            retry_after: None,
        };
        assert_eq!(
            to_text_error(&failure),
            TextError::PromptTooLong { excess: Some(8_310) }
        );
    }

    #[test]
    fn waits_double_and_the_server_knows_better() {
        let patience = RetryPolicy {
            retries: 4,
            initial_wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(5),
        };
        let failure = |retry_after| RequestFailure::Status {
            status: 429,
            kind: String::new(),
            message: String::new(),
            retry_after,
        };
        let waits = (0..5).map(|tried| patience.backoff(tried, &failure(None)).map(|wait| wait.as_secs()));
        assert_eq!(waits.collect::<Vec<_>>(), [Some(1), Some(2), Some(4), Some(5), None]);
        assert_eq!(
            patience.backoff(0, &failure(Some(Duration::from_secs(3)))),
            Some(Duration::from_secs(3))
        );
        assert_eq!(
            patience.backoff(3, &failure(Some(Duration::ZERO))),
            Some(Duration::ZERO)
        );
        assert_eq!(patience.backoff(0, &failure(Some(Duration::from_secs(60)))), None);
    }

    #[test]
    fn only_an_answer_that_came_to_its_end_is_used() {
        let answer = |stop: &str| ModelAnswer {
            text: "x".into(),
            stop: stop.into(),
            ..ModelAnswer::default()
        };
        assert_eq!(answer_text(&answer("end_turn")), Ok("x"));
        for stop in ["max_tokens", "refusal", "tool_use", "pause_turn"] {
            assert!(
                matches!(answer_text(&answer(stop)), Err(TextError::Failed(_))),
                "{stop}"
            );
        }
        assert_eq!(
            answer_text(&answer("model_context_window_exceeded")),
            Err(TextError::PromptTooLong { excess: None })
        );
    }
}
