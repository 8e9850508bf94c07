//! What a message of the user holds besides their own words: output of terminals and of builds that they pasted.

use language::shorten::to_one_line;
use std::borrow::Cow;

/// Marks of a line that a build service wrote.
const BUILD_MARKS: [&str; 4] = ["##[", "Process completed with exit code", "npm ERR!", "npm error"];

/// Returns the words of the user in a message: what stands before and after output that they pasted. Empty if all is pasted.
pub fn strip_output(text: &str) -> Cow<'_, str> {
    let lines = text.lines().collect::<Vec<_>>();
    let is_output = lines.iter().map(|line| is_output_line(line)).collect::<Vec<_>>();
    let count = is_output.iter().filter(|is_output| **is_output).count();
    let filled = lines.iter().filter(|line| !line.trim().is_empty()).count();
    let is_build = || {
        lines
            .iter()
            .any(|line| BUILD_MARKS.iter().any(|mark| line.contains(mark)))
    };
    if count == 0 || count * 3 < filled && !is_build() {
        return Cow::Borrowed(text);
    }
    let first = is_output.iter().position(|is_output| *is_output).unwrap_or(0);
    let last = is_output.iter().rposition(|is_output| *is_output).unwrap_or(0);
    let before = lines[..first].join("\n");
    let after = lines[last + 1..].iter().filter(|line| is_prose(line)).copied();
    let after = after.collect::<Vec<_>>().join("\n");
    Cow::Owned(match (before.trim(), after.trim()) {
        (before, "") => before.to_owned(),
        ("", after) => after.to_owned(),
        (before, after) => format!("{before}\n…\n{after}"),
    })
}

/// Returns the line of pasted output that says what is wrong; the last line if none does.
pub fn telling_line(text: &str) -> String {
    let says_error = |line: &&str| {
        let low = line.to_lowercase();
        ["error", "fail", "panic", "exception", "denied"]
            .iter()
            .any(|word| low.contains(word))
            && !BUILD_MARKS.iter().any(|mark| line.contains(mark))
    };
    let filled = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = filled().find(says_error).or_else(|| filled().next_back());
    to_one_line(line.unwrap_or_default(), 160)
}

/// Returns whether a line is prose: several words that begin with a letter.
fn is_prose(line: &str) -> bool {
    let line = line.trim();
    let words = line.split_whitespace().count();
    let letters = line.chars().filter(|sign| sign.is_alphabetic() || *sign == ' ').count();
    line.starts_with(char::is_alphabetic)
        && (words >= 4 || line.ends_with(['?', '.', '!']) || !line.is_ascii())
        && letters * 10 >= line.chars().count() * 8
}

/// Returns whether a program wrote a line: a shell prompt, a time stamp, a duration, a frame of code or of a stack.
fn is_output_line(line: &str) -> bool {
    let line = line.trim();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    let is_duration = digits > 0 && matches!(rest, "s" | "ms" | "m" | "h");
    let is_frame = digits > 0 && rest.trim_start().starts_with("| ");
    is_duration
        || is_frame
        || starts_with_time(line.trim_start_matches(['[', '(']).as_bytes())
        || is_shell_prompt(line)
        || line.starts_with("--> ")
        || line.starts_with("at ") && line.ends_with(')') && line.contains(':')
        || line.starts_with("File \"") && line.contains(", line ")
        || BUILD_MARKS.iter().any(|mark| line.contains(mark))
}

/// Returns whether a line starts with a date or a time of day.
fn starts_with_time(line: &[u8]) -> bool {
    let has_form = |form: &[u8]| {
        let fits = |(byte, sign): (&u8, &u8)| match sign {
            b'0' => byte.is_ascii_digit(),
            _ => byte == sign,
        };
        line.len() > form.len() && std::iter::zip(line, form).all(fits)
    };
    has_form(b"00:00:00") || has_form(b"0000-00-00T00:") || has_form(b"0000-00-00 00:") || has_form(b"0000/00/00 00:")
}

/// Returns whether a line is a command after the prompt of a shell.
fn is_shell_prompt(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let names_host = first
        .split_once('@')
        .is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !user.contains(['"', '`', '<']));
    line.starts_with("$ ")
        || line.starts_with("❯ ")
        || names_host && [" % ", "$ ", "# "].iter().any(|end| line.contains(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_output_is_separated_from_the_words_around_it() {
        let tail =
            "ada@host shop % tail -f a.log\n12:00:01 start\n12:00:02 stop\n\nthe page does not show the total...";
        assert_eq!(strip_output(tail), "the page does not show the total...");
        let build = "0s\nRun make check\nF401 unused import\nError: Process completed with exit code 2.";
        assert_eq!(strip_output(build), "");
        assert_eq!(telling_line("Run it\nthe import failed\nmore"), "the import failed");
        let words = "Use port 8080.\n10s is enough for it, and a user@host is not needed\nand so on\nand on\nand on";
        assert_eq!(strip_output(words), words);
    }
}
