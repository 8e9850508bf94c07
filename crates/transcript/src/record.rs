//! What is read from a record: the wire format ends here.
//!
//! [`read`] pulls one line through a [`Source`] into a [`Record`], which borrows from the line. Nothing is
//! judged here (which text is a person's, which response a line belongs to): that is the work of
//! [`crate::build`]. The second copy of a tool's result (`toolUseResult`), file-history snapshots and every
//! field not named below are passed over unread.

use crate::json::{JsonKind, JsonStr, MemoizedNumbers, PullParser, decoded_shape};
use crate::skim::{SlowPath, TextShape};

/// Token counts of one API call, or of several added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tokens {
    /// Input that was neither read from nor written to the prompt cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input written to the prompt cache, both lifetimes.
    pub cache_write: u64,
    /// Of these, written for one hour.
    pub cache_write_1h: u64,
    /// Input read from the prompt cache.
    pub cache_read: u64,
}

impl Tokens {
    /// Whether nothing was counted.
    pub fn is_zero(&self) -> bool {
        self.input | self.output | self.cache_write | self.cache_read == 0
    }

    /// Everything the model was sent.
    pub fn input_side(&self) -> u64 {
        self.input
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_read)
    }

    /// Input side and output.
    pub fn total(&self) -> u64 {
        self.input_side().saturating_add(self.output)
    }

    fn add(&mut self, other: &Tokens) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
    }
}

/// The usage of a response as one line states it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireUsage {
    /// The counts at the top level.
    pub top: Tokens,
    /// How many iterations (API calls inside one response) are listed.
    pub iterations: u32,
    /// Their sum.
    pub iterations_sum: Tokens,
    /// The last one of type `message`.
    pub last_iteration: Tokens,
    /// A count that is none was taken for 0: negative, with a fraction, no number, or more than [`MAX_COUNT`].
    pub has_invalid_count: bool,
}

/// More tokens than any call has. A line that claims more must not drown the sums of all others.
pub const MAX_COUNT: u64 = 1_000_000_000_000;

impl WireUsage {
    /// Its counts, of one that is not odd.
    fn numbers(&self) -> MemoizedNumbers {
        let mut numbers = [0; 16];
        numbers[0] = u64::from(self.iterations);
        let all = [&self.top, &self.iterations_sum, &self.last_iteration];
        for (place, tokens) in std::iter::zip(numbers[1..].chunks_exact_mut(5), all) {
            let Tokens {
                input,
                output,
                cache_write,
                cache_write_1h,
                cache_read,
            } = *tokens;
            place.copy_from_slice(&[input, output, cache_write, cache_write_1h, cache_read]);
        }
        numbers
    }

    /// The usage that gave these [`Usage::numbers`].
    fn from_numbers(numbers: MemoizedNumbers) -> WireUsage {
        let tokens = |at: usize| Tokens {
            input: numbers[at],
            output: numbers[at + 1],
            cache_write: numbers[at + 2],
            cache_write_1h: numbers[at + 3],
            cache_read: numbers[at + 4],
        };
        WireUsage {
            top: tokens(1),
            iterations: numbers[0] as u32,
            iterations_sum: tokens(6),
            last_iteration: tokens(11),
            has_invalid_count: false,
        }
    }
}

/// A content block of a message.
#[derive(Debug, Clone, Copy, Default)]
pub struct WireBlock<'a> {
    /// `type`; `None` for content that is a bare string.
    pub kind: Option<JsonStr<'a>>,
    /// Id of a tool call, or the call that a result answers.
    pub id: Option<JsonStr<'a>>,
    /// Name of the tool.
    pub name: Option<JsonStr<'a>>,
    /// Text, thinking or result content, all parts added up; for a tool call its serialised input.
    pub shape: TextShape,
    /// Sum over the parts of units / 4, each rounded half up.
    pub quarters: u32,
    /// Images and documents inside.
    pub images: u32,
    /// The first text, to tell what kind of message it is.
    pub head: Option<JsonStr<'a>>,
    /// Units of the signature of a thinking block.
    pub signature: u32,
    /// Whether a tool reported an error.
    pub is_error: bool,
    /// The file that a tool call names.
    pub path: Option<JsonStr<'a>>,
    /// First line that a read asks for.
    pub offset: Option<u64>,
    /// Lines that a read asks for.
    pub limit: Option<u64>,
    /// The command line of a shell call.
    pub command: Option<JsonStr<'a>>,
}

