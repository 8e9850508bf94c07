//! Text that the client writes in the user's name: commands and their output, context, notices.
//!
//! Every reader of a log asks the same table whether a text is the user's own words: [`classify`] for a whole text,
//! [`strip_context`] for the context that the client puts around words. A new kind of client text is one line here.

use crate::markup;
use std::borrow::Cow;

/// What a text of the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTextKind {
    /// A command of the client that the user typed (`/review`, `# note`).
    Command,
    /// A shell command that the user ran (`! ls`).
    ShellCommand,
    /// What one of these commands printed.
    CommandOutput,
    /// The notice that the user stopped the model.
    Interruption,
    /// Context, notices and prompts that the client adds by itself.
    Injected,
}

use ClientTextKind::{Command, CommandOutput, Injected, Interruption, ShellCommand};

/// Elements that make a whole text the client's: what follows the closing tag is the client's too.
const MESSAGE_ELEMENTS: [(&str, ClientTextKind); 21] = [
    ("command-name", Command),
    ("command-message", Command),
    ("command-args", Command),
    ("command-contents", Command),
    ("user-memory-input", Command),
    ("bash-input", ShellCommand),
    ("bash-stdout", CommandOutput),
    ("bash-stderr", CommandOutput),
    ("local-command-stdout", CommandOutput),
    ("local-command-stderr", CommandOutput),
    ("local-command-caveat", Injected),
    ("task-notification", Injected),
    ("agent-notification", Injected),
    ("agent-message", Injected),
    ("teammate-message", Injected),
    ("cross-session-message", Injected),
    ("monitor-notification", Injected),
    ("ci-monitor-event", Injected),
    ("mcp-resource-update", Injected),
    ("mcp-polling-update", Injected),
    ("system-notification", Injected),
];

/// Elements that the client puts before, between or after the user's words.
const CONTEXT_ELEMENTS: [&str; 8] = [
    "system-reminder",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    "user-prompt-submit-hook",
    "session-start-hook",
    "post-tool-use-hook",
];

/// Those of them that the client puts into results of tools.
const RESULT_ELEMENTS: [&str; 3] = ["system-reminder", "post-tool-use-hook", "new-diagnostics"];

/// Sentences that a text of the client starts with.
const SENTENCES: [(&str, ClientTextKind); 15] = [
    ("{\"task_id\":\"", Injected),
    ("[Request interrupted by user", Interruption),
    ("[SYSTEM NOTIFICATION", Injected),
    ("Caveat: The messages below", Injected),
    ("Operation stopped by hook", Injected),
    ("Stop hook feedback", Injected),
    ("Unknown slash command", Injected),
    ("Base directory for this skill", Injected),
    ("This session is being continued", Injected),
    ("Summary of the previous conversation", Injected),
    ("Please continue the conversation from where", Injected),
    ("Continue the conversation from where", Injected),
    ("Your task is to create a detailed summary", Injected),
    ("Please analyze this codebase and create a", Injected),
    ("Another Claude session sent", Injected),
];

/// Longest name of an element, in bytes.
const MAX_NAME: usize = 24;

/// Returns what a text of the client is; `None` if the text holds words of the user.
pub fn classify(text: &str) -> Option<ClientTextKind> {
    classify_bytes(text.as_bytes())
}

/// [`classify`] for bytes. They may be the inside of a JSON string as it stands in the log: an escaped line break counts
/// as a blank, and everything the table looks for is plain ASCII.
pub fn classify_bytes(text: &[u8]) -> Option<ClientTextKind> {
    let mut rest = trim_start(text);
    let mut has_context = false;
    loop {
        // The first byte decides for nearly every prompt.
        match rest.first() {
            None => return has_context.then_some(Injected),
            Some(b'<') => {}
            Some(b'[' | b'{' | b'A'..=b'Z') => return find_sentence(rest),
            Some(_) => return None,
        }
        let name = element_name(&rest[1..]);
        if let Some((_, kind)) = MESSAGE_ELEMENTS.iter().find(|(known, _)| known.as_bytes() == name) {
            return Some(*kind);
        }
        if !CONTEXT_ELEMENTS.iter().any(|known| known.as_bytes() == name) {
            return None;
        }
        has_context = true;
        rest = trim_start(skip_element(rest, name));
    }
}

