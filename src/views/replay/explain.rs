//! `backcast replay --explain`: the misses of one session, so that each can be checked against the log.

use crate::views::format_minute;
use jiff::tz::TimeZone;
use notes::conversation::Conversation;
use replay::audit::misses::{DropCause, ItemDrop, MissCollector, MissedUse};
use replay::sim::event::{CompactionCause, CompactionKind};
use replay::sim::trace::Trace;
use replay::sim::uses::item_node;
use replay::sim::working_set::UseOutcome;
use serde_json::Value as Json;
use std::fmt::Write;
use table::human::{format_count, format_count_with_plural, group_digits};
use transcript::line_hashes::line_hash;
use transcript::messages::MessagePart;

/// Lines that are shown of each miss.
const SHOWN_LINES: usize = 5;

/// Characters that are shown of a line.
const SHOWN_CHARS: usize = 100;

/// The misses of a session under a policy.
#[derive(Debug, Default)]
pub struct SessionExplanation {
    /// Session id.
    pub session: String,
    calls: u64,
    boundaries: u64,
    uses: u64,
    misses: u64,
    text: String,
}

impl SessionExplanation {
    /// For a session of which no chain was added yet.
    pub fn new(session: &str) -> SessionExplanation {
        SessionExplanation {
            session: session.to_owned(),
            ..SessionExplanation::default()
        }
    }

    /// Adds the misses of a chain. `read` gives its words; they are asked for only if there is a miss.
    pub fn add_chain(
        &mut self,
        trace: &Trace,
        project: &str,
        found: &MissCollector<'_>,
        zone: &TimeZone,
        read: impl FnOnce() -> Conversation,
    ) {
        self.calls += trace.calls.iter().filter(|call| !call.is_copied).count() as u64;
        self.boundaries += found.boundaries.len() as u64;
        self.uses += found.use_count;
        if found.misses.is_empty() {
            return;
        }
        let words = read();
        let chain = ExplainedChain {
            trace,
            found,
            zone,
            words: &words,
            project,
        };
        if trace.is_sidechain {
            let _ = writeln!(self.text, "\nSub-agent {}", trace.agent);
        }
        if let Some(log) = chain.log() {
            let _ = writeln!(self.text, "Log: {log}");
        }
        for miss in &found.misses {
            self.misses += 1;
            let _ = writeln!(self.text);
            chain.write_miss(self.misses, miss, &mut self.text);
        }
    }

    /// Returns all of it, the answer first.
    pub fn to_text(&self, policy: &str) -> String {
        let basis = format!(
            "policy {policy}, {}, {}",
            format_count(self.calls, "call"),
            format_count_with_plural(self.boundaries, "compaction", "compactions")
        );
        let answer = match (self.uses, self.misses) {
            (0, _) => "No edit of a file that the session had seen before, so nothing could be missed".to_owned(),
            (uses, 0) => format!(
                "Nothing was missed: the window held what {} needed",
                format_count(uses, "edit")
            ),
            (uses, misses) => format!(
                "{} of {} needed lines that were no longer in the window",
                group_digits(misses),
                format_count(uses, "edit")
            ),
        };
        let mut text = format!("Session {}: {answer} ({basis}).\n", self.session);
        text.push_str(&self.text);
        if self.misses > 0 {
            text.push_str(
                "\nEdits are those in the log. What the agent would have done without the lines is not simulated.\n",
            );
        }
        text
    }
}

/// A chain while its misses are written.
struct ExplainedChain<'a> {
    trace: &'a Trace,
    found: &'a MissCollector<'a>,
    zone: &'a TimeZone,
    words: &'a Conversation,
    /// Folder that paths are shown from.
    project: &'a str,
}

