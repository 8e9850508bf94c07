//! The checker of false statements in notes (`examples/notescheck`), on a made-up session and seeded statements.

#[path = "../../examples/notescheck/claims.rs"]
mod claims;
#[path = "../../examples/notescheck/facts.rs"]
mod facts;

use claims::{CLAIM_KINDS, tally_claims};
use facts::SessionFacts;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Statements, one a line: `false KIND` or `true KIND`, a tab, the line of the notes.
const SEEDED: &str = include_str!("notescheck.txt");

const REFUSED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file).";

/// Builds the records of a session.
#[derive(Default)]
struct Records(Vec<Value>);

impl Records {
    fn user(&mut self, text: &str) {
        self.0.push(json!({"type": "user", "message": {"content": text}}));
    }

    fn say(&mut self, text: &str) {
        self.0
            .push(json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}));
    }

    fn call(&mut self, tool: &str, input: Value, result: &str, is_error: bool) {
        let id = format!("toolu_{}", self.0.len());
        let call = json!({"type": "tool_use", "id": id, "name": tool, "input": input});
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": result, "is_error": is_error});
        self.0
            .push(json!({"type": "assistant", "message": {"content": [call]}}));
        self.0.push(json!({"type": "user", "message": {"content": [result]}}));
    }

    fn bash(&mut self, command: &str, result: &str, is_error: bool) {
        self.call("Bash", json!({"command": command}), result, is_error);
    }

    fn edit(&mut self, path: &str) {
        self.call("Edit", json!({"file_path": format!("/w/{path}")}), "updated", false);
    }
}

/// Starts two commands and a sub-agent in the background. The first command ends, and so does the sub-agent.
fn start_tasks(log: &mut Records) {
    log.bash("npm run preview", "Command running in background with ID: b11.", false);
    log.bash("npm run watch", "Command running in background with ID: b12.", false);
    log.call(
        "Agent",
        json!({"description": "Review the coupons"}),
        "Async agent launched successfully.\nagentId: a13 (internal ID)",
        false,
    );
    for (id, what) in [("b11", "Background command"), ("a13", "Agent")] {
        log.user(&format!(
            "<task-notification>\n<task-id>{id}</task-id>\n<status>completed</status>\n<summary>{what} completed</summary>\n</task-notification>"
        ));
    }
}

fn session() -> Vec<Value> {
    let mut log = Records::default();
    log.user("Add a discount to the cart and test it.");
    for command in [
        "cargo test -p cart",
        "cargo test -p receipt",
        "npm run lint",
        "go test ./a",
        "pytest tests/test_rounding.py -x",
        "cd /w && make check 2>&1 | tee log",
    ] {
        log.bash(command, "Exit code 1\nerror: it failed", true);
    }
    log.bash("grep -rn coupon src", "Exit code 1", true);
    log.bash(
        "rm -rf build",
        &format!("{REFUSED} To tell you how to proceed, the user said:\nnever delete build"),
        true,
    );
    log.bash(
        "git push --force origin main",
        &format!("{REFUSED} STOP what you are doing."),
        true,
    );
    for command in [
        "cargo test -p cart --quiet",
        "npm run lint",
        "go test ./b",
        "pytest",
        "make clean",
        "cd /w && make check",
    ] {
        log.bash(command, "12 passed", false);
    }
    let task = |text: &str, status: &str| json!({"content": text, "status": status});
    let todos = [task("Sketch the coupon table", "pending")];
    log.call("TodoWrite", json!({"todos": todos}), "ok", false);
    let todos = [
        task("Add the discount field", "completed"),
        task("Test the rounding", "completed"),
        task("Show the discount on the receipt", "in_progress"),
        task("Document the coupons", "pending"),
    ];
    log.call("TodoWrite", json!({"todos": todos}), "ok", false);
    log.call(
        "AskUserQuestion",
        json!({"questions": [{"question": "Which rounding?"}]}),
        "User has answered your questions: \"Which rounding?\"=\"Half to even\". You can now continue.",
        false,
    );
    log.call(
        "AskUserQuestion",
        json!({"questions": [{"question": "Which currency?"}]}),
        REFUSED,
        true,
    );
    log.call(
        "ExitPlanMode",
        json!({"plan": "# Rewrite the cart in layers\n\nAll of it."}),
        REFUSED,
        true,
    );
    log.call(
        "ExitPlanMode",
        json!({"plan": "# Round once at the end"}),
        "User has approved your plan.",
        false,
    );
    ["src/cart.rs", "src/coupon.rs", "README.md"]
        .iter()
        .for_each(|path| log.edit(path));
    log.bash(
        "git add src/cart.rs && git commit -m 'Add a discount'",
        "[main 1a2b3c4] Add a discount\n 1 file changed",
        false,
    );
    log.bash("git add -A", "", false);
    log.bash(
        "git commit -m 'Describe coupons'",
        "[main 5d6e7f8] Describe coupons",
        false,
    );
    log.bash(
        "git commit -m 'Print the receipt twice'",
        "Exit code 1\nhusky - pre-commit script failed (code 1)",
        true,
    );
    start_tasks(&mut log);
    log.edit("src/receipts.rs");
    log.bash("git mv src/receipts.rs src/receipt.rs", "", false);
    log.user(
        "<task-notification>\n<task-id>b7</task-id> The nightly build should not be retried\n</task-notification>",
    );
    log.user("no, don't round twice");
    log.0
        .push(json!({"type": "queue-operation", "operation": "enqueue", "content": "use the coupon table instead"}));
    log.user("thanks, that looks great");
    log.say("The discount is in the cart; the receipt is not done yet.");
    log.0
}

#[test]
fn at_least_nine_of_ten_seeded_false_statements_are_found_and_no_true_one() {
    let records = session();
    let facts = SessionFacts::read(records.iter());
    let (mut seeded, mut found, mut missed) = (BTreeMap::<String, usize>::new(), 0, Vec::new());
    for line in SEEDED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (label, statement) = line.split_once('\t').expect("a tab");
        let (truth, kind) = label.split_once(' ').expect("two words");
        let tally = tally_claims(statement, &facts);
        let kinds = tally.counts.keys().map(|kind| format!("{kind:?}").to_lowercase());
        assert_eq!(kinds.collect::<Vec<_>>(), [kind], "{statement}");
        match truth {
            "true" => assert!(tally.false_claims.is_empty(), "{statement}: {:?}", tally.false_claims),
            _ => {
                *seeded.entry(kind.to_owned()).or_default() += 1;
                match tally.false_claims.is_empty() {
                    false => found += 1,
                    true => missed.push(statement),
                }
            }
        }
    }
    assert_eq!(seeded.len(), CLAIM_KINDS.len());
    let count = seeded.values().sum::<usize>();
    assert_eq!(count, 60);
    assert!(found * 10 >= count * 9, "{found} of {count}; missed: {missed:#?}");
}
