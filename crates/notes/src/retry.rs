//! Retries of a prompt that is too long, without its oldest part, and a circuit breaker for failures.

use crate::{SourceMaterial, SummaryRequest, TextBackend, TextError};
use replay::policy::Policy;
use replay::sim::keep::drop_oldest;

/// How often and by how much a prompt is shortened that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptRetries {
    /// Maximum number of retries.
    pub most: u64,
    /// Percentage of the groups that a retry drops if the excess is unknown.
    pub percent: u64,
}

impl PromptRetries {
    pub fn from_policy(policy: &Policy) -> PromptRetries {
        PromptRetries {
            most: policy.retries,
            percent: policy.retry_percent,
        }
    }
}

/// Stops requests after too many consecutive failures; a success resets the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreaker {
    limit: u64,
    consecutive_failures: u64,
}

impl CircuitBreaker {
    /// Creates a breaker that opens after `limit` consecutive failures.
    pub fn new(limit: u64) -> CircuitBreaker {
        CircuitBreaker {
            limit,
            consecutive_failures: 0,
        }
    }

    pub fn is_open(&self) -> bool {
        self.consecutive_failures >= self.limit
    }

    /// Returns the number of consecutive failures.
    pub fn failures(&self) -> u64 {
        self.consecutive_failures
    }

    /// Records the result of a request. A spent budget or a pending text is not a failure of the backend.
    pub fn record<T>(&mut self, outcome: &Result<T, TextError>) {
        match outcome {
            Ok(_) => self.consecutive_failures = 0,
            Err(TextError::Budget(_) | TextError::Pending) => {}
            Err(_) => self.consecutive_failures += 1,
        }
    }
}

/// A summary and its retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryResult {
    pub text: String,
    pub retries: u64,
    /// Number of messages that were dropped because the prompt was too long.
    pub dropped: usize,
}

/// Asks a backend for a summary. A prompt that is too long is retried without its oldest groups. Fails if nothing would be
/// left or the retries are used up; the breaker counts failures.
pub fn summarize_with_retries(
    backend: &dyn TextBackend,
    ask: &SummaryRequest<'_>,
    retries: PromptRetries,
    breaker: &mut CircuitBreaker,
) -> Result<SummaryResult, TextError> {
    if breaker.is_open() {
        return Err(TextError::Failed(format!(
            "not tried: {} failures in a row",
            breaker.failures()
        )));
    }
    let outcome = attempt(backend, ask, retries);
    breaker.record(&outcome);
    outcome
}

