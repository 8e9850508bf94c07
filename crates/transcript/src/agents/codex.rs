//! Codex: one line per event, `{"timestamp", "type", "payload"}`.
//!
//! A `token_count` row closes a response. Its items stand before it, and so may results of its calls; what stands before
//! it is held until the row is read, because every line of a response carries its usage. Rows that repeat the totals of
//! the row before, and the estimate after a compaction, are no calls.
//!
//! A forked or spawned thread starts with a copy of its parent's lines. Records are therefore named by what they say and
//! by the last prompt before them, never by time or file: the copies get the ids of the originals, and the plan of a
//! corpus finds them within the family of threads ([`crate::log::Log::lineage`]).

mod held;
mod items;
mod line;

use super::canonical::{
    BoundaryFacts, CallUsage, CanonicalLines, RecordHead, ResponseHead, SourcePlace, ThreadScope, hash_after,
    hash_parts, made_call_id, made_id, push_boundary, push_response, push_text_block, push_title, push_user, separate,
};
use super::{CanonicalConsumer, SourcePosition};
use crate::build::IdMap;
use crate::json::{JsonStr, RawParser};
use crate::log::LineProblemKind;
use crate::repair::climb_ladder;
use crate::skim::{PortableScanner, ScanLines, StringScanner, dispatch_scan, prefetch_ahead};
use held::{HeldBoundary, HeldKind, HeldRecord, RecordPool};
use items::{call_id, is_injected, push_call, push_message, push_reasoning, push_result};
use line::{CodexLine, Payload, TokenCounts, parse_bare_line, parse_line};

/// First bytes of a line.
const LINE_START: &[u8] = b"{\"timestamp\":";

/// Bytes of a response that wait for its usage at most.
const MAX_HELD_BYTES: usize = 32 << 20;

/// Returns whether a line is one of Codex.
pub(super) fn is_codex_line(line: &[u8]) -> bool {
    let kinds: [&[u8]; 5] = [
        b"\"session_meta\"",
        b"\"turn_context\"",
        b"\"response_item\"",
        b"\"event_msg\"",
        b"\"compacted\"",
    ];
    let ends = [&line[..line.len().min(200)], &line[line.len().saturating_sub(200)..]];
    let has = |text: &[u8]| ends.iter().any(|end| memchr::memmem::find(end, text).is_some());
    line.starts_with(b"{") && has(b"\"timestamp\"") && kinds.iter().any(|kind| has(kind)) || is_bare_head(line)
}

/// Returns whether a line is the head of a log of the first versions, whose lines are the items themselves.
fn is_bare_head(line: &[u8]) -> bool {
    let has = |text: &[u8]| memchr::memmem::find(line, text).is_some();
    line.starts_with(b"{\"id\":") && has(b"\"timestamp\":") && has(b"\"instructions\":") && !has(b"\"payload\":")
}

/// Translates a log of Codex.
#[derive(Default)]
pub(super) struct CodexReader {
    pub source: SourcePosition,
    out: CanonicalLines,
    scope: ThreadScope,
    /// Id of the thread; empty until its first line.
    thread: String,
    model: String,
    window: u64,
    /// What names records: the thread that a line was first written in, then the last prompt.
    seed: u128,
    /// How often a record with the same content was seen.
    repeats: IdMap<u128, u32>,
    /// The record that the next one follows.
    last: String,
    /// Totals of the last `token_count` row.
    totals: Option<TokenCounts>,
    held: Vec<HeldRecord>,
    /// Bytes of their contents.
    held_bytes: usize,
    /// Records that were written: their buffers are used again.
    spare: RecordPool,
    /// The name of a kind of line, reused.
    kind_name: String,
    /// Whether the lines are bare items.
    is_bare: bool,
    /// Time of the head: that of lines without one.
    head_time: Vec<u8>,
    /// Whether the held records include a response.
    is_open: bool,
    /// Whether a result followed the items of the open response.
    has_results: bool,
    boundary: Option<HeldBoundary>,
    /// By prompt: the record before it. A rollback returns there.
    prompts: Vec<String>,
    /// Records of user messages by the hash of their content, to find those that a compaction kept.
    user_messages: IdMap<u128, String>,
    /// Number of calls that a patch of several files was written as, by the id of the call.
    patches: IdMap<String, usize>,
    /// Whether the turn has items of the model or a prompt.
    is_turn_used: bool,
    /// Whether a `compacted` line was read since the last item.
    was_compacted: bool,
}

