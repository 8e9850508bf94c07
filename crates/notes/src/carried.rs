//! What a text would have to carry over a boundary, and what of it it does.
//!
//! The conversation went on after the boundary, so it is known what was needed: files that were edited, names that were
//! used, tasks that were open, corrections that held. Only what had come up before counts: nothing else could be carried.

use crate::conversation::Conversation;
use crate::offline::digest::{Digest, TaskState};
use crate::offline::names;
use crate::{SummaryRequest, SummaryVariant, TextBackend, size};
use language::words::content_words;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use transcript::messages::{Message, MessagePart};

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedKind {
    /// Files that were edited afterwards.
    Files,
    /// Tasks that were open.
    Tasks,
    /// Corrections of the user.
    Corrections,
    /// Names in code and of files that were used afterwards.
    Names,
}

/// All of them.
pub const NEED_KINDS: [NeedKind; 4] = [NeedKind::Files, NeedKind::Tasks, NeedKind::Corrections, NeedKind::Names];

impl NeedKind {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            NeedKind::Files => "files",
            NeedKind::Tasks => "tasks",
            NeedKind::Corrections => "corrections",
            NeedKind::Names => "names",
        }
    }
}

/// What was needed after a boundary.
#[derive(Debug, Clone, Default)]
pub struct NeededItems {
    lists: [Vec<String>; 4],
}

/// How much of something a text carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NeedCoverage {
    /// What was needed.
    pub needed: u64,
    /// What of it the text has.
    pub carried: u64,
}

impl NeedCoverage {
    /// Takes another in.
    pub fn add(&mut self, other: NeedCoverage) {
        self.needed += other.needed;
        self.carried += other.carried;
    }

    /// The share; `None` if nothing was needed.
    pub fn share(&self) -> Option<f64> {
        (self.needed > 0).then(|| self.carried as f64 / self.needed as f64)
    }
}

/// A recorded compaction, with the summary that a model wrote there and another one of the same size.
#[derive(Debug, Clone)]
pub struct SummaryComparison {
    /// Tokens of the recorded summary: the budget of the other.
    pub budget: u64,
    /// Tokens of the other.
    pub size: u64,
    /// By need: what the recorded one carries, and what the other does.
    pub scores: [[NeedCoverage; 2]; 4],
    /// What the other misses, by need.
    pub missed: [Vec<String>; 4],
}

/// Holds a backend against every recorded summary of a conversation after which it went on.
pub fn compare_summaries(conversation: &Conversation, backend: &dyn TextBackend) -> Vec<SummaryComparison> {
    let messages = &conversation.messages;
    let summaries = (0..messages.len())
        .filter(|at| messages[*at].is_summary)
        .collect::<Vec<_>>();
    let mut compared = Vec::new();
    for (number, &at) in summaries.iter().enumerate() {
        let start = number.checked_sub(1).map_or(0, |before| summaries[before]);
        let end = summaries.get(number + 1).copied().unwrap_or(messages.len());
        let boundaries = conversation.boundaries.iter().map(|boundary| boundary.before);
        let stop = boundaries
            .filter(|before| (start + 1..=at).contains(before))
            .max()
            .unwrap_or(at);
        if stop == start || end == at + 1 {
            continue;
        }
        let recorded = messages[at].texts().collect::<Vec<_>>().join("\n");
        let budget = size::tokens(&recorded);
        let ask = SummaryRequest {
            material: conversation.to_material(start..stop),
            variant: SummaryVariant::Whole,
            instructions: "",
            budget,
            is_automatic: true,
        };
        let Ok(text) = backend.summary(&ask) else { continue };
        let needed = NeededItems::new(&messages[start..stop], &messages[at + 1..end]);
        let owned = |missing: Vec<&str>| missing.into_iter().map(str::to_owned).collect();
        compared.push(SummaryComparison {
            budget,
            size: size::tokens(&text),
            scores: NEED_KINDS.map(|need| [needed.coverage(need, &recorded), needed.coverage(need, &text)]),
            missed: NEED_KINDS.map(|need| owned(needed.missing(need, &[&text]))),
        });
    }
    compared
}

/// The mean over all needs of the shares that the recorded texts carry, and that the others do.
pub fn mean_coverage<'c>(compared: impl IntoIterator<Item = &'c SummaryComparison>) -> Option<[f64; 2]> {
    let mut sums = [[NeedCoverage::default(); 2]; 4];
    for one in compared {
        for (sums, scores) in std::iter::zip(&mut sums, one.scores) {
            std::iter::zip(sums, scores).for_each(|(sum, score)| sum.add(score));
        }
    }
    let shares = sums
        .iter()
        .filter_map(|[recorded, other]| Some([recorded.share()?, other.share()?]));
    let shares = shares.collect::<Vec<_>>();
    let mean = |of: usize| shares.iter().map(|share| share[of]).sum::<f64>() / shares.len() as f64;
    (!shares.is_empty()).then(|| [mean(0), mean(1)])
}

/// Share of the words of a task or correction that must stand on one line.
const WORD_SHARE: f64 = 0.6;

