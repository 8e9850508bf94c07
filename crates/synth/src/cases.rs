//! The bundled corpus: one small folder per case, each with its logs and the truth about them.
//! Every case is written by hand through `session`; its expected numbers are what that writing added up, corrected
//! in the open where a case damages bytes or copies records by its own hand.

use crate::client::{CLIENTS, SMALL_MODEL, by_version};
use crate::damage::{Damage, LineSink};
use crate::drive::{ATTACHMENTS, SessionDriver, attachment, local_command, local_command_output};
use crate::json::{Uuid, api_id, hex_id, quoted};
use crate::rng::Rng;
use crate::session::{
    LogIdentity, ResultOrder, SessionPrefix, SynthBlock, SynthSession, ToolOutput, replace_bytes, string_value,
};
use crate::tools;
use crate::tools::{ProjectFile, call_block, text_block, thinking_block, tool_output};
use crate::traced;
use crate::truth::Truth;
use crate::words::{LinePools, SynthText, TextFlavor};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A log that is built in memory, so that a case can still change its bytes.
pub(super) type CaseLog<'p> = SynthSession<'p, Vec<u8>>;

pub(super) struct CorpusCase {
    name: &'static str,
    proves: &'static str,
    build: fn(&mut CaseFolder) -> io::Result<()>,
}

pub(super) const fn case(
    name: &'static str,
    proves: &'static str,
    build: fn(&mut CaseFolder) -> io::Result<()>,
) -> CorpusCase {
    CorpusCase { name, proves, build }
}

const CASES: &[CorpusCase] = &[
    case("plain", "a short session with reads, a command and an answer", plain),
    case(
        "every-version",
        "one small session per client version: keys, orders and usage shapes of all eras",
        every_version,
    ),
    case(
        "long-session",
        "a longer session for the ledger: a good hundred records of all usual kinds",
        long_session,
    ),
    case(
        "streaming-partials",
        "lines of one response repeat a partial output; the largest counts, once",
        streaming_partials,
    ),
    case(
        "missing-request-id",
        "responses of several lines without requestId still count once",
        missing_request_id,
    ),
    case(
        "resumed-copy",
        "a resumed session repeats another's records under its own session id",
        resumed_copy,
    ),
    case(
        "forked-copies",
        "two sessions forked from one: shared responses count once",
        forked_copies,
    ),
    case(
        "sidechain-replay",
        "a sub-agent's log repeats a response of the main log",
        sidechain_replay,
    ),
    case(
        "subagents-beside",
        "old layout: agent-<id>.jsonl beside the session",
        subagents_beside,
    ),
    case(
        "subagents-nested",
        "new layout: <session>/subagents/ with .meta.json and workflows/",
        subagents_nested,
    ),
    case(
        "agent-progress",
        "progress records repeat a sub-agent's messages and must not be counted",
        agent_progress,
    ),
    case(
        "one-hour-writes",
        "cache writes of both lifetimes, apart and mixed in one response",
        one_hour_writes,
    ),
    case(
        "several-iterations",
        "top-level usage is the billed sum of its iterations",
        several_iterations,
    ),
    case(
        "zeroed-usage",
        "zero at top level: the iterations were billed, unless another line has the real usage",
        zeroed_usage,
    ),
    case(
        "rewind",
        "a prompt asked again leaves an abandoned branch that was still billed",
        rewind,
    ),
    case("two-leaves", "two branches grow from one answer", two_leaves),
    case(
        "parallel-calls",
        "parallel calls in the three ways clients link their results",
        parallel_calls,
    ),
    case(
        "boundary-auto",
        "automatic boundaries at 155,000 and at 167,000",
        boundary_auto,
    ),
    case("boundary-manual", "a boundary the user asked for", boundary_manual),
    case(
        "boundary-micro",
        "old tool results cleared by micro-compaction, with their ids",
        boundary_micro,
    ),
    case(
        "preserved-segment",
        "records after a boundary with earlier timestamps and zeroed usage",
        preserved_segment,
    ),
    case(
        "boundary-lost-parent",
        "a boundary whose logical parent was never written",
        boundary_lost_parent,
    ),
    case(
        "missing-parent",
        "a record whose parent is not in the file",
        missing_parent,
    ),
    case("parent-cycle", "two records that are each other's parent", parent_cycle),
    case(
        "clock-backwards",
        "time runs backwards in the middle of a session",
        clock_backwards,
    ),
    case("no-usage", "assistant records without usage", no_usage),
    case(
        "unknown-kinds",
        "record kinds, content blocks and fields nobody has heard of",
        unknown_kinds,
    ),
    case(
        "synthetic-model",
        "messages the client made up: never billed",
        synthetic_model,
    ),
    case("unknown-model", "a model without a known price", unknown_model),
    case("above-200k", "usage above 200,000 shows a larger window", above_200k),
    case(
        "duplicate-reads",
        "one file read three times: unchanged, after an edit, another range",
        duplicate_reads,
    ),
    case(
        "multi-script",
        "prompts, answers and results in many scripts",
        multi_script,
    ),
    case("attachments", "attachments of every kind", attachments),
    case(
        "local-commands",
        "slash commands and their output as user records",
        local_commands,
    ),
    case(
        "images-documents",
        "pictures and documents: many bytes, few tokens",
        images_documents,
    ),
    case("empty-file", "a log of no bytes beside an ordinary one", empty_file),
    case(
        "live-tail",
        "the last line is still being written: pending, not bad",
        live_tail,
    ),
    case(
        "no-final-newline",
        "the last line is complete but has no newline",
        no_final_newline,
    ),
    case(
        "glued-records",
        "a missing newline: two records in one line",
        |folder| damaged(folder, Damage::Glued),
    ),
    case(
        "spliced-records",
        "a torn record with the next one spliced on",
        |folder| damaged(folder, Damage::Spliced),
    ),
    case(
        "truncated-record",
        "a record that stops in the middle of its line",
        |folder| damaged(folder, Damage::Truncated),
    ),
    case("nul-runs", "NUL bytes before a record", |folder| {
        damaged(folder, Damage::NulRun)
    }),
    case("byte-order-mark", "a BOM before a record", |folder| {
        damaged(folder, Damage::ByteOrderMark)
    }),
    case("crlf", "lines that end in CR LF", crlf),
    case("lone-surrogate", "half of a surrogate pair in a text", |folder| {
        damaged(folder, Damage::LoneSurrogate)
    }),
    case("invalid-utf8", "bytes that are no UTF-8 in a text", |folder| {
        damaged(folder, Damage::InvalidUtf8)
    }),
    case("garbage-line", "a line that is no JSON at all", |folder| {
        damaged(folder, Damage::Garbage)
    }),
    case(
        "numeric-keys",
        "a string spread into an object of numeric keys",
        |folder| damaged(folder, Damage::NumericKeys),
    ),
    case("duplicate-keys", "a record that says some keys twice", duplicate_keys),
];

