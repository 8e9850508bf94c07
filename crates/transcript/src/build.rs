//! Building the small form of a log from its records, line by line.
//!
//! Parts of one big file are built side by side and joined by [`Builder::append`], which also links their records to what is
//! there; [`Builder::finish`] links the rest. This is where wire text becomes meaning: which text a person typed, which
//! file a call names, which shell commands may change files.

use crate::json::JsonStr;
use crate::link::Linker;
use crate::log::*;
use crate::record as wire;
use crate::record::client_estimate;
use aho_corasick::{AhoCorasick, packed};
use language::client_text::{self, ClientTextKind};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

fn raw_bytes<'a>(text: Option<JsonStr<'a>>) -> &'a [u8] {
    text.map_or(&[], |text| text.raw())
}

/// Hashes ids that are already evenly spread: takes their low bits. Never used for anything that is printed.
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

/// A map keyed by ids.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Builds a [`Log`].
#[derive(Default)]
pub struct LogBuilder {
    log: Log,
    /// Numbers of strings by their hash. Of several strings with one hash each stands one further on than the one before.
    names: IdMap<u64, NameId>,
    scopes: IdMap<RecordScope, u32>,
    kinds: IdMap<NameId, u64>,
    links: Linker,
    /// Scope of the previous record and the texts it was made of: nearly every record repeats them.
    recent: RecentScope,
    /// Record types seen so far, the first few dozen: what they are made of, their name, and how many there were.
    kind_names: Vec<(RecordKind, Vec<u8>, NameId, u64)>,
    /// The id of the last record and how it was written: mostly that of the next one's parent.
    recent_id: Option<([u8; 36], RecordId)>,
    /// Minute of the last time that was read.
    recent_minute: MinuteCache,
    /// Names given lately, newest first.
    recent_names: [NameId; 8],
    buffer: String,
}

/// Whether two ids are written alike. Most records compare two, so it is done in place, word by word: lists of words would be
/// compared by a call again.
#[inline]
fn is_same_id(one: &[u8; 36], other: &[u8; 36]) -> bool {
    let words = |id: &[u8; 36]| {
        [0, 8, 16, 24, 28].map(|at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| id[at + byte])))
    };
    let pairs = std::iter::zip(words(one), words(other));
    pairs.fold(0, |differing, (word, other)| differing | (word ^ other)) == 0
}

/// So many record types are found by what they are made of, any further ones by their name.
const MAX_INDEXED_KINDS: usize = 64;

/// Room for as many names is made at once: most logs have no more.
const INITIAL_NAMES: usize = 100;

/// Where the agent is among [`Recent::texts`].
const AGENT_TEXT: usize = 1;

#[derive(Default)]
struct RecentScope {
    /// Session, agent, version, folder, branch.
    texts: [Vec<u8>; 5],
    is_sidechain: bool,
    /// The setting that all but the agent come from.
    scope_run: wire::ScopeRun,
    scope: Option<u32>,
}

/// Room for records that nothing is in.
#[derive(Default)]
pub struct LogBuffers {
    records: Vec<Record>,
    responses: Vec<ResponseLine>,
    blocks: Vec<Block>,
    parents: Vec<RecordId>,
}

impl LogBuffers {
    /// That of a log which is of no more use.
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

    /// How many of anything there is room for.
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
    /// An empty one.
    pub fn new(room: LogBuffers) -> LogBuilder {
        let mut builder = LogBuilder {
            log: Log {
                records: room.records,
                responses: room.responses,
                blocks: room.blocks,
                ..Log::default()
            },
            links: Linker::new(room.parents),
            ..LogBuilder::default()
        };
        builder.names.reserve(INITIAL_NAMES);
        builder.log.strings.reserve(INITIAL_NAMES);
        builder.intern("");
        builder
    }

    /// The number of a string.
    fn intern(&mut self, text: &str) -> NameId {
        let mut hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
        while let Some(&name) = self.names.get(&hash) {
            if &*self.log.strings[name as usize] == text {
                return name;
            }
            hash = hash.wrapping_add(1);
        }
        self.intern_new(text, hash)
    }

    #[cold]
    fn intern_new(&mut self, text: &str, hash: u64) -> NameId {
        let name = self.log.strings.len() as NameId;
        self.log.strings.push(text.into());
        self.names.insert(hash, name);
        name
    }

