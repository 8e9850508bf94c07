//! What was really said: without what the client wraps around it, terminal codes and data that nobody reads.

use crate::template::Fence;
use std::borrow::Cow;

/// What a text in the user's name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
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

/// Elements that the client puts around or between a person's words. Others may be pasted, and stay.
const CLIENT_ELEMENTS: [&str; 14] = [
    "system-reminder",
    "local-command-caveat",
    "local-command-stdout",
    "local-command-stderr",
    "bash-stdout",
    "bash-stderr",
    "task-notification",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    "user-prompt-submit-hook",
    "user-memory-input",
    "post-tool-use-hook",
];

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

/// What a person said in a text that is in their name.
pub fn typed(text: &str) -> Typed {
    let start = text.trim_start();
    if start.starts_with("[Request interrupted by user") {
        return Typed::Interrupted;
    }
    if start.starts_with("Caveat: The messages below") {
        return Typed::Nothing;
    }
    if start.starts_with("<command-") {
        return command(start);
    }
    if let Some(line) = element(start, "bash-input").filter(|_| start.starts_with("<bash-input>")) {
        return Typed::Shell(plain(line).trim().to_owned());
    }
    let words = plain(&without_elements(text, &CLIENT_ELEMENTS)).trim().to_owned();
    match words.is_empty() {
        true => Typed::Nothing,
        false => Typed::Words(words),
    }
}

fn command(text: &str) -> Typed {
    let name = element(text, "command-name")
        .or_else(|| element(text, "command-message"))
        .unwrap_or_default()
        .trim();
    let name = format!("/{}", name.trim_start_matches('/'));
    let given = element(text, "command-args").unwrap_or_default().trim();
    if HOUSEKEEPING.contains(&name.as_str()) || name == "/" {
        // What somebody wants of a compaction is no part of the work either.
        return Typed::Nothing;
    }
    Typed::Command(plain(format!("{name} {given}").trim()).into_owned())
}

/// The inside of the first element of a name.
pub fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    Some(
        after
            .split_once(&format!("</{name}>"))
            .map_or(after, |(inside, _)| inside),
    )
}

/// The text without some elements and what is in them.
pub fn without_elements<'t>(text: &'t str, names: &[&str]) -> Cow<'t, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    'text: while let Some(at) = rest.find('<') {
        for name in names {
            let after = &rest[at + 1..];
            let is_it = after
                .strip_prefix(name)
                .is_some_and(|after| after.starts_with(['>', ' ']));
            if is_it {
                let closing = format!("</{name}>");
                out.push_str(&rest[..at]);
                let Some(end) = after.find(&closing) else {
                    rest = "";
                    break 'text;
                };
                rest = &after[end + closing.len()..];
                continue 'text;
            }
        }
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// What a tool printed, without wrappers.
pub fn printed(text: &str) -> Cow<'_, str> {
    let without = without_elements(text, &["system-reminder", "post-tool-use-hook", "new-diagnostics"]);
    let unwrapped = match without.contains("tool_use_error>") {
        true => Cow::Owned(without.replace("<tool_use_error>", "").replace("</tool_use_error>", "")),
        false => without,
    };
    match plain(&unwrapped) {
        Cow::Borrowed(same) if same.len() == unwrapped.len() => unwrapped,
        other => Cow::Owned(other.into_owned()),
    }
}

/// Runs of letters and digits longer than this are data, not words.
const DATA: usize = 300;

/// Without terminal codes, other control characters and encoded data.
pub fn plain(text: &str) -> Cow<'_, str> {
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
        out = without_data(&out);
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
    let mut at = DATA;
    while at < text.len() {
        if is_data(text[at]) {
            let before = text[..at].iter().rev().take_while(|byte| is_data(**byte)).count();
            let after = text[at..].iter().take_while(|byte| is_data(**byte)).count();
            if before + after > DATA {
                return true;
            }
            at += after;
        }
        at += DATA;
    }
    false
}

fn without_data(text: &str) -> String {
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
            _ if run > DATA => out.push_str("[data]"),
            _ => out.push_str(&rest[..run]),
        }
        rest = &rest[run..];
    }
    out
}

/// A text as one line of at most `most` characters, with a mark where it was cut.
pub fn line(text: &str, most: usize) -> String {
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

/// Prose of an answer, sentence by sentence: no code, no tables; headings and list items are sentences of their own.
pub fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fence = Fence::default();
    for line in text.lines() {
        if fence.is_inside(line) {
            continue;
        }
        let line = line.trim().trim_start_matches(['#', '>', '-', '*', '•', ' ']);
        if line.starts_with('|') || line.is_empty() {
            continue;
        }
        let mut start = 0;
        let mut signs = line.char_indices().peekable();
        while let Some((at, sign)) = signs.next() {
            let end = at + sign.len_utf8();
            let is_end = match sign {
                '。' | '！' | '？' => true,
                '.' | '!' | '?' => {
                    signs.peek().is_none_or(|(_, next)| next.is_whitespace()) && !is_short_form(&line[start..at])
                }
                _ => false,
            };
            if is_end {
                push(&mut found, &line[start..end]);
                start = end;
            }
        }
        push(&mut found, &line[start..]);
    }
    found
}