/// Cases that came later. A case is seeded by its place, so new ones come last: those before keep their bytes.
const LATER_CASES: &[CorpusCase] = &[case(
    "lasting-words",
    "what people say that holds in later sessions, among what does not; a secret that must not be kept",
    lasting_words,
)];

/// Names and one-line descriptions of the bundled cases.
pub fn cases() -> &'static [(&'static str, &'static str)] {
    static LIST: OnceLock<Vec<(&'static str, &'static str)>> = OnceLock::new();
    LIST.get_or_init(|| all_cases().map(|case| (case.name, case.proves)).collect())
}

/// Those that are counted, then those that are replayed.
fn all_cases() -> impl Iterator<Item = &'static CorpusCase> {
    CASES
        .iter()
        .chain(traced::CASES)
        .chain(LATER_CASES)
        .chain(traced::LATER_CASES)
}

/// Writes every case below `dir`: its logs, `expected.json`, and one README.md for all.
pub fn write_corpus(dir: &Path) -> io::Result<()> {
    let pools = LinePools::new();
    let mut readme = String::from(
        "# Bundled sessions\n\nSmall generated session logs, one folder per case. `expected.json` in each folder is what an honest\n\
         counter must find; it was written together with the logs, not read from them.\n\nThose with a `policy.toml` are replayed too: that is the policy, and `events.ndjson` what must\n\
         happen under it, worked out by hand; the sums stand beside each case in `crates/synth/src/traced`. All events are listed,\n\
         but calls only where a case is about them, and then with the fields it is about.\n\n| case | proves |\n| --- | --- |\n",
    );
    for (index, case) in all_cases().enumerate() {
        let root = dir.join(case.name);
        fs::create_dir_all(&root)?;
        let rng = Rng::fork(0x6361_7365, index as u64);
        let mut folder = CaseFolder {
            root: root.clone(),
            pools: &pools,
            rng,
            truth: Truth::default(),
        };
        (case.build)(&mut folder)?;
        let lead = [("case", case.name), ("proves", case.proves)];
        fs::write(root.join("expected.json"), folder.truth.to_json_with(&lead))?;
        readme.push_str(&format!("| {} | {} |\n", case.name, case.proves.replace('|', "\\|")));
    }
    fs::write(dir.join("README.md"), readme)
}

/// The folder of one case while it is being filled.
pub(super) struct CaseFolder<'p> {
    root: PathBuf,
    pools: &'p LinePools,
    rng: Rng,
    truth: Truth,
}

pub(super) const PROJECT: &str = "projects/-home-dev-projects-orchard";

