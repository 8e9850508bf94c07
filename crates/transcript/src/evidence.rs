//! Hashes of content lines: what tells later whether a line of a file is still somewhere in the window.
//!
//! A part of the trace of its own, because it is as large as the rest and only some questions need it. Each
//! text of a block gives the hashes of its lines, trimmed, without the line numbers and paths that tools print before
//! them; lines shorter than six characters say too little. Texts are kept apart by what they mean: shown to the model,
//! replaced by an edit, or written by it.

use crate::pack::{PackReader, PackWriter, UnpackError};

/// What a text means for the files in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TextRole {
    /// The model saw it: results, prompts, its own text, attachments.
    Shown = 0,
    /// An edit replaces it.
    Replaced = 1,
    /// An edit or a write puts it there.
    Written = 2,
    /// Somebody's own words or a command, looked through for files that it names.
    Named = 3,
}

/// Lines of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSet {
    /// Number of the block in its log.
    pub block: u32,
    /// What the text means.
    pub role: TextRole,
    /// Hashes of its lines, in order, neighbours that are alike once; of [`Role::Named`], of the paths in it.
    pub lines: Vec<u32>,
}

/// Hash of a line, if it says enough to be told from others.
pub fn line_hash(line: &str) -> Option<u32> {
    let line = strip_prefix(line.trim()).trim();
    (line.chars().nth(5).is_some()).then(|| xxhash_rust::xxh3::xxh3_64(line.as_bytes()) as u32)
}

/// Drops what tools print before a line: `12→`, `12` and a tab, `path:12:` and `path-12-`.
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
    let mut parts = line.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(path), Some(number), Some(rest)) if is_path(path) && is_number(number) => rest,
        _ => line,
    }
}

fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace) && text.contains(['/', '.', '\\'])
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Hash of the name of a file, or of the end of its path.
pub fn name_hash(name: &str) -> u32 {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as u32
}

/// What in a text looks like the name of a file or the end of its path.
pub fn find_file_names(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |letter: char| letter.is_whitespace() || "\"'`()[]{}<>|,;=*&\u{201c}\u{201d}".contains(letter);
    text.split(is_between).filter_map(parse_file_name)
}

/// Longer words are no names.
const LONGEST_NAME: usize = 300;

fn parse_file_name(word: &str) -> Option<&str> {
    if word.len() > LONGEST_NAME || !word.contains(['.', '/']) || word.contains("://") {
        return None;
    }
    let word = word.trim_start_matches('@').trim_end_matches(['.', ':', '!', '?']);
    // A place in the file: `:12`, `:12:5`, `#L12`.
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

/// Gathers the lines of texts.
#[derive(Debug, Default)]
pub struct LineHashes {
    /// Line sets in the order of their blocks.
    pub sets: Vec<LineSet>,
}

impl LineHashes {
    /// Takes one text of a block. Several texts of one role in one block are one set.
    pub fn add(&mut self, block: u32, role: TextRole, text: &str) {
        let mut lines = match role {
            TextRole::Named => find_file_names(text).map(name_hash).collect::<Vec<_>>(),
            TextRole::Shown | TextRole::Replaced | TextRole::Written => text.lines().filter_map(line_hash).collect(),
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

    /// Joins the evidence of the next part of the log, whose blocks are numbered from `first_block` on.
    pub fn append(&mut self, other: LineHashes, first_block: u32) {
        let moved = other.sets.into_iter().map(|set| LineSet {
            block: set.block + first_block,
            ..set
        });
        self.sets.extend(moved);
    }

    /// Packs the sets: distance to the previous block, role, count, hashes.
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

    /// Reads the packed form. Wrong bytes give an error, never a panic.
    pub fn unpack(bytes: &[u8]) -> Result<LineHashes, UnpackError> {
        let mut input = PackReader { bytes };
        let mut evidence = LineHashes::default();
        let mut block = 0u32;
        while !input.bytes.is_empty() {
            let head = input.number()?;
            block = u32::try_from(head >> 2)
                .ok()
                .and_then(|step| block.checked_add(step))
                .ok_or(UnpackError)?;
            let role = match head & 3 {
                0 => TextRole::Shown,
                1 => TextRole::Replaced,
                2 => TextRole::Written,
                _ => TextRole::Named,
            };
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
            evidence.sets.push(LineSet { block, role, lines });
        }
        Ok(evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tools_print_before_a_line_does_not_count() {
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
    fn names_of_files_are_told_from_other_words() {
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
    fn packing_loses_nothing_and_damaged_bytes_never_panic() {
        let mut evidence = LineHashes::default();
        evidence.add(0, TextRole::Shown, "first line\nfirst line\nsecond line\n{\n");
        evidence.add(3, TextRole::Replaced, "first line");
        evidence.add(3, TextRole::Written, "another line");
        evidence.add(3, TextRole::Written, "and one more");
        evidence.add(4, TextRole::Named, "see a/b.rs");
        assert_eq!(
            evidence.sets.iter().map(|set| set.lines.len()).collect::<Vec<_>>(),
            [2, 1, 2, 1]
        );
        let packed = evidence.pack();
        assert_eq!(LineHashes::unpack(&packed).unwrap().sets, evidence.sets);
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 1;
            let _ = LineHashes::unpack(&damaged);
            let _ = LineHashes::unpack(&packed[..at]);
        }
    }
}
