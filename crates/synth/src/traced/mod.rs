//! Cases for the replay: small sessions with chosen sizes, each with a policy and the events that must happen under it.
//!
//! The events are computed by hand from the sizes and never taken from a run; the doc of each case shows the computation.
//! The events file is not called `.jsonl`, because every file with that ending is read as a log.
//!
//! Sizes are exact. A round adds one block of input whose text has two characters per token, and the policies estimate two
//! characters per token, so the client's estimate equals what was sent. Every response records its final output. Where the
//! replay has to estimate sizes (the first prompt, and after a boundary or a model switch), texts have 264 characters for
//! 100 tokens: 264 x 0.3787 = 99.98. Prices are those of claude-opus-5 in micro-dollars per token: input 5, output 25,
//! five-minute cache writes 6.25, one-hour cache writes 10, cache reads 0.5.
//!
//! Notation of the computations:
//! - `c3` is call 3 and `r7` is record 7, both from 0; `W` is the window; all sizes are in tokens.
//! - "c0 runs a command, 100 and 400" is a response of 100 output tokens that calls a tool whose result is 400.
//! - "sent 8,100, 4,558 read" is a model call with 8,100 input tokens, 4,558 of them from the prompt cache. The sum behind it
//!   is its cost in micro-dollars.
//! - "After: 1,900 + 550" is the window after a boundary: system prompt and tools, then summary (500) and wrap (50).
//! - The last 2 tokens of a prompt are neither read nor written, so the cache holds W - 2 after a call.

mod around;
mod client;
mod clients;
mod compaction;
mod micro;
mod notes;
mod restored;

use crate::cases::{CaseFolder, CaseLog, CorpusCase, case};
use crate::json::{Uuid, quoted};
use crate::session::{BilledUsage, ResultOrder, SynthBlock, ToolOutput, string_value};
use crate::tools::{call_block, text_block};
use crate::words::SynthText;
use std::collections::BTreeMap;
use std::io;

