//! What was really said: without what the client wraps around it, terminal codes and data that nobody reads.

use language::client_text::{self, ClientTextKind};
use language::markdown::fence_for;
use language::markup::find_element;
use language::sentences::split_prose;
use std::borrow::Cow;

/// What a text in the user's name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserText {
    /// A person's own words.
    Words(String),
    /// A command of the client or a skill that they called, with what they gave it.
    Command(String),
    /// A shell command that they ran themselves.
    Shell(String),
    /// They stopped the model.
    Interrupted,
    /// Put in by the client.
    Nothing,
}

/// Commands that change the client and not the work.
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
    match words.is_empty() {
        true => UserText::Nothing,
        false => UserText::Words(words),
    }
}

fn parse_command(text: &str) -> UserText {
    let name = find_element(text, "command-name")
        .or_else(|| find_element(text, "command-message"))
        .unwrap_or_default()
        .trim();
    let name = format!("/{}", name.trim_start_matches('/'));
    let given = find_element(text, "command-args").unwrap_or_default().trim();
    if HOUSEKEEPING.contains(&name.as_str()) || name == "/" {
        // What somebody wants of a compaction is no part of the work either.
        return UserText::Nothing;
    }
    UserText::Command(strip_control_codes(format!("{name} {given}").trim()).into_owned())
}

/// What a tool printed, without wrappers.
pub fn tool_output(text: &str) -> Cow<'_, str> {
    let without = client_text::strip_result_context(text);
    let unwrapped = match without.contains("tool_use_error>") {
        true => Cow::Owned(without.replace("<tool_use_error>", "").replace("</tool_use_error>", "")),
        false => without,
    };
    match strip_control_codes(&unwrapped) {
        Cow::Borrowed(same) if same.len() == unwrapped.len() => unwrapped,
        other => Cow::Owned(other.into_owned()),
    }
}

/// Runs of letters and digits longer than this are data, not words.
const MAX_WORD_CHARS: usize = 300;

/// Without terminal codes, other control characters and encoded data.
pub fn strip_control_codes(text: &str) -> Cow<'_, str> {
    let is_odd = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\n' | b'\t');
    let has_codes = text.bytes().any(|byte| is_odd(&byte) || byte == 0x7f);
    let has_data = has_long_run(text.as_bytes());
    if !has_codes && !has_data {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_code(&mut characters),
            '\r' => {
                // A line that was written over is a line of its own.
                if characters.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\n' | '\t' => out.push(character),
            _ if character.is_control() => {}
            _ => out.push(character),
        }
    }
    if has_data {
        out = strip_encoded_data(&out);
    }
    Cow::Owned(out)
}

fn skip_code(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => {
            for next in characters.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&next) {
                    break;
                }
            }
        }
        Some(']') => {
            while let Some(next) = characters.next() {
                if next == '\u{7}' || next == '\u{1b}' && characters.next_if_eq(&'\\').is_some() {
                    break;
                }
            }
        }
        _ => {}
    }
}

fn is_data(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Whether there is a run of data longer than [`DATA`]. Such a run covers one of any so many neighbouring places.
fn has_long_run(text: &[u8]) -> bool {
    let mut at = MAX_WORD_CHARS;
    while at < text.len() {
        if is_data(text[at]) {
            let before = text[..at].iter().rev().take_while(|byte| is_data(**byte)).count();
            let after = text[at..].iter().take_while(|byte| is_data(**byte)).count();
            if before + after > MAX_WORD_CHARS {
                return true;
            }
            at += after;
        }
        at += MAX_WORD_CHARS;
    }
    false
}

fn strip_encoded_data(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let run = rest.bytes().take_while(|byte| is_data(*byte)).count();
        match run {
            0 => {
                let end = rest
                    .find(|sign: char| sign.is_ascii() && is_data(sign as u8))
                    .unwrap_or(rest.len());
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            _ if run > MAX_WORD_CHARS => out.push_str("[data]"),
            _ => out.push_str(&rest[..run]),
        }
        rest = &rest[run..];
    }
    out
}

/// A text as one line of at most `most` characters, with a mark where it was cut.
pub fn to_one_line(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if count + length + usize::from(count > 0) > most {
            if count == 0 {
                out.extend(word.chars().take(most.saturating_sub(1)));
            }
            out.push('…');
            return out;
        }
        if count > 0 {
            out.push(' ');
            count += 1;
        }
        out.push_str(word);
        count += length;
    }
    out
}