impl CodexReader {
    /// Translates whole lines.
    pub fn take_lines<C: CanonicalConsumer>(&mut self, bytes: &[u8], offset: u64, consumer: &mut C) {
        if self.source.lines == 0 {
            let first = bytes.split(|byte| *byte == b'\n').next();
            self.is_bare = first.is_some_and(|line| is_bare_head(line.trim_ascii()));
        }
        // Much of a log is told twice, as an item and as an event.
        self.out.bytes.reserve(bytes.len() / 2);
        dispatch_scan(&mut CodexScan { reader: self, consumer }, bytes, offset);
        self.hand_on(consumer);
    }

    /// Hands on what is held at the end of the log.
    pub fn finish<C: CanonicalConsumer>(mut self, consumer: &mut C) {
        self.close_response(None, None);
        self.flush_boundary(false);
        self.hand_on(consumer);
    }

    fn hand_on<C: CanonicalConsumer>(&mut self, consumer: &mut C) {
        consumer.take_canonical(&self.out);
        self.out.clear();
    }

    /// Applies an accepted line.
    fn apply<S: StringScanner, C: CanonicalConsumer>(
        &mut self,
        line: &CodexLine<'_>,
        place: SourcePlace,
        consumer: &mut C,
    ) {
        let payload = &line.payload;
        let kind = line.kind.raw();
        let mut name = std::mem::take(&mut self.kind_name);
        name.clear();
        push_lossy(&mut name, if kind.is_empty() { b"(none)" } else { kind });
        if let Some(detail) = payload.kind.filter(|_| matches!(kind, b"response_item" | b"event_msg")) {
            name.push('/');
            push_lossy(&mut name, detail.raw());
        }
        consumer.count_kind(&name);
        self.kind_name = name;
        match kind {
            b"session_meta" => self.take_meta(payload, consumer),
            b"turn_context" => self.take_context(payload),
            b"response_item" => self.take_item::<S>(line, place),
            b"event_msg" => self.take_event(line, place),
            b"compacted" => self.take_compaction(line, place),
            _ => {}
        }
    }

    /// Takes the head of a thread. A further head is that of a thread whose lines follow as copies.
    fn take_meta<C: CanonicalConsumer>(&mut self, payload: &Payload<'_>, consumer: &mut C) {
        let mut buffer = String::new();
        let mut text =
            |text: Option<JsonStr<'_>>| text.map_or_else(String::new, |text| text.decode(&mut buffer).to_owned());
        let id = text(payload.id);
        let parent = [payload.parent_thread, payload.spawned_by].map(&mut text);
        let parent = parent.into_iter().find(|parent| !parent.is_empty()).unwrap_or_default();
        let forked_from = text(payload.forked_from);
        for thread in [&id, &parent, &forked_from] {
            if !thread.is_empty() {
                consumer.add_lineage(thread);
            }
        }
        if self.thread.is_empty() {
            self.head_time = payload.time.map_or_else(Vec::new, |time| time.raw().to_vec());
            let root = text(payload.session_id);
            self.scope = ThreadScope {
                session: id.clone(),
                agent: String::new(),
                version: text(payload.version),
                cwd: text(payload.cwd),
                branch: text(payload.branch),
            };
            // A spawned thread belongs to the session of its root; one that a person forked is a session of its own.
            if !parent.is_empty() {
                let is_root = root.is_empty() || root == id;
                self.scope.session = if is_root { parent } else { root };
                self.scope.agent.clone_from(&id);
            }
            self.thread.clone_from(&id);
        }
        // A thread repeats its own head now and then.
        if id != self.thread || self.seed == 0 {
            self.seed = hash_parts(&[b"thread", id.as_bytes()]);
        }
    }

    fn take_context(&mut self, payload: &Payload<'_>) {
        let mut buffer = String::new();
        if let Some(model) = payload.model {
            model.decode(&mut buffer).clone_into(&mut self.model);
        }
        if let Some(cwd) = payload.cwd {
            cwd.decode(&mut buffer).clone_into(&mut self.scope.cwd);
        }
    }

