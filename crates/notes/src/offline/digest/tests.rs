//! Tests of the digest.

use super::*;
use serde_json::{Value, json};

fn user(text: &str) -> Message {
    Message::with_parts(MessageRole::User, vec![MessagePart::Text(text.into())])
}

fn says(text: &str) -> Message {
    Message::with_parts(MessageRole::Assistant, vec![MessagePart::Text(text.into())])
}

fn calls(digest: &mut Digest, tool: &str, input: Value, result: &str, is_error: bool) {
    let id = digest.steps.to_string();
    let call = MessagePart::Call {
        id: id.clone(),
        name: tool.into(),
        input,
    };
    digest.push(&Message::with_parts(MessageRole::Assistant, vec![call]));
    let said = result.split_once("the user said:\n").map(|(_, said)| said.to_owned());
    let answer = result.strip_prefix("User has answered your questions: \"Which one?\"=\"");
    let reply = |channel, text: String| {
        MessagePart::Reply(UserReply {
            channel,
            call: id.clone(),
            question: "Which one?".into(),
            text,
        })
    };
    let replies = [
        said.map(|said| reply(WordsChannel::Refusal, said)),
        answer.map(|answer| {
            reply(
                WordsChannel::Answer,
                answer.split('"').next().unwrap_or_default().to_owned(),
            )
        }),
    ];
    let result = MessagePart::Result {
        call: id.clone(),
        text: result.into(),
        is_error,
    };
    let parts = std::iter::once(result).chain(replies.into_iter().flatten());
    digest.push(&Message::with_parts(MessageRole::User, parts.collect()));
}

#[test]
fn a_failure_is_fixed_when_the_same_command_succeeds() {
    let mut digest = Digest::new("/w");
    digest.push(&user("make the tests pass"));
    let test = || json!({"command": "cargo test | tail -3"});
    calls(&mut digest, "Bash", test(), "running\nerror[E0061]: wrong\nmore", false);
    digest.push(&says("This fails because `parse_all` takes two arguments now."));
    let edit = json!({"file_path": "/w/a.rs", "old_string": "parse_all(x)", "new_string": "parse_all(x, y)"});
    calls(&mut digest, "Edit", edit, "ok", false);
    calls(
        &mut digest,
        "Bash",
        test(),
        "test result: ok. 3 passed; 0 failed",
        false,
    );
    assert_eq!((digest.commands.len(), digest.failures.len()), (1, 1));
    let failure = &digest.failures[0];
    assert!(failure.fixed_at.is_some() && failure.error.contains("E0061"));
    assert_eq!(failure.changed, [0]);
    assert!(failure.cause.contains("parse_all"));
    assert!(digest.commands[0].outcome.contains("3 passed"));
}

#[test]
fn refusals_answers_and_tasks_are_recorded() {
    let mut digest = Digest::new("");
    digest.push(&user("do it"));
    digest.push(&says("Should I use two columns?"));
    digest.push(&user("yes"));
    let refused = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nleave main.rs alone";
    calls(&mut digest, "Edit", json!({"file_path": "main.rs"}), refused, true);
    calls(
        &mut digest,
        "TaskCreate",
        json!({"subject": "Write it"}),
        "Task #1 created successfully: Write it",
        false,
    );
    calls(
        &mut digest,
        "TaskCreate",
        json!({"subject": "Check it"}),
        "Task #2 created successfully: Check it",
        false,
    );
    calls(
        &mut digest,
        "TaskUpdate",
        json!({"taskId": "1", "status": "completed"}),
        "Updated task #1 status",
        false,
    );
    let answer = r#"User has answered your questions: "Which one?"="The second". You can now continue."#;
    calls(&mut digest, "AskUserQuestion", json!({"questions": []}), answer, false);
    assert_eq!(
        digest.prompts[1].answered_question.as_deref(),
        Some("Should I use two columns?")
    );
    assert_eq!(
        (digest.prompts[2].text.as_str(), digest.prompts[2].channel),
        ("leave main.rs alone", PromptChannel::Refusal)
    );
    let open = digest.tasks.iter().filter(|task| task.state == TaskState::Open);
    assert_eq!(open.map(|task| task.text.as_str()).collect::<Vec<_>>(), ["Check it"]);
    assert_eq!(digest.choices[0].answer, "The second");
}