impl<'p> CaseFolder<'p> {
    pub(super) fn log(&mut self, version: &str) -> CaseLog<'p> {
        let client = by_version(version);
        let who = LogIdentity {
            session_id: Uuid::new(&mut self.rng).as_str().to_owned(),
            cwd: "/home/dev/projects/orchard".to_owned(),
            branch: "main".to_owned(),
            slug: "quiet-sorting-lantern".to_owned(),
            agent_id: None,
        };
        self.log_as(version, client.models[0], who, client.since)
    }

    pub(super) fn log_as(&mut self, version: &str, model: &str, who: LogIdentity, now: u64) -> CaseLog<'p> {
        let sink = LineSink::new(Vec::new(), Rng::new(self.rng.next()), 0);
        SynthSession::new(
            Rng::new(self.rng.next()),
            self.pools,
            by_version(version),
            model,
            who,
            now,
            sink,
        )
    }

    pub(super) fn agent_log(&mut self, main: &CaseLog<'p>, model: &str) -> CaseLog<'p> {
        let digits = if main.client.has_late_envelope() { 17 } else { 8 };
        let who = LogIdentity {
            agent_id: Some(hex_id(&mut self.rng, digits)),
            ..main.identity.clone()
        };
        self.log_as(main.client.version, model, who, main.now)
    }

    pub(super) fn write(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, bytes)
    }

    /// Closes a main log and writes it where the client would.
    pub(super) fn save(&mut self, log: CaseLog<'p>) -> io::Result<Option<SessionPrefix>> {
        let path = format!("{PROJECT}/{}.jsonl", log.identity.session_id);
        self.save_at(&path, log, |bytes| bytes)
    }

    /// Closes a log, lets the case change its bytes, and writes it.
    pub(super) fn save_at(
        &mut self,
        path: &str,
        log: CaseLog<'p>,
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> io::Result<Option<SessionPrefix>> {
        let (bytes, mut truth, prefix) = log.finish()?;
        let bytes = change(bytes);
        truth.bytes = bytes.len() as u64;
        self.truth.merge(&truth);
        self.write(path, &bytes)?;
        Ok(prefix)
    }
}

// ---- building blocks of the cases --------------------------------------------------------------------------------

fn ask(log: &mut CaseLog, text: &str) -> io::Result<Uuid> {
    log.wait(4_000, 40_000);
    log.prompt(&SynthText::of(text))
}

fn say(log: &mut CaseLog, text: &str) -> io::Result<()> {
    let block = text_block(log, &SynthText::of(text));
    log.respond(&[block], ResultOrder::CallsFirst)
}

fn turn(log: &mut CaseLog, prompt: &str, answer: &str) -> io::Result<()> {
    ask(log, prompt)?;
    say(log, answer)
}

fn run(log: &mut CaseLog, units: u64) -> io::Result<()> {
    let thought = thinking_block(
        log,
        &SynthText::of("The tests will show which basket is counted twice."),
    );
    let words = text_block(log, &SynthText::of("I will run the tests first."));
    let command = tools::bash(log, units);
    log.respond(&[thought, words, command], ResultOrder::CallsFirst)
}

/// A file of the project that every case can read.
fn project_file(log: &mut CaseLog) -> ProjectFile {
    ProjectFile::new(&mut log.rng, "/home/dev/projects/orchard")
}

fn end_turn(log: &mut CaseLog) -> io::Result<()> {
    log.system(
        ",\"subtype\":\"turn_duration\",\"durationMs\":41200",
        ",\"isMeta\":false",
    )?;
    log.finish_turn();
    Ok(())
}

/// A call with a result of plain text in that tongue and no second copy.
fn lookup_block(log: &mut CaseLog, tongue: TextFlavor, units: u64) -> SynthBlock {
    let mut shown = SynthText::default();
    log.pools.write(&mut log.rng, tongue, units, &mut shown);
    let outcome = tool_output(log, &shown, Vec::new());
    call_block(
        log,
        "Read",
        b"{\"file_path\":\"/home/dev/projects/orchard/notes.txt\"}",
        outcome,
    )
}

// ---- ordinary sessions -------------------------------------------------------------------------------------------

fn plain(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    ask(&mut log, "Why does the basket count come out one too high?")?;
    let file = project_file(&mut log);
    let read = tools::read(&mut log, &file, 1, 60);
    log.respond(&[read], ResultOrder::CallsFirst)?;
    run(&mut log, 900)?;
    say(
        &mut log,
        "The loop starts at zero and ends at `len`, so the last basket is counted twice.",
    )?;
    end_turn(&mut log)?;
    turn(&mut log, "Thanks. Anything else?", "No: the other loops are fine.")?;
    folder.save(log)?;
    Ok(())
}

fn lasting_words(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(
        &mut log,
        "I'm a data engineer, new to Rust. Why does the harvest report come out empty?",
        "The reader skips the header and then the only row.",
    )?;
    turn(
        &mut log,
        "Fix it. And from now on always run the integration tests before you say that something works, \
         because the unit tests mock the database.",
        "Fixed, and the integration tests pass.",
    )?;
    turn(&mut log, "Never push to main without asking me first.", "Understood.")?;
    turn(
        &mut log,
        "We freeze merges on 2026-09-01 because the mobile team cuts a release branch.",
        "Noted.",
    )?;
    folder.save(log)?;
    let mut log = folder.log("2.1.226");
    turn(
        &mut log,
        "Remember that bugs of the importer are tracked in the Linear project HARVEST.",
        "I will look there.",
    )?;
    turn(&mut log, "Please never push to main without asking me first!", "Right.")?;
    turn(
        &mut log,
        "Remember that the staging password is hunter2-Kx9vQ7mZ.",
        "I would rather not keep that.",
    )?;
    turn(&mut log, "Rename `fruit` to `crop` in this file.", "Renamed.")?;
    folder.save(log)?;
    Ok(())
}

