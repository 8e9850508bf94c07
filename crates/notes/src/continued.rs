//! A notes file that goes on: what a person wrote in it stays, what they deleted stays away.
//!
//! Beside the file lies a list of the lines that were written here last time, by their hashes. What the file holds beyond
//! them was put in by somebody else; what it lacks of them was taken out. Without a list, all of it is somebody else's.
//!
//! Summaries and histories are written whole ([`Whole`]): one that somebody changed since is theirs.

use crate::template::{Section, Template};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the lists' formats.
const SCHEMA_VERSION: u32 = 1;

/// The lines that were written last time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    schema_version: u32,
    /// Lines of the file, by hash.
    written: BTreeSet<String>,
    /// Lines that somebody took out, by hash.
    deleted: BTreeSet<String>,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines {
            schema_version: SCHEMA_VERSION,
            written: BTreeSet::new(),
            deleted: BTreeSet::new(),
        }
    }
}

fn hash(line: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(line.trim().as_bytes()))
}

/// What is to go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continued {
    /// The file with what somebody else wrote, and nothing else.
    pub own_words: String,
    /// What stands before the first heading, if somebody else wrote there.
    head: Option<String>,
    /// Lines that are not to come back.
    deleted: BTreeSet<String>,
}

impl Continued {
    /// Nothing was there before.
    pub fn new(template: &Template) -> Continued {
        Continued {
            own_words: template.empty(),
            head: None,
            deleted: BTreeSet::new(),
        }
    }

    /// From a file and the list beside it.
    pub fn from(file: &str, lines: Option<Lines>, template: &Template) -> Continued {
        let found = Template::parse(file);
        let head = own_head(&found.head, &template.head);
        let Some(lines) = lines else {
            return Continued {
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
                let name = hash(line);
                if lines.written.contains(&name) {
                    present.insert(name);
                } else if !(line.trim().is_empty() && kept.last().is_none_or(|last: &&str| last.trim().is_empty())) {
                    kept.push(line);
                }
            }
            let body = kept.join("\n").trim_matches('\n').to_owned();
            // A section of the template that holds nothing of a person's own need not be kept; one of their own does.
            if !body.is_empty() || empty.is_none() {
                sections.push(Section {
                    body,
                    ..section.clone()
                });
            }
        }
        let own = Template {
            head: String::new(),
            sections,
        };
        let bodies = own
            .sections
            .iter()
            .map(|section| section.body.as_str())
            .collect::<Vec<_>>();
        let gone = lines.written.difference(&present).cloned();
        Continued {
            own_words: own.fill(bodies.iter().copied()),
            head,
            deleted: gone.chain(lines.deleted.iter().cloned()).collect(),
        }
    }

    /// Leaves out of a new file what somebody deleted before, and lists what is in it.
    pub fn finish(&self, text: &str, template: &Template) -> (String, Lines) {
        let new = Template::parse(text);
        let own = Template::parse(&self.own_words);
        let mut lines = Lines {
            deleted: self.deleted.clone(),
            ..Lines::default()
        };
        let mut bodies = Vec::new();
        for section in &new.sections {
            let owned = own.sections.iter().find(|known| known.heading == section.heading);
            let owned = owned
                .map(|section| section.body.lines().map(hash).collect::<BTreeSet<_>>())
                .unwrap_or_default();
            let mut body = Vec::new();
            for line in section.body.lines() {
                let name = hash(line);
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
        let shape = Template {
            head: self.head.as_ref().unwrap_or(&template.head).clone(),
            sections: new.sections,
        };
        (shape.fill(bodies.iter().map(String::as_str)), lines)
    }
}

/// The head of a file, as it stands, if it has a line that is not the template's.
fn own_head(head: &str, of_template: &str) -> Option<String> {
    let known = of_template.lines().map(str::trim).collect::<BTreeSet<_>>();
    let is_own = |line: &str| !line.trim().is_empty() && !known.contains(line.trim());
    head.lines().any(is_own).then(|| head.to_owned())
}

/// Texts of a session that were written whole, by name: what they were, as hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whole {
    schema_version: u32,
    written: BTreeMap<String, String>,
}

impl Default for Whole {
    fn default() -> Whole {
        Whole {
            schema_version: SCHEMA_VERSION,
            written: BTreeMap::new(),
        }
    }
}

impl Whole {
    /// Whether the file of that name is as it was written here.
    pub fn is_untouched(&self, name: &str, file: &[u8]) -> bool {
        self.written
            .get(name)
            .is_some_and(|written| *written == whole_hash(file))
    }

    /// Remembers what was written.
    pub fn note(&mut self, name: &str, text: &str) {
        self.written.insert(name.to_owned(), whole_hash(text.as_bytes()));
    }
}

fn whole_hash(file: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_edits_stay_deletions_stay_and_the_rest_is_new() {
        let template = Template::parse("# One\n_first_\n\n# Two\n_second_\n");
        let fresh = Continued::new(&template);
        let first = template.fill(["- a\n- b", "- c"]);
        let (file, lines) = fresh.finish(&first, &template);
        assert_eq!(file, first);
        let edited = file.replace("- b\n", "- by hand\n") + "\n# Mine\nkeep\n";
        let going = Continued::from(&edited, Some(lines), &template);
        assert!(going.own_words.contains("- by hand") && going.own_words.contains("# Mine"));
        assert!(!going.own_words.contains("- a"));
        let (file, lines) = going.finish(&template.fill(["- by hand\n- a\n- b\n- d", "- c2"]), &template);
        assert_eq!(file, template.fill(["- by hand\n- a\n- d", "- c2"]));
        let again = Continued::from(&file, Some(lines), &template);
        let (same, _) = again.finish(&file, &template);
        assert_eq!(same, file);
    }

    #[test]
    fn without_a_list_everything_is_somebody_elses() {
        let template = Template::built_in();
        let file = template.fill(["A title"]);
        assert_eq!(Continued::from(&file, None, &template).own_words, file);
    }

    #[test]
    fn what_somebody_wrote_above_the_first_heading_stays() {
        let template = Template::parse("Of session 1.\n\n# One\n_first_\n");
        let (file, lines) = Continued::new(&template).finish(&template.fill(["- a"]), &template);
        for (edited, head) in [
            (file.clone(), "Of session 1.\n\n# One"),
            (format!("Mine.\n{file}"), "Mine.\nOf session 1.\n\n# One"),
            ("Only mine.\n".to_owned(), "Only mine.\n\n# One"),
        ] {
            for lines in [Some(lines.clone()), None] {
                let going = Continued::from(&edited, lines, &template);
                let (text, _) = going.finish(&template.fill(["- b"]), &template);
                assert!(text.starts_with(head), "{text}");
            }
        }
    }

    #[test]
    fn a_whole_text_is_known_by_all_of_it() {
        let mut whole = Whole::default();
        whole.note("compact.md", "text\n");
        assert!(whole.is_untouched("compact.md", b"text\n"));
        assert!(!whole.is_untouched("compact.md", b"text\nand mine\n"));
        assert!(!whole.is_untouched("compact/0001.md", b"text\n"));
    }
}
