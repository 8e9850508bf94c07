//! Batches: many requests at once, answered within a day, at half the price.
//!
//! A receipt of every batch is stored in a folder of the cache, with the keys of its requests, before the wait for results
//! begins. A run that finds its requests in a receipt fetches their answers instead of paying for them again.

#![allow(
    clippy::disallowed_methods,
    reason = "receipts are files, and batches are waited for"
)]

use crate::TextError;
use crate::model::answers::ModelAnswerStore;
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
use table::store::{EntryKind, EntryName, EntryStore};
use transcript::record::Tokens;

/// Most requests and bytes of a batch: well below the limits of the API.
const MAX_REQUESTS: usize = 10_000;
const MAX_BYTES: usize = 100 << 20;

/// Extension of the files of receipts.
const RECEIPT_EXTENSION: &str = "batch";

/// How often to poll the server for a batch, and for how long in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPolling {
    pub interval: Duration,
    pub max_wait: Duration,
}

/// A request for a batch.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    pub request: ModelRequest,
    /// Upper bound of its input tokens.
    pub max_input_tokens: u64,
}

/// A batch that was sent: its id, the server, and the keys of its requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BatchReceipt {
    id: String,
    server: String,
    names: BTreeSet<String>,
}

/// Sends the batches of a run and fetches their results.
pub struct BatchRunner<'a> {
    pub client: &'a Client,
    pub ledger: &'a SpendingLedger,
    /// Receives the answers.
    pub answers: &'a ModelAnswerStore,
    /// Folder of the receipts.
    pub folder: Option<&'a Path>,
    pub polling: BatchPolling,
    pub retry_policy: RetryPolicy,
    pub observer: &'a ModelObserver,
}

/// The result of answering requests in batches.
#[derive(Debug, Default)]
pub struct BatchOutcome {
    /// Requests without an answer, and why. All other answers were stored.
    pub failed: BTreeMap<AnswerKey, TextError>,
    /// How many answers come from a batch that an earlier run sent.
    pub fetched: u64,
    /// Tokens of those answers.
    pub fetched_tokens: Tokens,
}

