//! What happens in a bulk session: turns of prompts, calls and results until the file has its size.
//! Reads from `tools` and `words`, writes through `session`; knows nothing of folders or of other sessions' files.

use crate::json::{Uuid, hex_id, quoted, timestamp};
use crate::rng::SizeBand;
use crate::session::{Bookmark, ResultOrder, SynthBlock, SynthSession, string_value};
use crate::tools;
use crate::tools::ProjectFile;
use crate::words::{SynthText, fill, prose_flavor, speech_flavor};
use std::io::{self, Write};

/// Characters of what people type.
const PROMPT_CHARS: &[SizeBand] = &[
    SizeBand {
        parts: 700,
        low: 10,
        high: 400,
    },
    SizeBand {
        parts: 250,
        low: 400,
        high: 2_000,
    },
    SizeBand {
        parts: 50,
        low: 2_000,
        high: 15_000,
    },
];
/// Characters of what the model says and thinks.
const SPEECH_CHARS: &[SizeBand] = &[
    SizeBand {
        parts: 650,
        low: 20,
        high: 200,
    },
    SizeBand {
        parts: 230,
        low: 200,
        high: 700,
    },
    SizeBand {
        parts: 105,
        low: 700,
        high: 1_900,
    },
    SizeBand {
        parts: 15,
        low: 1_900,
        high: 6_000,
    },
];

/// A sub-agent that ran on behalf of a call: what the main log needs to know about it.
pub struct AgentRun {
    pub agent_id: String,
    pub prompt: String,
    pub report: SynthText,
    /// Messages of the agent as `agent_progress` repeats them.
    pub messages: Vec<Vec<u8>>,
}

/// The driver of one log.
pub struct SessionDriver<'s, 'p, W: Write> {
    pub session: &'s mut SynthSession<'p, W>,
    files: Vec<ProjectFile>,
    /// Size to stop at.
    target: u64,
    last_turn: Option<Bookmark>,
    /// The largest line of all, about.
    longest: u64,
}

