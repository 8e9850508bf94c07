//! Pi: one entry per line, a tree by `parentId`.
//!
//! Entries have short ids that are unique only within a session; a session that was forked copies entries with their ids and
//! times. Records are named by both.

use super::canonical::{
    BoundaryFacts, CallUsage, CanonicalLines, RecordHead, ResponseHead, SourcePlace, ThreadScope, hash_parts, made_id,
    push_boundary, push_plain_result, push_plain_text, push_response, push_thinking, push_title, push_user, separate,
};
use super::tool_input::{push_tool_use, usual_input};
use super::{CanonicalConsumer, SourcePosition};
use crate::log::LineProblemKind;
use crate::repair::climb_ladder;
use serde_json::Value;
use std::collections::HashMap;

/// First bytes of a line.
const LINE_START: &[u8] = b"{\"type\":";

/// Returns whether a line is the head of a session of Pi.
pub(super) fn is_header(line: &[u8]) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(line, text).is_some();
    line.starts_with(b"{") && has(b"\"type\":\"session\"") && has(b"\"cwd\":")
}

/// Translates a log of Pi.
#[derive(Default)]
pub(super) struct PiReader {
    pub source: SourcePosition,
    out: CanonicalLines,
    scope: ThreadScope,
    model: String,
    /// By id of an entry: the record that follows it links to, and the entry before it.
    entries: HashMap<String, Entry>,
}

struct Entry {
    record: String,
    parent: String,
}

/// Returns a text of an object; empty if it has none.
fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the texts of a content and the number of its images.
fn content_text(content: &Value) -> (String, usize) {
    let Value::Array(parts) = content else {
        return (content.as_str().unwrap_or_default().to_owned(), 0);
    };
    let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
    let images = parts.iter().filter(|part| text(part, "type") == "image").count();
    (texts.collect::<Vec<_>>().join("\n"), images)
}

impl PiReader {
    /// Translates whole lines.
    pub fn take_lines<C: CanonicalConsumer>(&mut self, bytes: &[u8], offset: u64, consumer: &mut C) {
        let mut at = 0;
        let before = self.source.lines;
        while at < bytes.len() {
            self.source.lines += 1;
            let newline = memchr::memchr(b'\n', &bytes[at..]);
            let end = newline.map_or(bytes.len(), |found| at + found + 1);
            let place = SourcePlace {
                line: self.source.lines,
                offset: offset + at as u64,
            };
            self.read_line(&bytes[at..end], place, newline.is_some(), consumer);
            at = end;
        }
        consumer.count_source(self.source.lines - before, bytes.len() as u64);
        consumer.take_canonical(&self.out);
        self.out.clear();
    }

    /// Ends the log: nothing is held.
    pub fn finish<C: CanonicalConsumer>(self, _consumer: &mut C) {}

    fn read_line<C: CanonicalConsumer>(
        &mut self,
        line: &[u8],
        place: SourcePlace,
        is_complete: bool,
        consumer: &mut C,
    ) {
        if line.len() > consumer.max_line() {
            consumer.add_line_problem(LineProblemKind::TooLong, place.line, place.offset);
            return;
        }
        let outcome = climb_ladder(line, &[LINE_START], &mut |piece, is_after_torn| {
            let Ok(entry) = serde_json::from_slice::<Value>(piece) else {
                return false;
            };
            // After a torn entry the next object may be nested in it. Only entries have an id and a time.
            let is_entry = !is_after_torn || entry.get("id").is_some() && entry.get("timestamp").is_some();
            if is_entry {
                self.take_entry(&entry, place, consumer);
            }
            is_entry
        });
        if let Some(problem) = outcome.line_problem(is_complete) {
            consumer.add_line_problem(problem, place.line, place.offset);
        }
    }

