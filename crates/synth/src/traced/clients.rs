//! Cases about the rules of recorded clients: small logs with planned sizes, and the verdicts that `validate` must reach.
//!
//! The verdicts are computed by hand; the doc of each case shows the sum. All listed fields must be as given, and there must
//! be no other case. The client estimates text at a quarter of its characters, rounded half up.

pub(super) mod unusual;

use crate::cases::{CaseFolder, PROJECT};
use crate::json::{Uuid, api_id, quoted, timestamp};
use crate::truth::{Truth, TruthTally};
use std::io;

/// A log whose every line is chosen.
struct ScriptedLog {
    session: String,
    version: &'static str,
    model: &'static str,
    /// Whether a gateway writes the responses: without request ids and cache counts.
    is_bare: bool,
    /// Fields of a sub-agent; empty for the main agent.
    agent: String,
    leaf: Option<String>,
    now: u64,
    bytes: Vec<u8>,
    truth: Truth,
}

/// Which lines of a response have usage.
#[derive(Clone, Copy, PartialEq)]
enum UsageOn {
    Every,
    Last,
    /// The last one; the others have a hundredth of it.
    LastAfterGuess,
}

/// A text of `units` characters.
fn text(units: usize) -> String {
    "pears and plums in the low barn are counted twice a day "
        .chars()
        .cycle()
        .take(units)
        .collect()
}

fn text_block(units: usize) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", quoted(&text(units)))
}

/// A call of `Bash` whose input has 18 characters.
fn call_block(id: &str) -> String {
    format!("{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"Bash\",\"input\":{{\"command\":\"make\"}}}}")
}

impl ScriptedLog {
    fn new(folder: &mut CaseFolder, version: &'static str, model: &'static str) -> ScriptedLog {
        ScriptedLog {
            session: Uuid::new(folder.rng()).as_str().to_owned(),
            version,
            model,
            is_bare: false,
            agent: String::new(),
            leaf: None,
            now: 1_785_000_000_000,
            bytes: Vec::new(),
            truth: Truth {
                files: 1,
                sessions: 1,
                ..Truth::default()
            },
        }
    }

