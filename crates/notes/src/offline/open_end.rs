//! The open end of a session: the question that waits for the user, and what the model said comes next.

use crate::offline::compose::inline_quote;
use crate::offline::digest::{Digest, DigestTurn, TaskState};
use crate::offline::requests::unanswered_request;
use crate::offline::state::refusals::RefusedCall;
use language::sentences::split_prose;

/// Sentences at the end of the last answer that are looked at.
const LAST_SENTENCES: usize = 14;

/// Most of them that say what is open.
const MOST_STEPS: usize = 3;

/// Words of sentences that say what comes next, or what is not done.
const NEXT_CUES: [&str; 48] = [
    "next step",
    "next, ",
    "next up",
    "up next",
    "next:",
    "next phase",
    "next** ",
    "is next",
    "comes next",
    "remaining work",
    "remaining step",
    "remaining task",
    "remaining item",
    "remains to",
    "left to do",
    "left open",
    "still open",
    "still need",
    "still to ",
    "still has to",
    "still have to",
    "not done",
    "not yet",
    "not tested",
    "untested",
    "not verified",
    "unverified",
    "outstanding",
    "follow-up",
    "would you like",
    "shall i",
    "should i",
    "want me to",
    "ready to",
    "once you",
    "please test",
    "please try",
    "please check",
    "try again",
    "rebuild and",
    "restart the",
    "下一步",
    "接下来",
    "需要我",
    "还没",
    "尚未",
    "未完成",
    "请重新",
];

/// Starts of sentences that ask the user to try something.
const TRY_STARTS: [&str; 6] = ["try ", "now try", "test it", "give it a try", "re-run", "请测试"];

/// Returns the last turn if it is answered and the answer stands.
fn standing_turn(digest: &Digest) -> Option<&DigestTurn> {
    digest
        .turns
        .last()
        .filter(|turn| turn.is_answered && !turn.is_retracted)
}

/// Returns the question that waits for the user, in quotation marks: of the question tool, or the one the model ended with;
/// `None` if there is none, or the user went on.
pub fn open_question(digest: &Digest) -> Option<String> {
    if let Some(call) = digest.waiting_call() {
        return Some(call);
    }
    let turn = standing_turn(digest)?;
    let sentences = split_prose(&turn.answer);
    let asks = |sentence: &&&str| sentence.ends_with(['?', '？']);
    let found = sentences.iter().rev().take(3).find(asks)?;
    Some(inline_quote(found, 300))
}

/// Returns what comes next: the answer that is waited for, the request without an answer, what the model said is next or not
/// done, or the open task; `None` if nothing is open.
pub fn next_step(digest: &Digest) -> Option<String> {
    if digest.waiting_call().is_some() {
        return Some("wait for the user's answer to that question".to_owned());
    }
    if unanswered_request(digest).is_some() {
        let step = match digest.is_stopped() {
            true => "ask the user how to go on; they stopped the work",
            false => "finish what the user asked last",
        };
        return Some(step.to_owned());
    }
    let announced = announced_steps(digest);
    if !announced.is_empty() {
        return Some(format!("the assistant said {}", announced.join(" … ")));
    }
    if open_question(digest).is_some() {
        return Some("wait for the user's answer to that question".to_owned());
    }
    let going = digest.tasks.iter().find(|task| task.state == TaskState::InProgress);
    let task = going.or_else(|| digest.tasks.iter().find(|task| task.state == TaskState::Open))?;
    Some(format!("the task {}", inline_quote(&task.text, 200)))
}

/// Returns the sentences at the end of the last answer that say what is next or not done, in their order.
fn announced_steps(digest: &Digest) -> Vec<String> {
    let sentences = standing_turn(digest)
        .map(|turn| split_prose(&turn.answer))
        .unwrap_or_default();
    let question = open_question(digest);
    let is_step = |sentence: &&str| {
        let low = sentence.to_lowercase();
        (NEXT_CUES.iter().any(|cue| low.contains(cue)) || TRY_STARTS.iter().any(|start| low.starts_with(start)))
            && !sentence.ends_with([':', '：'])
            && !names_refusal(digest, &low)
    };
    let end = &sentences[sentences.len().saturating_sub(LAST_SENTENCES)..];
    let steps = end
        .iter()
        .copied()
        .filter(is_step)
        .map(|sentence| inline_quote(sentence, 300));
    // The question has a line of its own.
    let mut steps = steps.filter(|step| question.as_ref() != Some(step)).collect::<Vec<_>>();
    steps.drain(..steps.len().saturating_sub(MOST_STEPS));
    steps
}

/// Returns whether a sentence names a command that the user refused.
fn names_refusal(digest: &Digest, sentence: &str) -> bool {
    digest.refusals.standing().any(|refusal| match &refusal.call {
        RefusedCall::Command { text } => sentence.contains(&text.to_lowercase()),
        _ => false,
    })
}