    fn take_entry<C: CanonicalConsumer>(&mut self, entry: &Value, place: SourcePlace, consumer: &mut C) {
        let kind = text(entry, "type");
        match kind {
            "message" => consumer.count_kind(&format!("message/{}", text(&entry["message"], "role"))),
            "" => consumer.count_kind("(none)"),
            kind => consumer.count_kind(kind),
        }
        match kind {
            "session" => self.take_session(entry, consumer),
            "message" => self.take_message(entry, place),
            "compaction" => self.take_compaction(entry, place),
            "branch_summary" | "custom_message" => {
                let content = entry.get("summary").or_else(|| entry.get("content"));
                let mut blocks = Vec::new();
                push_plain_text(
                    &mut blocks,
                    &content.map_or_else(String::new, |content| content_text(content).0),
                );
                self.write_user(entry, place, &blocks, true);
            }
            "session_info" => {
                let title = text(entry, "name");
                if !title.is_empty() {
                    self.out.start(place);
                    push_title(&mut self.out.bytes, &self.scope.session, title);
                }
                self.pass_over(entry);
            }
            _ => {
                if kind == "model_change" {
                    text(entry, "modelId").clone_into(&mut self.model);
                }
                self.pass_over(entry);
            }
        }
    }

    fn take_session<C: CanonicalConsumer>(&mut self, entry: &Value, consumer: &mut C) {
        self.scope = ThreadScope {
            session: text(entry, "id").to_owned(),
            cwd: text(entry, "cwd").to_owned(),
            version: String::new(),
            ..ThreadScope::default()
        };
        consumer.add_lineage(text(entry, "id"));
        // The file of the session that this one was forked from is named after its time and id.
        let parent = text(entry, "parentSession")
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or_default();
        let parent = parent.split(".jsonl").next().and_then(|name| name.rsplit('_').next());
        if let Some(parent) = parent.filter(|parent| !parent.is_empty()) {
            consumer.add_lineage(parent);
        }
    }

    /// Returns the record that an entry follows.
    fn parent_record(&self, entry: &Value) -> String {
        let parent = self.entries.get(text(entry, "parentId"));
        parent.map_or_else(String::new, |parent| parent.record.clone())
    }

    fn name_entry(&self, entry: &Value) -> String {
        let parts = [text(entry, "id").as_bytes(), text(entry, "timestamp").as_bytes()];
        made_id(hash_parts(&parts))
    }

    /// Remembers the record that stands for an entry.
    fn remember(&mut self, entry: &Value, record: String) {
        let parent = text(entry, "parentId").to_owned();
        self.entries
            .insert(text(entry, "id").to_owned(), Entry { record, parent });
    }

    /// Lets the next entry follow the one before this one.
    fn pass_over(&mut self, entry: &Value) {
        let record = self.parent_record(entry);
        if !text(entry, "id").is_empty() {
            self.remember(entry, record);
        }
    }

    fn write_user(&mut self, entry: &Value, place: SourcePlace, content: &[u8], is_meta: bool) {
        let (uuid, parent) = (self.name_entry(entry), self.parent_record(entry));
        let head = RecordHead {
            uuid: &uuid,
            parent: &parent,
            time: text(entry, "timestamp").as_bytes(),
            is_meta,
            ..RecordHead::default()
        };
        self.out.start(place);
        push_user(&mut self.out.bytes, &self.scope, &head, content);
        self.remember(entry, uuid);
    }

    fn take_message(&mut self, entry: &Value, place: SourcePlace) {
        let message = &entry["message"];
        let mut content = Vec::new();
        match text(message, "role") {
            "assistant" => self.take_response(entry, place),
            "toolResult" => {
                let (found, images) = content_text(&message["content"]);
                let is_error = message["isError"].as_bool().unwrap_or(false);
                push_plain_result(&mut content, text(message, "toolCallId"), &found, images, is_error);
                self.write_user(entry, place, &content, false);
            }
            "user" => {
                let (found, images) = content_text(&message["content"]);
                push_plain_text(&mut content, &found);
                for _ in 0..images {
                    content.extend_from_slice(b",{\"type\":\"image\",\"source\":{}}");
                }
                self.write_user(entry, place, &content, false);
            }
            // A command that the user ran, or what an extension added.
            _ => {
                let texts = [text(message, "command"), text(message, "output")];
                let found = match &message["content"] {
                    Value::Null => texts.join("\n"),
                    content => content_text(content).0,
                };
                push_plain_text(&mut content, &found);
                self.write_user(entry, place, &content, true);
            }
        }
    }

