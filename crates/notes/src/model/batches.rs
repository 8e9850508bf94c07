//! Batches: many requests at once, answered within a day, at half the price.
//!
//! A batch that was sent is noted in a folder of the cache, with the names of its requests, before anything is waited for.
//! A run that finds its requests in such a note fetches their answers instead of paying for them again.

#![allow(clippy::disallowed_methods, reason = "batches are noted in files and waited for")]

use crate::TextError;
use crate::model::answers::{ModelAnswerStore, write_private};
use crate::model::client::{Client, RequestFailure};
use crate::model::ledger::{BillingRate, BudgetRefusal, Reservation, SpendingLedger};
use crate::model::request::{AnswerKey, ModelRequest};
use crate::model::stream::{AnswerFault, ModelAnswer, parse_error, parse_message};
use crate::model::{ModelEvent, ModelObserver, RetryPolicy, max_text_bytes, to_text_error};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use transcript::record::Tokens;

/// Most requests of a batch, and most bytes of them: well below what the API takes.
const MAX_REQUESTS: usize = 10_000;
const MAX_BYTES: usize = 100 << 20;

/// How long to wait for a batch, and how often to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPolling {
    /// Between two looks.
    pub interval: Duration,
    /// In all.
    pub max_wait: Duration,
}

/// A request for a batch.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    /// It.
    pub request: ModelRequest,
    /// Most tokens that it has.
    pub max_input_tokens: u64,
}

/// A batch that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BatchReceipt {
    id: String,
    server: String,
    names: BTreeSet<String>,
}

/// Batches of a run.
pub struct BatchRunner<'a> {
    /// The wire.
    pub client: &'a Client,
    /// The books.
    pub ledger: &'a SpendingLedger,
    /// Where answers go.
    pub answers: &'a ModelAnswerStore,
    /// Folder of the notes.
    pub folder: Option<&'a Path>,
    /// How long to wait.
    pub polling: BatchPolling,
    /// How patient to be with failures.
    pub retry_policy: RetryPolicy,
    /// Whom to tell.
    pub observer: &'a ModelObserver,
}

/// What came of the requests.
#[derive(Debug, Default)]
pub struct BatchOutcome {
    /// Those that have no answer, and why. The others are among the answers.
    pub failed: BTreeMap<AnswerKey, TextError>,
    /// Answers that an earlier run had sent for.
    pub fetched: u64,
    /// What those took.
    pub fetched_tokens: Tokens,
}