#[test]
fn what_was_typed_while_the_model_worked_belongs_to_that_work() {
    let mut digest = Digest::new("/w");
    digest.push(&user("fix the parser"));
    calls(&mut digest, "Bash", json!({"command": "cargo test"}), "ok", false);
    let mut queued = user("how does it read dates?");
    queued.channel = WordsChannel::Queued;
    digest.push(&queued);
    calls(&mut digest, "Bash", json!({"command": "cargo test"}), "ok", false);
    digest.push(&says("The parser is fixed."));
    assert_eq!((digest.prompts.len(), digest.turns.len()), (2, 1));
    assert_eq!(digest.prompts[1].turn, 0);
    assert!(digest.turns[0].is_answered && !digest.turns[0].is_retracted);
}

#[test]
fn a_remark_is_a_correction_if_the_model_grants_it() {
    let mut digest = Digest::new("/w");
    digest.push(&user("look at the login"));
    digest.push(&says(
        "The login fails because `CLIENT_ID` is not set in any of the files.",
    ));
    digest.push(&user("it is in the .env of the app"));
    digest.push(&says("You're right, it is set. The key is in the wrong form."));
    digest.push(&user("ok, but what if there is none?"));
    digest.push(&says("Then it stops with an error."));
    let corrections = digest.prompts.iter().map(|prompt| prompt.is_correction);
    assert_eq!(corrections.collect::<Vec<_>>(), [false, true, false]);
    assert!(digest.turns[0].is_retracted);
    assert!(digest.sentences.iter().all(|said| !said.text.contains("CLIENT_ID")));
}

#[test]
fn a_rule_counts_wherever_a_colon_stands() {
    let mut digest = Digest::new("/w");
    digest.push(&user(
        "Don't mock the database in tests. And one more thing: look at the parser.",
    ));
    assert_eq!(digest.rules.len(), 1);
}

#[test]
fn a_moved_file_keeps_its_history() {
    let mut digest = Digest::new("/w");
    calls(
        &mut digest,
        "Write",
        json!({"file_path": "/w/old.rs", "content": "fn thing() {}"}),
        "ok",
        false,
    );
    calls(
        &mut digest,
        "Bash",
        json!({"command": "git mv old.rs new.rs"}),
        "",
        false,
    );
    assert_eq!(digest.files[0].path, "/w/new.rs");
    assert!(digest.files[0].is_new);
}

fn call(digest: &mut Digest, id: &str, name: &str, input: serde_json::Value) {
    let part = MessagePart::Call {
        id: id.to_owned(),
        name: name.to_owned(),
        input,
    };
    digest.push(&Message::with_parts(MessageRole::Assistant, vec![part]));
}

#[test]
fn a_call_at_the_end_without_a_result_is_open() {
    let mut digest = Digest::new("/w");
    digest.push(&user("commit it"));
    calls(&mut digest, "Bash", json!({"command": "git add a.rs"}), "", false);
    call(&mut digest, "last", "Bash", json!({"command": "git commit -m 'All'"}));
    assert_eq!(digest.unfinished_call().as_deref(), Some("`git commit -m 'All'`"));
    digest.push(&user("stop, wait"));
    assert_eq!(digest.unfinished_call(), None);
}

#[test]
fn a_run_that_counts_failed_tests_failed_behind_a_pipe() {
    let mut digest = Digest::new("/w");
    digest.push(&user("test it"));
    let run = || json!({"command": "pytest tests -q 2>&1 | tail -1"});
    calls(&mut digest, "Bash", run(), "1074 passed, 79 errors in 140.01s", false);
    assert!(digest.commands[0].is_failing);
    calls(&mut digest, "Bash", run(), "1153 passed, 0 errors in 140.01s", false);
    assert!(!digest.commands[0].is_failing);
}

#[test]
fn a_failure_that_another_command_shows_again_is_as_new_as_that() {
    let mut digest = Digest::new("/w");
    digest.push(&user("test it"));
    let error = "FAILED tests/test_rate.py::test_rounding - AssertionError";
    calls(&mut digest, "Bash", json!({"command": "pytest -q"}), error, true);
    let edit = json!({"file_path": "/w/rate.py", "old_string": "a", "new_string": "b"});
    calls(&mut digest, "Edit", edit, "ok", false);
    let both = json!({"command": "ruff check src; pytest -q"});
    calls(&mut digest, "Bash", both, error, true);
    assert_eq!(digest.failures.len(), 2);
    assert_eq!(digest.failures[0].step, digest.failures[1].step);
}

#[test]
fn a_question_is_kept_from_a_long_introduction() {
    let mut digest = Digest::new("/w");
    let introduction =
        "The fixes and the suggestions run in one transaction with one difference at the end. ".repeat(3);
    digest.record_choice(&format!("{introduction}Keep both of them?"), "Yes");
    let question = &digest.choices[0].question;
    assert!(question.starts_with("The fixes") && question.ends_with("Keep both of them?"));
    assert!(question.chars().count() < 150);
}

