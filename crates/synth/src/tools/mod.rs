//! Content blocks of responses: text, thinking, and tool calls with their results.
//!
//! A result has two copies: the one that the model sees, and the client's own in `toolUseResult`, which is often larger.
//! `drive` decides which tool is called, `session` writes the lines.

mod files;

pub use files::{ProjectFile, edit, read, write};

use crate::json::{api_id, escape_into, quoted};
use crate::rng::{SizeBand, band};
use crate::session::{SynthBlock, SynthCall, SynthSession, ToolOutput, string_value};
use crate::words::{SynthText, TextFlavor, fill, prose_flavor};
use std::io::Write;

/// Characters that commands and searches print.
const OUTPUT_CHARS: &[SizeBand] = &[
    band(520, 20, 460),
    band(300, 460, 1_700),
    band(130, 1_700, 5_000),
    band(45, 5_000, 14_000),
    band(5, 14_000, 30_000),
];

/// Characters that one read returns. The client truncates what the model sees, so the tail ends at 50,000.
const READ_CHARS: &[SizeBand] = &[
    band(500, 150, 2_500),
    band(300, 2_500, 7_000),
    band(140, 7_000, 18_000),
    band(50, 18_000, 34_000),
    band(10, 34_000, 50_000),
];

/// Numbers of progress records of a command of a bundled case.
const FEW_TICKS: &[SizeBand] = &[band(1, 1, 6)];
/// Numbers of progress records of a command of a bulk session; a long-running command writes one every second.
const TICKS: &[SizeBand] = &[band(700, 1, 6), band(240, 6, 22), band(60, 22, 90)];

/// Average characters of a line.
const AVERAGE_LINE: u64 = 38;