fn is_short_form(before: &str) -> bool {
    let word = before.rsplit([' ', '(']).next().unwrap_or_default();
    matches!(word, "e.g" | "i.e" | "etc" | "vs" | "approx" | "cf" | "Dr" | "Mr")
}

fn push<'t>(found: &mut Vec<&'t str>, sentence: &'t str) {
    let sentence = sentence.trim();
    if sentence.chars().filter(|sign| sign.is_alphabetic()).count() >= 3 {
        found.push(sentence);
    }
}

/// A sentence about what somebody is about to do, as what was done: without "now let me".
pub fn deed(sentence: &str) -> String {
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
pub fn opening(text: &str) -> Option<&str> {
    let all = sentences(text);
    all.iter()
        .find(|sentence| sentence.chars().count() >= 25 && !sentence.ends_with([':', '：']))
        .or(all.first())
        .copied()
}

/// Whether a line can stand in Markdown as it is and mean the same.
pub fn is_tame(text: &str) -> bool {
    !text.contains(['\n', '<'])
        && text.matches('`').count().is_multiple_of(2)
        && !text.contains("``")
        && !text.starts_with(['#', '-', '*', '+', '>', '|', '=', '~', '_', '!', '[', ' '])
}

/// A line of prose that holds no markup of its own: for words of others inside our lists.
pub fn tame(text: &str) -> String {
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
pub fn code(text: &str) -> String {
    if !text.contains('`') {
        return format!("`{text}`");
    }
    let fence = super::super::template::fence_for(text);
    format!("{fence} {text} {fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_told_from_words() {
        assert_eq!(typed("<system-reminder>be good</system-reminder>"), Typed::Nothing);
        assert_eq!(
            typed("fix it\n<system-reminder>x <b> y</system-reminder>"),
            Typed::Words("fix it".into())
        );
        assert_eq!(
            typed("<div>pasted</div> why?"),
            Typed::Words("<div>pasted</div> why?".into())
        );
        assert_eq!(typed("[Request interrupted by user for tool use]"), Typed::Interrupted);
        let command = "<command-message>review is running</command-message>\n<command-name>/review</command-name>\n<command-args>12 carefully</command-args>";
        assert_eq!(typed(command), Typed::Command("/review 12 carefully".into()));
        assert_eq!(typed("<command-name>/exit</command-name>"), Typed::Nothing);
        assert_eq!(typed("<bash-input>ls -la</bash-input>"), Typed::Shell("ls -la".into()));
    }

    #[test]
    fn terminal_codes_and_data_go() {
        assert_eq!(
            plain("\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7} text\r\nnext\u{8}"),
            "red text\nnext"
        );
        let data = format!("image {} end", "QUJD".repeat(200));
        assert_eq!(plain(&data), "image [data] end");
        assert!(matches!(plain("as it was\n\tis"), Cow::Borrowed(_)));
    }

    #[test]
    fn sentences_of_prose_only() {
        let text = "## Done\nI changed `a.rs` e.g. the parser. It works!\n```\ncode. more\n```\n- item one\n| a | b |\n好的。再见";
        assert_eq!(
            sentences(text),
            ["Done", "I changed `a.rs` e.g. the parser.", "It works!", "item one"]
        );
    }

    #[test]
    fn intentions_become_deeds() {
        assert_eq!(deed("Now let me update the parser:"), "Update the parser");
        assert_eq!(deed("Good. I'll run the tests."), "Run the tests");
        assert_eq!(deed("The parser is wrong"), "The parser is wrong");
        assert_eq!(
            opening("Done. The parser reads both forms now."),
            Some("The parser reads both forms now.")
        );
    }

    #[test]
    fn lines_are_cut_with_a_mark() {
        assert_eq!(line("one  two\nthree", 100), "one two three");
        assert_eq!(line("one two three", 8), "one two…");
        assert_eq!(line("abcdefghij", 5), "abcd…");
    }

    #[test]
    fn code_and_prose_stay_what_they_are() {
        assert_eq!(code("a`b"), "``` a`b ```");
        assert_eq!(tame("a <b> `<c>` d"), "a &lt;b> `<c>` d");
        assert_eq!(tame("odd ` tick"), "odd ' tick");
    }
}