fn every_version(folder: &mut CaseFolder) -> io::Result<()> {
    for client in CLIENTS {
        let mut log = folder.log(client.version);
        log.hour_cache = client.may_write_for_an_hour();
        ask(&mut log, "Sort the ladders by height.")?;
        run(&mut log, 300)?;
        let list = tools::todos(&mut log);
        let grep = tools::grep(&mut log, 120);
        log.respond(&[list, grep], ResultOrder::CallsFirst)?;
        say(&mut log, "Sorted. The tallest one comes first now.")?;
        folder.save(log)?;
    }
    Ok(())
}

fn long_session(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    log.hour_cache = true;
    SessionDriver::new(&mut log, 180_000)
        .with_lines_up_to(1_500)
        .run(0, |_| unreachable!("no sub-agents were asked for"))?;
    folder.save(log)?;
    Ok(())
}

// ---- counting once -----------------------------------------------------------------------------------------------

fn streaming_partials(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["2.1.17", "2.1.59"] {
        let mut log = folder.log(version);
        ask(&mut log, "Measure the narrow ladder.")?;
        run(&mut log, 400)?;
        run(&mut log, 200)?;
        say(&mut log, "It is three rungs short.")?;
        folder.save(log)?;
    }
    // Output grows from line to line and the largest is not on the last line.
    let mut log = folder.log("2.0.76");
    ask(&mut log, "And the wide one?")?;
    let mut response = log.begin_response(412);
    for (output, text) in [(3, "Let me look."), (412, "It is fine."), (7, "Really.")] {
        let block = text_block(&mut log, &SynthText::of(text));
        log.assistant(&mut response, log.leaf, &block.json, output, None)?;
    }
    log.end_response(&response, 7);
    folder.save(log)?;
    Ok(())
}

fn missing_request_id(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("1.0.43");
    log.request_ids = false;
    ask(&mut log, "Label the shelves.")?;
    run(&mut log, 300)?;
    say(&mut log, "All shelves have labels.")?;
    folder.save(log)?;
    Ok(())
}

/// A session of two turns whose lines another session will repeat.
fn original(folder: &mut CaseFolder) -> io::Result<Option<SessionPrefix>> {
    let mut log = folder.log("2.1.29");
    log.keep_prefix();
    ask(&mut log, "Count the lanterns.")?;
    run(&mut log, 500)?;
    say(&mut log, "There are eleven.")?;
    end_turn(&mut log)?;
    turn(&mut log, "And the broken ones?", "Two of them are broken.")?;
    log.finish_turn();
    folder.save(log)
}

fn resumed_copy(folder: &mut CaseFolder) -> io::Result<()> {
    let prefix = original(folder)?;
    resume(folder, prefix.as_ref(), "Then mend them.", "Both are mended.")
}

fn forked_copies(folder: &mut CaseFolder) -> io::Result<()> {
    let prefix = original(folder)?;
    resume(folder, prefix.as_ref(), "Mend them.", "Both are mended.")?;
    resume(folder, prefix.as_ref(), "Throw them away.", "They are gone.")
}

fn resume(folder: &mut CaseFolder, prefix: Option<&SessionPrefix>, prompt: &str, answer: &str) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    if let Some(prefix) = prefix {
        log.resume(prefix)?;
    }
    turn(&mut log, prompt, answer)?;
    folder.save(log)?;
    Ok(())
}

// ---- sub-agents --------------------------------------------------------------------------------------------------

fn delegate(folder: &mut CaseFolder, main: &mut CaseLog, agent: &mut CaseLog) -> io::Result<()> {
    let prompt = "Find every stale ribbon.";
    ask(agent, prompt)?;
    run(agent, 500)?;
    say(agent, "Three stale ribbons: one in the cellar, two in the pantry.")?;
    main.now = agent.now;
    let report = SynthText::of("Three stale ribbons: one in the cellar, two in the pantry.");
    let id = agent.identity.agent_id.clone().unwrap_or_default();
    let mut progress = Vec::new();
    if main.client.has_progress() {
        // The nested message is the agent's own last line.
        let line = String::from_utf8_lossy(&agent.last_assistant).into_owned();
        let message = line
            .find("\"message\":{")
            .zip(line.find(",\"type\":\"assistant\",\"uuid\":"));
        if let Some((start, end)) = message {
            let uuid = Uuid::new(&mut folder.rng);
            let data = format!(
                "{{\"message\":{{\"type\":\"assistant\",{},\"uuid\":\"{}\"}},\"normalizedMessages\":[],\
                 \"type\":\"agent_progress\",\"prompt\":{},\"agentId\":\"{id}\"}}",
                &line[start..end],
                uuid.as_str(),
                quoted(prompt)
            );
            progress.push((data.into_bytes(), "agent_msg_1".to_owned()));
        }
    }
    let block = tools::agent(main, &id, prompt, &report, progress);
    main.respond(&[block], ResultOrder::CallsFirst)
}

pub(super) fn agent_name(agent: &CaseLog) -> String {
    format!("agent-{}", agent.identity.agent_id.as_deref().unwrap_or_default())
}