/// Lines of bulk sessions end here.
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

    /// Has many records in little space.
    pub fn with_lines_up_to(self, longest: u64) -> Self {
        Self { longest, ..self }
    }

    /// Bytes that are still wanted.
    pub fn bytes_left(&self) -> u64 {
        self.target.saturating_sub(self.session.sink.written())
    }

    /// The largest line that may come now: a small file gets small lines, so that sizes stay near their targets.
    fn line_limit(&self) -> u64 {
        (self.target / 12).min(self.bytes_left() / 2).clamp(600, self.longest)
    }

    pub fn text(&mut self, bands: &[SizeBand]) -> SynthText {
        let limit = self.line_limit() / 2;
        let session = &mut *self.session;
        let units = session.rng.size(bands).min(limit);
        let tongue = speech_flavor(&mut session.rng);
        let mut text = SynthText::default();
        session.pools.write(&mut session.rng, tongue, units, &mut text);
        text
    }

    /// Runs until the size is reached. `agent` starts a sub-agent when one is due.
    pub fn run(&mut self, agents: u32, mut agent: impl FnMut(&mut Self) -> io::Result<AgentRun>) -> io::Result<()> {
        let mut started = 0;
        self.write_opening()?;
        while self.bytes_left() > 0 {
            self.prompt()?;
            let rounds = self.session.rng.size(&[
                SizeBand {
                    parts: 50,
                    low: 1,
                    high: 4,
                },
                SizeBand {
                    parts: 40,
                    low: 4,
                    high: 15,
                },
                SizeBand {
                    parts: 10,
                    low: 15,
                    high: 60,
                },
            ]);
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

    /// What stands at the head of a log.
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

    fn prompt(&mut self) -> io::Result<()> {
        if let Some(bookmark) = self.last_turn.filter(|_| self.session.rng.permille(25)) {
            self.session.rewind(bookmark);
        }
        self.last_turn = Some(self.session.bookmark());
        if self.session.rng.permille(12) {
            // Another model starts with a cold cache.
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
            self.snapshot(uuid)?;
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

    fn snapshot(&mut self, uuid: Uuid) -> io::Result<()> {
        let session = &mut *self.session;
        let now = timestamp(session.now);
        let backups: Vec<String> = self
            .files
            .iter()
            .map(|file| {
                let name = hex_id(&mut session.rng, 16);
                format!(
                    "{}:{{\"backupFileName\":\"{name}@v1\",\"version\":1,\"backupTime\":\"{now}\"}}",
                    quoted(&file.path)
                )
            })
            .collect();
        let json = format!(
            "{{\"type\":\"file-history-snapshot\",\"messageId\":\"{0}\",\"snapshot\":{{\"messageId\":\"{0}\",\
             \"trackedFileBackups\":{{{1}}},\"timestamp\":\"{now}\"}},\"isSnapshotUpdate\":false}}",
            uuid.as_str(),
            unique_keys(backups).join(",")
        );
        session.write_plain("file-history-snapshot", &json)?;
        Ok(())
    }

    /// One response with calls and their results, after the checks that come before each call.
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

    /// What the client puts back into the window after a boundary.
    fn restore(&mut self) -> io::Result<()> {
        if self.session.client.has_attachments() {
            for kind in ["compact_file_reference", "file", "skill_listing", "invoked_skills"] {
                attachment(self.session, kind)?;
            }
        }
        Ok(())
    }

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

    fn end_of_turn(&mut self) -> io::Result<()> {
        let session = &mut *self.session;
        if session.identity.agent_id.is_some() {
            return Ok(());
        }
        if session.client.has_subtypes() {
            if session.rng.permille(300) {
                let id = Uuid::new(&mut session.rng);
                session.system(
                    ",\"subtype\":\"stop_hook_summary\",\"hookCount\":1,\"hookInfos\":[{\"command\":\"sh tools/after.sh\"}],\
                     \"hookErrors\":[],\"preventedContinuation\":false,\"stopReason\":\"\",\"hasOutput\":false,\"level\":\"suggestion\"",
                    &format!(",\"toolUseID\":\"{}\"", id.as_str()),
                )?;
            }
            let millis = session.rng.range(4_000, 400_000);
            session.system(
                &format!(",\"subtype\":\"turn_duration\",\"durationMs\":{millis}"),
                ",\"isMeta\":false",
            )?;
        } else if session.rng.permille(200) {
            session.system(
                ",\"content\":\"Running \\u001b[1mPostToolUse:Edit\\u001b[22m...\",\"isMeta\":false",
                ",\"level\":\"info\"",
            )?;
        }
        if session.client.has_attachments() {
            let id = session.identity.session_id.clone();
            let leaf = session.leaf.map(|leaf| leaf.as_str().to_owned()).unwrap_or_default();
            session.write_plain(
                "last-prompt",
                &format!("{{\"type\":\"last-prompt\",\"leafUuid\":\"{leaf}\",\"sessionId\":\"{id}\"}}"),
            )?;
            let repeats = session.client.repeats_modes();
            if repeats {
                write_modes(session)?;
            }
            if repeats || session.rng.permille(300) {
                let title = fill(&mut session.rng, "$V the $a $n");
                session.write_plain(
                    "ai-title",
                    &format!("{{\"type\":\"ai-title\",\"aiTitle\":\"{title}\",\"sessionId\":\"{id}\"}}"),
                )?;
            }
        }
        if session.client.has_attachments() && session.rng.permille(100) {
            write_metadata_record(session)?;
        }
        session.finish_turn();
        // Mostly a short pause; sometimes long enough for the prompt cache to expire.
        let pause = session.rng.size(&[
            SizeBand {
                parts: 700,
                low: 5_000,
                high: 240_000,
            },
            SizeBand {
                parts: 220,
                low: 240_000,
                high: 3_000_000,
            },
            SizeBand {
                parts: 80,
                low: 3_000_000,
                high: 60_000_000,
            },
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

/// The records that say how the client is used at the moment.
fn write_modes<W: Write>(session: &mut SynthSession<W>) -> io::Result<()> {
    let id = session.identity.session_id.clone();
    for (kind, key, value) in [
        ("mode", "mode", "normal"),
        ("permission-mode", "permissionMode", "default"),
    ] {
        session.write_plain(
            kind,
            &format!("{{\"type\":\"{kind}\",\"{key}\":\"{value}\",\"sessionId\":\"{id}\"}}"),
        )?;
    }
    Ok(())
}

/// One of the small records that describe a session and have no place in its thread.
fn write_metadata_record<W: Write>(session: &mut SynthSession<W>) -> io::Result<()> {
    let id = session.identity.session_id.clone();
    let now = timestamp(session.now);
    let message = Uuid::new(&mut session.rng);
    let name = fill(&mut session.rng, "$v-$n");
    let number = session.rng.range(1, 400);
    let choices = if session.client.has_file_deltas() { 5 } else { 4 };
    let (kind, fields) = match session.rng.below(choices) {
        0 => (
            "custom-title",
            format!("\"customTitle\":\"{name}\",\"sessionId\":\"{id}\""),
        ),
        1 => ("agent-name", format!("\"agentName\":\"{name}\",\"sessionId\":\"{id}\"")),
        2 => ("tag", format!("\"tag\":\"{name}\",\"sessionId\":\"{id}\"")),
        3 => (
            "pr-link",
            format!(
                "\"sessionId\":\"{id}\",\"prNumber\":{number},\"prUrl\":\"https://git.example.test/orchard/pull/{number}\",\
                 \"prRepository\":\"dev/orchard\",\"timestamp\":\"{now}\""
            ),
        ),
        _ => (
            "file-history-delta",
            format!(
                "\"messageId\":\"{0}\",\"snapshotMessageId\":\"{0}\",\"trackingPath\":\"{1}/{name}.go\",\
                 \"backup\":{{\"backupFileName\":\"{number:016x}@v1\",\"version\":1,\"backupTime\":\"{now}\"}},\"timestamp\":\"{now}\"",
                message.as_str(),
                session.identity.cwd
            ),
        ),
    };
    session.write_plain(kind, &format!("{{\"type\":\"{kind}\",{fields}}}"))?;
    Ok(())
}

/// Two edits of one file give one backup: the later of two equal keys goes.
fn unique_keys(entries: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = entry.split(":{").next().unwrap_or_default();
        if !kept.iter().any(|other| other.split(":{").next() == Some(key)) {
            kept.push(entry);
        }
    }
    kept
}

/// A slash command typed by the user and what it printed.
pub fn local_command<W: Write>(session: &mut SynthSession<W>) -> io::Result<()> {
    local_command_output(session, "/status", "All \u{1b}[1mquiet\u{1b}[22m in the orchard")
}

pub fn local_command_output<W: Write>(session: &mut SynthSession<W>, name: &str, output: &str) -> io::Result<()> {
    let bare = name.trim_start_matches('/');
    let lines = [
        (
            "<local-command-caveat>What follows was printed by a local command.</local-command-caveat>".to_owned(),
            ",\"isMeta\":true",
        ),
        (
            format!(
                "<command-name>{name}</command-name>\n            <command-message>{bare}</command-message>\n            <command-args></command-args>"
            ),
            "",
        ),
        (format!("<local-command-stdout>{output}</local-command-stdout>"), ""),
    ];
    for (text, before) in lines {
        let text = SynthText::of(&text);
        let content = string_value(&text);
        session.user(session.leaf, &content, before, b"")?;
        session.add_to_context(text.units, text.tokens(session.density()) + 6);
    }
    Ok(())
}

/// Kinds of attachments that newer clients write.
pub const ATTACHMENTS: &[&str] = &[
    "hook_success",
    "hook_additional_context",
    "hook_system_message",
    "async_hook_response",
    "skill_listing",
    "deferred_tools_delta",
    "agent_listing_delta",
    "mcp_instructions_delta",
    "task_reminder",
    "total_tokens_reminder",
    "edited_text_file",
    "file",
    "already_read_file",
    "compact_file_reference",
    "directory",
    "nested_memory",
    "invoked_skills",
    "command_permissions",
    "date_change",
    "auto_mode",
    "plan_mode",
    "plan_mode_exit",
    "queued_command",
    "workflow_keyword_request",
];

/// Writes one attachment of that kind.
pub fn attachment<W: Write>(session: &mut SynthSession<W>, kind: &str) -> io::Result<()> {
    let rng = &mut session.rng;
    let mut text = SynthText::default();
    let units = rng.size(&[
        SizeBand {
            parts: 8,
            low: 80,
            high: 900,
        },
        SizeBand {
            parts: 2,
            low: 900,
            high: 6_000,
        },
    ]);
    let tongue = prose_flavor(rng);
    session.pools.write(rng, tongue, units, &mut text);
    let body = String::from_utf8_lossy(&text.escaped).into_owned();
    let tool = crate::json::api_id(rng, "toolu_01");
    let name = fill(rng, "$n/$v_$n.py");
    let path = format!("{}/{name}", session.identity.cwd);
    let file = format!(
        "{{\"type\":\"text\",\"file\":{{\"filePath\":\"{path}\",\"content\":\"{body}\",\"numLines\":9,\"startLine\":1,\"totalLines\":9}}}}"
    );
    let (fields, counted) = match kind {
        "hook_success" => (
            format!(
                "\"hookName\":\"SessionStart:startup\",\"toolUseID\":\"{tool}\",\"hookEvent\":\"SessionStart\",\"content\":\"{body}\",\
                 \"stdout\":\"{body}\",\"stderr\":\"\",\"exitCode\":0,\"command\":\"sh tools/greet.sh\",\"durationMs\":157"
            ),
            true,
        ),
        "hook_additional_context" => (
            format!("\"content\":[\"{body}\"],\"hookName\":\"PreToolUse:Bash\",\"toolUseID\":\"{tool}\",\"hookEvent\":\"PreToolUse\""),
            true,
        ),
        "hook_system_message" => (
            format!("\"content\":\"{body}\",\"hookName\":\"SessionStart:startup\",\"toolUseID\":\"{tool}\",\"hookEvent\":\"SessionStart\""),
            false,
        ),
        "async_hook_response" => (
            format!("\"processId\":\"async_hook_7\",\"hookName\":\"Stop\",\"hookEvent\":\"Stop\",\"response\":{{}},\"stdout\":\"{body}\",\"stderr\":\"\",\"exitCode\":0"),
            false,
        ),
        "skill_listing" => (
            format!("\"content\":\"{body}\",\"skillCount\":3,\"isInitial\":true,\"names\":[\"prune\",\"gather\",\"stack\"]"),
            true,
        ),
        "deferred_tools_delta" => (
            "\"addedNames\":[\"WebFetch\",\"WebSearch\"],\"addedLines\":[\"WebFetch\",\"WebSearch\"],\"removedNames\":[],\
             \"readdedNames\":[],\"pendingMcpServers\":[]"
                .to_owned(),
            false,
        ),
        "agent_listing_delta" => (
            format!("\"addedTypes\":[\"gardener\"],\"addedLines\":[\"{body}\"],\"removedTypes\":[],\"isInitial\":true,\"showConcurrencyNote\":true"),
            true,
        ),
        "mcp_instructions_delta" => {
            (format!("\"addedNames\":[\"weather\"],\"addedBlocks\":[\"{body}\"],\"removedNames\":[]"), true)
        }
        "task_reminder" => ("\"content\":[],\"itemCount\":0".to_owned(), false),
        "total_tokens_reminder" => {
            ("\"text\":\"<total_tokens>1493378 tokens left</total_tokens>\"".to_owned(), false)
        }
        "edited_text_file" => (format!("\"filename\":\"{path}\",\"snippet\":\"{body}\""), true),
        "file" => (format!("\"filename\":\"{path}\",\"content\":{file},\"displayPath\":\"{name}\""), true),
        "already_read_file" => (format!("\"filename\":\"{path}\",\"displayPath\":\"{name}\",\"content\":{file}"), false),
        "compact_file_reference" => (format!("\"filename\":\"{path}\",\"displayPath\":\"{name}\""), false),
        "directory" => (format!("\"path\":\"{path}\",\"content\":\"{body}\",\"displayPath\":\"{name}\""), true),
        "nested_memory" => (
            format!("\"path\":\"{path}\",\"content\":{{\"path\":\"{path}\",\"type\":\"Project\",\"content\":\"{body}\",\"contentDiffersFromDisk\":false}},\"displayPath\":\"{name}\""),
            true,
        ),
        "invoked_skills" => {
            (format!("\"skills\":[{{\"name\":\"prune\",\"path\":\"projectSettings:prune\",\"content\":\"{body}\"}}]"), true)
        }
        "command_permissions" => ("\"allowedTools\":[]".to_owned(), false),
        "date_change" => ("\"newDate\":\"2026-07-30\"".to_owned(), false),
        "auto_mode" => ("\"autoModeConsentFlow\":false".to_owned(), false),
        "plan_mode" => (
            format!("\"reminderType\":\"full\",\"isSubAgent\":false,\"planFilePath\":\"{path}\",\"planExists\":false"),
            false,
        ),
        "plan_mode_exit" => (format!("\"planFilePath\":\"{path}\",\"planExists\":false"), false),
        "queued_command" => {
            (format!("\"prompt\":\"{body}\",\"commandMode\":\"prompt\",\"origin\":{{\"kind\":\"human\"}}"), true)
        }
        _ => (String::new(), false),
    };
    let comma = if fields.is_empty() { "" } else { "," };
    let tokens = if counted {
        text.tokens(session.density()) + 10
    } else {
        20
    };
    session.attachment(&format!("{{\"type\":\"{kind}\"{comma}{fields}}}"), tokens)?;
    Ok(())
}
