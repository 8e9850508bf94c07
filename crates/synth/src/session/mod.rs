//! One generated session: its identity, its context in true tokens, its prompt cache, and the records that it writes.
//!
//! `drive` decides what happens in a bulk session and `cases` in a bundled one. Both write through this folder, so the
//! counts of the truth come from one place.

mod compaction;
mod copies;
mod respond;

pub use copies::{AgentTranscript, Bookmark, SessionPrefix, replace_bytes};
pub use respond::{AssistantLine, BilledUsage, InnerResponse, SynthResponse};

use self::compaction::UnclearedResult;
use self::copies::CopySources;
use crate::client::{ClientRelease, OutputStyle, chars_per_ten_tokens, drops_thinking};
use crate::damage::LineSink;
use crate::json::{Uuid, quoted, timestamp};
use crate::rng::Rng;
use crate::truth::Truth;
use crate::words::{LinePools, SynthText};
use std::io::{self, Write};

/// The fields that every record of a log repeats.
#[derive(Clone)]
pub struct LogIdentity {
    pub session_id: String,
    pub cwd: String,
    pub branch: String,
    pub slug: String,
    /// Id of the sub-agent, in a sub-agent's log.
    pub agent_id: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Default)]
pub struct ToolOutput {
    /// `content` of the result, a JSON value.
    pub content: Vec<u8>,
    /// `toolUseResult`, a JSON value: the client's own copy. Empty if the client writes none.
    pub kept: Vec<u8>,
    pub error: bool,
    /// UTF-16 units of the text that the model sees.
    pub units: u64,
    pub tokens: u64,
}

/// A tool call with its result and the progress records in between.
#[derive(Clone)]
pub struct SynthCall {
    pub id: String,
    pub name: &'static str,
    pub outcome: ToolOutput,
    /// `data` and `toolUseID` of each progress record.
    pub progress: Vec<(Vec<u8>, String)>,
}

/// One content block of a response, which is one line of the log.
#[derive(Clone)]
pub struct SynthBlock {
    pub json: Vec<u8>,
    pub tokens: u64,
    pub call: Option<SynthCall>,
}

/// The order of the lines and results of parallel calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ResultOrder {
    /// All calls, then all results.
    CallsFirst,
    /// Each result as soon as it is ready, between the lines of the response.
    Interleaved,
}

/// The window as it really is, and the client's view of it.
#[derive(Default)]
pub struct SynthContext {
    /// Tokens of system prompt and tools.
    pub base: u64,
    /// True tokens that the next call sends.
    pub size: u64,
    /// Tokens in the prompt cache.
    pub cached: u64,
    /// When they were written.
    cached_at: u64,
    /// Input tokens of the last response.
    last_input: u64,
    /// Output tokens of the last response that the automatic check counts.
    last_output: u64,
    /// Output tokens on the last line of the last response.
    last_recorded: u64,
    /// The client's estimate of the blocks since the last response.
    trail: u64,
    /// Results that micro-compaction may still clear.
    clearable: Vec<UnclearedResult>,
    /// Tokens of thinking since the last prompt.
    thinking: u64,
    /// Size at the last prompt.
    turn_start: u64,
    /// Tokens that all compactions together dropped.
    dropped: u64,
}

/// What a new session starts with.
pub struct SessionStart<'p, W: Write> {
    pub rng: Rng,
    pub pools: &'p LinePools,
    pub client: ClientRelease,
    pub model: String,
    pub identity: LogIdentity,
    /// Milliseconds since 1970.
    pub now: u64,
    pub sink: LineSink<W>,
}

/// A session while its log is being written.
pub struct SynthSession<'p, W: Write> {
    pub rng: Rng,
    pub pools: &'p LinePools,
    pub client: ClientRelease,
    pub model: String,
    pub identity: LogIdentity,
    /// Milliseconds since 1970.
    pub now: u64,
    /// The newest record, which the next one hangs on.
    pub leaf: Option<Uuid>,
    pub context: SynthContext,
    /// Whether cache writes live for an hour instead of five minutes.
    pub hour_cache: bool,
    /// The context at which the client compacts automatically.
    pub threshold: u64,
    /// Whether responses have request ids; some old logs have none.
    pub request_ids: bool,
    pub sink: LineSink<W>,
    pub truth: Truth,
    pub copies: CopySources,
    record: RecordBuffer,
}

/// The record under construction.
struct RecordBuffer {
    line: Vec<u8>,
    /// Envelope fields before the message.
    early: Vec<u8>,
    /// Envelope fields at the end of the record.
    late: Vec<u8>,
    /// Id of the prompt that records belong to.
    prompt_id: Option<Uuid>,
}

