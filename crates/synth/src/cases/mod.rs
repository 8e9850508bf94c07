//! The bundled corpus: one small folder per case, each with its logs and the truth about them.
//!
//! Every case is written by hand through `session`, which counts the truth on the way. A case that damages bytes or copies
//! records itself corrects the truth explicitly.

mod agents;
mod content;
mod counting;
mod structure;

pub(super) use agents::agent_name;

use crate::client::by_version;
use crate::damage::{Damage, LineSink};
use crate::json::{Uuid, hex_id};
use crate::rng::Rng;
use crate::session::{
    AssistantLine, LogIdentity, ResultOrder, SessionPrefix, SessionStart, SynthBlock, SynthResponse, SynthSession,
};
use crate::tools::{self, ProjectFile, call_block, text_block, thinking_block, tool_output};
use crate::traced;
use crate::truth::Truth;
use crate::words::{LinePools, SynthText, TextFlavor};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A log in memory, so that a case can still change its bytes.
pub(super) type CaseLog<'p> = SynthSession<'p, Vec<u8>>;

/// A case of the bundled corpus.
pub(super) struct CorpusCase {
    /// Name of its folder.
    name: &'static str,
    /// What it tests, in one line.
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
    case(
        "plain",
        "a short session with reads, a command and an answer",
        counting::plain,
    ),
    case(
        "every-version",
        "one small session per client version: keys, orders and usage shapes of all eras",
        counting::every_version,
    ),
    case(
        "long-session",
        "a longer session for the ledger: a good hundred records of all usual kinds",
        counting::long_session,
    ),
    case(
        "streaming-partials",
        "lines of one response repeat a partial output; the largest counts, once",
        counting::streaming_partials,
    ),
    case(
        "missing-request-id",
        "responses of several lines without requestId still count once",
        counting::missing_request_id,
    ),
    case(
        "resumed-copy",
        "a resumed session repeats another's records under its own session id",
        counting::resumed_copy,
    ),
    case(
        "forked-copies",
        "two sessions forked from one: shared responses count once",
        counting::forked_copies,
    ),
    case(
        "sidechain-replay",
        "a sub-agent's log repeats a response of the main log",
        agents::sidechain_replay,
    ),
    case(
        "subagents-beside",
        "old layout: agent-<id>.jsonl beside the session",
        agents::subagents_beside,
    ),
    case(
        "subagents-nested",
        "new layout: <session>/subagents/ with .meta.json and workflows/",
        agents::subagents_nested,
    ),
    case(
        "agent-progress",
        "progress records repeat a sub-agent's messages and must not be counted",
        agents::agent_progress,
    ),
    case(
        "one-hour-writes",
        "cache writes of both lifetimes, apart and mixed in one response",
        counting::one_hour_writes,
    ),
    case(
        "several-iterations",
        "top-level usage is the billed sum of its iterations",
        counting::several_iterations,
    ),
    case(
        "zeroed-usage",
        "zero at top level: the iterations were billed, unless another line has the real usage",
        counting::zeroed_usage,
    ),
    case(
        "rewind",
        "a prompt asked again leaves an abandoned branch that was still billed",
        structure::rewind,
    ),
    case("two-leaves", "two branches grow from one answer", structure::two_leaves),
    case(
        "parallel-calls",
        "parallel calls in the three ways clients link their results",
        structure::parallel_calls,
    ),
    case(
        "boundary-auto",
        "automatic boundaries at 155,000 and at 167,000",
        structure::boundary_auto,
    ),
    case(
        "boundary-manual",
        "a boundary the user asked for",
        structure::boundary_manual,
    ),
    case(
        "boundary-micro",
        "old tool results cleared by micro-compaction, with their ids",
        structure::boundary_micro,
    ),
    case(
        "preserved-segment",
        "records after a boundary with earlier timestamps and zeroed usage",
        structure::preserved_segment,
    ),
    case(
        "boundary-lost-parent",
        "a boundary whose logical parent was never written",
        structure::boundary_lost_parent,
    ),
    case(
        "missing-parent",
        "a record whose parent is not in the file",
        structure::missing_parent,
    ),
    case(
        "parent-cycle",
        "two records that are each other's parent",
        structure::parent_cycle,
    ),
    case(
        "clock-backwards",
        "time runs backwards in the middle of a session",
        structure::clock_backwards,
    ),
    case("no-usage", "assistant records without usage", counting::no_usage),
    case(
        "unknown-kinds",
        "record kinds, content blocks and fields nobody has heard of",
        structure::unknown_kinds,
    ),
    case(
        "synthetic-model",
        "messages the client made up: never billed",
        counting::synthetic_model,
    ),
    case(
        "unknown-model",
        "a model without a known price",
        counting::unknown_model,
    ),
    case(
        "above-200k",
        "usage above 200,000 shows a larger window",
        counting::above_200k,
    ),
    case(
        "duplicate-reads",
        "one file read three times: unchanged, after an edit, another range",
        content::duplicate_reads,
    ),
    case(
        "multi-script",
        "prompts, answers and results in many scripts",
        content::multi_script,
    ),
    case("attachments", "attachments of every kind", content::attachments),
    case(
        "local-commands",
        "slash commands and their output as user records",
        content::local_commands,
    ),
    case(
        "images-documents",
        "pictures and documents: many bytes, few tokens",
        content::images_documents,
    ),
    case(
        "empty-file",
        "a log of no bytes beside an ordinary one",
        content::empty_file,
    ),
    case(
        "live-tail",
        "the last line is still being written: pending, not bad",
        content::live_tail,
    ),
    case(
        "no-final-newline",
        "the last line is complete but has no newline",
        content::no_final_newline,
    ),
    case(
        "glued-records",
        "a missing newline: two records in one line",
        |folder| content::damaged(folder, Damage::Glued),
    ),
    case(
        "spliced-records",
        "a torn record with the next one spliced on",
        |folder| content::damaged(folder, Damage::Spliced),
    ),
    case(
        "truncated-record",
        "a record that stops in the middle of its line",
        |folder| content::damaged(folder, Damage::Truncated),
    ),
    case("nul-runs", "NUL bytes before a record", |folder| {
        content::damaged(folder, Damage::NulRun)
    }),
    case("byte-order-mark", "a BOM before a record", |folder| {
        content::damaged(folder, Damage::ByteOrderMark)
    }),
    case("crlf", "lines that end in CR LF", content::crlf),
    case("lone-surrogate", "half of a surrogate pair in a text", |folder| {
        content::damaged(folder, Damage::LoneSurrogate)
    }),
    case("invalid-utf8", "bytes that are no UTF-8 in a text", |folder| {
        content::damaged(folder, Damage::InvalidUtf8)
    }),
    case("garbage-line", "a line that is no JSON at all", |folder| {
        content::damaged(folder, Damage::Garbage)
    }),
    case(
        "numeric-keys",
        "a string spread into an object of numeric keys",
        |folder| content::damaged(folder, Damage::NumericKeys),
    ),
    case(
        "duplicate-keys",
        "a record that says some keys twice",
        content::duplicate_keys,
    ),
];

