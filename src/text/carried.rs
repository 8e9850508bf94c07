//! What a text would have to carry over a boundary, and what of it it does.
//!
//! The conversation went on after the boundary, so it is known what was needed: files that were edited, names that were
//! used, tasks that were open, corrections that held. Only what had come up before counts: nothing else could be carried.

use super::offline::digest::{Digest, TaskState};
use super::offline::names;
use crate::input::messages::{Message, Part};
use crate::memory::sentences::content_words;
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
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
pub const NEEDS: [Need; 4] = [Need::Files, Need::Tasks, Need::Corrections, Need::Names];

impl Need {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Need::Files => "files",
            Need::Tasks => "tasks",
            Need::Corrections => "corrections",
            Need::Names => "names",
        }
    }
}

/// What was needed after a boundary.
#[derive(Debug, Clone, Default)]
pub struct Needed {
    lists: [Vec<String>; 4],
}

/// How much of something a text carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// What was needed.
    pub needed: u64,
    /// What of it the text has.
    pub carried: u64,
}

impl Carried {
    /// Takes another in.
    pub fn add(&mut self, other: Carried) {
        self.needed += other.needed;
        self.carried += other.carried;
    }

    /// The share; `None` if nothing was needed.
    pub fn share(&self) -> Option<f64> {
        (self.needed > 0).then(|| self.carried as f64 / self.needed as f64)
    }
}

/// Share of the words of a task or correction that must stand on one line.
const ALIKE: f64 = 0.6;

impl Needed {
    /// From what was said before and after.
    pub fn new<'m>(
        before: impl IntoIterator<Item = &'m Message>,
        after: impl IntoIterator<Item = &'m Message>,
    ) -> Needed {
        let mut digest = Digest::new("");
        let (mut known_names, mut known_files) = (HashSet::new(), HashSet::new());
        for message in before {
            digest.push(message);
            each_text(message, true, &mut |text| {
                names::identifiers(text, |name| {
                    known_names.insert(name);
                });
                names::paths(text, |path| {
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
                if let Part::Call { name, input, .. } = part
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
            each_text(message, false, &mut |text| {
                names::identifiers(text, |name| {
                    if known_names.contains(name) {
                        used.insert(name.to_owned());
                    }
                });
                names::paths(text, |path| {
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
        Needed {
            lists: [
                files.into_iter().collect(),
                open.collect(),
                corrections.collect(),
                used.into_iter().collect(),
            ],
        }
    }

    /// What was needed of one kind.
    pub fn of(&self, need: Need) -> &[String] {
        &self.lists[need as usize]
    }

    /// Which of them some texts do not carry.
    pub fn missing(&self, need: Need, texts: &[&str]) -> Vec<&str> {
        let list = self.of(need).iter().map(String::as_str);
        match need {
            Need::Files | Need::Names => {
                let mut held = HashSet::new();
                for text in texts {
                    held.extend(text.split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '_')));
                    names::paths(text, |path| {
                        held.insert(names::file_name(path));
                    });
                }
                list.filter(|name| !held.contains(name)).collect()
            }
            Need::Tasks | Need::Corrections => {
                let lines = texts
                    .iter()
                    .flat_map(|text| text.lines())
                    .map(words)
                    .collect::<Vec<_>>();
                list.filter(|wanted| !lines.iter().any(|line| holds(line, wanted)) && !spread(texts, wanted))
                    .collect()
            }
        }
    }

    /// How much of one kind a text carries.
    pub fn carried(&self, need: Need, text: &str) -> Carried {
        let needed = self.of(need).len() as u64;
        Carried {
            needed,
            carried: needed - self.missing(need, &[text]).len() as u64,
        }
    }
}

fn words(text: &str) -> HashSet<String> {
    content_words(text).into_iter().collect()
}

fn holds(line: &HashSet<String>, wanted: &str) -> bool {
    let wanted = words(wanted);
    let found = wanted.iter().filter(|word| line.contains(*word)).count();
    found as f64 >= ALIKE * wanted.len() as f64
}

/// Whether a text of several lines stands in others as it is.
fn spread(texts: &[&str], wanted: &str) -> bool {
    texts.iter().any(|text| text.contains(wanted))
}

/// All that a message says; results only where they are asked for, because what a tool prints was not used by anybody yet.
fn each_text<'m>(message: &'m Message, with_results: bool, each: &mut dyn FnMut(&'m str)) {
    for part in &message.parts {
        match part {
            Part::Text(text) => each(text),
            Part::Result { text, .. } if with_results => each(text),
            Part::Result { .. } => {}
            Part::Call { input, .. } => each_value(input, each),
        }
    }
}

fn each_value<'v>(value: &'v Value, each: &mut dyn FnMut(&'v str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| each_value(item, each)),
        Value::Object(members) => members.values().for_each(|member| each_value(member, each)),
        _ => {}
    }
}
