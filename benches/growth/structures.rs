//! Logs and directories of which one structure has any size.

use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A structure that can be of any size, and a run over it.
pub struct Structure {
    pub name: &'static str,
    /// The smallest size that is measured; it is doubled four times.
    pub size: usize,
    /// Writes it into a folder.
    pub write: fn(&Path, usize) -> io::Result<()>,
    pub args: &'static [&'static str],
}

pub const STRUCTURES: &[Structure] = &[
    Structure {
        name: "sessions in one log",
        size: 2048,
        write: sessions_in_one_log,
        args: &["stats", "log.jsonl", "--no-cache", "--quiet", "--threads=1"],
    },
    Structure {
        name: "sessions in one log, audited",
        size: 512,
        write: sessions_in_one_log,
        args: &["audit", "log.jsonl", "--no-cache", "--quiet", "--threads=1"],
    },
    Structure {
        name: "logs, as JSON",
        size: 128,
        write: logs,
        args: &["stats", "logs", "--no-cache", "--quiet", "--threads=1", "-f=json"],
    },
    Structure {
        name: "malformed lines",
        size: 4096,
        write: malformed_lines,
        args: &["stats", "log.jsonl", "--no-cache", "--problems", "--threads=1"],
    },
    Structure {
        name: "boundaries of a session, audited",
        size: 1024,
        write: boundaries,
        args: &["audit", "log.jsonl", "--no-cache", "--quiet", "--threads=1"],
    },
    Structure {
        name: "sub-agents on a page",
        size: 512,
        write: sub_agents,
        args: &[
            "report",
            "log.jsonl",
            "--no-cache",
            "--quiet",
            "--threads=1",
            "-o=page.html",
        ],
    },
    Structure {
        name: "rounds with text",
        size: 1024,
        write: rounds,
        args: &[
            "replay",
            "log.jsonl",
            "--with-text",
            "--no-cache",
            "--quiet",
            "--threads=1",
            "--set=window.tokens=200000",
        ],
    },
    Structure {
        name: "rule sentences in one message",
        size: 512,
        write: rule_sentences,
        args: &[
            "memory",
            "extract",
            "log.jsonl",
            "--dry-run",
            "--format=jsonl",
            "--quiet",
        ],
    },
    Structure {
        name: "distinct memories, written",
        size: 512,
        write: memories,
        args: &["memory", "extract", "log.jsonl", "--dir=memories", "--quiet"],
    },
    Structure {
        name: "memory files, checked",
        size: 256,
        write: memory_files,
        args: &["memory", "check", "--dir=memories", "--quiet"],
    },
    Structure {
        name: "memory files, consolidated",
        size: 256,
        write: memory_files,
        args: &["memory", "dream", "--dir=memories", "--force", "--dry-run"],
    },
    Structure {
        name: "memory files, recalled",
        size: 256,
        write: memory_files,
        args: &["memory", "recall", "check the module before", "--dir=memories"],
    },
    Structure {
        name: "sub-agents, summed up",
        size: 1024,
        write: sub_agents,
        args: &["stats", "log.jsonl", "--no-cache", "--quiet", "--threads=1", "-f=json"],
    },
    Structure {
        name: "sub-agents without ids",
        size: 1024,
        write: nameless_sub_agents,
        args: &[
            "report",
            "log.jsonl",
            "--no-cache",
            "--quiet",
            "--threads=1",
            "-o=page.html",
        ],
    },
    Structure {
        name: "rewound branches",
        size: 512,
        write: rewound_branches,
        args: &["replay", "log.jsonl", "--no-cache", "--quiet", "--threads=1"],
    },
    Structure {
        name: "tool calls of one message",
        size: 512,
        write: tool_calls,
        args: &["replay", "log.jsonl", "--no-cache", "--quiet", "--threads=1"],
    },
    Structure {
        name: "tool calls of one message, noted",
        size: 128,
        write: tool_calls,
        args: &[
            "notes",
            "log.jsonl",
            "--no-cache",
            "--quiet",
            "--threads=1",
            "--out=notes",
        ],
    },
    Structure {
        name: "rounds, noted",
        size: 512,
        write: rounds,
        args: &[
            "notes",
            "log.jsonl",
            "--no-cache",
            "--quiet",
            "--threads=1",
            "--out=notes",
        ],
    },
    Structure {
        name: "rounds, searched",
        size: 1024,
        write: rounds,
        args: &["search", "please look", "log.jsonl", "--quiet", "--threads=1"],
    },
    Structure {
        name: "days and projects, on a page",
        size: 64,
        write: days,
        args: &["report", "logs", "--no-cache", "--quiet", "--threads=1", "-o=page.html"],
    },
    Structure {
        name: "days and projects, validated",
        size: 128,
        write: days,
        args: &["validate", "logs", "--no-cache", "--quiet", "--threads=1"],
    },
    Structure {
        name: "titles by their last message",
        size: 1024,
        write: leaf_titles,
        args: &["stats", "log.jsonl", "--no-cache", "--quiet", "--threads=1"],
    },
    Structure {
        name: "changes of the model, audited",
        size: 512,
        write: model_changes,
        args: &["audit", "log.jsonl", "--no-cache", "--quiet", "--threads=1"],
    },
];

