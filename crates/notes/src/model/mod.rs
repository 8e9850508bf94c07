//! A model over HTTP: the Messages API, or any server that speaks it.
//!
//! A question is a [`Request`]; [`Anthropic::ask`] answers it from what is known already, or asks the model, within the
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
use answers::Answers;
use batches::{Batches, Waits, Wanted};
use client::{Client, Failure};
use ledger::{Caps, Ledger, Rate, Spent};
use replay::prices::{Pico, Price};
use request::{Name, Request, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stream::{Answer, Fault};
use transcript::record::Tokens;

/// Where the API is, if nothing else is named.
pub const BASE_URL: &str = "https://api.anthropic.com";

/// The model that is asked, if no other is named.
pub const MODEL: &str = "claude-sonnet-5-5";

/// Largest output that any model gives.
const MAX_OUTPUT: u64 = 128_000;

/// What goes on while a model is asked, for whoever watches.
#[derive(Debug)]
pub enum Event<'e> {
    /// A call was sent; which try it is, from 1.
    Sent(Task, u32),
    /// So many bytes of the answer are there.
    Received(usize),
    /// An answer is complete.
    Answered(Task, &'e Tokens),
    /// It is waited before the next try.
    Waiting(Duration, &'e str),
    /// News of a batch: its id, and what.
    Batch(&'e str, &'e str),
    /// Something that does not stop the run.
    Trouble(&'e str),
    /// What goes over the wire, from level 2 on.
    Trace(u8, &'e str),
}

/// Whoever watches.
pub struct Watch {
    /// How much of the wire is told.
    pub detail: u8,
    /// Takes the news.
    pub tell: Box<dyn Fn(Event<'_>) + Send + Sync>,
}

impl Watch {
    /// Nobody.
    pub fn nobody() -> Watch {
        Watch {
            detail: 0,
            tell: Box::new(|_| ()),
        }
    }

    fn tell(&self, event: Event<'_>) {
        (self.tell)(event);
    }

    fn trace(&self, level: u8, text: impl FnOnce() -> String) {
        if self.detail >= level {
            self.tell(Event::Trace(level, &text()));
        }
    }

    fn trouble(&self, error: &std::io::Error) {
        self.tell(Event::Trouble(&format!("an answer could not be kept: {error}")));
    }
}

/// How patient to be with a server that is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Tries after the first.
    pub retries: u32,
    /// Wait before the second try; it doubles with every further one.
    pub base: Duration,
    /// Longest wait.
    pub most: Duration,
}

impl Patience {
    /// How long to wait after a try, counted from 0; `None` if that is not worth it.
    fn wait(&self, tried: u32, failure: &Failure) -> Option<Duration> {
        if tried >= self.retries {
            return None;
        }
        let doubled = self
            .base
            .saturating_mul(2_u32.saturating_pow(tried.min(20)))
            .min(self.most);
        match failure.retry_after() {
            // The server knows best; but nobody waits for hours without having been asked.
            Some(asked) => Some(asked).filter(|asked| *asked <= self.most),
            None => Some(doubled),
        }
    }

    /// Tries until it works, or until it is not worth another try.
    fn with<T>(
        &self,
        is_worth: impl Fn(&Failure) -> bool,
        watch: &Watch,
        mut attempt: impl FnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut tried = 0;
        loop {
            let failure = match attempt() {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let wait = Some(&failure).filter(|failure| is_worth(failure));
            let Some(wait) = wait.and_then(|failure| self.wait(tried, failure)) else {
                return Err(failure);
            };
            watch.tell(Event::Waiting(wait, &failure.to_string()));
            std::thread::sleep(wait);
            tried += 1;
        }
    }
}

/// What happens to a question that no known answer fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is asked now.
    Now,
    /// It is put down, and asked with the others in a batch ([`Anthropic::fill`]).
    Batch,
    /// It is only counted.
    Estimate,
}

/// How a model is asked.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The model.
    pub model: String,
    /// Its price, if it has one.
    pub price: Option<Price>,
    /// What may be spent.
    pub caps: Caps,
    /// When.
    pub mode: Mode,
    /// Whether the server is asked for the exact size of a request before it is sent.
    pub counts: bool,
    /// Calls on their way at once.
    pub at_once: usize,
    /// Patience with failures.
    pub patience: Patience,
    /// Patience with batches.
    pub waits: Waits,
    /// Folder where answers and notes of batches are kept; `None` keeps them for the run only.
    pub folder: Option<PathBuf>,
}

/// A question that was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    input: u64,
    output: u64,
}

/// What a run would send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Calls.
    pub calls: u64,
    /// Answers that are known already.
    pub known: u64,
    /// Tokens sent, about; as counted by the server if it was asked.
    pub input: u64,
    /// Tokens received, at most.
    pub output: u64,
    /// What it costs at most, in calls and in batches; `None` without a price.
    pub pico: Option<Pico>,
    /// Whether the tokens were counted by the server.
    pub is_counted: bool,
}

/// What a run asked and got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// What was spent.
    pub spent: Spent,
    /// Answers that were known.
    pub known: u64,
    /// Answers of a batch that an earlier run had sent.
    pub fetched: u64,
    /// What those cost.
    pub fetched_pico: Pico,
}