impl WireBlock<'_> {
    fn add_part(&mut self, shape: TextShape) {
        self.shape.units = self.shape.units.saturating_add(shape.units);
        self.shape.escapes = self.shape.escapes.saturating_add(shape.escapes);
        self.shape.long_escapes = self.shape.long_escapes.saturating_add(shape.long_escapes);
        self.shape.wide = self.shape.wide.saturating_add(shape.wide);
        self.quarters = self.quarters.saturating_add(client_estimate(shape.units));
    }
}

/// Units / 4, rounded half up: the estimate of the recorded client.
pub fn client_estimate(units: u32) -> u32 {
    units / 4 + u32::from(units % 4 >= 2)
}

/// The `message` of a record.
#[derive(Debug, Clone, Copy, Default)]
pub struct WireMessage<'a> {
    /// API id of the response.
    pub id: Option<JsonStr<'a>>,
    /// Model that answered.
    pub model: Option<JsonStr<'a>>,
    /// Why the response ended; set only on complete lines.
    pub stop_reason: Option<JsonStr<'a>>,
    /// Token counts, if any were written.
    pub usage: Option<WireUsage>,
}

/// What a compaction boundary says about itself.
#[derive(Debug, Clone, Default)]
pub struct WireBoundary<'a> {
    /// `auto` or `manual`.
    pub trigger: Option<JsonStr<'a>>,
    /// Tokens before.
    pub pre_tokens: Option<u64>,
    /// Tokens after, without system prompt and tools.
    pub post_tokens: Option<u64>,
    /// Tokens that clearing tool results saved (micro-compaction).
    pub tokens_saved: Option<u64>,
    /// Time it took.
    pub duration_ms: Option<u64>,
    /// First record of the segment that was kept.
    pub kept_head: Option<JsonStr<'a>>,
    /// Last record of the segment that was kept.
    pub kept_tail: Option<JsonStr<'a>>,
    /// All records that were kept, where the boundary lists them.
    pub kept: Vec<JsonStr<'a>>,
    /// Tool calls whose results were cleared (micro-compaction), in order.
    pub cleared: Vec<JsonStr<'a>>,
}

/// Number of a run of members that say where a session runs. Records of a log with the same one have the same session,
/// version, folder and branch; two without one have nothing in common.
#[derive(Clone, Copy, Default)]
pub struct ScopeRun(u32);

impl ScopeRun {
    /// Whether it is known to be the same.
    #[inline]
    pub fn is_same_run(self, other: ScopeRun) -> bool {
        self.0 != 0 && self.0 == other.0
    }
}

/// Shows nothing: it says how a record was read, not what it holds.
impl std::fmt::Debug for ScopeRun {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Setting")
    }
}

/// One line of a log, as far as it is read.
#[derive(Debug, Clone, Default)]
pub struct WireRecord<'a> {
    /// `type`.
    pub kind: Option<JsonStr<'a>>,
    /// `subtype` of system records, `data.type` of progress records.
    pub subtype: Option<JsonStr<'a>>,
    /// The record's id.
    pub uuid: Option<JsonStr<'a>>,
    /// The record it follows.
    pub parent: Option<JsonStr<'a>>,
    /// The record a boundary follows.
    pub logical_parent: Option<JsonStr<'a>>,
    /// The session it belongs to.
    pub session: Option<JsonStr<'a>>,
    /// The sub-agent it belongs to.
    pub agent: Option<JsonStr<'a>>,
    /// Version of the client.
    pub version: Option<JsonStr<'a>>,
    /// Working directory.
    pub cwd: Option<JsonStr<'a>>,
    /// Git branch.
    pub branch: Option<JsonStr<'a>>,
    /// Which run of members held session, version, folder and branch.
    pub scope_run: ScopeRun,
    /// When it was written.
    pub timestamp: Option<JsonStr<'a>>,
    /// API request of an assistant record.
    pub request: Option<JsonStr<'a>>,
    /// Part of a sub-agent's chain.
    pub is_sidechain: bool,
    /// Put in by the client, not by a person.
    pub is_meta: bool,
    /// The summary after a boundary.
    pub is_compact_summary: bool,
    /// An API error shown as a message.
    pub is_api_error: bool,
    /// The message of user, assistant and (nested) progress records.
    pub message: WireMessage<'a>,
    /// Its content blocks.
    pub blocks: Vec<WireBlock<'a>>,
    /// `attachment.type`.
    pub attachment: Option<JsonStr<'a>>,
    /// Text that the attachment shows to the model.
    pub attachment_shape: TextShape,
    /// Units of the name of the hook behind an attachment.
    pub hook_name_units: u32,
    /// File that an attachment shows.
    pub attachment_path: Option<JsonStr<'a>>,
    /// Text of a system record.
    pub system_shape: TextShape,
    /// Metadata of a compaction or micro-compaction boundary.
    pub compaction: Option<WireBoundary<'a>>,
}

