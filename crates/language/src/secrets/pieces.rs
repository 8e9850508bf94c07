//! Divides the text around a name into pieces: words and quoted texts, with what stands between them.

use super::{MASK, shape};

/// What stands between a piece and the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gap {
    /// `:`, `=`, an arrow, the wall of a table or a tag: what follows is the value of what stands before.
    pub is_link: bool,
    /// The sign alone is `=` or `:=`, as in programs.
    pub is_equals: bool,
    pub newlines: u8,
    /// A sentence ended.
    pub is_stop: bool,
    /// It was a question.
    pub is_question: bool,
    pub is_comma: bool,
    pub is_slash: bool,
    pub is_bracket: bool,
    pub is_dash: bool,
    /// The wall of a table: what follows is another cell.
    pub is_cell: bool,
    /// A mark of a list begins the line.
    pub is_item: bool,
}

/// A word or a quoted text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'t> {
    pub start: usize,
    pub end: usize,
    pub text: &'t str,
    pub is_quoted: bool,
    pub gap: Gap,
}

/// Reads pieces from left to right.
pub(super) struct PieceReader<'t> {
    text: &'t str,
    at: usize,
    end: usize,
    /// A quote that was open where reading began: the next one closes it.
    open: Option<char>,
}

/// Opening quotes and what closes them.
const QUOTES: [(char, &str); 14] = [
    ('"', "\""),
    ('\'', "'"),
    ('`', "`"),
    ('“', "”"),
    ('”', "”"),
    ('‘', "’"),
    ('「', "」"),
    ('『', "』"),
    ('《', "》"),
    ('«', "»"),
    ('„', "“"),
    ('【', "】"),
    ('〈', "〉"),
    ('＂', "＂"),
];

/// Returns whether a character belongs to a writing without blanks between words, or to its punctuation.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}')
}

impl<'t> PieceReader<'t> {
    pub fn new(text: &'t str, at: usize, end: usize) -> PieceReader<'t> {
        let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = &text[line.max(text.ceil_char_boundary(at.saturating_sub(400)))..at];
        let is_open = |quote: char| line.matches(quote).count() % 2 == 1;
        let open = ['`', '"'].into_iter().find(|quote| is_open(*quote));
        PieceReader { text, at, end, open }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..self.end]
    }

