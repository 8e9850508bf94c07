//! One simulated session: its identity, its context in true tokens, its prompt cache, and the records it writes.
//! `drive` decides what happens in a bulk session and `cases` in a bundled one; both only speak through this folder,
//! so the counts in the truth come from one place.

mod compaction;
mod copies;

pub use copies::{AgentTranscript, Bookmark, SessionPrefix, replace_bytes};

use self::compaction::UnclearedResult;
use crate::client::{ClientRelease, OutputStyle, chars_per_ten_tokens, drops_thinking};
use crate::damage::LineSink;
use crate::json::{Uuid, api_id, number_into, quoted, timestamp};
use crate::rng::Rng;
use crate::truth::{Truth, TruthTally};
use crate::words::{LinePools, SynthText};
use std::io::{self, Write};

/// Who writes: the fields every record of a log repeats.
#[derive(Clone)]
pub struct LogIdentity {
    pub session_id: String,
    pub cwd: String,
    pub branch: String,
    pub slug: String,
    /// Set for a sub-agent's log.
    pub agent_id: Option<String>,
}

/// The usage of one response, as billed.
#[derive(Clone, Default)]
pub struct BilledUsage {
    pub input: u64,
    pub read: u64,
    pub write_5m: u64,
    pub write_1h: u64,
    pub output: u64,
}

impl BilledUsage {
    pub fn input_side(&self) -> u64 {
        self.input + self.read + self.write_5m + self.write_1h
    }
}

/// One API call while its lines are being written.
pub struct SynthResponse {
    pub id: String,
    pub request: Option<String>,
    pub model: String,
    /// What was billed; the output is the final one.
    pub usage: BilledUsage,
    /// The calls the server made inside this one, if more than one.
    pub iterations: Vec<BilledUsage>,
    /// Top-level counts are zero and only the iterations tell.
    pub zeroed: bool,
    /// Largest output on a line that can be read back.
    best: Option<u64>,
}

/// What a tool gave back.
#[derive(Clone, Default)]
pub struct ToolOutput {
    /// The `content` of the result, a JSON value.
    pub content: Vec<u8>,
    /// `toolUseResult`, a JSON value; empty when the client wrote none.
    pub kept: Vec<u8>,
    pub error: bool,
    pub units: u64,
    pub tokens: u64,
}

/// A tool call with its result and the progress records in between.
#[derive(Clone)]
pub struct SynthCall {
    pub id: String,
    pub name: &'static str,
    pub outcome: ToolOutput,
    /// `data` of each progress record and its `toolUseID`.
    pub progress: Vec<(Vec<u8>, String)>,
}

/// One content block of a response: one line of the log.
#[derive(Clone)]
pub struct SynthBlock {
    pub json: Vec<u8>,
    pub tokens: u64,
    pub call: Option<SynthCall>,
}

/// How the lines and results of parallel calls are ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ResultOrder {
    /// All calls, then all results.
    CallsFirst,
    /// Each result as soon as it is there, between the lines of the response.
    Interleaved,
}

/// The window as it really is, and what the client believes about it.
#[derive(Default)]
pub struct SynthContext {
    pub base: u64,
    /// True tokens that the next call will send.
    pub size: u64,
    pub cached: u64,
    cached_at: u64,
    /// Input side and checked output of the last response.
    last_input: u64,
    last_output: u64,
    last_recorded: u64,
    /// The client's estimate of what came after it.
    trail: u64,
    clearable: Vec<UnclearedResult>,
    /// Thinking since the last prompt, and the size before it.
    thinking: u64,
    turn_start: u64,
    dropped: u64,
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
    pub leaf: Option<Uuid>,
    pub context: SynthContext,
    pub hour_cache: bool,
    pub threshold: u64,
    /// Some old logs have no request ids.
    pub request_ids: bool,
    pub sink: LineSink<W>,
    pub truth: Truth,
    pub prefix: Option<SessionPrefix>,
    /// The last readable assistant line, for a sub-agent that repeats it.
    pub last_assistant: Vec<u8>,
    /// Calls and results as the progress records of a parent repeat them, if there is one.
    pub transcript: Option<AgentTranscript>,
    prompt_id: Option<Uuid>,
    line: Vec<u8>,
    early: Vec<u8>,
    late: Vec<u8>,
}