    /// Writes a record and returns its id.
    fn record(&mut self, folder: &mut CaseFolder, kind: &str, fields: &str) -> String {
        self.now += 5_000;
        let uuid = Uuid::new(folder.rng()).as_str().to_owned();
        let parent = self.leaf.as_deref().map_or("null".to_owned(), quoted);
        let is_sidechain = !self.agent.is_empty();
        let line = format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":{is_sidechain}{},\"userType\":\"external\",\"cwd\":\"/home/dev/projects/orchard\",\"sessionId\":\"{}\",\"version\":\"{}\",\"gitBranch\":\"main\",\"type\":\"{kind}\",{fields},\"uuid\":\"{uuid}\",\"timestamp\":\"{}\"}}\n",
            self.agent,
            self.session,
            self.version,
            timestamp(self.now)
        );
        self.bytes.extend_from_slice(line.as_bytes());
        self.truth.lines += 1;
        self.truth.record(kind);
        self.leaf = Some(uuid.clone());
        uuid
    }

    fn prompt(&mut self, folder: &mut CaseFolder, units: usize) {
        let content = quoted(&text(units));
        self.record(
            folder,
            "user",
            &format!("\"message\":{{\"role\":\"user\",\"content\":{content}}}"),
        );
    }

    fn result(&mut self, folder: &mut CaseFolder, call: &str, units: usize) {
        let content = quoted(&text(units));
        let block = format!("{{\"tool_use_id\":\"{call}\",\"type\":\"tool_result\",\"content\":{content}}}");
        self.record(
            folder,
            "user",
            &format!("\"message\":{{\"role\":\"user\",\"content\":[{block}]}}"),
        );
    }

    /// Writes a response of some lines that was sent `input` tokens and has an output of `output`.
    fn respond(&mut self, folder: &mut CaseFolder, blocks: &[String], input: u64, output: u64, on: UsageOn) {
        let id = api_id(folder.rng(), "msg_01");
        let request = api_id(folder.rng(), "req_011C");
        let ids = vec![id; blocks.len()];
        self.respond_as(folder, &ids, &request, blocks, (input, output), on);
    }

    /// Writes a response under one message id a line.
    fn respond_as(
        &mut self,
        folder: &mut CaseFolder,
        ids: &[String],
        request: &str,
        blocks: &[String],
        (input, output): (u64, u64),
        on: UsageOn,
    ) {
        for (at, (id, block)) in std::iter::zip(ids, blocks).enumerate() {
            let is_last = at + 1 == blocks.len();
            let (sent, answered) = match on {
                _ if is_last => (input, output),
                UsageOn::Every => (input, output),
                UsageOn::Last => (0, 0),
                UsageOn::LastAfterGuess => (input / 100, 0),
            };
            let stop = if is_last { "\"end_turn\"" } else { "null" };
            let (cached, request) = match self.is_bare {
                true => ("", String::new()),
                false => (
                    "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,",
                    format!(",\"requestId\":\"{request}\""),
                ),
            };
            let fields = format!(
                "\"message\":{{\"model\":\"{}\",\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[{block}],\"stop_reason\":{stop},\"usage\":{{\"input_tokens\":{sent},{cached}\"output_tokens\":{answered}}}}}{request}",
                self.model
            );
            self.record(folder, "assistant", &fields);
        }
    }

    /// Counts a response of this log in the truth.
    fn count(&mut self, input: u64, output: u64) {
        let tally = TruthTally {
            responses: 1,
            input_tokens: input,
            output_tokens: output,
            ..TruthTally::default()
        };
        self.truth.response(self.model, &tally, output);
    }

    /// Writes a response of one text, counted in the truth.
    fn say(&mut self, folder: &mut CaseFolder, input: u64, output: u64) {
        self.respond(folder, &[text_block(40)], input, output, UsageOn::Every);
        self.count(input, output);
    }

    /// Writes an automatic boundary at `before` tokens, and a summary of 4,000 characters.
    fn compact(&mut self, folder: &mut CaseFolder, before: u64) {
        self.compact_by(folder, "auto", before);
    }

    /// Does the same with a given trigger.
    fn compact_by(&mut self, folder: &mut CaseFolder, trigger: &str, before: u64) {
        let logical = self.leaf.take().map_or("null".to_owned(), |leaf| quoted(&leaf));
        self.record(
            folder,
            "system",
            &format!(
                "\"logicalParentUuid\":{logical},\"subtype\":\"compact_boundary\",\"content\":\"Conversation compacted\",\"compactMetadata\":{{\"trigger\":\"{trigger}\",\"preTokens\":{before}}}"
            ),
        );
        match trigger {
            "auto" => self.truth.boundaries_auto += 1,
            _ => self.truth.boundaries_manual += 1,
        }
        let summary = quoted(&text(4_000));
        self.record(
            folder,
            "user",
            &format!("\"isVisibleInTranscriptOnly\":true,\"isCompactSummary\":true,\"message\":{{\"role\":\"user\",\"content\":{summary}}}"),
        );
    }

    fn save(self, folder: &mut CaseFolder) -> io::Result<()> {
        let path = format!("{PROJECT}/{}.jsonl", self.session);
        self.save_at(folder, &path)
    }

    fn save_at(mut self, folder: &mut CaseFolder, path: &str) -> io::Result<()> {
        self.truth.bytes = self.bytes.len() as u64;
        folder.add_truth(&self.truth);
        folder.write(path, &self.bytes)
    }
}

/// Writes the verdicts of a case.
fn write_verdicts(folder: &mut CaseFolder, cases: &str) -> io::Result<()> {
    let lines = cases.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| format!("{line}\n")).collect::<String>();
    folder.write("cases.ndjson", lines.as_bytes())
}

/// A session whose last response has three lines: text, text of 800 characters (200 tokens), and a call of 4 + 18 = 22
/// characters (22 / 4 = 5.5, so 6). Its result has 2,000 characters (500); a reminder of tasks follows, which the client
/// wraps in 500 characters (125). The response before it ends at 166,300 + 100 + 500 = 166,900: not due without padding.
fn trail_log(folder: &mut CaseFolder, version: &'static str, sent: u64) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, version, "claude-sonnet-4-6");
    log.prompt(folder, 400);
    log.respond(folder, &[call_block("toolu_01A")], 166_300, 100, UsageOn::Every);
    log.count(166_300, 100);
    log.result(folder, "toolu_01A", 2_000);
    let blocks = [text_block(80), text_block(800), call_block("toolu_01B")];
    log.respond(folder, &blocks, sent, 100, UsageOn::Every);
    log.count(sent, 100);
    log.result(folder, "toolu_01B", 2_000);
    log.record(
        folder,
        "attachment",
        "\"attachment\":{\"type\":\"task_reminder\",\"content\":[],\"itemCount\":0}",
    );
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    log.save(folder)
}

const AT_THRESHOLD: &str = r#"{"mechanism":"auto","verdict":"exact","call":2,"recorded":167000,"predicted":167000,"threshold":167000,"window":200000,"window_grounds":"boundary"}"#;