    fn take_item<S: StringScanner>(&mut self, line: &CodexLine<'_>, place: SourcePlace) {
        let payload = &line.payload;
        let mut record = self
            .spare
            .take(line.time.map_or(&*self.head_time, |time| time.raw()), place);
        let content = &mut record.content;
        let kind = payload.kind.map_or(&[][..], |kind| kind.raw());
        let held = match kind {
            b"message" => {
                let role = payload.role.map_or(&[][..], |role| role.raw());
                push_message::<S>(content, payload.content);
                match role {
                    b"assistant" => HeldKind::Response { has_calls: false },
                    _ => HeldKind::User {
                        is_meta: role != b"user" || is_injected::<S>(payload.content),
                    },
                }
            }
            // A message of another agent.
            b"agent_message" => {
                push_message::<S>(content, payload.content);
                HeldKind::User { is_meta: true }
            }
            b"reasoning" => {
                push_reasoning::<S>(content, payload);
                HeldKind::Response { has_calls: false }
            }
            b"function_call"
            | b"custom_tool_call"
            | b"local_shell_call"
            | b"web_search_call"
            | b"tool_search_call"
            | b"image_generation_call" => {
                let calls = push_call(content, payload);
                if calls > 1 {
                    self.patches.insert(call_id(payload), calls);
                }
                HeldKind::Response { has_calls: true }
            }
            b"function_call_output" | b"custom_tool_call_output" | b"tool_search_output" | b"mcp_tool_call_output" => {
                let calls = self.patches.remove(&call_id(payload)).unwrap_or(1);
                push_result::<S>(content, payload, calls);
                HeldKind::User { is_meta: false }
            }
            _ => {
                self.spare.put(record);
                return;
            }
        };
        let uuid = self.name_record(line.payload_bytes);
        let is_result = payload.call_id.is_some() && matches!(held, HeldKind::User { .. });
        let is_message = matches!(held, HeldKind::User { .. }) && !is_result;
        if let HeldKind::Response { .. } = held {
            // Logs without a row between two responses: new reasoning or text after a result is a new response.
            let starts_anew = self.has_results && matches!(kind, b"reasoning" | b"message");
            if self.is_open && starts_anew {
                self.close_response(None, None);
            }
            self.flush_boundary(false);
            self.is_open = true;
            (self.is_turn_used, self.was_compacted) = (true, false);
        } else {
            self.flush_boundary(false);
            self.has_results |= self.is_open && is_result;
        }
        if is_message && payload.role.is_some_and(|role| role.raw() == b"user") {
            // The same words in two turns are two prompts.
            self.seed = hash_after(self.seed, payload.content.bytes);
            self.user_messages
                .insert(hash_after(0, payload.content.bytes), made_id(uuid));
            self.is_turn_used |= held == HeldKind::User { is_meta: false };
        }
        (record.uuid, record.kind) = (uuid, held);
        self.held_bytes += record.content.len();
        self.held.push(record);
        match self.is_open {
            false => self.write_held(None, None),
            // A log without rows: a response is not held forever.
            true if self.held_bytes > MAX_HELD_BYTES => self.close_response(None, None),
            true => {}
        }
    }

    fn take_event(&mut self, line: &CodexLine<'_>, place: SourcePlace) {
        let payload = &line.payload;
        match payload.kind.map_or(&[][..], |kind| kind.raw()) {
            b"token_count" => self.take_counts(line, place),
            b"task_started" => {
                self.end_turn(false);
                self.window = payload.window.unwrap_or(self.window);
            }
            b"task_complete" | b"turn_aborted" => self.end_turn(true),
            b"thread_rolled_back" => {
                self.end_turn(false);
                self.roll_back(payload.turns.unwrap_or(0));
            }
            b"thread_settings_applied" => self.take_context(payload),
            // Old versions wrote no `compacted` line.
            b"context_compacted" if !self.was_compacted && self.boundary.is_none() => self.take_compaction(line, place),
            b"thread_name_updated" => self.take_title(line, place),
            _ => {}
        }
    }

    fn end_turn(&mut self, is_complete: bool) {
        self.close_response(None, None);
        self.flush_boundary(is_complete);
        self.is_turn_used = false;
    }

    /// Takes a `token_count` row: a call, unless it repeats the totals or only estimates.
    fn take_counts(&mut self, line: &CodexLine<'_>, place: SourcePlace) {
        let payload = &line.payload;
        let Some(total) = payload.total_usage.or(payload.last_usage) else {
            return;
        };
        self.window = payload.window.unwrap_or(self.window);
        let before = self.totals.replace(total);
        let last = payload.last_usage.unwrap_or_else(|| total.since(before));
        if last.is_estimate() {
            if let Some(boundary) = &mut self.boundary {
                boundary.facts.post_tokens = Some(last.total).filter(|total| *total > 0);
            }
            return;
        }
        if before == Some(total) {
            return;
        }
        self.flush_boundary(false);
        let uuid = self.name_record(line.payload_bytes);
        let usage = CallUsage {
            input: last.input.saturating_sub(last.cached + last.cache_write),
            output: last.output,
            cache_write: last.cache_write.min(last.input),
            cache_read: last.cached.min(last.input),
            reasoning: last.reasoning,
            window: self.window,
        };
        if !self.is_open {
            let mut record = self
                .spare
                .take(line.time.map_or(&*self.head_time, |time| time.raw()), place);
            (record.uuid, record.kind) = (uuid, HeldKind::Response { has_calls: false });
            self.held.push(record);
        }
        self.close_response(Some(usage), Some(uuid));
    }

