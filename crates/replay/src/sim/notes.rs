//! Session memory: notes kept during a session, and when they are brought up to date.

use crate::policy::Policy;
use crate::sim::trace::Call;
use crate::sim::window::Window;
use transcript::log::{NO_TIME, Time};

/// The notes of one chain.
#[derive(Debug, Clone, Default)]
pub struct SimNotes {
    /// Their size; 0 for the empty template.
    tokens: u64,
    /// Item after the last one they cover.
    covered: u32,
    /// An update that may still be running.
    running: Option<NotesUpdate>,
    /// Window at the last update.
    window: u64,
    calls: u64,
    has_begun: bool,
}

#[derive(Debug, Clone, Copy)]
struct NotesUpdate {
    started: Time,
    tokens: u64,
    covered: u32,
}

impl SimNotes {
    /// After a response: whether the notes are due. If so they are updated, and their size is returned. `written` is the size
    /// of real ones, asked for only then.
    #[inline]
    pub fn after_response(
        &mut self,
        policy: &Policy,
        call: &Call,
        window: &Window<'_>,
        written: &dyn Fn() -> Option<u64>,
    ) -> Option<u64> {
        self.calls += u64::from(call.calls);
        match policy.notes_on {
            true => self.update(policy, call, window.total(), window.conversation(), written),
            false => None,
        }
    }

    /// Updates them if they have grown old enough.
    fn update(
        &mut self,
        policy: &Policy,
        call: &Call,
        window: u64,
        conversation: u64,
        written: &dyn Fn() -> Option<u64>,
    ) -> Option<u64> {
        if !self.has_begun {
            if window < policy.notes_first {
                return None;
            }
            self.has_begun = true;
        }
        // The window may have shrunk at a boundary.
        let growth = window.saturating_sub(self.window.min(window));
        let is_quiet = call.calls == 0;
        if growth < policy.notes_growth || !(self.calls >= policy.notes_calls || is_quiet) {
            return None;
        }
        let tokens = written().unwrap_or_else(|| {
            let assumed = (conversation as f64 * policy.notes_share).round() as u64;
            self.tokens.max(assumed)
        });
        let tokens = tokens.clamp(1, policy.notes_total.max(1));
        self.finish_pending(policy, call.time);
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
        self.calls = 0;
        Some(tokens)
    }

    fn finish(&mut self, update: NotesUpdate) {
        self.tokens = update.tokens;
        self.covered = update.covered;
    }

    /// Takes over an update that is done by now, or nearly: a compaction waits for it a little.
    fn finish_pending(&mut self, policy: &Policy, now: Time) {
        let Some(update) = self.running else { return };
        if update.started == NO_TIME || now == NO_TIME {
            return;
        }
        let age = now.saturating_sub(update.started).max(0) as u64;
        let takes = policy.notes_seconds * 1000;
        let is_stale = takes > policy.notes_stale_seconds * 1000 && age > policy.notes_stale_seconds * 1000;
        if is_stale {
            self.running = None;
        } else if takes.saturating_sub(age) <= policy.notes_wait_seconds * 1000 {
            self.finish(update);
            self.running = None;
        }
    }

    /// The notes as a compaction finds them: their size, and the item after the last one they cover. `None` if they are
    /// still the empty template.
    pub fn at_compaction(&mut self, policy: &Policy, now: Time) -> Option<(u64, u32)> {
        self.finish_pending(policy, now);
        // Each of the ten sections is cut to its limit for this use.
        let most = policy.notes_section * 10;
        (policy.notes_on && self.tokens > 0).then_some((self.tokens.min(most), self.covered))
    }

    /// A boundary: growth counts from the new window.
    pub fn on_boundary(&mut self, window: u64) {
        self.window = window;
        self.calls = 0;
    }
}