    fn take_response(&mut self, entry: &Value, place: SourcePlace) {
        let message = &entry["message"];
        let mut content = Vec::new();
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        for block in blocks {
            match text(block, "type") {
                "text" => push_plain_text(&mut content, text(block, "text")),
                "thinking" => push_thinking(&mut content, text(block, "thinking"), text(block, "thinkingSignature")),
                "toolCall" => {
                    let input = block["arguments"].as_object().cloned().unwrap_or_default();
                    push_tool_use(&mut content, text(block, "id"), text(block, "name"), usual_input(input));
                }
                _ => {
                    separate(&mut content);
                    content.extend_from_slice(b"{\"type\":\"other\"}");
                }
            }
        }
        let usage = &message["usage"];
        let usage = usage.is_object().then(|| CallUsage {
            input: count(usage, "input"),
            output: count(usage, "output"),
            cache_write: count(usage, "cacheWrite"),
            cache_read: count(usage, "cacheRead"),
            reasoning: count(usage, "reasoning"),
            window: 0,
        });
        let (uuid, parent) = (self.name_entry(entry), self.parent_record(entry));
        let head = RecordHead {
            uuid: &uuid,
            parent: &parent,
            time: text(entry, "timestamp").as_bytes(),
            ..RecordHead::default()
        };
        let model = match text(message, "model") {
            "" => &self.model,
            model => model,
        };
        let response = ResponseHead {
            message: &uuid,
            model,
            stop: match text(message, "stopReason") {
                "toolUse" => "tool_use",
                "stop" => "end_turn",
                "" => "",
                _ => "other",
            },
            usage,
        };
        self.out.start(place);
        push_response(&mut self.out.bytes, &self.scope, &head, &response, &content);
        self.remember(entry, uuid);
    }

    fn take_compaction(&mut self, entry: &Value, place: SourcePlace) {
        let (uuid, before) = (self.name_entry(entry), self.parent_record(entry));
        let facts = BoundaryFacts {
            is_manual: false,
            pre_tokens: entry["tokensBefore"].as_u64(),
            post_tokens: None,
            kept: self.kept_records(entry),
        };
        let time = text(entry, "timestamp").as_bytes();
        let head = RecordHead {
            uuid: &uuid,
            logical_parent: &before,
            time,
            ..RecordHead::default()
        };
        self.out.start(place);
        push_boundary(&mut self.out.bytes, &self.scope, &head, &facts);
        let mut content = Vec::new();
        push_plain_text(&mut content, text(entry, "summary"));
        let summary = made_id(hash_parts(&[b"summary", uuid.as_bytes()]));
        let head = RecordHead {
            uuid: &summary,
            parent: &uuid,
            time,
            is_summary: true,
            ..RecordHead::default()
        };
        self.out.start(place);
        push_user(&mut self.out.bytes, &self.scope, &head, &content);
        self.remember(entry, summary);
    }

    /// Returns the records from the first kept entry on.
    fn kept_records(&self, entry: &Value) -> Vec<String> {
        let first = text(entry, "firstKeptEntryId");
        let mut kept = Vec::new();
        let mut at = text(entry, "parentId");
        while let Some(known) = self.entries.get(at).filter(|_| kept.len() <= self.entries.len()) {
            kept.push(known.record.clone());
            if at == first {
                kept.reverse();
                kept.dedup();
                return kept;
            }
            at = &known.parent;
        }
        Vec::new()
    }
}
