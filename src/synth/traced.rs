//! Cases for the replay: small sessions of planted sizes, each with a policy and the events that must happen under it.
//! The events are worked out by hand from the sizes, never taken from a run; the sums stand beside each case. They are not
//! called `.jsonl`, because every file of that name is a log.
//!
//! Sizes are made to come out exactly. A round adds one block of input whose text has two characters for each of its
//! tokens, and policies count so, so what the client estimates is what was sent, and every response has its final output. Where sizes have to
//! be estimated (the first prompt, and what follows a boundary or another model), texts have 264 characters for 100 tokens:
//! 264 x 0.3787 = 99.98. Prices are those of claude-opus-5: a micro-dollar buys 1/5 of a token of input, 1/25 of output,
//! 1/6.25 written for five minutes, 1/10 written for an hour, 2 read.
//!
//! Words in the sums: `c3` is call 3, `r7` is record 7, both from 0; `W` is the window; 2 tokens of every prompt are neither
//! read nor written, so the cache holds W - 2 after a call.

use crate::synth::cases::{Case, Folder, Log, PROJECT, agent_name, case};
use crate::synth::json::{Uuid, quoted};
use crate::synth::session::{Block, Order, Outcome, Usage, string_value};
use crate::synth::tools::{call_block, text_block};
use crate::synth::words::Text;
use std::collections::BTreeMap;
use std::io;

pub(super) const CASES: &[Case] = &[
    case(
        "micro-gap",
        "after 61 minutes, not after 59, all results but the newest five are cleared; a to-do list never",
        micro_gap,
    ),
    case(
        "micro-cached",
        "at four results the oldest are deleted down to two, none twice, and the prompt cache stays warm",
        micro_cached,
    ),
    case(
        "micro-cached-cold",
        "nothing is deleted on the server while the cache is cold, and what was deleted comes back, once",
        micro_cached_cold,
    ),
    case(
        "micro-budget",
        "at the warning level results are cleared down to a budget, if enough comes free, but for the newest",
        micro_budget,
    ),
    case(
        "micro-api",
        "edits on the API's side: results down to what is kept, of Edit and Write the whole call",
        micro_api,
    ),
    case(
        "micro-api-thinking",
        "after an idle hour only the thinking of the last turn stays",
        micro_api_thinking,
    ),
    case(
        "notes-gate",
        "notes: not before the first size; then growth, and calls or a quiet response",
        notes_gate,
    ),
    case(
        "notes-keep-covered",
        "compaction by notes keeps what they do not cover; a file read before that is restored",
        notes_keep_covered,
    ),
    case(
        "notes-keep-messages",
        "more is kept until there are enough messages with text; a file that stays visible is not restored",
        notes_keep_messages,
    ),
    case(
        "notes-keep-cap",
        "nothing more is kept at the cap, but a result is not parted from its call",
        notes_keep_cap,
    ),
    case(
        "notes-keep-thinking",
        "a response that is kept is kept with its thinking",
        notes_keep_thinking,
    ),
    case(
        "notes-not-usable",
        "notes that would leave the window at the threshold give way to a full compaction",
        notes_not_usable,
    ),
    case(
        "notes-empty",
        "notes that were never written give way to a full compaction",
        notes_empty,
    ),
    case(
        "notes-floor",
        "what is kept never reaches over the last boundary",
        notes_floor,
    ),
    case(
        "restore-cut",
        "files read last come back, newest first, each once, no memories, five at most, large ones cut",
        restore_cut,
    ),
    case(
        "restore-skip",
        "large files do not come back, nor what the budget does not hold, but they take their places",
        restore_skip,
    ),
    case(
        "recompaction",
        "a full compaction, and another one as soon as the window is full again",
        recompaction,
    ),
    case(
        "manual-whole",
        "a recorded manual boundary is followed with a summary of the policy's size",
        manual_whole,
    ),
    case(
        "manual-up-to",
        "the user has everything up to a message summarised; a call stays with its result",
        manual_up_to,
    ),
    case(
        "manual-from",
        "the user has everything from a message on summarised; the cache of what stays is kept",
        manual_from,
    ),
    case(
        "boundary-in-step",
        "a recorded automatic boundary where the policy is due too: its sizes are taken",
        boundary_in_step,
    ),
    case(
        "too-long-known",
        "a prompt too long to summarise drops the oldest rounds that cover the excess",
        too_long_known,
    ),
    case(
        "too-long-unknown",
        "with an unknown excess a fifth of the rounds, one at least, is dropped a try",
        too_long_unknown,
    ),
    case(
        "too-long-blocked",
        "nothing is left to drop: the compaction fails, the API refuses the prompt, the session is blocked",
        too_long_blocked,
    ),
    case(
        "no-gain",
        "a summary that makes the window no smaller is a failure",
        no_gain,
    ),
    case(
        "breaker",
        "three failures in a row open the breaker; a success closes it; a smaller window by override",
        breaker,
    ),
    case(
        "reactive",
        "without automatic compaction a refused prompt is compacted and sent again",
        reactive,
    ),
    case(
        "subagent-apart",
        "a sub-agent's compaction leaves the main window and its cache alone",
        subagent_apart,
    ),
    case(
        "cache-five-minutes",
        "reads and writes of a five-minute cache: first, warm, expired, another model",
        cache_five_minutes,
    ),
    case(
        "cache-hour",
        "a cache of an hour lives over 40 minutes and not over 61",
        cache_hour,
    ),
    case(
        "levels",
        "threshold by percentage; warning and error levels below it",
        levels,
    ),
    case(
        "extract-turns",
        "memories are extracted at every second end of a turn",
        extract_turns,
    ),
];

/// Cases that came later; see the list of those in `cases`.
pub(super) const LATER: &[Case] = &[
    case(
        "notes-running",
        "notes that are still being written when a compaction is due give way to a full one",
        notes_running,
    ),
    case(
        "notes-late",
        "notes that took long but are done by then are used",
        notes_late,
    ),
    case(
        "notes-stale",
        "an update of the notes that runs too long is given up",
        notes_stale,
    ),
    case(
        "restore-skills",
        "invoked skills come back, newest first, each cut, until the budget is spent",
        restore_skills,
    ),
    case(
        "extract-own-memory",
        "no extraction at the end of a turn in which the agent wrote a memory itself; reading one does not count",
        extract_own_memory,
    ),
    case(
        "orphan-result",
        "a result that comes after a compaction dropped its call is left out: no window holds it without the call",
        orphan_result,
    ),
];

/// What the policies of all cases have in common: a window of 10,000 with its threshold at 8,000, a summary of 500 with 50
/// around it, instructions of 100, no padding; everything that a case is not about is switched off.
const COMMON: &[(&str, &str)] = &[
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
];

/// Writes the policy of a case and its events.
fn expect(folder: &mut Folder, settings: &[(&'static str, &'static str)], events: &str) -> io::Result<()> {
    let values = COMMON.iter().chain(settings).copied().collect::<BTreeMap<_, _>>();
    let mut policy = String::from("base = \"article\"\n");
    for (key, value) in values {
        policy.push_str(&format!("{key} = {value}\n"));
    }
    folder.write("policy.toml", policy.as_bytes())?;
    let lines = events.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.map(|line| format!("{line}\n")).collect::<String>();
    folder.write("events.ndjson", lines.as_bytes())
}

/// A session of planted sizes.
struct Plant<'p> {
    log: Log<'p>,
    /// What the next call is sent.
    size: u64,
    /// What the log shows as read from the cache.
    held: u64,
}

/// Characters of plain words.
fn words(units: u64) -> Text {
    let words = "the basket under the ladder holds one more apple than the list says ";
    let text = words.chars().cycle().take(usize::try_from(units).unwrap_or(0));
    Text::of(&text.collect::<String>())
}