/// Writes records of a log one after the other.
struct LogWriter {
    out: BufWriter<File>,
    next: usize,
}

impl LogWriter {
    fn create(path: &Path) -> io::Result<LogWriter> {
        Ok(LogWriter {
            out: BufWriter::new(File::create(path)?),
            next: 0,
        })
    }

    /// Writes a record that follows another, with more fields. Returns its id.
    fn record(&mut self, session: &str, parent: Option<&str>, mut fields: Value) -> io::Result<String> {
        let at = self.next;
        self.next += 1;
        let id = format!("00000000-0000-4000-8000-{at:012x}");
        let (minute, hour, day) = (at % 60, at / 60 % 24, 1 + at / 1440 % 28);
        let common = json!({
            "parentUuid": parent, "isSidechain": false, "cwd": "/w", "sessionId": session, "version": "2.1.50", "uuid": id,
            "timestamp": format!("2026-03-{day:02}T{hour:02}:{minute:02}:00.000Z"),
        });
        if let (Value::Object(fields), Value::Object(common)) = (&mut fields, common) {
            for (key, value) in common {
                fields.entry(key).or_insert(value);
            }
        }
        writeln!(self.out, "{fields}")?;
        Ok(id)
    }

    fn prompt(&mut self, session: &str, parent: Option<&str>, text: &str) -> io::Result<String> {
        let message = json!({"role": "user", "content": text});
        self.record(session, parent, json!({"type": "user", "message": message}))
    }

    fn answer(&mut self, session: &str, parent: &str, input: usize) -> io::Result<String> {
        let message = response(&format!("msg_{}", self.next), input);
        self.record(session, Some(parent), json!({"type": "assistant", "message": message}))
    }
}

fn response(id: &str, input: usize) -> Value {
    json!({
        "id": id, "role": "assistant", "model": "claude-opus-4-5", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "It is done."}],
        "usage": {"input_tokens": input, "output_tokens": 5},
    })
}

fn sessions_in_one_log(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    for number in 0..size {
        let session = format!("session-{number}");
        let prompt = log.prompt(&session, None, "please do it")?;
        log.answer(&session, &prompt, 1_000)?;
    }
    Ok(())
}

fn logs(folder: &Path, size: usize) -> io::Result<()> {
    fs::create_dir(folder.join("logs"))?;
    for number in 0..size {
        let mut log = LogWriter::create(&folder.join(format!("logs/{number}.jsonl")))?;
        log.next = 2 * number;
        let session = format!("session-{number}");
        let prompt = log.prompt(&session, None, "please do it")?;
        log.answer(&session, &prompt, 1_000)?;
    }
    Ok(())
}

fn malformed_lines(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    log.prompt("S", None, "please do it")?;
    log.out.write_all(&b"{\"type\":\"user\",\n".repeat(size))
}

fn boundaries(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    let mut before = None;
    for _ in 0..size {
        let prompt = log.prompt("S", before.as_deref(), "go on")?;
        let answer = log.answer("S", &prompt, 150_000)?;
        let metadata = json!({"trigger": "auto", "preTokens": 155_000});
        let boundary = json!({
            "type": "system", "subtype": "compact_boundary", "logicalParentUuid": answer, "compactMetadata": metadata,
        });
        let boundary = log.record("S", None, boundary)?;
        let message = json!({"role": "user", "content": "what came before"});
        let summary = json!({"type": "user", "isCompactSummary": true, "message": message});
        before = Some(log.record("S", Some(&boundary), summary)?);
    }
    Ok(())
}

fn sub_agents(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    let prompt = log.prompt("S", None, "go")?;
    log.answer("S", &prompt, 1_000)?;
    for number in 0..size {
        let agent = format!("a{number:07x}");
        let own = |kind: &str, message: Value| json!({"type": kind, "isSidechain": true, "agentId": agent, "message": message});
        let prompt = log.record("S", None, own("user", json!({"role": "user", "content": "go"})))?;
        let answer = response(&format!("msg_{}", log.next), 10);
        log.record("S", Some(&prompt), own("assistant", answer))?;
    }
    Ok(())
}

/// Sub-agents of old clients, which have no id: each is a chain of its own.
fn nameless_sub_agents(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    let prompt = log.prompt("S", None, "go")?;
    log.answer("S", &prompt, 1_000)?;
    for _ in 0..size {
        let own = |kind: &str, message: Value| json!({"type": kind, "isSidechain": true, "message": message});
        let prompt = log.record("S", None, own("user", json!({"role": "user", "content": "go"})))?;
        let answer = response(&format!("msg_{}", log.next), 10);
        log.record("S", Some(&prompt), own("assistant", answer))?;
    }
    Ok(())
}