fn sidechain_replay(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = folder.log("2.0.76");
    turn(&mut main, "Look after the ribbons.", "I will ask a helper.")?;
    let mut agent = folder.agent_log(&main, SMALL_MODEL);
    agent.replay(&main.last_assistant)?;
    delegate(folder, &mut main, &mut agent)?;
    say(&mut main, "Three ribbons are stale.")?;
    let path = format!("{PROJECT}/{}.jsonl", agent_name(&agent));
    folder.save_at(&path, agent, |bytes| bytes)?;
    folder.save(main)?;
    Ok(())
}

fn subagents_beside(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = folder.log("2.0.44");
    ask(&mut main, "Look after the ribbons.")?;
    let mut agent = folder.agent_log(&main, SMALL_MODEL);
    delegate(folder, &mut main, &mut agent)?;
    say(&mut main, "Three ribbons are stale.")?;
    let path = format!("{PROJECT}/{}.jsonl", agent_name(&agent));
    folder.save_at(&path, agent, |bytes| bytes)?;
    folder.save(main)?;
    Ok(())
}

fn subagents_nested(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = folder.log("2.1.220");
    let nested = format!("{PROJECT}/{}/subagents", main.identity.session_id);
    ask(&mut main, "Look after the ribbons, twice.")?;
    for place in [nested.clone(), format!("{nested}/workflows/wf_0a1b2c3d")] {
        let mut agent = folder.agent_log(&main, "claude-sonnet-5");
        delegate(folder, &mut main, &mut agent)?;
        let name = agent_name(&agent);
        folder.write(&format!("{place}/{name}.meta.json"), b"{\"agentType\":\"Explore\"}\n")?;
        folder.save_at(&format!("{place}/{name}.jsonl"), agent, |bytes| bytes)?;
    }
    say(&mut main, "Both helpers found the same three.")?;
    folder.save(main)?;
    Ok(())
}

fn agent_progress(folder: &mut CaseFolder) -> io::Result<()> {
    let mut main = folder.log("2.1.29");
    let nested = format!("{PROJECT}/{}/subagents", main.identity.session_id);
    ask(&mut main, "Look after the ribbons.")?;
    let mut agent = folder.agent_log(&main, SMALL_MODEL);
    delegate(folder, &mut main, &mut agent)?;
    say(&mut main, "Three ribbons are stale.")?;
    let path = format!("{nested}/{}.jsonl", agent_name(&agent));
    folder.save_at(&path, agent, |bytes| bytes)?;
    folder.save(main)?;
    Ok(())
}

// ---- usage -------------------------------------------------------------------------------------------------------

fn one_hour_writes(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    log.hour_cache = true;
    turn(&mut log, "Open the window.", "It is open.")?;
    ask(&mut log, "Close it again.")?;
    let mut response = log.begin_response(120);
    response.usage.write_5m = 700;
    response.usage.write_1h = 1_300;
    let block = text_block(&mut log, &SynthText::of("It is closed."));
    log.respond_with(&mut response, &[block], ResultOrder::CallsFirst)?;
    // Half an hour later the hour tier still holds.
    log.now += 1_800_000;
    turn(&mut log, "And open?", "Open.")?;
    folder.save(log)?;
    Ok(())
}

fn several_iterations(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    log.hour_cache = true;
    log.context.size = 112_000;
    ask(&mut log, "What do the docs say about pruning?")?;
    let words = text_block(&mut log, &SynthText::of("I will search for it."));
    let fetch = tools::fetch(&mut log, 600);
    log.respond_twice(&[words, fetch], ResultOrder::CallsFirst)?;
    say(&mut log, "Prune late in winter.")?;
    folder.save(log)?;
    Ok(())
}

fn zeroed_usage(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    ask(&mut log, "Weigh the parcels.")?;
    // Only the iterations tell what this one cost.
    let mut response = log.begin_response(333);
    response.zeroed = true;
    response.iterations = vec![response.usage.clone()];
    let block = text_block(&mut log, &SynthText::of("They weigh nine stones."));
    log.assistant(&mut response, log.leaf, &block.json, 0, Some("end_turn"))?;
    log.end_response(&response, 0);
    // This one has its real usage on the first line; its zeroed second line adds nothing.
    ask(&mut log, "All of them?")?;
    let mut response = log.begin_response(88);
    let block = text_block(&mut log, &SynthText::of("All but one."));
    log.assistant(&mut response, log.leaf, &block.json, 88, Some("end_turn"))?;
    let real = response.usage.clone();
    response.zeroed = true;
    response.iterations = vec![real];
    log.assistant(&mut response, log.leaf, &block.json, 0, Some("end_turn"))?;
    response.zeroed = false;
    response.iterations.clear();
    log.end_response(&response, 88);
    folder.save(log)?;
    Ok(())
}

fn unknown_model(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    log.model = "quartz-9-preview".to_owned();
    turn(&mut log, "Which model are you?", "One that nobody has a price for.")?;
    folder.save(log)?;
    Ok(())
}

fn above_200k(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    log.threshold = 967_000;
    log.context.size = 262_000;
    ask(&mut log, "Read the whole cellar.")?;
    run(&mut log, 4_000)?;
    say(&mut log, "It is a large cellar.")?;
    folder.save(log)?;
    Ok(())
}

