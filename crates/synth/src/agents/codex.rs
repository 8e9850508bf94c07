//! Writes threads of Codex: `{"timestamp", "type", "payload"}` a line.

use super::{AgentUsage, CWD, START};
use crate::damage::{Damage, LineSink};
use crate::json::timestamp;
use crate::truth::Truth;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Model of the imaginary threads.
pub(super) const MODEL: &str = "gpt-5.5";

/// Window that the log shows: 95 % of 272,000.
pub(super) const WINDOW: u64 = 258_400;

/// A line before it is written.
#[derive(Clone)]
struct CodexRow {
    now: u64,
    kind: &'static str,
    payload: Value,
    /// Records that a reader makes of it.
    records: u64,
    /// Usage, if it is the row of a call of this thread.
    call: Option<AgentUsage>,
    /// Whether it is the row of a call, of whatever thread.
    is_call: bool,
}

/// A thread that is being written.
pub(super) struct CodexThread {
    pub id: String,
    pub now: u64,
    rows: Vec<CodexRow>,
    total: AgentUsage,
    last: AgentUsage,
    calls: u64,
    /// Rows that were copied from another thread.
    copied: usize,
    /// Bytes of the rows, about.
    bytes: u64,
    damage: Vec<(usize, Damage)>,
    pub truth: Truth,
}

impl CodexThread {
    /// Starts a thread that a person began.
    pub fn new(id: &str) -> CodexThread {
        CodexThread::with_head(id, START, json!({"source": "cli"}))
    }

    fn with_head(id: &str, now: u64, more: Value) -> CodexThread {
        let mut thread = CodexThread {
            id: id.to_owned(),
            now,
            rows: Vec::new(),
            total: AgentUsage::default(),
            last: AgentUsage::default(),
            calls: 0,
            copied: 0,
            bytes: 0,
            damage: Vec::new(),
            truth: Truth::default(),
        };
        let mut head = json!({"id": id, "timestamp": timestamp(now), "cwd": CWD, "originator": "codex_cli_rs",
            "cli_version": "0.142.0", "model_provider": "openai", "git": {"branch": "main"}});
        if let (Value::Object(head), Value::Object(more)) = (&mut head, more) {
            head.extend(more);
        }
        thread.push("session_meta", head, 0);
        thread
    }

    /// Starts a thread that a person forked from `parent`: a head of its own, then the parent's lines up to now. Their times
    /// are kept, or all of them are the time of the fork.
    pub fn fork(parent: &CodexThread, id: &str, keeps_times: bool) -> CodexThread {
        let more = json!({"source": "cli", "forked_from_id": parent.id});
        let mut fork = CodexThread::with_head(id, parent.now + 60_000, more);
        fork.copy(parent, keeps_times, &|_| true);
        fork
    }

    /// Returns what a fork needs of this thread, which may be written meanwhile.
    pub fn fork_source(&self) -> CodexThread {
        CodexThread {
            id: self.id.clone(),
            rows: self.rows.clone(),
            damage: Vec::new(),
            truth: Truth::default(),
            ..*self
        }
    }

    /// Starts a thread that `parent` spawned. Of the parent's lines the client keeps prompts and rows of usage.
    pub fn spawn(parent: &CodexThread, id: &str) -> CodexThread {
        let spawn = json!({"subagent": {"thread_spawn": {"parent_thread_id": parent.id, "depth": 1}}});
        let mut child = CodexThread::with_head(id, parent.now + 2_000, json!({"source": spawn}));
        child.copy(parent, false, &|payload| {
            payload["role"] == "user" || payload["type"] == "token_count"
        });
        child
    }

    fn copy(&mut self, parent: &CodexThread, keeps_times: bool, keeps: &dyn Fn(&Value) -> bool) {
        for row in parent
            .rows
            .iter()
            .filter(|row| row.kind == "session_meta" || keeps(&row.payload))
        {
            // A row without the response before it stands for it.
            let stands_for_response = row.is_call && !keeps(&json!({"role": "assistant"}));
            let records = row.records + u64::from(stands_for_response);
            self.truth.copied_records += records;
            let now = if keeps_times { row.now } else { self.now };
            self.rows.push(CodexRow {
                now,
                call: None,
                ..row.clone()
            });
        }
        self.copied = self.rows.len();
        (self.total, self.last, self.calls) = (parent.total, parent.last, parent.calls);
    }

    /// Starts a turn under the model.
    pub fn start_turn(&mut self) {
        let started = json!({"type": "task_started", "model_context_window": WINDOW});
        self.push("event_msg", started, 0);
        self.push("turn_context", json!({"model": MODEL, "cwd": CWD, "effort": "high"}), 0);
    }

    pub fn end_turn(&mut self) {
        self.push("event_msg", json!({"type": "task_complete"}), 0);
    }

    fn push(&mut self, kind: &'static str, payload: Value, records: u64) {
        self.now += 1_000;
        self.bytes += 80 + payload.to_string().len() as u64;
        self.rows.push(CodexRow {
            now: self.now,
            kind,
            payload,
            records,
            call: None,
            is_call: false,
        });
    }

    pub fn item(&mut self, payload: Value) {
        self.push("response_item", payload, 1);
    }