/// A sentence about what somebody is about to do, as what was done: without "now let me".
pub fn strip_intent(sentence: &str) -> String {
    const STARTS: [&str; 22] = [
        "now let me ",
        "now i'll ",
        "now i will ",
        "now i need to ",
        "now, let me ",
        "let me now ",
        "let me also ",
        "let me ",
        "let's ",
        "i'll now ",
        "i'll also ",
        "i'll ",
        "i will ",
        "i need to ",
        "i'm going to ",
        "next, i'll ",
        "next, let me ",
        "first, let me ",
        "first, i'll ",
        "good, now ",
        "now ",
        "also ",
    ];
    let mut text = sentence.trim();
    for opening in [
        "Good. ",
        "Good, ",
        "Great. ",
        "Perfect. ",
        "Great! ",
        "Good! ",
        "Perfect! ",
        "OK, ",
        "Okay, ",
    ] {
        text = text.strip_prefix(opening).unwrap_or(text);
    }
    let low = text.to_lowercase().replace('\u{2019}', "'");
    // Lower case may have another length; then the sentence stays as it is.
    if low.len() == text.len()
        && let Some(start) = STARTS.iter().find(|start| low.starts_with(**start))
    {
        text = &text[start.len()..];
    }
    let mut signs = text.trim_end_matches([':', '：', '.']).chars();
    signs
        .next()
        .map(|first| first.to_uppercase().chain(signs).collect())
        .unwrap_or_default()
}

/// The first sentence of an answer that says something.
pub fn first_statement(text: &str) -> Option<&str> {
    let all = split_prose(text);
    all.iter()
        .find(|sentence| sentence.chars().count() >= 25 && !sentence.ends_with([':', '：']))
        .or(all.first())
        .copied()
}

/// Whether a line can stand in Markdown as it is and mean the same.
pub fn is_plain_markdown(text: &str) -> bool {
    !text.contains(['\n', '<'])
        && text.matches('`').count().is_multiple_of(2)
        && !text.contains("``")
        && !text.starts_with(['#', '-', '*', '+', '>', '|', '=', '~', '_', '!', '[', ' '])
}

/// A line of prose that holds no markup of its own: for words of others inside our lists.
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_code = false;
    // An odd number of backticks would turn the rest of the line into code.
    let is_even = text.matches('`').count().is_multiple_of(2);
    for sign in text.chars() {
        match sign {
            '`' if is_even => {
                is_code = !is_code;
                out.push(sign);
            }
            '`' => out.push('\''),
            '<' if !is_code => out.push_str("&lt;"),
            _ => out.push(sign),
        }
    }
    out
}

/// A text as inline code, whatever it holds.
pub fn inline_code(text: &str) -> String {
    if !text.contains('`') {
        return format!("`{text}`");
    }
    let fence = fence_for(text);
    format!("{fence} {text} {fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_told_from_words() {
        assert_eq!(
            classify_user_text("<system-reminder>be good</system-reminder>"),
            UserText::Nothing
        );
        assert_eq!(
            classify_user_text("fix it\n<system-reminder>x <b> y</system-reminder>"),
            UserText::Words("fix it".into())
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
        assert_eq!(
            classify_user_text("<bash-input>ls -la</bash-input>"),
            UserText::Shell("ls -la".into())
        );
    }

    #[test]
    fn terminal_codes_and_data_go() {
        assert_eq!(
            strip_control_codes("\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7} text\r\nnext\u{8}"),
            "red text\nnext"
        );
        let data = format!("image {} end", "QUJD".repeat(200));
        assert_eq!(strip_control_codes(&data), "image [data] end");
        assert!(matches!(strip_control_codes("as it was\n\tis"), Cow::Borrowed(_)));
    }

    #[test]
    fn intentions_become_deeds() {
        assert_eq!(strip_intent("Now let me update the parser:"), "Update the parser");
        assert_eq!(strip_intent("Good. I'll run the tests."), "Run the tests");
        assert_eq!(strip_intent("The parser is wrong"), "The parser is wrong");
        assert_eq!(
            first_statement("Done. The parser reads both forms now."),
            Some("The parser reads both forms now.")
        );
    }

    #[test]
    fn lines_are_cut_with_a_mark() {
        assert_eq!(to_one_line("one  two\nthree", 100), "one two three");
        assert_eq!(to_one_line("one two three", 8), "one two…");
        assert_eq!(to_one_line("abcdefghij", 5), "abcd…");
    }

    #[test]
    fn code_and_prose_stay_what_they_are() {
        assert_eq!(inline_code("a`b"), "``` a`b ```");
        assert_eq!(escape_markdown("a <b> `<c>` d"), "a &lt;b> `<c>` d");
        assert_eq!(escape_markdown("odd ` tick"), "odd ' tick");
    }
}
