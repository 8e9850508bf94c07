//! OpenCode: one JSON object per session, as `opencode export` writes it: `{info, messages: [{info, parts}]}`.
//!
//! The object is walked in place, message by message: what was read before damage counts. A message of the assistant holds
//! its steps; every step is one API call, with the results of its tools inside the parts.

use super::canonical::{
    BoundaryFacts, CallUsage, CanonicalLines, RecordHead, ResponseHead, SourcePlace, ThreadScope, push_boundary,
    push_clearing, push_plain_result, push_plain_text, push_response, push_thinking, push_title, push_user, time_text,
};
use super::tool_input::{push_tool_use, usual_input};
use super::{CanonicalConsumer, SourcePosition};
use crate::json::{JsonKind, PullParser, RawParser};
use crate::log::LineProblemKind;
use crate::skim::{PortableScanner, SlowPath};
use serde_json::Value;

/// How many times the longest line an export may be long: it holds a whole session.
const LINES_PER_EXPORT: usize = 8;

/// Beginning of the names of sub-agents under which the calls that write summaries are counted.
const COMPACTION_AGENT: &str = "compaction";

/// Returns whether a log starts like an export.
pub fn is_export(start: &[u8]) -> bool {
    let mut rest = start;
    for token in [&b"{"[..], b"\"info\"", b":", b"{"] {
        rest = rest.trim_ascii_start();
        let Some(after) = rest.strip_prefix(token) else {
            return false;
        };
        rest = after;
    }
    memchr::memmem::find(rest, b"\"ses_").is_some()
}

/// Translates an export.
#[derive(Default)]
pub(super) struct OpenCodeReader {
    pub source: SourcePosition,
    bytes: Vec<u8>,
    is_too_long: bool,
    out: CanonicalLines,
    scope: ThreadScope,
    /// The record that the next one follows.
    last: String,
    /// Ids of the messages of the window, oldest first, with their records.
    window: Vec<(String, String)>,
    /// Context after the last call.
    context: Option<u64>,
    /// A compaction that waits for its summary.
    boundary: Option<HeldBoundary>,
    /// Results that were cleared: when, and the call.
    cleared: Vec<(i64, String)>,
}

struct HeldBoundary {
    id: String,
    time: String,
    facts: BoundaryFacts,
}

/// Returns a text of an object; empty if it has none.
fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn read_usage(tokens: &Value) -> Option<CallUsage> {
    let count = |value: &Value| {
        value
            .as_u64()
            .filter(|count| *count <= crate::record::MAX_COUNT)
            .unwrap_or(0)
    };
    let reasoning = count(&tokens["reasoning"]);
    tokens.is_object().then(|| CallUsage {
        input: count(&tokens["input"]),
        // Reasoning is counted beside the output.
        output: count(&tokens["output"]) + reasoning,
        cache_write: count(&tokens["cache"]["write"]),
        cache_read: count(&tokens["cache"]["read"]),
        reasoning,
        window: 0,
    })
}

impl OpenCodeReader {
    /// Takes the next bytes of the export.
    pub fn take_bytes<C: CanonicalConsumer>(&mut self, bytes: &[u8], _offset: u64, consumer: &mut C) {
        let lines = memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.source.lines += lines + u64::from(!bytes.ends_with(b"\n"));
        consumer.count_source(lines + u64::from(!bytes.ends_with(b"\n")), bytes.len() as u64);
        let limit = consumer.max_line().saturating_mul(LINES_PER_EXPORT);
        if self.is_too_long || self.bytes.len() + bytes.len() > limit {
            self.is_too_long = true;
            self.bytes = Vec::new();
            return;
        }
        // A line break outside of a string is a blank; inside one it is escaped.
        self.bytes.extend_from_slice(bytes);
    }

