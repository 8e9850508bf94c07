use super::*;
use crate::kinds::CandidateOrigin;
use proptest::prelude::*;
use transcript::messages::{MessagePart, MessageRole, UserReply, WordsChannel};

fn message(at: i64, session: &str, text: &str) -> Message {
    Message {
        session: session.to_owned(),
        uuid: format!("{session}-{at}"),
        // 2026-03-04, a Wednesday.
        time: Some(1_772_582_400_000 + at * 60_000),
        line: at as u64,
        ..Message::with_parts(MessageRole::User, vec![MessagePart::Text(text.to_owned())])
    }
}

/// A day later, in minutes.
const DAY: i64 = 24 * 60;

fn of(text: &str) -> Extraction {
    extract(&[message(0, "s", text)], ExtractionRules::built_in())
}

#[test]
fn standing_orders_are_written() {
    for text in [
        "Never push to main without a review",
        "Always run the migration check before you commit",
        "From now on put the ticket number into every commit message.",
        "please remember that we never commit generated docs",
        "don't forget to pull main before you start a branch",
        "can we not commit the planning docs, because they are only for us?",
        "你以后每次提交之前都必须先跑测试",
        "不要提交调试日志,以免别人看不懂",
    ] {
        let found = of(text);
        assert_eq!(found.candidates.len(), 1, "{text}: {found:?}");
    }
}

#[test]
fn tasks_questions_and_machine_text_are_not() {
    for text in [
        "fix the parser and run the tests",
        "why does the build fail?",
        "what is the branch called?",
        "the button should be blue",
        "continue",
        "<command-name>/clear</command-name>",
        "look at src/main.rs and tell me what it does",
        "don't fix it now, just look",
        "这个按钮的颜色改一下",
    ] {
        let found = of(text);
        assert_eq!(found.candidates, [], "{text}");
    }
}

#[test]
fn a_statement_that_comes_back_on_another_day_is_confirmed() {
    let text = "put a draft label on pull requests for the release notes";
    let once = of(text);
    assert_eq!(once.candidates, []);
    let messages = |step: i64| {
        (0..4)
            .map(|at| message(at * step, &format!("s{at}"), text))
            .collect::<Vec<_>>()
    };
    let days = extract(&messages(DAY), ExtractionRules::built_in());
    assert_eq!(days.candidates.len(), 1, "{days:?}");
    assert_eq!(days.candidates[0].origin, CandidateOrigin::Habit);
    assert_eq!(days.candidates[0].sources.len(), 4);
    // On one day the same words are the same task.
    assert_eq!(extract(&messages(1), ExtractionRules::built_in()).candidates, []);
}

#[test]
fn what_is_said_later_wins() {
    let rules = ExtractionRules::built_in();
    let said = [
        message(0, "a", "Always mock the database in our tests"),
        message(2 * DAY, "b", "Never mock the database in our tests"),
    ];
    let found = extract(&said, rules);
    let titles = found.candidates.iter().map(|candidate| candidate.title.as_str());
    assert_eq!(titles.collect::<Vec<_>>(), ["Never mock the database in our tests"]);
    let taken_back = [
        said[0].clone(),
        message(DAY, "b", "forget the rule that you mock the database in tests"),
    ];
    assert_eq!(extract(&taken_back, rules).candidates, []);
}

#[test]
fn a_refusal_carries_the_call() {
    let call = Message {
        role: MessageRole::Assistant,
        parts: vec![MessagePart::Call {
            id: "c".into(),
            name: "Bash".into(),
            input: serde_json::json!({"command": "git commit --amend"}),
        }],
        ..message(0, "s", "")
    };
    let refusal = Message {
        parts: vec![MessagePart::Reply(UserReply {
            channel: WordsChannel::Refusal,
            call: "c".into(),
            question: String::new(),
            text: "please don't ever amend commits".into(),
        })],
        ..message(1, "s", "")
    };
    let found = extract(&[call, refusal], ExtractionRules::built_in());
    let [candidate] = &found.candidates[..] else {
        panic!("{found:?}")
    };
    assert!(
        candidate.body.contains("Bash `git commit --amend`"),
        "{}",
        candidate.body
    );
}