impl ExplainedChain<'_> {
    fn write_miss(&self, number: u64, miss: &MissedUse, text: &mut String) {
        let path = self.shown_path(miss.path);
        let tool = self.tool_of(miss.item);
        let what = match miss.gone_lines.is_empty() {
            true if miss.needed == 1 => "no copy of it was in the window".to_owned(),
            _ => format!(
                "{} of the {} that it replaces {} gone",
                miss.gone,
                format_count(miss.needed as u64, "line"),
                if miss.gone == 1 { "was" } else { "were" }
            ),
        };
        let _ = writeln!(text, "{number}. {tool} {path}: {what}.");
        let call = self.name_call(miss.call);
        let _ = writeln!(text, "   Needed by {call}{}.", self.name_place(miss.item));
        if let Some(holder) = miss.holder {
            let held = format!("   Last held by {}{}", self.name_item(holder), self.name_place(holder));
            let dropped = miss.dropped.map(|drop| format!("; {}", self.name_drop(drop)));
            let _ = writeln!(text, "{held}{}.", dropped.unwrap_or_default());
        }
        match miss.outcome {
            UseOutcome::Restored => {
                let _ = writeln!(
                    text,
                    "   The client put the file back after the compaction; the log does not show how much of it."
                );
            }
            UseOutcome::InFlight => {
                let _ = writeln!(text, "   The compaction came before the model had seen the lines.");
            }
            UseOutcome::Live | UseOutcome::Filled | UseOutcome::Missed => {}
        }
        let lines = self.gone_lines(miss);
        for line in lines.iter().take(SHOWN_LINES) {
            let _ = writeln!(text, "     {line}");
        }
        if lines.len() > SHOWN_LINES {
            let more = (lines.len() - SHOWN_LINES) as u64;
            let _ = writeln!(text, "     and {}", format_count(more, "more line"));
        }
    }

    fn tool_of(&self, item: u32) -> &str {
        let item = &self.trace.items[item as usize];
        &self.trace.tools[usize::from(item.tool)]
    }

    /// Returns what an item is: the tool of a call or a result, else its category.
    fn name_item(&self, item: u32) -> String {
        match self.tool_of(item) {
            "" => self.trace.items[item as usize].category.name().replace('_', " "),
            tool => format!("the {tool}"),
        }
    }

    fn name_call(&self, call: u32) -> String {
        let time = self.trace.calls.get(call as usize).map(|call| call.time);
        match time.and_then(|time| format_minute(time, self.zone)) {
            Some(time) => format!("call {call} ({time})"),
            None => format!("call {call}"),
        }
    }

    /// Returns the log of the first miss.
    fn log(&self) -> Option<&str> {
        let first = self.found.misses.first()?;
        Some(self.found.place_of(first.item)?.0)
    }

    /// Returns the line that an item stands on, with its log if that is another one.
    fn name_place(&self, item: u32) -> String {
        match self.found.place_of(item) {
            None => String::new(),
            Some((path, line)) if self.log() == Some(path) => format!(", line {line}"),
            Some((path, line)) => format!(", line {line} of {path}"),
        }
    }

    /// Returns a path, from the project's folder on if it lies there.
    fn shown_path(&self, path: u32) -> &str {
        let path = &self.trace.paths[path as usize];
        let inside = path
            .strip_prefix(self.project)
            .map(|inside| inside.trim_start_matches(['/', '\\']));
        inside
            .filter(|inside| !self.project.is_empty() && !inside.is_empty())
            .unwrap_or(path)
    }

    fn name_drop(&self, drop: ItemDrop) -> String {
        let call = self.name_call(drop.call);
        match drop.cause {
            DropCause::Micro(kind) => format!("cleared by a micro-compaction ({}) before {call}", kind.name()),
            DropCause::Compaction(cause, kind) => {
                let cause = match cause {
                    CompactionCause::Auto => "automatic",
                    CompactionCause::Manual => "manual",
                    CompactionCause::Reactive => "reactive",
                };
                let kind = match kind {
                    CompactionKind::SessionMemory => " by session notes",
                    CompactionKind::Full | CompactionKind::Partial => "",
                };
                format!("dropped by the {cause} compaction{kind} before {call}")
            }
        }
    }

    /// Returns the lines that were gone, as the edit has them.
    fn gone_lines(&self, miss: &MissedUse) -> Vec<String> {
        let Some(node) = item_node(self.trace, miss.item) else {
            return Vec::new();
        };
        let at = self.words.nodes.iter().position(|known| *known == Some(node));
        let parts = at
            .and_then(|at| self.words.messages.get(at))
            .map(|message| &message.parts);
        let inputs = parts.into_iter().flatten().filter_map(|part| match part {
            MessagePart::Call { input, .. } => Some(input),
            _ => None,
        });
        let mut replaced = Vec::new();
        for input in inputs {
            collect_replaced(input, &mut replaced);
        }
        let mut wanted = miss.gone_lines.clone();
        let lines = replaced.iter().flat_map(|text| text.lines());
        let gone = lines.filter(|line| line_hash(line).is_some_and(|hash| wanted.remove(&hash)));
        gone.map(|line| line.trim().chars().take(SHOWN_CHARS).collect())
            .collect()
    }
}

/// Collects the texts that an edit replaces, wherever its input has them.
fn collect_replaced(input: &Json, found: &mut Vec<String>) {
    match input {
        Json::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Json::String(text) if key == "old_string" || key == "old_str" => found.push(text.clone()),
                    value => collect_replaced(value, found),
                }
            }
        }
        Json::Array(values) => values.iter().for_each(|value| collect_replaced(value, found)),
        _ => {}
    }
}
