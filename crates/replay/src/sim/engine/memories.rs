//! Notes, memories and instructions in the replay: what a prompt recalls, what the end of a turn extracts, what a restart
//! or a compaction brings back, and what the client has forgotten.

use super::Replay;
use crate::prices::Tariff;
use crate::sim::ReplayMode;
use crate::sim::event::{Event, EventSink, SideCallPurpose};
use crate::sim::notes::keeps_notes;
use crate::sim::restore::is_remembered;
use crate::sim::steps::{CallStep, is_edit};
use crate::sim::trace::Call;
use crate::tokens::ledger::Category;
use std::ops::Range;
use transcript::log::{NO_TIME, Time};
use transcript::record::Tokens;

/// Bytes of a memory per token.
const BYTES_PER_TOKEN: u64 = 4;

/// The client's estimate of the shortest prompt that asks for memories; anything below is a single word.
const SHORTEST_QUERY: u32 = 4;

/// When memories are extracted next.
#[derive(Default)]
pub(super) struct ExtractionState {
    turns_since: u64,
    /// Whether the agent saved a memory itself during this turn.
    agent_wrote_memory: bool,
    /// When the last extraction ends; `None` without one, or without times.
    busy_until: Option<Time>,
    /// Tokens of the window at the newest turn that ended while an extraction ran.
    waiting: Option<u64>,
}

/// What was recalled since the last boundary, and what instructions wait to be attached again.
#[derive(Default)]
pub(super) struct RecallState {
    /// Bytes of memories in the window.
    bytes: u64,
    /// Instructions of folders that the last boundary dropped: index of the path, and tokens.
    nested: Vec<(u32, u64)>,
}

