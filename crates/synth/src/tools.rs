//! Tool calls of a bulk session: inputs, results, and the second copy in `toolUseResult` that is often the larger one.
//! Sits between `drive`, which decides that a tool is called, and `session`, which writes the lines.

use crate::json::{api_id, escape_into, quoted};
use crate::rng::{Rng, SizeBand};
use crate::session::{SynthBlock, SynthCall, SynthSession, ToolOutput, string_value};
use crate::words::{CODE, LinePools, PoolLine, SynthText, TextFlavor, fill, prose_flavor};
use std::io::Write;

/// A file of the imaginary project. Its text follows from its seed, so that reading it twice gives the same bytes.
#[derive(Clone)]
pub struct ProjectFile {
    pub path: String,
    tongue: TextFlavor,
    seed: u64,
    lines: u64,
    /// How many lines were edited so far.
    edits: u64,
    /// Whether some of its comments have signs outside ASCII.
    has_remarks: bool,
}

/// Characters of what commands and searches print.
const OUTPUT_CHARS: &[SizeBand] = &[
    SizeBand {
        parts: 520,
        low: 20,
        high: 460,
    },
    SizeBand {
        parts: 300,
        low: 460,
        high: 1_700,
    },
    SizeBand {
        parts: 130,
        low: 1_700,
        high: 5_000,
    },
    SizeBand {
        parts: 45,
        low: 5_000,
        high: 14_000,
    },
    SizeBand {
        parts: 5,
        low: 14_000,
        high: 30_000,
    },
];

/// Characters of what is read of a file at once; the client cuts what the model sees, so the tail ends at 50,000.
const READ_CHARS: &[SizeBand] = &[
    SizeBand {
        parts: 500,
        low: 150,
        high: 2_500,
    },
    SizeBand {
        parts: 300,
        low: 2_500,
        high: 7_000,
    },
    SizeBand {
        parts: 140,
        low: 7_000,
        high: 18_000,
    },
    SizeBand {
        parts: 50,
        low: 18_000,
        high: 34_000,
    },
    SizeBand {
        parts: 10,
        low: 34_000,
        high: 50_000,
    },
];

/// Lines of project files.
const FILE_LINES: &[SizeBand] = &[
    SizeBand {
        parts: 540,
        low: 20,
        high: 120,
    },
    SizeBand {
        parts: 370,
        low: 120,
        high: 350,
    },
    SizeBand {
        parts: 80,
        low: 350,
        high: 1_200,
    },
    SizeBand {
        parts: 9,
        low: 1_400,
        high: 4_000,
    },
    SizeBand {
        parts: 1,
        low: 12_000,
        high: 36_000,
    },
];

/// Lines of the files that a bulk session works on: larger, because it comes back to them.
const BULK_FILE_LINES: &[SizeBand] = &[
    SizeBand {
        parts: 250,
        low: 20,
        high: 175,
    },
    SizeBand {
        parts: 400,
        low: 175,
        high: 530,
    },
    SizeBand {
        parts: 300,
        low: 530,
        high: 1_000,
    },
    SizeBand {
        parts: 45,
        low: 1_000,
        high: 1_700,
    },
    SizeBand {
        parts: 4,
        low: 1_700,
        high: 6_000,
    },
    SizeBand {
        parts: 1,
        low: 12_000,
        high: 36_000,
    },
];

/// Progress records of a command of a bundled case, and of a bulk session: a command that runs for long says so every second.
const FEW_TICKS: &[SizeBand] = &[SizeBand {
    parts: 1,
    low: 1,
    high: 6,
}];
const TICKS: &[SizeBand] = &[
    SizeBand {
        parts: 700,
        low: 1,
        high: 6,
    },
    SizeBand {
        parts: 240,
        low: 6,
        high: 22,
    },
    SizeBand {
        parts: 60,
        low: 22,
        high: 90,
    },
];

const READ_LIMIT: u64 = 2_000;
const AVERAGE_LINE: u64 = 38;

impl ProjectFile {
    pub fn new(rng: &mut Rng, root: &str) -> Self {
        let tongue = if rng.permille(60) {
            TextFlavor::Patterns
        } else {
            *rng.pick(&CODE)
        };
        let ending = match tongue {
            TextFlavor::Go => "go",
            TextFlavor::Python => "py",
            TextFlavor::Rust => "rs",
            TextFlavor::TypeScript => "ts",
            _ => "txt",
        };
        let path = format!("{root}/{}.{ending}", fill(rng, "$n/$v_$n"));
        Self {
            path,
            tongue,
            seed: rng.next(),
            lines: rng.size(FILE_LINES),
            edits: 0,
            has_remarks: false,
        }
    }