pub(super) const CASES: &[CorpusCase] = &[
    case(
        "micro-gap",
        "after 61 minutes, not after 59, all results but the newest five are cleared; a to-do list never",
        micro::micro_gap,
    ),
    case(
        "micro-cached",
        "at four results the oldest are deleted down to two, none twice, and the prompt cache stays warm",
        micro::micro_cached,
    ),
    case(
        "micro-cached-cold",
        "nothing is deleted on the server while the cache is cold, and what was deleted comes back, once",
        micro::micro_cached_cold,
    ),
    case(
        "micro-budget",
        "at the warning level results are cleared down to a budget, if enough comes free, but for the newest",
        micro::micro_budget,
    ),
    case(
        "micro-api",
        "edits on the API's side: results down to what is kept, of Edit and Write the whole call",
        micro::micro_api,
    ),
    case(
        "micro-api-thinking",
        "after an idle hour only the thinking of the last turn stays",
        micro::micro_api_thinking,
    ),
    case(
        "notes-gate",
        "notes: not before the first size; then growth, and calls or a quiet response",
        notes::notes_gate,
    ),
    case(
        "notes-keep-covered",
        "compaction by notes keeps what they do not cover; a file read before that is restored",
        notes::notes_keep_covered,
    ),
    case(
        "notes-keep-messages",
        "more is kept until there are enough messages with text; a file that stays visible is not restored",
        notes::notes_keep_messages,
    ),
    case(
        "notes-keep-cap",
        "nothing more is kept at the cap, but a result is not parted from its call",
        notes::notes_keep_cap,
    ),
    case(
        "notes-keep-thinking",
        "a response that is kept is kept with its thinking",
        notes::notes_keep_thinking,
    ),
    case(
        "notes-not-usable",
        "notes that would leave the window at the threshold give way to a full compaction",
        notes::notes_not_usable,
    ),
    case(
        "notes-empty",
        "notes that were never written give way to a full compaction",
        notes::notes_empty,
    ),
    case(
        "notes-floor",
        "what is kept never reaches over the last boundary",
        notes::notes_floor,
    ),
    case(
        "restore-cut",
        "files read last come back, newest first, each once, no memories, five at most, large ones cut",
        compaction::restore_cut,
    ),
    case(
        "restore-skip",
        "large files do not come back, nor what the budget does not hold, but they take their places",
        compaction::restore_skip,
    ),
    case(
        "recompaction",
        "a full compaction, and another one as soon as the window is full again",
        compaction::recompaction,
    ),
    case(
        "manual-whole",
        "a recorded manual boundary is followed with a summary of the policy's size",
        compaction::manual_whole,
    ),
    case(
        "manual-up-to",
        "the user has everything up to a message summarised; a call stays with its result",
        compaction::manual_up_to,
    ),
    case(
        "manual-from",
        "the user has everything from a message on summarised; the cache of what stays is kept",
        compaction::manual_from,
    ),
    case(
        "boundary-in-step",
        "a recorded automatic boundary where the policy is due too: its sizes are taken",
        compaction::boundary_in_step,
    ),
    case(
        "too-long-known",
        "a prompt too long to summarise drops the oldest rounds that cover the excess",
        compaction::too_long_known,
    ),
    case(
        "too-long-unknown",
        "with an unknown excess a fifth of the rounds, one at least, is dropped a try",
        compaction::too_long_unknown,
    ),
    case(
        "too-long-blocked",
        "nothing is left to drop: the compaction fails, the API refuses the prompt, the session is blocked",
        compaction::too_long_blocked,
    ),
    case(
        "no-gain",
        "a summary that makes the window no smaller is a failure",
        compaction::no_gain,
    ),
    case(
        "breaker",
        "three failures in a row open the breaker; a success closes it; a smaller window by override",
        compaction::breaker,
    ),
    case(
        "reactive",
        "without automatic compaction a refused prompt is compacted and sent again",
        compaction::reactive,
    ),
    case(
        "subagent-apart",
        "a sub-agent's compaction leaves the main window and its cache alone",
        around::subagent_apart,
    ),
    case(
        "cache-five-minutes",
        "reads and writes of a five-minute cache: first, warm, expired, another model",
        around::cache_five_minutes,
    ),
    case(
        "cache-hour",
        "a cache of an hour lives over 40 minutes and not over 61",
        around::cache_hour,
    ),
    case(
        "levels",
        "threshold by percentage; warning and error levels below it",
        around::levels,
    ),
    case(
        "extract-turns",
        "memories are extracted at every second end of a turn",
        around::extract_turns,
    ),
];