    /// Translates the export.
    pub fn finish<C: CanonicalConsumer>(mut self, consumer: &mut C) {
        if self.is_too_long {
            consumer.add_line_problem(LineProblemKind::TooLong, 1, 0);
            return;
        }
        let newlines = memchr::memchr_iter(b'\n', &self.bytes).collect::<Vec<_>>();
        for at in &newlines {
            self.bytes[*at] = b' ';
        }
        let bytes = std::mem::take(&mut self.bytes);
        let mut places = Places { newlines, next: 0 };
        let mut parser = RawParser::<PortableScanner>::new(&bytes, 0);
        if self.read_export(&mut parser, &bytes, &mut places, consumer).is_err() {
            let reached = parser.position();
            let place = places.find(reached);
            let error = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).err();
            let is_cut = error.is_some_and(|error| error.is_eof());
            let kind = match is_cut {
                true => LineProblemKind::TornTail,
                false => LineProblemKind::Malformed,
            };
            consumer.add_line_problem(kind, place.line, place.offset);
        }
        self.flush_boundary(places.find(bytes.len()), "");
        consumer.take_canonical(&self.out);
    }

    fn read_export<C: CanonicalConsumer>(
        &mut self,
        parser: &mut RawParser<'_, PortableScanner>,
        bytes: &[u8],
        places: &mut Places,
        consumer: &mut C,
    ) -> Result<(), SlowPath> {
        let mut frame = parser.open_object()?;
        // Messages that stand before the head of the session.
        let mut early = None;
        while let Some(key) = parser.next_key(&mut frame)? {
            let start = parser.position();
            match (key, parser.peek()?) {
                (b"info", JsonKind::Object) => {
                    parser.skip()?;
                    let info = serde_json::from_slice::<Value>(parser.bytes_since(start)).map_err(|_| SlowPath)?;
                    self.take_session(&info, places.find(start), consumer);
                }
                (b"messages", JsonKind::Array) if self.scope.session.is_empty() => {
                    parser.skip()?;
                    early = Some(start);
                }
                (b"messages", JsonKind::Array) => self.read_messages(parser, places, consumer)?,
                _ => parser.skip()?,
            }
        }
        parser.end_of_line()?;
        match early {
            Some(start) => {
                places.next = 0;
                self.read_messages(&mut RawParser::new(bytes, start), places, consumer)
            }
            None => Ok(()),
        }
    }

    fn read_messages<C: CanonicalConsumer>(
        &mut self,
        parser: &mut RawParser<'_, PortableScanner>,
        places: &mut Places,
        consumer: &mut C,
    ) -> Result<(), SlowPath> {
        let mut frame = parser.open_array()?;
        while parser.next_item(&mut frame)? {
            parser.peek()?;
            let start = parser.position();
            parser.skip()?;
            let place = places.find(start);
            match serde_json::from_slice::<Value>(parser.bytes_since(start)) {
                Ok(message) => self.take_message(&message, place, consumer),
                Err(_) => consumer.add_line_problem(LineProblemKind::Malformed, place.line, place.offset),
            }
        }
        Ok(())
    }

    fn take_session<C: CanonicalConsumer>(&mut self, info: &Value, place: SourcePlace, consumer: &mut C) {
        consumer.count_kind("session");
        let (id, parent) = (text(info, "id"), text(info, "parentID"));
        let agent = if parent.is_empty() { "" } else { id };
        self.scope = ThreadScope {
            session: if parent.is_empty() { id } else { parent }.to_owned(),
            agent: agent.to_owned(),
            version: text(info, "version").to_owned(),
            cwd: text(info, "directory").to_owned(),
            branch: String::new(),
        };
        for thread in [id, parent] {
            if !thread.is_empty() {
                consumer.add_lineage(thread);
            }
        }
        if parent.is_empty() && !text(info, "title").is_empty() {
            self.out.start(place);
            push_title(&mut self.out.bytes, &self.scope.session, text(info, "title"));
        }
    }

    fn take_message<C: CanonicalConsumer>(&mut self, message: &Value, place: SourcePlace, consumer: &mut C) {
        let (info, parts) = (&message["info"], &message["parts"]);
        let parts = parts.as_array().map_or(&[][..], Vec::as_slice);
        let role = text(info, "role");
        consumer.count_kind(&format!("message/{role}"));
        for part in parts {
            consumer.count_kind(&format!("part/{}", text(part, "type")));
        }
        let created = info["time"]["created"].as_i64();
        self.write_clearings(created, place);
        match role {
            "user" => self.take_prompt(info, parts, place),
            "assistant" if info["summary"].as_bool() == Some(true) => self.take_summary(info, parts, place),
            "assistant" => self.take_response(info, parts, place),
            _ => {}
        }
    }

    /// Writes the clearings that happened before a message.
    fn write_clearings(&mut self, before: Option<i64>, place: SourcePlace) {
        let Some(before) = before else { return };
        self.cleared.sort_by_key(|(time, _)| *time);
        let count = self.cleared.partition_point(|(time, _)| *time <= before);
        let done = self.cleared.drain(..count).collect::<Vec<_>>();
        for group in done.chunk_by(|(one, _), (other, _)| one == other) {
            let calls = group.iter().map(|(_, call)| call.clone()).collect::<Vec<_>>();
            let uuid = format!("{}-cleared-{}", calls[0], group[0].0);
            let time = time_text(Some(group[0].0));
            let head = RecordHead {
                uuid: &uuid,
                parent: &self.last,
                time: time.as_bytes(),
                ..RecordHead::default()
            };
            self.out.start(place);
            push_clearing(&mut self.out.bytes, &self.scope, &head, &calls);
            self.last = uuid;
        }
    }

    fn take_prompt(&mut self, info: &Value, parts: &[Value], place: SourcePlace) {
        let time = time_text(info["time"]["created"].as_i64());
        if let Some(part) = parts.iter().find(|part| text(part, "type") == "compaction") {
            self.flush_boundary(place, "");
            self.hold_boundary(info, part, time);
            return;
        }
        let mut content = Vec::new();
        let mut is_meta = true;
        for part in parts {
            match text(part, "type") {
                "text" if part["ignored"].as_bool() != Some(true) => {
                    is_meta &= part["synthetic"].as_bool() == Some(true);
                    push_plain_text(&mut content, text(part, "text"));
                }
                "file" if text(part, "mime").starts_with("image/") => {
                    super::canonical::separate(&mut content);
                    content.extend_from_slice(b"{\"type\":\"image\",\"source\":{}}");
                }
                _ => {}
            }
        }
        let id = text(info, "id");
        self.write_user(id, place, &time, &content, is_meta && !content.is_empty());
        self.window.push((id.to_owned(), id.to_owned()));
    }

    fn write_user(&mut self, uuid: &str, place: SourcePlace, time: &str, content: &[u8], is_meta: bool) {
        let head = RecordHead {
            uuid,
            parent: &self.last,
            time: time.as_bytes(),
            is_meta,
            ..RecordHead::default()
        };
        self.out.start(place);
        push_user(&mut self.out.bytes, &self.scope, &head, content);
        self.last = uuid.to_owned();
    }

    fn hold_boundary(&mut self, info: &Value, part: &Value, time: String) {
        let tail = text(part, "tail_start_id");
        let first = self.window.iter().position(|(message, _)| message == tail);
        let kept = self.window[first.unwrap_or(self.window.len())..].iter();
        self.boundary = Some(HeldBoundary {
            id: text(info, "id").to_owned(),
            time,
            facts: BoundaryFacts {
                is_manual: part["auto"].as_bool() == Some(false),
                pre_tokens: self.context,
                post_tokens: None,
                kept: kept.map(|(_, record)| record.clone()).collect(),
            },
        });
    }

    /// Takes the response that is a summary. Its call was sent the old window and is counted apart.
    fn take_summary(&mut self, info: &Value, parts: &[Value], place: SourcePlace) {
        let texts = parts.iter().filter(|part| text(part, "type") == "text");
        let summary = texts.map(|part| text(part, "text")).collect::<Vec<_>>().join("\n");
        let id = text(info, "id");
        let time = time_text(info["time"]["created"].as_i64());
        let scope = ThreadScope {
            // One sub-agent per summary: they know nothing of each other.
            agent: format!("{COMPACTION_AGENT}-{id}"),
            ..self.scope.clone()
        };
        let head = RecordHead {
            uuid: id,
            time: time.as_bytes(),
            ..RecordHead::default()
        };
        let mut content = Vec::new();
        push_plain_text(&mut content, &summary);
        let response = ResponseHead {
            message: id,
            model: text(info, "modelID"),
            stop: "end_turn",
            usage: read_usage(&info["tokens"]),
        };
        self.out.start(place);
        push_response(&mut self.out.bytes, &scope, &head, &response, &content);
        if self.boundary.is_none() {
            // Old versions marked the summary only.
            let marker = serde_json::json!({"id": format!("{id}-boundary")});
            self.hold_boundary(&marker, &Value::Null, time);
        }
        // A summary that failed replaces nothing.
        if info.get("error").is_some() {
            self.boundary = None;
            return;
        }
        self.flush_boundary(place, &summary);
    }

    fn flush_boundary(&mut self, place: SourcePlace, summary: &str) {
        let Some(boundary) = self.boundary.take().filter(|_| !summary.is_empty()) else {
            return;
        };
        let head = RecordHead {
            uuid: &boundary.id,
            logical_parent: &self.last,
            time: boundary.time.as_bytes(),
            ..RecordHead::default()
        };
        self.out.start(place);
        push_boundary(&mut self.out.bytes, &self.scope, &head, &boundary.facts);
        let mut content = Vec::new();
        push_plain_text(&mut content, summary);
        let uuid = format!("{}-summary", boundary.id);
        let head = RecordHead {
            uuid: &uuid,
            parent: &boundary.id,
            time: boundary.time.as_bytes(),
            is_summary: true,
            ..RecordHead::default()
        };
        self.out.start(place);
        push_user(&mut self.out.bytes, &self.scope, &head, &content);
        self.last = uuid;
        let kept = boundary.facts.kept;
        self.window.retain(|(_, record)| kept.contains(record));
        self.context = None;
    }

    /// Takes a response, step by step.
    fn take_response(&mut self, info: &Value, parts: &[Value], place: SourcePlace) {
        let id = text(info, "id");
        let is_end = |part: &Value| text(part, "type") == "step-finish";
        let steps = parts.split_inclusive(is_end).collect::<Vec<_>>();
        let finished = steps.iter().filter(|step| step.last().is_some_and(is_end)).count();
        for (number, step) in steps.iter().enumerate() {
            let finish = step.last().filter(|part| is_end(part));
            // What follows the last step belongs to it: notes of the client.
            if finish.is_none() && finished > 0 && !step.iter().any(|part| text(part, "type") == "step-start") {
                continue;
            }
            let tokens = match finish {
                Some(finish) if finished > 1 => &finish["tokens"],
                _ => &info["tokens"],
            };
            let uuid = match number {
                0 => id.to_owned(),
                number => format!("{id}-{number}"),
            };
            self.write_step(info, step, &uuid, read_usage(tokens), place);
        }
        self.window.push((id.to_owned(), self.last.clone()));
    }

    fn write_step(&mut self, info: &Value, parts: &[Value], uuid: &str, usage: Option<CallUsage>, place: SourcePlace) {
        let (mut content, mut results) = (Vec::new(), Vec::new());
        for part in parts {
            match text(part, "type") {
                "text" => push_plain_text(&mut content, text(part, "text")),
                "reasoning" => push_thinking(&mut content, text(part, "text"), ""),
                "tool" => self.push_tool(part, &mut content, &mut results),
                _ => {}
            }
        }
        let has_usage =
            usage.is_some_and(|usage| usage.input + usage.cache_read + usage.cache_write + usage.output > 0);
        let usage = usage.filter(|_| has_usage);
        let time = time_text(info["time"]["created"].as_i64());
        let head = RecordHead {
            uuid,
            parent: &self.last,
            time: time.as_bytes(),
            ..RecordHead::default()
        };
        let response = ResponseHead {
            message: uuid,
            model: text(info, "modelID"),
            stop: match (usage, results.is_empty()) {
                (None, _) => "",
                (_, false) => "tool_use",
                (_, true) => "end_turn",
            },
            usage,
        };
        self.out.start(place);
        push_response(&mut self.out.bytes, &self.scope, &head, &response, &content);
        self.last = uuid.to_owned();
        if let Some(usage) = usage {
            self.context = Some(usage.input + usage.cache_read + usage.cache_write + usage.output);
        }
        if !results.is_empty() {
            let done = parts
                .iter()
                .filter_map(|part| part["state"]["time"]["end"].as_i64())
                .max();
            let time = time_text(done.or_else(|| info["time"]["completed"].as_i64()));
            self.write_user(&format!("{uuid}-results"), place, &time, &results, false);
        }
    }

    fn push_tool(&mut self, part: &Value, content: &mut Vec<u8>, results: &mut Vec<u8>) {
        let (call, state) = (text(part, "callID"), &part["state"]);
        let input = state["input"].as_object().cloned().unwrap_or_default();
        push_tool_use(content, call, text(part, "tool"), usual_input(input));
        let images = state["attachments"].as_array().map_or(0, Vec::len);
        match text(state, "status") {
            "completed" => push_plain_result(results, call, text(state, "output"), images, false),
            "error" => push_plain_result(results, call, text(state, "error"), 0, true),
            _ => {}
        }
        if let Some(time) = state["time"]["compacted"].as_i64() {
            self.cleared.push((time, call.to_owned()));
        }
    }
}

/// Lines of the export, by offset.
struct Places {
    newlines: Vec<usize>,
    next: usize,
}

impl Places {
    /// Returns the line of an offset. Offsets ascend.
    fn find(&mut self, at: usize) -> SourcePlace {
        while self.newlines.get(self.next).is_some_and(|newline| *newline < at) {
            self.next += 1;
        }
        SourcePlace {
            line: self.next as u64 + 1,
            offset: at as u64,
        }
    }
}
