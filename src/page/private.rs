//! What a page leaves out unless texts were asked for: everything that a person or an agent said. Titles, types, projects,
//! times and counts stay. A title that is taken from what was said is shortened, so that no sentence is left of it.

use crate::page::PageContent;
use crate::page::overview::WHOLE_TITLE;
use serde_json::Value as Json;

/// What a page without texts shows of a memory.
const MEMORY_KEYS: [&str; 8] = [
    "type",
    "title",
    "project",
    "origin",
    "confidence",
    "confirmed",
    "last_said",
    "sources",
];

/// What it shows of a candidate that was turned down.
const REJECTED_KEYS: [&str; 4] = ["rejected", "rule", "confidence", "sources"];

/// What it shows of a memory that left a directory, or of a file that was not read there.
const LEFT_KEYS: [&str; 3] = ["action", "verb", "time"];

/// Most words of a shortened title.
const MOST_WORDS: usize = 6;

/// Most characters of a shortened title in a script without spaces.
const MOST_SIGNS: usize = 12;

/// Takes the texts of logs out of everything that is shown.
pub fn hide_texts(content: &mut PageContent) {
    if let Some(overview) = &mut content.overview {
        // A document of `stats` has no usage to choose from, and must not get any.
        if let Some(Json::Object(columns)) = overview.pointer_mut("/usage/sessions/columns") {
            columns.remove(WHOLE_TITLE);
        }
        overview
            .get_mut("sessions")
            .into_iter()
            .flat_map(rows_mut)
            .for_each(shorten);
    }
    for run in &mut content.runs {
        for boundary in &mut run.boundaries {
            if let Some(text) = boundary.get_mut("text").and_then(Json::as_object_mut) {
                text.remove("missing");
            }
        }
    }
    for part in &mut content.memories {
        for (list, keys) in [
            ("memories", &MEMORY_KEYS[..]),
            ("review", &MEMORY_KEYS[..]),
            ("rejected", &REJECTED_KEYS[..]),
            ("left", &LEFT_KEYS[..]),
            ("passed", &LEFT_KEYS[..]),
        ] {
            for row in part.get_mut(list).into_iter().flat_map(rows_mut) {
                keep_keys(row, keys);
                shorten(row);
            }
        }
    }
    for notes in &mut content.notes {
        if !notes.is_titled {
            notes.title = shorten_title(&notes.title);
        }
        notes.text.clear();
    }
}

fn rows_mut(list: &mut Json) -> impl Iterator<Item = &mut Json> {
    list.as_array_mut().into_iter().flatten()
}

fn keep_keys(row: &mut Json, keys: &[&str]) {
    if let Some(fields) = row.as_object_mut() {
        fields.retain(|key, _| keys.contains(&key.as_str()));
    }
}

fn shorten(row: &mut Json) {
    if let Some(Json::String(title)) = row.get_mut("title") {
        *title = shorten_title(title);
    }
}

/// Returns the first words of a title: never all of them, unless these are one or two.
pub fn shorten_title(title: &str) -> String {
    let words = title.split_whitespace().collect::<Vec<_>>();
    let kept = match words.len() {
        0..=2 => words.len(),
        count => (count - 1).min(MOST_WORDS),
    };
    let text = words[..kept].join(" ");
    let signs = text.chars().count();
    // Without spaces a whole sentence is one word.
    let (text, is_cut) = match kept {
        1 | 2 if !text.is_ascii() && signs > 4 => {
            let most = (signs - signs.div_ceil(3)).min(MOST_SIGNS);
            (text.chars().take(most).collect(), true)
        }
        _ => (text, kept < words.len()),
    };
    match is_cut {
        true => format!("{}…", text.trim_end_matches(['.', ',', ';', ':', '…', ' '])),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{PageNotes, PageReplay};
    use serde_json::json;

    #[test]
    fn a_shortened_title_is_no_sentence() {
        for (title, short) in [
            ("", ""),
            ("Run tests", "Run tests"),
            ("Fix the parser", "Fix the…"),
            (
                "Never mock the database, in our tests",
                "Never mock the database, in our…",
            ),
            (
                "Add a reader for rotated logs that are packed",
                "Add a reader for rotated logs…",
            ),
            ("提交之前总是运行格式化工具", "提交之前总是运行…"),
        ] {
            assert_eq!(shorten_title(title), short);
        }
    }

    #[test]
    fn texts_are_taken_out_and_counts_stay() {
        let said = "Please never tell anyone about the orchard";
        let memory =
            json!({"type": "feedback", "title": said, "hook": said, "body": said, "file": "x.md", "confidence": 0.5});
        let mut content = PageContent {
            overview: Some(
                json!({"usage": {"sessions": {"rows": 1, "columns": {"title": ["Orchard"], "whole_title": [said]}}},
                "sessions": [{"title": said}]}),
            ),
            runs: vec![PageReplay {
                boundaries: vec![json!({"text": {"prompts": 3, "missing": {"prompts": [said]}}})],
                ..PageReplay::default()
            }],
            memories: vec![json!({"name": "p", "memories": [memory.clone()], "review": [memory],
                "rejected": [{"rejected": "a question", "text": said}], "left": [{"action": "retire", "reason": said, "file": said}],
                "passed": [{"file": said, "reason": said}]})],
            notes: vec![PageNotes {
                title: said.to_owned(),
                text: said.to_owned(),
                prompts: Some(2),
                ..PageNotes::default()
            }],
            ..PageContent::default()
        };
        hide_texts(&mut content);
        let shown = format!("{content:?}");
        assert!(!shown.contains("anyone about the orchard"), "{shown}");
        assert_eq!(content.memories[0]["memories"][0]["confidence"], 0.5);
        assert_eq!(content.memories[0]["rejected"][0]["rejected"], "a question");
        assert_eq!(content.runs[0].boundaries[0]["text"]["prompts"], 3);
        assert_eq!(content.notes[0].prompts, Some(2));
    }
}
