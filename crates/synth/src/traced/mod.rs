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
mod keep;
mod list;
mod micro;
mod notes;
mod restored;

use crate::cases::{CaseFolder, CaseLog};
use crate::json::{Uuid, quoted};
use crate::session::{BilledUsage, ResultOrder, SynthBlock, ToolOutput, string_value};
use crate::tools::{call_block, text_block};
use crate::words::SynthText;
pub(super) use list::{CASES, LATER_CASES, NAMED_CASES};
use std::collections::BTreeMap;
use std::io;

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
