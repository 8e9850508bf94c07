//! Runs a bulk session: turns of prompts, calls and results until the log has its size.
//!
//! Uses `tools` and `words`, writes through `session`, and knows nothing about folders or other sessions.

mod attachments;
mod records;

pub use attachments::{ATTACHMENTS, attachment};
pub use records::{local_command, local_command_output};

use crate::json::{Uuid, quoted, timestamp};
use crate::rng::{SizeBand, band};
use crate::session::{Bookmark, ResultOrder, SynthBlock, SynthSession};
use crate::tools;
use crate::tools::ProjectFile;
use crate::words::{SynthText, fill, speech_flavor};
use records::{write_modes, write_snapshot, write_turn_end};
use std::io::{self, Write};

/// Characters of prompts.
const PROMPT_CHARS: &[SizeBand] = &[band(700, 10, 400), band(250, 400, 2_000), band(50, 2_000, 15_000)];
/// Characters of text and thinking by the model.
const SPEECH_CHARS: &[SizeBand] = &[
    band(650, 20, 200),
    band(230, 200, 700),
    band(105, 700, 1_900),
    band(15, 1_900, 6_000),
];

/// A finished sub-agent, as the main log reports it.
pub struct AgentRun {
    pub agent_id: String,
    pub prompt: String,
    pub report: SynthText,
    /// Messages of the agent that `agent_progress` records repeat.
    pub messages: Vec<Vec<u8>>,
}

/// Drives one log.
pub struct SessionDriver<'s, 'p, W: Write> {
    pub session: &'s mut SynthSession<'p, W>,
    files: Vec<ProjectFile>,
    /// Size to stop at, in bytes.
    target: u64,
    /// State before the last prompt, to rewind to; `None` after a boundary.
    last_turn: Option<Bookmark>,
    /// Approximate size of the longest line.
    longest: u64,
}

/// Approximate size of the longest line of a bulk session.
const LONGEST: u64 = 2_400_000;

impl<'s, 'p, W: Write> SessionDriver<'s, 'p, W> {
    pub fn new(session: &'s mut SynthSession<'p, W>, target: u64) -> Self {
        Self {
            session,
            files: Vec::new(),
            target,
            last_turn: None,
            longest: LONGEST,
        }
    }

    /// Limits the size of lines, to get many records in little space.
    pub fn with_lines_up_to(self, longest: u64) -> Self {
        Self { longest, ..self }
    }

    /// Returns the bytes still to be written.
    pub fn bytes_left(&self) -> u64 {
        self.target.saturating_sub(self.session.sink.written())
    }

    /// Returns the limit for the next line. A small file gets small lines, so that its size stays near the target.
    fn line_limit(&self) -> u64 {
        (self.target / 12).min(self.bytes_left() / 2).clamp(600, self.longest)
    }

    /// Returns a text of a random size.
    pub fn text(&mut self, bands: &[SizeBand]) -> SynthText {
        let limit = self.line_limit() / 2;
        let session = &mut *self.session;
        let units = session.rng.size(bands).min(limit);
        let flavor = speech_flavor(&mut session.rng);
        let mut text = SynthText::default();
        session.pools.write(&mut session.rng, flavor, units, &mut text);
        text
    }

    /// Runs turns until the size is reached. `agent` runs a sub-agent; it is called `agents` times.
    pub fn run(&mut self, agents: u32, mut agent: impl FnMut(&mut Self) -> io::Result<AgentRun>) -> io::Result<()> {
        let mut started = 0;
        self.write_opening()?;
        while self.bytes_left() > 0 {
            self.prompt()?;
            let rounds = self
                .session
                .rng
                .size(&[band(50, 1, 4), band(40, 4, 15), band(10, 15, 60)]);
            for _ in 0..rounds {
                if self.bytes_left() == 0 {
                    break;
                }
                let due = u64::from(started + 1) * self.target / u64::from(agents + 1);
                if started < agents && self.session.sink.written() + self.target / 10 >= due {
                    started += 1;
                    let run = agent(self)?;
                    self.agent_round(run)?;
                } else {
                    self.round()?;
                }
            }
            if self.bytes_left() > 0 {
                self.write_final_answer()?;
            }
            self.end_of_turn()?;
        }
        while started < agents {
            started += 1;
            let run = agent(self)?;
            self.agent_round(run)?;
        }
        Ok(())
    }

