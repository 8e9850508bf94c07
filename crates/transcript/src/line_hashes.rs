//! Hashes of content lines, to decide later whether a line of a file is still in the window.
//!
//! Kept apart from the log because they are as large as the rest and few questions need them. Every text of a block
//! yields the hashes of its lines, trimmed and without the line numbers and paths that tools print before them; lines
//! shorter than six characters are too common to count. Texts are separated by role: shown to the model, replaced by an
//! edit, or written by one.

use crate::pack::{PackReader, PackWriter, UnpackError};

coded_enum! {
    /// Role of a text with regard to the files in the window.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TextRole {
        /// Shown to the model: results, prompts, its own text, attachments.
        Shown = 0,
        /// Replaced by an edit.
        Replaced = 1,
        /// Written by an edit or a write.
        Written = 2,
        /// A prompt, the model's own text or a command, searched for file names.
        Named = 3,
    }
}

/// Line hashes of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSet {
    /// Number of the block in the log.
    pub block: u32,
    /// Role of the text.
    pub role: TextRole,
    /// Hashes of the lines, in order, without consecutive duplicates; for [`TextRole::Named`], of the paths in the
    /// text.
    pub lines: Vec<u32>,
}

/// Splits a text at newlines. Carriage returns stay; [`line_hash`] trims them.
fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', text.as_bytes())
        .chain(std::iter::once(text.len()))
        .map(move |end| {
            let line = &text[start..end];
            start = end + 1;
            line
        })
}

/// Returns the hash of a line, or `None` if it is too short to be distinctive.
pub fn line_hash(line: &str) -> Option<u32> {
    let line = strip_prefix(line.trim()).trim();
    (line.chars().nth(5).is_some()).then(|| xxhash_rust::xxh3::xxh3_64(line.as_bytes()) as u32)
}

/// Strips what tools print before a line: `12→`, `12` and a tab, `12:`, `path:12:`.
fn strip_prefix(line: &str) -> &str {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        let rest = &line[digits..];
        let unnumbered = rest
            .strip_prefix('→')
            .or_else(|| rest.strip_prefix('\t'))
            .or_else(|| rest.strip_prefix(':'));
        if let Some(rest) = unnumbered {
            return rest;
        }
    }
    // Most lines have no colon, or prose before it: look for the number only behind a path.
    let Some(colon) = memchr::memchr(b':', line.as_bytes()) else {
        return line;
    };
    let (path, rest) = (&line[..colon], &line[colon + 1..]);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    match rest[digits..].strip_prefix(':') {
        Some(rest) if digits > 0 && is_path(path) => rest,
        _ => line,
    }
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace) && text.contains(['/', '.', '\\'])
}

/// Returns the hash of a file name or of the end of a path.
pub fn name_hash(name: &str) -> u32 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32
}

/// Finds what looks like a file name or the end of a path in a text.
pub fn find_file_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_between_names).filter_map(parse_file_name)
}

/// Returns whether a character ends a file name: white space, quotes, brackets, list separators.
fn is_between_names(letter: char) -> bool {
    matches!(
        letter,
        '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '|' | ',' | ';' | '=' | '*' | '&'
    ) || letter.is_whitespace()
        || matches!(letter, '\u{201c}' | '\u{201d}')
}

/// Longer words are not file names.
const LONGEST_NAME: usize = 300;

fn parse_file_name(word: &str) -> Option<&str> {
    if word.len() > LONGEST_NAME || !word.contains(['.', '/']) || word.contains("://") {
        return None;
    }
    let word = word.trim_start_matches('@').trim_end_matches(['.', ':', '!', '?']);
    // Strip a position in the file: `:12`, `:12:5`, `#L12`.
    let word = word.split_once("#L").map_or(word, |(path, _)| path);
    let word = word.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == ':');
    let word = word.strip_prefix("./").unwrap_or(word);
    let (_, last) = word.rsplit_once('/').unwrap_or(("", word));
    let (stem, ending) = last.rsplit_once('.')?;
    let is_ending = (1..=8).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.bytes().any(|byte| byte.is_ascii_alphabetic());
    (is_ending && (!stem.is_empty() || word.len() > last.len())).then_some(word)
}

/// Line hashes of a log.
#[derive(Debug, Default)]
pub struct LineHashes {
    /// Line sets in the order of their blocks.
    pub sets: Vec<LineSet>,
}

