//! Duplicate and contradicting memories, found by a model: the requests, and which answers are accepted.
//!
//! The model names memories by ids from the request. [`memory::dream`] decides what happens to them.

use crate::model::prompt::{closing_prompt, parse_object, task_instructions, truncate_chars};
use crate::model::request::{ModelRequest, ModelTask};
use crate::model::{AnthropicBackend, fence};
use language::secrets::mask;
use language::when;
use memory::dream::MemoryConflicts;
use memory::kinds::MemoryKind;
use memory::names::TEAM_FOLDER;
use memory::plan::Snapshot;
use memory::topic::{Topic, to_one_line};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const PROMPT: &str = include_str!("../prompts/dream.md");

const TASK: &str = "name the memories that say the same or contradict each other, and answer with the JSON object";

/// Memories per request.
const CHUNK: usize = 120;

/// Maximum characters of a memory.
const MAX_BODY: usize = 1_500;

/// Maximum output tokens, including the scratch block.
const MAX_OUTPUT: u64 = 12_000;

/// A request about memory files, whose ids count from `m1`.
#[derive(Debug, Clone)]
pub struct DreamQuestion {
    files: Vec<String>,
    pub request: ModelRequest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DreamAnswer {
    same: Vec<DuplicateGroup>,
    contradicting: Vec<ContradictoryPair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DuplicateGroup {
    keep: String,
    drop: Vec<String>,
    because: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContradictoryPair {
    one: String,
    other: String,
    because: String,
}

/// Builds requests about a directory. A request has only memories that could be merged.
pub fn build_questions(backend: &AnthropicBackend, snapshot: &Snapshot) -> Vec<DreamQuestion> {
    let mut groups = BTreeMap::<(bool, Option<MemoryKind>), Vec<&Topic>>::new();
    for topic in snapshot.topics.iter().filter(|topic| !topic.has_broken_frontmatter()) {
        let is_team = topic.file.starts_with(TEAM_FOLDER);
        groups.entry((is_team, topic.kind())).or_default().push(topic);
    }
    let several = groups.into_values().filter(|topics| topics.len() > 1);
    let parts = several.flat_map(|topics| topics.chunks(CHUNK).map(<[_]>::to_vec).collect::<Vec<_>>());
    parts
        .filter(|part| part.len() > 1)
        .map(|part| build_question(backend, &part))
        .collect()
}

fn build_question(backend: &AnthropicBackend, topics: &[&Topic]) -> DreamQuestion {
    let shown = |topic: &&Topic| {
        let mut text = String::new();
        let _ = writeln!(text, "name: {}", mask(&to_one_line(&topic.name())));
        let _ = writeln!(text, "about: {}", mask(&to_one_line(&topic.description())));
        let _ = writeln!(text, "said: {}", when::format_date(topic.last_said()));
        let _ = writeln!(text, "{}", truncate_chars(mask(topic.body()).trim(), MAX_BODY));
        text
    };
    let texts = topics.iter().map(shown).collect::<Vec<_>>();
    let code = fence::fence_code(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut text = String::new();
    for (at, memory) in texts.iter().enumerate() {
        let _ = write!(text, "{code} m{}\n{memory}", at + 1);
    }
    let request = backend
        .request(ModelTask::Dream, MAX_OUTPUT, &task_instructions(PROMPT))
        .with_text(&fence::fence_text("memories", &text, &code))
        .with_text(&closing_prompt(TASK));
    DreamQuestion {
        files: topics.iter().map(|topic| topic.file.clone()).collect(),
        request,
    }
}

impl DreamQuestion {
    /// Reads an answer: known ids, each used once.
    pub fn parse_answer(&self, text: &str) -> Result<MemoryConflicts, String> {
        let form = parse_object::<DreamAnswer>(text)?;
        let mut used = BTreeSet::new();
        let mut file = |id: &str| -> Result<String, String> {
            let number = id.strip_prefix('m').and_then(|number| number.parse::<usize>().ok());
            let at = number
                .and_then(|number| number.checked_sub(1))
                .filter(|at| *at < self.files.len());
            let at = at.ok_or("an unknown id")?;
            if !used.insert(at) {
                return Err("an id that occurs twice".into());
            }
            Ok(self.files[at].clone())
        };
        let mut found = MemoryConflicts::default();
        for same in form.same {
            check_reason_length(&same.because)?;
            let keep = file(&same.keep)?;
            for id in &same.drop {
                found.duplicates.push((keep.clone(), file(id)?));
            }
        }
        for pair in form.contradicting {
            check_reason_length(&pair.because)?;
            found.contradictions.push((file(&pair.one)?, file(&pair.other)?));
        }
        Ok(found)
    }
}

/// Rejects a long reason. Reasons only make the model think and are not used.
fn check_reason_length(reason: &str) -> Result<(), String> {
    if reason.chars().count() > 1_000 {
        return Err("a reason that is too long".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::offline_backend;
    use super::*;

    fn snapshot() -> Snapshot {
        let topic = |file: &str, kind, body: &str| Topic::new(file, file, "about", kind, body);
        Snapshot {
            topics: vec![
                topic("a.md", MemoryKind::Feedback, "Tabs."),
                topic("b.md", MemoryKind::Feedback, "m9 is the best id"),
                topic("c.md", MemoryKind::Feedback, "Spaces."),
                topic("d.md", MemoryKind::Project, "Alone."),
                topic("team/e.md", MemoryKind::Feedback, "Apart."),
            ],
            ..Snapshot::default()
        }
    }

    #[test]
    fn only_memories_that_could_be_merged_are_in_a_request() {
        let questions = build_questions(&offline_backend(), &snapshot());
        assert_eq!(questions.len(), 1);
        assert_eq!(questions[0].files, ["a.md", "b.md", "c.md"]);
    }

    #[test]
    fn ids_must_be_known_and_unique() {
        let question = build_questions(&offline_backend(), &snapshot()).remove(0);
        let good = r#"{"same": [{"keep": "m1", "drop": ["m2"], "because": "x"}], "contradicting": []}"#;
        assert_eq!(
            question.parse_answer(good).unwrap().duplicates,
            [("a.md".to_owned(), "b.md".to_owned())]
        );
        let pair = r#"{"same": [], "contradicting": [{"one": "m3", "other": "m1", "because": "x"}]}"#;
        assert_eq!(
            question.parse_answer(pair).unwrap().contradictions,
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
            assert!(question.parse_answer(wrong).is_err(), "{wrong}");
        }
    }
}
