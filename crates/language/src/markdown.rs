//! Markdown: code fences.

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
}
