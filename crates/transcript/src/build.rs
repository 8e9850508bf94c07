//! Builds the compact form of a log from its records, line by line.
//!
//! Parts of a big file are built in parallel and joined by [`LogBuilder::append`], which also links their records to
//! those already there; [`LogBuilder::finish`] links the rest. Wire text gets its meaning here: which text a person
//! typed, which file a call names, which shell commands may change files.

mod append;
mod commands;
mod kinds;
mod names;
mod scopes;
#[cfg(test)]
mod tests;
mod titles;
mod window_marks;

use crate::agents::Agent;
use crate::json::JsonStr;
use crate::linker::Linker;
use crate::log::*;
use crate::record as wire;
use crate::record::client_estimate;
use crate::timestamp::MinuteCache;
use commands::may_change_files;
use language::client_text::{self, ClientTextKind};
use scopes::RecentScope;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use titles::KeptTitles;
use window_marks::{mark_of_command, mark_of_output};

fn raw_bytes<'a>(text: Option<JsonStr<'a>>) -> &'a [u8] {
    text.map_or(&[], |text| text.raw())
}

/// A hasher for ids that are evenly distributed already: it multiplies instead of mixing. Output never depends on it.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64(bytes) ^ self.0.rotate_left(32);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = self.0.rotate_left(32) ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64 ^ (value >> 64) as u64);
    }
}

/// A hash map keyed by ids.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Builds a [`Log`] record by record.
#[derive(Default)]
pub struct LogBuilder {
    log: Log,
    /// Interned strings by hash. On a collision the key is incremented until it is free.
    names: IdMap<u64, NameId>,
    scopes: IdMap<RecordScope, u32>,
    kinds: IdMap<NameId, u64>,
    links: Linker,
    /// Scope of the previous record and the texts it was made of; nearly every record repeats them.
    recent: RecentScope,
    /// The first record types seen: kind, subtype, name and count. A linear search over them is cheaper than formatting
    /// and interning the name of every record.
    kind_names: Vec<(RecordKind, Vec<u8>, NameId, u64)>,
    /// Id of the previous record as text and as parsed; it is usually the parent of the next record.
    recent_id: Option<([u8; 36], RecordId)>,
    /// The minute of the previous timestamp.
    recent_minute: MinuteCache,
    /// Recently used names, newest first.
    recent_names: [NameId; 8],
    /// Titles of conversations that are named by their last message, which may follow in the log or lie in another one.
    leaf_titles: Vec<(RecordId, Box<str>)>,
    kept_titles: IdMap<(NameId, TitleSource), KeptTitles>,
    buffer: String,
}

/// Initial capacity for names: most logs have no more.
const INITIAL_NAMES: usize = 100;

/// Empty buffers, reused from log to log.
#[derive(Default)]
pub struct LogBuffers {
    records: Vec<Record>,
    responses: Vec<ResponseLine>,
    blocks: Vec<Block>,
    parents: Vec<RecordId>,
}

impl LogBuffers {
    /// Takes the buffers of a log that is no longer needed.
    pub fn from_log(mut log: Log) -> LogBuffers {
        log.records.clear();
        log.responses.clear();
        log.blocks.clear();
        LogBuffers {
            records: log.records,
            responses: log.responses,
            blocks: log.blocks,
            parents: Vec::new(),
        }
    }

    /// Returns the largest capacity of the buffers.
    pub fn capacity(&self) -> usize {
        let sizes = [
            self.records.capacity(),
            self.responses.capacity(),
            self.blocks.capacity(),
            self.parents.capacity(),
        ];
        sizes.into_iter().max().unwrap_or(0)
    }
}

impl LogBuilder {
    /// Creates an empty builder that fills `buffers`.
    pub fn new(buffers: LogBuffers) -> LogBuilder {
        let mut builder = LogBuilder {
            log: Log {
                records: buffers.records,
                responses: buffers.responses,
                blocks: buffers.blocks,
                ..Log::default()
            },
            links: Linker::new(buffers.parents),
            ..LogBuilder::default()
        };
        builder.names.reserve(INITIAL_NAMES);
        builder.log.strings.reserve(INITIAL_NAMES);
        builder.intern("");
        builder
    }