impl NeededItems {
    /// From what was said before and after.
    pub fn new<'m>(
        before: impl IntoIterator<Item = &'m Message>,
        after: impl IntoIterator<Item = &'m Message>,
    ) -> NeededItems {
        let mut digest = Digest::new("");
        let (mut known_names, mut known_files) = (HashSet::new(), HashSet::new());
        for message in before {
            digest.push(message);
            for_each_text(message, true, &mut |text| {
                names::for_each_identifier(text, |name| {
                    known_names.insert(name);
                });
                names::for_each_path(text, |path| {
                    known_files.insert(names::file_name(path));
                });
            });
        }
        let (mut files, mut used) = (BTreeSet::new(), BTreeSet::new());
        for message in after {
            if message.is_summary || message.is_sidechain {
                continue;
            }
            for part in &message.parts {
                if let MessagePart::Call { name, input, .. } = part
                    && matches!(name.as_str(), "Edit" | "Write" | "MultiEdit" | "NotebookEdit")
                    && let Some(path) = input
                        .get("file_path")
                        .or(input.get("notebook_path"))
                        .and_then(Value::as_str)
                {
                    let name = names::file_name(path);
                    if known_files.contains(name) {
                        files.insert(name.to_owned());
                    }
                }
            }
            for_each_text(message, false, &mut |text| {
                names::for_each_identifier(text, |name| {
                    if known_names.contains(name) {
                        used.insert(name.to_owned());
                    }
                });
                names::for_each_path(text, |path| {
                    let name = names::file_name(path);
                    if known_files.contains(name) {
                        used.insert(name.to_owned());
                    }
                });
            });
        }
        let open = digest
            .tasks
            .iter()
            .filter(|task| task.state != TaskState::Done)
            .map(|task| task.text.clone());
        let corrections = digest
            .prompts
            .iter()
            .filter(|prompt| prompt.is_correction)
            .map(|prompt| prompt.text.clone());
        NeededItems {
            lists: [
                files.into_iter().collect(),
                open.collect(),
                corrections.collect(),
                used.into_iter().collect(),
            ],
        }
    }

    /// What was needed of one kind.
    pub fn of_kind(&self, need: NeedKind) -> &[String] {
        &self.lists[need as usize]
    }

    /// Which of them some texts do not carry.
    pub fn missing(&self, need: NeedKind, texts: &[&str]) -> Vec<&str> {
        let list = self.of_kind(need).iter().map(String::as_str);
        match need {
            NeedKind::Files | NeedKind::Names => {
                let mut held = HashSet::new();
                for text in texts {
                    held.extend(text.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '_')));
                    names::for_each_path(text, |path| {
                        held.insert(names::file_name(path));
                    });
                }
                list.filter(|name| !held.contains(name)).collect()
            }
            NeedKind::Tasks | NeedKind::Corrections => {
                let lines = texts
                    .iter()
                    .flat_map(|text| text.lines())
                    .map(word_set)
                    .collect::<Vec<_>>();
                list.filter(|wanted| {
                    !lines.iter().any(|line| has_most_words(line, wanted)) && !is_verbatim_in(texts, wanted)
                })
                .collect()
            }
        }
    }

    /// How much of one kind a text carries.
    pub fn coverage(&self, need: NeedKind, text: &str) -> NeedCoverage {
        let needed = self.of_kind(need).len() as u64;
        NeedCoverage {
            needed,
            carried: needed - self.missing(need, &[text]).len() as u64,
        }
    }
}

fn word_set(text: &str) -> HashSet<String> {
    content_words(text).into_iter().collect()
}

fn has_most_words(line: &HashSet<String>, wanted: &str) -> bool {
    let wanted = word_set(wanted);
    let found = wanted.iter().filter(|word| line.contains(*word)).count();
    found as f64 >= WORD_SHARE * wanted.len() as f64
}

/// Whether a text of several lines stands in others as it is.
fn is_verbatim_in(texts: &[&str], wanted: &str) -> bool {
    texts.iter().any(|text| text.contains(wanted))
}

/// All that a message says; results only where they are asked for, because what a tool prints was not used by anybody yet.
fn for_each_text<'m>(message: &'m Message, with_results: bool, each: &mut dyn FnMut(&'m str)) {
    for part in &message.parts {
        match part {
            MessagePart::Text(text) => each(text),
            MessagePart::Result { text, .. } if with_results => each(text),
            MessagePart::Result { .. } => {}
            MessagePart::Call { input, .. } => for_each_string(input, each),
        }
    }
}

fn for_each_string<'v>(value: &'v Value, each: &mut dyn FnMut(&'v str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_string(item, each)),
        Value::Object(members) => members.values().for_each(|member| for_each_string(member, each)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use transcript::messages::MessageRole;

    fn message(role: MessageRole, parts: Vec<MessagePart>) -> Message {
        Message {
            session: "s".into(),
            line: 1,
            ..Message::with_parts(role, parts)
        }
    }

    fn edit(path: &str, new: &str) -> Message {
        let input = json!({"file_path": path, "old_string": "", "new_string": new});
        let call = MessagePart::Call {
            id: path.into(),
            name: "Edit".into(),
            input,
        };
        message(MessageRole::Assistant, vec![call])
    }

    #[test]
    fn only_what_came_up_before_can_be_carried() {
        let text = |text: &str| message(MessageRole::User, vec![MessagePart::Text(text.into())]);
        let before = [
            edit("/w/a.rs", "fn first_name() {}"),
            text("look at b.rs and other_name"),
        ];
        let after = [edit("/w/b.rs", "first_name(never_seen)"), edit("/w/c.rs", "x")];
        let needed = NeededItems::new(&before, &after);
        assert_eq!(needed.of_kind(NeedKind::Files), ["b.rs"]);
        assert_eq!(needed.of_kind(NeedKind::Names), ["b.rs", "first_name"]);
        assert_eq!(needed.missing(NeedKind::Names, &["see src/b.rs"]), ["first_name"]);
        let carried = needed.coverage(NeedKind::Names, "see src/b.rs");
        assert_eq!((carried.needed, carried.carried, carried.share()), (2, 1, Some(0.5)));
    }
}