    fn close_response(&mut self, usage: Option<CallUsage>, uuid: Option<u128>) {
        self.write_held(usage, uuid);
        (self.is_open, self.has_results) = (false, false);
    }

    /// Writes the held records. The first line of a response is named after the row that closes it: copies of the row alone
    /// are recognized, too.
    fn write_held(&mut self, usage: Option<CallUsage>, row: Option<u128>) {
        let mut held = std::mem::take(&mut self.held);
        let mut row = row;
        let calls = held
            .iter()
            .any(|record| record.kind == HeldKind::Response { has_calls: true });
        let is_response = |record: &&HeldRecord| matches!(record.kind, HeldKind::Response { .. });
        let first = held.iter().find(is_response).map(|record| record.uuid);
        let message = row.or(first).map(made_call_id).unwrap_or_default();
        for record in &held {
            let uuid = match record.kind {
                HeldKind::Response { .. } => made_id(row.take().unwrap_or(record.uuid)),
                HeldKind::User { .. } => made_id(record.uuid),
            };
            let head = RecordHead {
                uuid: &uuid,
                parent: &self.last,
                time: &record.time,
                ..RecordHead::default()
            };
            self.out.start(record.place);
            match record.kind {
                HeldKind::Response { .. } => {
                    let stop = match (usage, calls) {
                        (None, _) => "",
                        (_, true) => "tool_use",
                        (_, false) => "end_turn",
                    };
                    let response = ResponseHead {
                        message: &message,
                        model: if self.model.is_empty() { "unknown" } else { &self.model },
                        stop,
                        usage,
                    };
                    push_response(&mut self.out.bytes, &self.scope, &head, &response, &record.content);
                }
                HeldKind::User { is_meta } => {
                    if !is_meta && !record.content.starts_with(b"{\"tool_use_id\"") {
                        self.prompts.push(self.last.clone());
                    }
                    let head = RecordHead { is_meta, ..head };
                    push_user(&mut self.out.bytes, &self.scope, &head, &record.content);
                }
            }
            self.last = uuid;
        }
        held.drain(..).for_each(|record| self.spare.put(record));
        (self.held, self.held_bytes) = (held, 0);
    }

    /// Returns to the record before the last `turns` prompts.
    fn roll_back(&mut self, turns: u64) {
        for _ in 0..turns {
            let Some(before) = self.prompts.pop() else { break };
            self.last = before;
        }
    }

    fn take_compaction(&mut self, line: &CodexLine<'_>, place: SourcePlace) {
        self.close_response(None, None);
        self.flush_boundary(false);
        let payload = &line.payload;
        let history = items::read_history(payload.history);
        let kept = history.user_messages.iter();
        let kept = kept.filter_map(|content| self.user_messages.get(&hash_after(0, content)).cloned());
        let facts = BoundaryFacts {
            is_manual: false,
            // The client's own count is not in the log.
            pre_tokens: None,
            post_tokens: None,
            kept: kept.collect(),
        };
        let mut summary = history.summary;
        if let Some(message) = payload.message.filter(|message| !message.raw().is_empty()) {
            summary.clear();
            push_text_block(&mut summary, message);
        }
        if summary.is_empty() {
            separate(&mut summary);
            summary.extend_from_slice(b"{\"type\":\"compaction\"}");
        }
        self.boundary = Some(HeldBoundary {
            place,
            time: line.time.map_or_else(Vec::new, |time| time.raw().to_vec()),
            uuid: self.name_record(line.payload_bytes),
            facts,
            summary,
            is_in_turn: self.is_turn_used,
        });
        self.was_compacted = true;
    }

    /// Writes a held boundary. If its turn ends without anything else, a person asked for it.
    fn flush_boundary(&mut self, is_turn_end: bool) {
        let Some(mut boundary) = self.boundary.take() else {
            return;
        };
        boundary.facts.is_manual = is_turn_end && !boundary.is_in_turn;
        let uuid = made_id(boundary.uuid);
        let head = RecordHead {
            uuid: &uuid,
            logical_parent: &self.last,
            time: &boundary.time,
            ..RecordHead::default()
        };
        self.out.start(boundary.place);
        push_boundary(&mut self.out.bytes, &self.scope, &head, &boundary.facts);
        let summary = made_id(hash_parts(&[b"summary", uuid.as_bytes()]));
        let head = RecordHead {
            uuid: &summary,
            parent: &uuid,
            time: &boundary.time,
            is_summary: true,
            ..RecordHead::default()
        };
        self.out.start(boundary.place);
        push_user(&mut self.out.bytes, &self.scope, &head, &boundary.summary);
        self.last = summary;
        self.user_messages.clear();
    }