impl LineHashes {
    /// Adds one text of a block. Consecutive texts of one block with the same role form one set.
    pub fn add(&mut self, block: u32, role: TextRole, text: &str) {
        let mut lines = match role {
            TextRole::Named => find_file_names(text).map(name_hash).collect::<Vec<_>>(),
            TextRole::Shown | TextRole::Replaced | TextRole::Written => {
                split_lines(text).filter_map(line_hash).collect()
            }
        };
        lines.dedup();
        if lines.is_empty() {
            return;
        }
        match self
            .sets
            .last_mut()
            .filter(|last| last.block == block && last.role == role)
        {
            Some(last) => last.lines.extend(lines),
            None => self.sets.push(LineSet { block, role, lines }),
        }
    }

    /// Appends the hashes of the next part of the log, whose blocks are numbered from `first_block`.
    pub fn append(&mut self, other: LineHashes, first_block: u32) {
        let moved = other.sets.into_iter().map(|set| LineSet {
            block: set.block + first_block,
            ..set
        });
        self.sets.extend(moved);
    }

    /// Returns the packed form: per set the distance to the previous block, role, count and hashes.
    pub fn pack(&self) -> Vec<u8> {
        let mut out = PackWriter { bytes: Vec::new() };
        let mut block = 0;
        for set in &self.sets {
            out.number((u64::from(set.block - block) << 2) | set.role as u64);
            out.number(set.lines.len() as u64);
            for line in &set.lines {
                out.bytes.extend_from_slice(&line.to_le_bytes());
            }
            block = set.block;
        }
        out.bytes
    }

    /// Reads the packed form. Invalid bytes give an error, never a panic.
    pub fn unpack(bytes: &[u8]) -> Result<LineHashes, UnpackError> {
        let mut input = PackReader { bytes };
        let mut hashes = LineHashes::default();
        let mut block = 0u32;
        while !input.bytes.is_empty() {
            let head = input.number()?;
            block = u32::try_from(head >> 2)
                .ok()
                .and_then(|step| block.checked_add(step))
                .ok_or(UnpackError)?;
            let role = TextRole::from_code(head & 3).ok_or(UnpackError)?;
            let length = usize::try_from(input.number()?)
                .ok()
                .and_then(|count| count.checked_mul(4))
                .ok_or(UnpackError)?;
            let lines = input.slice(length)?;
            let lines = lines
                .as_chunks::<4>()
                .0
                .iter()
                .map(|line| u32::from_le_bytes(*line))
                .collect();
            hashes.sets.push(LineSet { block, role, lines });
        }
        Ok(hashes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_prefixes_of_tools_are_ignored() {
        let plain = line_hash("let total = 0;");
        assert!(plain.is_some());
        for shown in [
            "    12→let total = 0;",
            "12\tlet total = 0;",
            "12:    let total = 0;",
            "src/lib.rs:12:    let total = 0;",
            "\tlet total = 0;  ",
        ] {
            assert_eq!(line_hash(shown), plain, "{shown}");
        }
        assert_eq!(line_hash("  } "), None);
        assert_ne!(line_hash("note: see 12: let total = 0;"), plain, "prose is no path");
    }

    #[test]
    fn file_names_are_found_in_text() {
        let text = "Look at src/lib.rs:12, `./app/main.ts` and (README.md). See https://a.example/b.html, e.g. v1.2 or 3.5; \
                    @docs/plan.md#L4-L9 and /srv/app/.env.local? No: and/or, a.b.";
        let found = find_file_names(text).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                "src/lib.rs",
                "app/main.ts",
                "README.md",
                "e.g",
                "docs/plan.md",
                "/srv/app/.env.local",
                "a.b"
            ]
        );
    }

    #[test]
    fn packing_round_trips() {
        let mut hashes = LineHashes::default();
        hashes.add(0, TextRole::Shown, "first line\nfirst line\nsecond line\n{\n");
        hashes.add(3, TextRole::Replaced, "first line");
        hashes.add(3, TextRole::Written, "another line");
        hashes.add(3, TextRole::Written, "and one more");
        hashes.add(4, TextRole::Named, "see a/b.rs");
        assert_eq!(
            hashes.sets.iter().map(|set| set.lines.len()).collect::<Vec<_>>(),
            [2, 1, 2, 1]
        );
        let packed = hashes.pack();
        assert_eq!(LineHashes::unpack(&packed).unwrap().sets, hashes.sets);
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 1;
            let _ = LineHashes::unpack(&damaged);
            let _ = LineHashes::unpack(&packed[..at]);
        }
    }
}