    /// A file that a bulk session works on, of at most `most` lines.
    fn new_for_bulk(rng: &mut Rng, root: &str, most: u64) -> Self {
        let file = Self::new(rng, root);
        Self {
            lines: rng.size(BULK_FILE_LINES).min(most),
            has_remarks: rng.permille(450),
            ..file
        }
    }

    /// The text of one line after all edits so far; edits go through the file from its top, again and again.
    fn line<'p>(&self, pools: &'p LinePools, number: u64) -> &'p PoolLine {
        let lines = self.lines.max(1);
        let rewritten = self.edits / lines + u64::from(number <= self.edits % lines);
        let is_remark = self.has_remarks && Rng::at(self.seed, number).is_multiple_of(12);
        let tongue = if is_remark { TextFlavor::Remarks } else { self.tongue };
        pools.line_at(tongue, self.seed.wrapping_add(rewritten), number)
    }

    /// Writes lines `first..first + count`, numbered as `Read` shows them and plain as `toolUseResult` keeps them.
    fn write(
        &self,
        pools: &LinePools,
        first: u64,
        count: u64,
        numbers: LineNumberStyle,
        shown: &mut SynthText,
        kept: &mut SynthText,
    ) {
        let last = (first + count).min(self.lines + 1);
        for number in first..last {
            let line = self.line(pools, number);
            if number > first {
                kept.newline();
            }
            kept.push_line(line);
            if numbers != LineNumberStyle::None {
                if number > first {
                    shown.newline();
                }
                shown.line_number(number, numbers == LineNumberStyle::Tab);
                shown.push_line(line);
            }
        }
    }

    /// The lines as they stand, without numbers.
    fn plain(&self, pools: &LinePools, first: u64, count: u64) -> SynthText {
        let mut text = SynthText::default();
        self.write(
            pools,
            first,
            count,
            LineNumberStyle::None,
            &mut SynthText::default(),
            &mut text,
        );
        text
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineNumberStyle {
    None,
    Arrow,
    Tab,
}

impl LineNumberStyle {
    /// As the client of a session shows them.
    fn for_session<W: Write>(session: &SynthSession<W>) -> LineNumberStyle {
        if session.client.has_late_envelope() {
            LineNumberStyle::Tab
        } else {
            LineNumberStyle::Arrow
        }
    }
}

fn object(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A content block that calls a tool.
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

/// A result whose text is `shown`, with `kept` as its second copy.
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

/// A thinking block; newer clients keep only its signature.
pub fn thinking_block<W: Write>(session: &mut SynthSession<W>, text: &SynthText) -> SynthBlock {
    let length = 300 + text.units as usize / if session.client.has_iterations() { 1 } else { 3 };
    signed_thinking(session, text, length)
}

/// The same with a signature as long as most are.
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

/// A call of `Read` on `file` from line `first`.
pub fn read<W: Write>(session: &mut SynthSession<W>, file: &ProjectFile, first: u64, count: u64) -> SynthBlock {
    let numbers = LineNumberStyle::for_session(session);
    let (mut shown, mut kept) = (SynthText::default(), SynthText::default());
    let count = count.min(READ_LIMIT);
    file.write(session.pools, first, count, numbers, &mut shown, &mut kept);
    let written = count.min((file.lines + 1).saturating_sub(first));
    let path = quoted(&file.path);
    let kept = object(&[
        format!("{{\"type\":\"text\",\"file\":{{\"filePath\":{path},\"content\":\"").as_bytes(),
        &kept.escaped,
        format!(
            "\",\"numLines\":{written},\"startLine\":{first},\"totalLines\":{}}}}}",
            file.lines
        )
        .as_bytes(),
    ]);
    let outcome = tool_output(session, &shown, kept);
    let input = if first > 1 {
        format!("{{\"file_path\":{path},\"offset\":{first},\"limit\":{count}}}")
    } else {
        format!("{{\"file_path\":{path}}}")
    };
    call_block(session, "Read", input.as_bytes(), outcome)
}

/// A call of `Edit` that changes at most `most` lines: the model sees one sentence, and sometimes what stands there now; the log
/// keeps the whole original file.
pub fn edit<W: Write>(session: &mut SynthSession<W>, file: &mut ProjectFile, most: u64, is_shown: bool) -> SynthBlock {
    let first = file.edits % file.lines.max(1) + 1;
    let count = session.rng.range(1, most).min(file.lines + 1 - first);
    let whole = file.plain(session.pools, 1, file.lines);
    let old = file.plain(session.pools, first, count);
    file.edits += count;
    let new = file.plain(session.pools, first, count);
    let path = quoted(&file.path);
    let pair = object(&[
        b"\"old_string\":\"",
        &old.escaped,
        b"\",\"new_string\":\"",
        &new.escaped,
        b"\"",
    ]);
    let input = object(&[
        b"{\"replace_all\":false,\"file_path\":",
        path.as_bytes(),
        b",",
        &pair,
        b"}",
    ]);
    let original = if session.client.keeps_original(whole.units) {
        string_value(&whole)
    } else {
        b"null".to_vec()
    };
    let kept = object(&[
        format!("{{\"filePath\":{path},\"oldString\":\"").as_bytes(),
        &old.escaped,
        b"\",\"newString\":\"",
        &new.escaped,
        b"\",\"originalFile\":",
        &original,
        format!(
            ",\"structuredPatch\":[{{\"oldStart\":{first},\"oldLines\":{count},\"newStart\":{first},\
             \"newLines\":{count},\"lines\":[\"-"
        )
        .as_bytes(),
        &old.escaped,
        b"\",\"+",
        &new.escaped,
        b"\"]}],\"userModified\":false,\"replaceAll\":false}",
    ]);
    let mut shown = SynthText::of(&format!("The file {} has been updated successfully.", file.path));
    if is_shown {
        shown.push(" These lines stand there now:\n");
        let numbers = LineNumberStyle::for_session(session);
        file.write(
            session.pools,
            first,
            count,
            numbers,
            &mut shown,
            &mut SynthText::default(),
        );
    }
    let outcome = tool_output(session, &shown, kept);
    call_block(session, "Edit", &input, outcome)
}

/// A call of `Write` that creates `file`.
pub fn write<W: Write>(session: &mut SynthSession<W>, file: &ProjectFile) -> SynthBlock {
    let whole = file.plain(session.pools, 1, file.lines.min(160));
    let path = quoted(&file.path);
    let input = object(&[
        format!("{{\"file_path\":{path},\"content\":\"").as_bytes(),
        &whole.escaped,
        b"\"}",
    ]);
    let kept = object(&[
        format!("{{\"type\":\"create\",\"filePath\":{path},\"content\":\"").as_bytes(),
        &whole.escaped,
        b"\",\"structuredPatch\":[]}",
    ]);
    let shown = SynthText::of(&format!("File created successfully at: {}", file.path));
    let outcome = tool_output(session, &shown, kept);
    call_block(session, "Write", &input, outcome)
}

/// A call of `Bash` that prints what has no sign outside ASCII.
pub fn bash<W: Write>(session: &mut SynthSession<W>, units: u64) -> SynthBlock {
    let tongue = if session.rng.permille(150) {
        TextFlavor::Patterns
    } else {
        TextFlavor::Console
    };
    command(session, &[(tongue, units)], FEW_TICKS, u64::MAX)
}

/// A call of `Bash` as bulk sessions have them: a sixth of the outputs, and more of the long ones, have signs outside ASCII.
fn bulk_bash<W: Write>(session: &mut SynthSession<W>, units: u64, limit: u64) -> SynthBlock {
    let parts = if session.rng.permille(if units > 2_400 { 420 } else { 150 }) {
        [(TextFlavor::Console, units * 4 / 5), (TextFlavor::Signs, units / 5)]
    } else {
        [(TextFlavor::Patterns, units / 8), (TextFlavor::Console, units * 7 / 8)]
    };
    // A small log has no room for a command that runs for long.
    command(session, &parts, TICKS, limit / 1_000 + 1)
}

/// A call of `Bash` that prints these parts, with progress records where the client writes them; some fail.
fn command<W: Write>(
    session: &mut SynthSession<W>,
    parts: &[(TextFlavor, u64)],
    ticks: &[SizeBand],
    most: u64,
) -> SynthBlock {
    let mut shown = SynthText::default();
    let failed = session.rng.permille(60);
    if failed {
        shown.push("Exit code 1\n");
    }
    for (at, (tongue, units)) in parts.iter().enumerate() {
        if at > 0 {
            shown.newline();
        }
        session.pools.write(&mut session.rng, *tongue, *units, &mut shown);
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
        let ticks = session.rng.size(ticks).min(most);
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

/// A call of `Grep` that lists files.
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

/// A call of `WebFetch` that returns prose in any script.
pub fn fetch<W: Write>(session: &mut SynthSession<W>, units: u64) -> SynthBlock {
    let tongue = prose_flavor(&mut session.rng);
    let mut shown = SynthText::default();
    session
        .pools
        .write(&mut session.rng, tongue, units.min(12_000), &mut shown);
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

/// A call of `TodoWrite`.
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

/// A call of `Read` on a picture: a large line, a small share of the window.
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

/// Any tool, as often as sessions use them. `limit` bounds the size of the line it makes.
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
            let bytes = session.rng.size(&[
                SizeBand {
                    parts: 90,
                    low: 20_000,
                    high: 160_000,
                },
                SizeBand {
                    parts: 10,
                    low: 300_000,
                    high: 900_000,
                },
            ]);
            picture(session, bytes.min(limit / 3))
        }
    }
}

/// The call that starts a sub-agent, with what the agent reported and the progress seen meanwhile.
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