/// Concatenates the parts of a JSON object.
fn object(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Returns a content block that calls a tool.
pub fn call_block<W: Write>(
    session: &mut SynthSession<W>,
    name: &'static str,
    input: &[u8],
    outcome: ToolOutput,
) -> SynthBlock {
    let id = api_id(&mut session.rng, "toolu_01");
    let caller: &[u8] = if session.client.has_iterations() {
        b",\"caller\":{\"type\":\"direct\"}}"
    } else {
        b"}"
    };
    let head = format!("{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"{name}\",\"input\":");
    let tokens = input.len() as u64 * 10 / 33 + 45;
    SynthBlock {
        json: object(&[head.as_bytes(), input, caller]),
        tokens: session.rng.around(tokens, 4),
        call: Some(SynthCall {
            id,
            name,
            outcome,
            progress: Vec::new(),
        }),
    }
}

/// Returns a result whose text is `shown`; `kept` is its `toolUseResult`.
pub fn tool_output<W: Write>(session: &mut SynthSession<W>, shown: &SynthText, kept: Vec<u8>) -> ToolOutput {
    let tokens = session.rng.around(shown.tokens(session.density()), 3) + 25;
    ToolOutput {
        content: string_value(shown),
        kept,
        error: false,
        units: shown.units,
        tokens,
    }
}

pub fn text_block<W: Write>(session: &mut SynthSession<W>, text: &SynthText) -> SynthBlock {
    let tokens = session.rng.around(text.tokens(session.density()) * 3 / 4, 4) + 8;
    SynthBlock {
        json: object(&[b"{\"type\":\"text\",\"text\":\"", &text.escaped, b"\"}"]),
        tokens,
        call: None,
    }
}

/// Returns a thinking block; newer clients keep only its signature.
pub fn thinking_block<W: Write>(session: &mut SynthSession<W>, text: &SynthText) -> SynthBlock {
    let length = 300 + text.units as usize / if session.client.has_iterations() { 1 } else { 3 };
    signed_thinking(session, text, length)
}

/// Returns a thinking block with a signature of realistic length. Bundled cases use shorter ones.
pub fn long_signed_thinking<W: Write>(session: &mut SynthSession<W>, text: &SynthText) -> SynthBlock {
    let units = text.units as usize;
    let length = if session.client.has_iterations() {
        600 + units * 6
    } else {
        250 + units * 3 / 2
    };
    signed_thinking(session, text, length)
}

fn signed_thinking<W: Write>(session: &mut SynthSession<W>, text: &SynthText, signature: usize) -> SynthBlock {
    let tokens = session.rng.around(text.tokens(session.density()) * 4 / 5, 4) + 12;
    let hidden = session.client.has_iterations();
    let mut json = b"{\"type\":\"thinking\",\"thinking\":\"".to_vec();
    if !hidden {
        json.extend_from_slice(&text.escaped);
    }
    json.extend_from_slice(b"\",\"signature\":\"E");
    session.pools.base64(&mut session.rng, signature, &mut json);
    json.extend_from_slice(b"=\"}");
    SynthBlock {
        json,
        tokens,
        call: None,
    }
}

/// Returns a call of `Bash` with ASCII output.
pub fn bash<W: Write>(session: &mut SynthSession<W>, units: u64) -> SynthBlock {
    let flavor = if session.rng.permille(150) {
        TextFlavor::Patterns
    } else {
        TextFlavor::Console
    };
    command(session, &[(flavor, units)], FEW_TICKS, u64::MAX)
}

/// Returns a call of `Bash` for a bulk session. A sixth of the outputs, and more of the long ones, have characters outside
/// ASCII.
fn bulk_bash<W: Write>(session: &mut SynthSession<W>, units: u64, limit: u64) -> SynthBlock {
    let parts = if session.rng.permille(if units > 2_400 { 420 } else { 150 }) {
        [(TextFlavor::Console, units * 4 / 5), (TextFlavor::Signs, units / 5)]
    } else {
        [(TextFlavor::Patterns, units / 8), (TextFlavor::Console, units * 7 / 8)]
    };
    // A small log has no room for a long-running command.
    command(session, &parts, TICKS, limit / 1_000 + 1)
}

/// Returns a call of `Bash` that prints these parts. Some calls fail; some have progress records, at most `max_ticks`.
fn command<W: Write>(
    session: &mut SynthSession<W>,
    parts: &[(TextFlavor, u64)],
    ticks: &[SizeBand],
    max_ticks: u64,
) -> SynthBlock {
    let mut shown = SynthText::default();
    let failed = session.rng.permille(60);
    if failed {
        shown.push("Exit code 1\n");
    }
    for (at, (flavor, units)) in parts.iter().enumerate() {
        if at > 0 {
            shown.newline();
        }
        session.pools.write(&mut session.rng, *flavor, *units, &mut shown);
    }
    let kept = if failed {
        object(&[b"\"Error: ", &shown.escaped, b"\""])
    } else {
        object(&[
            b"{\"stdout\":\"",
            &shown.escaped,
            b"\",\"stderr\":\"\",\"interrupted\":false,\"isImage\":false}",
        ])
    };
    let mut outcome = tool_output(session, &shown, kept);
    outcome.error = failed;
    let command = fill(
        &mut session.rng,
        "go test ./$n/... -run 'Test$V$N' 2>&1 | grep -v \"^ok\\s\" | tail -$i",
    );
    let note = fill(&mut session.rng, "Run the $n tests");
    let input = format!("{{\"command\":{},\"description\":{}}}", quoted(&command), quoted(&note));
    let mut block = call_block(session, "Bash", input.as_bytes(), outcome);
    if session.client.has_progress() && session.rng.permille(250) {
        let ticks = session.rng.size(ticks).min(max_ticks);
        if let Some(call) = &mut block.call {
            for tick in 0..ticks {
                let mut output = SynthText::default();
                session
                    .pools
                    .write(&mut session.rng, TextFlavor::Console, 60 * tick.min(4) + 1, &mut output);
                let data = object(&[
                    b"{\"type\":\"bash_progress\",\"output\":\"",
                    &output.escaped,
                    b"\",\"fullOutput\":\"",
                    &output.escaped,
                    format!(
                        "\",\"elapsedTimeSeconds\":{},\"totalLines\":{tick},\"timeoutMs\":300000}}",
                        tick + 2
                    )
                    .as_bytes(),
                ]);
                call.progress.push((data, format!("bash-progress-{tick}")));
            }
        }
    }
    block
}

/// Returns a call of `Grep` that lists files.
pub fn grep<W: Write>(session: &mut SynthSession<W>, units: u64) -> SynthBlock {
    let count = (units / AVERAGE_LINE).clamp(1, 200);
    let names: Vec<String> = (0..count).map(|_| fill(&mut session.rng, "$n/$n/$v_$n.go")).collect();
    let mut shown = SynthText::of(&format!("Found {count} files\n"));
    shown.push(&names.join("\n"));
    let list: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let kept = format!(
        "{{\"mode\":\"files_with_matches\",\"filenames\":[{}],\"numFiles\":{count}}}",
        list.join(",")
    );
    let outcome = tool_output(session, &shown, kept.into_bytes());
    let pattern = fill(&mut session.rng, "func\\s+\\(.*\\)\\s+$V$N\\(|\"$n\"");
    let input = format!(
        "{{\"pattern\":{},\"output_mode\":\"files_with_matches\"}}",
        quoted(&pattern)
    );
    call_block(session, "Grep", input.as_bytes(), outcome)
}

/// Returns a call of `WebFetch` with prose in any script.
pub fn fetch<W: Write>(session: &mut SynthSession<W>, units: u64) -> SynthBlock {
    let flavor = prose_flavor(&mut session.rng);
    let mut shown = SynthText::default();
    session
        .pools
        .write(&mut session.rng, flavor, units.min(12_000), &mut shown);
    let url = fill(&mut session.rng, "https://docs.example.test/$n/$v-$n");
    let kept = object(&[
        format!(
            "{{\"bytes\":{},\"code\":200,\"codeText\":\"OK\",\"result\":\"",
            shown.units * 9
        )
        .as_bytes(),
        &shown.escaped,
        format!(
            "\",\"durationMs\":{},\"url\":\"{url}\"}}",
            session.rng.range(900, 9_000)
        )
        .as_bytes(),
    ]);
    let outcome = tool_output(session, &shown, kept);
    let input = format!("{{\"url\":\"{url}\",\"prompt\":\"What does it say?\"}}");
    call_block(session, "WebFetch", input.as_bytes(), outcome)
}

/// Returns a call of `TodoWrite`.
pub fn todos<W: Write>(session: &mut SynthSession<W>) -> SynthBlock {
    let items: Vec<String> = (0..session.rng.range(2, 6))
        .map(|at| {
            let text = fill(&mut session.rng, "$V the $a $n");
            let status = if at == 0 { "in_progress" } else { "pending" };
            format!("{{\"content\":\"{text}\",\"status\":\"{status}\",\"activeForm\":\"{text}\"}}")
        })
        .collect();
    let list = items.join(",");
    let kept = format!("{{\"oldTodos\":[],\"newTodos\":[{list}]}}");
    let shown = SynthText::of("The list of tasks was updated. Go on with the current one.");
    let outcome = tool_output(session, &shown, kept.into_bytes());
    call_block(
        session,
        "TodoWrite",
        format!("{{\"todos\":[{list}]}}").as_bytes(),
        outcome,
    )
}

/// Returns a call of `Read` on a picture: many bytes, few tokens.
pub fn picture<W: Write>(session: &mut SynthSession<W>, bytes: u64) -> SynthBlock {
    let mut data = Vec::with_capacity(bytes as usize);
    session.pools.base64(&mut session.rng, bytes as usize, &mut data);
    let path = quoted(&fill(&mut session.rng, "/home/dev/projects/orchard/$n/$n.png"));
    let content = object(&[
        b"[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"",
        &data,
        b"\",\"media_type\":\"image/png\"}}]",
    ]);
    let kept = object(&[
        b"{\"type\":\"image\",\"file\":{\"base64\":\"",
        &data,
        format!("\",\"type\":\"image/png\",\"originalSize\":{}}}}}", bytes * 3 / 4).as_bytes(),
    ]);
    let tokens = session.rng.range(800, 1_600);
    let outcome = ToolOutput {
        content,
        kept,
        error: false,
        units: 0,
        tokens,
    };
    call_block(session, "Read", format!("{{\"file_path\":{path}}}").as_bytes(), outcome)
}

/// Returns a call of a random tool, with the frequencies of real sessions. `limit` bounds the size of its lines.
pub fn any_tool<W: Write>(session: &mut SynthSession<W>, files: &mut Vec<ProjectFile>, limit: u64) -> SynthBlock {
    let most_lines = (limit / (AVERAGE_LINE + 8)).max(4);
    if files.len() < 3 || session.rng.permille(120) {
        if files.len() >= 24 {
            files.remove(0);
        }
        files.push(ProjectFile::new_for_bulk(
            &mut session.rng,
            &session.identity.cwd,
            most_lines,
        ));
    }
    let at = session.rng.below(files.len() as u64) as usize;
    let output = session.rng.size(OUTPUT_CHARS).min(limit / 4).max(20);
    match session.rng.below(1000) {
        0..=219 => {
            let units = session.rng.size(READ_CHARS).min(limit / 3);
            let first = if session.rng.permille(300) {
                session.rng.range(1, files[at].lines)
            } else {
                1
            };
            read(session, &files[at], first, (units / AVERAGE_LINE).max(3))
        }
        220..=584 => bulk_bash(session, output, limit),
        585..=784 => {
            let is_shown = session.rng.permille(350);
            edit(session, &mut files[at], 24, is_shown)
        }
        785..=804 => write(session, &files[at]),
        805..=904 => grep(session, output),
        905..=919 => fetch(session, output),
        920..=993 => todos(session),
        _ => {
            let bytes = session
                .rng
                .size(&[band(90, 20_000, 160_000), band(10, 300_000, 900_000)]);
            picture(session, bytes.min(limit / 3))
        }
    }
}

/// Returns the call that starts a sub-agent, with the agent's report and the progress records.
pub fn agent<W: Write>(
    session: &mut SynthSession<W>,
    agent_id: &str,
    prompt: &str,
    report: &SynthText,
    progress: Vec<(Vec<u8>, String)>,
) -> SynthBlock {
    let prompt = quoted(prompt);
    let content = object(&[b"[{\"type\":\"text\",\"text\":\"", &report.escaped, b"\"}]"]);
    let tokens = report.tokens(session.density()) + 25;
    let kept = object(&[
        format!("{{\"status\":\"completed\",\"prompt\":{prompt},\"agentId\":\"{agent_id}\",\"content\":").as_bytes(),
        &content,
        format!(
            ",\"totalDurationMs\":{},\"totalTokens\":{},\"totalToolUseCount\":{},\"usage\":{{\"input_tokens\":3,\
             \"cache_creation_input_tokens\":1200,\"cache_read_input_tokens\":31000,\"output_tokens\":240,\
             \"service_tier\":\"standard\"}}}}",
            session.rng.range(9_000, 90_000),
            session.rng.range(20_000, 90_000),
            session.rng.range(2, 20)
        )
        .as_bytes(),
    ]);
    let outcome = ToolOutput {
        content,
        kept,
        error: false,
        units: report.units,
        tokens,
    };
    let mut input = b"{\"subagent_type\":\"Explore\",\"description\":\"".to_vec();
    escape_into(&mut input, &fill(&mut session.rng, "Look for the $n"));
    input.extend_from_slice(format!("\",\"prompt\":{prompt}}}").as_bytes());
    let name = session.client.agent_tool();
    let mut block = call_block(session, name, &input, outcome);
    if let Some(call) = &mut block.call {
        call.progress = progress;
    }
    block
}