    /// Writes a message of a person, as an item and as an event.
    pub fn prompt(&mut self, text: &str) {
        self.item(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}));
        self.push("event_msg", json!({"type": "user_message", "message": text}), 0);
    }

    /// Writes reasoning whose content was masked: its size is not in the log.
    pub fn reason(&mut self) {
        self.item(json!({"type": "reasoning", "summary": [], "encrypted_content": "REDACTED"}));
    }

    pub fn say(&mut self, text: &str) {
        self.item(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}));
        self.push("event_msg", json!({"type": "agent_message", "message": text}), 0);
    }

    /// Writes a shell command and returns the id of the call.
    pub fn run(&mut self, command: &str) -> String {
        self.calls += 1;
        let call = format!("call_{}_{}", self.id, self.calls);
        let arguments = json!({"cmd": command, "workdir": CWD}).to_string();
        self.item(json!({"type": "function_call", "name": "exec_command", "call_id": call, "arguments": arguments}));
        call
    }

    /// Writes a patch and returns the id of the call.
    pub fn patch(&mut self, patch: &str) -> String {
        self.calls += 1;
        let call = format!("call_{}_{}", self.id, self.calls);
        self.item(json!({"type": "custom_tool_call", "name": "apply_patch", "call_id": call, "input": patch}));
        call
    }

    pub fn result(&mut self, call: &str, text: &str) {
        let output = format!("Process exited with code 0\nOutput:\n{text}");
        self.item(json!({"type": "function_call_output", "call_id": call, "output": output}));
    }

    pub fn patch_result(&mut self, call: &str) {
        let output = json!({"output": "Success. Updated the files.", "metadata": {"exit_code": 0}}).to_string();
        self.item(json!({"type": "custom_tool_call_output", "call_id": call, "output": output}));
    }

    /// Writes the row of a call.
    pub fn count(&mut self, call: AgentUsage) {
        self.total = self.total.plus(call);
        self.last = call;
        self.push_counts(counts(self.last));
        if let Some(row) = self.rows.last_mut() {
            (row.call, row.is_call) = (Some(call), true);
        }
    }

    /// Writes the row of the last call again, as the client does when only the limits changed.
    pub fn repeat_counts(&mut self) {
        self.push_counts(counts(self.last));
    }

    /// Writes the row after a compaction: an estimate of the new context, and no call.
    pub fn estimate(&mut self, total: u64) {
        let mut last = counts(AgentUsage::default());
        last["total_tokens"] = total.into();
        self.push_counts(last);
    }

    fn push_counts(&mut self, last: Value) {
        let info = json!({"total_token_usage": counts(self.total), "last_token_usage": last,
            "model_context_window": WINDOW});
        let limits = json!({"primary": {"used_percent": self.rows.len() % 100, "window_minutes": 300}});
        self.push(
            "event_msg",
            json!({"type": "token_count", "info": info, "rate_limits": limits}),
            0,
        );
    }

    /// Writes a compaction on the server that keeps these prompts.
    pub fn compact(&mut self, kept: &[&str]) {
        let kept = kept
            .iter()
            .map(|text| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}));
        let summary = json!({"type": "compaction", "encrypted_content": "REDACTED"});
        let history = kept.chain(std::iter::once(summary)).collect::<Vec<_>>();
        self.push("compacted", json!({"message": "", "replacement_history": history}), 2);
        self.truth.boundaries_auto += 1;
    }

    pub fn roll_back(&mut self, turns: u64) {
        self.push(
            "event_msg",
            json!({"type": "thread_rolled_back", "num_turns": turns}),
            0,
        );
        self.truth.rewound_branches += 1;
    }

    pub fn name_thread(&mut self, title: &str) {
        self.push(
            "event_msg",
            json!({"type": "thread_name_updated", "thread_name": title}),
            0,
        );
    }

    /// Damages the next line.
    pub fn damage(&mut self, damage: Damage) {
        self.damage.push((self.rows.len(), damage));
    }

    /// Returns the context after the last call.
    pub fn context(&self) -> u64 {
        self.last.total()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns where the client would put the log.
    pub fn path(&self) -> String {
        let start = timestamp(self.rows.first().map_or(START, |row| row.now));
        let (day, second) = (start[..10].replace('-', "/"), start[..19].replace(':', "-"));
        format!("sessions/{day}/rollout-{second}-{}.jsonl", self.id)
    }

    /// Writes the lines. Heads are never damaged: without them a log belongs to no session.
    pub fn write<W: Write>(mut self, mut sink: LineSink<W>) -> io::Result<(W, Truth)> {
        let mut truth = std::mem::take(&mut self.truth);
        for (at, row) in self.rows.iter().enumerate() {
            if let Some((_, damage)) = self.damage.iter().find(|(place, _)| *place == at) {
                sink.force_damage(*damage);
            }
            let time = timestamp(row.now);
            let line = format!(
                "{{\"timestamp\":\"{time}\",\"type\":\"{}\",\"payload\":{}}}",
                row.kind, row.payload
            );
            let is_head = matches!(row.kind, "session_meta" | "turn_context") || at < self.copied;
            let survived = sink.write_row(line.as_bytes(), row.kind, is_head, &mut truth)?;
            if let Some(call) = row.call.filter(|_| survived) {
                truth.response(MODEL, &call.tally(), call.output);
            }
        }
        let out = sink.finish(&mut truth)?;
        Ok((out, truth))
    }
}

/// Returns counts as the client writes them: input includes what was cached, output includes reasoning.
fn counts(usage: AgentUsage) -> Value {
    json!({"input_tokens": usage.fresh + usage.cached, "cached_input_tokens": usage.cached,
        "output_tokens": usage.output, "reasoning_output_tokens": usage.reasoning, "total_tokens": usage.total()})
}