fn client_estimate(units: u64) -> u64 {
    (units + 2) / 4
}

impl<'p, W: Write> SynthSession<'p, W> {
    pub fn new(
        mut rng: Rng,
        pools: &'p LinePools,
        client: ClientRelease,
        model: &str,
        who: LogIdentity,
        now: u64,
        sink: LineSink<W>,
    ) -> Self {
        let mut fields = format!(
            ",\"cwd\":{},\"sessionId\":\"{}\",\"version\":\"{}\"",
            quoted(&who.cwd),
            who.session_id,
            client.version
        );
        if client.has_branch() {
            fields.push_str(&format!(",\"gitBranch\":{}", quoted(&who.branch)));
        }
        let slug = if client.has_slug() {
            format!(",\"slug\":\"{}\"", who.slug)
        } else {
            String::new()
        };
        let agent = who
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
        // A sub-agent has a smaller system prompt.
        let base = if who.agent_id.is_some() {
            client.base_tokens() / 3
        } else {
            client.base_tokens()
        };
        let base = rng.around(base, 10);
        Self {
            rng,
            pools,
            client,
            model: model.to_owned(),
            identity: who,
            now,
            leaf: None,
            context: SynthContext {
                base,
                size: base,
                ..SynthContext::default()
            },
            hour_cache: false,
            threshold: client.threshold(),
            request_ids: true,
            sink,
            truth: Truth::default(),
            prefix: None,
            last_assistant: Vec::new(),
            transcript: None,
            prompt_id: None,
            line: Vec::with_capacity(16 * 1024),
            early: early.into_bytes(),
            late: late.into_bytes(),
        }
    }

    pub fn density(&self) -> u64 {
        chars_per_ten_tokens(&self.model)
    }

    /// Lets time pass.
    pub fn wait(&mut self, low: u64, high: u64) {
        self.now += self.rng.range(low, high);
    }

    // ---- records -------------------------------------------------------------------------------------------------

    fn put(&mut self, text: &str) {
        self.line.extend_from_slice(text.as_bytes());
    }

    fn open(&mut self, parent: Option<Uuid>) {
        self.open_in(parent, None);
    }

    /// The head of a user record, which newer clients tie to the prompt it belongs to.
    fn open_user(&mut self, parent: Option<Uuid>) {
        let prompt = self.prompt_id.filter(|_| self.client.has_late_envelope());
        self.open_in(parent, prompt);
    }

    fn open_in(&mut self, parent: Option<Uuid>, prompt: Option<Uuid>) {
        self.line.clear();
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
        self.line.extend_from_slice(&self.early);
    }

    fn stamp(&mut self, uuid: Uuid) {
        self.put(",\"uuid\":\"");
        self.put(uuid.as_str());
        self.put("\",\"timestamp\":\"");
        let now = timestamp(self.now);
        self.put(&now);
        self.put("\"");
    }

    /// Ends the record in the buffer and writes it; true when it can be read back.
    fn close(&mut self, kind: &str) -> io::Result<bool> {
        self.line.extend_from_slice(&self.late);
        self.line.push(b'}');
        self.write_line(kind)
    }

    fn write_line(&mut self, kind: &str) -> io::Result<bool> {
        let readable = self.sink.write_record(&self.line, kind, &mut self.truth)?;
        if let Some(prefix) = &mut self.prefix {
            prefix.keep(kind, &self.line, readable);
        }
        if let Some(told) = &mut self.transcript {
            told.keep(kind, &self.line);
        }
        Ok(readable)
    }

    /// A record without uuid or parent, given as a whole.
    pub fn write_plain(&mut self, kind: &str, json: &str) -> io::Result<bool> {
        self.line.clear();
        self.put(json);
        self.write_line(kind)
    }

    /// A user record: `content` is the JSON value of the message, `before` and `after` go around uuid and timestamp.
    pub fn user(&mut self, parent: Option<Uuid>, content: &[u8], before: &str, after: &[u8]) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        self.open_user(parent);
        self.put(",\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":");
        self.line.extend_from_slice(content);
        self.put("}");
        self.put(before);
        self.stamp(uuid);
        self.line.extend_from_slice(after);
        self.close("user")?;
        self.leaf = Some(uuid);
        Ok(uuid)
    }