fn synthetic_model(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["2.0.76", "2.1.220"] {
        let mut log = folder.log(version);
        turn(&mut log, "Carry the buckets.", "They are carried.")?;
        log.system(
            ",\"subtype\":\"api_error\",\"level\":\"error\",\"error\":{\"status\":529}",
            ",\"retryInMs\":520,\"retryAttempt\":1,\"maxRetries\":10",
        )?;
        log.synthetic("API Error: the service is overloaded, try again later.", true)?;
        log.synthetic("Nothing was asked.", false)?;
        folder.save(log)?;
    }
    Ok(())
}

fn no_usage(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    ask(&mut log, "Is anyone there?")?;
    let id = api_id(&mut log.rng, "msg_01");
    let body = format!(
        ",\"message\":{{\"model\":\"claude-opus-4-5-20251101\",\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\
         \"content\":[{{\"type\":\"text\",\"text\":\"Yes.\"}}],\"stop_reason\":null,\"stop_sequence\":null}}"
    );
    log.other("assistant", &body)?;
    log.other(
        "assistant",
        &body.replace("\"stop_sequence\":null", "\"stop_sequence\":null,\"usage\":null"),
    )?;
    turn(&mut log, "Good.", "Indeed.")?;
    folder.save(log)?;
    Ok(())
}

// ---- structure ---------------------------------------------------------------------------------------------------

fn rewind(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    turn(&mut log, "Paint the bridge.", "Which colour?")?;
    let here = log.bookmark();
    ask(&mut log, "Red.")?;
    run(&mut log, 300)?;
    say(&mut log, "It is red now.")?;
    log.rewind(here);
    turn(&mut log, "Blue, not red.", "It is blue now.")?;
    folder.save(log)?;
    Ok(())
}

fn two_leaves(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.114");
    turn(&mut log, "Plan the garden.", "Here are two plans.")?;
    let here = log.bookmark();
    turn(&mut log, "Take the first.", "The first it is.")?;
    turn(&mut log, "Add a hedge.", "A hedge is added.")?;
    log.rewind(here);
    turn(&mut log, "Take the second.", "The second it is.")?;
    turn(&mut log, "Add a pond.", "A pond is added.")?;
    folder.save(log)?;
    Ok(())
}

fn parallel_calls(folder: &mut CaseFolder) -> io::Result<()> {
    for (version, order) in [
        ("2.0.76", ResultOrder::CallsFirst),
        ("2.1.29", ResultOrder::Interleaved),
        ("2.1.220", ResultOrder::CallsFirst),
    ] {
        let mut log = folder.log(version);
        ask(&mut log, "Look everywhere at once.")?;
        let words = text_block(&mut log, &SynthText::of("Three looks at once."));
        let file = project_file(&mut log);
        let calls = [
            words,
            tools::bash(&mut log, 300),
            tools::grep(&mut log, 200),
            tools::read(&mut log, &file, 1, 20),
        ];
        log.respond(&calls, order)?;
        say(&mut log, "Nothing anywhere.")?;
        folder.save(log)?;
    }
    Ok(())
}

fn missing_parent(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    turn(&mut log, "First thing.", "First done.")?;
    log.leaf = Some(Uuid::new(&mut folder.rng));
    turn(&mut log, "Second thing.", "Second done.")?;
    folder.save(log)?;
    Ok(())
}

fn parent_cycle(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    let placeholder = Uuid::new(&mut folder.rng);
    log.leaf = Some(placeholder);
    turn(&mut log, "Which came first?", "Each of us came after the other.")?;
    let last = log.leaf.unwrap_or(placeholder);
    turn(&mut log, "And then?", "Then it went on.")?;
    let path = format!("{PROJECT}/{}.jsonl", log.identity.session_id);
    folder.save_at(&path, log, |bytes| {
        replace_bytes(&bytes, placeholder.as_str().as_bytes(), last.as_str().as_bytes())
    })?;
    Ok(())
}

fn clock_backwards(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    turn(&mut log, "What time is it?", "Late.")?;
    log.now -= 7_200_000;
    turn(&mut log, "And now?", "Earlier.")?;
    log.now += 14_400_000;
    turn(&mut log, "And now?", "Later again.")?;
    folder.save(log)?;
    Ok(())
}

fn unknown_kinds(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    let id = log.identity.session_id.clone();
    log.write_plain(
        "weather-report",
        &format!("{{\"type\":\"weather-report\",\"sky\":\"clear\",\"sessionId\":\"{id}\"}}"),
    )?;
    ask(&mut log, "What is new?")?;
    log.other("hologram", ",\"frames\":[[1,2,[3,[4]]],{}],\"brightness\":0.5")?;
    log.attachment("{\"type\":\"scent\",\"notes\":[\"pine\",\"rain\"]}", 0)?;
    let mut response = log.begin_response(60);
    let block = b"{\"type\":\"riddle\",\"riddle\":\"What has roots that nobody sees?\",\"answers\":[]}";
    log.assistant(&mut response, log.leaf, block, 60, Some("riddle_posed"))?;
    log.end_response(&response, 60);
    log.user(
        log.leaf,
        b"[{\"type\":\"melody\",\"notes\":\"c e g\"}]",
        ",\"mood\":\"calm\"",
        b",\"echo\":null",
    )?;
    log.system(",\"subtype\":\"tide_change\",\"height\":3", ",\"level\":\"info\"")?;
    say(&mut log, "Everything.")?;
    folder.save(log)?;
    Ok(())
}

