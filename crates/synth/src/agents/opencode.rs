//! Writes exports of OpenCode: one JSON object per session.

use super::{AgentUsage, CWD, START};
use crate::truth::Truth;
use serde_json::{Value, json};

/// A session that is being written.
pub(super) struct OpenCodeExport {
    pub id: String,
    pub now: u64,
    model: &'static str,
    info: Value,
    messages: Vec<Value>,
    parts: u64,
    bytes: u64,
    pub truth: Truth,
}

impl OpenCodeExport {
    pub fn new(id: &str, model: &'static str) -> OpenCodeExport {
        let info = json!({"id": format!("ses_{id}"), "slug": "quiet-orchard", "directory": CWD, "version": "1.18.11",
            "title": "Look after the orchard", "time": {"created": START}});
        let mut truth = Truth::default();
        truth.record("session");
        OpenCodeExport {
            id: format!("ses_{id}"),
            now: START,
            model,
            info,
            messages: Vec::new(),
            parts: 0,
            bytes: 0,
            truth,
        }
    }

    /// Starts a session that `parent` spawned.
    pub fn spawn(parent: &OpenCodeExport, id: &str) -> OpenCodeExport {
        let mut child = OpenCodeExport::new(id, parent.model);
        child.now = parent.now + 1_000;
        child.info["parentID"] = json!(parent.id);
        child
    }

    /// Writes a message and returns its id.
    fn push(&mut self, mut info: Value, parts: Vec<Value>) -> String {
        self.now += 1_000;
        let id = format!("msg_{}_{:04}", self.id, self.messages.len());
        info["id"] = json!(id);
        info["sessionID"] = json!(self.id);
        info["time"] = json!({"created": self.now});
        let numbered = parts.into_iter().map(|mut part| {
            self.parts += 1;
            part["id"] = json!(format!("prt_{}_{:04}", self.id, self.parts));
            self.truth.record("part");
            part
        });
        let message = json!({"info": info, "parts": numbered.collect::<Vec<_>>()});
        self.bytes += message.to_string().len() as u64;
        self.messages.push(message);
        self.truth.record("message");
        id
    }

    pub fn prompt(&mut self, text: &str) -> String {
        self.push(json!({"role": "user"}), vec![json!({"type": "text", "text": text})])
    }

    /// Writes a response of one step: a text, and calls with their results.
    pub fn respond(&mut self, text: &str, tools: Vec<Value>, call: AgentUsage) -> String {
        let tokens = tokens(call);
        let mut parts = vec![json!({"type": "step-start"}), json!({"type": "text", "text": text})];
        let reason = if tools.is_empty() { "stop" } else { "tool-calls" };
        parts.extend(tools);
        parts.push(json!({"type": "step-finish", "reason": reason, "tokens": tokens, "cost": 0}));
        self.truth.response(self.model, &call.tally(), call.output);
        self.push(
            json!({"role": "assistant", "modelID": self.model, "providerID": "opencode", "tokens": tokens}),
            parts,
        )
    }

    /// Returns a call with its result. `cleared` says how long after the call the result was pruned.
    pub fn tool(&self, number: u64, name: &str, input: Value, output: &str, cleared: Option<u64>) -> Value {
        let mut time = json!({"start": self.now + 100, "end": self.now + 600});
        if let Some(later) = cleared {
            time["compacted"] = json!(self.now + later);
        }
        json!({"type": "tool", "tool": name, "callID": format!("call_{}_{number}", self.id),
            "state": {"status": "completed", "input": input, "output": output, "title": name, "time": time}})
    }

    /// Writes a compaction: the request, and the summary with the usage of its call. `tail` is the first message that stays.
    pub fn compact(&mut self, is_overflow: bool, tail: Option<&str>, summary: &str, call: AgentUsage) {
        let mut part = json!({"type": "compaction", "auto": true, "overflow": is_overflow});
        if let Some(tail) = tail {
            part["tail_start_id"] = json!(tail);
        }
        self.push(json!({"role": "user"}), vec![part]);
        self.truth.response(self.model, &call.tally(), call.output);
        let info = json!({"role": "assistant", "summary": true, "modelID": self.model, "providerID": "opencode",
            "tokens": tokens(call)});
        self.push(info, vec![json!({"type": "text", "text": summary})]);
        self.truth.boundaries_auto += 1;
        // The call that writes a summary is counted as a sub-agent.
        self.truth.subagents += 1;
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the export as the client prints it.
    pub fn finish(mut self) -> (Vec<u8>, Truth) {
        let export = json!({"info": self.info, "messages": self.messages});
        let mut bytes = serde_json::to_vec_pretty(&export).expect("values are JSON");
        bytes.push(b'\n');
        self.truth.files += 1;
        self.truth.bytes += bytes.len() as u64;
        self.truth.lines += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        (bytes, self.truth)
    }
}

/// Returns counts as the client writes them: reasoning stands beside the output.
fn tokens(usage: AgentUsage) -> Value {
    json!({"input": usage.fresh, "output": usage.output - usage.reasoning, "reasoning": usage.reasoning,
        "cache": {"read": usage.cached, "write": 0}, "total": usage.total()})
}
