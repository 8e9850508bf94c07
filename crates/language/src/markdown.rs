//! Markdown: code fences, and text that is quoted inside it.

/// Tracks which lines of a text are inside a code fence.
#[derive(Debug, Default)]
pub struct CodeFence {
    open: Option<(char, usize)>,
}

impl CodeFence {
    /// Takes the next line and returns whether it is part of a fence, opening and closing lines included.
    pub fn is_inside(&mut self, line: &str) -> bool {
        let line = line.trim_start();
        let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'));
        let run = sign.map_or(0, |sign| line.chars().take_while(|other| *other == sign).count());
        match (self.open, sign) {
            (None, Some(sign)) if run >= 3 => {
                // A fence that closes on its own line opens nothing.
                let is_closed = sign == '`' && line[run..].contains("```");
                self.open = (!is_closed).then_some((sign, run));
                true
            }
            (Some((open, least)), Some(sign)) if open == sign && run >= least && line[run..].trim().is_empty() => {
                self.open = None;
                true
            }
            (open, _) => open.is_some(),
        }
    }
}

/// Returns a fence that nothing inside the text can close.
pub fn fence_for(text: &str) -> String {
    let longest = text.split(|sign| sign != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Returns whether a text is one line that Markdown shows as it is.
pub fn is_plain_markdown(text: &str) -> bool {
    !text.contains(['\n', '<'])
        && text.matches('`').count().is_multiple_of(2)
        && !text.contains("``")
        && !text.starts_with(['#', '-', '*', '+', '>', '|', '=', '~', '_', '!', '[', ' '])
}

/// Escapes a line of prose so that it cannot add markup to the list or quotation around it.
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

/// Formats a text as inline code, with a fence that is long enough for it.
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
    fn fences_are_tracked_line_by_line() {
        let mut fence = CodeFence::default();
        let lines = [
            "a",
            "````rust",
            "```",
            "x",
            "````",
            "b",
            "```one line```",
            "c",
            "~~~",
            "```",
            "~~~",
            "d",
        ];
        let inside = lines.map(|line| fence.is_inside(line));
        let expected = "a....b.c...d".chars().map(|sign| sign == '.').collect::<Vec<_>>();
        assert_eq!(inside.to_vec(), expected);
    }

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        assert_eq!(fence_for("plain"), "```");
        assert_eq!(fence_for("a ```` b"), "`````");
    }

    #[test]
    fn code_and_prose_stay_what_they_are() {
        assert_eq!(inline_code("a`b"), "``` a`b ```");
        assert_eq!(escape_markdown("a <b> `<c>` d"), "a &lt;b> `<c>` d");
        assert_eq!(escape_markdown("odd ` tick"), "odd ' tick");
    }
}