impl BatchRunner<'_> {
    /// Answers requests: fetches the results of batches that were sent already, sends the rest, and waits.
    pub fn answer_requests(&self, wanted: &BTreeMap<AnswerKey, BatchRequest>) -> Result<BatchOutcome, TextError> {
        let mut outcome = BatchOutcome::default();
        let mut left = wanted.keys().cloned().collect::<BTreeSet<_>>();
        for (path, receipt) in self.load_receipts() {
            if receipt.server != self.client.base() || !left.iter().any(|name| receipt.names.contains(name.as_str())) {
                continue;
            }
            self.observer
                .notify(ModelEvent::Batch(&receipt.id, "was sent by an earlier run"));
            let results = self.wait_and_fetch(&receipt, &mut BTreeMap::new());
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
                // A batch that the server no longer knows is sent again.
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

    /// Sends one batch, waits for its results and stores them.
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
        let receipt = BatchReceipt {
            id: id.to_owned(),
            server: self.client.base().to_owned(),
            names: holds.keys().map(|name| name.as_str().to_owned()).collect(),
        };
        let path = self.save_receipt(&receipt)?;
        self.observer.notify(ModelEvent::Batch(
            &receipt.id,
            &format!("was sent with {} requests", holds.len()),
        ));
        let results = match self.wait_and_fetch(&receipt, &mut holds) {
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
        // A reservation that is left has no result. The batch has ended, so nothing is billed for it.
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

    /// Creates a batch. A failed call is retried only if the server certainly did not accept it.
    fn create_batch(&self, body: &Value) -> Result<Value, RequestFailure> {
        self.retry_policy.run_with_retries(
            |failure| failure.is_transient() && failure.is_unbilled(),
            self.observer,
            || self.client.json("/v1/messages/batches", Some(body), self.observer),
        )
    }

    /// Waits until a batch has ended, then stores its answers and returns all results.
    fn wait_and_fetch(
        &self,
        receipt: &BatchReceipt,
        holds: &mut BTreeMap<AnswerKey, Reservation<'_>>,
    ) -> Result<BTreeMap<AnswerKey, Result<ModelAnswer, TextError>>, BatchFailure> {
        let path = format!("/v1/messages/batches/{}", receipt.id);
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
                &receipt.id,
                &format!("has {done} of {} done", receipt.names.len()),
            ));
            if started.elapsed() + self.polling.interval > self.polling.max_wait {
                let why = format!(
                    "batch {} is not done yet; the same command fetches it when it is",
                    receipt.id
                );
                return Err(BatchFailure::Failed(TextError::Failed(why)));
            }
            std::thread::sleep(self.polling.interval);
        }
        let fetch = || {
            let mut results = BTreeMap::new();
            let lines = |line: &[u8]| self.take_result(line, receipt, &mut results);
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

    /// Adds one line of results. A line of no request of the batch is skipped.
    fn take_result(
        &self,
        line: &[u8],
        receipt: &BatchReceipt,
        results: &mut BTreeMap<AnswerKey, Result<ModelAnswer, RequestFailure>>,
    ) {
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let name = value["custom_id"].as_str().filter(|name| receipt.names.contains(*name));
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
                // The API wraps the error in an error response, or sends it bare.
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

    /// Returns the failure that the same error would be outside a batch.
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

    /// Returns the receipts of all batches that were sent and not fetched, sorted by path.
    fn load_receipts(&self) -> Vec<(PathBuf, BatchReceipt)> {
        let Some(store) = self.receipts() else {
            return Vec::new();
        };
        let files = fs::read_dir(store.folder()).into_iter().flatten().flatten();
        let mut receipts = Vec::new();
        for file in files {
            let path = PathBuf::from(file.file_name());
            let id = path.file_stem().and_then(|stem| stem.to_str());
            let is_receipt = path.extension().is_some_and(|extension| extension == RECEIPT_EXTENSION);
            let Some(id) = id.filter(|id| is_receipt && is_batch_id(id)) else {
                continue;
            };
            let body = store.read_at(&path, EntryKind::BatchReceipt, &receipt_name(id));
            match body.and_then(|body| serde_json::from_slice::<BatchReceipt>(&body).ok()) {
                Some(receipt) => receipts.push((file.path(), receipt)),
                None => {
                    let path = file.path();
                    let text = format!(
                        "{} is damaged; its requests are sent again when they come up",
                        path.display()
                    );
                    self.observer.notify(ModelEvent::Warning(&text));
                }
            }
        }
        receipts.sort_by(|one, other| one.0.cmp(&other.0));
        receipts
    }

    /// Stores a receipt and returns its path; `None` if there is no folder for receipts.
    fn save_receipt(&self, receipt: &BatchReceipt) -> Result<Option<PathBuf>, TextError> {
        let Some(store) = self.receipts() else { return Ok(None) };
        let file = format!("{}.{RECEIPT_EXTENSION}", receipt.id);
        let path = store.folder().join(&file);
        let body = serde_json::to_vec_pretty(receipt).unwrap_or_default();
        let written = store.write_at(
            Path::new(&file),
            EntryKind::BatchReceipt,
            &receipt_name(&receipt.id),
            &body,
        );
        written.map_err(|error| {
            TextError::Failed(format!(
                "batch {} was sent, but its receipt could not be written to {}: {error}",
                receipt.id,
                path.display()
            ))
        })?;
        Ok(Some(path))
    }

    fn receipts(&self) -> Option<EntryStore> {
        self.folder.map(|folder| EntryStore::new(folder.to_owned()))
    }
}

fn receipt_name(id: &str) -> EntryName {
    EntryName::new(*blake3::hash(id.as_bytes()).as_bytes())
}

/// Why a batch has no results.
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

/// Returns whether a text is safe in a URL and in a file name.
fn is_batch_id(id: &str) -> bool {
    (1..=100).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Splits requests into batches below the limits.
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
