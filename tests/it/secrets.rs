//! Secrets and control characters of a log stay out of every output. The lists under `secrets/` were written by a person who
//! had not seen the module that masks.

use crate::fixture::{Fixture, files_below};
use language::secrets;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The lists of one author.
struct SecretLists {
    author: &'static str,
    phrasings: &'static str,
    tokens: &'static str,
    ids: &'static str,
    sentences: &'static str,
}

/// Reads one list of an author, if there is one.
macro_rules! list {
    ($author:literal) => {
        ""
    };
    ($author:literal $file:literal) => {
        include_str!(concat!("secrets/", $author, "/", $file))
    };
}

macro_rules! lists {
    ($author:literal: $($phrasings:literal)?, $($tokens:literal)?, $($ids:literal)?, $($sentences:literal)?) => {
        SecretLists {
            author: $author,
            phrasings: list!($author $($phrasings)?),
            tokens: list!($author $($tokens)?),
            ids: list!($author $($ids)?),
            sentences: list!($author $($sentences)?),
        }
    };
}

const LISTS: [SecretLists; 10] = [
    lists!("a": "phrasings.txt", "tokens.txt", , ),
    lists!("b": "phrasings.txt", , "ordinary-ids.txt", "ordinary-sentences.txt"),
    lists!("c": "phrasings.txt", "tokens.txt", "ordinary-ids.txt", "ordinary-sentences.txt"),
    lists!("d": "phrasings.txt", "tokens.txt", "ordinary-ids.txt", "ordinary-sentences.txt"),
    lists!("e": "phrasings.txt", , "ordinary-ids.txt", "ordinary-sentences.txt"),
    lists!("f": "phrasings.txt", , "ordinary-ids.txt", "ordinary-sentences.txt"),
    lists!("g": "phrasings.txt", , "ordinary-ids.txt", "ordinary-sentences.txt"),
    lists!("h": "phrasings.txt", "tokens.txt", "ordinary-ids.txt", "ordinary-sentences.txt"),
    lists!("i": "phrasings.txt", "tokens.txt", "ordinary-ids.txt", "ordinary-sentences.txt"),
    lists!("j": "phrasings.txt", "tokens.txt", "ordinary-ids.txt", "ordinary-sentences.txt"),
];

/// Returns all pairs of one kind of list.
fn all_pairs(list: fn(&SecretLists) -> &'static str) -> Vec<(String, String)> {
    LISTS.iter().flat_map(|lists| pairs(list(lists))).collect()
}

/// Returns the pairs of a list: `value TAB text`, with `\n` for a line feed.
fn pairs(list: &'static str) -> Vec<(String, String)> {
    let lines = list.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(value, text)| (value.replace("\\n", "\n"), text.replace("\\n", "\n")))
        .collect()
}

/// Returns all secrets of one line, with the sentences they are in.
#[cfg(feature = "model")]
pub fn all_cases() -> Vec<(String, String)> {
    let tokens = all_pairs(|lists| lists.tokens).into_iter();
    let tokens = tokens.map(|(_, token)| (token.clone(), format!("the access token is {token}")));
    let said = all_pairs(|lists| lists.phrasings).into_iter();
    said.chain(tokens).filter(|(_, text)| !text.contains('\n')).collect()
}