    /// What the user typed.
    pub fn prompt(&mut self, text: &SynthText) -> io::Result<Uuid> {
        let content = string_value(text);
        self.drop_thinking();
        self.prompt_id = Some(Uuid::new(&mut self.rng));
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

    /// Some models do not get their earlier thinking back, and lose the cache behind it.
    fn drop_thinking(&mut self) {
        let context = &mut self.context;
        if drops_thinking(&self.model) && context.thinking > 0 {
            context.size = context.size.saturating_sub(context.thinking).max(context.base);
            context.cached = context.cached.min(context.turn_start);
        }
        context.thinking = 0;
        context.turn_start = context.size;
    }

    /// Counts a text that the next call will send.
    pub fn add_to_context(&mut self, units: u64, tokens: u64) {
        self.context.size += tokens;
        self.context.trail += client_estimate(units);
    }

    /// A system record; `body` starts with a comma and follows the type.
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

    /// An attachment: `body` is the JSON object; `tokens` is what the next call sends because of it.
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

    /// A progress record under `parent`; it does not become the leaf, the result hangs on the call itself.
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
        self.line.extend_from_slice(data);
        self.put(",\"toolUseID\":\"");
        self.put(tool_id);
        self.put("\",\"parentToolUseID\":\"");
        self.put(parent_tool);
        self.put("\"");
        self.stamp(uuid);
        self.close("progress")?;
        Ok(uuid)
    }

    /// A record of any other kind that has an envelope.
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

    // ---- responses -----------------------------------------------------------------------------------------------

    /// Starts a call: what it sends is the context, split by what the prompt cache still holds.
    pub fn begin_response(&mut self, output: u64) -> SynthResponse {
        let total = self.context.size;
        let life = if self.hour_cache { 3_600_000 } else { 300_000 };
        let alive = self.context.cached > 0 && self.now.saturating_sub(self.context.cached_at) < life;
        let read = if alive {
            self.context.cached.min(total)
        } else if self.rng.permille(600) {
            // Another session of the same user keeps the system prompt warm.
            self.context.base * 4 / 5
        } else {
            0
        };
        let input = self.rng.range(2, 10).min(total - read);
        let write = total - read - input;
        let (write_5m, write_1h) = if self.hour_cache { (0, write) } else { (write, 0) };
        SynthResponse {
            id: api_id(&mut self.rng, "msg_01"),
            request: self.request_ids.then(|| api_id(&mut self.rng, "req_011C")),
            model: self.model.clone(),
            usage: BilledUsage {
                input,
                read,
                write_5m,
                write_1h,
                output,
            },
            iterations: Vec::new(),
            zeroed: false,
            best: None,
        }
    }