    fn intern_text(&mut self, text: Option<JsonStr<'_>>) -> NameId {
        let Some(text) = text else { return 0 };
        // Models, tools and versions repeat from record to record.
        let recent = self
            .recent_names
            .iter()
            .find(|name| self.log.strings[**name as usize].as_bytes() == text.raw());
        match recent {
            Some(&name) => name,
            None => self.intern_uncached(text),
        }
    }

    /// The name of a text that was not among the last few.
    #[inline(never)]
    fn intern_uncached(&mut self, text: JsonStr<'_>) -> NameId {
        let mut buffer = std::mem::take(&mut self.buffer);
        let decoded = text.decode(&mut buffer);
        let is_plain = decoded.as_bytes() == text.raw();
        let name = self.intern(decoded);
        self.buffer = buffer;
        if is_plain {
            self.recent_names.rotate_right(1);
            self.recent_names[0] = name;
        }
        name
    }

    fn id(&mut self, text: Option<JsonStr<'_>>) -> Option<RecordId> {
        // One that says nothing is none.
        let text = text.filter(|text| !text.raw().is_empty())?;
        if let Some((known, id)) = &self.recent_id
            && text.raw().try_into().is_ok_and(|written| is_same_id(written, known))
        {
            return Some(*id);
        }
        Some(match RecordId::read(text.raw()) {
            (id, true) => id,
            (_, false) => self.odd_id(text),
        })
    }

    /// An id that is no UUID is kept by name too.
    #[cold]
    fn odd_id(&mut self, text: JsonStr<'_>) -> RecordId {
        let mut buffer = std::mem::take(&mut self.buffer);
        let decoded = text.decode(&mut buffer);
        let id = RecordId::read(decoded.as_bytes()).0;
        if !self.log.odd_ids.iter().rev().take(64).any(|(known, _)| *known == id) {
            let name = self.intern(decoded);
            self.log.odd_ids.push((id, name));
        }
        self.buffer = buffer;
        id
    }

    fn scope(&mut self, record: &wire::WireRecord<'_>) -> u32 {
        let recent = &self.recent;
        let is_same_agent = match raw_bytes(record.agent) {
            b"" => recent.texts[AGENT_TEXT].is_empty(),
            agent => recent.texts[AGENT_TEXT] == agent,
        };
        if let Some(scope) = recent.scope
            && recent.scope_run.is_same_run(record.scope_run)
            && recent.is_sidechain == record.is_sidechain
            && is_same_agent
        {
            return scope;
        }
        self.scope_of_texts(record)
    }

    #[inline(never)]
    fn scope_of_texts(&mut self, record: &wire::WireRecord<'_>) -> u32 {
        let texts = [record.session, record.agent, record.version, record.cwd, record.branch];
        if let Some(scope) = self.recent.scope
            && self.recent.is_sidechain == record.is_sidechain
            && std::iter::zip(&self.recent.texts, texts).all(|(known, text)| known == raw_bytes(text))
        {
            self.recent.scope_run = record.scope_run;
            return scope;
        }
        self.new_scope(record, texts)
    }