fn attempt(
    backend: &dyn TextBackend,
    ask: &SummaryRequest<'_>,
    retries: PromptRetries,
) -> Result<SummaryResult, TextError> {
    let starts = ask.material.group_starts();
    let size = |messages: &[&transcript::messages::Message]| {
        messages
            .iter()
            .map(|message| SourceMaterial::text_units(message))
            .sum::<u64>()
            .div_ceil(4)
    };
    let ends = starts.iter().skip(1).copied().chain([ask.material.messages.len()]);
    let groups = std::iter::zip(starts.iter().copied(), ends)
        .map(|(start, end)| size(&ask.material.messages[start..end]))
        .collect::<Vec<_>>();
    let mut ask = ask.clone();
    let (whole, mut first, mut tried) = (ask.material.clone(), 0, 0);
    loop {
        let excess = match backend.summary(&ask) {
            Ok(text) => {
                return Ok(SummaryResult {
                    text,
                    retries: tried,
                    dropped: whole.messages.len() - ask.material.messages.len(),
                });
            }
            Err(TextError::PromptTooLong { excess }) => excess,
            Err(error) => return Err(error),
        };
        if tried == retries.most {
            return Err(TextError::Failed(format!(
                "the conversation is too long to summarize, even after {tried} tries without its oldest part"
            )));
        }
        let Some(left) = drop_oldest(&groups, first, excess, retries.percent) else {
            return Err(TextError::Failed(
                "the conversation is too long to summarize: nothing would be left of it".to_owned(),
            ));
        };
        first = left.first_group;
        tried += 1;
        ask.material = whole.slice(starts[first]..whole.messages.len());
        ask.material.dropped = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NotesRequest;
    use std::sync::Mutex;
    use transcript::messages::{Message, MessagePart, MessageRole};

    /// A backend that refuses prompts above a size, with or without reporting the excess.
    struct SizeLimitedBackend {
        room: u64,
        reports_excess: bool,
        seen: Mutex<Vec<(usize, bool)>>,
    }

    impl TextBackend for SizeLimitedBackend {
        fn name(&self) -> &'static str {
            "narrow"
        }

        fn summary(&self, ask: &SummaryRequest<'_>) -> Result<String, TextError> {
            let material = &ask.material;
            let tokens = material
                .messages
                .iter()
                .map(|message| SourceMaterial::text_units(message) / 4)
                .sum::<u64>();
            self.seen
                .lock()
                .unwrap()
                .push((material.messages.len(), material.leading_marker().is_some()));
            if tokens <= self.room {
                return Ok("summary".into());
            }
            let excess = self.reports_excess.then_some(tokens - self.room);
            Err(TextError::PromptTooLong { excess })
        }

        fn notes(&self, _: &NotesRequest<'_>) -> Result<String, TextError> {
            Err(TextError::Failed("no notes".into()))
        }
    }

    fn conversation(rounds: usize) -> Vec<Message> {
        let message = |at: usize| {
            let role = if at.is_multiple_of(2) {
                MessageRole::User
            } else {
                MessageRole::Assistant
            };
            Message {
                session: "s".into(),
                uuid: at.to_string(),
                line: 1,
                ..Message::with_parts(role, vec![MessagePart::Text("x".repeat(400))])
            }
        };
        (0..rounds * 2).map(message).collect()
    }

    fn ask(messages: &[Message]) -> SummaryRequest<'_> {
        SummaryRequest {
            material: SourceMaterial::from_messages(messages),
            variant: crate::SummaryVariant::Whole,
            instructions: "",
            budget: 1_000,
            is_automatic: false,
        }
    }

    const RETRIES: PromptRetries = PromptRetries { most: 3, percent: 20 };

    #[test]
    fn a_long_prompt_loses_its_oldest_rounds_and_gets_a_marker() {
        let messages = conversation(10);
        let narrow = SizeLimitedBackend {
            room: 1_500,
            reports_excess: true,
            seen: Mutex::default(),
        };
        let mut breaker = CircuitBreaker::new(3);
        let done = summarize_with_retries(&narrow, &ask(&messages), RETRIES, &mut breaker).unwrap();
        // 2,000 tokens: the first group is a prompt alone (100), the others are an answer and a prompt (200 each).
        assert_eq!((done.retries, done.dropped), (1, 5));
        assert_eq!(*narrow.seen.lock().unwrap(), [(20, false), (15, true)]);
    }

    #[test]
    fn an_unknown_excess_drops_a_fifth_per_retry() {
        let messages = conversation(10);
        let narrow = SizeLimitedBackend {
            room: 100,
            reports_excess: false,
            seen: Mutex::default(),
        };
        let mut breaker = CircuitBreaker::new(1);
        let refused = summarize_with_retries(&narrow, &ask(&messages), RETRIES, &mut breaker).unwrap_err();
        assert!(
            matches!(&refused, TextError::Failed(why) if why.contains("3 tries")),
            "{refused}"
        );
        // Eleven groups: two go, then one of nine, then one of eight.
        let seen = narrow
            .seen
            .lock()
            .unwrap()
            .iter()
            .map(|seen| seen.0)
            .collect::<Vec<_>>();
        assert_eq!(seen, [20, 17, 15, 13]);
        assert!(breaker.is_open());
        let refused = summarize_with_retries(&narrow, &ask(&messages), RETRIES, &mut breaker).unwrap_err();
        assert!(refused.to_string().contains("not tried"));
        assert_eq!(narrow.seen.lock().unwrap().len(), 4);
    }

    #[test]
    fn an_empty_rest_is_a_failure_and_a_success_resets_the_breaker() {
        let messages = conversation(1);
        let narrow = SizeLimitedBackend {
            room: 0,
            reports_excess: true,
            seen: Mutex::default(),
        };
        let mut breaker = CircuitBreaker::new(3);
        let refused = summarize_with_retries(&narrow, &ask(&messages), RETRIES, &mut breaker).unwrap_err();
        assert!(refused.to_string().contains("nothing would be left"));
        assert_eq!(breaker.failures(), 1);
        breaker.record::<()>(&Err(TextError::Budget("spent".into())));
        assert_eq!(breaker.failures(), 1);
        breaker.record(&Ok(()));
        assert_eq!(breaker.failures(), 0);
    }
}