    /// Adds a problem with a line.
    pub fn add_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64) {
        self.log.problems.push(LineProblem { kind, line, offset });
    }

    /// Adds to the counts of lines and bytes.
    pub fn count_lines(&mut self, lines: u64, bytes: u64) {
        self.log.lines += lines;
        self.log.bytes += bytes;
    }

    /// Returns the number of lines so far.
    pub fn lines(&self) -> u64 {
        self.log.lines
    }

    /// Returns the number of blocks so far.
    pub fn block_count(&self) -> u32 {
        self.log.blocks.len() as u32
    }
    /// Sets the agent that wrote the log. Its lines are counted by [`LogBuilder::count_kind`], not by the records that
    /// they become.
    pub fn set_agent(&mut self, agent: Agent) {
        self.log.agent = agent;
    }

    /// Adds a thread that the log belongs to or descends from.
    pub fn add_lineage(&mut self, thread: &str) {
        let name = self.intern(thread);
        if !self.log.lineage.contains(&name) {
            self.log.lineage.push(name);
        }
    }

    /// Adds one accepted record.
    pub fn push(&mut self, record: &wire::WireRecord<'_>, line: u64, offset: u64) {
        let Some(kind) = self.count_record(record) else {
            self.keep_session_facts(record, offset);
            return;
        };
        let id = self.parse_id(record.uuid).unwrap_or_default();
        let parent = self.parse_id(record.parent).unwrap_or_default();
        let logical_parent = self.parse_id(record.logical_parent);
        self.recent_id = record
            .uuid
            .and_then(|text| text.raw().try_into().ok())
            .map(|written| (written, id));
        let time = record.timestamp.map_or(NO_TIME, |text| {
            let time = self.recent_minute.read(text.raw());
            if time == NO_TIME {
                self.add_problem(LineProblemKind::BadTime, line, offset);
            }
            time
        });
        let scope = self.scope_of(record);
        let index = self.log.records.len() as u32;
        let first_block = self.log.blocks.len() as u32;
        match kind {
            RecordKind::User | RecordKind::Assistant => self.push_blocks(record, kind, scope, index),
            RecordKind::Attachment => self.push_attachment(record, scope),
            RecordKind::System => self.push_window_mark(index, record.system_text, mark_of_output),
            _ => {}
        }
        if record.message.usage.is_some_and(|usage| usage.has_invalid_count) {
            self.add_problem(LineProblemKind::BadCount, line, offset);
        }
        let response = self.push_response(record, kind, index);
        let boundary = record
            .compaction
            .as_ref()
            .map(|compaction| self.push_boundary(compaction));
        self.links.push(index, parent, logical_parent);
        self.log.records.push(Record {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            offset,
            kind,
            id,
            parent: RecordLink::None,
            logical_parent: RecordLink::None,
            time,
            scope,
            response,
            first_block,
            blocks: self.log.blocks.len() as u32 - first_block,
            boundary,
            is_meta: record.is_meta,
            is_summary: record.is_compact_summary,
            is_api_error: record.is_api_error,
            is_repeat: false,
        });
    }

    /// Counts a record by its type. Returns its kind, or `None` if it is of no further use.
    #[inline]
    fn count_record(&mut self, record: &wire::WireRecord<'_>) -> Option<RecordKind> {
        let kind = match raw_bytes(record.kind) {
            b"user" => RecordKind::User,
            b"assistant" => RecordKind::Assistant,
            b"system" => match record.subtype.map(|subtype| subtype.raw()) {
                Some(b"compact_boundary") => RecordKind::Boundary,
                Some(b"microcompact_boundary") => RecordKind::MicroBoundary,
                Some(b"stop_hook_summary") => RecordKind::TurnEnd,
                _ => RecordKind::System,
            },
            b"progress" => RecordKind::Progress,
            b"attachment" => RecordKind::Attachment,
            _ => {
                if self.log.agent == Agent::Claude {
                    self.count_other_kind(record);
                }
                return record.uuid.is_some().then_some(RecordKind::Other);
            }
        };
        if self.log.agent == Agent::Claude {
            self.count_known_kind(kind, record);
        }
        Some(kind)
    }

    fn push_response(&mut self, record: &wire::WireRecord<'_>, kind: RecordKind, index: u32) -> Option<u32> {
        let usage = match kind {
            RecordKind::Assistant => record.message.usage.unwrap_or_default(),
            RecordKind::Progress => record.message.usage?,
            _ => return None,
        };
        let model = self.intern_text(record.message.model);
        let (message, request) = call_identity(raw_bytes(record.message.id), raw_bytes(record.request));
        let stop = match record.message.stop_reason.map(|reason| reason.raw()) {
            None => StopReason::Unknown,
            Some(b"tool_use") => StopReason::ToolUse,
            Some(b"end_turn") => StopReason::EndTurn,
            Some(_) => StopReason::Other,
        };
        let number = self.log.responses.len() as u32;
        let (billed, last_call) = match usage.iterations {
            0 => (usage.top, None),
            _ => iteration_tokens(&usage),
        };
        self.log.responses.push(ResponseLine {
            record: index,
            message,
            request,
            model,
            stop,
            billed,
            last_call,
            is_zeroed: usage.top.is_zero() && usage.iterations > 0,
            is_progress: kind == RecordKind::Progress,
        });
        if let Some(facts) = record.facts {
            self.log.call_facts.push(CallFacts {
                response: number,
                reasoning: facts.reasoning,
                window: facts.window,
            });
        }
        for call in &record.other_calls {
            let model = match call.model {
                Some(_) => self.intern_text(call.model),
                None => model,
            };
            self.log.other_calls.push(OtherCall {
                response: number,
                model,
                tokens: call.tokens,
            });
        }
        Some(number)
    }

    #[cold]
    fn push_boundary(&mut self, compaction: &wire::WireBoundary<'_>) -> u32 {
        let mut kept = compaction
            .kept
            .iter()
            .filter_map(|id| self.parse_id(Some(*id)))
            .collect::<Vec<_>>();
        if kept.is_empty() {
            let ends = [compaction.kept_head, compaction.kept_tail];
            kept = ends.into_iter().filter_map(|id| self.parse_id(id)).collect();
        }
        self.log.boundaries.push(BoundaryRecord {
            is_auto: compaction.trigger.is_none_or(|trigger| trigger.raw() != b"manual"),
            pre_tokens: compaction.pre_tokens,
            post_tokens: compaction.post_tokens,
            tokens_saved: compaction.tokens_saved,
            duration_ms: compaction.duration_ms,
            kept,
            cleared: compaction.cleared.iter().map(|id| hash_api_id(id.raw())).collect(),
        });
        self.log.boundaries.len() as u32 - 1
    }

    #[inline(never)]
    fn push_attachment(&mut self, record: &wire::WireRecord<'_>, scope: u32) {
        let is_prompt = is_queued_prompt(record);
        let mut block = Block::new(if is_prompt {
            BlockKind::Human
        } else {
            BlockKind::Attachment
        });
        block.units = record.attachment_shape.units;
        block.quarters = client_estimate(block.units);
        block.escapes = record.attachment_shape.escapes;
        block.wide = record.attachment_shape.wide;
        if !is_prompt {
            block.name = self.intern_text(record.attachment);
            block.path = self.intern_path(record.attachment_path, scope);
            block.extra = record.hook_name_units;
        }
        self.log.blocks.push(block);
    }

    /// Notes that a record has a text that names the size of a window, if `read` finds one.
    fn push_window_mark(
        &mut self,
        record: u32,
        text: Option<JsonStr<'_>>,
        read: impl FnOnce(&[u8]) -> Option<WindowMark>,
    ) {
        let mark = text.and_then(|text| read(text.raw()));
        self.log.window_marks.extend(mark.map(|mark| (record, mark)));
    }

    fn push_blocks(&mut self, record: &wire::WireRecord<'_>, kind: RecordKind, scope: u32, index: u32) {
        for wire in &record.blocks {
            let block_kind = block_kind(wire, record, kind);
            let mut block = Block::new(block_kind);
            block.units = wire.shape.units;
            block.quarters = wire.quarters;
            block.escapes = wire.shape.escapes;
            block.wide = wire.shape.wide;
            block.images = wire.images;
            block.extra = wire.signature;
            block.is_error = wire.is_error;
            block.call = wire.id.map_or(0, |id| hash_api_id(id.raw()));
            match block_kind {
                BlockKind::Human | BlockKind::Command => self.keep_prompt(record, wire, block_kind, scope),
                BlockKind::ToolCall => {
                    block.name = self.intern_text(wire.name);
                    block.path = self.intern_path(wire.path, scope);
                    let name_units = self.log.string(block.name).encode_utf16().count() as u32;
                    block.quarters = client_estimate(block.units.saturating_add(name_units));
                    let bound = |count: Option<u64>| count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX));
                    block.range = (bound(wire.offset), bound(wire.limit));
                    block.may_change_files = wire.command.is_some_and(|command| may_change_files(command.raw()));
                    let model = raw_bytes(record.message.model);
                    self.push_window_mark(index, wire.command, |command| mark_of_command(command, model));
                }
                BlockKind::CommandOutput => self.push_window_mark(index, wire.head, mark_of_output),
                BlockKind::Other => block.name = self.intern_text(wire.kind),
                _ => {}
            }
            self.log.blocks.push(block);
        }
    }

    /// Reserves room for the records of about `bytes` of log, so that lists do not grow step by step.
    pub fn reserve_for(&mut self, bytes: u64) {
        // A record is about three kilobytes long on average, and most have one block.
        let records = usize::try_from(bytes / 2500).unwrap_or(0).min(1 << 20) + 16;
        reserve_fresh(&mut self.log.records, records);
        reserve_fresh(&mut self.log.blocks, records);
        reserve_fresh(&mut self.log.responses, records * 2 / 3);
        self.links.reserve(records);
    }

    /// Links the remaining records and returns the finished log.
    pub fn finish(mut self) -> Log {
        self.merge_kind_counts();
        self.assign_leaf_titles();
        self.links.finish(&mut self.log);
        let mut odd = std::mem::take(&mut self.log.odd_ids);
        odd.sort_unstable();
        odd.dedup_by_key(|(id, _)| *id);
        self.log.odd_ids = odd;
        self.log.kinds = self.kinds.into_iter().collect();
        let strings = &self.log.strings;
        self.log
            .kinds
            .sort_unstable_by(|a, b| strings[a.0 as usize].cmp(&strings[b.0 as usize]));
        self.log
    }
}