fn find_sentence(text: &[u8]) -> Option<ClientTextKind> {
    let is_it =
        |(start, _): &&(&str, ClientTextKind)| start.as_bytes()[0] == text[0] && text.starts_with(start.as_bytes());
    SENTENCES.iter().find(is_it).map(|(_, kind)| *kind)
}

/// Returns the name of the element that begins here, after its `<`; empty if none does.
fn element_name(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .take(MAX_NAME + 1)
        .position(|byte| matches!(byte, b'>' | b' '));
    &text[..end.unwrap_or(0)]
}

/// Returns what follows the element `name` at the start of a text; nothing if it is not closed.
fn skip_element<'t>(text: &'t [u8], name: &[u8]) -> &'t [u8] {
    let closing = [b"</", name, b">"].concat();
    let end = memchr::memmem::find(text, &closing).map_or(text.len(), |at| at + closing.len());
    &text[end..]
}

/// Skips blanks, also those that JSON escapes.
fn trim_start(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        match text {
            [b'\\', b'n' | b'r' | b't', rest @ ..] => text = rest,
            _ => return text,
        }
    }
}

/// Removes the context that the client put around the user's words.
pub fn strip_context(text: &str) -> Cow<'_, str> {
    markup::strip_elements(text, &CONTEXT_ELEMENTS)
}

/// Removes the context that the client added to the result of a tool.
pub fn strip_result_context(text: &str) -> Cow<'_, str> {
    markup::strip_elements(text, &RESULT_ELEMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<ClientTextKind>) {
        assert_eq!(classify(text), expected, "{text}");
        let json = text.replace('\n', "\\n");
        assert_eq!(classify_bytes(json.as_bytes()), expected, "{json}");
    }

    #[test]
    fn client_text_is_recognized() {
        check("<command-name>/review</command-name>", Some(Command));
        check("\n <bash-input>ls</bash-input>", Some(ShellCommand));
        check("<local-command-stdout></local-command-stdout>", Some(CommandOutput));
        check("[Request interrupted by user for tool use]", Some(Interruption));
        check(
            "<task-notification>x</task-notification>\nRead the output file",
            Some(Injected),
        );
        check(
            "<teammate-message teammate_id=\"lead\">hi</teammate-message>",
            Some(Injected),
        );
        check("Caveat: The messages below were generated", Some(Injected));
        check("<system-reminder>never closed", Some(Injected));
        assert_eq!(
            classify("{\"task_id\":\"b1\",\"status\":\"completed\"}"),
            Some(Injected)
        );
    }

    #[test]
    fn context_alone_is_the_clients_and_words_beside_it_are_the_users() {
        for name in CONTEXT_ELEMENTS {
            check(&format!("<{name}>x</{name}>"), Some(Injected));
            check(&format!("<{name}>x</{name}>\n\nfix it"), None);
            check(&format!("fix it\n<{name}>x</{name}>"), None);
        }
        check(
            "<ide_opened_file>a</ide_opened_file>\n<system-reminder>b</system-reminder>\n",
            Some(Injected),
        );
        check(
            "<system-reminder>a</system-reminder>\n<command-name>/x</command-name>",
            Some(Command),
        );
    }

    #[test]
    fn words_of_the_user_are_not_client_text() {
        for text in [
            "",
            "fix it",
            "<div>pasted</div> why?",
            "Please continue",
            "[x] done",
            "<",
            "<system-reminders>x",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn every_name_is_short_enough_to_be_found() {
        let names = MESSAGE_ELEMENTS.iter().map(|(name, _)| *name).chain(CONTEXT_ELEMENTS);
        for name in names {
            assert!(name.len() <= MAX_NAME, "{name}");
        }
    }
}