impl<'p> Plant<'p> {
    /// A session whose first call is sent `size` tokens: system prompt and tools, and a prompt of 100.
    fn new(folder: &mut Folder<'p>, size: u64) -> io::Result<Plant<'p>> {
        let log = folder.log("2.1.220");
        Plant::on(log, size)
    }

    fn on(mut log: Log<'p>, size: u64) -> io::Result<Plant<'p>> {
        log.context.base = size - 100;
        log.prompt(&words(264))?;
        Ok(Plant { log, size, held: 0 })
    }

    fn pause(&mut self, seconds: u64) {
        self.log.now += seconds * 1000;
    }

    /// A prompt whose size the next call shows.
    fn ask(&mut self, tokens: u64) -> io::Result<()> {
        self.pause(10);
        self.log.prompt(&words(2 * tokens))?;
        self.size += tokens;
        Ok(())
    }

    /// A prompt of 100 tokens where sizes are estimated.
    fn ask_anew(&mut self) -> io::Result<()> {
        self.pause(10);
        self.log.prompt(&words(264))?;
        self.size += 100;
        Ok(())
    }

    fn respond(&mut self, blocks: &[Block], output: u64) -> io::Result<()> {
        self.log.context.size = self.size;
        let mut response = self.log.begin(output);
        let read = self.held.min(self.size - 2);
        let write = self.size - 2 - read;
        let (write_5m, write_1h) = if self.log.hour_cache { (0, write) } else { (write, 0) };
        response.usage = Usage {
            input: 2,
            read,
            write_5m,
            write_1h,
            output,
        };
        self.log.respond_with(&mut response, blocks, Order::CallsFirst)?;
        self.held = self.size - 2;
        let results = blocks.iter().filter_map(|block| block.call.as_ref());
        self.size += output + results.map(|call| call.outcome.tokens).sum::<u64>();
        Ok(())
    }

    /// A response of text.
    fn say(&mut self, output: u64) -> io::Result<()> {
        let block = text_block(&mut self.log, &words(60));
        self.respond(&[block], output)
    }

    /// A response of thinking and text, half of the output each: a signature of 1,000 characters is estimated at
    /// 1,000 x 0.2623 - 89.8 = 172.5, a text of 486 at 486 x 0.3549 = 172.5.
    fn think_and_say(&mut self, output: u64) -> io::Result<()> {
        let mut json = b"{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"".to_vec();
        self.log.pools.base64(&mut self.log.rng, 1000, &mut json);
        json.extend_from_slice(b"\"}");
        let thinking = Block {
            json,
            tokens: 0,
            call: None,
        };
        let text = text_block(&mut self.log, &words(486));
        self.respond(&[thinking, text], output)
    }

    /// A response of one call, and its result.
    fn call(&mut self, name: &'static str, input: &str, output: u64, result: u64) -> io::Result<()> {
        let shown = words(2 * result);
        let outcome = Outcome {
            content: string_value(&shown),
            units: shown.units,
            tokens: result,
            ..Outcome::default()
        };
        let block = call_block(&mut self.log, name, input.as_bytes(), outcome);
        self.respond(&[block], output)
    }

    fn bash(&mut self, output: u64, result: u64) -> io::Result<()> {
        let input = "{\"command\":\"make check\",\"description\":\"Run the checks\"}";
        self.call("Bash", input, output, result)
    }

    /// A response of one call that is answered later; the id of the call.
    fn call_unanswered(&mut self, output: u64) -> io::Result<String> {
        let input = b"{\"command\":\"make release\",\"description\":\"Build everything\"}";
        let mut block = call_block(&mut self.log, "Bash", input, Outcome::default());
        let call = block.call.take().map_or_else(String::new, |call| call.id);
        self.respond(&[block], output)?;
        Ok(call)
    }

    /// The result of such a call.
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

    /// A recorded boundary, its summary of 1,000 tokens (2,640 characters), and what the next call is sent.
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

// ---- micro-compaction --------------------------------------------------------------------------------------------

/// Results of 100 after outputs of 20: c0 a to-do list (r2), c1 to c7 reads (r4, r6, .. r16); c8 says 30.
/// W at c8 2,000 + 8 x 120 = 2,960. Prompts of 50 after 59 minutes (c9: 3,040) and after 61 more (c10: 3,120).
/// Seven results may go, five stay: r4 and r6 become placeholders of 10, 180 come free, c10 is sent 2,940.
fn micro_gap(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    let todos = "{\"todos\":[{\"content\":\"Count the apples\",\"status\":\"pending\",\"activeForm\":\"Counting the apples\"}]}";
    plant.call("TodoWrite", todos, 20, 100)?;
    for name in ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs", "f.rs", "g.rs"] {
        plant.read(name, 20, 100)?;
    }
    plant.say(30)?;
    for minutes in [59, 61] {
        plant.pause(minutes * 60);
        plant.held = 0;
        plant.ask(50)?;
        plant.say(30)?;
    }
    folder.save(plant.log)?;
    expect(
        folder,
        &[("micro.gap.on", "true")],
        r#"
        {"call":10,"event":"micro","kind":"gap","eligible":0,"saved":180,"cleared":[{"record":4,"tool":"Read","path":"/home/dev/projects/orchard/a.rs","tokens":100},{"record":6,"tool":"Read","path":"/home/dev/projects/orchard/b.rs","tokens":100}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2120}
        {"call":2,"event":"called","window":2240}
        {"call":3,"event":"called","window":2360}
        {"call":4,"event":"called","window":2480}
        {"call":5,"event":"called","window":2600}
        {"call":6,"event":"called","window":2720}
        {"call":7,"event":"called","window":2840}
        {"call":8,"event":"called","window":2960}
        {"call":9,"event":"called","window":3040,"in_step":true}
        {"call":10,"event":"called","window":2940,"in_step":false}
        "#,
    )
}

/// Commands with outputs of 20 and results of 100; four begin it, two stay, placeholders of 10.
/// c4: four results (r2, r4, r6, r8), r2 and r4 go: 2,480 - 180 = 2,300; the cache holds 2,358 of c3, all 2,298 are read.
/// c5: three results, 2,300 + 120 = 2,420: 2,298 read, 120 written.
/// c6: r6, r8, r10, r12 are left, r6 and r8 go: 2,540 - 180 = 2,360: the cache holds 2,418, all 2,358 are read.
fn micro_cached(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    for _ in 0..6 {
        plant.bash(20, 100)?;
    }
    plant.say(20)?;
    folder.save(plant.log)?;
    expect(
        folder,
        CACHED,
        r#"
        {"call":4,"event":"micro","kind":"cached","eligible":0,"saved":180,"cleared":[{"record":2,"tool":"Bash","path":"","tokens":100},{"record":4,"tool":"Bash","path":"","tokens":100}]}
        {"call":6,"event":"micro","kind":"cached","eligible":0,"saved":180,"cleared":[{"record":6,"tool":"Bash","path":"","tokens":100},{"record":8,"tool":"Bash","path":"","tokens":100}]}
        {"call":0,"event":"called","window":2000,"in_step":true,"miss":"first"}
        {"call":1,"event":"called","window":2120,"cache_read":1998,"cache_write_5m":120,"miss":null}
        {"call":2,"event":"called","window":2240,"cache_read":2118,"cache_write_5m":120,"miss":null}
        {"call":3,"event":"called","window":2360,"cache_read":2238,"cache_write_5m":120,"miss":null}
        {"call":4,"event":"called","window":2300,"cache_read":2298,"cache_write_5m":0,"miss":null,"in_step":false}
        {"call":5,"event":"called","window":2420,"cache_read":2298,"cache_write_5m":120,"miss":null}
        {"call":6,"event":"called","window":2360,"cache_read":2358,"cache_write_5m":0,"miss":null}
        "#,
    )
}

const CACHED: &[(&str, &str)] = &[
    ("micro.cached.on", "true"),
    ("micro.cached.trigger", "4"),
    ("micro.cached.keep", "2"),
];

/// As `micro-cached` up to c4, which says 20: 2,300. After ten minutes a prompt of 50: the cache of five minutes is dead, so
/// r2 and r4 come back: 2,300 + 20 + 50 + 180 = 2,550, nothing read. There are four results again, but a cold cache deletes
/// nothing, and later r2 and r4 are not deleted twice. c5 calls again (r11, r12: 120), so c6 finds r6, r8, r12: three.
/// c6 calls again (r13, r14: 120), so c7 finds four that were never deleted: r6 and r8 go.
/// c6: 2,550 + 120 = 2,670. c7: 2,670 + 120 - 180 = 2,610.
fn micro_cached_cold(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    for _ in 0..4 {
        plant.bash(20, 100)?;
    }
    plant.say(20)?;
    plant.pause(600);
    plant.held = 0;
    plant.ask(50)?;
    plant.bash(20, 100)?;
    plant.bash(20, 100)?;
    plant.say(20)?;
    folder.save(plant.log)?;
    expect(
        folder,
        CACHED,
        r#"
        {"call":4,"event":"micro","kind":"cached","eligible":0,"saved":180,"cleared":[{"record":2,"tool":"Bash","path":"","tokens":100},{"record":4,"tool":"Bash","path":"","tokens":100}]}
        {"call":7,"event":"micro","kind":"cached","eligible":0,"saved":180,"cleared":[{"record":6,"tool":"Bash","path":"","tokens":100},{"record":8,"tool":"Bash","path":"","tokens":100}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2120}
        {"call":2,"event":"called","window":2240}
        {"call":3,"event":"called","window":2360}
        {"call":4,"event":"called","window":2300,"cache_read":2298}
        {"call":5,"event":"called","window":2550,"cache_read":0,"miss":"expired"}
        {"call":6,"event":"called","window":2670,"cache_read":2548,"cache_write_5m":120}
        {"call":7,"event":"called","window":2610,"cache_read":2608,"cache_write_5m":0}
        "#,
    )
}

/// Warning level 8,000 - 2,400 = 5,600. First call 5,000; commands with outputs of 50 and results of 200, +250 a round.
/// Before c3 the last usage is 5,500 + 50 = 5,550: below. Before c4 it is 5,800: four results are 800, all but the newest
/// 600, less than the 700 that must come free. Before c5: five are 1,000; the target of 100 would take all, the newest
/// stays: 800 saved by the client's count, 4 x 190 = 760 by placeholders of 10: c5 is sent 6,250 - 760 = 5,490.
fn micro_budget(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 5_000)?;
    for _ in 0..5 {
        plant.bash(50, 200)?;
    }
    plant.say(50)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[
            ("window.warning", "2400"),
            ("micro.budget.on", "true"),
            ("micro.budget.target", "100"),
            ("micro.budget.protect", "1"),
            ("micro.budget.at_least", "700"),
        ],
        r#"
        {"call":5,"event":"micro","kind":"budget","eligible":1000,"saved":800,"cleared":[{"record":2,"tool":"Bash","path":"","tokens":200},{"record":4,"tool":"Bash","path":"","tokens":200},{"record":6,"tool":"Bash","path":"","tokens":200},{"record":8,"tool":"Bash","path":"","tokens":200}]}
        {"call":0,"event":"called","window":5000,"level":"normal"}
        {"call":1,"event":"called","window":5250,"level":"normal"}
        {"call":2,"event":"called","window":5500,"level":"normal"}
        {"call":3,"event":"called","window":5750,"level":"warning"}
        {"call":4,"event":"called","window":6000,"level":"warning"}
        {"call":5,"event":"called","window":5490,"level":"normal","in_step":false}
        "#,
    )
}

/// c0 edits (100, result 50), c1 writes (200, 50), c2 and c3 read (20, 200), c4 runs a command (20, 200).
/// W: 2,000; 2,150; 2,400; 2,620; 2,840; before c5 3,060, at least the 3,000 that begin it. Results are
/// 50 + 50 + 200 + 200 + 200 = 700; the oldest go until 250 or less stay: 650, 600, 400, 200. Four go, 500 saved.
/// Of Edit and Write the calls go too: 150 + 250; two placeholders: 380. c5 is sent 3,060 - 780 = 2,280.
fn micro_api(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    let edit = format!(
        "{{\"replace_all\":false,\"file_path\":{},\"old_string\":\"one\",\"new_string\":\"two\"}}",
        quoted(&path("a.rs"))
    );
    plant.call("Edit", &edit, 100, 50)?;
    let write = format!("{{\"file_path\":{},\"content\":\"three\"}}", quoted(&path("b.rs")));
    plant.call("Write", &write, 200, 50)?;
    plant.read("c.rs", 20, 200)?;
    plant.read("d.rs", 20, 200)?;
    plant.bash(20, 200)?;
    plant.say(20)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[
            ("micro.api.on", "true"),
            ("micro.api.trigger", "3000"),
            ("micro.api.keep", "250"),
        ],
        r#"
        {"call":5,"event":"micro","kind":"api","eligible":700,"saved":500,"cleared":[{"record":2,"tool":"Edit","path":"/home/dev/projects/orchard/a.rs","tokens":50},{"record":4,"tool":"Write","path":"/home/dev/projects/orchard/b.rs","tokens":50},{"record":6,"tool":"Read","path":"/home/dev/projects/orchard/c.rs","tokens":200},{"record":8,"tool":"Read","path":"/home/dev/projects/orchard/d.rs","tokens":200}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2150}
        {"call":2,"event":"called","window":2400}
        {"call":3,"event":"called","window":2620}
        {"call":4,"event":"called","window":2840}
        {"call":5,"event":"called","window":2280,"in_step":false}
        "#,
    )
}

/// Turns of thinking 200 and text 200: r1, r2 (c0), r4, r5 (c1). Prompts of 50. After 61 minutes the third prompt comes:
/// the thinking of c1 is the last turn's and stays, that of c0 goes. W: 2,000; 2,450; 2,900 - 200 = 2,700.
fn micro_api_thinking(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.think_and_say(400)?;
    plant.ask(50)?;
    plant.think_and_say(400)?;
    plant.pause(61 * 60);
    plant.held = 0;
    plant.ask(50)?;
    plant.say(20)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[("micro.api.on", "true")],
        r#"
        {"call":2,"event":"micro","kind":"thinking","eligible":0,"saved":200,"cleared":[{"record":1,"tool":"","path":"","tokens":200}]}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2450}
        {"call":2,"event":"called","window":2700,"in_step":false}
        "#,
    )
}

