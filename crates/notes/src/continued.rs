//! A notes file that goes on: what a person wrote in it stays, what they deleted stays away.
//!
//! Beside the file lies a list of the lines that were written here last time, by their hashes. What the file holds beyond
//! them was put in by somebody else; what it lacks of them was taken out. Without a list, all of it is somebody else's.
//!
//! Summaries and histories are written whole (`Whole`): one that somebody changed since is theirs.

use crate::template::{NotesTemplate, TemplateSection};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the lists' formats.
const SCHEMA_VERSION: u32 = 1;

/// The lines that were written last time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotesLineHashes {
    schema_version: u32,
    /// Lines of the file, by hash.
    written: BTreeSet<String>,
    /// Lines that somebody took out, by hash.
    deleted: BTreeSet<String>,
}

impl Default for NotesLineHashes {
    fn default() -> NotesLineHashes {
        NotesLineHashes {
            schema_version: SCHEMA_VERSION,
            written: BTreeSet::new(),
            deleted: BTreeSet::new(),
        }
    }
}

fn line_hash(line: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(line.trim().as_bytes()))
}

/// What is to go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesContinuation {
    /// The file with what somebody else wrote, and nothing else.
    pub own_words: String,
    /// What stands before the first heading, if somebody else wrote there.
    head: Option<String>,
    /// Lines that are not to come back.
    deleted: BTreeSet<String>,
}

impl NotesContinuation {
    /// Nothing was there before.
    pub fn new(template: &NotesTemplate) -> NotesContinuation {
        NotesContinuation {
            own_words: template.render_empty(),
            head: None,
            deleted: BTreeSet::new(),
        }
    }

    /// From a file and the list beside it.
    pub fn from_file(file: &str, lines: Option<NotesLineHashes>, template: &NotesTemplate) -> NotesContinuation {
        let found = NotesTemplate::parse(file);
        let head = user_head(&found.head, &template.head);
        let Some(lines) = lines else {
            return NotesContinuation {
                own_words: file.to_owned(),
                head,
                deleted: BTreeSet::new(),
            };
        };
        let mut present = BTreeSet::new();
        let mut sections = Vec::new();
        for section in &found.sections {
            let empty = template.sections.iter().find(|known| known.heading == section.heading);
            let mut kept = Vec::new();
            for line in section.body.lines() {
                let name = line_hash(line);
                if lines.written.contains(&name) {
                    present.insert(name);
                } else if !(line.trim().is_empty() && kept.last().is_none_or(|last: &&str| last.trim().is_empty())) {
                    kept.push(line);
                }
            }
            let body = kept.join("\n").trim_matches('\n').to_owned();
            // A section of the template that holds nothing of a person's own need not be kept; one of their own does.
            if !body.is_empty() || empty.is_none() {
                sections.push(TemplateSection {
                    body,
                    ..section.clone()
                });
            }
        }
        let own = NotesTemplate {
            head: String::new(),
            sections,
        };
        let bodies = own
            .sections
            .iter()
            .map(|section| section.body.as_str())
            .collect::<Vec<_>>();
        let gone = lines.written.difference(&present).cloned();
        NotesContinuation {
            own_words: own.render(bodies.iter().copied()),
            head,
            deleted: gone.chain(lines.deleted.iter().cloned()).collect(),
        }
    }

    /// Leaves out of a new file what somebody deleted before, and lists what is in it.
    pub fn drop_deleted_lines(&self, text: &str, template: &NotesTemplate) -> (String, NotesLineHashes) {
        let new = NotesTemplate::parse(text);
        let own = NotesTemplate::parse(&self.own_words);
        let mut lines = NotesLineHashes {
            deleted: self.deleted.clone(),
            ..NotesLineHashes::default()
        };
        let mut bodies = Vec::new();
        for section in &new.sections {
            let owned = own.sections.iter().find(|known| known.heading == section.heading);
            let owned = owned
                .map(|section| section.body.lines().map(line_hash).collect::<BTreeSet<_>>())
                .unwrap_or_default();
            let mut body = Vec::new();
            for line in section.body.lines() {
                let name = line_hash(line);
                let is_owned = owned.contains(&name);
                if !is_owned && self.deleted.contains(&name) && !line.trim().is_empty() {
                    continue;
                }
                if !is_owned {
                    lines.written.insert(name);
                }
                body.push(line);
            }
            bodies.push(body.join("\n").trim_matches('\n').to_owned());
        }
        let shape = NotesTemplate {
            head: self.head.as_ref().unwrap_or(&template.head).clone(),
            sections: new.sections,
        };
        (shape.render(bodies.iter().map(String::as_str)), lines)
    }
}

