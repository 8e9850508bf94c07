//! A model over HTTP: the Messages API, or a server with the same interface.
//!
//! [`AnthropicBackend::ask`] answers a [`ModelRequest`] from the store of answers, or asks the model within the budget. Text
//! of a transcript is material for the model, never an instruction ([`fence`]), and an answer is used only if it parses.
//! From the network up: [`client`], [`stream`], [`retry_policy`], `failure`, [`ledger`], [`answers`], [`batches`]; then
//! the tasks: [`texts`] (summaries and notes), [`extract`], [`dream`], [`recall`].

#![allow(clippy::disallowed_methods, reason = "waits between attempts")]

pub mod answers;
pub mod batches;
pub mod client;
pub mod dream;
pub mod extract;
mod failure;
pub mod fence;
pub mod ledger;
pub mod observer;
pub mod prompt;
pub mod recall;
pub mod request;
pub mod retry_policy;
mod semaphore;
pub mod stream;
pub mod texts;

pub use observer::{ModelEvent, ModelObserver};
pub use retry_policy::RetryPolicy;

use crate::TextError;
use answers::ModelAnswerStore;
use batches::{BatchPolling, BatchRequest, BatchRunner};
use client::{Client, RequestFailure};
use failure::{answer_text, to_text_error};
use ledger::{BillingRate, Spending, SpendingCaps, SpendingLedger};
use replay::prices::{PicoUsd, Price};
use request::{AnswerKey, ModelRequest, ModelTask};
use semaphore::CallSemaphore;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stream::ModelAnswer;
use transcript::record::Tokens;

/// Default address of the API.
pub const BASE_URL: &str = "https://api.anthropic.com";

/// Default model.
pub const DEFAULT_MODEL: &str = "claude-sonnet-5-5";

/// Largest output of any model, in tokens.
const MAX_OUTPUT: u64 = 128_000;

/// What happens to a request without a stored answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskMode {
    /// It is sent now.
    Now,
    /// It is queued and sent in a batch ([`AnthropicBackend::run_batch`]).
    Batch,
    /// Its tokens are estimated.
    Estimate,
}

/// Settings of the backend.
#[derive(Debug, Clone)]
pub struct ModelSetup {
    pub model: String,
    /// Price of the model, if known.
    pub price: Option<Price>,
    pub caps: SpendingCaps,
    pub mode: AskMode,
    /// Whether the server counts the tokens of a request before it is sent.
    pub counts_tokens: bool,
    /// Maximum number of concurrent calls.
    pub concurrency: usize,
    pub retry_policy: RetryPolicy,
    pub polling: BatchPolling,
    /// Folder of stored answers and batches; `None` keeps them in memory.
    pub folder: Option<PathBuf>,
}

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestSize {
    input: u64,
    output: u64,
}

/// The estimated cost of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostEstimate {
    pub calls: u64,
    /// Stored answers.
    pub known: u64,
    /// Input tokens: an estimate, or the count of the server.
    pub input: u64,
    /// Maximum output tokens.
    pub output: u64,
    /// Maximum cost without batches; `None` if the model has no price.
    pub pico: Option<PicoUsd>,
    /// Whether the server counted the tokens.
    pub is_counted: bool,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelRunTotals {
    pub spent: Spending,
    /// Stored answers that were used.
    pub known: u64,
    /// Answers of batches that an earlier run sent.
    pub fetched: u64,
    /// Cost of those answers.
    pub fetched_pico: PicoUsd,
    /// Stored answers that were damaged.
    pub damaged: u64,
}

/// The backend that asks a model.
pub struct AnthropicBackend {
    setup: ModelSetup,
    /// `None` if nothing may be sent.
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
    /// Requests for the next batch.
    pending: BTreeMap<AnswerKey, BatchRequest>,
    /// Requests that failed in this run.
    failed: BTreeMap<AnswerKey, TextError>,
    counted: BTreeMap<AnswerKey, RequestSize>,
    /// Requests with an answer from before this run.
    known: BTreeSet<AnswerKey>,
    /// Requests that were answered in this run.
    answered: BTreeSet<AnswerKey>,
    fetched: u64,
    fetched_tokens: Tokens,
    /// Set once no further request can succeed.
    fatal_error: Option<TextError>,
}

impl AnthropicBackend {
    /// Creates a backend. Without a client it only uses stored answers.
    pub fn new(setup: ModelSetup, server: &str, client: Option<Client>, observer: ModelObserver) -> AnthropicBackend {
        let folder = |name: &str| setup.folder.as_ref().map(|folder| folder.join(name));
        AnthropicBackend {
            ledger: SpendingLedger::new(setup.caps, setup.price.as_ref().map(Price::tariff)),
            answers: ModelAnswerStore::new(folder("answers")),
            slots: CallSemaphore::new(setup.concurrency),
            server: client.as_ref().map_or(server, Client::base).to_owned(),
            client,
            observer,
            state: Mutex::default(),
            setup,
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, AskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a request, with `max_output` limited to what the model can give.
    pub fn request(&self, task: ModelTask, max_output: u64, instructions: &str) -> ModelRequest {
        let most = self.setup.price.as_ref().and_then(|price| price.max_output);
        ModelRequest::new(
            task,
            &self.setup.model,
            max_output.min(most.unwrap_or(MAX_OUTPUT)),
            instructions,
        )
    }

    /// Returns the totals so far.
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

    /// Returns the estimate of all requests so far.
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

    /// Answers a request from the store, or by asking the model. `read` parses the answer; one that does not parse is
    /// requested once more and never stored.
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
                        let error = TextError::Failed(format!("the answer does not have the requested form: {error}"));
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

    /// Returns the tokens of a request: an estimate and an upper bound.
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
            .ok_or_else(|| TextError::Failed("the server returned no token count".into()))?;
        // The API documents the count as approximate.
        Ok((count, count.saturating_add(count / 50).saturating_add(64)))
    }

    fn client(&self) -> Result<&Client, TextError> {
        self.client
            .as_ref()
            .ok_or_else(|| TextError::Failed("requests are not allowed in this run".into()))
    }

    /// Asks the model up to two times for an answer that parses, and stores it.
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
            "the answer does not have the requested form, twice: {wrong}"
        )))
    }

    /// Returns one answer, with retries. The budget is reserved before every attempt.
    fn fetch(&self, request: &ModelRequest, bound: u64) -> Result<ModelAnswer, TextError> {
        let client = self.client()?;
        let body = request.body(true);
        let _permit = self.slots.acquire();
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
                // Without usage in the answer, the reservation is booked in full.
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

    /// Returns the error of a failure, and stops further requests if they would all fail.
    fn record_failure(&self, failure: &RequestFailure) -> TextError {
        let error = to_text_error(failure);
        if failure.is_fatal() {
            self.lock_state().fatal_error = Some(error.clone());
        }
        error
    }

    /// Sends the queued requests in a batch and waits for the answers. Returns whether there were any: another pass then finds
    /// the answers in the store.
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

/// Returns the maximum bytes of an answer: no text has 16 bytes per token on average.
fn max_text_bytes(max_output: u64) -> usize {
    usize::try_from(max_output.min(MAX_OUTPUT)).unwrap_or(0) * 16 + (64 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A backend that sends nothing.
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
}