/// 2.1.45 to 2.1.56 count user blocks only: 166,400 + 100 + 500 = 167,000.
pub(super) fn trail_of_user_blocks(folder: &mut CaseFolder) -> io::Result<()> {
    trail_log(folder, "2.1.50", 166_400)?;
    write_verdicts(folder, AT_THRESHOLD)
}

/// 2.1.57 to 2.1.72 also count the text of later lines: 166,200 + 100 + 200 + 500 = 167,000.
pub(super) fn trail_of_texts(folder: &mut CaseFolder) -> io::Result<()> {
    trail_log(folder, "2.1.60", 166_200)?;
    write_verdicts(folder, AT_THRESHOLD)
}

/// From 2.1.73 on all later lines count, and attachments: 166,069 + 100 + 200 + 6 + 500 + 125 = 167,000.
pub(super) fn trail_of_all_lines(folder: &mut CaseFolder) -> io::Result<()> {
    trail_log(folder, "2.1.100", 166_069)?;
    write_verdicts(folder, AT_THRESHOLD)
}

/// Usage stands on the last of three lines, so that line is counted from, and nothing of the response is estimated:
/// 166,000 + 500 + 500 (a result of 2,000 characters) = 167,000. The model is another vendor's; the compaction shows that
/// its window had 200,000 tokens.
pub(super) fn usage_on_last_line(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.120", "glm-5.1");
    log.prompt(folder, 400);
    let blocks = [text_block(80), text_block(800), call_block("call_01")];
    log.respond(folder, &blocks, 166_000, 500, UsageOn::Last);
    log.count(166_000, 500);
    log.result(folder, "call_01", 2_000);
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(folder, &AT_THRESHOLD.replace("\"call\":2", "\"call\":1"))
}

/// A fork writes a fresh id on every line and keeps the request: two lines, one call. The API's own ids are unique: the same
/// id under another request, in the log of a sub-agent, is the same call. Nothing is compacted.
pub(super) fn fresh_ids(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.120", "claude-opus-4-6");
    log.prompt(folder, 400);
    let request = api_id(folder.rng(), "req_011C");
    let ids = [0, 1].map(|_| Uuid::new(folder.rng()).as_str().to_owned());
    let blocks = [text_block(80), text_block(120)];
    log.respond_as(folder, &ids, &request, &blocks, (30_000, 90), UsageOn::Every);
    log.count(30_000, 90);
    log.prompt(folder, 80);
    let id = api_id(folder.rng(), "msg_01");
    let request = api_id(folder.rng(), "req_011C");
    let ids = [id];
    log.respond_as(folder, &ids, &request, &[text_block(80)], (30_300, 40), UsageOn::Every);
    log.count(30_300, 40);
    let mut replay = ScriptedLog::new(folder, "2.1.120", "claude-opus-4-6");
    replay.session = log.session.clone();
    replay.agent = ",\"agentId\":\"a1b2c3d4\"".to_owned();
    (replay.truth.sessions, replay.truth.subagents) = (0, 1);
    replay.prompt(folder, 80);
    let request = api_id(folder.rng(), "req_011C");
    replay.respond_as(folder, &ids, &request, &[text_block(80)], (30_300, 40), UsageOn::Every);
    let path = format!("{PROJECT}/{}/subagents/agent-a1b2c3d4.jsonl", log.session);
    log.save(folder)?;
    replay.save_at(folder, &path)?;
    write_verdicts(folder, "")
}

/// The client's summarizer has a log of its own with a copy of the conversation and of its boundary. The boundary counts
/// once: 166,900 + 100 = 167,000. The summarizer's call is billed once.
pub(super) fn summarizer_log(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.100", "claude-sonnet-4-6");
    log.prompt(folder, 400);
    log.say(folder, 166_900, 100);
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    let mut copy = ScriptedLog::new(folder, "2.1.100", "claude-sonnet-4-6");
    copy.session = log.session.clone();
    copy.agent = ",\"agentId\":\"acompact-0f1e2d3c\"".to_owned();
    (copy.truth.sessions, copy.truth.subagents) = (0, 1);
    copy.prompt(folder, 400);
    copy.compact(folder, 167_000);
    copy.say(folder, 167_400, 900);
    let path = format!("{PROJECT}/{}/subagents/agent-acompact-0f1e2d3c.jsonl", log.session);
    log.save(folder)?;
    copy.save_at(folder, &path)?;
    write_verdicts(folder, &AT_THRESHOLD.replace("\"call\":2", "\"call\":1"))
}

