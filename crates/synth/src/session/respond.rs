//! Responses: the lines of one API call, the results of its tool calls, and its `usage` as the client records it.

use super::compaction::UnclearedResult;
use super::{ResultOrder, SynthBlock, SynthCall, SynthSession};
use crate::client::{ClientRelease, OutputStyle};
use crate::json::{Uuid, api_id, number_into, quoted};
use crate::truth::TruthTally;
use std::io::{self, Write};

/// Billed tokens of one response.
#[derive(Clone, Default)]
pub struct BilledUsage {
    pub input: u64,
    pub read: u64,
    pub write_5m: u64,
    pub write_1h: u64,
    pub output: u64,
}

impl BilledUsage {
    /// Returns all input tokens.
    pub fn input_side(&self) -> u64 {
        self.input + self.read + self.write_5m + self.write_1h
    }
}

/// A call of another model inside a response.
#[derive(Clone)]
pub struct InnerResponse {
    pub model: &'static str,
    pub usage: BilledUsage,
    /// Whether the model was asked first and declined; otherwise it gave advice.
    pub has_declined: bool,
}

/// An API call while its lines are being written.
pub struct SynthResponse {
    pub id: String,
    pub request: Option<String>,
    pub model: String,
    /// Billed tokens, with the final output.
    pub usage: BilledUsage,
    /// The iterations that the server made inside this call, if there is more than one.
    pub iterations: Vec<BilledUsage>,
    /// Calls of other models inside this one, which the top-level counts leave out.
    pub others: Vec<InnerResponse>,
    /// Whether the top-level counts are written as zero, so that only the iterations show the usage.
    pub zeroed: bool,
    /// Largest output on a readable line; `None` if no line is readable.
    best: Option<u64>,
}

/// One line of a response.
#[derive(Clone, Copy)]
pub struct AssistantLine<'b> {
    pub parent: Option<Uuid>,
    /// JSON of the content block.
    pub block: &'b [u8],
    /// Output tokens that the line shows.
    pub output: u64,
    pub stop: Option<&'b str>,
}

