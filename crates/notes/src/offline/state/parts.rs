//! The parts of a shell command: what stands between `&&`, `;` and pipes, without quotes, redirections and here-documents.

use std::borrow::Cow;

/// Joins the lines of a command that a backslash continues.
pub fn join_lines(command: &str) -> Cow<'_, str> {
    match command.contains("\\\n") {
        true => Cow::Owned(command.replace("\\\n", " ")),
        false => Cow::Borrowed(command),
    }
}

/// Splits a command at `&&`, `||`, `;` and line ends outside of quotes. Of a pipe, the first program counts: what follows
/// filters its output. Here-documents must be dropped before: see [`drop_here_documents`].
pub fn split_parts(command: &str) -> Vec<&str> {
    let (mut parts, mut start, mut quote, mut is_piped) = (Vec::new(), 0, None, false);
    let bytes = command.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'\\') => at += 1,
            (None, b'&' | b'|' | b';' | b'\n') => {
                let is_double = bytes.get(at + 1) == Some(&byte) && matches!(byte, b'&' | b'|');
                let is_redirect =
                    byte == b'&' && !is_double && (at > 0 && bytes[at - 1] == b'>' || bytes.get(at + 1) == Some(&b'>'));
                if !is_redirect {
                    if !is_piped {
                        parts.push(command[start..at].trim());
                    }
                    is_piped = byte == b'|' && !is_double;
                    at += usize::from(is_double);
                    start = at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if !is_piped && start <= command.len() {
        parts.push(command.get(start..).unwrap_or_default().trim());
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the last program of a command with its arguments; it may be the filter of another one.
pub fn last_program(command: &str) -> &str {
    let (mut start, mut quote, mut before) = (0, None, b' ');
    let text = command.trim_end_matches([';', '\n', ' ', '&']);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') if before != b'\\' => quote = Some(byte),
            (None, b'|' | b';' | b'\n') if before != b'\\' => start = at + 1,
            (None, b'&') if before == b'&' => start = at + 1,
            _ => {}
        }
        before = byte;
    }
    text[start..].trim()
}

/// Returns whether the status of a command is that of a filter or a later part, so that a success says nothing.
pub fn hides_status(command: &str) -> bool {
    let command = drop_here_documents(command);
    [
        "| tail", "|tail", "| head", "|head", "| grep", "|grep", "| tee", "| cat", "| sed", "|| true", "|| echo",
        "; echo",
    ]
    .iter()
    .any(|filter| command.contains(filter))
}

/// Returns the paths that a command removes.
pub fn removed_paths(command: &str) -> Vec<String> {
    if !command.contains("rm ") {
        return Vec::new();
    }
    let joined = join_lines(command);
    let bare = drop_here_documents(&joined);
    let mut paths = Vec::new();
    for part in split_parts(&bare) {
        let mut words = split_words(part).into_iter();
        if words.next().is_some_and(|word| word == "rm") {
            paths.extend(words.filter(|word| !word.starts_with('-') && word.len() > 1));
        }
    }
    paths
}

/// Drops the bodies of here-documents, and of here-strings of PowerShell.
pub fn drop_here_documents(command: &str) -> Cow<'_, str> {
    let without = drop_here_strings(command);
    if !without.contains("<<") {
        return without;
    }
    let command = without.as_ref();
    let (mut kept, mut end) = (String::new(), None::<String>);
    for line in command.lines() {
        if let Some(mark) = &end {
            if line.trim() == mark {
                end = None;
            }
            continue;
        }
        let opened = line
            .split_once("<<")
            .map(|(before, after)| (before, after.trim_start_matches('-').trim_start()));
        let Some((before, after)) = opened.filter(|(_, after)| !after.starts_with('<')) else {
            kept.push_str(line);
            kept.push('\n');
            continue;
        };
        let bare = after.trim_start_matches(['\'', '"', '\\']);
        let mark = bare.split(|sign: char| !(sign.is_alphanumeric() || sign == '_')).next();
        end = mark.filter(|mark| !mark.is_empty()).map(str::to_owned);
        let rest = mark.map_or("", |mark| bare[mark.len()..].trim_start_matches(['\'', '"']));
        kept.push_str(before);
        kept.push_str(rest);
        kept.push('\n');
    }
    Cow::Owned(kept)
}

/// Drops the bodies of here-strings of PowerShell: from `@'` at the end of a line to `'@` at the start of one.
fn drop_here_strings(command: &str) -> Cow<'_, str> {
    if !command.contains("@'\n") && !command.contains("@\"\n") {
        return Cow::Borrowed(command);
    }
    let (mut kept, mut rest) = (String::new(), command);
    while let Some(at) = ["@'\n", "@\"\n"].iter().filter_map(|open| rest.find(open)).min() {
        let close = if rest[at..].starts_with("@'") { "\n'@" } else { "\n\"@" };
        kept.push_str(&rest[..at]);
        let Some(end) = rest[at + 2..].find(close) else {
            return Cow::Owned(kept);
        };
        rest = &rest[at + 2 + end + close.len()..];
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// Splits a part of a command into words, without quotes, brackets of a subshell and redirections.
pub fn split_words(part: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for sign in part.trim_start_matches(['(', '{', ' ', '!']).chars() {
        match (quote, sign) {
            (Some(open), _) if sign == open => quote = None,
            (Some(_), _) => word.push(sign),
            (None, '"' | '\'') => (quote, is_word) = (Some(sign), true),
            (None, _) if sign.is_whitespace() => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (None, _) => word.push(sign),
        }
    }
    if is_word || !word.is_empty() {
        words.push(word);
    }
    drop_redirections(words)
}

fn drop_redirections(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut is_file = false;
    for word in words {
        let bare = word.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == '&');
        if std::mem::take(&mut is_file) {
            continue;
        }
        match bare.strip_prefix(['>', '<']) {
            Some(rest) => is_file = rest.trim_start_matches(['>', '&']).is_empty(),
            None => kept.push(word),
        }
    }
    kept
}