// ---- session memory ----------------------------------------------------------------------------------------------

/// First size 3,000, growth 1,000, three calls; notes are a tenth of the conversation, which is W - 1,900. Outputs of 100.
/// W after: c0 2,100; c1 2,500; c2 2,900; c3 3,300 (four calls: notes of 140); c4 3,700 (grew 400); c5 4,400 (grew 1,100,
/// two calls); c6 4,800 (grew 1,500, three calls: 290); c7 5,200 (grew 400); c8 6,200 (grew 1,400, one call, but quiet: 430);
/// c9 6,350 (quiet, grew 150). The update is sent W + 100 and reads what the call before left: all but 100 + 100 + 2.
/// Costs: 202 x 5 = 1,010; 140 x 25 + 3,198 / 2 = 5,099; 290 x 25 + 4,698 / 2 = 9,599; 430 x 25 + 6,098 / 2 = 13,799.
fn notes_gate(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    for result in [300, 300, 300, 300, 600, 300, 300, 900] {
        plant.bash(100, result)?;
    }
    plant.say(100)?;
    plant.ask(50)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[
            ("notes.on", "true"),
            ("notes.first", "3000"),
            ("notes.growth", "1000"),
            ("notes.share", "0.1"),
        ],
        r#"
        {"call":3,"event":"notes","tokens":140}
        {"call":3,"event":"side-call","purpose":"notes","input":202,"cache_read":3198,"cache_write_5m":0,"cache_write_1h":0,"output":140,"cost_micro_usd":6109}
        {"call":6,"event":"notes","tokens":290}
        {"call":6,"event":"side-call","purpose":"notes","input":202,"cache_read":4698,"cache_write_5m":0,"cache_write_1h":0,"output":290,"cost_micro_usd":10609}
        {"call":8,"event":"notes","tokens":430}
        {"call":8,"event":"side-call","purpose":"notes","input":202,"cache_read":6098,"cache_write_5m":0,"cache_write_1h":0,"output":430,"cost_micro_usd":14809}
        "#,
    )
}

/// The session of the keep rules. Outputs and prompts of 100.
///
/// | call | W | records | |
/// | --- | --- | --- | --- |
/// | c0 | 2,000 | r0 prompt, r1 call, r2 result 1,000 | |
/// | c1 | 3,100 | r3 text | |
/// | c2 | 3,300 | r4 prompt, r5 call, r6 result 1,000 | |
/// | c3 | 4,400 | r7 read, r8 result 500 | |
/// | c4 | 5,000 | r9 text | W 5,100 after it: notes of (5,100 - 1,900) / 10 = 320, covering up to r9 |
/// | c5 | 5,200 | r10 prompt, r11 call, r12 result 700 | |
/// | c6 | 6,000 | r13 text | |
/// | c7 | 6,200 | r14 prompt, r15 call, r16 result 1,700 | |
/// | c8 | 8,000 | | due: 6,200 + 100 + 1,700 = 8,000 |
///
/// With `thinking`, c4 is r9 thinking 100 and r10 text 100: later records are one further, later sizes 100 more.
/// What the notes do not cover is 100 + 100 + 700 + 100 + 100 + 100 + 1,700 = 2,900 with three messages of text.
fn keep_log(folder: &mut Folder, thinking: bool) -> io::Result<()> {
    keep_log_with(folder, thinking, 0)
}