impl WireRecord<'_> {
    /// Empties the record for the next line. Field by field: a fresh one would be a kilobyte to write and to copy.
    fn clear(&mut self) {
        // Every field is named so that the compiler notices a new one.
        let WireRecord {
            kind,
            subtype,
            uuid,
            parent,
            logical_parent,
            session,
            agent,
            version,
            cwd,
            branch,
            scope_run: setting,
            timestamp,
            request,
            is_sidechain,
            is_meta,
            is_compact_summary,
            is_api_error,
            message,
            blocks,
            attachment,
            attachment_shape,
            hook_name_units,
            attachment_path,
            system_shape,
            compaction,
        } = self;
        for text in [
            kind,
            subtype,
            uuid,
            parent,
            logical_parent,
            session,
            agent,
            version,
            cwd,
            branch,
            timestamp,
            request,
            attachment,
            attachment_path,
        ] {
            *text = None;
        }
        for flag in [is_sidechain, is_meta, is_compact_summary, is_api_error] {
            *flag = false;
        }
        *setting = ScopeRun::default();
        message.clear();
        blocks.clear();
        *attachment_shape = TextShape::default();
        *hook_name_units = 0;
        *system_shape = TextShape::default();
        *compaction = None;
    }
}

impl WireMessage<'_> {
    fn clear(&mut self) {
        (self.id, self.model, self.stop_reason, self.usage) = (None, None, None, None);
    }
}

/// Walks the members of an open object. The keys in brackets are asked for in this order before any other is looked
/// at: the client writes its keys in the same order on every line, so nearly all of them are taken this way. The list
/// changes nothing but the time: the body is the same for each key, however it was found.
macro_rules! each_member {
    ($source:ident, $frame:ident, [$($usual:literal)*], $key:ident => $body:expr) => {
        while let Some($key) = $source.next_key(&mut $frame)? {
            $body;
            $(
                if $source.try_key(concat!(",\"", $usual, "\":").as_bytes()) {
                    let $key: &[u8] = $usual.as_bytes();
                    $body;
                }
            )*
        }
    };
}

/// Walks the members of an object; anything else is passed over.
macro_rules! members {
    ($source:ident, [$($usual:literal)*], $key:ident => $body:expr) => {
        if $source.peek()? != JsonKind::Object {
            $source.skip()?;
        } else {
            let mut frame = $source.open_object()?;
            each_member!($source, frame, [$($usual)*], $key => $body);
        }
    };
    ($source:ident, $key:ident => $body:expr) => {
        members!($source, [], $key => $body)
    };
}

// What few lines have is read by functions that are never inlined: the code that every line runs through is larger than
// the processor's first cache as it is.

// Every object is read in two steps. First the bytes that the client usually writes are asked for, in their order, many at
// a time; whatever is not there is left out. Then any member is read that is left, in any order. The first step changes
// nothing but the time: it sets what the second would set.

/// Reads one record. On `Err` nothing of `record` may be used.
pub fn read<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.clear();
    let mut frame = match source.try_open_object(b"{\"parentUuid\":") {
        Some(frame) => {
            record.parent = source.text()?;
            read_common_members(source, record)?;
            frame
        }
        None if source.peek()? == JsonKind::Object => source.open_object()?,
        None => return Err(SlowPath),
    };
    each_member!(source, frame, ["session_id" "sessionKind" "userType"], key => match key {
        b"userType" => read_scope_run(source, record)?,
        _ => read_member(source, record, key)?,
    });
    Ok(())
}

