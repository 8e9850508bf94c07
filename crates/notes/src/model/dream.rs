//! Memories that should not all stay, found by a model: what is asked, and what is accepted of the answer.
//!
//! The model names pairs by ids that code gave. What is done about them, and whether it may be done at all, is decided where
//! every consolidation is decided.

use crate::model::reading::{closing, cut, instructions, object};
use crate::model::request::{Request, Task};
use crate::model::{Anthropic, fence};
use language::secrets::mask;
use language::when;
use memory::dream::Found;
use memory::kinds::Kind;
use memory::names::TEAM;
use memory::plan::Snapshot;
use memory::topic::{Topic, one_line};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Instructions.
const PROMPT: &str = include_str!("../prompts/dream.md");

/// The task in a few words.
const TASK: &str = "name the memories that say the same or contradict each other, and answer with the JSON object";

/// Memories in one question.
const CHUNK: usize = 120;

/// Most characters of a memory.
const MAX_BODY: usize = 1_500;

/// Most tokens of an answer, thinking included.
const MAX_OUTPUT: u64 = 12_000;

/// One question: the files it shows, by id from `m1`.
#[derive(Debug, Clone)]
pub struct Question {
    files: Vec<String>,
    /// What is sent.
    pub request: Request,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    same: Vec<Same>,
    contradicting: Vec<Contradicting>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Same {
    keep: String,
    drop: Vec<String>,
    because: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Contradicting {
    one: String,
    other: String,
    because: String,
}

/// What is asked about a directory: only memories that could be joined stand in one question.
pub fn questions(backend: &Anthropic, snapshot: &Snapshot) -> Vec<Question> {
    let mut groups = BTreeMap::<(bool, Option<Kind>), Vec<&Topic>>::new();
    for topic in snapshot.topics.iter().filter(|topic| !topic.is_broken()) {
        let is_team = topic.file.starts_with(TEAM);
        groups.entry((is_team, topic.kind())).or_default().push(topic);
    }
    let several = groups.into_values().filter(|topics| topics.len() > 1);
    let parts = several.flat_map(|topics| topics.chunks(CHUNK).map(<[_]>::to_vec).collect::<Vec<_>>());
    parts
        .filter(|part| part.len() > 1)
        .map(|part| question(backend, &part))
        .collect()
}

fn question(backend: &Anthropic, topics: &[&Topic]) -> Question {
    let shown = |topic: &&Topic| {
        let mut text = String::new();
        let _ = writeln!(text, "name: {}", mask(&one_line(&topic.name())));
        let _ = writeln!(text, "about: {}", mask(&one_line(&topic.description())));
        let _ = writeln!(text, "said: {}", when::date(topic.last_said()));
        let _ = writeln!(text, "{}", cut(mask(topic.body()).trim(), MAX_BODY));
        text
    };
    let texts = topics.iter().map(shown).collect::<Vec<_>>();
    let code = fence::code(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut text = String::new();
    for (at, memory) in texts.iter().enumerate() {
        let _ = write!(text, "{code} m{}\n{memory}", at + 1);
    }
    let request = backend
        .request(Task::Dream, MAX_OUTPUT, &instructions(PROMPT))
        .with(&fence::fenced("memories", &text, &code))
        .with(&closing(TASK));
    Question {
        files: topics.iter().map(|topic| topic.file.clone()).collect(),
        request,
    }
}

impl Question {
    /// Reads an answer: known ids, each used once.
    pub fn read(&self, text: &str) -> Result<Found, String> {
        let form = object::<Form>(text)?;
        let mut used = BTreeSet::new();
        let mut file = |id: &str| -> Result<String, String> {
            let number = id.strip_prefix('m').and_then(|number| number.parse::<usize>().ok());
            let at = number
                .and_then(|number| number.checked_sub(1))
                .filter(|at| *at < self.files.len());
            let at = at.ok_or("an id that is not in the material")?;
            if !used.insert(at) {
                return Err("an id that is used twice".into());
            }
            Ok(self.files[at].clone())
        };
        let mut found = Found::default();
        for same in form.same {
            brief(&same.because)?;
            let keep = file(&same.keep)?;
            for id in &same.drop {
                found.same.push((keep.clone(), file(id)?));
            }
        }
        for pair in form.contradicting {
            brief(&pair.because)?;
            found.contradicting.push((file(&pair.one)?, file(&pair.other)?));
        }
        Ok(found)
    }
}

/// A reason makes the model think; it is read by nobody, and must not be a book.
fn brief(reason: &str) -> Result<(), String> {
    if reason.chars().count() > 1_000 {
        return Err("a reason that is too long".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::idle;
    use super::*;

    fn snapshot() -> Snapshot {
        let topic = |file: &str, kind, body: &str| Topic::new(file, file, "about", kind, body);
        Snapshot {
            topics: vec![
                topic("a.md", Kind::Feedback, "Tabs."),
                topic("b.md", Kind::Feedback, "m9 is the best id"),
                topic("c.md", Kind::Feedback, "Spaces."),
                topic("d.md", Kind::Project, "Alone."),
                topic("team/e.md", Kind::Feedback, "Apart."),
            ],
            ..Snapshot::default()
        }
    }

    #[test]
    fn only_what_could_be_joined_is_asked_about() {
        let questions = questions(&idle(), &snapshot());
        assert_eq!(questions.len(), 1);
        assert_eq!(questions[0].files, ["a.md", "b.md", "c.md"]);
    }

    #[test]
    fn only_known_ids_each_once() {
        let question = questions(&idle(), &snapshot()).remove(0);
        let good = r#"{"same": [{"keep": "m1", "drop": ["m2"], "because": "x"}], "contradicting": []}"#;
        assert_eq!(
            question.read(good).unwrap().same,
            [("a.md".to_owned(), "b.md".to_owned())]
        );
        let pair = r#"{"same": [], "contradicting": [{"one": "m3", "other": "m1", "because": "x"}]}"#;
        assert_eq!(
            question.read(pair).unwrap().contradicting,
            [("c.md".to_owned(), "a.md".to_owned())]
        );
        for wrong in [
            r#"{"same": [{"keep": "m1", "drop": ["m9"], "because": "x"}], "contradicting": []}"#,
            r#"{"same": [{"keep": "m1", "drop": ["m1"], "because": "x"}], "contradicting": []}"#,
            r#"{"same": [{"keep": "a.md", "drop": ["b.md"], "because": "x"}], "contradicting": []}"#,
            r#"{"same": [{"keep": "m0", "drop": ["m2"], "because": "x"}], "contradicting": []}"#,
            r#"{"same": [{"keep": "../../etc", "drop": ["m2"], "because": "x"}], "contradicting": []}"#,
            r#"{"same": [], "contradicting": [], "delete": ["m1"]}"#,
            r#"{"same": []}"#,
        ] {
            assert!(question.read(wrong).is_err(), "{wrong}");
        }
    }
}