/// The user goes back to the first answer again and again.
fn rewound_branches(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    let prompt = log.prompt("S", None, "please do it")?;
    let first = log.answer("S", &prompt, 1_000)?;
    for _ in 0..size {
        let prompt = log.prompt("S", Some(&first), "please do it otherwise")?;
        log.answer("S", &prompt, 2_000)?;
    }
    Ok(())
}

/// One response with very many parallel calls, and one message with all results.
fn tool_calls(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    let prompt = log.prompt("S", None, "please look at everything")?;
    let mut message = response("msg_calls", 1_000);
    let call = |number: usize| {
        let input = json!({"file_path": format!("/w/file{number}.rs")});
        json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": "Read", "input": input})
    };
    message["content"] = (0..size).map(call).collect();
    let answer = log.record("S", Some(&prompt), json!({"type": "assistant", "message": message}))?;
    let result = |number: usize| {
        let content = format!("     1\tline {number}");
        json!({"type": "tool_result", "tool_use_id": format!("toolu_{number}"), "content": content})
    };
    let content = (0..size).map(result).collect::<Value>();
    let results = json!({"type": "user", "message": {"role": "user", "content": content}});
    let results = log.record("S", Some(&answer), results)?;
    log.answer("S", &results, 50_000).map(drop)
}

/// Every session has a day and a project of its own.
fn days(folder: &Path, size: usize) -> io::Result<()> {
    fs::create_dir(folder.join("logs"))?;
    for number in 0..size {
        let mut log = LogWriter::create(&folder.join(format!("logs/{number}.jsonl")))?;
        log.next = 2 * number;
        let session = format!("session-{number}");
        let time = format!(
            "20{:02}-{:02}-{:02}T12:00:00.000Z",
            number / 336 % 90,
            1 + number / 28 % 12,
            1 + number % 28
        );
        let common = |kind: &str, message: Value| json!({"type": kind, "message": message, "timestamp": time, "cwd": format!("/work/project{number}")});
        let prompt = log.record(&session, None, common("user", json!({"role": "user", "content": "go"})))?;
        let answer = response(&format!("msg_{}", log.next), 1_000);
        log.record(&session, Some(&prompt), common("assistant", answer))?;
    }
    Ok(())
}

/// Titles that old clients wrote into other logs name a conversation by its last message.
fn leaf_titles(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    for number in 0..size {
        let session = format!("session-{number}");
        let prompt = log.prompt(&session, None, "please do it")?;
        let answer = log.answer(&session, &prompt, 1_000)?;
        let title = json!({"type": "summary", "summary": format!("Work {number}"), "leafUuid": answer});
        writeln!(log.out, "{title}")?;
    }
    Ok(())
}

/// The user changes the model before every call.
fn model_changes(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    let mut before = None;
    for _ in 0..size {
        let text = "<local-command-stdout>Set model to opus (claude-opus-4-5)</local-command-stdout>";
        let answer = log.prompt("S", before.as_deref(), text)?;
        let prompt = log.prompt("S", Some(&answer), "please go on")?;
        before = Some(log.answer("S", &prompt, 100_000)?);
    }
    Ok(())
}

/// The window grows without end, so a replay compacts again and again.
fn rounds(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    let mut before = None;
    for number in 0..size {
        let text = format!("please look at file{}.rs", number % 50);
        let prompt = log.prompt("S", before.as_deref(), &text)?;
        before = Some(log.answer("S", &prompt, 20_000 + 4_000 * number)?);
    }
    Ok(())
}

/// Returns a rule that shares hardly a word with others.
fn rule(number: usize) -> String {
    let word = |salt: usize| {
        let mut state = (number * 8 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        let mut letter = |letters: &[u8]| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            char::from(letters[(state >> 33) % letters.len()])
        };
        (0..3)
            .flat_map(|_| [letter(b"bcdfghklmnprtvz"), letter(b"aeiou")])
            .collect::<String>()
    };
    let [one, two, three, four] = [0, 1, 2, 3].map(word);
    format!("Always run the {one} {two} check before you touch the {three} {four} module.")
}

fn rule_sentences(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    let text = (0..size).map(rule).collect::<Vec<_>>().join(" ");
    let prompt = log.prompt("S", None, &text)?;
    log.answer("S", &prompt, 1_000).map(drop)
}

fn memories(folder: &Path, size: usize) -> io::Result<()> {
    let mut log = LogWriter::create(&folder.join("log.jsonl"))?;
    for number in 0..size {
        log.prompt(&format!("session-{}", number / 20), None, &rule(number))?;
    }
    Ok(())
}

fn memory_files(folder: &Path, size: usize) -> io::Result<()> {
    let memories = folder.join("memories");
    fs::create_dir(&memories)?;
    let mut index = String::new();
    for number in 0..size {
        let rule = rule(number);
        let text = format!("---\nname: Rule {number}\ndescription: {rule}\ntype: feedback\n---\n\n{rule}\n");
        fs::write(memories.join(format!("feedback_{number}.md")), text)?;
        index.push_str(&format!("- [Rule {number}](feedback_{number}.md)\n"));
    }
    fs::write(memories.join("MEMORY.md"), index)
}
