//! Texts of a log that name the size of a context window.
//!
//! The numeric form keeps no text, so these few texts are recognized while a log is parsed. The client signs commits with
//! `Co-Authored-By: Claude Opus 4.6 (1M context)`, and `/model` answers `Set model to Opus 4.6 (1M context)`, with terminal
//! colors in between. Older clients wrote the model as `opus[1m]`.

use crate::log::WindowMark;
use memchr::memmem;
use std::sync::LazyLock;

/// Longest name of a model in a commit trailer.
const MAX_NAME: usize = 40;

/// Returns the mark of a shell command by a model; `None` unless the command signs a commit as that model with a window
/// of a million tokens. A trailer of another model is a quotation.
pub(super) fn mark_of_command(command: &[u8], model: &[u8]) -> Option<WindowMark> {
    static SIZE: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(" (1M context)"));
    let names_model = |at: usize| {
        let before = &command[at.saturating_sub(MAX_NAME)..at];
        let name = memmem::rfind(before, b"Claude ").map(|start| &before[start + "Claude ".len()..]);
        name.is_some_and(|name| is_name_of(name, model)) && is_trailer(command, at)
    };
    let mut hits = SIZE.find_iter(command);
    hits.any(names_model).then_some(WindowMark::Trailer)
}

/// Returns whether the text before `at` is that of a commit trailer.
fn is_trailer(command: &[u8], at: usize) -> bool {
    let before = &command[at.saturating_sub(MAX_NAME + 16)..at];
    memmem::find(&before.to_ascii_lowercase(), b"co-authored-by: claude ").is_some()
}

/// Returns whether a name for people (`Opus 4.6`) is that of a model (`claude-opus-4-6`).
fn is_name_of(name: &[u8], model: &[u8]) -> bool {
    let slug = name.iter().map(|byte| match byte {
        b' ' | b'.' => b'-',
        byte => byte.to_ascii_lowercase(),
    });
    let slug = slug.collect::<Vec<_>>();
    let Some(at) = memmem::find(model, &slug).filter(|_| !slug.is_empty()) else {
        return false;
    };
    // `opus-4` is no name of `opus-4-6`, but a date may follow.
    let rest = &model[at + slug.len()..];
    let number = rest.strip_prefix(b"-").unwrap_or_default();
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest.is_empty() || !rest.starts_with(b"-") || digits == 0 || digits == 8
}

/// Returns the mark of a message of the client; `None` unless it answers `/model`. `text` is as JSON writes it.
pub(super) fn mark_of_output(text: &[u8]) -> Option<WindowMark> {
    const ANSWERS: [&[u8]; 2] = [
        b"<local-command-stdout>Set model to",
        b"<local-command-stdout>Kept model as",
    ];
    if !ANSWERS.iter().any(|answer| text.starts_with(answer)) {
        return None;
    }
    let plain = without_colors(text);
    let is_large = [&b"1M context"[..], b"[1m]"]
        .iter()
        .any(|size| memmem::find(&plain, size).is_some());
    Some(match is_large {
        true => WindowMark::LargeModel,
        false => WindowMark::OtherModel,
    })
}

/// Returns a text without terminal colors: `ESC [ ... m`, where JSON writes the first character as an escape.
fn without_colors(text: &[u8]) -> Vec<u8> {
    const ESCAPES: [&[u8]; 3] = [b"\\u001b[", b"\\u001B[", b"\x1b["];
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let color = ESCAPES.iter().find_map(|escape| {
            let codes = rest.strip_prefix(*escape)?;
            let length = codes
                .iter()
                .take_while(|byte| byte.is_ascii_digit() || **byte == b';')
                .count();
            codes[length..].strip_prefix(b"m")
        });
        rest = color.unwrap_or_else(|| {
            plain.push(first);
            after
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_trailer_names_the_window_of_its_model() {
        let command =
            |trailer: &str| format!("git commit -m \"$(cat <<'EOF'\\nFix it\\n\\n{trailer} <noreply@x>\\nEOF\\n)\"");
        for (trailer, model, is_mark) in [
            ("Co-Authored-By: Claude Opus 4.6 (1M context)", "claude-opus-4-6", true),
            (
                "Co-authored-by: Claude Opus 5 (1M context)",
                "claude-opus-5-20260101",
                true,
            ),
            (
                "Co-Authored-By: Claude Opus 4.6 (1M context)",
                "us.anthropic.claude-opus-4-6-v1",
                true,
            ),
            // Quoted from an earlier commit.
            (
                "Co-Authored-By: Claude Opus 4.6 (1M context)",
                "claude-sonnet-4-6",
                false,
            ),
            ("Co-Authored-By: Claude Opus 5 (1M context)", "claude-opus-5-5", false),
            ("Co-Authored-By: Claude Opus 4.6", "claude-opus-4-6", false),
            ("Claude Opus 4.6 (1M context)", "claude-opus-4-6", false),
            ("Co-Authored-By: (1M context)", "claude-opus-4-6", false),
        ] {
            let found = mark_of_command(command(trailer).as_bytes(), model.as_bytes());
            assert_eq!(found.is_some(), is_mark, "{trailer} by {model}");
        }
    }

    #[test]
    fn the_answer_of_the_model_command_is_read_without_colors() {
        let output =
            |text: &str| mark_of_output(format!("<local-command-stdout>{text}</local-command-stdout>").as_bytes());
        for (text, mark) in [
            (
                r"Set model to \u001b[1mOpus 4.6 (1M context)\u001b[22m",
                Some(WindowMark::LargeModel),
            ),
            (
                r"Set model to Opus 4.6 (\u001b[1m1M\u001b[22m context)",
                Some(WindowMark::LargeModel),
            ),
            (
                r"Set model to \u001b[1mopus[1m] (claude-opus-4-6[1m])\u001b[22m",
                Some(WindowMark::LargeModel),
            ),
            (
                r"Kept model as \u001b[1mOpus 4.6 (1M context)\u001b[22m",
                Some(WindowMark::LargeModel),
            ),
            // A bold name, not a size.
            (
                r"Set model to \u001b[1m\u001b[1mSonnet 4.6\u001b[22m",
                Some(WindowMark::OtherModel),
            ),
            (r"Opus 4.6 (1M context)", None),
        ] {
            assert_eq!(output(text), mark, "{text}");
        }
    }
}