/// The head of a file, as it stands, if it has a line that is not the template's.
fn user_head(head: &str, of_template: &str) -> Option<String> {
    let known = of_template.lines().map(str::trim).collect::<BTreeSet<_>>();
    let is_own = |line: &str| !line.trim().is_empty() && !known.contains(line.trim());
    head.lines().any(is_own).then(|| head.to_owned())
}

/// Texts of a session that were written whole, by name: what they were, as hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeFileHashes {
    schema_version: u32,
    written: BTreeMap<String, String>,
}

impl Default for WholeFileHashes {
    fn default() -> WholeFileHashes {
        WholeFileHashes {
            schema_version: SCHEMA_VERSION,
            written: BTreeMap::new(),
        }
    }
}

impl WholeFileHashes {
    /// Whether the file of that name is as it was written here.
    pub fn is_unchanged(&self, name: &str, file: &[u8]) -> bool {
        self.written
            .get(name)
            .is_some_and(|written| *written == file_hash(file))
    }

    /// Remembers what was written.
    pub fn record(&mut self, name: &str, text: &str) {
        self.written.insert(name.to_owned(), file_hash(text.as_bytes()));
    }
}

fn file_hash(file: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_edits_stay_deletions_stay_and_the_rest_is_new() {
        let template = NotesTemplate::parse("# One\n_first_\n\n# Two\n_second_\n");
        let fresh = NotesContinuation::new(&template);
        let first = template.render(["- a\n- b", "- c"]);
        let (file, lines) = fresh.drop_deleted_lines(&first, &template);
        assert_eq!(file, first);
        let edited = file.replace("- b\n", "- by hand\n") + "\n# Mine\nkeep\n";
        let going = NotesContinuation::from_file(&edited, Some(lines), &template);
        assert!(going.own_words.contains("- by hand") && going.own_words.contains("# Mine"));
        assert!(!going.own_words.contains("- a"));
        let (file, lines) = going.drop_deleted_lines(&template.render(["- by hand\n- a\n- b\n- d", "- c2"]), &template);
        assert_eq!(file, template.render(["- by hand\n- a\n- d", "- c2"]));
        let again = NotesContinuation::from_file(&file, Some(lines), &template);
        let (same, _) = again.drop_deleted_lines(&file, &template);
        assert_eq!(same, file);
    }

    #[test]
    fn without_a_list_everything_is_somebody_elses() {
        let template = NotesTemplate::built_in();
        let file = template.render(["A title"]);
        assert_eq!(NotesContinuation::from_file(&file, None, &template).own_words, file);
    }

    #[test]
    fn what_somebody_wrote_above_the_first_heading_stays() {
        let template = NotesTemplate::parse("Of session 1.\n\n# One\n_first_\n");
        let (file, lines) = NotesContinuation::new(&template).drop_deleted_lines(&template.render(["- a"]), &template);
        for (edited, head) in [
            (file.clone(), "Of session 1.\n\n# One"),
            (format!("Mine.\n{file}"), "Mine.\nOf session 1.\n\n# One"),
            ("Only mine.\n".to_owned(), "Only mine.\n\n# One"),
        ] {
            for lines in [Some(lines.clone()), None] {
                let going = NotesContinuation::from_file(&edited, lines, &template);
                let (text, _) = going.drop_deleted_lines(&template.render(["- b"]), &template);
                assert!(text.starts_with(head), "{text}");
            }
        }
    }

    #[test]
    fn a_whole_text_is_known_by_all_of_it() {
        let mut whole = WholeFileHashes::default();
        whole.record("compact.md", "text\n");
        assert!(whole.is_unchanged("compact.md", b"text\n"));
        assert!(!whole.is_unchanged("compact.md", b"text\nand mine\n"));
        assert!(!whole.is_unchanged("compact/0001.md", b"text\n"));
    }
}