impl RecordBuffer {
    /// Prepares the envelope. Newer clients write most of it at the end.
    fn new(client: ClientRelease, identity: &LogIdentity) -> RecordBuffer {
        let mut fields = format!(
            ",\"cwd\":{},\"sessionId\":\"{}\",\"version\":\"{}\"",
            quoted(&identity.cwd),
            identity.session_id,
            client.version
        );
        if client.has_branch() {
            fields.push_str(&format!(",\"gitBranch\":{}", quoted(&identity.branch)));
        }
        let slug = if client.has_slug() {
            format!(",\"slug\":\"{}\"", identity.slug)
        } else {
            String::new()
        };
        let agent = identity
            .agent_id
            .as_ref()
            .map(|id| format!(",\"agentId\":\"{id}\""))
            .unwrap_or_default();
        let (early, late) = if client.has_late_envelope() {
            (
                agent,
                format!(",\"userType\":\"external\",\"entrypoint\":\"cli\"{fields}{slug}"),
            )
        } else {
            (
                format!(",\"userType\":\"external\"{fields}{agent}{slug}"),
                String::new(),
            )
        };
        RecordBuffer {
            line: Vec::with_capacity(16 * 1024),
            early: early.into_bytes(),
            late: late.into_bytes(),
            prompt_id: None,
        }
    }
}

/// Returns the client's token estimate of a text: characters / 4, rounded.
fn client_estimate(units: u64) -> u64 {
    (units + 2) / 4
}

impl<'p, W: Write> SynthSession<'p, W> {
    pub fn new(start: SessionStart<'p, W>) -> Self {
        let mut rng = start.rng;
        let client = start.client;
        // A sub-agent has a smaller system prompt.
        let base = if start.identity.agent_id.is_some() {
            client.base_tokens() / 3
        } else {
            client.base_tokens()
        };
        let base = rng.around(base, 10);
        Self {
            rng,
            pools: start.pools,
            client,
            model: start.model,
            record: RecordBuffer::new(client, &start.identity),
            identity: start.identity,
            now: start.now,
            leaf: None,
            context: SynthContext {
                base,
                size: base,
                ..SynthContext::default()
            },
            hour_cache: false,
            threshold: client.threshold(),
            request_ids: true,
            sink: start.sink,
            truth: Truth::default(),
            copies: CopySources::default(),
        }
    }

    /// Returns the characters per ten tokens of the session's model.
    pub fn density(&self) -> u64 {
        chars_per_ten_tokens(&self.model)
    }

    /// Lets `low` to `high` milliseconds pass.
    pub fn wait(&mut self, low: u64, high: u64) {
        self.now += self.rng.range(low, high);
    }

