//! Texts in the user's name: their words, their commands, or text of the client.

use language::clean::strip_control_codes;
use language::client_text::{self, ClientTextKind};
use language::markup::find_element;

/// A text in the user's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserText {
    /// Words of the user.
    Words(String),
    /// A command of the client or a skill, with its arguments.
    Command(String),
    /// A shell command that the user ran.
    Shell(String),
    /// The user stopped the model.
    Interrupted,
    /// Text of the client.
    Nothing,
}

/// Commands that concern the client and not the work.
const HOUSEKEEPING: [&str; 30] = [
    "/exit",
    "/quit",
    "/clear",
    "/compact",
    "/model",
    "/login",
    "/logout",
    "/ide",
    "/status",
    "/mcp",
    "/context",
    "/cost",
    "/config",
    "/doctor",
    "/help",
    "/resume",
    "/rename",
    "/theme",
    "/vim",
    "/terminal-setup",
    "/usage",
    "/permissions",
    "/hooks",
    "/agents",
    "/memory",
    "/fast",
    "/upgrade",
    "/rewind",
    "/export",
    "/plugin",
];

/// Classifies a text in the user's name and returns the words in it.
pub fn classify_user_text(text: &str) -> UserText {
    match client_text::classify(text) {
        None => {}
        Some(ClientTextKind::Interruption) => return UserText::Interrupted,
        Some(ClientTextKind::Command) => return parse_command(text),
        Some(ClientTextKind::ShellCommand) => {
            let line = find_element(text, "bash-input").unwrap_or_default();
            return UserText::Shell(strip_control_codes(line).trim().to_owned());
        }
        Some(ClientTextKind::CommandOutput | ClientTextKind::Injected) => return UserText::Nothing,
    }
    let words = strip_control_codes(&client_text::strip_context(text)).trim().to_owned();
    let words = strip_plan_note(&words).to_owned();
    match words.is_empty() || HOUSEKEEPING.contains(&words.as_str()) {
        true => UserText::Nothing,
        false => UserText::Words(words),
    }
}

/// Removes the note of the client below a plan that the user approved in another session.
fn strip_plan_note(words: &str) -> &str {
    const START: &str = "If you need specific details from before exiting plan mode";
    let note = words.rfind(START).filter(|at| words[*at..].lines().count() == 1);
    words[..note.unwrap_or(words.len())].trim_end()
}

/// Parses a command and its arguments. Commands that concern only the client are `Nothing`.
fn parse_command(text: &str) -> UserText {
    let name = find_element(text, "command-name")
        .or_else(|| find_element(text, "command-message"))
        .unwrap_or_default()
        .trim();
    let name = format!("/{}", name.trim_start_matches('/'));
    let given = find_element(text, "command-args").unwrap_or_default().trim();
    if HOUSEKEEPING.contains(&name.as_str()) || name == "/" {
        return UserText::Nothing;
    }
    UserText::Command(strip_control_codes(format!("{name} {given}").trim()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_text_is_separated_from_words() {
        assert_eq!(
            classify_user_text("<system-reminder>be good</system-reminder>"),
            UserText::Nothing
        );
        assert_eq!(
            classify_user_text("fix it\n<system-reminder>x <b> y</system-reminder>"),
            UserText::Words("fix it".into())
        );
        assert_eq!(
            classify_user_text(
                "Do it.\n\nIf you need specific details from before exiting plan mode, read the transcript"
            ),
            UserText::Words("Do it.".into())
        );
        assert_eq!(
            classify_user_text("<div>pasted</div> why?"),
            UserText::Words("<div>pasted</div> why?".into())
        );
        assert_eq!(
            classify_user_text("[Request interrupted by user for tool use]"),
            UserText::Interrupted
        );
        let command = "<command-message>review is running</command-message>\n<command-name>/review</command-name>\n<command-args>12 carefully</command-args>";
        assert_eq!(
            classify_user_text(command),
            UserText::Command("/review 12 carefully".into())
        );
        assert_eq!(
            classify_user_text("<command-name>/exit</command-name>"),
            UserText::Nothing
        );
        assert_eq!(classify_user_text("/compact"), UserText::Nothing);
        assert_eq!(
            classify_user_text("<bash-input>ls -la</bash-input>"),
            UserText::Shell("ls -la".into())
        );
    }
}