/// Asserts that at most `percent` of the cases of a list failed.
fn assert_few(what: &str, tries: usize, failures: &[String], percent: usize) {
    assert!(tries >= 40, "{what}: {tries}");
    assert!(
        failures.len() * 100 <= tries * percent,
        "{what}: {} of {tries}\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn secrets_said_in_words_are_masked() {
    // Most texts of c to g say nothing that names a secret.
    for (author, percent) in [
        ("a", 1),
        ("b", 2),
        ("c", 15),
        ("d", 25),
        ("e", 15),
        ("f", 25),
        ("g", 25),
        ("h", 2),
        ("i", 2),
        ("j", 4),
    ] {
        let lists = LISTS.iter().find(|lists| lists.author == author).expect("lists");
        let cases = pairs(lists.phrasings);
        let shown = cases
            .iter()
            .filter(|(value, sentence)| secrets::mask(sentence).contains(value));
        let shown = shown
            .map(|(value, sentence)| format!("{value}: {sentence}"))
            .collect::<Vec<_>>();
        assert_few(author, cases.len(), &shown, percent);
    }
}

#[test]
fn tokens_are_masked_where_they_are_called_one() {
    let cases = all_pairs(|lists| lists.tokens);
    for frame in [
        "the token is {} for now",
        "export SERVICE_TOKEN={}",
        "curl -H 'Authorization: Bearer {}' https://example.com",
    ] {
        let shown = cases
            .iter()
            .filter(|(_, token)| secrets::mask(&frame.replace("{}", token)).contains(token));
        let shown = shown
            .map(|(name, token)| format!("{name}: {token}"))
            .collect::<Vec<_>>();
        assert_few(frame, cases.len(), &shown, 2);
    }
}

#[test]
fn tokens_with_a_form_of_their_own_are_masked_without_a_word() {
    let cases = all_pairs(|lists| lists.tokens);
    let shown = cases
        .iter()
        .filter(|(_, token)| secrets::mask(&format!("here: {token} thanks")).contains(token));
    let shown = shown
        .map(|(name, token)| format!("{name}: {token}"))
        .collect::<Vec<_>>();
    // What remains is a plain hexadecimal number, a UUID, or too short: ids look the same.
    assert_few("tokens", cases.len(), &shown, 7);
}

#[test]
fn ordinary_ids_hashes_and_links_are_left_alone() {
    let cases = all_pairs(|lists| lists.ids);
    let hidden = cases.iter().filter(|(id, line)| !secrets::mask(line).contains(id));
    let hidden = hidden.map(|(_, line)| secrets::mask(line)).collect::<Vec<_>>();
    assert_few("ids", cases.len(), &hidden, 2);
}

#[test]
fn ordinary_sentences_about_secrets_are_left_alone() {
    let lines = LISTS.iter().flat_map(|lists| lists.sentences.lines());
    let lines = lines.map(|line| line.replace("\\n", "\n")).collect::<Vec<_>>();
    let hidden = lines.iter().filter(|line| !secrets::find(line).is_empty());
    let hidden = hidden.map(|line| secrets::mask(line)).collect::<Vec<_>>();
    assert_few("sentences", lines.len(), &hidden, 3);
}

#[test]
fn tokens_in_names_of_files_and_branches_are_masked() {
    let cases = all_pairs(|lists| lists.tokens);
    let cases = cases
        .iter()
        .filter(|(_, token)| !token.contains(['/', '\n']))
        .collect::<Vec<_>>();
    for frame in [
        "/home/bob/{}/notes.md",
        "/w/{}.md",
        "fix/{}",
        "backup-{}.sql",
        "C:\\keys\\{}.txt",
        "feature/{}-login",
    ] {
        let shown = cases
            .iter()
            .filter(|(_, token)| secrets::mask(&frame.replace("{}", token)).contains(token.as_str()));
        let shown = shown
            .map(|(name, token)| format!("{name}: {token}"))
            .collect::<Vec<_>>();
        assert_few(frame, cases.len(), &shown, 7);
    }
}

/// Where a log can hold a secret.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Placement {
    Prompt,
    ToolInput,
    ToolResult,
    AssistantText,
    RefusedCall,
    Names,
    Title,
}

const PLACEMENTS: [Placement; 7] = [
    Placement::Prompt,
    Placement::ToolInput,
    Placement::ToolResult,
    Placement::AssistantText,
    Placement::RefusedCall,
    Placement::Names,
    Placement::Title,
];