    /// Appends text to the record.
    fn put(&mut self, text: &str) {
        self.record.line.extend_from_slice(text.as_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.record.line.extend_from_slice(bytes);
    }

    /// Starts a record.
    fn open(&mut self, parent: Option<Uuid>) {
        self.open_in(parent, None);
    }

    /// Starts a user record, which newer clients tie to the prompt that it belongs to.
    fn open_user(&mut self, parent: Option<Uuid>) {
        let prompt = self.record.prompt_id.filter(|_| self.client.has_late_envelope());
        self.open_in(parent, prompt);
    }

    fn open_in(&mut self, parent: Option<Uuid>, prompt: Option<Uuid>) {
        self.record.line.clear();
        self.put("{\"parentUuid\":");
        match parent {
            Some(parent) => {
                self.put("\"");
                self.put(parent.as_str());
                self.put("\"");
            }
            None => self.put("null"),
        }
        self.put(if self.identity.agent_id.is_some() {
            ",\"isSidechain\":true"
        } else {
            ",\"isSidechain\":false"
        });
        if let Some(prompt) = prompt {
            self.put(",\"promptId\":\"");
            self.put(prompt.as_str());
            self.put("\"");
        }
        self.record.line.extend_from_slice(&self.record.early);
    }

    /// Appends id and timestamp.
    fn stamp(&mut self, uuid: Uuid) {
        self.put(",\"uuid\":\"");
        self.put(uuid.as_str());
        self.put("\",\"timestamp\":\"");
        let now = timestamp(self.now);
        self.put(&now);
        self.put("\"");
    }

    /// Ends the record and writes it. Returns whether it is readable, i.e. not damaged beyond repair.
    fn close(&mut self, kind: &str) -> io::Result<bool> {
        self.record.line.extend_from_slice(&self.record.late);
        self.record.line.push(b'}');
        self.write_line(kind)
    }

    fn write_line(&mut self, kind: &str) -> io::Result<bool> {
        let line = &self.record.line;
        let readable = self.sink.write_record(line, kind, &mut self.truth)?;
        self.copies.keep_line(kind, line, readable);
        Ok(readable)
    }

    /// Writes a record without id or parent, given as a whole.
    pub fn write_plain(&mut self, kind: &str, json: &str) -> io::Result<bool> {
        self.record.line.clear();
        self.put(json);
        self.write_line(kind)
    }

    /// Writes a user record: `content` is the JSON value of the message, `before` and `after` go around id and timestamp.
    pub fn user(&mut self, parent: Option<Uuid>, content: &[u8], before: &str, after: &[u8]) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        self.open_user(parent);
        self.put(",\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":");
        self.put_bytes(content);
        self.put("}");
        self.put(before);
        self.stamp(uuid);
        self.put_bytes(after);
        self.close("user")?;
        self.leaf = Some(uuid);
        Ok(uuid)
    }

    /// Writes a prompt that the user typed.
    pub fn prompt(&mut self, text: &SynthText) -> io::Result<Uuid> {
        let content = string_value(text);
        self.drop_thinking();
        self.record.prompt_id = Some(Uuid::new(&mut self.rng));
        let after: &[u8] = match self.client.output_style() {
            OutputStyle::FinalOnAll => {
                b",\"permissionMode\":\"default\",\"origin\":{\"kind\":\"human\"},\"promptSource\":\"typed\""
            }
            _ if self.client.has_slug() => b",\"thinkingMetadata\":{\"maxThinkingTokens\":31999},\"todos\":[]",
            _ => b"",
        };
        let uuid = self.user(self.leaf, &content, "", after)?;
        self.add_to_context(text.units, text.tokens(self.density()) + 8);
        Ok(uuid)
    }

    /// Drops the thinking of the last turn for models that do not get it back; the cache behind it is lost.
    fn drop_thinking(&mut self) {
        let context = &mut self.context;
        if drops_thinking(&self.model) && context.thinking > 0 {
            context.size = context.size.saturating_sub(context.thinking).max(context.base);
            context.cached = context.cached.min(context.turn_start);
        }
        context.thinking = 0;
        context.turn_start = context.size;
    }

    /// Counts a text that the next call sends.
    pub fn add_to_context(&mut self, units: u64, tokens: u64) {
        self.context.size += tokens;
        self.context.trail += client_estimate(units);
    }

    /// Writes a system record; `body` starts with a comma and follows the type.
    pub fn system(&mut self, body: &str, after: &str) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        self.open(self.leaf);
        self.put(",\"type\":\"system\"");
        self.put(body);
        self.stamp(uuid);
        self.put(after);
        self.close("system")?;
        self.leaf = Some(uuid);
        Ok(uuid)
    }

    /// Writes an attachment: `body` is its JSON object, `tokens` are what the next call sends because of it.
    pub fn attachment(&mut self, body: &str, tokens: u64) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        self.open(self.leaf);
        self.put(",\"attachment\":");
        self.put(body);
        self.put(",\"type\":\"attachment\"");
        self.stamp(uuid);
        self.close("attachment")?;
        self.leaf = Some(uuid);
        self.context.size += tokens;
        Ok(uuid)
    }

    /// Writes a progress record under `parent`. It does not become the leaf: the result hangs on the call itself.
    pub fn progress(
        &mut self,
        parent: Option<Uuid>,
        data: &[u8],
        tool_id: &str,
        parent_tool: &str,
    ) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        self.open(parent);
        self.put(",\"type\":\"progress\",\"data\":");
        self.put_bytes(data);
        self.put(",\"toolUseID\":\"");
        self.put(tool_id);
        self.put("\",\"parentToolUseID\":\"");
        self.put(parent_tool);
        self.put("\"");
        self.stamp(uuid);
        self.close("progress")?;
        Ok(uuid)
    }

    /// Writes a record of any other kind that has an envelope.
    pub fn other(&mut self, kind: &str, body: &str) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        self.open(self.leaf);
        self.put(body);
        self.put(&format!(",\"type\":\"{kind}\""));
        self.stamp(uuid);
        self.close(kind)?;
        self.leaf = Some(uuid);
        Ok(uuid)
    }

    /// Closes the log and returns its file, its truth, and the prefix that was kept for a copy.
    pub fn finish(mut self) -> io::Result<(W, Truth, Option<SessionPrefix>)> {
        if self.identity.agent_id.is_some() {
            self.truth.subagents += 1;
        } else {
            self.truth.sessions += 1;
        }
        let out = self.sink.finish(&mut self.truth)?;
        Ok((out, self.truth, self.copies.prefix))
    }
}

/// Returns a text as a JSON string.
pub fn string_value(text: &SynthText) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.escaped.len() + 2);
    out.push(b'"');
    out.extend_from_slice(&text.escaped);
    out.push(b'"');
    out
}