    /// One line of a response.
    pub fn assistant(
        &mut self,
        response: &mut SynthResponse,
        parent: Option<Uuid>,
        block: &[u8],
        output: u64,
        stop: Option<&str>,
    ) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        self.assistant_as(uuid, response, parent, block, output, stop)?;
        Ok(uuid)
    }

    fn assistant_as(
        &mut self,
        uuid: Uuid,
        response: &mut SynthResponse,
        parent: Option<Uuid>,
        block: &[u8],
        output: u64,
        stop: Option<&str>,
    ) -> io::Result<()> {
        self.open(parent);
        self.put(",\"message\":{");
        if self.client.has_subtypes() {
            self.put(&format!(
                "\"model\":\"{}\",\"id\":\"{}\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[",
                response.model, response.id
            ));
        } else {
            self.put(&format!(
                "\"id\":\"{}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"{}\",\"content\":[",
                response.id, response.model
            ));
        }
        self.line.extend_from_slice(block);
        self.put("],\"stop_reason\":");
        match stop {
            Some(stop) => self.put(&format!("\"{stop}\"")),
            None => self.put("null"),
        }
        self.put(",\"stop_sequence\":null");
        if self.client.has_iterations() {
            self.put(",\"stop_details\":null");
        }
        self.put(",\"usage\":");
        write_usage(&mut self.line, self.client, response, output);
        self.put("}");
        if let Some(request) = &response.request {
            let field = format!(",\"requestId\":\"{request}\"");
            self.put(&field);
        }
        self.put(",\"type\":\"assistant\"");
        self.stamp(uuid);
        if self.close("assistant")? {
            response.best = response.best.max(Some(output));
            if self.line.len() < 8192 {
                self.last_assistant.clear();
                self.last_assistant.extend_from_slice(&self.line);
            }
        }
        self.leaf = Some(uuid);
        Ok(())
    }

    /// Ends a call: the truth gets it once, the context grows by what was produced.
    pub fn end_response(&mut self, response: &SynthResponse, recorded: u64) {
        let usage = &response.usage;
        if let Some(best) = response.best {
            let best = if response.zeroed { usage.output } else { best };
            let tally = TruthTally {
                responses: 1,
                input_tokens: usage.input,
                output_tokens: best,
                cache_read_tokens: usage.read,
                cache_write_5m_tokens: usage.write_5m,
                cache_write_1h_tokens: usage.write_1h,
            };
            self.truth.response(&response.model, &tally, usage.output);
        }
        // With several iterations only the last one is what the window held.
        let window = response.iterations.last().unwrap_or(usage);
        self.context.last_input = window.input_side();
        self.context.last_recorded = recorded;
        self.context.last_output = if self.client.checks_recorded_output() {
            recorded
        } else {
            usage.output
        };
        self.context.cached = window.input_side() - window.input;
        self.context.cached_at = self.now;
        self.context.size = self.context.size.max(window.input_side()) + window.output;
        self.context.trail = 0;
    }

    /// The output that line `at` of `lines` shows.
    fn shown_output(&self, at: usize, lines: usize, partial: u64, last_is_final: bool, output: u64) -> u64 {
        match self.client.output_style() {
            OutputStyle::FinalOnAll => output,
            OutputStyle::FinalOnLast if at + 1 == lines => output,
            OutputStyle::Partial if at + 1 == lines && last_is_final => output,
            _ => partial.min(output),
        }
    }

    /// A whole round: the lines of one response, the results of its calls, and what hangs between them.
    pub fn respond(&mut self, blocks: &[SynthBlock], order: ResultOrder) -> io::Result<()> {
        let output = blocks.iter().map(|block| block.tokens).sum::<u64>().max(4);
        let mut response = self.begin_response(output);
        self.respond_with(&mut response, blocks, order)
    }

    /// A round in which the server made two calls: the top-level usage is their sum, the last one is the window.
    pub fn respond_twice(&mut self, blocks: &[SynthBlock], order: ResultOrder) -> io::Result<()> {
        let output = blocks.iter().map(|block| block.tokens).sum::<u64>().max(4);
        let mut response = self.begin_response(output);
        let first = BilledUsage {
            output: output / 2,
            ..response.usage.clone()
        };
        let grown = first.output + 400;
        let second = BilledUsage {
            input: 2,
            read: first.read + first.write_5m + first.write_1h,
            write_5m: if self.hour_cache { 0 } else { grown },
            write_1h: if self.hour_cache { grown } else { 0 },
            output: output - first.output,
        };
        response.usage = BilledUsage {
            input: first.input + second.input,
            read: first.read + second.read,
            write_5m: first.write_5m + second.write_5m,
            write_1h: first.write_1h + second.write_1h,
            output,
        };
        response.iterations = vec![first, second];
        self.respond_with(&mut response, blocks, order)
    }

    /// The same for a response whose usage the caller has set.
    pub fn respond_with(
        &mut self,
        response: &mut SynthResponse,
        blocks: &[SynthBlock],
        order: ResultOrder,
    ) -> io::Result<()> {
        let output = response.usage.output;
        let partial = self.rng.range(1, 8);
        let last_is_final = self.rng.permille(300);
        let calls = blocks.iter().any(|block| block.call.is_some());
        let stop = if calls { "tool_use" } else { "end_turn" };
        self.wait(900, 6_000);
        let started = self.now;
        let mut waiting: Vec<(&SynthCall, Uuid)> = Vec::new();
        let mut shown = 0;
        for (at, block) in blocks.iter().enumerate() {
            shown = self.shown_output(at, blocks.len(), partial, last_is_final, output);
            let stop = match self.client.output_style() {
                OutputStyle::FinalOnAll => Some(stop),
                OutputStyle::FinalOnLast if at + 1 == blocks.len() => Some(stop),
                _ => None,
            };
            let uuid = self.assistant(response, self.leaf, &block.json, shown, stop)?;
            self.wait(80, 1_500);
            let Some(call) = &block.call else { continue };
            match order {
                ResultOrder::CallsFirst => waiting.push((call, uuid)),
                ResultOrder::Interleaved => self.result(call, uuid, uuid)?,
            }
        }
        self.end_response(response, shown);
        let is_thinking = |block: &&SynthBlock| block.json.starts_with(b"{\"type\":\"thinking\"");
        self.context.thinking += blocks.iter().filter(is_thinking).map(|block| block.tokens).sum::<u64>();
        // The cache entry dates from the first block.
        self.context.cached_at = started;
        for (call, uuid) in waiting {
            let parent = if self.client.results_hang_on_calls() {
                uuid
            } else {
                self.leaf.unwrap_or(uuid)
            };
            self.result(call, parent, uuid)?;
        }
        for call in blocks.iter().filter_map(|block| block.call.as_ref()) {
            self.add_to_context(call.outcome.units, call.outcome.tokens);
            if matches!(
                call.name,
                "Read" | "Bash" | "Grep" | "Glob" | "WebFetch" | "WebSearch" | "Edit" | "Write"
            ) {
                self.context.clearable.push(UnclearedResult {
                    id: call.id.clone(),
                    estimate: call.outcome.units / 4,
                    tokens: call.outcome.tokens,
                });
            }
        }
        Ok(())
    }

    fn result(&mut self, call: &SynthCall, parent: Uuid, source: Uuid) -> io::Result<()> {
        let mut above = Some(source);
        for (data, tool_id) in &call.progress {
            self.wait(50, 900);
            above = Some(self.progress(above, data, tool_id, &call.id)?);
        }
        self.wait(30, 4_000);
        let (content, after) = self.result_record(call, source);
        self.user(Some(parent), &content, "", &after)?;
        Ok(())
    }

    /// The message content of a tool result, and what follows the timestamp of its record.
    fn result_record(&self, call: &SynthCall, source: Uuid) -> (Vec<u8>, Vec<u8>) {
        let outcome = &call.outcome;
        let mut content = Vec::with_capacity(outcome.content.len() + 120);
        content.extend_from_slice(
            format!(
                "[{{\"tool_use_id\":\"{}\",\"type\":\"tool_result\",\"content\":",
                call.id
            )
            .as_bytes(),
        );
        content.extend_from_slice(&outcome.content);
        if outcome.error {
            content.extend_from_slice(b",\"is_error\":true");
        } else if call.name == "Bash" {
            content.extend_from_slice(b",\"is_error\":false");
        }
        content.extend_from_slice(b"}]");
        let mut after = Vec::with_capacity(outcome.kept.len() + 90);
        if !outcome.kept.is_empty() {
            after.extend_from_slice(b",\"toolUseResult\":");
            after.extend_from_slice(&outcome.kept);
        }
        if self.client.names_source_of_results() {
            after.extend_from_slice(format!(",\"sourceToolAssistantUUID\":\"{}\"", source.as_str()).as_bytes());
        }
        (content, after)
    }

    /// A message the client made up itself; it was never billed.
    pub fn synthetic(&mut self, text: &str, is_error: bool) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        let id = Uuid::new(&mut self.rng);
        self.open(self.leaf);
        self.put(",\"type\":\"assistant\"");
        self.stamp(uuid);
        self.put(&format!(
            ",\"message\":{{\"id\":\"{}\",\"container\":null,\"model\":\"<synthetic>\",\"role\":\"assistant\",\
             \"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"\",\"type\":\"message\",\"usage\":{{\"input_tokens\":0,\
             \"output_tokens\":0,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"server_tool_use\":\
             {{\"web_search_requests\":0,\"web_fetch_requests\":0}},\"service_tier\":null,\"cache_creation\":\
             {{\"ephemeral_1h_input_tokens\":0,\"ephemeral_5m_input_tokens\":0}}}},\"content\":[{{\"type\":\"text\",\
             \"text\":{}}}],\"context_management\":null}},\"isApiErrorMessage\":{is_error}",
            id.as_str(),
            quoted(text)
        ));
        self.close("assistant")?;
        self.leaf = Some(uuid);
        Ok(uuid)
    }

    /// Closes the log and hands over its truth.
    pub fn finish(mut self) -> io::Result<(W, Truth, Option<SessionPrefix>)> {
        if self.identity.agent_id.is_some() {
            self.truth.subagents += 1;
        } else {
            self.truth.sessions += 1;
        }
        let out = self.sink.finish(&mut self.truth)?;
        Ok((out, self.truth, self.prefix))
    }
}