/// The backend.
pub struct Anthropic {
    setup: Setup,
    /// None if nothing is to be sent.
    client: Option<Client>,
    server: String,
    ledger: Ledger,
    answers: Answers,
    watch: Watch,
    slots: Slots,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Questions for the next batch.
    pending: BTreeMap<Name, Wanted>,
    /// Questions that have no answer in this run.
    failed: BTreeMap<Name, TextError>,
    counted: BTreeMap<Name, Counted>,
    /// Questions that were answered before this run.
    known: BTreeSet<Name>,
    /// Questions that were answered in it.
    answered: BTreeSet<Name>,
    fetched: u64,
    fetched_tokens: Tokens,
    /// Why nothing more is asked.
    stopped: Option<TextError>,
}

impl Anthropic {
    /// A backend that asks a server, or none at all: then it answers only what is known.
    pub fn new(setup: Setup, server: &str, client: Option<Client>, watch: Watch) -> Anthropic {
        let folder = |name: &str| setup.folder.as_ref().map(|folder| folder.join(name));
        Anthropic {
            ledger: Ledger::new(setup.caps, setup.price.as_ref().map(Price::tariff)),
            answers: Answers::new(folder("answers")),
            slots: Slots::new(setup.at_once),
            server: client.as_ref().map_or(server, Client::base).to_owned(),
            client,
            watch,
            state: Mutex::default(),
            setup,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request to the model for at most so much output, or as much as it gives.
    pub fn request(&self, task: Task, max_output: u64, instructions: &str) -> Request {
        let most = self.setup.price.as_ref().and_then(|price| price.max_output);
        Request::new(
            task,
            &self.setup.model,
            max_output.min(most.unwrap_or(MAX_OUTPUT)),
            instructions,
        )
    }

    /// What was asked and what it came to.
    pub fn tally(&self) -> Tally {
        let state = self.state();
        let pico = self.ledger.cost(&state.fetched_tokens).unwrap_or(0);
        Tally {
            spent: self.ledger.spent(),
            known: state.known.len() as u64,
            fetched: state.fetched,
            fetched_pico: ledger::at(Rate::Half, pico),
        }
    }

    /// What a run would send.
    pub fn estimate(&self) -> Estimate {
        let state = self.state();
        let mut estimate = Estimate {
            known: state.known.len() as u64,
            is_counted: self.setup.counts,
            pico: self.setup.price.as_ref().map(|_| 0),
            ..Estimate::default()
        };
        for counted in state.counted.values() {
            estimate.calls += 1;
            estimate.input += counted.input;
            estimate.output += counted.output;
            if let Some(pico) = &mut estimate.pico {
                *pico += self.ledger.worst(counted.input, counted.output).pico;
            }
        }
        estimate
    }

    /// Answers a question: from what is known, else by asking. `read` takes the answer in; what it does not accept is no
    /// answer, is asked for once more, and is never kept.
    pub fn ask<T>(&self, request: &Request, read: impl Fn(&str) -> Result<T, String>) -> Result<T, TextError> {
        let name = request.name(&self.server);
        if let Some(answer) = self.answers.get(&name) {
            match finished(&answer).and_then(|text| read(text).map_err(TextError::Failed)) {
                Ok(done) => {
                    let mut state = self.state();
                    if !state.answered.contains(&name) {
                        state.known.insert(name);
                    }
                    return Ok(done);
                }
                Err(error) => {
                    self.answers.forget(&name);
                    if self.setup.mode == Mode::Batch {
                        let error =
                            TextError::Failed(format!("the answer is not in the form that was asked for: {error}"));
                        self.state().failed.insert(name, error.clone());
                        return Err(error);
                    }
                }
            }
        }
        let state = self.state();
        if let Some(error) = state.stopped.as_ref().or_else(|| state.failed.get(&name)) {
            return Err(error.clone());
        }
        match self.setup.mode {
            Mode::Now => drop(state),
            Mode::Batch => {
                let is_new = !state.pending.contains_key(&name);
                drop(state);
                if is_new {
                    let wanted = Wanted {
                        bound: self.size(request)?.1,
                        request: request.clone(),
                    };
                    self.state().pending.insert(name, wanted);
                }
                return Err(TextError::Pending);
            }
            Mode::Estimate => {
                let is_new = !state.counted.contains_key(&name);
                drop(state);
                if is_new {
                    let counted = Counted {
                        input: self.size(request)?.0,
                        output: request.max_output(),
                    };
                    self.state().counted.insert(name, counted);
                }
                return Err(TextError::Pending);
            }
        }
        self.call(request, &name, &read).inspect_err(|error| {
            let mut state = self.state();
            if matches!(error, TextError::Budget(_)) {
                state.stopped = Some(error.clone());
            }
            state.failed.insert(name.clone(), error.clone());
        })
    }

    /// Tokens of a request: about, and at most.
    fn size(&self, request: &Request) -> Result<(u64, u64), TextError> {
        if !self.setup.counts {
            return Ok((request.estimate(), request.bound()));
        }
        let client = self.client()?;
        let body = request.to_count();
        let count = || client.json("/v1/messages/count_tokens", Some(&body), &self.watch);
        let answer = self.setup.patience.with(Failure::is_passing, &self.watch, count);
        let answer = answer.map_err(|failure| self.stopping(&failure))?;
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
    fn call<T>(
        &self,
        request: &Request,
        name: &Name,
        read: &impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, TextError> {
        let (_, bound) = self.size(request)?;
        let mut wrong = String::new();
        for _ in 0..2 {
            let answer = self.fetch(request, bound)?;
            match read(finished(&answer)?) {
                Ok(done) => {
                    self.answers
                        .put(name, &answer)
                        .unwrap_or_else(|error| self.watch.trouble(&error));
                    self.state().answered.insert(name.clone());
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
    fn fetch(&self, request: &Request, bound: u64) -> Result<Answer, TextError> {
        let client = self.client()?;
        let body = request.body(true);
        let _slot = self.slots.take();
        let mut tried = 0;
        loop {
            if let Some(error) = self.state().stopped.clone() {
                return Err(error);
            }
            let worst = self.ledger.worst(bound, request.max_output());
            let hold = self.ledger.hold(worst, Rate::Full);
            let hold = hold.map_err(|refusal| TextError::Budget(refusal.to_string()))?;
            self.watch.tell(Event::Sent(request.task(), tried + 1));
            let failure = match client.message(&body, max_text(request.max_output()), &self.watch) {
                // A server that does not say what it took is taken at its worst.
                Ok(answer) => {
                    if !answer.usage.is_zero() {
                        hold.settle(&answer.usage);
                    }
                    self.watch.tell(Event::Answered(request.task(), &answer.usage));
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            if failure.is_free() {
                hold.release();
            } else {
                drop(hold);
            }
            let wait = Some(&failure).filter(|failure| failure.is_passing());
            let Some(wait) = wait.and_then(|failure| self.setup.patience.wait(tried, failure)) else {
                return Err(self.stopping(&failure));
            };
            self.watch.tell(Event::Waiting(wait, &failure.to_string()));
            std::thread::sleep(wait);
            tried += 1;
        }
    }

    /// What a failure means, and whether anything else is worth asking.
    fn stopping(&self, failure: &Failure) -> TextError {
        let error = failed(failure);
        if failure.is_final() {
            self.state().stopped = Some(error.clone());
        }
        error
    }

    /// Has the questions of a pass answered in a batch. Whether there were any: then another pass finds the answers.
    pub fn fill(&self) -> Result<bool, TextError> {
        let wanted = std::mem::take(&mut self.state().pending);
        if wanted.is_empty() {
            return Ok(false);
        }
        let folder = self.setup.folder.as_ref().map(|folder| folder.join("batches"));
        let batches = Batches {
            client: self.client()?,
            ledger: &self.ledger,
            answers: &self.answers,
            folder: folder.as_deref(),
            waits: self.setup.waits,
            patience: self.setup.patience,
            watch: &self.watch,
        };
        let outcome = batches.run(&wanted)?;
        let mut state = self.state();
        state.fetched += outcome.fetched;
        ledger::add(&mut state.fetched_tokens, &outcome.fetched_tokens);
        state.answered.extend(wanted.into_keys());
        state.failed.extend(outcome.failed);
        Ok(true)
    }
}

/// Calls on their way at once.
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

impl Slots {
    fn new(count: usize) -> Slots {
        Slots {
            free: Mutex::new(count.max(1)),
            freed: Condvar::new(),
        }
    }

    fn take(&self) -> Slot<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Slot { slots: self }
    }
}

struct Slot<'s> {
    slots: &'s Slots,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.slots.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.slots.freed.notify_one();
    }
}

/// Bytes that an answer of so many tokens may have: some tokens are long words, none are this long on average.
fn max_text(max_output: u64) -> usize {
    usize::try_from(max_output.min(MAX_OUTPUT)).unwrap_or(0) * 16 + (64 << 10)
}

/// The text of an answer that came to its end.
fn finished(answer: &Answer) -> Result<&str, TextError> {
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
fn failed(failure: &Failure) -> TextError {
    match failure {
        Failure::Status {
            status: 400 | 413,
            message,
            ..
        } if is_too_long(message) => TextError::PromptTooLong {
            excess: excess(message),
        },
        Failure::Status { status: 413, .. } => TextError::PromptTooLong { excess: None },
        Failure::Answer(Fault::Error { message, .. }) if is_too_long(message) => TextError::PromptTooLong {
            excess: excess(message),
        },
        failure => TextError::Failed(failure.to_string()),
    }
}

fn is_too_long(message: &str) -> bool {
    message.contains("prompt is too long") || message.contains("exceed context limit")
}

/// By how much: `N tokens > M maximum`, or `N + O > M`.
fn excess(message: &str) -> Option<u64> {
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
    pub(in crate::model) fn idle() -> Anthropic {
        let setup = Setup {
            model: MODEL.into(),
            price: None,
            caps: Caps::default(),
            mode: Mode::Estimate,
            counts: false,
            at_once: 1,
            patience: Patience {
                retries: 0,
                base: Duration::ZERO,
                most: Duration::ZERO,
            },
            waits: Waits {
                poll: Duration::ZERO,
                most: Duration::ZERO,
            },
            folder: None,
        };
        Anthropic::new(setup, BASE_URL, None, Watch::nobody())
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
            assert_eq!(excess(message), wanted, "{message}");
        }
        let failure = Failure::Status {
            status: 400,
            kind: "invalid_request_error".into(),
            message: cases[0].0.into(),
            retry_after: None,
        };
        assert_eq!(failed(&failure), TextError::PromptTooLong { excess: Some(8_310) });
    }

    #[test]
    fn waits_double_and_the_server_knows_better() {
        let patience = Patience {
            retries: 4,
            base: Duration::from_secs(1),
            most: Duration::from_secs(5),
        };
        let failure = |retry_after| Failure::Status {
            status: 429,
            kind: String::new(),
            message: String::new(),
            retry_after,
        };
        let waits = (0..5).map(|tried| patience.wait(tried, &failure(None)).map(|wait| wait.as_secs()));
        assert_eq!(waits.collect::<Vec<_>>(), [Some(1), Some(2), Some(4), Some(5), None]);
        assert_eq!(
            patience.wait(0, &failure(Some(Duration::from_secs(3)))),
            Some(Duration::from_secs(3))
        );
        assert_eq!(patience.wait(3, &failure(Some(Duration::ZERO))), Some(Duration::ZERO));
        assert_eq!(patience.wait(0, &failure(Some(Duration::from_secs(60)))), None);
    }

    #[test]
    fn only_an_answer_that_came_to_its_end_is_used() {
        let answer = |stop: &str| Answer {
            text: "x".into(),
            stop: stop.into(),
            ..Answer::default()
        };
        assert_eq!(finished(&answer("end_turn")), Ok("x"));
        for stop in ["max_tokens", "refusal", "tool_use", "pause_turn"] {
            assert!(matches!(finished(&answer(stop)), Err(TextError::Failed(_))), "{stop}");
        }
        assert_eq!(
            finished(&answer("model_context_window_exceeded")),
            Err(TextError::PromptTooLong { excess: None })
        );
    }
}
