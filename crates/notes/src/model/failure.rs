//! Failed requests and incomplete answers as errors of texts.

use super::client::RequestFailure;
use super::stream::{AnswerFault, ModelAnswer};
use crate::TextError;

/// Returns the text of an answer that is complete.
pub(super) fn answer_text(answer: &ModelAnswer) -> Result<&str, TextError> {
    match answer.stop.as_str() {
        "end_turn" | "stop_sequence" | "" => Ok(&answer.text),
        "max_tokens" => Err(TextError::Failed("the answer exceeds the output limit".into())),
        "refusal" => Err(TextError::Failed("the model declined to answer".into())),
        "model_context_window_exceeded" => Err(TextError::PromptTooLong { excess: None }),
        _ => Err(TextError::Failed(
            "the model stopped before the end of its answer".into(),
        )),
    }
}

/// Converts a failed request to the error of a text.
pub(super) fn to_text_error(failure: &RequestFailure) -> TextError {
    match failure {
        RequestFailure::Status {
            status: 400 | 413,
            message,
            ..
        } if is_too_long(message) => TextError::PromptTooLong {
            excess: excess_tokens(message),
        },
        RequestFailure::Status { status: 413, .. } => TextError::PromptTooLong { excess: None },
        RequestFailure::Answer(AnswerFault::Error { message, .. }) if is_too_long(message) => {
            TextError::PromptTooLong {
                excess: excess_tokens(message),
            }
        }
        failure => TextError::Failed(failure.to_string()),
    }
}

fn is_too_long(message: &str) -> bool {
    message.contains("prompt is too long") || message.contains("exceed context limit")
}

/// Parses the excess from `N tokens > M maximum` or `N + O > M`; `None` if the message has no such numbers.
fn excess_tokens(message: &str) -> Option<u64> {
    let (before, after) = message.split_once('>')?;
    let numbers = |text: &str| {
        let parts = text.split(|sign: char| !sign.is_ascii_digit());
        parts.filter_map(|part| part.parse::<u64>().ok()).collect::<Vec<_>>()
    };
    let limit = *numbers(after).first()?;
    let sizes = numbers(before.rsplit_once(':')?.1);
    let size = sizes.iter().copied().reduce(u64::saturating_add)?;
    size.checked_sub(limit).filter(|excess| *excess > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excess_of_a_prompt_is_parsed() {
        let cases = [
            ("prompt is too long: 208310 tokens > 200000 maximum", Some(8_310)),
            (
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
                Some(42_959),
            ),
            ("prompt is too long", None),
            ("prompt is too long: many > few", None),
            ("prompt is too long: 1 tokens > 2 maximum", None),
        ];
        for (message, wanted) in cases {
            assert!(is_too_long(message));
            assert_eq!(excess_tokens(message), wanted, "{message}");
        }
        let failure = RequestFailure::Status {
            status: 400,
            kind: "invalid_request_error".into(),
            message: cases[0].0.into(),
            retry_after: None,
        };
        assert_eq!(
            to_text_error(&failure),
            TextError::PromptTooLong { excess: Some(8_310) }
        );
    }

    #[test]
    fn only_a_complete_answer_is_used() {
        let answer = |stop: &str| ModelAnswer {
            text: "x".into(),
            stop: stop.into(),
            ..ModelAnswer::default()
        };
        assert_eq!(answer_text(&answer("end_turn")), Ok("x"));
        for stop in ["max_tokens", "refusal", "tool_use", "pause_turn"] {
            assert!(
                matches!(answer_text(&answer(stop)), Err(TextError::Failed(_))),
                "{stop}"
            );
        }
        assert_eq!(
            answer_text(&answer("model_context_window_exceeded")),
            Err(TextError::PromptTooLong { excess: None })
        );
    }
}