impl BatchRunner<'_> {
    /// Has requests answered: fetches what is on its way already, sends the rest, and waits.
    pub fn answer_requests(&self, wanted: &BTreeMap<AnswerKey, BatchRequest>) -> Result<BatchOutcome, TextError> {
        let mut outcome = BatchOutcome::default();
        let mut left = wanted.keys().cloned().collect::<BTreeSet<_>>();
        for (path, note) in self.load_receipts() {
            if note.server != self.client.base() || !left.iter().any(|name| note.names.contains(name.as_str())) {
                continue;
            }
            self.observer
                .notify(ModelEvent::Batch(&note.id, "was sent by an earlier run"));
            let results = self.wait_and_fetch(&note, &mut BTreeMap::new());
            match results {
                Ok(results) => {
                    for (name, result) in results {
                        left.remove(&name);
                        match result {
                            Ok(answer) => {
                                outcome.fetched += 1;
                                super::ledger::add_tokens(&mut outcome.fetched_tokens, &answer.usage);
                            }
                            Err(error) => {
                                outcome.failed.insert(name, error);
                            }
                        }
                    }
                }
                // A batch that the server no longer knows is sent anew.
                Err(BatchFailure::Gone) => {}
                Err(BatchFailure::Failed(error)) => return Err(error),
            }
            let _ = fs::remove_file(path);
        }
        let requests = left.iter().filter_map(|name| Some((name, wanted.get(name)?)));
        for chunk in split_into_batches(requests.collect()) {
            self.send_batch(&chunk, &mut outcome)?;
        }
        Ok(outcome)
    }

    /// Sends one batch and waits for it.
    fn send_batch(&self, chunk: &[(&AnswerKey, &BatchRequest)], outcome: &mut BatchOutcome) -> Result<(), TextError> {
        let mut holds = BTreeMap::new();
        let mut refusal: Option<BudgetRefusal> = None;
        for (name, wanted) in chunk {
            let worst = self
                .ledger
                .worst_case(wanted.max_input_tokens, wanted.request.max_output());
            match self.ledger.try_reserve(worst, BillingRate::Half) {
                Ok(hold) => {
                    holds.insert((*name).clone(), hold);
                }
                Err(refused) => {
                    outcome
                        .failed
                        .insert((*name).clone(), TextError::Budget(refused.to_string()));
                    refusal = Some(refused);
                }
            }
        }
        if holds.is_empty() {
            return refusal.map_or(Ok(()), |refusal| Err(TextError::Budget(refusal.to_string())));
        }
        let entries = chunk.iter().filter(|(name, _)| holds.contains_key(*name));
        let entries =
            entries.map(|(name, wanted)| json!({"custom_id": name.as_str(), "params": wanted.request.body(false)}));
        let body = json!({"requests": entries.collect::<Vec<_>>()});
        let created = match self.create_batch(&body) {
            Ok(created) => created,
            Err(failure) => {
                if failure.is_unbilled() {
                    std::mem::take(&mut holds).into_values().for_each(Reservation::release);
                }
                return Err(to_text_error(&failure));
            }
        };
        let id = created["id"].as_str().filter(|id| is_batch_id(id));
        let id = id.ok_or_else(|| TextError::Failed("the server took the batch and gave it no id".into()))?;
        let note = BatchReceipt {
            id: id.to_owned(),
            server: self.client.base().to_owned(),
            names: holds.keys().map(|name| name.as_str().to_owned()).collect(),
        };
        let path = self.save_receipt(&note)?;
        self.observer.notify(ModelEvent::Batch(
            &note.id,
            &format!("was sent with {} requests", holds.len()),
        ));
        let results = match self.wait_and_fetch(&note, &mut holds) {
            Ok(results) => results,
            Err(BatchFailure::Gone) => {
                return Err(TextError::Failed(format!(
                    "the server does not know batch {id} any more"
                )));
            }
            Err(BatchFailure::Failed(error)) => return Err(error),
        };
        for (name, result) in results {
            if let Err(error) = result {
                outcome.failed.insert(name, error);
            }
        }
        // What is still held has no result; the batch ended, so nothing was written for it.
        for (name, hold) in holds {
            hold.release();
            let why = format!("batch {id} ended without a result for it");
            outcome.failed.insert(name, TextError::Failed(why));
        }
        if let Some(path) = path {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Creates the batch. Only what the server certainly did not take is sent again.
    fn create_batch(&self, body: &Value) -> Result<Value, RequestFailure> {
        self.retry_policy.run_with_retries(
            |failure| failure.is_transient() && failure.is_unbilled(),
            self.observer,
            || self.client.json("/v1/messages/batches", Some(body), self.observer),
        )
    }

    /// Waits until a batch has ended, then takes its results.
    fn wait_and_fetch(
        &self,
        note: &BatchReceipt,
        holds: &mut BTreeMap<AnswerKey, Reservation<'_>>,
    ) -> Result<BTreeMap<AnswerKey, Result<ModelAnswer, TextError>>, BatchFailure> {
        let path = format!("/v1/messages/batches/{}", note.id);
        let started = Instant::now();
        loop {
            let state = self
                .retry_policy
                .run_with_retries(RequestFailure::is_transient, self.observer, || {
                    self.client.json(&path, None, self.observer)
                })
                .map_err(BatchFailure::from_failure)?;
            if state["processing_status"] == "ended" {
                break;
            }
            let counts = &state["request_counts"];
            let done = ["succeeded", "errored", "canceled", "expired"]
                .iter()
                .map(|kind| counts[kind].as_u64().unwrap_or(0))
                .fold(0, u64::saturating_add);
            self.observer.notify(ModelEvent::Batch(
                &note.id,
                &format!("has {done} of {} done", note.names.len()),
            ));
            if started.elapsed() + self.polling.interval > self.polling.max_wait {
                let why = format!(
                    "batch {} is not done yet; the same command fetches it when it is",
                    note.id
                );
                return Err(BatchFailure::Failed(TextError::Failed(why)));
            }
            std::thread::sleep(self.polling.interval);
        }
        let fetch = || {
            let mut results = BTreeMap::new();
            let lines = |line: &[u8]| self.take_result(line, note, &mut results);
            self.client.lines(&format!("{path}/results"), self.observer, lines)?;
            Ok(results)
        };
        let results = self
            .retry_policy
            .run_with_retries(RequestFailure::is_transient, self.observer, fetch)
            .map_err(BatchFailure::from_failure)?;
        for (name, result) in &results {
            let Some(hold) = holds.remove(name) else { continue };
            match result {
                Ok(answer) if !answer.usage.is_zero() => hold.settle(&answer.usage),
                Ok(_) => drop(hold),
                Err(_) => hold.release(),
            }
        }
        let mut answers = BTreeMap::new();
        for (name, result) in results {
            if let Ok(answer) = &result {
                self.answers
                    .store(&name, answer)
                    .unwrap_or_else(|error| self.observer.warn_not_stored(&error));
            }
            answers.insert(name, result.map_err(|failure| to_text_error(&failure)));
        }
        Ok(answers)
    }

    /// Takes in one line of results; what belongs to no request of the batch is passed over.
    fn take_result(
        &self,
        line: &[u8],
        note: &BatchReceipt,
        results: &mut BTreeMap<AnswerKey, Result<ModelAnswer, RequestFailure>>,
    ) {
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let name = value["custom_id"].as_str().filter(|name| note.names.contains(*name));
        let Some(name) = name.and_then(AnswerKey::parse) else {
            return;
        };
        let result = &value["result"];
        let outcome = match result["type"].as_str().unwrap_or_default() {
            "succeeded" => {
                let answer = parse_message(&result["message"], max_text_bytes(u64::MAX));
                answer
                    .map(|answer| self.client.kept(answer))
                    .map_err(RequestFailure::Answer)
            }
            "errored" => {
                // The error is wrapped as an answer of the API would be, or stands by itself.
                let error = &result["error"];
                let error = if error.get("error").is_some() {
                    parse_error(error)
                } else {
                    parse_error(result)
                };
                Err(self.to_failure(error))
            }
            other => {
                let message = if matches!(other, "expired" | "canceled") {
                    other
                } else {
                    "unknown"
                };
                Err(RequestFailure::Answer(AnswerFault::Error {
                    kind: "batch".into(),
                    message: format!("the request came back as {message}; a later run sends it again"),
                }))
            }
        };
        results.entry(name).or_insert(outcome);
    }

    /// An error as it would have come without a batch, so that it is understood the same way.
    fn to_failure(&self, fault: AnswerFault) -> RequestFailure {
        match fault {
            AnswerFault::Error { kind, message } => RequestFailure::Status {
                status: if kind == "invalid_request_error" { 400 } else { 500 },
                kind: self.client.scrubbed(&kind, 60),
                message: self.client.scrubbed(&message, 300),
                retry_after: None,
            },
            fault => RequestFailure::Answer(fault),
        }
    }

    /// Notes of batches on their way, by name of the file.
    fn load_receipts(&self) -> Vec<(PathBuf, BatchReceipt)> {
        let entries = self.folder.and_then(|folder| fs::read_dir(folder).ok());
        let mut notes = Vec::new();
        for entry in entries.into_iter().flatten().flatten() {
            let path = entry.path();
            let text = fs::read(&path).unwrap_or_default();
            let note = serde_json::from_slice::<BatchReceipt>(&text).ok();
            // Whatever is no note of ours is left alone.
            if let Some(note) = note.filter(|note| is_batch_id(&note.id)) {
                notes.push((path, note));
            }
        }
        notes.sort_by(|one, other| one.0.cmp(&other.0));
        notes
    }

    fn save_receipt(&self, note: &BatchReceipt) -> Result<Option<PathBuf>, TextError> {
        let Some(folder) = self.folder else { return Ok(None) };
        let path = folder.join(format!("{}.json", note.id));
        let bytes = serde_json::to_vec_pretty(note).unwrap_or_default();
        write_private(&path, &bytes).map_err(|error| {
            TextError::Failed(format!(
                "batch {} was sent, but could not be noted in {}: {error}",
                note.id,
                path.display()
            ))
        })?;
        Ok(Some(path))
    }
}

/// Why there are no results.
enum BatchFailure {
    /// The server does not know the batch.
    Gone,
    /// Anything else.
    Failed(TextError),
}

impl BatchFailure {
    fn from_failure(failure: RequestFailure) -> BatchFailure {
        match &failure {
            RequestFailure::Status { status: 404, .. } => BatchFailure::Gone,
            failure => BatchFailure::Failed(to_text_error(failure)),
        }
    }
}

/// An id goes into an address and a file name.
fn is_batch_id(id: &str) -> bool {
    (1..=100).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Requests in batches that are not too large.
fn split_into_batches<'r>(
    requests: Vec<(&'r AnswerKey, &'r BatchRequest)>,
) -> Vec<Vec<(&'r AnswerKey, &'r BatchRequest)>> {
    let mut chunks: Vec<Vec<(&AnswerKey, &BatchRequest)>> = Vec::new();
    let mut bytes = 0;
    for (name, wanted) in requests {
        let size = wanted.request.body(false).to_string().len() + 200;
        bytes += size;
        let is_full = chunks.last().is_none_or(|chunk| chunk.len() >= MAX_REQUESTS) || bytes > MAX_BYTES;
        if is_full {
            chunks.push(Vec::new());
            bytes = size;
        }
        if let Some(chunk) = chunks.last_mut() {
            chunk.push((name, wanted));
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::request::ModelTask;

    #[test]
    fn ids_stay_in_their_folder() {
        assert!(is_batch_id("msgbatch_013Zva2CMHLNnXjNJJKqJ2EF"));
        for bad in ["", "../x", "a/b", "a.json", "a b", &"x".repeat(101)] {
            assert!(!is_batch_id(bad), "{bad}");
        }
    }

    #[test]
    fn requests_are_split_by_number() {
        let wanted = BatchRequest {
            request: ModelRequest::new(ModelTask::Extract, "m", 1, "x"),
            max_input_tokens: 1,
        };
        let names = (0..MAX_REQUESTS + 1)
            .map(|at| AnswerKey::parse(&format!("{at:064x}")).unwrap())
            .collect::<Vec<_>>();
        let parts = split_into_batches(names.iter().map(|name| (name, &wanted)).collect());
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [MAX_REQUESTS, 1]);
    }
}