/// Cases that were added later; see `LATER_CASES` in `cases`.
pub(super) const LATER_CASES: &[CorpusCase] = &[
    case(
        "notes-running",
        "notes that are still being written when a compaction is due give way to a full one",
        notes::notes_running,
    ),
    case(
        "notes-late",
        "notes that took long but are done by then are used",
        notes::notes_late,
    ),
    case(
        "notes-stale",
        "an update of the notes that runs too long is given up",
        notes::notes_stale,
    ),
    case(
        "restore-skills",
        "invoked skills come back, newest first, each cut, until the budget is spent",
        compaction::restore_skills,
    ),
    case(
        "extract-own-memory",
        "no extraction at the end of a turn in which the agent wrote a memory itself; reading one does not count",
        around::extract_own_memory,
    ),
    case(
        "orphan-result",
        "a result that comes after a compaction dropped its call is left out: no window holds it without the call",
        compaction::orphan_result,
    ),
    case(
        "restore-current",
        "files that were read in part, written or edited come back whole; a large one only as a reference",
        restored::restore_current,
    ),
    case(
        "restore-stub",
        "a read that only says \"unchanged\" does not make its file visible",
        restored::restore_stub,
    ),
    case(
        "restore-states",
        "plan mode, to-do list, agents and announcements come back each by itself, with their sizes in the log",
        restored::restore_states,
    ),
    case(
        "restore-skill-listing",
        "the listing of skills comes back only if the policy says so",
        restored::restore_skill_listing,
    ),
    case(
        "notes-plan-only",
        "a compaction by notes restores the plan and nothing else",
        restored::notes_plan_only,
    ),
    case(
        "compact-strip",
        "an image and the listing of skills leave before a summary that does not share the cache",
        restored::compact_strip,
    ),
    case(
        "compact-shared",
        "a compaction that shares the cache has no limit to its output",
        restored::compact_shared,
    ),
    case(
        "compact-fallback",
        "a compaction that cannot share the cache reads nothing and writes 20,000 at most",
        restored::compact_fallback,
    ),
    case(
        "hook-output",
        "hooks add instructions to a compaction and output after it",
        restored::hook_output,
    ),
    case(
        "hook-veto",
        "a hook forbids a compaction; that does not count for the breaker",
        restored::hook_veto,
    ),
    case(
        "autonomous",
        "an agent without a user gets a longer text around the summary",
        restored::autonomous,
    ),
    case(
        "nested-memory",
        "instructions of a folder come back when a file below it is touched",
        restored::nested_memory,
    ),
    case(
        "notes-edits",
        "an update of the notes writes what they gain, and sends what they were",
        client::notes_edits,
    ),
    case(
        "notes-need-auto",
        "no notes without automatic compaction",
        client::notes_need_auto,
    ),
    case(
        "notes-resume",
        "a restarted session reads its notes",
        client::notes_resume,
    ),
    case(
        "notes-waited",
        "a compaction waits for notes that will be done soon",
        notes::notes_waited,
    ),
    case(
        "recall",
        "memories are chosen at every prompt, up to a limit that a boundary resets",
        client::recall,
    ),
    case(
        "extract-calls",
        "an extraction of two calls: the second reads what the first one wrote to the cache",
        client::extract_calls,
    ),
    case(
        "extract-waits",
        "of the turns that end while an extraction runs only the newest is extracted",
        client::extract_waits,
    ),
    case(
        "extract-drain",
        "the end of a session waits for an extraction",
        client::extract_drain,
    ),
    case(
        "own-calls",
        "calls of the client itself are never compacted",
        client::own_calls,
    ),
    case(
        "micro-cached-stale",
        "a fall of cache reads ends deletions on the server",
        client::micro_cached_stale,
    ),
    case(
        "micro-api-least",
        "edits on the API's side that free too little do not happen",
        micro::micro_api_least,
    ),
    case(
        "micro-target",
        "a caller clears down to a target of its own",
        client::micro_target,
    ),
    case(
        "reads-needed",
        "an edit of a file whose read was cleared needs a read first",
        client::reads_needed,
    ),
    case(
        "later-lines",
        "the estimate counts later lines of the last response",
        client::later_lines,
    ),
];

/// Cases that are seeded by their names: new ones go here, in any order.
pub(super) const NAMED_CASES: &[CorpusCase] = &[
    case(
        "client-trail-user",
        "2.1.45 to 2.1.56 estimate user blocks after the last response, without padding",
        clients::trail_of_user_blocks,
    ),
    case(
        "client-trail-text",
        "2.1.57 to 2.1.72 also estimate the text of its later lines",
        clients::trail_of_texts,
    ),
    case(
        "client-trail-all",
        "from 2.1.73 on all its later lines and attachments are estimated",
        clients::trail_of_all_lines,
    ),
    case(
        "client-usage-last-line",
        "usage on the last line of a response only: that line is counted from",
        clients::usage_on_last_line,
    ),
    case(
        "client-fresh-ids",
        "a fork with a fresh id on every line, and an API id replayed under another request: each call counts once",
        clients::fresh_ids,
    ),
    case(
        "client-summarizer",
        "the log of the client's own summarizer: its boundary is a copy, its call is a cost of compaction",
        clients::summarizer_log,
    ),
    case(
        "client-images",
        "a micro-compaction of images is listed apart",
        clients::images_cleared,
    ),
    case(
        "client-model-switch",
        "a boundary at a switch of the model is judged by the new model's window",
        clients::model_switch,
    ),
    case(
        "client-foreign-windows",
        "models of other vendors: a window by its own boundary, an unknown one, one from the table",
        clients::foreign_windows,
    ),
    case(
        "client-mid-session",
        "a log without its beginning: unrecorded history is no part of the base",
        clients::mid_session,
    ),
    case(
        "cache-held-life",
        "what the cache holds expires by its own lifetime, not by that of what the next call writes",
        around::cache_held_life,
    ),
    case(
        "client-off-chain",
        "a predicted compaction on a branch that the user left is no spurious one",
        clients::boundary_off_chain,
    ),
];