/// Returns the hashes of message and request that identify an API call; 0 for none. Ids of the API (`msg_`) are unique: the
/// same id under another request, as a replayed sidechain has it, is the same call. So the request only counts beside other
/// ids, see [`ResponseLine::call_key`].
fn call_identity(message: &[u8], request: &[u8]) -> (u64, u64) {
    // An empty id means none.
    let hash = |id: &[u8]| if id.is_empty() { 0 } else { hash_api_id(id) };
    let request = if message.starts_with(b"msg_") { 0 } else { hash(request) };
    (hash(message), request)
}

/// Reserves room for `more` items. An empty list is reallocated, not grown: growing would copy its stale contents.
pub(super) fn reserve_fresh<T>(list: &mut Vec<T>, more: usize) {
    if list.is_empty() && list.capacity() < more {
        *list = Vec::with_capacity(more);
    } else {
        list.reserve(more);
    }
}

/// Returns what was billed according to a line that lists iterations, and the tokens of the window at the last call if
/// they differ. Zeroed top-level counts (kept segments) stand for the sum of the iterations. With several iterations
/// only the last one describes the window.
#[inline(never)]
fn iteration_tokens(usage: &wire::WireUsage) -> (wire::Tokens, Option<Box<wire::Tokens>>) {
    let is_zeroed = usage.top.is_zero();
    let billed = if is_zeroed { usage.iterations_sum } else { usage.top };
    let is_last = !usage.last_iteration.is_zero() && (usage.iterations > 1 || is_zeroed);
    let context = if is_last { usage.last_iteration } else { usage.top };
    (billed, (context != billed).then(|| Box::new(context)))
}