    fn take_title(&mut self, line: &CodexLine<'_>, place: SourcePlace) {
        let Some(title) = line.payload.thread_name else { return };
        // Titles stand in the order of the log, after what is held.
        self.close_response(None, None);
        self.flush_boundary(false);
        self.out.start(place);
        push_title(
            &mut self.out.bytes,
            &self.scope.session,
            title.decode(&mut String::new()),
        );
    }

    /// Returns the name of a record with this content.
    fn name_record(&mut self, payload: &[u8]) -> u128 {
        let content = hash_after(self.seed, payload);
        let seen = self.repeats.entry(content).or_insert(0);
        *seen += 1;
        match *seen {
            1 => content,
            again => hash_parts(&[&content.to_le_bytes(), &again.to_le_bytes()]),
        }
    }

    /// Reads a line that the fast path declined.
    #[cold]
    fn repair_line<C: CanonicalConsumer>(
        &mut self,
        line: &[u8],
        place: SourcePlace,
        is_complete: bool,
        consumer: &mut C,
    ) {
        let outcome = climb_ladder(line, &[LINE_START], &mut |piece, is_after_torn| {
            let mut accept = |piece: &[u8]| {
                let mut parser = RawParser::<PortableScanner>::new(piece, 0);
                // After a torn line the next object may be nested in it: only an item of its own is bare.
                let parsed = match self.is_bare && !is_after_torn {
                    true => parse_bare_line(&mut parser),
                    false => parse_line(&mut parser),
                };
                let Ok(line) = parsed else { return false };
                let is_record = parser.end_of_line().is_ok() && line.has_payload();
                if is_record {
                    self.apply::<PortableScanner, C>(&line, place, consumer);
                }
                is_record
            };
            // What the walker declines but JSON allows is written in the usual way first.
            accept(piece) || {
                let value = serde_json::from_slice::<serde_json::Value>(piece);
                value.is_ok_and(|value| accept(value.to_string().as_bytes()))
            }
        });
        if let Some(problem) = outcome.line_problem(is_complete) {
            consumer.add_line_problem(problem, place.line, place.offset);
        }
    }
}

/// Appends bytes as text; what is no UTF-8 becomes U+FFFD.
fn push_lossy(out: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => out.push_str(text),
        Err(_) => out.push_str(&String::from_utf8_lossy(bytes)),
    }
}

/// One block of lines on its way through a reader.
struct CodexScan<'r, C> {
    reader: &'r mut CodexReader,
    consumer: &'r mut C,
}

impl<C: CanonicalConsumer> ScanLines for CodexScan<'_, C> {
    fn scan_lines<S: StringScanner>(&mut self, bytes: &[u8], offset: u64) {
        let max_line = self.consumer.max_line();
        let before = self.reader.source.lines;
        let mut parser = RawParser::<S>::new(bytes, 0);
        let (mut at, mut faulted) = (0, 0);
        while at < bytes.len() {
            prefetch_ahead(bytes, at, &mut faulted);
            self.reader.source.lines += 1;
            let place = SourcePlace {
                line: self.reader.source.lines,
                offset: offset + at as u64,
            };
            parser.restart(at);
            let parsed = match self.reader.is_bare {
                true => parse_bare_line(&mut parser),
                false => parse_line(&mut parser),
            };
            let parsed = parsed.and_then(|line| Ok((line, parser.end_of_line()?)));
            let end = match parsed {
                Ok((line, end)) if end - at <= max_line && line.has_payload() => {
                    self.reader.apply::<S, C>(&line, place, self.consumer);
                    end
                }
                _ => {
                    let reached = parser.position();
                    let newline = memchr::memchr(b'\n', &bytes[reached..]);
                    let end = newline.map_or(bytes.len(), |found| reached + found + 1);
                    if end - at > max_line {
                        self.consumer
                            .add_line_problem(LineProblemKind::TooLong, place.line, place.offset);
                    } else {
                        self.reader
                            .repair_line(&bytes[at..end], place, newline.is_some(), self.consumer);
                    }
                    end
                }
            };
            at = end;
        }
        let lines = self.reader.source.lines - before;
        self.consumer.count_source(lines, bytes.len() as u64);
    }
}