/// A text as a JSON string value.
pub fn string_value(text: &SynthText) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.escaped.len() + 2);
    out.push(b'"');
    out.extend_from_slice(&text.escaped);
    out.push(b'"');
    out
}

/// The `usage` object of one line. Zeroed usage keeps its `cache_creation` detail, as the client leaves it.
fn write_usage(line: &mut Vec<u8>, client: ClientRelease, response: &SynthResponse, output: u64) {
    let usage = &response.usage;
    let shown = |value: u64| if response.zeroed { 0 } else { value };
    let mut field = |key: &str, value: u64| {
        line.extend_from_slice(key.as_bytes());
        number_into(line, value);
    };
    field("{\"input_tokens\":", shown(usage.input));
    field(
        ",\"cache_creation_input_tokens\":",
        shown(usage.write_5m + usage.write_1h),
    );
    field(",\"cache_read_input_tokens\":", shown(usage.read));
    if client.has_iterations() {
        field(",\"output_tokens\":", output);
        line.extend_from_slice(
            b",\"server_tool_use\":{\"web_search_requests\":0,\"web_fetch_requests\":0},\"service_tier\":\"standard\"",
        );
        write_split(line, usage, true);
        line.extend_from_slice(b",\"inference_geo\":\"not_available\",\"iterations\":[");
        let single = [BilledUsage {
            output,
            ..usage.clone()
        }];
        let iterations = if response.iterations.is_empty() {
            &single[..]
        } else {
            &response.iterations[..]
        };
        for (at, iteration) in iterations.iter().enumerate() {
            if at > 0 {
                line.push(b',');
            }
            line.extend_from_slice(b"{\"input_tokens\":");
            number_into(line, iteration.input);
            line.extend_from_slice(b",\"output_tokens\":");
            number_into(line, iteration.output);
            line.extend_from_slice(b",\"cache_read_input_tokens\":");
            number_into(line, iteration.read);
            line.extend_from_slice(b",\"cache_creation_input_tokens\":");
            number_into(line, iteration.write_5m + iteration.write_1h);
            write_split(line, iteration, false);
            line.extend_from_slice(b",\"type\":\"message\"}");
        }
        line.extend_from_slice(b"],\"speed\":\"standard\"}");
    } else {
        if client.splits_cache_writes() {
            write_split(line, usage, false);
        }
        line.extend_from_slice(b",\"output_tokens\":");
        number_into(line, output);
        line.extend_from_slice(b",\"service_tier\":\"standard\"}");
    }
}

fn write_split(line: &mut Vec<u8>, usage: &BilledUsage, hour_first: bool) {
    let (hour, minutes) = (("1h", usage.write_1h), ("5m", usage.write_5m));
    let pair = if hour_first { [hour, minutes] } else { [minutes, hour] };
    line.extend_from_slice(b",\"cache_creation\":{");
    for (at, (name, value)) in pair.into_iter().enumerate() {
        line.extend_from_slice(if at == 0 { b"\"ephemeral_" } else { b",\"ephemeral_" });
        line.extend_from_slice(name.as_bytes());
        line.extend_from_slice(b"_input_tokens\":");
        number_into(line, value);
    }
    line.push(b'}');
}