    /// A scope that is not the one of the record before.
    #[cold]
    fn new_scope(&mut self, record: &wire::WireRecord<'_>, texts: [Option<JsonStr<'_>>; 5]) -> u32 {
        let [session, agent, version, cwd, branch] = texts.map(|text| self.intern_text(text));
        let scope = RecordScope {
            session,
            agent,
            version,
            cwd,
            branch,
            is_sidechain: record.is_sidechain,
        };
        let number = self.scope_number(scope);
        for (known, text) in std::iter::zip(&mut self.recent.texts, texts) {
            known.clear();
            known.extend_from_slice(raw_bytes(text));
        }
        self.recent.is_sidechain = record.is_sidechain;
        self.recent.scope_run = record.scope_run;
        self.recent.scope = Some(number);
        number
    }

    fn scope_number(&mut self, scope: RecordScope) -> u32 {
        let next = self.log.scopes.len() as u32;
        let number = *self.scopes.entry(scope).or_insert(next);
        if number == next {
            self.log.scopes.push(scope);
        }
        number
    }

    /// Notes trouble with a line.
    pub fn add_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64) {
        self.log.problems.push(LineProblem { kind, line, offset });
    }

    /// Counts lines and bytes.
    pub fn count_lines(&mut self, lines: u64, bytes: u64) {
        self.log.lines += lines;
        self.log.bytes += bytes;
    }

    /// Lines counted so far.
    pub fn lines(&self) -> u64 {
        self.log.lines
    }

    /// Blocks so far.
    pub fn block_count(&self) -> u32 {
        self.log.blocks.len() as u32
    }

    /// Counts a record of a kind that has no other use.
    pub fn count_kind(&mut self, kind: &str) {
        let name = self.intern(kind);
        *self.kinds.entry(name).or_insert(0) += 1;
    }

    /// Takes one accepted record.
    pub fn push(&mut self, record: &wire::WireRecord<'_>, line: u64, offset: u64) {
        let kind_text = record.kind.map_or(&b"(none)"[..], |kind| kind.raw());
        let kind = match kind_text {
            b"user" => RecordKind::User,
            b"assistant" => RecordKind::Assistant,
            b"system" => match record.subtype.map(|subtype| subtype.raw()) {
                Some(b"compact_boundary") => RecordKind::Boundary,
                Some(b"microcompact_boundary") => RecordKind::MicroBoundary,
                _ => RecordKind::System,
            },
            b"progress" => RecordKind::Progress,
            b"attachment" => RecordKind::Attachment,
            _ => {
                self.count_other_kind(record);
                if record.uuid.is_none() {
                    return;
                }
                RecordKind::Other
            }
        };
        if kind != RecordKind::Other {
            self.count_known_kind(kind, record);
        }

        let id = self.id(record.uuid).unwrap_or_default();
        let parent = self.id(record.parent).unwrap_or_default();
        let logical_parent = self.id(record.logical_parent);
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
        let scope = self.scope(record);
        let index = self.log.records.len() as u32;
        let first_block = self.log.blocks.len() as u32;
        match kind {
            RecordKind::User | RecordKind::Assistant => self.push_blocks(record, kind, scope),
            RecordKind::Attachment => self.push_attachment(record, scope),
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

    #[inline(never)]
    fn count_other_kind(&mut self, record: &wire::WireRecord<'_>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.count_kind(record.kind.map_or("(none)", |kind| kind.decode(&mut buffer)));
        self.buffer = buffer;
    }

    fn count_known_kind(&mut self, kind: RecordKind, record: &wire::WireRecord<'_>) {
        let detail = raw_bytes(record.subtype.or(record.attachment));
        // Most records have none, and comparing nothing would be a call too.
        let is_it = |text: &[u8]| text.len() == detail.len() && (detail.is_empty() || text == detail);
        let known = self
            .kind_names
            .iter_mut()
            .find(|(known, text, ..)| *known == kind && is_it(text));
        match known {
            Some((.., count)) => *count += 1,
            None => self.new_kind(kind, record),
        }
    }

    #[cold]
    fn new_kind(&mut self, kind: RecordKind, record: &wire::WireRecord<'_>) {
        let family = match kind {
            RecordKind::User => "user",
            RecordKind::Assistant => "assistant",
            RecordKind::System | RecordKind::Boundary | RecordKind::MicroBoundary => "system",
            RecordKind::Progress => "progress",
            RecordKind::Attachment => "attachment",
            RecordKind::Other => "(none)",
        };
        let detail = record.subtype.or(record.attachment);
        let mut buffer = String::new();
        let name = match detail {
            None => self.intern(family),
            Some(detail) => self.intern(&format!("{family}/{}", detail.decode(&mut buffer))),
        };
        if self.kind_names.len() < MAX_INDEXED_KINDS {
            self.kind_names.push((kind, raw_bytes(detail).to_vec(), name, 1));
        } else {
            *self.kinds.entry(name).or_insert(0) += 1;
        }
    }

    /// Moves the counts of record types to where all kinds are counted.
    fn merge_kind_counts(&mut self) {
        for (_, _, name, count) in self.kind_names.drain(..) {
            *self.kinds.entry(name).or_insert(0) += count;
        }
    }

    fn push_response(&mut self, record: &wire::WireRecord<'_>, kind: RecordKind, index: u32) -> Option<u32> {
        let usage = match kind {
            RecordKind::Assistant => record.message.usage.unwrap_or_default(),
            RecordKind::Progress => record.message.usage?,
            _ => return None,
        };
        let model = self.intern_text(record.message.model);
        // An id that says nothing is none.
        let hash = |text: Option<JsonStr<'_>>| match text.map_or(&b""[..], |text| text.raw()) {
            b"" => 0,
            id => hash_api_id(id),
        };
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
            message: hash(record.message.id),
            request: hash(record.request),
            model,
            stop,
            billed,
            last_call,
            is_zeroed: usage.top.is_zero() && usage.iterations > 0,
            is_progress: kind == RecordKind::Progress,
        });
        Some(number)
    }

    #[cold]
    fn push_boundary(&mut self, compaction: &wire::WireBoundary<'_>) -> u32 {
        let mut kept = compaction
            .kept
            .iter()
            .filter_map(|id| self.id(Some(*id)))
            .collect::<Vec<_>>();
        if kept.is_empty() {
            let ends = [compaction.kept_head, compaction.kept_tail];
            kept = ends.into_iter().filter_map(|id| self.id(id)).collect();
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
        let mut block = Block::new(BlockKind::Attachment);
        block.units = record.attachment_shape.units;
        block.quarters = client_estimate(block.units);
        block.escapes = record.attachment_shape.escapes;
        block.wide = record.attachment_shape.wide;
        block.name = self.intern_text(record.attachment);
        block.path = self.intern_path(record.attachment_path, scope);
        block.extra = record.hook_name_units;
        self.log.blocks.push(block);
    }

    fn push_blocks(&mut self, record: &wire::WireRecord<'_>, kind: RecordKind, scope: u32) {
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
                BlockKind::ToolCall => {
                    block.name = self.intern_text(wire.name);
                    block.path = self.intern_path(wire.path, scope);
                    let name_units = self.log.string(block.name).encode_utf16().count() as u32;
                    block.quarters = client_estimate(block.units.saturating_add(name_units));
                    let bound = |count: Option<u64>| count.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX));
                    block.range = (bound(wire.offset), bound(wire.limit));
                    block.may_change_files = wire.command.is_some_and(|command| may_change_files(command.raw()));
                }
                BlockKind::Other => block.name = self.intern_text(wire.kind),
                _ => {}
            }
            self.log.blocks.push(block);
        }
    }

    /// The absolute, normalised form of a path.
    fn intern_path(&mut self, path: Option<JsonStr<'_>>, scope: u32) -> NameId {
        let Some(path) = path else { return 0 };
        let mut buffer = std::mem::take(&mut self.buffer);
        let decoded = path.decode(&mut buffer);
        let name = match normalise(decoded, self.log.string(self.log.scopes[scope as usize].cwd)) {
            None => self.intern(decoded),
            Some(normalised) => self.intern(&normalised),
        };
        self.buffer = buffer;
        name
    }

    /// Makes room for the records of about `bytes` of log, so that lists need not grow step by step.
    pub fn reserve_for(&mut self, bytes: u64) {
        // Records are three kilobytes long in the mean, and most have one block.
        let records = usize::try_from(bytes / 2500).unwrap_or(0).min(1 << 20) + 16;
        reserve_fresh(&mut self.log.records, records);
        reserve_fresh(&mut self.log.blocks, records);
        reserve_fresh(&mut self.log.responses, records * 2 / 3);
        self.links.reserve(records);
    }

    /// Joins the builder of the part of the file that follows this one. What is left of it is its room.
    pub fn append(&mut self, mut other: LogBuilder) -> LogBuffers {
        other.merge_kind_counts();
        let names = other
            .log
            .strings
            .iter()
            .map(|text| self.intern(text))
            .collect::<Vec<_>>();
        let scopes = (other.log.scopes.iter())
            .map(|scope| {
                self.scope_number(RecordScope {
                    session: names[scope.session as usize],
                    agent: names[scope.agent as usize],
                    version: names[scope.version as usize],
                    cwd: names[scope.cwd as usize],
                    branch: names[scope.branch as usize],
                    is_sidechain: scope.is_sidechain,
                })
            })
            .collect::<Vec<_>>();
        let line_base = self.log.lines;
        let record_base = self.log.records.len() as u32;
        let block_base = self.log.blocks.len() as u32;
        let response_base = self.log.responses.len() as u32;
        let boundary_base = self.log.boundaries.len() as u32;
        self.log
            .records
            .extend(other.log.records.drain(..).map(|record| Record {
                line: record.line.saturating_add(u32::try_from(line_base).unwrap_or(u32::MAX)),
                scope: scopes[record.scope as usize],
                first_block: record.first_block + block_base,
                response: record.response.map(|response| response + response_base),
                boundary: record.boundary.map(|boundary| boundary + boundary_base),
                ..record
            }));
        self.log
            .responses
            .extend(other.log.responses.drain(..).map(|response| ResponseLine {
                record: response.record + record_base,
                model: names[response.model as usize],
                ..response
            }));
        self.log.blocks.extend(other.log.blocks.drain(..).map(|block| Block {
            name: names[block.name as usize],
            path: names[block.path as usize],
            ..block
        }));
        self.log.boundaries.extend(other.log.boundaries);
        self.log.odd_ids.extend(
            other
                .log
                .odd_ids
                .into_iter()
                .map(|(id, name)| (id, names[name as usize])),
        );
        self.log
            .problems
            .extend(other.log.problems.into_iter().map(|trouble| LineProblem {
                line: trouble.line + line_base,
                ..trouble
            }));
        #[allow(
            clippy::iter_over_hash_type,
            reason = "sums of integers do not depend on their order"
        )]
        for (kind, count) in other.kinds {
            *self.kinds.entry(names[kind as usize]).or_insert(0) += count;
        }
        let parents = self.links.append(other.links, record_base);
        self.links.link_part(&mut self.log);
        self.log.lines += other.log.lines;
        self.log.bytes += other.log.bytes;
        self.recent.scope = None;
        LogBuffers {
            records: other.log.records,
            responses: other.log.responses,
            blocks: other.log.blocks,
            parents,
        }
    }

    /// Links what is not linked yet and gives the finished log.
    pub fn finish(mut self) -> Log {
        self.merge_kind_counts();
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

/// Makes room for as many more. A list that nothing is in is made anew: growing it would copy what was in it once.
pub(super) fn reserve_fresh<T>(list: &mut Vec<T>, more: usize) {
    if list.is_empty() && list.capacity() < more {
        *list = Vec::with_capacity(more);
    } else {
        list.reserve(more);
    }
}

/// What a line that lists iterations says was billed, and what the window held at the call if that is something else. Zeroed
/// counts beside them (kept segments) mean their sum. Of several iterations only the last one says what was sent.
#[inline(never)]
fn iteration_tokens(usage: &wire::WireUsage) -> (wire::Tokens, Option<Box<wire::Tokens>>) {
    let is_zeroed = usage.top.is_zero();
    let billed = if is_zeroed { usage.iterations_sum } else { usage.top };
    let is_last = !usage.last_iteration.is_zero() && (usage.iterations > 1 || is_zeroed);
    let context = if is_last { usage.last_iteration } else { usage.top };
    (billed, (context != billed).then(|| Box::new(context)))
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
                Some(ClientTextKind::Interruption | ClientTextKind::Injected) => BlockKind::Injected,
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

/// Parts of command lines after which a file read earlier may no longer be what it was.
const CHANGING_COMMANDS: [&str; 34] = [
    "git checkout",
    "git switch",
    "git restore",
    "git reset",
    "git stash",
    "git pull",
    "git merge",
    "git rebase",
    "git cherry-pick",
    "git revert",
    "git apply",
    "git am",
    "git clean",
    "gofmt -w",
    "goimports -w",
    "go fmt",
    "--write",
    "--fix",
    "cargo fmt",
    "rustfmt",
    "clang-format -i",
    "ruff format",
    "black ",
    "isort",
    "sed -i",
    "perl -i",
    "perl -pi",
    "dart format",
    "terraform fmt",
    "patch ",
    "npm run format",
    "yarn format",
    "make fmt",
    "make format",
];

fn may_change_files(command: &[u8]) -> bool {
    // The packed search is several times faster but exists only on some processors.
    static PACKED: LazyLock<Option<packed::Searcher>> = LazyLock::new(|| packed::Searcher::new(CHANGING_COMMANDS));
    static SEARCH: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(CHANGING_COMMANDS).ok());
    match &*PACKED {
        Some(search) => search.find(command).is_some(),
        None => SEARCH.as_ref().is_some_and(|search| search.is_match(command)),
    }
}

/// Resolves a path against a directory and takes `.` and `..` out. `None` if it is fine as it is.
fn normalise(path: &str, cwd: &str) -> Option<String> {
    let is_absolute = path.starts_with('/') || path.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/");
    let is_plain = !std::iter::zip(path.bytes(), path.bytes().skip(1)).any(|pair| matches!(pair, (b'/', b'.' | b'/')));
    if is_absolute && is_plain {
        return None;
    }
    let joined = if is_absolute || cwd.is_empty() {
        path.to_owned()
    } else {
        format!("{cwd}/{path}")
    };
    let mut parts = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let root = if joined.starts_with('/') { "/" } else { "" };
    Some(format!("{root}{}", parts.join("/")))
}

/// Milliseconds since 1970 of an RFC 3339 timestamp; the form that the client writes is read without a parser.
pub fn parse_time(text: &[u8]) -> Time {
    if let Ok(usual) = text.try_into()
        && let Some(time) = parse_common_time(usual)
    {
        return time;
    }
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .map_or(NO_TIME, |time| time.as_millisecond())
}

/// The minute that was read last: the next record is mostly of the same one.
#[derive(Default)]
struct MinuteCache {
    text: [u8; 17],
    start: Time,
}

impl MinuteCache {
    /// [`parse_time`], of which only seconds are read if the minute is known.
    fn read(&mut self, text: &[u8]) -> Time {
        let Ok(usual) = <&[u8; 24]>::try_from(text) else {
            return parse_time(text);
        };
        let digit = |at: usize| i64::from(usual[at].wrapping_sub(b'0'));
        let is_seconds = usual[19] == b'.' && usual[23] == b'Z' && [18, 20, 21, 22].iter().all(|at| digit(*at) < 10);
        if usual[..17] == self.text && is_seconds && digit(17) < 6 {
            let seconds = digit(17) * 10 + digit(18);
            return self.start + seconds * 1000 + digit(20) * 100 + digit(21) * 10 + digit(22);
        }
        self.parse_minute(usual, is_seconds)
    }

    #[inline(never)]
    fn parse_minute(&mut self, usual: &[u8; 24], is_seconds: bool) -> Time {
        let time = parse_time(usual);
        if time != NO_TIME && is_seconds {
            self.text.copy_from_slice(&usual[..17]);
            self.start = time.div_euclid(60_000) * 60_000;
        }
        time
    }
}

/// A time of the form `2026-08-07T16:21:32.976Z`.
fn parse_common_time(text: &[u8; 24]) -> Option<Time> {
    let mut is_usual = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'.'),
        (23, b'Z'),
    ]
    .iter()
    .all(|&(at, mark)| text[at] == mark);
    // Judged once at the end, not digit by digit.
    let mut number = |range: std::ops::Range<usize>| {
        text[range].iter().fold(0i64, |value, byte| {
            let digit = byte.wrapping_sub(b'0');
            is_usual &= digit < 10;
            value * 10 + i64::from(digit)
        })
    };
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let (hour, minute, second, milli) = (number(11..13), number(14..16), number(17..19), number(20..23));
    // The calendar knows about leap days and where time ends.
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = DAYS.get((month - 1) as usize).copied().unwrap_or(0);
    let is_in_range = year < 9_999 && (1..=days).contains(&day) && hour < 24 && minute < 60 && second < 60;
    (is_usual && is_in_range)
        .then(|| (((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli)
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar (Hinnant's method: years start in March).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::LineConsumer;
    use crate::walk::Walker;

    #[test]
    fn times_are_read_like_jiff_reads_them() {
        for text in [
            "1970-01-01T00:00:00.000Z",
            "2024-02-29T23:59:59.999Z",
            "2026-08-07T16:21:32.976Z",
            "2000-03-01T00:00:00.001Z",
        ] {
            let expected = text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
            assert_eq!(parse_time(text.as_bytes()), expected, "{text}");
            let mut minute = MinuteCache::default();
            assert_eq!(minute.read(text.as_bytes()), expected, "{text}");
            assert_eq!(minute.read(text.as_bytes()), expected, "{text}, its minute known");
            let wrong = text.replace('Z', "z");
            assert_eq!(minute.read(wrong.as_bytes()), parse_time(wrong.as_bytes()));
        }
        assert_eq!(
            parse_time(b"2026-08-07T18:21:32+02:00"),
            parse_time(b"2026-08-07T16:21:32.000Z")
        );
        assert_eq!(parse_time(b"yesterday"), NO_TIME);
        for nowhen in [
            "2026-13-07",
            "2026-02-29",
            "2026-02-30",
            "2026-04-31",
            "2026-01-00",
            "9999-12-31",
        ] {
            assert_eq!(
                parse_time(format!("{nowhen}T23:59:59.976Z").as_bytes()),
                NO_TIME,
                "{nowhen}"
            );
        }
    }

    #[test]
    fn kinds_are_counted_however_many_there_are() {
        let mut walker = Walker::new(1 << 20, &|_| ());
        for turn in 0..3 * MAX_INDEXED_KINDS {
            let kind = turn % (2 * MAX_INDEXED_KINDS);
            let line = format!("{{\"type\":\"system\",\"subtype\":\"k{kind}\",\"uuid\":\"{turn}\"}}\n");
            walker.take_lines(line.as_bytes(), 0);
        }
        let log = walker.into_builder().finish();
        assert_eq!(log.kinds.len(), 2 * MAX_INDEXED_KINDS);
        for &(name, count) in &log.kinds {
            let number = log
                .string(name)
                .trim_start_matches("system/k")
                .parse::<usize>()
                .unwrap();
            assert_eq!(count, if number < MAX_INDEXED_KINDS { 2 } else { 1 }, "{number}");
        }
    }

    #[test]
    fn records_of_one_setting_differ_by_agent_and_by_what_stands_alone() {
        let setting = r#""userType":"external","cwd":"/a","sessionId":"s","version":"1","gitBranch":"main""#;
        let line =
            |rest: &str| format!(r#"{{"parentUuid":null,"isSidechain":false,{setting},"type":"user"{rest}}}"#) + "\n";
        let lines = [
            line(""),
            line(r#","agentId":"g""#),
            line(""),
            line(r#","cwd":"/b""#),
            line(""),
        ];
        let mut walker = Walker::new(1 << 20, &|_| ());
        // Again in another block, where what was remembered does not hold.
        walker.take_lines(lines.concat().as_bytes(), 0);
        walker.take_lines(lines.concat().replace("/a", "/c").as_bytes(), 0);
        let log = walker.into_builder().finish();
        let places = log.records.iter().map(|record| {
            let scope = log.scope_of(record);
            [log.string(scope.cwd), log.string(scope.agent)]
        });
        let expected = |cwd: &'static str| [[cwd, ""], [cwd, "g"], [cwd, ""], ["/b", ""], [cwd, ""]];
        assert_eq!(places.collect::<Vec<_>>(), [expected("/a"), expected("/c")].concat());
        assert_eq!(log.kinds.iter().map(|(_, count)| count).sum::<u64>(), 10);
    }

    #[test]
    fn texts_with_one_hash_have_two_names() {
        let mut builder = LogBuilder::new(LogBuffers::default());
        let one = builder.intern("one");
        // As if both had this hash.
        builder.names.insert(xxhash_rust::xxh3::xxh3_64(b"other"), one);
        let other = builder.intern("other");
        assert_ne!(one, other);
        assert_eq!([builder.intern("one"), builder.intern("other")], [one, other]);
        assert_eq!(builder.log.string(other), "other");
    }

    #[test]
    fn room_is_made_beside_what_is_there() {
        let mut list = Vec::<u64>::with_capacity(4);
        let room = list.as_ptr();
        reserve_fresh(&mut list, 4);
        assert_eq!(list.as_ptr(), room, "there was room");
        reserve_fresh(&mut list, 5);
        assert!(list.capacity() >= 5);
        list.push(7);
        reserve_fresh(&mut list, 100);
        assert!(list == [7] && list.capacity() >= 101);
    }

    #[test]
    fn a_log_in_the_room_of_another_is_the_same() {
        let line = |number: u32| {
            format!(
                concat!(
                    r#"{{"type":"assistant","uuid":"u{0}","parentUuid":"u{1}","sessionId":"s","#,
                    r#""message":{{"id":"m{0}","model":"m","content":[{{"type":"text","text":"a"}}],"usage":{{"output_tokens":{0}}}}}}}"#,
                    "\n"
                ),
                number,
                number.saturating_sub(1)
            )
        };
        let build = |room: LogBuffers, numbers: std::ops::Range<u32>| {
            let mut walker = Walker::with_buffers(room, 1 << 20, &|_| ());
            walker.take_lines(numbers.map(line).collect::<String>().as_bytes(), 0);
            walker.into_builder()
        };
        let fresh = build(LogBuffers::default(), 5..9).finish();
        assert_eq!(
            (fresh.records.len(), fresh.responses.len(), fresh.blocks.len()),
            (4, 4, 4)
        );
        let room = LogBuffers::from_log(build(LogBuffers::default(), 0..50).finish());
        assert!(room.capacity() >= 50);
        assert!(build(room, 5..9).finish() == fresh);
        // What is left of a part that was joined is room too.
        let mut whole = build(LogBuffers::default(), 0..5);
        let room = whole.append(build(LogBuffers::default(), 5..20));
        assert_eq!(whole.finish().records.len(), 20);
        assert!(room.records.capacity() >= 15 && room.parents.capacity() >= 15);
        assert!(build(room, 5..9).finish() == fresh);
    }

    #[test]
    fn what_was_billed_and_what_was_sent_differ_with_iterations() {
        let tokens = |input: u64| format!(r#""input_tokens":{input},"output_tokens":1"#);
        let listed = |inputs: &[u64]| {
            let each = inputs
                .iter()
                .map(|input| format!(r#"{{"type":"message",{}}}"#, tokens(*input)));
            format!(r#","iterations":[{}]"#, each.collect::<Vec<_>>().join(","))
        };
        let zeroed = r#""input_tokens":0,"output_tokens":0"#;
        // The usage, what was billed, what was sent, and whether counts were zeroed.
        for (usage, billed, sent, is_zeroed) in [
            (tokens(7), 7, 7, false),
            (zeroed.into(), 0, 0, false),
            (tokens(7) + &listed(&[7]), 7, 7, false),
            (tokens(7) + &listed(&[3, 4]), 7, 4, false),
            (zeroed.to_owned() + &listed(&[3, 4]), 7, 4, true),
            (zeroed.to_owned() + &listed(&[5]), 5, 5, true),
        ] {
            let line = format!(r#"{{"type":"assistant","uuid":"u","message":{{"usage":{{{usage}}}}}}}"#);
            let mut walker = Walker::new(1 << 20, &|_| ());
            walker.take_lines(line.as_bytes(), 0);
            let log = walker.into_builder().finish();
            let response = &log.responses[0];
            let found = (response.billed.input, response.context().input, response.is_zeroed);
            assert_eq!(found, (billed, sent, is_zeroed), "{usage}");
            let packed = crate::pack::pack(&log);
            let back = crate::pack::unpack(&packed).ok();
            assert_eq!(back.map(|log| log.responses), Some(log.responses), "{usage}");
        }
    }

    #[test]
    fn ids_are_the_same_only_if_every_byte_is() {
        let id = *b"0c97beba-bfcb-4f84-9950-e0354bfc808b";
        assert!(is_same_id(&id, &id.clone()));
        for at in 0..id.len() {
            let mut other = id;
            other[at] ^= 1;
            assert!(!is_same_id(&id, &other), "{at}");
        }
    }

    #[test]
    fn paths_become_absolute() {
        assert_eq!(normalise("/a/b.rs", "/w"), None);
        assert_eq!(normalise("b.rs", "/w/x"), Some("/w/x/b.rs".into()));
        assert_eq!(normalise("../b.rs", "/w/x"), Some("/w/b.rs".into()));
        assert_eq!(normalise("/a/./c/../b.rs", ""), Some("/a/b.rs".into()));
        assert_eq!(normalise("C:\\a.rs", "/w"), None);
    }
}