impl<W: Write> SynthSession<'_, W> {
    /// Starts a call that sends the whole context, split by what the prompt cache still holds.
    pub fn begin_response(&mut self, output: u64) -> SynthResponse {
        let total = self.context.size;
        let life = if self.hour_cache { 3_600_000 } else { 300_000 };
        let alive = self.context.cached > 0 && self.now.saturating_sub(self.context.cached_at) < life;
        let read = if alive {
            self.context.cached.min(total)
        } else if self.rng.permille(600) {
            // Another session of the same user may keep the system prompt in the cache.
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
            others: Vec::new(),
            zeroed: false,
            best: None,
        }
    }

    /// Writes one line of a response and returns its id.
    pub fn assistant(&mut self, response: &mut SynthResponse, line: AssistantLine<'_>) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        self.assistant_as(uuid, response, line)?;
        Ok(uuid)
    }

    /// Writes one line of a response under a given id.
    pub(super) fn assistant_as(
        &mut self,
        uuid: Uuid,
        response: &mut SynthResponse,
        line: AssistantLine<'_>,
    ) -> io::Result<()> {
        self.open(line.parent);
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
        self.put_bytes(line.block);
        self.put("],\"stop_reason\":");
        match line.stop {
            Some(stop) => self.put(&format!("\"{stop}\"")),
            None => self.put("null"),
        }
        self.put(",\"stop_sequence\":null");
        if self.client.has_iterations() {
            self.put(",\"stop_details\":null");
        }
        self.put(",\"usage\":");
        write_usage(&mut self.record.line, self.client, response, line.output);
        self.put("}");
        if let Some(request) = &response.request {
            let field = format!(",\"requestId\":\"{request}\"");
            self.put(&field);
        }
        self.put(",\"type\":\"assistant\"");
        self.stamp(uuid);
        if self.close("assistant")? {
            response.best = response.best.max(Some(line.output));
            self.copies.keep_assistant_line(&self.record.line);
        }
        self.leaf = Some(uuid);
        Ok(())
    }

    /// Ends a call: counts it once in the truth and adds its output to the context.
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
            for other in &response.others {
                let usage = &other.usage;
                let tally = TruthTally {
                    responses: 1,
                    input_tokens: usage.input,
                    output_tokens: usage.output,
                    cache_read_tokens: usage.read,
                    cache_write_5m_tokens: usage.write_5m,
                    cache_write_1h_tokens: usage.write_1h,
                };
                self.truth.response(other.model, &tally, usage.output);
            }
        }
        // With several iterations, only the last one shows the window.
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

    /// Returns the output tokens that line `at` of `lines` shows.
    fn shown_output(&self, at: usize, lines: usize, partial: u64, last_is_final: bool, output: u64) -> u64 {
        match self.client.output_style() {
            OutputStyle::FinalOnAll => output,
            OutputStyle::FinalOnLast if at + 1 == lines => output,
            OutputStyle::Partial if at + 1 == lines && last_is_final => output,
            _ => partial.min(output),
        }
    }

    /// Writes a whole round: the lines of one response, the results of its calls, and the progress records in between.
    pub fn respond(&mut self, blocks: &[SynthBlock], order: ResultOrder) -> io::Result<()> {
        let output = blocks.iter().map(|block| block.tokens).sum::<u64>().max(4);
        let mut response = self.begin_response(output);
        self.respond_with(&mut response, blocks, order)
    }

    /// Writes a round of two server iterations: the top-level usage is their sum, the last one shows the window.
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

    /// Writes a round for a response whose usage the caller has set.
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
            let line = AssistantLine {
                parent: self.leaf,
                block: &block.json,
                output: shown,
                stop,
            };
            let uuid = self.assistant(response, line)?;
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
        // The cache entry dates from the first line.
        self.context.cached_at = started;
        for (call, uuid) in waiting {
            let parent = if self.client.results_hang_on_calls() {
                uuid
            } else {
                self.leaf.unwrap_or(uuid)
            };
            self.result(call, parent, uuid)?;
        }
        self.count_results(blocks);
        Ok(())
    }

    /// Adds the results of a response to the context, and to the results that micro-compaction may clear.
    fn count_results(&mut self, blocks: &[SynthBlock]) {
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
    }

    /// Writes the result of a call under `parent`; `source` is the line that made the call.
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

    /// Returns the message content of a tool result, and what follows the timestamp of its record.
    pub(super) fn result_record(&self, call: &SynthCall, source: Uuid) -> (Vec<u8>, Vec<u8>) {
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

    /// Writes a message that the client invented itself; it was never billed.
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
}

/// Writes the `usage` object of one line. Zeroed usage keeps its `cache_creation` detail, as the client does.
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
        let declined = response.others.iter().filter(|other| other.has_declined);
        for other in declined.clone() {
            write_iteration(line, &other.usage, "message", Some(other.model));
        }
        for (at, iteration) in iterations.iter().enumerate() {
            match declined.clone().count() {
                0 => write_iteration(line, iteration, "message", None),
                _ => write_iteration(line, iteration, "fallback_message", Some(&response.model)),
            }
            let advice = response.others.iter().filter(|other| at == 0 && !other.has_declined);
            for other in advice {
                write_iteration(line, &other.usage, "advisor_message", Some(other.model));
            }
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

/// Writes one entry of `iterations`.
fn write_iteration(line: &mut Vec<u8>, iteration: &BilledUsage, kind: &str, model: Option<&str>) {
    if line.last() == Some(&b'}') {
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
    line.extend_from_slice(format!(",\"type\":\"{kind}\"").as_bytes());
    if let Some(model) = model {
        line.extend_from_slice(format!(",\"model\":\"{model}\"").as_bytes());
    }
    line.push(b'}');
}

/// Writes `cache_creation`: cache writes by lifetime.
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