/// The same with so many hours after c4, in which the cache expires.
fn keep_log_with(folder: &mut Folder, thinking: bool, hours: u64) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.bash(100, 1_000)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.bash(100, 1_000)?;
    plant.read("ladder.rs", 100, 500)?;
    match thinking {
        true => plant.think_and_say(200)?,
        false => plant.say(100)?,
    }
    if hours > 0 {
        plant.pause(hours * 3600);
        plant.held = 0;
    }
    plant.ask(100)?;
    plant.bash(100, 700)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.bash(100, 1_700)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// The policy of the keep rules: notes from 5,000 on, once; 1,000 tokens and three messages are kept, 6,000 at most; of a
/// restored file 400.
fn keep_policy(settings: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let common = [
        ("notes.on", "true"),
        ("notes.compact", "true"),
        ("notes.first", "5000"),
        ("notes.growth", "5000"),
        ("notes.share", "0.1"),
        ("notes.keep_tokens", "1000"),
        ("notes.keep_messages", "3"),
        ("notes.keep_most", "6000"),
        ("restore.files", "5"),
        ("restore.file_tokens", "400"),
    ];
    common.iter().chain(settings).copied().collect()
}

/// The notes of c4, and at c8 a compaction by them.
const NOTES_USED: &str = r#"
        {"call":4,"event":"notes","tokens":320}
        {"call":4,"event":"side-call","purpose":"notes","input":202,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":320,"cost_micro_usd":11509}
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"boundary","cause":"auto","kind":"session-memory","context":8000,"threshold":8000,"before":8000,"after":5570,"summary":320,"restored":400,"records":10,"last_record":16,"kept":{"from":10,"to":16},"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#;

/// The notes of c4, and at c8 a full compaction all the same.
const NOTES_UNUSED: &str = r#"
        {"call":4,"event":"notes","tokens":320}
        {"call":4,"event":"side-call","purpose":"notes","input":202,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":320,"cost_micro_usd":11509}
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"side-call","purpose":"compact","input":1902,"cache_read":6198,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":25109}
        {"call":8,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2850,"summary":500,"restored":400,"records":17,"last_record":16,"kept":null,"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#;

/// r10 to r16 are enough: 2,900, three messages. The file of r8 is not among them: 400 of its 500 come back.
/// After: 1,900 + 320 + 50 + 400 + 2,900 = 5,570.
/// The notes at c4 cost 202 x 5 + 320 x 25 + 4,998 / 2 = 11,509.
fn notes_keep_covered(folder: &mut Folder) -> io::Result<()> {
    keep_log(folder, false)?;
    expect(folder, &keep_policy(&[]), NOTES_USED)
}

/// Five messages: r9 is the fourth (3,000), then r8 3,500, r7 3,600, r6 4,600, r5 4,700, and r4 is the fifth: 4,800.
/// The file of r8 is still visible. After: 1,900 + 320 + 50 + 4,800 = 7,070.
fn notes_keep_messages(folder: &mut Folder) -> io::Result<()> {
    keep_log(folder, false)?;
    expect(
        folder,
        &keep_policy(&[("notes.keep_messages", "5")]),
        r#"
        {"call":4,"event":"notes","tokens":320}
        {"call":4,"event":"side-call","purpose":"notes","input":202,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":320,"cost_micro_usd":11509}
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"boundary","cause":"auto","kind":"session-memory","context":8000,"threshold":8000,"before":8000,"after":7070,"summary":320,"restored":0,"records":4,"last_record":16,"kept":{"from":4,"to":16},"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#,
    )
}

/// Five messages, but no more from 3,200 on: r9 3,000, r8 3,500. r8 is a result, so its call r7 stays too: 3,600.
/// After: 1,900 + 320 + 50 + 3,600 = 5,870.
fn notes_keep_cap(folder: &mut Folder) -> io::Result<()> {
    keep_log(folder, false)?;
    expect(
        folder,
        &keep_policy(&[("notes.keep_messages", "5"), ("notes.keep_most", "3200")]),
        r#"
        {"call":4,"event":"notes","tokens":320}
        {"call":4,"event":"side-call","purpose":"notes","input":202,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":320,"cost_micro_usd":11509}
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"boundary","cause":"auto","kind":"session-memory","context":8000,"threshold":8000,"before":8000,"after":5870,"summary":320,"restored":0,"records":7,"last_record":16,"kept":{"from":7,"to":16},"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#,
    )
}

/// With thinking: notes of (5,200 - 1,900) / 10 = 330, sent 5,300 of which 4,998 are read: 302 x 5 + 330 x 25 + 2,499 = 12,259.
/// Four messages: r11 to r17 have three (2,900), r10 is the fourth (3,000); its thinking r9 stays with it: 3,100. The file of
/// r8 comes back. After: 1,900 + 330 + 50 + 400 + 3,100 = 5,780. Due at 6,300 + 100 + 1,700 = 8,100.
fn notes_keep_thinking(folder: &mut Folder) -> io::Result<()> {
    keep_log(folder, true)?;
    expect(
        folder,
        &keep_policy(&[("notes.keep_messages", "4")]),
        r#"
        {"call":4,"event":"notes","tokens":330}
        {"call":4,"event":"side-call","purpose":"notes","input":302,"cache_read":4998,"cache_write_5m":0,"cache_write_1h":0,"output":330,"cost_micro_usd":12259}
        {"call":8,"event":"due","context":8100,"threshold":8000}
        {"call":8,"event":"boundary","cause":"auto","kind":"session-memory","context":8100,"threshold":8000,"before":8100,"after":5780,"summary":330,"restored":400,"records":9,"last_record":17,"kept":{"from":9,"to":17},"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#,
    )
}

/// A hundred messages would keep everything: 6,100 of conversation, and 1,900 + 320 + 50 + 6,100 = 8,370 is not below 8,000.
/// So a full compaction: sent 8,000 + 100, of which 6,198 are read: 1,902 x 5 + 500 x 25 + 3,099 = 25,109.
/// After: 1,900 + 500 + 50 + 400 restored = 2,850.
fn notes_not_usable(folder: &mut Folder) -> io::Result<()> {
    keep_log(folder, false)?;
    expect(
        folder,
        &keep_policy(&[("notes.keep_messages", "100"), ("notes.keep_most", "100000")]),
        NOTES_UNUSED,
    )
}

/// W never reaches the 9,000 at which notes begin: a full compaction, as in `notes-not-usable`.
fn notes_empty(folder: &mut Folder) -> io::Result<()> {
    keep_log(folder, false)?;
    expect(
        folder,
        &keep_policy(&[("notes.first", "9000")]),
        r#"
        {"call":8,"event":"due","context":8000,"threshold":8000}
        {"call":8,"event":"side-call","purpose":"compact","input":1902,"cache_read":6198,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":25109}
        {"call":8,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2850,"summary":500,"restored":400,"records":17,"last_record":16,"kept":null,"retries":0,"calls_since":8,"turns_since":3,"again":false,"recorded":false}
        "#,
    )
}

/// An update takes two hours, and c8 comes minutes after c4, more than the 15 seconds that it is waited for: there are no
/// notes yet. A full compaction, as in `notes-not-usable`.
fn notes_running(folder: &mut Folder) -> io::Result<()> {
    keep_log(folder, false)?;
    expect(
        folder,
        &keep_policy(&[("notes.seconds", "7200"), ("notes.stale_seconds", "9000")]),
        NOTES_UNUSED,
    )
}

/// The same with three hours after c4: the update is done. As `notes-keep-covered`.
fn notes_late(folder: &mut Folder) -> io::Result<()> {
    keep_log_with(folder, false, 3)?;
    expect(
        folder,
        &keep_policy(&[("notes.seconds", "7200"), ("notes.stale_seconds", "9000")]),
        NOTES_USED,
    )
}

/// As `notes-late`, but an update that takes longer than a minute is given up then: no notes.
fn notes_stale(folder: &mut Folder) -> io::Result<()> {
    keep_log_with(folder, false, 3)?;
    expect(folder, &keep_policy(&[("notes.seconds", "7200")]), NOTES_UNUSED)
}

/// Notes from 2,000 on, growth 1,000, one call; a hundred messages would be kept.
/// c0 (r1) W 2,100: notes of 20, sent 2,200, 1,998 read: 202 x 5 + 20 x 25 + 999 = 2,509. Result r2 of 5,900: c1 due at 8,000.
/// Keeping r0 to r2 (6,100) would give 1,900 + 20 + 50 + 6,100 = 8,070: not usable. Full: sent 8,100, 1,998 read:
/// 6,102 x 5 + 500 x 25 + 999 = 44,009. After: 1,900 + 550 = 2,450.
/// c1 (r3) at 2,450 reads the 1,900 of system prompt and tools; r4 2,000. c2 (r5) at 4,550; W 4,650 grew 2,200: notes of
/// 2,750 / 10 = 275, sent 4,750, 4,548 read: 1,010 + 6,875 + 2,274 = 10,159. r6 3,400: c3 due at 4,550 + 100 + 3,400 = 8,050.
/// Everything since the boundary stays, nothing before it: r3 to r6, 5,600. After: 1,900 + 275 + 50 + 5,600 = 7,825.
fn notes_floor(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    for result in [5_900, 2_000, 3_400] {
        plant.bash(100, result)?;
    }
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[
            ("notes.on", "true"),
            ("notes.compact", "true"),
            ("notes.first", "2000"),
            ("notes.growth", "1000"),
            ("notes.calls", "1"),
            ("notes.share", "0.1"),
            ("notes.keep_messages", "100"),
            ("notes.keep_most", "100000"),
        ],
        r#"
        {"call":0,"event":"notes","tokens":20}
        {"call":0,"event":"side-call","purpose":"notes","input":202,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":0,"output":20,"cost_micro_usd":2509}
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":6102,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":44009}
        {"call":1,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2450,"summary":500,"restored":0,"records":3,"last_record":2,"kept":null,"retries":0,"calls_since":1,"turns_since":0,"again":false,"recorded":false}
        {"call":2,"event":"notes","tokens":275}
        {"call":2,"event":"side-call","purpose":"notes","input":202,"cache_read":4548,"cache_write_5m":0,"cache_write_1h":0,"output":275,"cost_micro_usd":10159}
        {"call":3,"event":"due","context":8050,"threshold":8000}
        {"call":3,"event":"boundary","cause":"auto","kind":"session-memory","context":8050,"threshold":8000,"before":8050,"after":7825,"summary":275,"restored":0,"records":0,"last_record":6,"kept":{"from":3,"to":6},"retries":0,"calls_since":2,"turns_since":0,"again":true,"recorded":false}
        "#,
    )
}

// ---- full compaction and what follows it -------------------------------------------------------------------------

/// Reads after outputs of 20: old 100, one 300, two 500, CLAUDE.md 200, three 350, four 400, one again 300, five 250: W at c8
/// is 2,000 + 8 x 20 + 2,400 = 4,560. c8 runs a command, 40 and 3,400: c9 is due at 8,000.
fn restore_log(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    for (name, tokens) in [
        ("old.rs", 100),
        ("one.rs", 300),
        ("two.rs", 500),
        ("CLAUDE.md", 200),
        ("three.rs", 350),
        ("four.rs", 400),
        ("one.rs", 300),
        ("five.rs", 250),
    ] {
        plant.read(name, 20, tokens)?;
    }
    plant.bash(40, 3_400)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// Newest first: five 250, one 300, four 400, three 350, two 500 cut to 400; old would be the sixth. 1,700 in all.
/// Sent 8,100, 4,558 read: 3,542 x 5 + 500 x 25 + 2,279 = 32,489. After: 1,900 + 550 + 1,700 = 4,150.
fn restore_cut(folder: &mut Folder) -> io::Result<()> {
    restore_log(folder)?;
    expect(
        folder,
        &[
            ("restore.files", "5"),
            ("restore.file_tokens", "400"),
            ("restore.files_tokens", "2000"),
        ],
        r#"
        {"call":9,"event":"due","context":8000,"threshold":8000}
        {"call":9,"event":"side-call","purpose":"compact","input":3542,"cache_read":4558,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":32489}
        {"call":9,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":4150,"summary":500,"restored":1700,"records":19,"last_record":18,"kept":null,"retries":0,"calls_since":9,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// With 1,000 in all: five 250 leaves 750, one 300 leaves 450, four 400 leaves 50, three 350 does not fit, two is too large.
/// All five places are taken, so old does not come back though it is small: 950. After: 1,900 + 550 + 950 = 3,400.
fn restore_skip(folder: &mut Folder) -> io::Result<()> {
    restore_log(folder)?;
    expect(
        folder,
        &[
            ("restore.files", "5"),
            ("restore.file_tokens", "400"),
            ("restore.files_tokens", "1000"),
            ("restore.large", "\"skip\""),
        ],
        r#"
        {"call":9,"event":"due","context":8000,"threshold":8000}
        {"call":9,"event":"side-call","purpose":"compact","input":3542,"cache_read":4558,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":32489}
        {"call":9,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":3400,"summary":500,"restored":950,"records":19,"last_record":18,"kept":null,"retries":0,"calls_since":9,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// Skills with outputs of 50: results of 400 (c0), 200 (c1: 6,450), 250 (c2: 6,700); c3 (7,000) a command, 1,000.
/// c4 due at 8,050. Newest first: 250, 200 (450 in all); the third, cut to 300, would make 750 of the 500. Sent 8,150,
/// 6,998 read: 1,152 x 5 + 500 x 25 + 3,499 = 21,759. After: 5,900 + 550 + 450 = 6,900.
fn restore_skills(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 6_000)?;
    for (skill, tokens) in [("prune", 400), ("graft", 200), ("press", 250)] {
        plant.call("Skill", &format!("{{\"skill\":\"{skill}\"}}"), 50, tokens)?;
    }
    plant.bash(50, 1_000)?;
    plant.say(50)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[("restore.skill_tokens", "300"), ("restore.skills_tokens", "500")],
        r#"
        {"call":4,"event":"due","context":8050,"threshold":8000}
        {"call":4,"event":"side-call","purpose":"compact","input":1152,"cache_read":6998,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":21759}
        {"call":4,"event":"boundary","cause":"auto","kind":"full","context":8050,"threshold":8000,"before":8050,"after":6900,"summary":500,"restored":450,"records":9,"last_record":8,"kept":null,"retries":0,"calls_since":4,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// c0 (r1) 2,000, r2 5,900: c1 due at 8,000, sent 8,100, 1,998 read: 44,009 (as in `notes-floor`). After: 2,450.
/// c1 (r3) is sent 2,450: 1,900 read, 548 written: 10 + 950 + 3,425 + 100 x 25 = 6,885. r4 5,500: c2 due at
/// 2,450 + 100 + 5,500 = 8,050, sent 8,150, 2,448 read: 5,702 x 5 + 500 x 25 + 1,224 = 42,234. After: 2,450 again.
fn recompaction(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.bash(100, 5_900)?;
    plant.bash(100, 5_500)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":6102,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":44009}
        {"call":1,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2450,"summary":500,"restored":0,"records":3,"last_record":2,"kept":null,"retries":0,"calls_since":1,"turns_since":0,"again":false,"recorded":false}
        {"call":2,"event":"due","context":8050,"threshold":8000}
        {"call":2,"event":"side-call","purpose":"compact","input":5702,"cache_read":2448,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":42234}
        {"call":2,"event":"boundary","cause":"auto","kind":"full","context":8050,"threshold":8000,"before":8050,"after":2450,"summary":500,"restored":0,"records":2,"last_record":4,"kept":null,"retries":0,"calls_since":1,"turns_since":0,"again":true,"recorded":false}
        {"call":0,"event":"called","window":2000,"in_step":true,"miss":"first"}
        {"call":1,"event":"called","window":2450,"in_step":false,"miss":"compaction","input":2,"cache_read":1900,"cache_write_5m":548,"output":100,"cost_micro_usd":6885,"base":1900,"drift":0,"parts":{"human":0,"assistant_text":0,"thinking":0,"tool_calls":0,"tool_results":0,"local_commands":0,"attachments":0,"images":0,"summaries":550,"other":0}}
        {"call":2,"event":"called","window":2450,"in_step":false,"miss":"compaction","cache_read":1900}
        "#,
    )
}

// ---- recorded boundaries -----------------------------------------------------------------------------------------

/// c0 (r1) asks for something that takes long; the user goes on (r2 100): c1 2,200. r4 5,800: c2 due at
/// 2,200 + 100 + 5,800 = 8,100, sent 8,200, 2,198 read: 6,002 x 5 + 500 x 25 + 1,099 = 43,609. After: 2,450. Then the answer to r1
/// comes (r6 300), which is gone: c3 is sent 2,450 + 100.
fn orphan_result(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    let call = plant.call_unanswered(100)?;
    plant.ask(100)?;
    plant.bash(100, 5_800)?;
    plant.say(100)?;
    plant.answer_late(&call, 300)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[],
        r#"
        {"call":2,"event":"due","context":8100,"threshold":8000}
        {"call":2,"event":"side-call","purpose":"compact","input":6002,"cache_read":2198,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":43609}
        {"call":2,"event":"boundary","cause":"auto","kind":"full","context":8100,"threshold":8000,"before":8100,"after":2450,"summary":500,"restored":0,"records":5,"last_record":4,"kept":null,"retries":0,"calls_since":2,"turns_since":1,"again":false,"recorded":false}
        {"call":3,"event":"orphans","results":1}
        {"call":0,"event":"called","window":2000,"in_step":true}
        {"call":1,"event":"called","window":2200,"in_step":true}
        {"call":2,"event":"called","window":2450,"in_step":false,"miss":"compaction"}
        {"call":3,"event":"called","window":2550,"in_step":false,"miss":null,"parts":{"human":0,"assistant_text":100,"thinking":0,"tool_calls":0,"tool_results":0,"local_commands":0,"attachments":0,"images":0,"summaries":550,"other":0}}
        "#,
    )
}

/// c0 (r1, r2 400), c1 says (r3): W 2,600. The user compacts: sent 2,700, 2,498 read: 202 x 5 + 500 x 25 + 1,249 = 14,759.
/// After: 1,900 + 550 = 2,450, where the recorded summary (r4) does not count. With the next prompt c2 is sent 2,550.
fn manual_whole(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.bash(100, 400)?;
    plant.say(100)?;
    plant.boundary("manual", 2_600, 3_900)?;
    plant.ask_anew()?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[],
        r#"
        {"call":2,"event":"reached","boundary":0,"context":2600,"threshold":8000,"due":false}
        {"call":2,"event":"side-call","purpose":"compact","input":202,"cache_read":2498,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":14759}
        {"call":2,"event":"boundary","cause":"manual","kind":"full","context":2600,"threshold":8000,"before":2600,"after":2450,"summary":500,"restored":0,"records":4,"last_record":3,"kept":null,"retries":0,"calls_since":2,"turns_since":1,"again":false,"recorded":false}
        {"call":0,"event":"called","window":2000}
        {"call":1,"event":"called","window":2500}
        {"call":2,"event":"called","window":2550,"in_step":false,"miss":"compaction"}
        "#,
    )
}

/// Three commands of 100 and 400 (r1 to r6), c3 says 100 (r7): W 3,600. The pivot lies two rounds back, at the input of c2: r4,
/// the result of r3, so r3 stays with it.
fn pivot_log(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    for _ in 0..3 {
        plant.bash(100, 400)?;
    }
    plant.say(100)?;
    plant.boundary("manual", 3_600, 3_900)?;
    plant.ask_anew()?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// r0 to r2 (600) are summarised, r3 to r7 (1,100) stay: 1,900 + 550 + 1,100 = 3,550. What stays is not sent to be
/// summarised: 1,900 + 600 + 100, all read but the 100: 100 x 5 + 500 x 25 + 2,500 / 2 = 14,250.
fn manual_up_to(folder: &mut Folder) -> io::Result<()> {
    pivot_log(folder)?;
    expect(
        folder,
        &[("compact.variant", "\"up_to\""), ("compact.pivot", "2")],
        r#"
        {"call":4,"event":"reached","boundary":0,"context":3600,"threshold":8000,"due":false}
        {"call":4,"event":"side-call","purpose":"compact","input":100,"cache_read":2500,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":14250}
        {"call":4,"event":"boundary","cause":"manual","kind":"partial","context":3600,"threshold":8000,"before":3600,"after":3550,"summary":500,"restored":0,"records":3,"last_record":7,"kept":{"from":3,"to":7},"retries":0,"calls_since":4,"turns_since":1,"again":false,"recorded":false}
        {"call":0,"event":"called"}
        {"call":1,"event":"called"}
        {"call":2,"event":"called"}
        {"call":3,"event":"called","window":3500}
        {"call":4,"event":"called","window":3650,"cache_read":1900,"miss":"compaction"}
        "#,
    )
}

/// r3 to r7 are summarised, r0 to r2 (600) stay: 1,900 + 550 + 600 = 3,050. All is sent: 3,700, 3,498 read: 202 x 5 +
/// 500 x 25 + 1,749 = 15,259. What stays is the start of what was sent: c4 is sent 3,150 and reads 1,900 + 600.
fn manual_from(folder: &mut Folder) -> io::Result<()> {
    pivot_log(folder)?;
    expect(
        folder,
        &[("compact.variant", "\"from\""), ("compact.pivot", "2")],
        r#"
        {"call":4,"event":"reached","boundary":0,"context":3600,"threshold":8000,"due":false}
        {"call":4,"event":"side-call","purpose":"compact","input":202,"cache_read":3498,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":15259}
        {"call":4,"event":"boundary","cause":"manual","kind":"partial","context":3600,"threshold":8000,"before":3600,"after":3050,"summary":500,"restored":0,"records":5,"last_record":7,"kept":{"from":0,"to":2},"retries":0,"calls_since":4,"turns_since":1,"again":false,"recorded":false}
        {"call":0,"event":"called"}
        {"call":1,"event":"called"}
        {"call":2,"event":"called"}
        {"call":3,"event":"called","window":3500}
        {"call":4,"event":"called","window":3150,"cache_read":2500,"cache_write_5m":648,"miss":null}
        "#,
    )
}

/// c0 (r1, r2 5,700), c1 says 200 (r3): the client compacted at 7,800 + 200 = 8,000, and so does the policy. The recorded
/// summary of 1,000 is taken, and the window that c2 shows: 4,000, of which 4,000 - 1,900 - 1,000 = 1,100 came with it. The
/// summary was sent 8,100, 7,798 read: 302 x 5 + 1,000 x 25 + 3,899 = 30,409. c2 reads system prompt and tools: 1,900, and
/// writes 2,098. c3 goes on in step: 4,000 + 100 + 100.
fn boundary_in_step(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.bash(100, 5_700)?;
    plant.say(200)?;
    plant.boundary("auto", 8_000, 3_900)?;
    plant.ask_anew()?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[("compact.summary", "\"recorded\"")],
        r#"
        {"call":2,"event":"reached","boundary":0,"context":8000,"threshold":8000,"due":true}
        {"call":2,"event":"side-call","purpose":"compact","input":302,"cache_read":7798,"cache_write_5m":0,"cache_write_1h":0,"output":1000,"cost_micro_usd":30409}
        {"call":2,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":4000,"summary":1000,"restored":1100,"records":4,"last_record":3,"kept":null,"retries":0,"calls_since":2,"turns_since":1,"again":false,"recorded":true}
        {"call":0,"event":"called","window":2000,"in_step":true}
        {"call":1,"event":"called","window":7800,"in_step":true}
        {"call":2,"event":"called","window":4000,"in_step":true,"miss":"compaction","input":2,"cache_read":1900,"cache_write_5m":2098}
        {"call":3,"event":"called","window":4200,"in_step":true,"miss":null,"cache_read":3998}
        "#,
    )
}

// ---- prompts that are too long, failures -------------------------------------------------------------------------

/// Two commands of 100 and 1,000, a third whose result is `last`.
fn long_log(folder: &mut Folder, last: u64) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.bash(100, 1_000)?;
    plant.bash(100, 1_000)?;
    plant.bash(100, last)?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    Ok(())
}

/// c3 is due at 4,200 + 100 + 7,000 = 11,300. Rounds: r0 100; r1, r2 1,100; r3, r4 1,100; r5, r6 7,100. With 1,900 and the
/// instructions it is 11,400, 1,400 above 10,000: 100 + 1,100 + 1,100 cover that, 9,100 are left after one try. Nothing of
/// them can be read: 9,100 x 5 + 500 x 25 = 58,000. After: 2,450.
fn too_long_known(folder: &mut Folder) -> io::Result<()> {
    long_log(folder, 7_000)?;
    expect(
        folder,
        &[],
        r#"
        {"call":3,"event":"due","context":11300,"threshold":8000}
        {"call":3,"event":"side-call","purpose":"compact","input":9100,"cache_read":0,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":58000}
        {"call":3,"event":"boundary","cause":"auto","kind":"full","context":11300,"threshold":8000,"before":11300,"after":2450,"summary":500,"restored":0,"records":7,"last_record":6,"kept":null,"retries":1,"calls_since":3,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// The same, but the refusal does not say by how much. A fifth of four rounds is none, so one goes: r0, 11,300 are left; of
/// three one: 10,200; of two one: 9,100, after three tries.
fn too_long_unknown(folder: &mut Folder) -> io::Result<()> {
    long_log(folder, 7_000)?;
    expect(
        folder,
        &[("compact.excess_known", "false")],
        r#"
        {"call":3,"event":"due","context":11300,"threshold":8000}
        {"call":3,"event":"side-call","purpose":"compact","input":9100,"cache_read":0,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":58000}
        {"call":3,"event":"boundary","cause":"auto","kind":"full","context":11300,"threshold":8000,"before":11300,"after":2450,"summary":500,"restored":0,"records":7,"last_record":6,"kept":null,"retries":3,"calls_since":3,"turns_since":0,"again":false,"recorded":false}
        "#,
    )
}

/// With a last result of 9,000 c3 is due at 13,300; the last round alone is 9,100 + 2,000 = 11,100: when it is dropped too,
/// nothing is left. The call is refused, the compaction in answer fails alike, and nothing is called after c2.
fn too_long_blocked(folder: &mut Folder) -> io::Result<()> {
    long_log(folder, 9_000)?;
    expect(
        folder,
        &[],
        r#"
        {"call":3,"event":"due","context":13300,"threshold":8000}
        {"call":3,"event":"failed","cause":"auto","failure":"prompt-too-long","in_a_row":1}
        {"call":3,"event":"prompt-too-long","tokens":13300,"limit":10000}
        {"call":3,"event":"failed","cause":"reactive","failure":"prompt-too-long","in_a_row":2}
        {"call":3,"event":"blocked"}
        {"call":0,"event":"called"}
        {"call":1,"event":"called"}
        {"call":2,"event":"called","window":4200}
        "#,
    )
}

/// System prompt and tools are 7,600: c0 7,700, 100 and a result of 200, so c1 is due at 8,000, but 7,600 + 550 = 8,150 would
/// be more. The summary was written for nothing: 8,100 sent, 7,698 read: 402 x 5 + 500 x 25 + 3,849 = 18,359.
fn no_gain(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 7_700)?;
    plant.bash(100, 200)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"side-call","purpose":"compact","input":402,"cache_read":7698,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":18359}
        {"call":1,"event":"failed","cause":"auto","failure":"no-gain","in_a_row":1}
        {"call":0,"event":"called","window":7700}
        {"call":1,"event":"called","window":8000,"level":"threshold"}
        "#,
    )
}

/// The model takes 20,000, the override of 10,000 sets the threshold at 8,000. Every compaction fails. c0 (r1, r2 5,900), then
/// results of 100: due at c1 8,000, c2 8,200, c3 8,400 (the third failure), c4 8,600 (not tried any more). c4 says 100: 8,700.
/// The user's own compaction succeeded: 8,800 sent, 8,598 read: 202 x 5 + 1,000 x 25 + 4,299 = 30,309; c5 shows 4,000:
/// 4,000 - 1,900 - 1,000 = 1,100 restored. c5 runs a command, 100 and 4,000: c6 is due at 8,100, the first failure again.
fn breaker(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    for result in [5_900, 100, 100, 100] {
        plant.bash(100, result)?;
    }
    plant.say(100)?;
    plant.boundary("manual", 8_700, 3_900)?;
    plant.ask_anew()?;
    plant.bash(100, 4_000)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[
            ("window.tokens", "20000"),
            ("window.override", "10000"),
            ("compact.summary", "\"recorded\""),
            ("failure.rate", "1.0"),
        ],
        r#"
        {"call":1,"event":"due","context":8000,"threshold":8000}
        {"call":1,"event":"failed","cause":"auto","failure":"injected","in_a_row":1}
        {"call":2,"event":"due","context":8200,"threshold":8000}
        {"call":2,"event":"failed","cause":"auto","failure":"injected","in_a_row":2}
        {"call":3,"event":"due","context":8400,"threshold":8000}
        {"call":3,"event":"failed","cause":"auto","failure":"injected","in_a_row":3}
        {"call":3,"event":"breaker-open"}
        {"call":4,"event":"due","context":8600,"threshold":8000}
        {"call":5,"event":"reached","boundary":0,"context":8700,"threshold":8000,"due":true}
        {"call":5,"event":"side-call","purpose":"compact","input":202,"cache_read":8598,"cache_write_5m":0,"cache_write_1h":0,"output":1000,"cost_micro_usd":30309}
        {"call":5,"event":"boundary","cause":"manual","kind":"full","context":8700,"threshold":8000,"before":8700,"after":4000,"summary":1000,"restored":1100,"records":10,"last_record":9,"kept":null,"retries":0,"calls_since":5,"turns_since":1,"again":false,"recorded":true}
        {"call":6,"event":"due","context":8100,"threshold":8000}
        {"call":6,"event":"failed","cause":"auto","failure":"injected","in_a_row":1}
        "#,
    )
}

/// Automatic compaction is off. c0 (r1, r2 1,000), c1 (r3, r4 7,500): c2 would be sent 10,700. Rounds: 100; 1,100; 7,600; with
/// 2,000 around them 10,800: 100 + 1,100 cover the excess of 800, 9,600 are left: 9,600 x 5 + 12,500 = 60,500. After: 2,450.
fn reactive(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.bash(100, 1_000)?;
    plant.bash(100, 7_500)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[("switch.auto", "false")],
        r#"
        {"call":2,"event":"prompt-too-long","tokens":10700,"limit":10000}
        {"call":2,"event":"side-call","purpose":"compact","input":9600,"cache_read":0,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":60500}
        {"call":2,"event":"boundary","cause":"reactive","kind":"full","context":10700,"threshold":8000,"before":10700,"after":2450,"summary":500,"restored":0,"records":5,"last_record":4,"kept":null,"retries":1,"calls_since":2,"turns_since":0,"again":false,"recorded":false}
        {"call":0,"event":"called","window":2000,"in_step":true}
        {"call":1,"event":"called","window":3100,"in_step":true}
        {"call":2,"event":"called","window":2450,"in_step":false,"miss":"compaction"}
        "#,
    )
}

// ---- sub-agents, cache, levels, turns ----------------------------------------------------------------------------

/// The sub-agent runs a command, 100 and 5,900: its second call is due at 8,000 (44,009, as in `recompaction`). The main agent
/// gets its report of 300 and goes on in step: 2,000 + 100 + 300 = 2,400, of which 1,998 are read.
fn subagent_apart(folder: &mut Folder) -> io::Result<()> {
    let mut main = Plant::new(folder, 2_000)?;
    let log = folder.agent_log(&main.log, "claude-opus-5");
    let mut agent = Plant::on(log, 2_000)?;
    agent.bash(100, 5_900)?;
    agent.say(100)?;
    main.log.now = agent.log.now;
    let input = "{\"description\":\"Count the apples\",\"prompt\":\"Count the apples.\",\"subagent_type\":\"Explore\"}";
    main.call("Agent", input, 100, 300)?;
    // The call was made before the agent began, but what it reported came only now: the cache is still warm.
    main.say(100)?;
    let id = agent.log.who.agent_id.clone().unwrap_or_default();
    let place = format!(
        "{PROJECT}/{}/subagents/{}",
        main.log.who.session_id,
        agent_name(&agent.log)
    );
    folder.write(&format!("{place}.meta.json"), b"{\"agentType\":\"Explore\"}\n")?;
    folder.save_at(&format!("{place}.jsonl"), agent.log, |bytes| bytes)?;
    folder.save(main.log)?;
    let events = r#"
        {"call":0,"event":"called","window":2000,"in_step":true,"miss":"first"}
        {"call":1,"event":"called","window":2400,"in_step":true,"miss":null,"cache_read":1998}
        {"agent":"AGENT","call":1,"event":"due","context":8000,"threshold":8000}
        {"agent":"AGENT","call":1,"event":"side-call","purpose":"compact","input":6102,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":0,"output":500,"cost_micro_usd":44009}
        {"agent":"AGENT","call":1,"event":"boundary","cause":"auto","kind":"full","context":8000,"threshold":8000,"before":8000,"after":2450,"summary":500,"restored":0,"records":3,"last_record":2,"kept":null,"retries":0,"calls_since":1,"turns_since":0,"again":false,"recorded":false}
        {"agent":"AGENT","call":0,"event":"called","window":2000,"in_step":true,"miss":"first"}
        {"agent":"AGENT","call":1,"event":"called","window":2450,"in_step":false,"miss":"compaction"}
        "#;
    expect(folder, &[], &events.replace("AGENT", &id))
}

/// Texts of 100 and prompts of 100: W 2,000; 2,200; 2,400; 2,600; 2,800; 3,000. Others had left 1,500 in the cache before c0.
/// Pauses: c2 comes after 200 seconds, c3 after 400, c4 is another model's (claude-sonnet-5: 2, 10, 2.5 and 0.2).
/// c0 2 x 5 + 1,500 / 2 + 498 x 6.25 + 2,500 = 6,372.5; c1 10 + 999 + 1,250 + 2,500 = 4,759; c2 10 + 1,099 + 1,250 + 2,500 =
/// 4,859; c3 10 + 2,598 x 6.25 + 2,500 = 18,747.5; c4 4 + 2,798 x 2.5 + 1,000 = 7,999; c5 4 + 2,798 / 5 + 500 + 1,000 = 2,063.6.
fn cache_five_minutes(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.held = 1_500;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    plant.pause(200);
    plant.ask(100)?;
    plant.say(100)?;
    plant.pause(400);
    plant.held = 0;
    plant.ask(100)?;
    plant.say(100)?;
    plant.log.model = "claude-sonnet-5".to_owned();
    plant.held = 0;
    plant.ask_anew()?;
    plant.say(100)?;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[],
        r#"
        {"call":0,"event":"called","model":"claude-opus-5","window":2000,"miss":"first","input":2,"cache_read":1500,"cache_write_5m":498,"cache_write_1h":0,"output":100,"cost_micro_usd":6373}
        {"call":1,"event":"called","model":"claude-opus-5","window":2200,"miss":null,"input":2,"cache_read":1998,"cache_write_5m":200,"cache_write_1h":0,"output":100,"cost_micro_usd":4759}
        {"call":2,"event":"called","model":"claude-opus-5","window":2400,"miss":null,"input":2,"cache_read":2198,"cache_write_5m":200,"cache_write_1h":0,"output":100,"cost_micro_usd":4859}
        {"call":3,"event":"called","model":"claude-opus-5","window":2600,"miss":"expired","input":2,"cache_read":0,"cache_write_5m":2598,"cache_write_1h":0,"output":100,"cost_micro_usd":18748}
        {"call":4,"event":"called","model":"claude-sonnet-5","window":2800,"miss":"model","input":2,"cache_read":0,"cache_write_5m":2798,"cache_write_1h":0,"output":100,"cost_micro_usd":7999}
        {"call":5,"event":"called","model":"claude-sonnet-5","window":3000,"miss":null,"input":2,"cache_read":2798,"cache_write_5m":200,"cache_write_1h":0,"output":100,"cost_micro_usd":2064}
        "#,
    )
}

/// The same texts, written for an hour: c1 after 40 minutes, c2 after 61 more, when only the 1,900 of system prompt and tools
/// are left. c0 10 + 750 + 4,980 + 2,500 = 8,240; c1 10 + 999 + 2,000 + 2,500 = 5,509; c2 10 + 950 + 4,980 + 2,500 = 8,440.
fn cache_hour(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.log.hour_cache = true;
    plant.held = 1_500;
    plant.say(100)?;
    plant.pause(40 * 60);
    plant.ask(100)?;
    plant.say(100)?;
    plant.pause(61 * 60);
    plant.held = 1_900;
    plant.ask(100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[],
        r#"
        {"call":0,"event":"called","window":2000,"miss":"first","input":2,"cache_read":1500,"cache_write_5m":0,"cache_write_1h":498,"output":100,"cost_micro_usd":8240}
        {"call":1,"event":"called","window":2200,"miss":null,"input":2,"cache_read":1998,"cache_write_5m":0,"cache_write_1h":200,"output":100,"cost_micro_usd":5509}
        {"call":2,"event":"called","window":2400,"miss":"expired","input":2,"cache_read":1900,"cache_write_5m":0,"cache_write_1h":498,"output":100,"cost_micro_usd":8440}
        "#,
    )
}

/// Window 20,000, reserve 2,000: effective 18,000, of which 50 % are 9,000, below the usual 17,000. Warning at 7,000, error at
/// 8,000. Automatic compaction is off, so the window just grows: 6,900; 7,000; 8,000; 9,000.
fn levels(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 6_900)?;
    plant.say(50)?;
    plant.ask(50)?;
    plant.bash(100, 900)?;
    plant.bash(100, 900)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[
            ("window.tokens", "20000"),
            ("window.reserve", "2000"),
            ("window.percent", "50.0"),
            ("switch.auto", "false"),
        ],
        r#"
        {"call":0,"event":"called","window":6900,"threshold":9000,"level":"normal"}
        {"call":1,"event":"called","window":7000,"threshold":9000,"level":"warning"}
        {"call":2,"event":"called","window":8000,"threshold":9000,"level":"error"}
        {"call":3,"event":"called","window":9000,"threshold":9000,"level":"threshold"}
        "#,
    )
}

/// Turns end at c1 (c0 has a call), c2, c3 and c4: memories are extracted at c2 and c4.
///
/// An extraction reads the conversation from the prompt cache: all of the last prompt but the two tokens at its end, 2,350 -
/// 2 and 2,650 - 2. New to it are these two, the answer of 100, and 2,000 of instructions: 2,102; it answers 500. At 5, 0.5
/// and 25 dollars a million that is 10,510 + 1,174 + 12,500 = 24,184, and 10,510 + 1,324 + 12,500 = 24,334.
fn extract_turns(folder: &mut Folder) -> io::Result<()> {
    let mut plant = Plant::new(folder, 2_000)?;
    plant.bash(100, 100)?;
    plant.say(100)?;
    for _ in 0..3 {
        plant.ask(50)?;
        plant.say(100)?;
    }
    folder.save(plant.log)?;
    expect(
        folder,
        &[("extract.on", "true"), ("extract.turns", "2")],
        r#"
        {"call":2,"event":"extract"}
        {"cache_read":2348,"cache_write_1h":0,"cache_write_5m":0,"call":2,"cost_micro_usd":24184,"event":"side-call","input":2102,"output":500,"purpose":"extract"}
        {"call":4,"event":"extract"}
        {"cache_read":2648,"cache_write_1h":0,"cache_write_5m":0,"call":4,"cost_micro_usd":24334,"event":"side-call","input":2102,"output":500,"purpose":"extract"}
        "#,
    )
}

/// c0 writes a memory, and the turn ends at c1: what was said is seen. The turn that c2 is ends with an extraction. c3 only
/// reads the memory, so the turn ends with another at c4.
///
/// Sizes: 2,000 at c0; 2,200 at c1; 2,350 at c2; 2,500 at c3; 2,700 at c4. As above, all but two tokens are read from the
/// cache, 2,348 and 2,698; 10,510 + 1,174 + 12,500 = 24,184, and 10,510 + 1,349 + 12,500 = 24,359.
fn extract_own_memory(folder: &mut Folder) -> io::Result<()> {
    let memory = quoted("/home/dev/.claude/projects/-home-dev-projects-orchard/memory/style.md");
    let mut plant = Plant::new(folder, 2_000)?;
    let input = format!("{{\"file_path\":{memory},\"content\":\"Tabs, not spaces.\"}}");
    plant.call("Write", &input, 100, 100)?;
    plant.say(100)?;
    plant.ask(50)?;
    plant.say(100)?;
    plant.ask(50)?;
    plant.call("Read", &format!("{{\"file_path\":{memory}}}"), 100, 100)?;
    plant.say(100)?;
    folder.save(plant.log)?;
    expect(
        folder,
        &[("extract.on", "true"), ("extract.turns", "1")],
        r#"
        {"call":2,"event":"extract"}
        {"cache_read":2348,"cache_write_1h":0,"cache_write_5m":0,"call":2,"cost_micro_usd":24184,"event":"side-call","input":2102,"output":500,"purpose":"extract"}
        {"call":4,"event":"extract"}
        {"cache_read":2698,"cache_write_1h":0,"cache_write_5m":0,"call":4,"cost_micro_usd":24359,"event":"side-call","input":2102,"output":500,"purpose":"extract"}
        "#,
    )
}