#[test]
fn who_only_asks_has_not_corrected() {
    let mut digest = Digest::new("/w");
    digest.push(&user("look at the job"));
    digest.push(&says("The annotation shows it."));
    digest.push(&user("so would it find a new name?"));
    digest.push(&says("Yes. I misread the annotation in my earlier answer."));
    assert!(digest.prompts.iter().all(|prompt| !prompt.is_correction));
}

fn runs(digest: &mut Digest, command: &str, result: &str, is_error: bool) {
    calls(digest, "Bash", json!({"command": command}), result, is_error);
}

#[test]
fn a_failure_is_moot_when_its_object_is_gone() {
    let mut digest = Digest::new("/w");
    digest.push(&user("check the template"));
    runs(
        &mut digest,
        "go run /tmp/check.go",
        "no required module provides it",
        true,
    );
    runs(&mut digest, "go run ./tool", "undefined: x", true);
    let change = json!({"file_path": "/w/a.go", "old_string": "a", "new_string": "b"});
    calls(&mut digest, "Edit", change, "ok", false);
    runs(
        &mut digest,
        "git commit -am 'Fix it'",
        "husky - pre-commit script failed",
        true,
    );
    let open = |digest: &Digest| {
        let failures = digest.failures.iter();
        failures.filter(|failure| is_still_failing(digest, failure)).count()
    };
    assert_eq!(open(&digest), 3);
    runs(&mut digest, "rm -rf /tmp/check.go tool2 && ls", "", false);
    assert_eq!(open(&digest), 2);
    runs(&mut digest, "git status --short", "", false);
    assert_eq!(open(&digest), 1);
}

#[test]
fn what_a_command_shows_is_no_failure_of_its_own() {
    let mut digest = Digest::new("/w");
    digest.push(&user("read the review"));
    runs(
        &mut digest,
        "gh api repos/a/b/pulls/1/reviews 2>/dev/null | head -50",
        "Two findings\nSyntaxError is thrown\n",
        false,
    );
    runs(&mut digest, "git show HEAD:a.log | tail -3", "ok\nFAILED: 3\n", false);
    assert!(digest.failures.is_empty());
    runs(
        &mut digest,
        "git show nothing | tail -3",
        "fatal: bad revision 'nothing'",
        false,
    );
    runs(&mut digest, "make test | tail -3", "ok\nFAILED: 3\n", false);
    assert_eq!(digest.failures.len(), 2);
}

#[test]
fn what_was_not_found_is_not_cured_by_other_changes() {
    let mut digest = Digest::new("/w");
    digest.push(&user("compare them"));
    runs(
        &mut digest,
        "node cmp.js",
        "Error: Cannot find module '/w/cmp.js'",
        true,
    );
    let change = json!({"file_path": "/w/a.js", "old_string": "a", "new_string": "b"});
    calls(&mut digest, "Edit", change, "ok", false);
    runs(&mut digest, "node cmp.js", "same", false);
    assert!(digest.failures[0].fixed_at.is_some() && digest.failures[0].changed.is_empty());
}

#[test]
fn a_question_or_a_finding_is_no_correction() {
    let finding = "The extractLines and isTrivial helper functions also lack unit tests for the cases that matter most: comments, function declarations, returns, lines with trivial prefixes and languages other than Go.";
    for (words, answer, expected) in [
        (
            "Can we not capture the exit and kill the daemon before that?",
            "No, it has no hook.",
            false,
        ),
        ("I don't want any padding, that is wrong.", "I remove it.", true),
        ("Why is it still wrong? Don't round twice.", "I look at it.", true),
        (finding, "Good catch, I add them.", false),
    ] {
        let mut digest = Digest::new("/w");
        digest.push(&user("look at the login"));
        digest.push(&says("It rounds twice."));
        digest.push(&user(words));
        digest.push(&says(answer));
        assert_eq!(digest.prompts[1].is_correction, expected, "{words}");
    }
}

#[test]
fn what_only_looks_or_is_thrown_away_checks_nothing() {
    let mut digest = Digest::new("/w");
    for command in [
        "ls -a; git check-ignore docs",
        "node -e 'x'",
        "sleep 90 && gh pr checks 7",
        "gofmt -l . && golangci-lint run ./a",
        "act -j test",
    ] {
        runs(&mut digest, command, "Exit code 2", true);
        runs(&mut digest, command, "fine", false);
    }
    let checks = digest
        .commands
        .iter()
        .filter(|command| crate::offline::lines::is_check(command));
    let checks = checks.map(|command| command.text.as_str()).collect::<Vec<_>>();
    assert_eq!(checks, ["gofmt -l . && golangci-lint run ./a", "act -j test"]);
}