/// The usual members of a record of a conversation, behind `parentUuid`.
#[inline(always)]
fn read_common_members<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    if source.try_key(b",\"isSidechain\":false,\"userType\":") {
        read_scope_run(source, record)?;
    } else if source.try_key(b",\"isSidechain\":true,\"userType\":") {
        record.is_sidechain = true;
        read_scope_run(source, record)?;
        if source.try_key(b",\"agentId\":") {
            record.agent = source.text()?;
        }
        if source.try_key(b",\"slug\":") {
            source.skip()?;
        }
    } else if source.try_key(b",\"isSidechain\":") {
        record.is_sidechain = source.flag()?;
        if source.try_key(b",\"promptId\":") {
            source.skip()?;
        }
    }
    if source.try_key(b",\"type\":\"user\",\"message\":") {
        record.kind = Some(JsonStr::plain(b"user"));
        read_message(source, record)?;
    } else if source.try_key(b",\"message\":") {
        read_message(source, record)?;
        if source.try_key(b",\"requestId\":") {
            record.request = source.text()?;
        }
        if source.try_key(b",\"type\":\"assistant\",\"uuid\":") {
            record.kind = Some(JsonStr::plain(b"assistant"));
            record.uuid = source.text()?;
        }
    } else if source.try_key(b",\"type\":\"progress\",\"data\":") {
        record.kind = Some(JsonStr::plain(b"progress"));
        read_progress(source, record)?;
        for _ in 0..2 {
            let other = source.try_key(b",\"parentToolUseID\":");
            if other || source.try_key(b",\"toolUseID\":") {
                source.skip()?;
            }
        }
    }
    if source.try_key(b",\"uuid\":") {
        record.uuid = source.text()?;
    }
    if source.try_key(b",\"timestamp\":") {
        record.timestamp = source.text()?;
    }
    if source.try_key(b",\"toolUseResult\":") {
        source.skip()?;
        if source.try_key(b",\"sourceToolAssistantUUID\":") {
            source.skip()?;
        }
    }
    Ok(())
}

/// The value of `userType` and the members that usually come after it. They say where the session runs, and are the
/// same on hundreds of lines in a row, so they are compared as a whole with those of an earlier line.
fn read_scope_run<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    if let Some(texts) = source.take_memoized_texts() {
        [record.cwd, record.session, record.version, record.branch] = texts;
        record.scope_run = ScopeRun(source.run_number());
        return Ok(());
    }
    read_new_scope_run(source, record)
}

#[inline(never)]
fn read_new_scope_run<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.scope_run = ScopeRun::default();
    let mark = source.position_mark();
    source.skip()?;
    if source.try_key(b",\"entrypoint\":") {
        source.skip()?;
    }
    let texts = [
        &mut record.cwd,
        &mut record.session,
        &mut record.version,
        &mut record.branch,
    ];
    let tokens: [&[u8]; 4] = [b",\"cwd\":", b",\"sessionId\":", b",\"version\":", b",\"gitBranch\":"];
    for (token, text) in std::iter::zip(tokens, texts) {
        if !source.try_key(token) {
            return Ok(());
        }
        *text = source.text()?;
    }
    if source.try_key(b",\"slug\":") {
        source.skip()?;
    }
    source.memoize_texts(mark, [record.cwd, record.session, record.version, record.branch]);
    record.scope_run = ScopeRun(source.run_number());
    Ok(())
}

/// One member of a record. Inlined because most callers know the key, which leaves one arm of the match.
#[inline(always)]
fn read_member<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>, key: &[u8]) -> Result<(), SlowPath> {
    // What is known of a setting as a whole is known no more when one of its members is read alone.
    match key {
        b"type" => record.kind = source.text()?,
        b"subtype" => record.subtype = source.text()?,
        b"uuid" => record.uuid = source.text()?,
        b"parentUuid" => record.parent = source.text()?,
        b"logicalParentUuid" => record.logical_parent = source.text()?,
        b"sessionId" => (record.session, record.scope_run) = (source.text()?, ScopeRun::default()),
        b"agentId" => record.agent = source.text()?,
        b"version" => (record.version, record.scope_run) = (source.text()?, ScopeRun::default()),
        b"cwd" => (record.cwd, record.scope_run) = (source.text()?, ScopeRun::default()),
        b"gitBranch" => (record.branch, record.scope_run) = (source.text()?, ScopeRun::default()),
        b"timestamp" => record.timestamp = source.text()?,
        b"requestId" => record.request = source.text()?,
        b"isSidechain" => record.is_sidechain = source.flag()?,
        b"isMeta" => record.is_meta = source.flag()?,
        b"isCompactSummary" => record.is_compact_summary = source.flag()?,
        b"isApiErrorMessage" => record.is_api_error = source.flag()?,
        b"message" => read_message(source, record)?,
        b"attachment" => read_attachment(source, record)?,
        b"content" => record.system_shape = text_shape(source)?,
        b"compactMetadata" | b"microcompactMetadata" => record.compaction = read_compaction(source)?,
        b"data" => read_progress(source, record)?,
        _ => source.skip()?,
    }
    Ok(())
}