// ---- compaction --------------------------------------------------------------------------------------------------

/// Fills the window to just below the threshold and lets the next result pass it.
fn fill_up(log: &mut CaseLog) -> io::Result<()> {
    log.context.size = log.threshold - 3_000;
    ask(log, "Go on with the long list.")?;
    let read = lookup_block(log, TextFlavor::Go, 16_000);
    log.respond(&[read], ResultOrder::CallsFirst)
}

fn boundary_auto(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["2.1.7", "2.1.29"] {
        let mut log = folder.log(version);
        fill_up(&mut log)?;
        log.compact_if_due()?;
        say(&mut log, "The list goes on after the summary.")?;
        turn(&mut log, "Good.", "There are nine left.")?;
        folder.save(log)?;
    }
    Ok(())
}

fn boundary_manual(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    log.context.size = 88_000;
    turn(&mut log, "We are done with this part.", "Then it can be condensed.")?;
    let before = log.checked_size();
    log.compact("manual", before)?;
    local_command_output(&mut log, "/compact", "Compacted")?;
    turn(&mut log, "Next part.", "Ready.")?;
    folder.save(log)?;
    Ok(())
}

fn boundary_micro(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.17");
    log.context.size = 68_000;
    ask(&mut log, "Read all the long notes.")?;
    for _ in 0..6 {
        let read = lookup_block(&mut log, TextFlavor::English, 42_000);
        log.respond(&[read], ResultOrder::CallsFirst)?;
        log.compact_if_due()?;
    }
    say(&mut log, "Read, and mostly forgotten.")?;
    folder.save(log)?;
    Ok(())
}

fn preserved_segment(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    log.hour_cache = true;
    log.context.size = 164_000;
    turn(&mut log, "One more file.", "Which one?")?;
    ask(&mut log, "The large one.")?;
    let words = text_block(&mut log, &SynthText::of("I will read it."));
    let read = lookup_block(&mut log, TextFlavor::Rust, 16_000);
    log.compact_preserving(&[words, read])?;
    for kind in ["compact_file_reference", "file", "invoked_skills"] {
        attachment(&mut log, kind)?;
    }
    say(&mut log, "It holds forty shelves.")?;
    folder.save(log)?;
    Ok(())
}

fn boundary_lost_parent(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.29");
    fill_up(&mut log)?;
    let before = log.checked_size() + 1_900;
    let lost = Uuid::new(&mut folder.rng);
    let summary = Uuid::new(&mut folder.rng);
    log.boundary("auto", before, Some(lost), summary, &[])?;
    log.summary(summary)?;
    say(&mut log, "The last result was never written.")?;
    folder.save(log)?;
    Ok(())
}

// ---- content -----------------------------------------------------------------------------------------------------

fn duplicate_reads(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    ask(&mut log, "Change the first line and check it.")?;
    let mut file = project_file(&mut log);
    for _ in 0..2 {
        let read = tools::read(&mut log, &file, 1, 40);
        log.respond(&[read], ResultOrder::CallsFirst)?;
    }
    let edit = tools::edit(&mut log, &mut file, 12, false);
    log.respond(&[edit], ResultOrder::CallsFirst)?;
    for (first, count) in [(1, 40), (9, 12)] {
        let read = tools::read(&mut log, &file, first, count);
        log.respond(&[read], ResultOrder::CallsFirst)?;
    }
    say(&mut log, "Changed and checked.")?;
    folder.save(log)?;
    Ok(())
}

fn multi_script(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    for tongue in [
        TextFlavor::Chinese,
        TextFlavor::Arabic,
        TextFlavor::Russian,
        TextFlavor::Hindi,
        TextFlavor::Emoji,
        TextFlavor::Patterns,
    ] {
        let mut text = SynthText::default();
        log.pools.write(&mut log.rng, tongue, 120, &mut text);
        log.wait(2_000, 9_000);
        log.prompt(&text)?;
        let read = lookup_block(&mut log, tongue, 700);
        log.respond(&[read], ResultOrder::CallsFirst)?;
        log.pools.write(&mut log.rng, tongue, 60, &mut text);
        let block = text_block(&mut log, &text);
        log.respond(&[block], ResultOrder::CallsFirst)?;
    }
    turn(
        &mut log,
        "e\u{301} \u{200d}\u{feff}\u{2028}\u{2029} \u{0} \u{1f} \u{7f} \u{fffd} 𝄞",
        "naïve: \u{202e}oot tel\u{202c}",
    )?;
    folder.save(log)?;
    Ok(())
}

fn attachments(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.226");
    ask(&mut log, "Here is everything I have.")?;
    for kind in ATTACHMENTS {
        attachment(&mut log, kind)?;
    }
    say(&mut log, "That is a lot.")?;
    folder.save(log)?;
    Ok(())
}