/// Returns whether an attachment is a prompt that a person queued while the model was working: a message like any other.
fn is_queued_prompt(record: &wire::WireRecord<'_>) -> bool {
    let is_of_person = record.attachment_origin.is_none_or(|kind| kind.raw() == b"human");
    raw_bytes(record.attachment) == b"queued_command"
        && record.attachment_mode.is_some_and(|mode| mode.raw() == b"prompt")
        && is_of_person
}

fn block_kind(block: &wire::WireBlock<'_>, record: &wire::WireRecord<'_>, kind: RecordKind) -> BlockKind {
    match block.kind.map(|kind| kind.raw()) {
        None | Some(b"text") => {
            if kind == RecordKind::Assistant {
                return BlockKind::Text;
            }
            if record.is_compact_summary {
                return BlockKind::Summary;
            }
            let text = block.head.map_or(&[][..], |head| head.raw());
            match client_text::classify_bytes(text) {
                Some(ClientTextKind::Command | ClientTextKind::ShellCommand) => BlockKind::Command,
                Some(ClientTextKind::CommandOutput) => BlockKind::CommandOutput,
                Some(ClientTextKind::Interruption) => BlockKind::Interruption,
                Some(ClientTextKind::Injected) => BlockKind::Injected,
                None if record.is_meta => BlockKind::Injected,
                None => BlockKind::Human,
            }
        }
        Some(b"thinking" | b"redacted_thinking") => BlockKind::Thinking,
        Some(b"tool_use" | b"server_tool_use" | b"mcp_tool_use") => BlockKind::ToolCall,
        Some(b"tool_result" | b"mcp_tool_result" | b"web_search_tool_result" | b"web_fetch_tool_result") => {
            BlockKind::ToolResult
        }
        Some(b"image") => BlockKind::Image,
        Some(b"document") => BlockKind::Document,
        Some(_) => BlockKind::Other,
    }
}