/// Returns the records of one session that holds a text in one place.
fn session_with(placement: Placement, at: usize, text: &str) -> String {
    let session = format!("{placement:?}-{at}").to_lowercase();
    let is_name = matches!(placement, Placement::Names);
    let name = |name: &str| {
        if is_name {
            format!("{name}-{}", text.replace(['/', ' '], "_"))
        } else {
            name.to_owned()
        }
    };
    let mut lines = Vec::new();
    let mut parent = Value::Null;
    let mut add = |kind: &str, message: Value| {
        let uuid = format!("{session}-{}", lines.len());
        let minute = lines.len() % 60;
        let record = json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": format!("/w/{}", name("folder")),
            "gitBranch": name("branch"), "sessionId": session, "version": "2.1.50", "type": kind, "message": message,
            "requestId": format!("req_{session}_{}", lines.len()), "uuid": uuid,
            "timestamp": format!("2026-03-04T10:{minute:02}:00.000Z"),
        });
        parent = json!(uuid);
        lines.push(record.to_string());
    };
    let usage = json!({"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 200});
    let says = |id: usize, content: Value| {
        json!({"id": format!("msg_{session}_{id}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": content, "stop_reason": "end_turn", "usage": usage})
    };
    let prompt = match placement {
        Placement::Prompt => format!("Always remember this for next time. {text}"),
        _ => "Never rewrite the history of shared branches, because others build on them.".to_owned(),
    };
    add("user", json!({"role": "user", "content": prompt}));
    let reply = match placement {
        Placement::AssistantText => format!("I noted it. {text}"),
        _ => "I will read the file.".to_owned(),
    };
    let path = format!("/w/{}/{}.md", name("folder"), name("file"));
    let call = match placement {
        Placement::ToolInput => {
            json!({"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": text}})
        }
        _ => json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": path}}),
    };
    add("assistant", says(1, json!([{"type": "text", "text": reply}, call])));
    let (result, is_error) = match placement {
        Placement::ToolResult => (text.to_owned(), false),
        Placement::RefusedCall => (
            format!(
                "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed, the user said:\n{text}"
            ),
            true,
        ),
        _ => ("one line".to_owned(), false),
    };
    add(
        "user",
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": result, "is_error": is_error}]}),
    );
    add(
        "assistant",
        says(2, json!([{"type": "text", "text": "Done with the importer."}])),
    );
    if matches!(placement, Placement::Title) {
        let title = json!({"type": "custom-title", "customTitle": text, "sessionId": session});
        let summary = json!({"type": "summary", "summary": text, "leafUuid": format!("{session}-3")});
        let named = json!({"type": "ai-title", "aiTitle": text, "sessionId": session});
        lines.extend([title.to_string(), summary.to_string(), named.to_string()]);
    }
    lines.join("\n") + "\n"
}

/// Runs every command that shows, keeps or sends something of a log. Returns all it wrote, by command.
fn outputs(fixture: &Fixture) -> Vec<(String, String)> {
    let commands: [&[&str]; 15] = [
        &["stats", "logs", "--problems"],
        &["stats", "logs", "-f", "json"],
        &["stats", "logs", "--by", "project", "-f", "csv"],
        &["stats", "logs", "--by", "branch"],
        &[
            "search",
            "importer history remember password token 密码",
            "logs",
            "--most",
            "2000",
        ],
        &[
            "search",
            "importer history remember password token 密码",
            "logs",
            "-f",
            "json",
            "--most",
            "2000",
        ],
        &["notes", "logs", "--out", "out/notes", "--summary", "--to-end"],
        &["memory", "extract", "logs", "--dry-run", "--rejected", "-f", "json"],
        &["memory", "extract", "logs", "--out", "out/memories"],
        &["replay", "logs", "--out", "out/replay", "--events", "--with-text"],
        &["report", "logs", "-o", "out/page.html"],
        &["audit", "logs", "-f", "json"],
        &["check", "logs", "--max-cost", "0.000001", "-f", "json"],
        &["replay", "logs", "--compare", "never", "-f", "csv"],
        &["stats", "logs", "--by", "tool", "-f", "jsonl"],
    ];
    let mut all = Vec::new();
    for args in commands {
        let run = fixture.run(args.iter().copied());
        assert!(matches!(run.status, Some(0 | 1)), "{args:?}: {}", run.stderr);
        all.push((
            args[..2.min(args.len())].join(" "),
            String::from_utf8_lossy(&run.stdout).into_owned(),
        ));
        all.push((format!("{} (standard error)", args[0]), run.stderr));
    }
    let out = fixture.path("out");
    for path in files_below(&out) {
        let bytes = std::fs::read(out.join(&path)).expect("a file");
        all.push((
            path.display().to_string(),
            format!("{}\n{}", path.display(), String::from_utf8_lossy(&bytes)),
        ));
    }
    all
}

/// Returns the sentences of a placement with the value that must not be seen.
fn planted(placement: Placement) -> Vec<(String, String)> {
    let tokens = all_pairs(|lists| lists.tokens)
        .into_iter()
        .filter(|(_, token)| !token.contains('\n'));
    let tokens = tokens.map(|(_, token)| (token.clone(), format!("the access token is {token}")));
    match placement {
        // Names hold no sentences: forms alone.
        Placement::Names => {
            let is_formed = |(token, _): &(String, String)| {
                !token.contains('/')
                    && token.len() < 100
                    && secrets::mask(&format!("folder-{token}")) != format!("folder-{token}")
            };
            tokens
                .map(|(token, _)| (token.clone(), token))
                .filter(is_formed)
                .collect()
        }
        // Commands hold secrets in other ways than sentences, which the longer list has.
        Placement::ToolInput => pairs(LISTS[1].phrasings)
            .into_iter()
            .chain(tokens)
            .filter(|(_, text)| !text.contains('\n'))
            .collect(),
        _ => pairs(LISTS[0].phrasings)
            .into_iter()
            .filter(|(_, sentence)| !sentence.contains('\n'))
            .chain(tokens)
            .collect(),
    }
}

/// Returns whether a text shows a value. Digits inside a longer number or hash are not a value of digits.
pub fn shows(text: &str, value: &str) -> bool {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    text.match_indices(value).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + value.len()..].chars().next();
        let is_inside = [before, after]
            .into_iter()
            .flatten()
            .any(|sign| sign.is_ascii_alphanumeric());
        !is_number || !is_inside
    })
}

