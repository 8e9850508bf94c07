//! Words of a person inside the result of a tool call: why they refused it, and how they answered questions.
//!
//! The client wraps these words in sentences of its own. Only the words are kept, with the call they were about.

use super::{UserReply, WordsChannel};
use language::visible::shown;

/// What the result of a refused call starts with.
const REFUSAL_STARTS: [&str; 3] = [
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "The user chose to stay in plan mode",
];

/// What stands before the words of a person who refused a call.
const REFUSAL_LEADS: [&str; 2] = ["the user said:", "following reason for the rejection:"];

/// What a result starts with that holds answers to the questions of the model.
const ANSWER_STARTS: [&str; 3] = [
    "User has answered your questions:",
    "The user answered:",
    "Your questions have been answered:",
];

/// What ends the answers.
const ANSWER_ENDS: [&str; 3] = [
    ". You can now continue with",
    ". You can now proceed with",
    ". Read the answers carefully",
];

const INTERRUPTION_START: &str = "[Request interrupted by user";

/// What the client adds after the words of a refusal, or writes in place of them.
const REFUSAL_NOTES: [&str; 3] = [
    "Note: The user's next message may contain a correction",
    "The user wants to clarify these questions.",
    "Questions asked:",
];

/// Returns whether the result of a call may hold words of a person: `text` is its start, as it stands in the log.
pub(super) fn may_hold_reply(text: &[u8]) -> bool {
    let starts = REFUSAL_STARTS.iter().chain(&ANSWER_STARTS);
    let mut starts = starts.chain([&INTERRUPTION_START]);
    starts.any(|start| text.starts_with(start.as_bytes()))
}

/// Returns what a person said in the result of the call `call`; empty for the output of a tool.
pub(super) fn find_replies(call: &str, text: &str) -> Vec<UserReply> {
    let reply = |channel, question: &str, text: &str| UserReply {
        channel,
        call: call.to_owned(),
        question: shown(question).into_owned(),
        text: shown(text).into_owned(),
    };
    if REFUSAL_STARTS.iter().any(|start| text.starts_with(start)) {
        return vec![reply(WordsChannel::Refusal, "", refusal_words(text))];
    }
    if text.starts_with(INTERRUPTION_START) {
        return vec![reply(WordsChannel::Interruption, "", "")];
    }
    let Some(answers) = ANSWER_STARTS.iter().find_map(|start| text.strip_prefix(start)) else {
        return Vec::new();
    };
    let answers = split_answers(answers).into_iter();
    answers
        .map(|(question, answer)| reply(WordsChannel::Answer, question, &answer))
        .collect()
}

/// Returns what a person said when they refused a call; empty if they said nothing.
fn refusal_words(text: &str) -> &str {
    let said = REFUSAL_LEADS.iter().find_map(|lead| text.split_once(lead));
    let mut said = said.map_or("", |(_, said)| said);
    for note in REFUSAL_NOTES {
        said = said.split_once(note).map_or(said, |(said, _)| said);
    }
    said.trim()
}

/// Splits `"question"="answer", "question"="answer"`. Questions and answers may hold quotation marks: only `"="` and the
/// `", "` before the next question separate them.
fn split_answers(text: &str) -> Vec<(&str, String)> {
    let end = ANSWER_ENDS.iter().find_map(|end| text.rfind(end)).unwrap_or(text.len());
    let mut pieces = text[..end].split("\"=\"");
    let mut question = pieces.next().unwrap_or_default().trim().trim_start_matches('"');
    let pieces = pieces.collect::<Vec<_>>();
    let mut answers = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let is_last = at + 1 == pieces.len();
        let (answer, next) = match piece.rsplit_once(", \"").filter(|_| !is_last) {
            Some((answer, next)) => (answer, next),
            None => (*piece, ""),
        };
        let answer = answer.trim().trim_end_matches('"');
        // What the person typed beside the options stands behind them. Typed in place of an option, it is there twice.
        let answer = match answer.split_once("\" user notes: ") {
            Some((chosen, notes)) if chosen.trim() == notes.trim() => chosen.trim().to_owned(),
            Some((chosen, notes)) => format!("{chosen}\n{notes}"),
            None => answer.to_owned(),
        };
        answers.push((question, answer));
        question = next;
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(WordsChannel, &str, &str)]) {
        let found = find_replies("toolu_1", text);
        let found = found
            .iter()
            .map(|reply| (reply.channel, reply.question.as_str(), reply.text.as_str()))
            .collect::<Vec<_>>();
        assert_eq!(found, expected, "{text}");
        assert_eq!(may_hold_reply(text.as_bytes()), !expected.is_empty(), "{text}");
    }

    #[test]
    fn a_refusal_keeps_only_the_words_of_the_person() {
        let start = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file).";
        let note = "Note: The user's next message may contain a correction or preference. Pay close attention.";
        for (tail, words) in [
            (
                " STOP what you are doing and wait for the user to tell you how to proceed.",
                "",
            ),
            (
                " To tell you how to proceed, the user said:\nwhy not a switch?",
                "why not a switch?",
            ),
            (
                " The user provided the following reason for the rejection:  use pnpm",
                "use pnpm",
            ),
            (
                &format!(" To tell you how to proceed, the user said:\nas a spec\n\n{note}"),
                "as a spec",
            ),
            (
                " To tell you how to proceed, the user said:\nThe user wants to clarify these questions.\n    Questions asked:\n- \"Which?\"",
                "",
            ),
        ] {
            check(&format!("{start}{tail}"), &[(WordsChannel::Refusal, "", words)]);
        }
        check(
            "[Request interrupted by user for tool use]",
            &[(WordsChannel::Interruption, "", "")],
        );
    }

    #[test]
    fn answers_are_paired_with_their_questions() {
        let end = ". You can now continue with the user's answers in mind.";
        check(
            &format!("User has answered your questions: \"Which \"way\"?\"=\"the \"long\" one, \"really\"\"{end}"),
            &[(WordsChannel::Answer, "Which \"way\"?", "the \"long\" one, \"really")],
        );
        check(
            &format!("Your questions have been answered: \"One?\"=\"a, b\", \"Two?\"=\"c\"{end}"),
            &[
                (WordsChannel::Answer, "One?", "a, b"),
                (WordsChannel::Answer, "Two?", "c"),
            ],
        );
        check(
            "The user answered: \"One?\"=\"a\", \"Two?\"=\"neither. Keep it.\". Read the answers carefully — they may ask back.",
            &[
                (WordsChannel::Answer, "One?", "a"),
                (WordsChannel::Answer, "Two?", "neither. Keep it."),
            ],
        );
        check(
            &format!("User has answered your questions: \"One?\"=\"none of them \" user notes: none of them{end}"),
            &[(WordsChannel::Answer, "One?", "none of them")],
        );
        check(
            &format!("User has answered your questions: \"One?\"=\"The first\" user notes: but later{end}"),
            &[(WordsChannel::Answer, "One?", "The first\nbut later")],
        );
    }

    #[test]
    fn output_of_a_tool_holds_no_words() {
        check("src/a.rs: the user said: nothing", &[]);
        check("", &[]);
    }
}
