//! Session notes: when they are updated, and what a compaction finds in them.

use crate::policy::Policy;
use crate::sim::trace::Call;
use crate::sim::window::Window;
use transcript::log::{NO_TIME, Time};

/// The notes of one chain.
#[derive(Debug, Clone, Default)]
pub struct SimNotes {
    /// Size of the notes; 0 for the empty template.
    tokens: u64,
    /// End of the items that they cover.
    covered: u32,
    /// An update that has been started and may not be finished.
    running: Option<NotesUpdate>,
    /// Size of the window at the last update.
    window: u64,
    /// Tool calls since the last update.
    tool_calls: u64,
    /// Whether the window ever reached `notes.first`.
    has_begun: bool,
}

/// An update of the notes, as it is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotesBill {
    /// Size of the notes after it.
    pub tokens: u64,
    /// Size of the notes before it, which are part of its instructions.
    pub present: u64,
    /// Output of the edits: what the notes gain, and the text around it.
    pub output: u64,
}

/// Returns whether the client keeps notes: they serve automatic compaction, so they are off without it.
pub fn keeps_notes(policy: &Policy) -> bool {
    policy.notes_on & policy.auto & policy.compaction
}

#[derive(Debug, Clone, Copy)]
struct NotesUpdate {
    started: Time,
    tokens: u64,
    covered: u32,
}

impl SimNotes {
    /// Updates the notes after a response if they are due, and returns the bill; `None` if they are not. `written`
    /// writes real notes and returns their size, or `None` if sizes are simulated; it is called only when an update is due.
    #[inline]
    pub fn after_response(
        &mut self,
        policy: &Policy,
        call: &Call,
        window: &Window<'_>,
        written: &dyn Fn() -> Option<u64>,
    ) -> Option<NotesBill> {
        self.tool_calls += u64::from(call.tool_calls);
        match keeps_notes(policy) {
            true => self.update(policy, call, window.total(), window.conversation(), written),
            false => None,
        }
    }

    /// Updates the notes if the window has grown enough since the last update.
    fn update(
        &mut self,
        policy: &Policy,
        call: &Call,
        window: u64,
        conversation: u64,
        written: &dyn Fn() -> Option<u64>,
    ) -> Option<NotesBill> {
        if !self.has_begun {
            if window < policy.notes_first {
                return None;
            }
            self.has_begun = true;
        }
        // The window may have shrunk at a boundary.
        let growth = window.saturating_sub(self.window.min(window));
        let is_pause = call.tool_calls == 0;
        if growth < policy.notes_growth || !(self.tool_calls >= policy.notes_calls || is_pause) {
            return None;
        }
        let tokens = written().unwrap_or_else(|| {
            let assumed = (conversation as f64 * policy.notes_share).round() as u64;
            self.tokens.max(assumed)
        });
        let tokens = tokens.clamp(1, policy.notes_total.max(1));
        self.finish_pending(policy, call.time);
        let present = self.tokens;
        let update = NotesUpdate {
            started: call.time,
            tokens,
            covered: call.response.end,
        };
        if policy.notes_seconds == 0 {
            self.finish(update);
        } else {
            self.running = Some(update);
        }
        self.window = window;
        self.tool_calls = 0;
        Some(NotesBill {
            tokens,
            present,
            output: tokens.saturating_sub(present) + policy.notes_edit_output,
        })
    }

    fn finish(&mut self, update: NotesUpdate) {
        self.tokens = update.tokens;
        self.covered = update.covered;
    }

    /// Takes over a running update if it is finished, or will be within the time that a compaction waits for it. Gives up an
    /// update that has been running for too long.
    fn finish_pending(&mut self, policy: &Policy, now: Time) {
        let Some(update) = self.running else { return };
        if update.started == NO_TIME || now == NO_TIME {
            // Without times every update has long finished.
            self.finish(update);
            self.running = None;
            return;
        }
        let age = now.saturating_sub(update.started).max(0) as u64;
        let duration = policy.notes_seconds * 1000;
        let is_stale = duration > policy.notes_stale_seconds * 1000 && age > policy.notes_stale_seconds * 1000;
        if is_stale {
            self.running = None;
        } else if duration.saturating_sub(age) <= policy.notes_wait_seconds * 1000 {
            self.finish(update);
            self.running = None;
        }
    }

    /// Returns the notes as a compaction finds them: their size, and the end of the items that they cover. `None` if they are
    /// still the empty template.
    pub fn at_compaction(&mut self, policy: &Policy, now: Time) -> Option<(u64, u32)> {
        self.finish_pending(policy, now);
        // A compaction truncates each of the ten sections to its limit.
        let limit = policy.notes_section * 10;
        (keeps_notes(policy) && self.tokens > 0).then_some((self.tokens.min(limit), self.covered))
    }

    /// Returns the size of the notes that a restarted session reads; 0 if there are none.
    pub fn at_resume(&mut self, policy: &Policy, now: Time) -> u64 {
        self.finish_pending(policy, now);
        self.tokens
    }

    /// Restarts the growth count at the window after a boundary.
    pub fn on_boundary(&mut self, window: u64) {
        self.window = window;
        self.tool_calls = 0;
    }
}