fn read_message<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.message.clear();
    record.blocks.clear();
    let mut frame = if let Some(frame) = source.try_open_object(b"{\"role\":\"user\",\"content\":") {
        read_content(source, &mut record.blocks)?;
        frame
    } else if let Some(frame) = source.try_open_object(b"{\"model\":") {
        read_common_response(source, record)?;
        frame
    } else if source.peek()? == JsonKind::Object {
        source.open_object()?
    } else {
        return source.skip();
    };
    each_member!(source, frame, [
        "type" "role" "model" "content" "stop_reason" "stop_sequence" "stop_details" "usage"
    ], key => match key {
        b"id" => record.message.id = source.text()?,
        b"model" => record.message.model = source.text()?,
        b"stop_reason" => record.message.stop_reason = source.text()?,
        b"usage" => read_usage(source, &mut record.message.usage)?,
        b"content" => read_content(source, &mut record.blocks)?,
        _ => source.skip()?,
    });
    Ok(())
}

/// The usual members of a model's answer, behind the key of its model.
#[inline(always)]
fn read_common_response<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.message.model = source.text()?;
    if source.try_key(b",\"id\":") {
        record.message.id = source.text()?;
    }
    if source.try_key(b",\"type\":\"message\",\"role\":\"assistant\",\"content\":") {
        read_content(source, &mut record.blocks)?;
    }
    if source.try_key(b",\"stop_reason\":null,\"stop_sequence\":null,\"usage\":") {
        read_usage(source, &mut record.message.usage)?;
    } else if source.try_key(b",\"stop_reason\":") {
        record.message.stop_reason = source.text()?;
        let with_details = source.try_key(b",\"stop_sequence\":null,\"stop_details\":null,\"usage\":");
        if with_details || source.try_key(b",\"stop_sequence\":null,\"usage\":") {
            read_usage(source, &mut record.message.usage)?;
        }
    }
    Ok(())
}

/// The message that a sub-agent's progress record carries: its usage, not its content.
#[inline(never)]
fn read_progress<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    members!(source, key => match key {
        b"type" => record.subtype = source.text()?,
        b"agentId" => record.agent = source.text()?,
        b"message" => members!(source, key => match key {
            b"requestId" => record.request = source.text()?,
            b"message" => {
                record.message.clear();
                members!(source, key => match key {
                    b"id" => record.message.id = source.text()?,
                    b"model" => record.message.model = source.text()?,
                    b"stop_reason" => record.message.stop_reason = source.text()?,
                    b"usage" => read_usage(source, &mut record.message.usage)?,
                    _ => source.skip()?,
                });
            }
            _ => source.skip()?,
        }),
        _ => source.skip()?,
    });
    Ok(())
}

/// Reads a usage: its own counts, and those of the iterations inside it. The lines of one response mostly repeat it.
fn read_usage<'a, S: PullParser<'a>>(source: &mut S, slot: &mut Option<WireUsage>) -> Result<(), SlowPath> {
    if let Some(numbers) = source.take_memoized_numbers() {
        *slot = Some(WireUsage::from_numbers(numbers));
        return Ok(());
    }
    read_new_usage(source, slot)
}

#[inline(never)]
fn read_new_usage<'a, S: PullParser<'a>>(source: &mut S, slot: &mut Option<WireUsage>) -> Result<(), SlowPath> {
    let mark = source.position_mark();
    *slot = None;
    let mut counts = UsageFields::default();
    let mut frame = if let Some(frame) = source.try_open_object(b"{\"input_tokens\":") {
        counts.read(source, b"input_tokens")?;
        frame
    } else if source.peek()? == JsonKind::Object {
        source.open_object()?
    } else {
        return source.skip();
    };
    let usage = slot.insert(WireUsage::default());
    each_member!(source, frame, [
        "cache_creation_input_tokens" "cache_read_input_tokens" "cache_creation" "output_tokens" "server_tool_use"
        "service_tier" "cache_creation" "inference_geo" "iterations" "speed"
    ], key => match key {
        b"iterations" => read_iterations(source, usage)?,
        _ => counts.read(source, key)?,
    });
    usage.top = counts.tokens();
    usage.has_invalid_count |= counts.has_invalid_count;
    if !usage.has_invalid_count {
        source.memoize_numbers(mark, usage.numbers());
    }
    Ok(())
}