/// The common part of all policies: a window of 10,000 with a threshold of 8,000, a summary of 500 with a wrap of 50,
/// instructions of 100, no padding. Everything that a case does not test is switched off.
const COMMON_SETTINGS: &[(&str, &str)] = &[
    ("window.tokens", "10000"),
    ("window.reserve", "1000"),
    ("window.buffer", "1000"),
    ("window.warning", "2000"),
    ("window.error", "1000"),
    ("estimate.padding", "1.0"),
    ("estimate.units_per_token", "2.0"),
    ("micro.gap.on", "false"),
    ("micro.cached.on", "false"),
    ("notes.on", "false"),
    ("notes.compact", "false"),
    ("notes.prompt", "100"),
    ("compact.summary", "\"fixed\""),
    ("compact.summary_tokens", "500"),
    ("compact.prompt", "100"),
    ("compact.scratch", "0.0"),
    ("compact.wrap", "50"),
    ("restore.files", "0"),
    ("restore.state_tokens", "0"),
    ("extract.on", "false"),
    ("extract.calls", "1"),
    ("extract.seconds", "0"),
    ("notes.edit_output", "0"),
    ("notes.restore", "\"all\""),
    ("micro.api.at_least", "0"),
    ("recall.on", "false"),
    ("cache.expected_misses", "false"),
];

/// Writes the policy of a case and its expected events.
fn write_expected(folder: &mut CaseFolder, settings: &[(&'static str, &'static str)], events: &str) -> io::Result<()> {
    let values = COMMON_SETTINGS
        .iter()
        .chain(settings)
        .copied()
        .collect::<BTreeMap<_, _>>();
    let mut policy = String::from("base = \"article\"\n");
    for (key, value) in values {
        policy.push_str(&format!("{key} = {value}\n"));
    }
    folder.write("policy.toml", policy.as_bytes())?;
    let lines = events.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| format!("{line}\n")).collect::<String>();
    folder.write("events.ndjson", lines.as_bytes())
}

/// A session with chosen sizes.
struct PlantedSession<'p> {
    log: CaseLog<'p>,
    /// Input tokens of the next call.
    size: u64,
    /// Tokens that the next call reads from the prompt cache, as the log shows them.
    held: u64,
}

/// Returns a text of `units` characters.
fn words(units: u64) -> SynthText {
    let words = "the basket under the ladder holds one more apple than the list says ";
    let text = words.chars().cycle().take(usize::try_from(units).unwrap_or(0));
    SynthText::of(&text.collect::<String>())
}

