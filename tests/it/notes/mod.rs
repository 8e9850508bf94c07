//! `backcast notes` and `replay --with-text`. Helpers: a session built record by record, and readers of what was written.

mod content;
mod files;
mod state;

use crate::fixture::Fixture;
use notes::template::NotesTemplate;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A session built record by record; each follows the one before.
struct TestSession {
    id: &'static str,
    cwd: &'static str,
    text: String,
    records: u32,
    window: u64,
}

impl TestSession {
    fn new(id: &'static str) -> TestSession {
        TestSession {
            id,
            cwd: "/home/ada/code/shop",
            text: String::new(),
            records: 0,
            window: 12_000,
        }
    }

    fn record(&mut self, kind: &str, more: Value) {
        let uuid = |at: u32| format!("00000000-0000-4000-8000-{at:012}");
        self.records += 1;
        let mut record = json!({
            "parentUuid": (self.records > 1).then(|| uuid(self.records - 1)), "isSidechain": false, "cwd": self.cwd,
            "sessionId": self.id, "version": "2.1.50", "type": kind, "uuid": uuid(self.records),
            "timestamp": format!("2026-03-04T10:{:02}:{:02}.000Z", self.records / 60, self.records % 60),
        });
        for (key, value) in more.as_object().expect("an object") {
            record[key] = value.clone();
        }
        self.text.push_str(&record.to_string());
        self.text.push('\n');
    }

    fn user(&mut self, text: &str) {
        self.record("user", json!({"message": {"role": "user", "content": text}}));
    }

    fn assistant(&mut self, content: Value) {
        self.window += 4_000;
        let usage = json!({"input_tokens": 10, "cache_read_input_tokens": self.window, "cache_creation_input_tokens": 0, "output_tokens": 200});
        let id = format!("msg_{}", self.records);
        self.record(
            "assistant",
            json!({"requestId": format!("req_{}", self.records), "message": {"id": id, "role": "assistant", "model": "claude-opus-4-7", "content": content, "usage": usage, "stop_reason": "end_turn"}}),
        );
    }

    fn says(&mut self, text: &str) {
        self.assistant(json!([{"type": "text", "text": text}]));
    }

    /// Adds a tool call with the text before it, and its result.
    fn calls(&mut self, said: &str, tool: &str, input: Value, result: &str, is_error: bool) {
        let id = format!("toolu_{}", self.records);
        self.assistant(
            json!([{"type": "text", "text": said}, {"type": "tool_use", "id": id, "name": tool, "input": input}]),
        );
        let result = json!([{"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": result}]);
        self.record("user", json!({"message": {"role": "user", "content": result}}));
    }
}

const SECRET: &str = concat!("ghp_", "16C7e42F292c6912E7710c838347Ae178B4a12");

/// A session with everything that notes are made of.
fn shop() -> TestSession {
    let mut session = TestSession::new("5e551011-0000-4000-8000-000000000001");
    session.user("Please add a discount to the cart total in src/cart.rs");
    session.calls(
        "I'll read the cart first.",
        "Read",
        json!({"file_path": "/home/ada/code/shop/src/cart.rs"}),
        "fn cart_total() {}",
        false,
    );
    session.calls(
        "Now let me apply the discount in the total.",
        "Edit",
        json!({"file_path": "/home/ada/code/shop/src/cart.rs", "old_string": "fn cart_total() {}", "new_string": "fn cart_total(discount_rate: u8) {}"}),
        "The file has been updated.",
        false,
    );
    session.calls(
        "Let me run the tests.",
        "Bash",
        json!({"command": "cargo test 2>&1 | tail -5", "description": "Run tests"}),
        "Exit code 101\nerror[E0061]: this function takes 1 argument",
        true,
    );
    session.calls(
        "The test fails because `apply_coupon` still calls it without a rate.",
        "Edit",
        json!({"file_path": "/home/ada/code/shop/src/coupon.rs", "old_string": "cart_total()", "new_string": "cart_total(default_rate())"}),
        "The file has been updated.",
        false,
    );
    session.calls(
        "Let me run the tests.",
        "Bash",
        json!({"command": "cargo test", "description": "Run tests"}),
        "test result: ok. 12 passed; 0 failed",
        false,
    );
    session.calls(
        "I'll keep a list.",
        "TodoWrite",
        json!({"todos": [{"content": "Discount in the total", "status": "completed"}, {"content": "Show the discount on the receipt", "status": "in_progress"}]}),
        "ok",
        false,
    );
    session.says("The discount is in the total. Should I round it down or to the nearest cent?");
    session.user("no, don't round at all. Never use floats for money.\n<system-reminder>be brief</system-reminder>");
    session.user(&format!("my token is {SECRET}, do not lose it"));
    session.says("Understood: amounts stay integers. Next, I'll show the discount on the receipt.");
    session
}

/// Returns all files below a folder with their text, sorted by path.
pub fn notes_of(fixture: &Fixture, folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![fixture.path(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).expect("text");
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

fn find(found: &[(PathBuf, String)], name: &str) -> String {
    let is_it = |path: &Path| path.ends_with(name);
    found
        .iter()
        .find(|(path, _)| is_it(path))
        .map(|(_, text)| text.clone())
        .unwrap_or_else(|| panic!("no {name}"))
}

fn section<'t>(template: &'t NotesTemplate, heading: &str) -> &'t str {
    let is_it = |heading_line: &str| heading_line.trim_start_matches("# ") == heading;
    &template
        .sections
        .iter()
        .find(|section| is_it(&section.heading))
        .expect("the section")
        .body
}

/// The files of the only session, by name below its folder.
fn session_file(fixture: &Fixture, name: &str) -> PathBuf {
    let mut found = notes_of(fixture, "notes").into_iter();
    let found = found.find(|(path, _)| path.ends_with("session-memory/summary.md"));
    let notes = found.expect("notes").0;
    notes.ancestors().nth(2).expect("a session").join(name)
}