/// Cases that were added later. The position of a case seeds its random numbers, so nothing may be added to these lists.
const LATER_CASES: &[CorpusCase] = &[case(
    "lasting-words",
    "what people say that holds in later sessions, among what does not; a secret that must not be kept",
    counting::lasting_words,
)];

/// Cases that are seeded by their names: new ones go here, in any order.
const NAMED_CASES: &[CorpusCase] = &[
    case(
        "words-outside-prompts",
        "what a person says while the model works, when refusing a call, and in answer to a question",
        content::words_outside_prompts,
    ),
    case(
        "inner-calls",
        "advice of another model, and a model that declined: calls of their own, at their own prices",
        counting::inner_calls,
    ),
];

/// Returns the names and one-line descriptions of the bundled cases.
pub fn cases() -> &'static [(&'static str, &'static str)] {
    static LIST: OnceLock<Vec<(&'static str, &'static str)>> = OnceLock::new();
    LIST.get_or_init(|| all_cases().map(|case| (case.name, case.proves)).collect())
}

/// Iterates over the cases in the order that seeds their random numbers.
fn numbered_cases() -> impl Iterator<Item = &'static CorpusCase> {
    CASES
        .iter()
        .chain(traced::CASES)
        .chain(LATER_CASES)
        .chain(traced::LATER_CASES)
}

/// Iterates over the cases that are seeded by their names.
fn named_cases() -> impl Iterator<Item = &'static CorpusCase> {
    NAMED_CASES
        .iter()
        .chain(traced::NAMED_CASES)
        .chain(crate::agents::CASES)
}

fn all_cases() -> impl Iterator<Item = &'static CorpusCase> {
    numbered_cases().chain(named_cases())
}

