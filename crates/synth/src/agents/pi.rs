//! Writes sessions of Pi: one entry per line, a tree by `parentId`.

use super::{AgentUsage, CWD, START};
use crate::damage::{Damage, LineSink};
use crate::json::timestamp;
use crate::truth::Truth;
use serde_json::{Value, json};
use std::io::{self, Write};

/// Model of the imaginary sessions.
pub(super) const MODEL: &str = "claude-sonnet-4-5";

/// A line before it is written.
#[derive(Clone)]
struct PiRow {
    entry: Value,
    kind: &'static str,
    call: Option<AgentUsage>,
    /// Records that a reader makes of it.
    records: u64,
}

/// A session that is being written.
pub(super) struct PiSession {
    pub id: String,
    pub now: u64,
    rows: Vec<PiRow>,
    leaf: Option<String>,
    bytes: u64,
    copied: usize,
    damage: Vec<(usize, Damage)>,
    pub truth: Truth,
}

impl PiSession {
    pub fn new(id: &str) -> PiSession {
        PiSession::with_head(id, START, json!({}))
    }

    fn with_head(id: &str, now: u64, more: Value) -> PiSession {
        let mut head = json!({"type": "session", "version": 3, "id": id, "timestamp": timestamp(now), "cwd": CWD});
        if let (Value::Object(head), Value::Object(more)) = (&mut head, more) {
            head.extend(more);
        }
        let rows = vec![PiRow {
            entry: head,
            kind: "session",
            call: None,
            records: 0,
        }];
        PiSession {
            id: id.to_owned(),
            now,
            rows,
            leaf: None,
            bytes: 0,
            copied: 0,
            damage: Vec::new(),
            truth: Truth::default(),
        }
    }

    /// Starts a session that was forked from another one: its entries with their ids and times.
    pub fn fork(parent: &PiSession, id: &str) -> PiSession {
        let path = format!(
            "/home/dev/.pi/agent/sessions/--orchard--/2026-05-05T16-00-00-000Z_{}.jsonl",
            parent.id
        );
        let mut fork = PiSession::with_head(id, parent.now + 60_000, json!({"parentSession": path}));
        for row in &parent.rows[1..] {
            fork.truth.copied_records += row.records;
            fork.rows.push(PiRow {
                call: None,
                ..row.clone()
            });
        }
        fork.copied = fork.rows.len();
        fork.leaf.clone_from(&parent.leaf);
        fork
    }

    /// Returns what a fork needs of this session, which may be written meanwhile.
    pub fn fork_source(&self) -> PiSession {
        PiSession {
            id: self.id.clone(),
            rows: self.rows.clone(),
            leaf: self.leaf.clone(),
            damage: Vec::new(),
            truth: Truth::default(),
            ..*self
        }
    }

    /// Writes an entry after the leaf and returns its id.
    fn push(&mut self, kind: &'static str, more: Value, records: u64) -> String {
        self.now += 1_000;
        let id = format!("{:08x}", self.rows.len() as u64 * 0x9e37 + 1);
        let mut entry = json!({"type": kind, "id": id, "parentId": self.leaf, "timestamp": timestamp(self.now)});
        if let (Value::Object(entry), Value::Object(more)) = (&mut entry, more) {
            entry.extend(more);
        }
        self.bytes += entry.to_string().len() as u64;
        self.rows.push(PiRow {
            entry,
            kind,
            call: None,
            records,
        });
        self.leaf = Some(id.clone());
        id
    }

    fn message(&mut self, message: Value) -> String {
        self.push("message", json!({"message": message}), 1)
    }

    pub fn choose_model(&mut self) {
        self.push("model_change", json!({"provider": "anthropic", "modelId": MODEL}), 0);
    }

    pub fn prompt(&mut self, text: &str) -> String {
        self.message(json!({"role": "user", "content": [{"type": "text", "text": text}]}))
    }

    /// Writes a response: a text, and a call of this tool.
    pub fn respond(&mut self, text: &str, tool: Option<(&str, &str, Value)>, call: AgentUsage) -> String {
        let mut content = vec![json!({"type": "text", "text": text})];
        let stop = if tool.is_some() { "toolUse" } else { "stop" };
        if let Some((id, name, arguments)) = tool {
            content.push(json!({"type": "toolCall", "id": id, "name": name, "arguments": arguments}));
        }
        let usage = json!({"input": call.fresh, "output": call.output, "cacheRead": call.cached, "cacheWrite": 0,
            "totalTokens": call.total()});
        let id = self.message(
            json!({"role": "assistant", "content": content, "model": MODEL, "usage": usage,
            "stopReason": stop}),
        );
        if let Some(row) = self.rows.last_mut() {
            row.call = Some(call);
        }
        id
    }

    pub fn result(&mut self, call: &str, text: &str) -> String {
        let content = json!([{"type": "text", "text": text}]);
        self.message(json!({"role": "toolResult", "toolCallId": call, "content": content, "isError": false}))
    }

    /// Returns to an entry: what follows is another branch.
    pub fn go_back(&mut self, entry: &str) {
        self.leaf = Some(entry.to_owned());
        self.truth.rewound_branches += 1;
    }

    pub fn compact(&mut self, before: u64, first_kept: &str, summary: &str) {
        let more = json!({"summary": summary, "tokensBefore": before, "firstKeptEntryId": first_kept});
        self.push("compaction", more, 2);
        self.truth.boundaries_auto += 1;
    }

    /// Damages the next line.
    pub fn damage(&mut self, damage: Damage) {
        self.damage.push((self.rows.len(), damage));
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn path(&self) -> String {
        let start = timestamp(self.rows.first().map_or(START, |_| self.now)).replace([':', '.'], "-");
        format!("sessions/--home-dev-projects-orchard--/{start}_{}.jsonl", self.id)
    }

    /// Writes the lines. The head is never damaged.
    pub fn write<W: Write>(mut self, mut sink: LineSink<W>) -> io::Result<(W, Truth)> {
        let mut truth = std::mem::take(&mut self.truth);
        truth.sessions += 1;
        for (at, row) in self.rows.iter().enumerate() {
            if let Some((_, damage)) = self.damage.iter().find(|(place, _)| *place == at) {
                sink.force_damage(*damage);
            }
            let line = in_usual_order(&row.entry);
            let survived = sink.write_row(line.as_bytes(), row.kind, at <= self.copied, &mut truth)?;
            if let Some(call) = row.call.filter(|_| survived) {
                truth.response(MODEL, &call.tally(), call.output);
            }
        }
        let out = sink.finish(&mut truth)?;
        Ok((out, truth))
    }
}

/// Returns an entry with the members in the order of the client: what the repair of a damaged line goes by.
fn in_usual_order(entry: &Value) -> String {
    const FIRST: [&str; 4] = ["type", "id", "parentId", "timestamp"];
    let members = entry.as_object().into_iter().flatten();
    let later = members.filter(|(key, _)| !FIRST.contains(&key.as_str()));
    let first = FIRST.iter().filter_map(|key| Some((*key, entry.get(key)?)));
    let all = first.chain(later.map(|(key, value)| (key.as_str(), value)));
    let all = all.map(|(key, value)| format!("\"{key}\":{value}")).collect::<Vec<_>>();
    format!("{{{}}}", all.join(","))
}