/// Two images are cleared: a record without results that saved 2 x 2,000 tokens. It is listed apart.
pub(super) fn images_cleared(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.56", "claude-opus-4-6");
    log.prompt(folder, 400);
    log.say(folder, 90_000, 100);
    log.prompt(folder, 400);
    log.record(
        folder,
        "system",
        "\"subtype\":\"microcompact_boundary\",\"content\":\"Context microcompacted\",\"microcompactMetadata\":{\"trigger\":\"auto\",\"preTokens\":90100,\"tokensSaved\":4000,\"compactedToolIds\":[],\"clearedAttachmentUUIDs\":[]}",
    );
    log.truth.boundaries_micro += 1;
    log.say(folder, 86_200, 50);
    log.save(folder)?;
    write_verdicts(
        folder,
        r#"{"mechanism":"images","verdict":"undecidable","reason":"images","call":1,"recorded":90100,"predicted":null}"#,
    )
}

/// Opus with a million tokens at 500,000, then Haiku, whose window of 200,000 the first compaction shows (166,900 + 100 =
/// 167,000): the first check after the switch compacts, 500,000 + 10 + 3 (a prompt of 10 characters, 2.5) = 500,013. The
/// boundary says nothing about the window of Opus.
pub(super) fn model_switch(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.200", "claude-haiku-4-5-20251001");
    log.prompt(folder, 400);
    log.say(folder, 166_900, 100);
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    log.model = "claude-opus-5";
    log.prompt(folder, 400);
    log.say(folder, 500_000, 10);
    log.model = "claude-haiku-4-5-20251001";
    log.prompt(folder, 10);
    log.compact(folder, 500_013);
    log.say(folder, 41_000, 50);
    log.save(folder)?;
    write_verdicts(
        folder,
        r#"
        {"mechanism":"auto","verdict":"exact","call":1,"recorded":167000,"predicted":167000,"threshold":167000,"window":200000,"window_grounds":"boundary"}
        {"mechanism":"auto","verdict":"exact","call":3,"recorded":500013,"predicted":500013,"threshold":167000,"window":200000,"window_grounds":"boundary"}
        "#,
    )
}

/// Models of other vendors behind one client version. One compacts at 95,000 = 128,000 - 33,000: 94,900 + 100. The other
/// shows nothing and grows to 190,000: its window is unknown, and nothing is predicted. A third passes 167,000 in a table
/// window of 200,000, which is no more than a guess.
pub(super) fn foreign_windows(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.60", "doubao-seed-x");
    log.prompt(folder, 400);
    log.say(folder, 94_900, 100);
    log.compact(folder, 95_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    for model in ["some-model-9", "glm-4.7"] {
        let mut log = ScriptedLog::new(folder, "2.1.30", model);
        log.prompt(folder, 400);
        for sent in [150_000, 170_000, 190_000] {
            log.say(folder, sent, 100);
            log.prompt(folder, 400);
        }
        log.save(folder)?;
    }
    write_verdicts(
        folder,
        r#"{"mechanism":"auto","verdict":"exact","call":1,"recorded":95000,"predicted":95000,"threshold":95000,"window":128000,"window_grounds":"boundary"}"#,
    )
}

/// A log that starts in the middle of a session: the parent of its first prompt was never written. Its first call sent
/// 100,000 tokens, of which 26,000 are system prompt and tools (the usual size of that version) and the rest is history. So
/// the compaction at 166,900 + 100 = 167,000 leaves a window that is in line with the 40,000 on record.
pub(super) fn mid_session(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.100", "claude-sonnet-4-6");
    log.leaf = Some(Uuid::new(folder.rng()).as_str().to_owned());
    log.prompt(folder, 400);
    log.say(folder, 75_000, 100);
    log.prompt(folder, 400);
    log.say(folder, 166_900, 100);
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(folder, AT_THRESHOLD)
}

/// The user goes back behind a compaction: the boundary is on a branch that the conversation left, and was predicted there.
/// 166,900 + 100 = 167,000. Without it the prediction would seem spurious. The window follows from a second boundary.
pub(super) fn boundary_off_chain(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = ScriptedLog::new(folder, "2.1.100", "claude-sonnet-4-6");
    log.prompt(folder, 400);
    log.say(folder, 166_900, 100);
    let here = log.leaf.clone();
    log.compact(folder, 167_000);
    log.leaf = here;
    log.prompt(folder, 400);
    log.say(folder, 100_000, 50);
    log.prompt(folder, 400);
    log.say(folder, 166_950, 50);
    log.compact(folder, 167_000);
    log.say(folder, 40_000, 50);
    log.save(folder)?;
    write_verdicts(
        folder,
        r#"
        {"mechanism":"auto","verdict":"exact","call":1,"recorded":167000,"predicted":167100}
        {"mechanism":"auto","verdict":"exact","call":3,"recorded":167000,"predicted":167000}
        "#,
    )
}