impl<'p> PlantedSession<'p> {
    /// Creates a session whose first call sends `size` tokens: system prompt and tools, and a prompt of 100.
    fn new(folder: &mut CaseFolder<'p>, size: u64) -> io::Result<PlantedSession<'p>> {
        let log = folder.log("2.1.220");
        PlantedSession::on(log, size)
    }

    /// Does the same with a given log.
    fn on(mut log: CaseLog<'p>, size: u64) -> io::Result<PlantedSession<'p>> {
        log.context.base = size - 100;
        log.prompt(&words(264))?;
        Ok(PlantedSession { log, size, held: 0 })
    }

    fn pause(&mut self, seconds: u64) {
        self.log.now += seconds * 1000;
    }

    /// Writes a prompt whose size follows from the usage of the next call.
    fn ask(&mut self, tokens: u64) -> io::Result<()> {
        self.pause(10);
        self.log.prompt(&words(2 * tokens))?;
        self.size += tokens;
        Ok(())
    }

    /// Writes a prompt of 100 tokens where the replay has to estimate its size.
    fn ask_estimated(&mut self) -> io::Result<()> {
        self.pause(10);
        self.log.prompt(&words(264))?;
        self.size += 100;
        Ok(())
    }

    /// Writes a response of these blocks with an output of `output` tokens.
    fn respond(&mut self, blocks: &[SynthBlock], output: u64) -> io::Result<()> {
        self.log.context.size = self.size;
        let mut response = self.log.begin_response(output);
        let read = self.held.min(self.size - 2);
        let write = self.size - 2 - read;
        let (write_5m, write_1h) = if self.log.hour_cache { (0, write) } else { (write, 0) };
        response.usage = BilledUsage {
            input: 2,
            read,
            write_5m,
            write_1h,
            output,
        };
        self.log.respond_with(&mut response, blocks, ResultOrder::CallsFirst)?;
        self.held = self.size - 2;
        let results = blocks.iter().filter_map(|block| block.call.as_ref());
        self.size += output + results.map(|call| call.outcome.tokens).sum::<u64>();
        Ok(())
    }

    /// Writes a response of text.
    fn say(&mut self, output: u64) -> io::Result<()> {
        let block = text_block(&mut self.log, &words(60));
        self.respond(&[block], output)
    }

    /// Writes a response of thinking and text, which get half of the output each: a signature of 1,000 characters is estimated
    /// at 1,000 x 0.2623 - 89.8 = 172.5, a text of 486 at 486 x 0.3549 = 172.5.
    fn think_and_say(&mut self, output: u64) -> io::Result<()> {
        let mut json = b"{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"".to_vec();
        self.log.pools.base64(&mut self.log.rng, 1000, &mut json);
        json.extend_from_slice(b"\"}");
        let thinking = SynthBlock {
            json,
            tokens: 0,
            call: None,
        };
        let text = text_block(&mut self.log, &words(486));
        self.respond(&[thinking, text], output)
    }

    /// Writes a response of one tool call, and its result.
    fn call(&mut self, name: &'static str, input: &str, output: u64, result: u64) -> io::Result<()> {
        let shown = words(2 * result);
        let outcome = ToolOutput {
            content: string_value(&shown),
            units: shown.units,
            tokens: result,
            ..ToolOutput::default()
        };
        let block = call_block(&mut self.log, name, input.as_bytes(), outcome);
        self.respond(&[block], output)
    }

    fn bash(&mut self, output: u64, result: u64) -> io::Result<()> {
        let input = "{\"command\":\"make check\",\"description\":\"Run the checks\"}";
        self.call("Bash", input, output, result)
    }

    /// Writes a response of one tool call without its result. Returns the id of the call.
    fn call_unanswered(&mut self, output: u64) -> io::Result<String> {
        let input = b"{\"command\":\"make release\",\"description\":\"Build everything\"}";
        let mut block = call_block(&mut self.log, "Bash", input, ToolOutput::default());
        let call = block.call.take().map_or_else(String::new, |call| call.id);
        self.respond(&[block], output)?;
        Ok(call)
    }

    /// Writes the result of such a call.
    fn answer_late(&mut self, call: &str, result: u64) -> io::Result<()> {
        self.pause(30);
        let head = format!(
            "[{{\"tool_use_id\":{},\"type\":\"tool_result\",\"content\":",
            quoted(call)
        );
        let content = [head.as_bytes(), &string_value(&words(2 * result)), b"}]"].concat();
        self.log.user(self.log.leaf, &content, "", b"")?;
        self.size += result;
        Ok(())
    }

    fn read(&mut self, name: &str, output: u64, result: u64) -> io::Result<()> {
        let input = format!("{{\"file_path\":{}}}", quoted(&path(name)));
        self.call("Read", &input, output, result)
    }

    /// Writes a recorded boundary and its summary of 1,000 tokens (2,640 characters); the next call sends `after` tokens.
    fn boundary(&mut self, trigger: &str, before: u64, after: u64) -> io::Result<()> {
        let summary = Uuid::new(&mut self.log.rng);
        self.log.boundary(trigger, before, self.log.leaf, summary, &[])?;
        let content = string_value(&words(2640));
        let marks = ",\"isVisibleInTranscriptOnly\":true,\"isCompactSummary\":true";
        self.log.user(self.log.leaf, &content, marks, b"")?;
        self.size = after;
        self.held = 1_900;
        Ok(())
    }
}

fn path(name: &str) -> String {
    format!("/home/dev/projects/orchard/{name}")
}