fn local_commands(folder: &mut CaseFolder) -> io::Result<()> {
    for version in ["1.0.128", "2.1.29", "2.1.220"] {
        let mut log = folder.log(version);
        local_command(&mut log)?;
        local_command_output(&mut log, "/model", "Set model to \u{1b}[1mthe larger one\u{1b}[22m")?;
        turn(&mut log, "Is all well?", "All is well.")?;
        let shell = SynthText::of("<bash-input>ls baskets</bash-input>");
        let content = string_value(&shell);
        log.user(log.leaf, &content, "", b"")?;
        let shell = SynthText::of("<bash-stdout>one\ntwo</bash-stdout><bash-stderr></bash-stderr>");
        let content = string_value(&shell);
        log.user(log.leaf, &content, "", b"")?;
        folder.save(log)?;
    }
    Ok(())
}

fn images_documents(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    let mut data = Vec::new();
    for (kind, media, label) in [
        ("image", "image/png", "What is in this picture?"),
        ("document", "application/pdf", "And in this paper?"),
    ] {
        data.clear();
        log.pools.base64(&mut log.rng, 6_000, &mut data);
        let content = [
            format!("[{{\"type\":\"text\",\"text\":\"{label}\"}},{{\"type\":\"{kind}\",\"source\":{{\"type\":\"base64\",\"media_type\":\"{media}\",\"data\":\"")
                .as_bytes(),
            &data,
            b"\"}}]",
        ]
        .concat();
        log.user(log.leaf, &content, "", b"")?;
        log.add_to_context(label.len() as u64, 1_500);
        say(&mut log, "A ladder against a wall.")?;
    }
    ask(&mut log, "Open the third yourself.")?;
    let picture = tools::picture(&mut log, 9_000);
    log.respond(&[picture], ResultOrder::CallsFirst)?;
    let list = ToolOutput {
        content: b"[{\"type\":\"text\",\"text\":\"one part\"},{\"type\":\"text\",\"text\":\"another part\"},{\"type\":\"tool_reference\",\"tool_name\":\"WebFetch\"}]".to_vec(),
        kept: Vec::new(),
        error: false,
        units: 20,
        tokens: 33,
    };
    let search = call_block(&mut log, "ToolSearch", b"{\"query\":\"select:WebFetch\"}", list);
    log.respond(&[search], ResultOrder::CallsFirst)?;
    say(&mut log, "The same ladder.")?;
    folder.save(log)?;
    Ok(())
}

// ---- ends of files and damage ------------------------------------------------------------------------------------

fn empty_file(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Is the other file empty?", "It is.")?;
    let name = Uuid::new(&mut folder.rng);
    folder.write(&format!("{PROJECT}/{}.jsonl", name.as_str()), b"")?;
    folder.truth.files += 1;
    folder.save(log)?;
    Ok(())
}

fn live_tail(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Keep writing.", "I am.")?;
    log.sink.write_raw(
        b"{\"parentUuid\":null,\"isSidechain\":false,\"message\":{\"model\":\"claude-opus-5\",\"id\":\"msg_01",
    )?;
    log.truth.lines += 1;
    log.truth.pending_tails += 1;
    folder.save(log)?;
    Ok(())
}

fn no_final_newline(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Stop here.", "Stopped.")?;
    // The last record carries no usage: totals are the same whether or not a reader waits for the newline.
    end_turn(&mut log)?;
    let path = format!("{PROJECT}/{}.jsonl", log.identity.session_id);
    folder.save_at(&path, log, |mut bytes| {
        bytes.pop();
        bytes
    })?;
    Ok(())
}

/// An ordinary session with one record damaged: the answer in the middle, which alone carries its usage.
fn damaged(folder: &mut CaseFolder, damage: Damage) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Before the damage.", "All is well.")?;
    ask(&mut log, "Now it happens.")?;
    log.sink.force_damage(damage);
    say(&mut log, "This line is the one that suffers.")?;
    turn(&mut log, "After the damage.", "All is well again.")?;
    folder.save(log)?;
    Ok(())
}

fn crlf(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    for _ in 0..2 {
        log.sink.force_damage(Damage::CarriageReturn);
        ask(&mut log, "Written on another system.")?;
        log.sink.force_damage(Damage::CarriageReturn);
        say(&mut log, "It reads the same.")?;
    }
    folder.save(log)?;
    Ok(())
}

fn duplicate_keys(folder: &mut CaseFolder) -> io::Result<()> {
    let mut log = folder.log("2.1.220");
    turn(&mut log, "Say it twice.", "Twice, twice.")?;
    // The repeated keys agree where they count and differ only in the slug.
    log.truth.damage("duplicate_keys");
    log.other(
        "system",
        ",\"subtype\":\"informational\",\"content\":\"twice\",\"content\":\"twice\",\"slug\":\"other\"",
    )?;
    let mut response = log.begin_response(40);
    let block = b"{\"type\":\"text\",\"type\":\"text\",\"text\":\"Twice.\",\"text\":\"Twice.\"}";
    log.truth.damage("duplicate_keys");
    log.assistant(&mut response, log.leaf, block, 40, Some("end_turn"))?;
    log.end_response(&response, 40);
    folder.save(log)?;
    Ok(())
}