#[inline(never)]
fn read_iterations<'a, S: PullParser<'a>>(source: &mut S, usage: &mut WireUsage) -> Result<(), SlowPath> {
    *usage = WireUsage::default();
    if source.peek()? != JsonKind::Array {
        return source.skip();
    }
    let mut frame = source.open_array()?;
    while source.next_item(&mut frame)? {
        if source.peek()? != JsonKind::Object {
            source.skip()?;
            continue;
        }
        let mut is_message = false;
        let mut counts = UsageFields::default();
        let mut inner = source.open_object()?;
        each_member!(source, inner, [
            "output_tokens" "cache_read_input_tokens" "cache_creation_input_tokens" "cache_creation" "type"
        ], key => match key {
            b"type" => is_message = source.text()?.is_some_and(|kind| kind.raw() == b"message"),
            _ => counts.read(source, key)?,
        });
        usage.iterations = usage.iterations.saturating_add(1);
        usage.iterations_sum.add(&counts.tokens());
        usage.has_invalid_count |= counts.has_invalid_count;
        if is_message {
            usage.last_iteration = counts.tokens();
        }
    }
    Ok(())
}

/// The counts that a usage and an iteration share, while they are read.
#[derive(Default)]
struct UsageFields {
    tokens: Tokens,
    /// Cache writes as they are split: for five minutes, and for one hour.
    split: [u64; 2],
    /// Whether the sum of the split is named too.
    has_write: bool,
    has_invalid_count: bool,
}

impl UsageFields {
    #[inline(always)]
    fn read<'a, S: PullParser<'a>>(&mut self, source: &mut S, key: &[u8]) -> Result<(), SlowPath> {
        match key {
            b"input_tokens" => self.tokens.input = self.read_count(source)?,
            b"output_tokens" => self.tokens.output = self.read_count(source)?,
            b"cache_creation_input_tokens" => {
                self.tokens.cache_write = self.read_count(source)?;
                self.has_write = true;
            }
            b"cache_read_input_tokens" => self.tokens.cache_read = self.read_count(source)?,
            b"cache_creation" => {
                self.split = [0; 2];
                members!(source, ["ephemeral_1h_input_tokens"], key => match key {
                    b"ephemeral_5m_input_tokens" => self.split[0] = self.read_count(source)?,
                    b"ephemeral_1h_input_tokens" => self.split[1] = self.read_count(source)?,
                    _ => source.skip()?,
                });
            }
            _ => source.skip()?,
        }
        Ok(())
    }

    /// A count; what is none counts as 0, and only what says nothing (`null`) is not noted.
    #[inline(always)]
    fn read_count<'a, S: PullParser<'a>>(&mut self, source: &mut S) -> Result<u64, SlowPath> {
        let kind = source.peek()?;
        let count = match kind {
            JsonKind::Number => source.count()?.filter(|count| *count <= MAX_COUNT),
            _ => source.skip().map(|()| None)?,
        };
        self.has_invalid_count |= count.is_none() && kind != JsonKind::Literal;
        Ok(count.unwrap_or(0))
    }

    /// The total rules: a one-hour share that exceeds it is left over from another line. Without a total the split tells it.
    fn tokens(&self) -> Tokens {
        let [five_minutes, one_hour] = self.split;
        let cache_write = match self.has_write {
            true => self.tokens.cache_write,
            false => five_minutes + one_hour,
        };
        Tokens {
            cache_write,
            cache_write_1h: one_hour.min(cache_write),
            ..self.tokens
        }
    }
}

fn read_content<'a, S: PullParser<'a>>(source: &mut S, blocks: &mut Vec<WireBlock<'a>>) -> Result<(), SlowPath> {
    blocks.clear();
    match source.peek()? {
        JsonKind::String => {
            let (text, shape) = source.measured_string()?;
            let mut block = WireBlock {
                head: Some(text),
                ..WireBlock::default()
            };
            block.add_part(shape);
            blocks.push(block);
        }
        JsonKind::Array => {
            let mut frame = source.open_array()?;
            while source.next_item(&mut frame)? {
                if source.peek()? == JsonKind::Object {
                    // In place: a block is too large to be handed around.
                    blocks.push(WireBlock::default());
                    if let Some(block) = blocks.last_mut() {
                        read_block(source, block)?;
                    }
                } else {
                    source.skip()?;
                }
            }
        }
        _ => source.skip()?,
    }
    Ok(())
}