#[test]
fn what_the_instructions_say_is_left_out() {
    let options = ExtractOptions {
        instructions: &|_| "# Rules\n\n- Never push to main without a review.\n".to_owned(),
        ..ExtractOptions::default()
    };
    let found = extract_with(&[message(0, "s", "never push to main without review")], &options);
    assert_eq!(found.candidates, []);
    assert_eq!(found.rejections[0].reason, "the instruction files say it themselves");
}

#[test]
fn a_secret_is_dropped_and_counted() {
    let text = format!(
        "never commit the key ghp_{} to the docs",
        "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    );
    let found = of(&text);
    assert_eq!((found.candidates.len(), found.secrets_dropped), (0, 1));
    assert!(!format!("{found:?}").contains("a1B2c3D4"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        of(&text);
    }
}

/// Checks that a memory says what was said: the same polarity, the condition, and no order out of a question.
fn check_meaning(text: &str, condition: Option<&str>, is_question: bool) {
    let found = of(text);
    if is_question {
        assert_eq!(found.candidates, [], "{text}");
    }
    for candidate in found.candidates.iter().chain(&found.review) {
        let said = crate::similar::is_negative(text);
        let body = candidate.body.split("\n\n").next().unwrap_or_default();
        assert_eq!(crate::similar::is_negative(body), said, "{text}: {body}");
        let is_topic = candidate.title.starts_with("Note on ") || candidate.title.starts_with("关于");
        if !is_topic {
            assert_eq!(
                crate::similar::is_negative(&candidate.title),
                said,
                "{text}: {}",
                candidate.title
            );
            assert!(
                condition.is_none_or(|words| candidate.title.contains(words)),
                "{text}: {}",
                candidate.title
            );
        }
        assert!(condition.is_none_or(|words| body.contains(words)), "{text}: {body}");
        if is_question {
            assert!(body.ends_with(['?', '？']), "{text}: {body}");
        }
        assert!(
            !candidate.title.contains('…') && !candidate.hook.contains('…'),
            "{text}"
        );
        assert!(candidate.hook.chars().count() <= MAX_HOOK_CHARS, "{text}");
    }
}

#[test]
fn no_meaning_is_inverted() {
    let actions = [
        "commit the generated docs",
        "push to main",
        "amend commits that were reviewed",
        "mock the database in our tests",
        "open a pull request as a draft",
        "run the e2e tests",
        "merge without a review",
        "add new dependencies",
        "write comments in the tests",
        "deploy to staging",
    ];
    let mut count = 0;
    let mut check = |text: String, condition: Option<&str>, is_question: bool| {
        count += 1;
        check_meaning(&text, condition, is_question);
    };
    for action in actions {
        check(format!("can we not {action}?"), None, false);
        check(
            format!("could you please not {action}, because it takes long?"),
            None,
            false,
        );
        check(format!("let's not {action}"), None, false);
        check(format!("should we always {action}?"), None, true);
        check(format!("why do we never {action}?"), None, true);
        check(format!("is it a rule that we {action}?"), None, true);
        check(
            format!("don't {action} unless I ask for it"),
            Some("unless I ask"),
            false,
        );
        check(
            format!("if the branch is protected, never {action}"),
            Some("branch is protected"),
            false,
        );
        check(
            format!("always {action} when the release is near"),
            Some("when the release is near"),
            false,
        );
        check(format!("never {action}"), None, false);
        check(
            format!(
                "before you {action}, always make sure that the migrations in the docs of the other team were reviewed by somebody"
            ),
            Some("before you".trim_start_matches("before ")),
            false,
        );
    }
    for action in ["提交调试日志", "直接推送到主分支", "修改生成的代码", "跳过测试"] {
        check(format!("能不能不要{action}?"), None, false);
        check(format!("以后不要{action}"), None, false);
        check(format!("为什么不{action}?"), None, true);
        check(format!("我们应该总是{action}吗?"), None, true);
        check(format!("如果没有评审,绝对不要{action}"), Some("如果没有评审"), false);
    }
    assert!(count >= 100, "{count}");
}