impl<S: EventSink> Replay<'_, S> {
    /// Adds what the client reads before a call that is not part of the record: memories for a prompt, and the notes after a
    /// restart.
    #[inline]
    pub(super) fn recall(&mut self, at: usize, call: &Call) {
        if self.input.mode == ReplayMode::Follow || !(call.starts_turn | call.continuity.is_resume) {
            return;
        }
        self.read_notes(at, call);
        self.recall_memories(at, call);
    }

    /// Reads the notes into the window of a restarted session.
    fn read_notes(&mut self, at: usize, call: &Call) {
        let policy = self.rules.policy;
        let is_restart = call.continuity.is_resume || call.continuity.is_after_restart;
        if !is_restart || !policy.notes_resume || !keeps_notes(policy) {
            return;
        }
        let tokens = self.notes.at_resume(policy, call.sent_time());
        if tokens > 0 {
            self.window.add_extra(Category::Attachment, tokens);
            self.record.in_step = false;
            self.emit(at, &Event::NotesRead { tokens });
        }
    }

    /// Chooses memories for a prompt by a side query and adds them to the window, up to the limit of a session.
    fn recall_memories(&mut self, at: usize, call: &Call) {
        let policy = self.rules.policy;
        if !policy.recall_on || !call.starts_turn || self.trace.is_sidechain {
            return;
        }
        let prompt = self.trace.items(&call.inputs).iter();
        let prompt = prompt.filter(|item| item.category == Category::Human);
        let (quarters, tokens) = prompt.fold((0, 0), |(quarters, tokens), item| {
            (quarters + item.quarters, tokens + u64::from(item.tokens))
        });
        let left = policy.recall_session_bytes.saturating_sub(self.memories.bytes);
        if quarters < SHORTEST_QUERY || left == 0 {
            return;
        }
        let tariff = self.rules.tariffs.get(self.trace.models.len()).and_then(Option::as_ref);
        let query = Tokens {
            input: policy.recall_query + tokens,
            output: policy.recall_output,
            ..Tokens::default()
        };
        self.emit_side_call(at, SideCallPurpose::Recall, query, tariff);
        let found = policy.recall_found.min(policy.recall_most) * policy.recall_found_bytes.min(policy.recall_bytes);
        let bytes = found.min(left);
        if bytes > 0 {
            let tokens = bytes.div_ceil(BYTES_PER_TOKEN);
            self.memories.bytes += bytes;
            self.window.add_extra(Category::Attachment, tokens);
            self.record.in_step = false;
            self.emit(at, &Event::Recalled { tokens });
        }
    }

    /// Forgets what was recalled, because a boundary dropped it, and remembers the instructions of folders that it dropped.
    /// Called before the window is reset.
    pub(super) fn forget_memories(&mut self, kept: &Range<u32>) {
        self.memories.bytes = 0;
        let Some(tool) = self
            .trace
            .tool("nested_memory")
            .filter(|_| self.rules.policy.restore_nested)
        else {
            return;
        };
        let nested = self.window.live_items().filter(|at| !kept.contains(at));
        for at in nested {
            let item = &self.trace.items[at as usize];
            let is_known = self.memories.nested.iter().any(|(path, _)| *path == item.path);
            if item.tool == tool && item.category == Category::Attachment && item.path != 0 && !is_known {
                self.memories.nested.push((item.path, u64::from(item.tokens)));
            }
        }
    }

    /// Attaches instructions of folders again when the response touches a file below them.
    #[inline]
    pub(super) fn attach_nested(&mut self, at: usize, call: &Call) {
        if self.memories.nested.is_empty() || self.input.mode == ReplayMode::Follow {
            return;
        }
        let trace = self.trace;
        // The record may attach them itself.
        for item in trace
            .items(&call.inputs)
            .iter()
            .filter(|item| item.category == Category::Attachment)
        {
            self.memories.nested.retain(|(path, _)| *path != item.path);
        }
        for item in trace.items(&call.response).iter().filter(|item| item.path != 0) {
            let file = trace.paths[item.path as usize].as_str();
            let mut touched = self.memories.nested.iter();
            let touched = touched.position(|(path, _)| is_below(file, &trace.paths[*path as usize]));
            if let Some(number) = touched {
                let (path, tokens) = self.memories.nested.remove(number);
                self.window.add_extra(Category::Attachment, tokens);
                self.record.in_step = false;
                self.emit(at, &Event::Nested { path, tokens });
            }
        }
    }

    /// Reports the edits of a response for which the client would demand a read first: it remembered the file once, but the
    /// read was cleared or compacted away since.
    #[inline]
    pub(super) fn check_remembered(&mut self, at: usize, call: &Call, step: &CallStep) {
        if !step.edits_files || self.record.in_step || self.input.mode == ReplayMode::Follow {
            return;
        }
        let trace = self.trace;
        for item in trace.items(&call.response).iter().filter(|item| is_edit(trace, item)) {
            let before = trace.touches.partition_point(|touch| touch.item < call.response.start);
            let last = trace.touches[..before]
                .iter()
                .rev()
                .find(|touch| touch.path == item.path);
            let is_forgotten = last.is_some_and(|touch| !is_remembered(touch, &self.window));
            let restored = self.history.restored.files.iter();
            if is_forgotten && !restored.clone().any(|(path, tokens)| *path == item.path && *tokens > 0) {
                self.emit(at, &Event::NeedsRead { path: item.path });
            }
        }
    }

    /// Updates the notes after a response, and extracts memories at the end of a turn.
    pub(super) fn update_notes_and_memories(&mut self, at: usize, call: &Call, step: &CallStep) {
        let policy = self.rules.policy;
        let texts = self.input.texts;
        let written = || texts.map(|texts| texts.update_notes(call.response.end));
        if let Some(bill) = self.notes.after_response(policy, call, &self.window, &written) {
            self.emit(at, &Event::Notes { tokens: bill.tokens });
            // The conversation was sent a moment ago, so its prefix is still in the cache.
            let more = policy.notes_prompt + bill.present;
            let tokens = self.cache.bill_side(true, self.window.total(), more, bill.output);
            self.emit_side_call(at, SideCallPurpose::Notes, tokens, self.rules.tariff);
        }
        self.extraction.agent_wrote_memory |= policy.extract_on && step.writes_memory;
        let ends_turn = call.tool_calls == 0 && !self.trace.is_sidechain;
        if ends_turn {
            self.extract_memories(at, call);
        }
    }

    /// Extracts memories if enough turns have ended. A turn in which the agent saved a memory itself is skipped; one that
    /// ends while an extraction runs waits, and only the newest of those is extracted.
    fn extract_memories(&mut self, at: usize, call: &Call) {
        let policy = self.rules.policy;
        let agent_wrote_memory = std::mem::take(&mut self.extraction.agent_wrote_memory);
        if !policy.extract_on {
            return;
        }
        self.finish_extraction(at, call.time);
        if agent_wrote_memory {
            return;
        }
        self.extraction.turns_since += 1;
        if self.extraction.turns_since < policy.extract_turns {
            return;
        }
        self.extraction.turns_since = 0;
        let window = self.window.total();
        match self.extraction.busy_until {
            Some(end) if call.time != NO_TIME && call.time < end => self.extraction.waiting = Some(window),
            _ => self.run_extraction(at, window, call.time),
        }
    }

    /// Runs the extraction that waited, if the one before it has ended by `now`.
    fn finish_extraction(&mut self, at: usize, now: Time) {
        let Some(end) = self.extraction.busy_until else { return };
        if now == NO_TIME || now < end {
            return;
        }
        if let Some(window) = self.extraction.waiting.take() {
            self.run_extraction(at, window, end);
        }
    }

    /// Runs the extraction that still waits at the end of the session, if the client waits for it.
    pub(super) fn drain_extraction(&mut self) {
        let policy = self.rules.policy;
        let last = self.trace.calls.len() - 1;
        if let Some(window) = self.extraction.waiting.take()
            && policy.extract_seconds <= policy.extract_drain_seconds
        {
            self.run_extraction(last, window, NO_TIME);
        }
    }

    /// Bills the calls of an extraction that sees `window` tokens: each reads from the cache what the one before it sent.
    fn run_extraction(&mut self, at: usize, window: u64, start: Time) {
        let policy = self.rules.policy;
        let millis = i64::try_from(policy.extract_seconds * 1000).unwrap_or(i64::MAX);
        self.extraction.busy_until = (start != NO_TIME && millis > 0).then(|| start.saturating_add(millis));
        self.emit(at, &Event::Extract);
        let calls = policy.extract_calls.max(1);
        let mut sent = window + policy.extract_prompt;
        for number in 0..calls {
            let is_last = number + 1 == calls;
            // The parts of the output add up to the whole.
            let output = policy.extract_output * (number + 1) / calls - policy.extract_output * number / calls;
            let mut tokens = match number {
                0 => self.cache.bill_side(true, window, policy.extract_prompt, output),
                _ => self.cache.bill_side_again(sent, policy.extract_reads, output),
            };
            if number > 0 {
                sent += policy.extract_reads;
            }
            if !is_last {
                tokens = self.cache.write_side(tokens);
            }
            self.emit_side_call(at, SideCallPurpose::Extract, tokens, self.rules.tariff);
        }
    }

    /// Emits a model call outside the conversation with its cost.
    pub(super) fn emit_side_call(
        &mut self,
        at: usize,
        purpose: SideCallPurpose,
        tokens: Tokens,
        tariff: Option<&Tariff>,
    ) {
        let cost = tariff.map(|tariff| tariff.cost(&tokens, tokens.input_side()));
        self.emit(at, &Event::Side { purpose, tokens, cost });
    }
}

/// Returns whether a file lies below the folder of an instruction file.
fn is_below(file: &str, instructions: &str) -> bool {
    let folder = instructions.rfind(['/', '\\']).map_or("", |end| &instructions[..=end]);
    !folder.is_empty() && file.starts_with(folder)
}