    /// Writes the first records of a log.
    fn write_opening(&mut self) -> io::Result<()> {
        let session = &mut *self.session;
        if session.identity.agent_id.is_some() {
            return Ok(());
        }
        if session.client.has_summaries() && session.rng.permille(300) {
            let title = fill(&mut session.rng, "$V the $a $n in the $n");
            let leaf = Uuid::new(&mut session.rng);
            let json = format!(
                "{{\"type\":\"summary\",\"summary\":\"{title}\",\"leafUuid\":\"{}\"}}",
                leaf.as_str()
            );
            session.write_plain("summary", &json)?;
        }
        if session.client.has_attachments() {
            write_modes(session)?;
            for kind in [
                "hook_success",
                "skill_listing",
                "deferred_tools_delta",
                "agent_listing_delta",
            ] {
                attachment(session, kind)?;
            }
        }
        if session.client.has_progress() {
            let id = Uuid::new(&mut session.rng);
            let data =
                b"{\"type\":\"hook_progress\",\"hookEvent\":\"SessionStart\",\"hookName\":\"SessionStart:startup\",\
                \"command\":\"sh tools/greet.sh\"}";
            let leaf = session.progress(session.leaf, data, id.as_str(), id.as_str())?;
            session.leaf = Some(leaf);
        }
        Ok(())
    }

    /// Writes a prompt and the records around it. Sometimes the user rewinds first.
    fn prompt(&mut self) -> io::Result<()> {
        if let Some(bookmark) = self.last_turn.filter(|_| self.session.rng.permille(25)) {
            self.session.rewind(bookmark);
        }
        self.last_turn = Some(self.session.bookmark());
        if self.session.rng.permille(12) {
            // A model switch starts with a cold cache.
            self.session.model = (*self.session.rng.pick(self.session.client.models)).to_owned();
            self.session.context.cached = 0;
        }
        let text = self.text(PROMPT_CHARS);
        let session = &mut *self.session;
        if session.rng.permille(30) {
            local_command(session)?;
        }
        let uuid = session.prompt(&text)?;
        if session.identity.agent_id.is_some() {
            return Ok(());
        }
        if session.client.has_snapshots() {
            write_snapshot(self.session, &self.files, uuid)?;
        }
        let session = &mut *self.session;
        if session.client.has_attachments() {
            for kind in [
                "hook_additional_context",
                "task_reminder",
                "edited_text_file",
                "file",
                "date_change",
            ] {
                if session.rng.permille(160) {
                    attachment(session, kind)?;
                }
            }
        }
        if session.rng.permille(20) {
            let now = timestamp(session.now);
            let text = fill(&mut session.rng, "also $v the $n");
            let json = format!(
                "{{\"type\":\"queue-operation\",\"operation\":\"enqueue\",\"timestamp\":\"{now}\",\"sessionId\":\"{}\",\"content\":\"{text}\"}}",
                session.identity.session_id
            );
            session.write_plain("queue-operation", &json)?;
        }
        Ok(())
    }