    /// Skips what divides pieces. Returns it with the closing quote if a quoted text follows.
    fn read_gap(&mut self) -> (Gap, Option<&'static str>) {
        let mut gap = Gap::default();
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else {
                return (gap, None);
            };
            let mut length = c.len_utf8();
            match c {
                '\n' => {
                    gap.newlines += 1;
                    length += line_number_length(&rest[1..]);
                    let line = self.text[self.at + length..self.end].trim_start_matches(' ');
                    gap.is_item = line.starts_with("- ") || line.starts_with("* ") || line.starts_with("• ");
                }
                '\r' => {}
                '\u{1b}' | '[' if sequence_length(rest) > 0 => length = sequence_length(rest),
                c if c.is_control() && c != '\t' => {}
                ' ' | '\t' | '\u{a0}' | '\u{3000}' => {}
                ':' | '：' | '＝' | '→' | '⇒' | '⟶' | '➜' => gap.is_link = true,
                '=' => {
                    gap.is_link = true;
                    gap.is_equals = true;
                }
                '-' | '–' | '—' | '~' if rest[length..].starts_with(['>', ' ', '-']) || c == '—' || c == '–' => {
                    if rest[length..].starts_with('>') {
                        gap.is_link = true;
                        length += 1;
                    }
                    gap.is_dash = true;
                }
                '|' | '│' if rest[length..].starts_with([' ', '\t', '-']) || rest.len() > 1 => {
                    gap.is_link = true;
                    gap.is_cell = true;
                }
                '>' => gap.is_link |= gap.newlines == 0,
                '<' if rest.starts_with("<<<") => {
                    gap.is_link = true;
                    length = 3;
                }
                '<' if is_tag(rest) => length = rest.find('>').map_or(1, |close| close + 1),
                '.' | '?' | '!' | '。' | '？' | '！'
                    if rest[length..].starts_with(|c: char| c.is_whitespace() || is_unspaced(c))
                        || length > 1
                        || rest.len() == 1 =>
                {
                    gap.is_stop = true;
                    gap.is_question |= matches!(c, '?' | '？');
                }
                '.' if rest.starts_with("...") => length = 3,
                '?' if rest.starts_with("??") => {}
                ',' | '，' | '、' | ';' | '；' => gap.is_comma = true,
                '/' if rest[length..].starts_with(' ') => gap.is_slash = true,
                '(' | '（' | '[' | '{' | ')' | '）' | ']' | '}' | '］' | '［' => {
                    if self.text[self.at..].starts_with(MASK) {
                        return (gap, None);
                    }
                    gap.is_bracket = true;
                }
                '\\' if rest[length..].starts_with(['"', '\'', '`']) => {}
                '\\' if rest[length..].starts_with(['n', 'r', 't']) => {
                    length += 1;
                    gap.newlines += u8::from(rest.as_bytes()[1] == b'n');
                }
                '*' | '_' if rest.starts_with("**") || rest.starts_with("__") => {
                    let mark = if c == '*' { "**" } else { "__" };
                    let inner = rest[2..].trim_start_matches([':', ' ']);
                    // Closing marks, or opening ones whose end is in sight.
                    if !rest[2..].starts_with([' ', ':', '\n'])
                        && inner.split('\n').next().is_some_and(|line| line.contains(mark))
                        && !inner.starts_with(['`', '"'])
                    {
                        self.at += 2;
                        return (gap, Some(mark));
                    }
                    length = 2;
                }
                '*' if rest[1..].starts_with([' ', '*'])
                    || self.at > 0 && self.text.as_bytes()[self.at - 1] == b'*' => {}
                '*' if is_emphasis(rest) => {}
                '`' if rest.starts_with("```") => {
                    // A fence: the name of a language follows.
                    let line = rest.split('\n').next().unwrap_or(rest);
                    let tag = line[3..].bytes().take_while(u8::is_ascii_alphanumeric).count();
                    length = if line.len() == 3 + tag { 3 + tag } else { 3 };
                }
                c if self.open == Some(c) => self.open = None,
                _ => {
                    if let Some((_, close)) = QUOTES.iter().find(|(open, _)| *open == c) {
                        if let Some(closed) = self.find_close(length, close) {
                            if closed == 0 {
                                self.at += length + close.len();
                                continue;
                            }
                            self.at += length;
                            return (gap, Some(close));
                        }
                    } else {
                        return (gap, None);
                    }
                }
            }
            self.at += length;
        }
    }

    /// Returns the length of the quoted text that a quote of `open` bytes begins; `None` if it is not closed soon.
    fn find_close(&self, open: usize, close: &str) -> Option<usize> {
        let inner = &self.rest()[open..];
        let line = inner.split('\n').next().unwrap_or(inner);
        let at = line.find(close).or_else(|| line.find('”').filter(|_| close == "“"))?;
        (at <= 200).then_some(at)
    }

    /// Returns the end of a word that begins here.
    fn word_length(&self) -> usize {
        let rest = self.rest();
        if rest.starts_with(MASK) {
            return MASK.len();
        }
        let mut before = ' ';
        for (at, c) in rest.char_indices() {
            let next = rest[at + c.len_utf8()..].chars().next().unwrap_or(' ');
            let ends = c.is_whitespace()
                || matches!(c, '→' | '⇒' | '—')
                || c.is_control()
                || c == '[' && sequence_length(&rest[at..]) > 0
                || is_unspaced(c)
                || matches!(c, '"' | '”' | '“' | '」' | '«' | '»')
                || matches!(c, '(' | '（') && is_unspaced(next)
                || c == '`' && !(before.is_alphanumeric() && next.is_alphanumeric())
                || c == '<' && (next == '/' || next.is_ascii_alphabetic() && rest[at..].contains('>'))
                || matches!(c, ',' | ';')
                    && (next.is_whitespace() || is_unspaced(next) || matches!(next, '"' | '\'' | '`'))
                || c == '|' && next.is_whitespace()
                || c == '\\' && matches!(next, 'n' | 'r' | 't' | '"' | '\'' | '`')
                || c == '\'' && at > 0 && !next.is_alphanumeric()
                || c == '*' && next == '*'
                || matches!(c, '=' | ':') && self.is_label(at) && !next.is_whitespace() && next != '='
                || c == '=' && before.is_alphanumeric() && matches!(next, '"' | '\'');
            if ends {
                return at;
            }
            before = c;
        }
        rest.len()
    }

    /// Returns whether the word up to `at` is the name of a field: `value=...`, `"pw":...`.
    fn is_label(&self, at: usize) -> bool {
        let label = &self.rest()[..at];
        const LABELS: &[&str] = &[
            "value", "val", "is", "set", "default", "new", "old", "pw", "pass", "p", "secret", "值",
        ];
        let is_variable = label.len() >= 3 && label.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        LABELS.contains(&label.to_ascii_lowercase().as_str())
            || self.rest().as_bytes()[at] == b'=' && is_variable
            || label.len() >= 3
                && self.rest().as_bytes()[at] == b'='
                && at < 30
                && shape::subwords(label).iter().all(|part| {
                    part.bytes().all(|byte| byte.is_ascii_alphabetic()) && super::prose::is_prose(part)
                        || super::names::contains_keyword(part)
                })
    }
}

