//! What the conversation needed after a boundary, and how much of it a text covers.
//!
//! The messages after the boundary show what was needed: files that were edited, names that were used, open tasks,
//! corrections. Only what occurred before the boundary counts: a summary could not cover anything else.

use crate::offline::digest::{Digest, TaskState};
use crate::offline::names;
use language::words::content_words;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use transcript::messages::{Message, MessagePart};
use transcript::tools::tool_role;

/// A kind of needed information.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedKind {
    /// Files that were edited after the boundary.
    Files,
    /// Open tasks.
    Tasks,
    /// Corrections of the user.
    Corrections,
    /// Identifiers and file names that were used after the boundary.
    Names,
}

pub const NEED_KINDS: [NeedKind; 4] = [NeedKind::Files, NeedKind::Tasks, NeedKind::Corrections, NeedKind::Names];

impl NeedKind {
    pub fn name(self) -> &'static str {
        match self {
            NeedKind::Files => "files",
            NeedKind::Tasks => "tasks",
            NeedKind::Corrections => "corrections",
            NeedKind::Names => "names",
        }
    }
}

/// Items that were needed after a boundary, by kind.
#[derive(Debug, Clone, Default)]
pub struct NeededItems {
    lists: [Vec<String>; 4],
}

/// How many of the needed items a text has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NeedCoverage {
    pub needed: u64,
    pub carried: u64,
}

impl NeedCoverage {
    pub fn add(&mut self, other: NeedCoverage) {
        self.needed += other.needed;
        self.carried += other.carried;
    }

    /// Returns the share of needed items that the text has; `None` if none were needed.
    pub fn share(&self) -> Option<f64> {
        (self.needed > 0).then(|| self.carried as f64 / self.needed as f64)
    }
}

/// Share of the words of a task or correction that must be on one line of the text.
const WORD_SHARE: f64 = 0.6;

/// What the messages before a boundary named. It grows from boundary to boundary, so each message is looked at once.
pub struct EarlierItems<'m> {
    digest: Digest,
    names: HashSet<&'m str>,
    files: HashSet<&'m str>,
}

impl Default for EarlierItems<'_> {
    fn default() -> Self {
        EarlierItems {
            digest: Digest::new(""),
            names: HashSet::new(),
            files: HashSet::new(),
        }
    }
}

impl<'m> EarlierItems<'m> {
    /// Adds the next message.
    pub fn push(&mut self, message: &'m Message) {
        self.digest.push(message);
        for_each_text(message, true, &mut |text| {
            names::for_each_identifier(text, |name| {
                self.names.insert(name);
            });
            names::for_each_path(text, |path| {
                self.files.insert(names::file_name(path));
            });
        });
    }
}

impl NeededItems {
    /// Finds the items from the messages before and after the boundary.
    pub fn new<'m>(
        before: impl IntoIterator<Item = &'m Message>,
        after: impl IntoIterator<Item = &'m Message>,
    ) -> NeededItems {
        let mut earlier = EarlierItems::default();
        before.into_iter().for_each(|message| earlier.push(message));
        NeededItems::from_earlier(&earlier, after)
    }

    /// Finds the items from what was named before the boundary and the messages after it.
    pub fn from_earlier<'m>(earlier: &EarlierItems<'_>, after: impl IntoIterator<Item = &'m Message>) -> NeededItems {
        let EarlierItems {
            digest,
            names: known_names,
            files: known_files,
        } = earlier;
        let (mut files, mut used) = (BTreeSet::new(), BTreeSet::new());
        for message in after {
            if message.is_summary || message.is_sidechain {
                continue;
            }
            for part in &message.parts {
                if let MessagePart::Call { name, input, .. } = part
                    && matches!(tool_role(name, true), "Edit" | "Write" | "MultiEdit" | "NotebookEdit")
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

    /// Returns the items of one kind.
    pub fn of_kind(&self, need: NeedKind) -> &[String] {
        &self.lists[need as usize]
    }

    /// Returns the items of one kind that none of the texts has.
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

    /// Returns how many items of one kind a text has.
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

/// Returns whether one of the texts contains another.
fn is_verbatim_in(texts: &[&str], wanted: &str) -> bool {
    texts.iter().any(|text| text.contains(wanted))
}

/// Calls `each` with every text and every string in the input of a call. Results are optional: the output of a tool is not
/// yet used by the model.
fn for_each_text<'m>(message: &'m Message, with_results: bool, each: &mut dyn FnMut(&'m str)) {
    for part in &message.parts {
        match part {
            MessagePart::Text(text) => each(text),
            MessagePart::Result { text, .. } if with_results => each(text),
            MessagePart::Result { .. } | MessagePart::Reply(_) => {}
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
    fn only_items_from_before_the_boundary_count() {
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