    /// Writes one response with calls and their results, after the checks before each call.
    fn round(&mut self) -> io::Result<()> {
        self.before_call()?;
        let limit = self.line_limit();
        let count = match self.session.rng.below(100) {
            0..=71 => 1,
            72..=88 => 2,
            89..=96 => 3,
            _ => self.session.rng.range(4, 7),
        };
        let mut blocks = self.preamble_blocks();
        for _ in 0..count {
            blocks.push(tools::any_tool(self.session, &mut self.files, limit));
        }
        let full = self.session.size_after(&blocks) >= self.session.threshold;
        if full && self.session.client.has_preserved_segments() && self.session.rng.permille(500) {
            self.last_turn = None;
            self.session.compact_preserving(&blocks)?;
            return self.restore();
        }
        if self.session.client.has_progress() {
            for call in blocks.iter_mut().filter_map(|block| block.call.as_mut()) {
                if self.session.rng.permille(450) {
                    let data = format!(
                        "{{\"type\":\"hook_progress\",\"hookEvent\":\"PostToolUse\",\"hookName\":\"PostToolUse:{}\",\"command\":\"callback\"}}",
                        call.name
                    );
                    call.progress.push((data.into_bytes(), call.id.clone()));
                }
            }
        }
        let order = if self.session.client.results_hang_on_calls() && self.session.rng.permille(450) {
            ResultOrder::Interleaved
        } else {
            ResultOrder::CallsFirst
        };
        if self.session.client.has_iterations() && self.session.rng.permille(15) {
            self.session.respond_twice(&blocks, order)?;
        } else {
            self.session.respond(&blocks, order)?;
        }
        if self.session.client.has_attachments() {
            for kind in ["task_reminder", "hook_additional_context"] {
                if self.session.rng.permille(140) {
                    attachment(self.session, kind)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the thinking and text at the start of a response.
    fn preamble_blocks(&mut self) -> Vec<SynthBlock> {
        let mut blocks = Vec::new();
        if self.session.rng.permille(800) {
            let text = self.text(SPEECH_CHARS);
            blocks.push(tools::long_signed_thinking(self.session, &text));
        }
        if self.session.rng.permille(500) {
            let text = self.text(SPEECH_CHARS);
            blocks.push(tools::text_block(self.session, &text));
        }
        blocks
    }

    /// Runs the client's checks before a call; sometimes the API reports an error first.
    fn before_call(&mut self) -> io::Result<()> {
        let micro = self.session.truth.boundaries_micro;
        let compacted = self.session.compact_if_due()?;
        if compacted || self.session.truth.boundaries_micro > micro {
            self.last_turn = None;
        }
        if compacted {
            self.restore()?;
        }
        if self.session.rng.permille(4) && self.session.client.has_subtypes() {
            let wait = self.session.rng.range(500, 9_000);
            self.session.system(
                ",\"subtype\":\"api_error\",\"level\":\"error\",\"error\":{\"status\":529}",
                &format!(",\"retryInMs\":{wait},\"retryAttempt\":1,\"maxRetries\":10"),
            )?;
            if self.session.rng.permille(300) {
                self.session
                    .synthetic("API Error: the service is overloaded, try again later.", true)?;
            }
        }
        Ok(())
    }

    /// Writes what the client restores after a boundary.
    fn restore(&mut self) -> io::Result<()> {
        if self.session.client.has_attachments() {
            for kind in ["compact_file_reference", "file", "skill_listing", "invoked_skills"] {
                attachment(self.session, kind)?;
            }
        }
        Ok(())
    }

    /// Writes the call that started a sub-agent, with its progress and its report.
    fn agent_round(&mut self, run: AgentRun) -> io::Result<()> {
        self.before_call()?;
        let mut progress = Vec::new();
        if self.session.client.has_progress() {
            let parent = Uuid::new(&mut self.session.rng);
            for message in &run.messages {
                let data = [
                    b"{\"message\":".as_slice(),
                    message,
                    b",\"normalizedMessages\":[],\"type\":\"agent_progress\",\"prompt\":",
                    quoted(&run.prompt).as_bytes(),
                    format!(",\"agentId\":\"{}\"}}", run.agent_id).as_bytes(),
                ]
                .concat();
                progress.push((data, format!("agent_msg_{}", &parent.as_str()[..8])));
            }
        }
        let mut blocks = self.preamble_blocks();
        blocks.push(tools::agent(
            self.session,
            &run.agent_id,
            &run.prompt,
            &run.report,
            progress,
        ));
        self.session.respond(&blocks, ResultOrder::CallsFirst)
    }

    fn write_final_answer(&mut self) -> io::Result<()> {
        self.before_call()?;
        let text = self.text(SPEECH_CHARS);
        let block = tools::text_block(self.session, &text);
        self.session.respond(&[block], ResultOrder::CallsFirst)
    }

    /// Ends a turn: writes its closing records, pauses, and sometimes compacts manually. Sub-agents have none of this.
    fn end_of_turn(&mut self) -> io::Result<()> {
        let session = &mut *self.session;
        if session.identity.agent_id.is_some() {
            return Ok(());
        }
        write_turn_end(session)?;
        session.finish_turn();
        // Mostly a short pause; sometimes long enough for the prompt cache to expire.
        let pause = session.rng.size(&[
            band(700, 5_000, 240_000),
            band(220, 240_000, 3_000_000),
            band(80, 3_000_000, 60_000_000),
        ]);
        session.now += pause;
        let large = session.context.size > session.threshold / 3;
        if large && session.rng.permille(12) && session.client.has_subtypes() {
            self.last_turn = None;
            let before = session.checked_size().max(session.context.size);
            session.compact("manual", before)?;
            local_command_output(session, "/compact", "Compacted")?;
            self.restore()?;
        }
        Ok(())
    }
}
