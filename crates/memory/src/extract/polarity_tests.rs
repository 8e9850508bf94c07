//! Polite questions, negations and conditions in English and Chinese: none may come out as something else.

use super::*;
use crate::similar::is_negative;
use transcript::messages::{MessagePart, MessageRole};

/// What a sentence is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sense {
    /// It asks, and nobody may read an order into it.
    Question,
    /// It asks for something politely.
    Request,
    Order,
    /// It holds under a condition, which must stay.
    Condition(&'static str),
}

/// Sentences with a place for what is done.
const ENGLISH: [(&str, Sense); 26] = [
    ("should we always DO?", Sense::Question),
    ("do we ever DO around here?", Sense::Question),
    ("why do you always DO?", Sense::Question),
    ("don't we always DO?", Sense::Question),
    ("is it a rule that we never DO?", Sense::Question),
    ("isn't it better to never DO?", Sense::Question),
    ("wouldn't it be safer if we did not DO?", Sense::Question),
    ("who said that we must not DO?", Sense::Question),
    ("can we not DO?", Sense::Request),
    ("could you please not DO again?", Sense::Request),
    ("could you always DO from now on?", Sense::Request),
    ("would you please never DO without asking me?", Sense::Request),
    ("can you make sure to DO in the future?", Sense::Request),
    ("please never DO", Sense::Order),
    ("don't ever DO", Sense::Order),
    ("let's not DO anymore", Sense::Order),
    ("I do not want you to DO, ever", Sense::Order),
    ("you must not DO on your own", Sense::Order),
    ("always DO, as a rule", Sense::Order),
    ("we no longer DO by default", Sense::Order),
    (
        "if the pipeline is red, never DO",
        Sense::Condition("if the pipeline is red"),
    ),
    (
        "unless I ask for it, do not DO",
        Sense::Condition("unless i ask for it"),
    ),
    (
        "always DO when the schema has changed",
        Sense::Condition("when the schema has changed"),
    ),
    (
        "never DO until the review is done",
        Sense::Condition("until the review is done"),
    ),
    (
        "do not DO before the tests have passed",
        Sense::Condition("before the tests have passed"),
    ),
    ("from now on DO only after I agree", Sense::Condition("after i agree")),
];

const DEEDS: [&str; 6] = [
    "push to the release branch",
    "amend the last commit",
    "regenerate the API docs",
    "skip the linter in a pull request",
    "rename the migration files",
    "close issues of other people",
];

const CHINESE: [(&str, Sense); 12] = [
    ("我们是不是应该总是DO？", Sense::Question),
    ("为什么你每次都DO？", Sense::Question),
    ("难道不能DO吗？", Sense::Question),
    ("以后还需要DO吗？", Sense::Question),
    ("能不能不要DO？", Sense::Request),
    ("可以请你以后不要DO吗？", Sense::Request),
    ("以后不要DO", Sense::Order),
    ("千万别DO", Sense::Order),
    ("每次都必须DO", Sense::Order),
    ("如果测试没有通过，就不要DO", Sense::Condition("如果测试没有通过")),
    ("在评审完成之前，不要DO", Sense::Condition("在评审完成之前")),
    ("当分支落后的时候，必须先DO", Sense::Condition("当分支落后的时候")),
];

const HAN_DEEDS: [&str; 4] = ["推送到主分支", "修改提交信息", "重新生成接口文档", "关闭别人的工单"];

/// Tails that make a sentence too long for a title.
const TAIL: &str =
    " with the long list of generated files that every release train leaves behind in the folder of the nightly builds";
const HAN_TAIL: &str =
    "以及夜间构建目录里面每一次发布列车留下来的那一长串自动生成的文件和它们所有的后续分支和历史记录清单";

fn sentences() -> Vec<(String, Sense)> {
    let mut all = Vec::new();
    for (frames, deeds, tail) in [
        (&ENGLISH[..], &DEEDS[..], TAIL),
        (&CHINESE[..], &HAN_DEEDS[..], HAN_TAIL),
    ] {
        for (frame, sense) in frames {
            for deed in deeds {
                all.push((frame.replace("DO", deed), *sense));
                all.push((frame.replace("DO", &format!("{deed}{tail}")), *sense));
            }
        }
    }
    all
}

fn found_in(text: &str, min_confidence: f64) -> Extraction {
    let message = Message {
        session: "s".to_owned(),
        uuid: "u".to_owned(),
        time: Some(1_772_582_400_000),
        line: 1,
        ..Message::with_parts(MessageRole::User, vec![MessagePart::Text(text.to_owned())])
    };
    let options = ExtractOptions {
        min_confidence,
        ..ExtractOptions::default()
    };
    extract_with(&[message], &options)
}

/// Says what is wrong with a memory of a sentence.
fn fault(text: &str, sense: Sense, candidate: &Candidate) -> Option<&'static str> {
    let rule = candidate.body.split("\n\n").next().unwrap_or_default();
    let (low, title) = (rule.to_lowercase(), candidate.title.to_lowercase());
    let names_topic = candidate.title.starts_with("Note on ") || candidate.title.starts_with("关于");
    if is_negative(text) != is_negative(rule) {
        return Some("the rule is turned around");
    }
    if !names_topic && is_negative(text) != is_negative(&title) {
        return Some("the title is turned around");
    }
    if sense == Sense::Question && !low.contains(['?', '？']) {
        return Some("a question became an order");
    }
    if let Sense::Condition(words) = sense
        && (!low.contains(words) || !names_topic && !title.contains(words))
    {
        return Some("the condition is gone");
    }
    let is_hook_cut = candidate.hook.ends_with('…') || candidate.hook.chars().count() > MAX_HOOK_CHARS;
    if is_hook_cut || candidate.title.ends_with('…') || candidate.title.chars().count() > MAX_TITLE_CHARS {
        return Some("the title or the hook is cut");
    }
    None
}

#[test]
fn no_question_negation_or_condition_is_turned_around() {
    let all = sentences();
    assert!(all.len() >= 300, "{}", all.len());
    let (mut written, mut faults) = (0, Vec::new());
    for (text, sense) in &all {
        let usual = found_in(text, MIN_CONFIDENCE);
        if *sense == Sense::Question && !usual.candidates.is_empty() {
            faults.push((
                text.clone(),
                "a question was written",
                usual.candidates[0].title.clone(),
            ));
        }
        // At the lowest threshold everything that is found can be looked at.
        let found = found_in(text, 0.0);
        for candidate in found.candidates.iter().chain(&found.review) {
            written += 1;
            if let Some(fault) = fault(text, *sense, candidate) {
                faults.push((text.clone(), fault, format!("{} | {}", candidate.title, candidate.body)));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {}: {faults:#?}", faults.len(), all.len());
    assert!(
        written * 4 >= all.len() * 3,
        "only {written} of {} were looked at",
        all.len()
    );
}
