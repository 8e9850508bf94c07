//! Edits of the user in generated files: added lines stay, deleted lines do not come back.
//!
//! Next to a notes file is a list of hashes of the lines that the tool wrote last time ([`NotesLineHashes`]). Other lines in
//! the file are the user's; listed lines that are missing were deleted. Without a list, the whole file is the user's.
//!
//! Summaries and histories are written as a whole ([`WholeFileHashes`]): one that was changed since is the user's.

use crate::template::{NotesTemplate, TemplateSection};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the formats of both lists.
const SCHEMA_VERSION: u32 = 1;

/// Hashes of the lines that the tool wrote last time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotesLineHashes {
    schema_version: u32,
    written: BTreeSet<String>,
    /// Lines that the user deleted.
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

/// The user's edits of a notes file, for the next version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesContinuation {
    /// The file with only the user's lines.
    pub own_words: String,
    /// The text before the first heading, if the user changed it.
    head: Option<String>,
    /// Hashes of lines that must not come back.
    deleted: BTreeSet<String>,
}

impl NotesContinuation {
    /// Without a previous file.
    pub fn new(template: &NotesTemplate) -> NotesContinuation {
        NotesContinuation {
            own_words: template.render_empty(),
            head: None,
            deleted: BTreeSet::new(),
        }
    }

    /// Compares a file with the list of lines that were written.
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
            // A section of the template without lines of the user is not kept; a section of the user is.
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

    /// Removes from a new file the lines that the user deleted, and returns it with the list of its lines.
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

/// Returns the head of a file if it has a line that is not in the template.
fn user_head(head: &str, of_template: &str) -> Option<String> {
    let known = of_template.lines().map(str::trim).collect::<BTreeSet<_>>();
    let is_own = |line: &str| !line.trim().is_empty() && !known.contains(line.trim());
    head.lines().any(is_own).then(|| head.to_owned())
}

/// Hashes of files of a session that were written as a whole, by name.
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
    /// Returns whether a file is as the tool wrote it.
    pub fn is_unchanged(&self, name: &str, file: &[u8]) -> bool {
        self.written
            .get(name)
            .is_some_and(|written| *written == file_hash(file))
    }

    /// Records a file that was written.
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
    fn added_and_deleted_lines_are_respected() {
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
    fn without_a_list_the_whole_file_is_the_users() {
        let template = NotesTemplate::built_in();
        let file = template.render(["A title"]);
        assert_eq!(NotesContinuation::from_file(&file, None, &template).own_words, file);
    }

    #[test]
    fn text_above_the_first_heading_stays() {
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
    fn a_whole_file_is_compared_by_hash() {
        let mut whole = WholeFileHashes::default();
        whole.record("compact.md", "text\n");
        assert!(whole.is_unchanged("compact.md", b"text\n"));
        assert!(!whole.is_unchanged("compact.md", b"text\nand mine\n"));
        assert!(!whole.is_unchanged("compact/0001.md", b"text\n"));
    }
}