/// Returns the length of the number of a line, as tools print it before the line: blanks, digits, an arrow or a tab.
fn line_number_length(text: &str) -> usize {
    let blanks = text.bytes().take_while(|byte| *byte == b' ').count();
    let digits = text[blanks..].bytes().take_while(u8::is_ascii_digit).count();
    let rest = &text[blanks + digits..];
    match (digits, rest.chars().next()) {
        (1.., Some(mark @ ('→' | '\t'))) => blanks + digits + mark.len_utf8(),
        _ => 0,
    }
}

/// Returns the length of the sequence that colors a terminal at the start of a text, with its escape or, where that was
/// stripped, without; 0 if there is none.
fn sequence_length(text: &str) -> usize {
    let escape = usize::from(text.starts_with('\u{1b}'));
    let Some(rest) = text[escape..].strip_prefix('[') else {
        return 0;
    };
    let parameters = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b';')
        .count();
    match rest.as_bytes().get(parameters) {
        Some(b'm') if parameters > 0 || escape > 0 => escape + 1 + parameters + 1,
        Some(last) if escape > 0 && last.is_ascii_alphabetic() => escape + 1 + parameters + 1,
        _ => 0,
    }
}

/// Returns whether a star opens the emphasis of words that another star closes in the same line.
fn is_emphasis(text: &str) -> bool {
    let line = text[1..].split('\n').next().unwrap_or_default();
    line.starts_with(|c: char| c.is_alphanumeric())
        && line
            .find('*')
            .is_some_and(|close| !line[close + 1..].starts_with(|c: char| c.is_alphanumeric()))
}

/// Returns whether a text begins with a tag of markup.
fn is_tag(text: &str) -> bool {
    let inner = &text[1..];
    let name = inner
        .trim_start_matches('/')
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"-_:.".contains(byte))
        .count();
    let known = [
        "b", "i", "em", "strong", "code", "pre", "span", "td", "tr", "th", "br", "kbd", "mark", "u", "p", "div", "li",
        "value", "string",
    ];
    let word = &inner.trim_start_matches('/')[..name];
    inner.starts_with('/') && name > 0 || known.contains(&word.to_ascii_lowercase().as_str()) && inner.contains('>')
}

impl<'t> Iterator for PieceReader<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let (gap, close) = self.read_gap();
        if self.at >= self.end {
            return None;
        }
        let start = self.at;
        if let Some(close) = close {
            let rest = self.rest();
            let length = rest.find(close).or_else(|| rest.find('”')).unwrap_or(rest.len());
            let inner = &rest[..length];
            self.at += length + close.len().min(rest.len() - length);
            let trimmed = inner.trim_end_matches('\\');
            // `**Password: hunter2**` and `"password is x"` are read word by word.
            return Some(Piece {
                start,
                end: start + trimmed.len(),
                text: trimmed,
                is_quoted: true,
                gap,
            });
        }
        let mut length = self.word_length();
        let rest = self.rest();
        if length == 0 {
            // A run of a writing without blanks is one piece, up to its punctuation.
            let run = rest.chars().take_while(|c| is_unspaced(*c) && c.is_alphanumeric());
            length = run.map(char::len_utf8).sum::<usize>();
            length = length.max(rest.chars().next().map_or(0, char::len_utf8));
        }
        let word = &rest[..length];
        let trimmed = trim_word(word);
        // What was trimmed divides this piece from the next.
        self.at = start + if trimmed.is_empty() { length } else { trimmed.len() };
        Some(Piece {
            start,
            end: start + trimmed.len(),
            text: trimmed,
            is_quoted: false,
            gap,
        })
    }
}

/// Returns a word without the punctuation of the sentence after it.
fn trim_word(word: &str) -> &str {
    let mut word = word;
    loop {
        let Some(last) = word.chars().next_back() else {
            return word;
        };
        let is_closing = match last {
            '.' | ',' | ';' | ':' | '\'' | '’' => true,
            '?' => true,
            ')' => word.matches('(').count() < word.matches(')').count(),
            ']' => word.matches('[').count() < word.matches(']').count() && !word.ends_with(MASK),
            '}' => word.matches('{').count() < word.matches('}').count(),
            '>' => !word.contains('<'),
            '*' => word.ends_with("**") || word.matches('*').count() == 1,
            _ => false,
        };
        if !is_closing || word.len() == last.len_utf8() {
            return word;
        }
        word = &word[..word.len() - last.len_utf8()];
    }
}