fn read_block<'a, S: PullParser<'a>>(source: &mut S, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    let mut frame = if let Some(frame) = source.try_open_object(b"{\"tool_use_id\":") {
        block.id = source.text()?;
        if source.try_key(b",\"type\":\"tool_result\",\"content\":") {
            block.kind = Some(JsonStr::plain(b"tool_result"));
            read_result(source, block)?;
        }
        if source.try_key(b",\"is_error\":") {
            block.is_error = source.flag()?;
        }
        frame
    } else if let Some(frame) = source.try_open_object(b"{\"type\":\"tool_use\",\"id\":") {
        block.kind = Some(JsonStr::plain(b"tool_use"));
        block.id = source.text()?;
        if source.try_key(b",\"name\":") {
            block.name = source.text()?;
        }
        if source.try_key(b",\"input\":") {
            read_input(source, block)?;
        }
        frame
    } else if let Some(frame) = source.try_open_object(b"{\"type\":\"text\",\"text\":") {
        block.kind = Some(JsonStr::plain(b"text"));
        read_part(source, block)?;
        frame
    } else if let Some(frame) = source.try_open_object(b"{\"type\":\"thinking\",\"thinking\":") {
        block.kind = Some(JsonStr::plain(b"thinking"));
        read_part(source, block)?;
        frame
    } else {
        source.open_object()?
    };
    each_member!(source, frame, ["signature"], key => match key {
        b"type" => block.kind = source.text()?,
        b"id" | b"tool_use_id" => block.id = source.text()?,
        b"name" => block.name = source.text()?,
        b"text" | b"thinking" => read_part(source, block)?,
        b"signature" => block.signature = match source.peek()? {
            JsonKind::String => source.measured_string()?.1.units,
            _ => source.skip().map(|()| 0)?,
        },
        b"input" => read_input(source, block)?,
        b"content" => read_result(source, block)?,
        b"is_error" => block.is_error = source.flag()?,
        _ => source.skip()?,
    });
    Ok(())
}

/// One text of a block. Of equal keys the last counts, so each replaces what was there.
fn read_part<'a, S: PullParser<'a>>(source: &mut S, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    block.shape = TextShape::default();
    block.quarters = 0;
    block.head = None;
    if source.peek()? != JsonKind::String {
        return source.skip();
    }
    let (text, shape) = source.measured_string()?;
    block.head = Some(text);
    block.add_part(shape);
    Ok(())
}

/// The input of a tool call: its length when serialised, and the few arguments that say what it touches.
fn read_input<'a, S: PullParser<'a>>(source: &mut S, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    block.shape = TextShape::default();
    (block.path, block.offset, block.limit, block.command) = (None, None, None, None);
    if source.peek()? != JsonKind::Object {
        block.shape.units = source.serialised_units()?;
        return Ok(());
    }
    let mut units = 1u32;
    let mut frame = source.open_object()?;
    while let Some(key) = source.next_key(&mut frame)? {
        // The quotes, the colon, and the comma or closing bracket.
        units = units.saturating_add(key_units(key)?).saturating_add(4);
        let value = match (source.peek()?, key) {
            (JsonKind::String, _) => {
                let (text, shape) = source.measured_string()?;
                match key {
                    b"file_path" | b"path" | b"notebook_path" => block.path = Some(text),
                    b"command" => block.command = Some(text),
                    _ => {}
                }
                block.shape.wide = block.shape.wide.saturating_add(shape.wide);
                block.shape.escapes = block.shape.escapes.saturating_add(shape.escapes);
                shape.serialised_units().saturating_add(2)
            }
            (JsonKind::Number, b"offset" | b"limit") => {
                let count = source.count()?;
                if key == b"offset" {
                    block.offset = count;
                } else {
                    block.limit = count;
                }
                count.map_or(1, |count| count.to_string().len() as u32)
            }
            _ => source.serialised_units()?,
        };
        units = units.saturating_add(value);
    }
    block.shape.units = units.max(2);
    Ok(())
}

/// Serialised units of a key, without its quotes.
fn key_units(key: &[u8]) -> Result<u32, SlowPath> {
    if key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return Ok(key.len() as u32);
    }
    let text = std::str::from_utf8(key).map_err(|_| SlowPath)?;
    Ok(decoded_shape(text).serialised_units())
}

/// The content of a tool result: a string, or a list of texts, images and references.
fn read_result<'a, S: PullParser<'a>>(source: &mut S, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    block.shape = TextShape::default();
    (block.quarters, block.images, block.head) = (0, 0, None);
    match source.peek()? {
        JsonKind::String => read_part(source, block)?,
        JsonKind::Array => {
            let mut frame = source.open_array()?;
            while source.next_item(&mut frame)? {
                read_result_part(source, block)?;
            }
        }
        _ => source.skip()?,
    }
    Ok(())
}