/// Returns the seed of a case that is seeded by its name (FNV-1a).
fn seed_of_name(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Writes every case below `dir`: its logs and `expected.json`, and one README.md for all.
pub fn write_corpus(dir: &Path) -> io::Result<()> {
    let pools = LinePools::new();
    let mut readme = String::from(
        "# Bundled sessions\n\nSmall generated session logs, one folder per case. `expected.json` in each folder is what an honest\n\
         counter must find; it was written together with the logs, not read from them.\n\nThose with a `policy.toml` are replayed too: that is the policy, and `events.ndjson` what must\n\
         happen under it, worked out by hand; the sums stand beside each case in `crates/synth/src/traced`. All events are listed,\n\
         but calls only where a case is about them, and then with the fields it is about. `cases.ndjson` lists the\n\
         verdicts of `backcast validate`, worked out by hand as well.\n\n| case | proves |\n| --- | --- |\n",
    );
    let numbered = numbered_cases().zip(0_u64..).map(|(case, index)| (index, case));
    let named = named_cases().map(|case| (seed_of_name(case.name), case));
    for (index, case) in numbered.chain(named) {
        let root = dir.join(case.name);
        fs::create_dir_all(&root)?;
        let rng = Rng::fork(0x6361_7365, index);
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

/// The folder of one case while it is being written.
pub(super) struct CaseFolder<'p> {
    root: PathBuf,
    pools: &'p LinePools,
    rng: Rng,
    truth: Truth,
}

/// Folder of the imaginary project's logs, in the client's layout.
pub(super) const PROJECT: &str = "projects/-home-dev-projects-orchard";

impl<'p> CaseFolder<'p> {
    /// Returns the random numbers of the case.
    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Adds the truth of a log that the case wrote itself.
    pub(super) fn add_truth(&mut self, truth: &Truth) {
        self.truth.merge(truth);
    }

    /// Creates a main log of the given client version.
    pub(super) fn log(&mut self, version: &str) -> CaseLog<'p> {
        let client = by_version(version);
        let identity = LogIdentity {
            session_id: Uuid::new(&mut self.rng).as_str().to_owned(),
            cwd: "/home/dev/projects/orchard".to_owned(),
            branch: "main".to_owned(),
            slug: "quiet-sorting-lantern".to_owned(),
            agent_id: None,
        };
        self.log_as(version, client.models[0], identity, client.since)
    }

    fn log_as(&mut self, version: &str, model: &str, identity: LogIdentity, now: u64) -> CaseLog<'p> {
        let sink = LineSink::new(Vec::new(), Rng::new(self.rng.next()), 0);
        SynthSession::new(SessionStart {
            rng: Rng::new(self.rng.next()),
            pools: self.pools,
            client: by_version(version),
            model: model.to_owned(),
            identity,
            now,
            sink,
        })
    }

    /// Creates the log of a sub-agent of `main`.
    pub(super) fn agent_log(&mut self, main: &CaseLog<'p>, model: &str) -> CaseLog<'p> {
        let digits = if main.client.has_late_envelope() { 17 } else { 8 };
        let id = hex_id(&mut self.rng, digits);
        self.named_agent_log(main, model, id)
    }

    /// Creates the log of a sub-agent of `main` with a given id.
    pub(super) fn named_agent_log(&mut self, main: &CaseLog<'p>, model: &str, id: String) -> CaseLog<'p> {
        let identity = LogIdentity {
            agent_id: Some(id),
            ..main.identity.clone()
        };
        self.log_as(main.client.version, model, identity, main.now)
    }

    /// Writes a file into the folder.
    pub(super) fn write(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, bytes)
    }

    /// Closes a main log and writes it where the client would. Returns the prefix that was kept for a copy.
    pub(super) fn save(&mut self, log: CaseLog<'p>) -> io::Result<Option<SessionPrefix>> {
        let path = format!("{PROJECT}/{}.jsonl", log.identity.session_id);
        self.save_at(&path, log, |bytes| bytes)
    }

    /// Closes a log, lets the case change its bytes, and writes it. Returns the prefix that was kept for a copy.
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

/// Writes a prompt after a pause.
fn ask(log: &mut CaseLog, text: &str) -> io::Result<Uuid> {
    log.wait(4_000, 40_000);
    log.prompt(&SynthText::of(text))
}

/// Writes a response of text.
fn say(log: &mut CaseLog, text: &str) -> io::Result<()> {
    let block = text_block(log, &SynthText::of(text));
    log.respond(&[block], ResultOrder::CallsFirst)
}

/// Writes a prompt and its answer.
fn turn(log: &mut CaseLog, prompt: &str, answer: &str) -> io::Result<()> {
    ask(log, prompt)?;
    say(log, answer)
}

/// Writes a response with thinking, text and a command that prints `units` characters.
fn run(log: &mut CaseLog, units: u64) -> io::Result<()> {
    let thought = thinking_block(
        log,
        &SynthText::of("The tests will show which basket is counted twice."),
    );
    let words = text_block(log, &SynthText::of("I will run the tests first."));
    let command = tools::bash(log, units);
    log.respond(&[thought, words, command], ResultOrder::CallsFirst)
}

/// Returns a file of the imaginary project.
fn project_file(log: &mut CaseLog) -> ProjectFile {
    ProjectFile::new(&mut log.rng, "/home/dev/projects/orchard")
}

/// Writes the record that ends a turn.
fn end_turn(log: &mut CaseLog) -> io::Result<()> {
    log.system(
        ",\"subtype\":\"turn_duration\",\"durationMs\":41200",
        ",\"isMeta\":false",
    )?;
    log.finish_turn();
    Ok(())
}

/// Writes one line of a response after the current leaf.
fn write_line(
    log: &mut CaseLog,
    response: &mut SynthResponse,
    block: &[u8],
    output: u64,
    stop: Option<&str>,
) -> io::Result<Uuid> {
    let line = AssistantLine {
        parent: log.leaf,
        block,
        output,
        stop,
    };
    log.assistant(response, line)
}

/// Returns a call of `Read` with a text of that flavor as its result, and no `toolUseResult`.
fn lookup_block(log: &mut CaseLog, flavor: TextFlavor, units: u64) -> SynthBlock {
    let mut shown = SynthText::default();
    log.pools.write(&mut log.rng, flavor, units, &mut shown);
    let outcome = tool_output(log, &shown, Vec::new());
    call_block(
        log,
        "Read",
        b"{\"file_path\":\"/home/dev/projects/orchard/notes.txt\"}",
        outcome,
    )
}
