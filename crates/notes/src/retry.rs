//! A prompt that was too long is tried again without its oldest part; failures open a breaker.

use crate::{Backend, Material, SummaryAsk, TextError};
use replay::policy::Policy;
use replay::sim::keep::drop_oldest;

/// How often and by how much a prompt that was too long is shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Tries after the first.
    pub most: u64,
    /// Share of the groups that a try drops when the excess is not known.
    pub percent: u64,
}

impl Retries {
    /// As a policy says.
    pub fn of(policy: &Policy) -> Retries {
        Retries {
            most: policy.retries,
            percent: policy.retry_percent,
        }
    }
}

/// No more tries after too many failures in a row; a success starts the count anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    limit: u64,
    in_a_row: u64,
}

impl Breaker {
    /// Opens after `limit` failures in a row.
    pub fn new(limit: u64) -> Breaker {
        Breaker { limit, in_a_row: 0 }
    }

    /// Whether nothing should be tried any more.
    pub fn is_open(&self) -> bool {
        self.in_a_row >= self.limit
    }

    /// Failures in a row.
    pub fn failures(&self) -> u64 {
        self.in_a_row
    }

    /// Takes in how a try ended. That a budget is used up, or a text not there yet, is no failure of the backend.
    pub fn note<T>(&mut self, outcome: &Result<T, TextError>) {
        match outcome {
            Ok(_) => self.in_a_row = 0,
            Err(TextError::Budget(_) | TextError::Pending) => {}
            Err(_) => self.in_a_row += 1,
        }
    }
}

/// A summary, and what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summarised {
    /// The text.
    pub text: String,
    /// Tries after the first.
    pub retries: u64,
    /// Messages that it knows nothing of, because the prompt was too long with them.
    pub dropped: usize,
}

/// Asks a backend for a summary. A prompt that is too long loses its oldest groups and is tried again; when nothing is left
/// or the tries are used up, that is a failure, which the breaker counts.
pub fn summarise(
    backend: &dyn Backend,
    ask: &SummaryAsk<'_>,
    retries: Retries,
    breaker: &mut Breaker,
) -> Result<Summarised, TextError> {
    if breaker.is_open() {
        return Err(TextError::Failed(format!(
            "not tried: {} failures in a row",
            breaker.failures()
        )));
    }
    let outcome = attempt(backend, ask, retries);
    breaker.note(&outcome);
    outcome
}

fn attempt(backend: &dyn Backend, ask: &SummaryAsk<'_>, retries: Retries) -> Result<Summarised, TextError> {
    let starts = ask.material.groups();
    let size = |messages: &[&transcript::messages::Message]| {
        messages
            .iter()
            .map(|message| Material::units(message))
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
                return Ok(Summarised {
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
                "the conversation is too long to summarise, also after {tried} tries without its oldest part"
            )));
        }
        let Some(left) = drop_oldest(&groups, first, excess, retries.percent) else {
            return Err(TextError::Failed(
                "the conversation is too long to summarise: nothing would be left of it".to_owned(),
            ));
        };
        first = left.first_group;
        tried += 1;
        ask.material = whole.part(starts[first]..whole.messages.len());
        ask.material.dropped = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NotesAsk;
    use std::sync::Mutex;
    use transcript::messages::{Message, Part, Role};

    /// Refuses everything above a size, and says so or not.
    struct Narrow {
        room: u64,
        tells: bool,
        seen: Mutex<Vec<(usize, bool)>>,
    }

    impl Backend for Narrow {
        fn name(&self) -> &'static str {
            "narrow"
        }

        fn summary(&self, ask: &SummaryAsk<'_>) -> Result<String, TextError> {
            let material = &ask.material;
            let tokens = material
                .messages
                .iter()
                .map(|message| Material::units(message) / 4)
                .sum::<u64>();
            self.seen
                .lock()
                .unwrap()
                .push((material.messages.len(), material.marker().is_some()));
            if tokens <= self.room {
                return Ok("summary".into());
            }
            let excess = self.tells.then_some(tokens - self.room);
            Err(TextError::PromptTooLong { excess })
        }

        fn notes(&self, _: &NotesAsk<'_>) -> Result<String, TextError> {
            Err(TextError::Failed("no notes".into()))
        }
    }

    fn conversation(rounds: usize) -> Vec<Message> {
        let message = |at: usize| {
            let role = if at.is_multiple_of(2) {
                Role::User
            } else {
                Role::Assistant
            };
            Message {
                session: "s".into(),
                uuid: at.to_string(),
                line: 1,
                ..Message::of(role, vec![Part::Text("x".repeat(400))])
            }
        };
        (0..rounds * 2).map(message).collect()
    }

    fn ask(messages: &[Message]) -> SummaryAsk<'_> {
        SummaryAsk {
            material: Material::of(messages),
            variant: crate::Variant::Whole,
            instructions: "",
            budget: 1_000,
            is_automatic: false,
        }
    }

    const RETRIES: Retries = Retries { most: 3, percent: 20 };

    #[test]
    fn what_is_too_long_loses_its_oldest_rounds_and_gets_a_marker() {
        let messages = conversation(10);
        let narrow = Narrow {
            room: 1_500,
            tells: true,
            seen: Mutex::default(),
        };
        let mut breaker = Breaker::new(3);
        let done = summarise(&narrow, &ask(&messages), RETRIES, &mut breaker).unwrap();
        // 2,000 tokens: the first group is a prompt alone (100), the others are an answer and a prompt (200 each).
        assert_eq!((done.retries, done.dropped), (1, 5));
        assert_eq!(*narrow.seen.lock().unwrap(), [(20, false), (15, true)]);
    }

    #[test]
    fn an_unknown_excess_costs_a_fifth_a_try_and_three_tries_are_all() {
        let messages = conversation(10);
        let narrow = Narrow {
            room: 100,
            tells: false,
            seen: Mutex::default(),
        };
        let mut breaker = Breaker::new(1);
        let refused = summarise(&narrow, &ask(&messages), RETRIES, &mut breaker).unwrap_err();
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
        let refused = summarise(&narrow, &ask(&messages), RETRIES, &mut breaker).unwrap_err();
        assert!(refused.to_string().contains("not tried"));
        assert_eq!(narrow.seen.lock().unwrap().len(), 4);
    }

    #[test]
    fn nothing_left_is_a_failure_and_a_success_closes_the_breaker() {
        let messages = conversation(1);
        let narrow = Narrow {
            room: 0,
            tells: true,
            seen: Mutex::default(),
        };
        let mut breaker = Breaker::new(3);
        let refused = summarise(&narrow, &ask(&messages), RETRIES, &mut breaker).unwrap_err();
        assert!(refused.to_string().contains("nothing would be left"));
        assert_eq!(breaker.failures(), 1);
        breaker.note::<()>(&Err(TextError::Budget("spent".into())));
        assert_eq!(breaker.failures(), 1);
        breaker.note(&Ok(()));
        assert_eq!(breaker.failures(), 0);
    }
}