#[test]
fn no_output_shows_a_secret_whatever_place_it_has_in_a_log() {
    println!("{:<16} {:>6} {:>7}", "placement", "tries", "shown");
    let mut leaks = Vec::new();
    for placement in PLACEMENTS {
        let fixture = Fixture::new();
        let cases = planted(placement);
        assert!(cases.len() >= 40, "{placement:?}: {}", cases.len());
        for (at, (_, text)) in cases.iter().enumerate() {
            fixture.write(&format!("logs/{at:03}.jsonl"), session_with(placement, at, text));
        }
        let outputs = outputs(&fixture);
        let mut shown = BTreeSet::new();
        for (value, _) in &cases {
            let escaped = serde_json::to_string(value).expect("JSON");
            let escaped = escaped.trim_matches('"');
            for (name, text) in &outputs {
                if shows(text, value) || shows(text, escaped) {
                    shown.insert(value.clone());
                    leaks.push(format!("{placement:?}: {value} in {name}"));
                }
            }
        }
        println!("{:<16} {:>6} {:>7}", format!("{placement:?}"), cases.len(), shown.len());
    }
    // No place lets through what the module masks in the sentence alone.
    let is_kept = |(value, sentence): &(String, String)| secrets::mask(sentence).contains(value.as_str());
    let kept = PLACEMENTS
        .into_iter()
        .flat_map(planted)
        .filter(is_kept)
        .map(|(value, _)| value)
        .collect::<BTreeSet<_>>();
    let values = leaks
        .iter()
        .filter_map(|leak| leak.split_once(": "))
        .filter_map(|(_, rest)| rest.split(" in ").next())
        .filter(|value| !kept.contains(*value))
        .collect::<BTreeSet<_>>();
    // Of the phrasings that mask to something, a few hide only a part of the value.
    assert!(values.is_empty(), "{values:?}\n{}", leaks.join("\n"));
}

#[test]
fn no_output_holds_a_control_character() {
    let hostile = "red\u{1b}[31m bell\u{7} nul\u{0} csi\u{9b}2J turned\u{202e}cba\u{2066} title\u{1b}]0;x\u{7} end";
    let fixture = Fixture::new();
    for (at, placement) in PLACEMENTS.into_iter().enumerate() {
        fixture.write(&format!("logs/{at}.jsonl"), session_with(placement, at, hostile));
    }
    for (name, text) in outputs(&fixture) {
        let found = text.chars().find(|c| language::visible::is_control(*c) && *c != '\r');
        assert_eq!(found, None, "{name}");
        for escaped in ["\\u001b", "\\u0007", "\\u0000", "\\u202e"] {
            assert!(!text.contains(escaped), "{name}: {escaped}");
        }
    }
    let run = fixture.run(["stats", "no\u{1b}[31msuch\u{202e}log"]);
    assert_ne!(run.status, Some(0));
    assert!(!run.stderr.contains(['\u{1b}', '\u{202e}']), "{:?}", run.stderr);
    let run = fixture.run(["stats", "--top", "\u{1b}[31m"]);
    assert_eq!(run.status, Some(2));
    assert!(!run.stderr.contains('\u{1b}'), "{:?}", run.stderr);
}
