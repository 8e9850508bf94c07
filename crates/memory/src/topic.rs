//! A topic file: YAML frontmatter, then Markdown. What a person wrote is kept byte for byte; only the value of a key that
//! changes is replaced. Pure.

use crate::frontmatter::{format_field, frontmatter_end, parse_fields, set_field};
use crate::kinds::{MemoryKind, MemorySource};
use language::when;
use serde_json::{Map, Value};
use transcript::log::Time;

/// A topic file.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// Path inside the directory, with `/`.
    pub file: String,
    /// When the file was last modified.
    pub modified: Time,
    /// Everything up to the closing fence, included; empty without frontmatter.
    head: String,
    /// The Markdown.
    body: String,
    /// Values of the frontmatter; `None` if there is none or it is not YAML.
    fields: Option<Map<String, Value>>,
}

impl Topic {
    /// Parses a file. Frontmatter that is not a YAML mapping is kept as it is and has no fields.
    pub fn from_text(file: &str, modified: Time, text: &str) -> Topic {
        let split = frontmatter_end(text).unwrap_or(0);
        let (head, body) = text.split_at(split);
        Topic {
            file: file.to_owned(),
            modified,
            fields: parse_fields(head),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// Creates a topic with new frontmatter.
    pub fn new(file: &str, name: &str, description: &str, kind: MemoryKind, body: &str) -> Topic {
        let mut head = String::from("---\n");
        for (key, value) in [("name", name), ("description", description), ("type", kind.name())] {
            head.push_str(&format_field(key, &Value::String(to_one_line(value))));
        }
        head.push_str("---\n");
        let text = format!("{head}\n{}\n", body.trim());
        Topic::from_text(file, 0, &text)
    }

    /// Returns the whole text of the file.
    pub fn text(&self) -> String {
        format!("{}{}", self.head, self.body)
    }

    /// Returns the Markdown.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Returns whether there is frontmatter that is not YAML.
    pub fn has_broken_frontmatter(&self) -> bool {
        !self.head.is_empty() && self.fields.is_none()
    }

    pub fn has_frontmatter(&self) -> bool {
        !self.head.is_empty()
    }

    /// Returns a value of the frontmatter as text; `None` if it is missing or null.
    pub fn field(&self, key: &str) -> Option<String> {
        match self.fields.as_ref()?.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    }

    /// Returns the name; without one, the words of the file name.
    pub fn name(&self) -> String {
        let stem = || {
            let name = self.file.rsplit('/').next().unwrap_or(&self.file);
            name.trim_end_matches(".md").replace(['_', '-'], " ")
        };
        let named = self.field("name").map(|name| to_one_line(&name));
        named.filter(|name| !name.is_empty()).unwrap_or_else(stem)
    }

    /// Returns the description; without one, the first line of the Markdown that is not a heading.
    pub fn description(&self) -> String {
        let described = self.field("description").map(|text| to_one_line(&text));
        described.filter(|text| !text.is_empty()).unwrap_or_else(|| {
            let mut lines = self.body.lines().map(str::trim);
            to_one_line(
                lines
                    .find(|line| !line.is_empty() && !line.starts_with('#'))
                    .unwrap_or_default(),
            )
        })
    }

    /// Returns the type; `None` if it is missing or unknown. Newer clients write it inside `metadata`.
    pub fn kind(&self) -> Option<MemoryKind> {
        let inner = || {
            let metadata = self.fields.as_ref()?.get("metadata")?;
            metadata.get("type")?.as_str().map(str::to_owned)
        };
        let name = self.field("type").or_else(inner)?;
        MemoryKind::parse(name.trim())
    }

    /// Returns how often the memory was stated: the stored count, but at least once per source.
    pub fn confirmation_count(&self) -> u64 {
        let counted = self
            .fields
            .as_ref()
            .and_then(|fields| fields.get("confirmed")?.as_u64());
        counted.unwrap_or(0).max(self.sources().len() as u64)
    }

    /// Returns the records that state the memory.
    pub fn sources(&self) -> Vec<MemorySource> {
        self.list_field("sources")
            .iter()
            .filter_map(|text| parse_source(text))
            .collect()
    }

    /// Returns the marks of the candidates that the memory was created from.
    pub fn marks(&self) -> Vec<String> {
        self.list_field("marks")
    }

    fn list_field(&self, key: &str) -> Vec<String> {
        let value = self.fields.as_ref().and_then(|fields| fields.get(key));
        let items = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items
            .iter()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    }

    /// Returns the time of the latest source; `None` without sources.
    pub fn last_said_in_sources(&self) -> Option<Time> {
        self.sources().iter().filter_map(|source| source.time).max()
    }

    /// Returns the time of the latest source; without sources, when the file was modified.
    pub fn last_said(&self) -> Time {
        self.last_said_in_sources().unwrap_or(self.modified)
    }

    /// Sets a key to a text, a number or a list of texts, and leaves everything else as it is. Returns false and changes
    /// nothing if the frontmatter cannot be read, or if the change would be read as anything but that one change.
    #[must_use]
    pub fn set(&mut self, key: &str, value: &Value) -> bool {
        let head = if self.head.is_empty() { "---\n---\n" } else { &self.head };
        let Some(head) = set_field(head, key, value) else {
            return false;
        };
        self.fields = parse_fields(&head);
        self.head = head;
        true
    }

    /// Replaces the Markdown.
    pub fn set_body(&mut self, body: String) {
        self.body = body;
    }

    /// Adds new sources and counts them. Returns whether anything changed.
    pub fn add_sources(&mut self, more: &[MemorySource]) -> bool {
        let old = self.sources();
        let mut all = self.list_field("sources");
        let before = all.len();
        let mut seen = old
            .iter()
            .map(|source| (source.session.clone(), source.uuid.clone()))
            .collect::<Vec<_>>();
        for source in more {
            let source = parse_source(&format_source(source)).unwrap_or_else(|| source.clone());
            let key = (source.session.clone(), source.uuid.clone());
            if !seen.contains(&key) {
                all.push(format_source(&source));
                seen.push(key);
            }
        }
        let added = (all.len() - before) as u64;
        let count = self.confirmation_count() + added;
        added > 0 && self.set("confirmed", &count.into()) && self.set("sources", &all.into())
    }

    /// Adds new marks. Returns whether anything changed.
    pub fn add_marks(&mut self, more: &[String]) -> bool {
        let mut all = self.marks();
        let before = all.len();
        for mark in more {
            if !all.contains(mark) {
                all.push(mark.clone());
            }
        }
        all.len() > before && self.set("marks", &all.into())
    }
}

/// Joins the words of a text by single spaces, without line breaks and control characters, for frontmatter and index.
pub fn to_one_line(text: &str) -> String {
    let words = text.split(|character: char| character.is_whitespace() || character.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Formats a source as `session uuid time`.
fn format_source(source: &MemorySource) -> String {
    let part = |text: &str| {
        if text.trim().is_empty() {
            "-".to_owned()
        } else {
            text.split_whitespace().collect::<Vec<_>>().join("_")
        }
    };
    let time = source.time.and_then(when::format_timestamp).unwrap_or_default();
    format!("{} {} {time}", part(&source.session), part(&source.uuid))
        .trim_end()
        .to_owned()
}

fn parse_source(text: &str) -> Option<MemorySource> {
    let mut parts = text.split_whitespace();
    Some(MemorySource {
        session: parts.next()?.to_owned(),
        uuid: parts.next()?.to_owned(),
        time: parts.next().and_then(when::parse_timestamp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EDITED: &str = "---\nname: \"Small commits\"   # mine\nowner: ana\ndescription: 'When committing: keep it small'\ntype: feedback\ntags: [git, style]\n---\n\nOne thing a commit.\n\n**Why:** review.\n";

    fn source(uuid: &str) -> MemorySource {
        MemorySource {
            session: "s1".into(),
            uuid: uuid.into(),
            time: Some(1_760_000_000_000),
        }
    }

    #[test]
    fn a_read_file_is_written_as_it_was() {
        let topic = Topic::from_text("a.md", 0, EDITED);
        assert_eq!(topic.text(), EDITED);
        assert_eq!(topic.name(), "Small commits");
        assert_eq!(topic.description(), "When committing: keep it small");
        assert_eq!(topic.kind(), Some(MemoryKind::Feedback));
    }

    #[test]
    fn a_change_touches_its_own_lines_only() {
        let mut topic = Topic::from_text("a.md", 0, EDITED);
        assert!(topic.add_sources(&[source("u1"), source("u2"), source("u1")]));
        assert_eq!(topic.confirmation_count(), 2);
        let text = topic.text();
        for line in EDITED.lines() {
            assert!(text.lines().any(|other| other == line), "{line}");
        }
        let again = Topic::from_text("a.md", 0, &text);
        assert_eq!(again.sources(), [source("u1"), source("u2")]);
        assert!(!topic.add_sources(&[source("u2")]));
        assert!(topic.add_sources(&[source("u3")]));
        assert_eq!(topic.confirmation_count(), 3);
    }

    #[test]
    fn an_unknown_type_is_none_and_broken_yaml_is_left_alone() {
        assert_eq!(Topic::from_text("a.md", 0, "---\ntype: recipe\n---\nx").kind(), None);
        let mut broken = Topic::from_text("a.md", 0, "---\nname: [\n---\nx");
        assert!(broken.has_broken_frontmatter());
        assert!(!broken.add_sources(&[source("u1")]));
        assert_eq!(broken.text(), "---\nname: [\n---\nx");
    }

    #[test]
    fn windows_line_ends_stay() {
        let mut topic = Topic::from_text("a.md", 0, "---\r\nname: A\r\ntype: user\r\n---\r\nbody\r\n");
        assert_eq!(topic.kind(), Some(MemoryKind::User));
        assert!(topic.add_sources(&[source("u1")]));
        assert!(
            topic
                .text()
                .replace("\r\n", "")
                .chars()
                .all(|character| character != '\n')
        );
    }

    proptest! {
        #[test]
        fn any_words_come_back(name in any::<String>(), description in any::<String>(), body in any::<String>()) {
            let topic = Topic::new("a.md", &name, &description, MemoryKind::Project, &body);
            let again = Topic::from_text("a.md", 0, &topic.text());
            prop_assert_eq!(again.kind(), Some(MemoryKind::Project));
            prop_assert_eq!(again.field("name").unwrap_or_default(), to_one_line(&name));
            prop_assert_eq!(again.field("description").unwrap_or_default(), to_one_line(&description));
        }

        #[test]
        fn any_text_is_kept(text in "(---\n)?[ -~\n]{0,60}(---\n)?[ -~\n]{0,60}") {
            prop_assert_eq!(Topic::from_text("a.md", 0, &text).text(), text);
        }
    }
}