#[inline(never)]
fn read_result_part<'a, S: PullParser<'a>>(source: &mut S, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    let mut part = WireBlock::default();
    let mut has_source = false;
    members!(source, key => match key {
        b"text" => read_part(source, &mut part)?,
        b"source" => {
            has_source = true;
            source.skip()?;
        }
        _ => source.skip()?,
    });
    block.images += u32::from(has_source);
    if part.head.is_some() {
        block.head = block.head.or(part.head);
        block.add_part(part.shape);
    }
    Ok(())
}

/// What an attachment shows: the texts under the keys that the client turns into user content.
#[inline(never)]
fn read_attachment<'a, S: PullParser<'a>>(source: &mut S, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.attachment = None;
    record.attachment_shape = TextShape::default();
    record.hook_name_units = 0;
    record.attachment_path = None;
    let mut shape = TextShape::default();
    members!(source, key => match key {
        b"type" => record.attachment = source.text()?,
        b"hookName" => record.hook_name_units = text_shape(source)?.units,
        b"filename" | b"path" => record.attachment_path = source.text()?,
        b"content" | b"snippet" | b"prompt" | b"text" | b"addedLines" | b"removedNames" | b"addedBlocks" | b"skills" => {
            let found = text_shape(source)?;
            shape.units = shape.units.saturating_add(found.units);
            shape.escapes = shape.escapes.saturating_add(found.escapes);
            shape.wide = shape.wide.saturating_add(found.wide);
        }
        _ => source.skip()?,
    });
    record.attachment_shape = shape;
    Ok(())
}

/// The texts inside a value, added up: strings, lists of them, and what objects hold under the keys of texts.
fn text_shape<'a, S: PullParser<'a>>(source: &mut S) -> Result<TextShape, SlowPath> {
    if source.peek()? == JsonKind::String {
        return Ok(source.measured_string()?.1);
    }
    let mut total = TextShape::default();
    add_text_shape(source, &mut total)?;
    Ok(total)
}

#[inline(never)]
fn add_text_shape<'a, S: PullParser<'a>>(source: &mut S, total: &mut TextShape) -> Result<(), SlowPath> {
    match source.peek()? {
        JsonKind::String => {
            let (_, shape) = source.measured_string()?;
            total.units = total.units.saturating_add(shape.units);
            total.escapes = total.escapes.saturating_add(shape.escapes);
            total.wide = total.wide.saturating_add(shape.wide);
        }
        JsonKind::Array => {
            let mut frame = source.open_array()?;
            while source.next_item(&mut frame)? {
                add_text_shape(source, total)?;
            }
        }
        JsonKind::Object => {
            let mut frame = source.open_object()?;
            while let Some(key) = source.next_key(&mut frame)? {
                match key {
                    b"content" | b"file" | b"text" | b"subject" => add_text_shape(source, total)?,
                    _ => source.skip()?,
                }
            }
        }
        _ => source.skip()?,
    }
    Ok(())
}

#[cold]
fn read_compaction<'a, S: PullParser<'a>>(source: &mut S) -> Result<Option<WireBoundary<'a>>, SlowPath> {
    if source.peek()? != JsonKind::Object {
        return source.skip().map(|()| None);
    }
    let mut found = WireBoundary::default();
    members!(source, key => match key {
        b"trigger" => found.trigger = source.text()?,
        b"preTokens" => found.pre_tokens = source.number()?,
        b"postTokens" => found.post_tokens = source.number()?,
        b"tokensSaved" => found.tokens_saved = source.number()?,
        b"durationMs" => found.duration_ms = source.number()?,
        b"preservedSegment" => members!(source, key => match key {
            b"headUuid" => found.kept_head = source.text()?,
            b"tailUuid" => found.kept_tail = source.text()?,
            _ => source.skip()?,
        }),
        b"preservedMessages" => members!(source, key => match key {
            b"uuids" => found.kept = read_texts(source)?,
            _ => source.skip()?,
        }),
        b"compactedToolIds" => found.cleared = read_texts(source)?,
        _ => source.skip()?,
    });
    Ok(Some(found))
}

fn read_texts<'a, S: PullParser<'a>>(source: &mut S) -> Result<Vec<JsonStr<'a>>, SlowPath> {
    let mut texts = Vec::new();
    if source.peek()? != JsonKind::Array {
        source.skip()?;
        return Ok(texts);
    }
    let mut frame = source.open_array()?;
    while source.next_item(&mut frame)? {
        texts.extend(source.text()?);
    }
    Ok(texts)
}
