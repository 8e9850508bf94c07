//! Text made safe for a terminal or a shell.

/// Returns text that cannot act on the terminal. Control characters (escape sequences, line breaks) become spaces; marks
/// that reorder the line or have no width, and could hide text, are removed.
pub fn sanitize(text: &str) -> String {
    let is_visible = |c: &char| {
        let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let hides = matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{feff}');
        !reorders && !hides
    };
    let to_plain = |c: char| {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            ' '
        } else {
            c
        }
    };
    text.chars().filter(is_visible).map(to_plain).collect()
}

/// Returns text quoted as one word of a POSIX shell, where it needs quotes.
pub fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:@%+=~".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_are_quoted_where_needed() {
        assert_eq!(shell_quote("logs/a.jsonl"), "logs/a.jsonl");
        assert_eq!(shell_quote("my logs"), "'my logs'");
        assert_eq!(shell_quote("it's $(x)"), "'it'\\''s $(x)'");
        assert_eq!(shell_quote(""), "''");
    }

    #[test]
    fn text_cannot_act_on_the_terminal() {
        let hostile = "a\u{1b}[31mb\nc\td\u{7}\u{9b}e\u{202e}f\u{2028}g\u{200b}h";
        assert_eq!(sanitize(hostile), "a [31mb c d  ef gh");
    }
}
