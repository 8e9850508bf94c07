//! `MEMORY.md`, the index: a line per memory, the most useful first, within the limits of what the client loads. Lines that a
//! person wrote are kept as they are. If there is text between the entries, so is their order. Pure.

use crate::extract::truncate_words;
use crate::names;
use crate::topic::{Topic, to_one_line};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use transcript::log::Time;

/// How much of an index the client loads, and how long its lines are.
#[derive(Debug, Clone, Copy)]
pub struct IndexLimits {
    pub lines: usize,
    pub bytes: usize,
    /// Longest line that is written, in characters.
    pub line: usize,
}

impl Default for IndexLimits {
    /// Returns the limits of the client.
    fn default() -> IndexLimits {
        IndexLimits {
            lines: 200,
            bytes: 25_000,
            line: 150,
        }
    }
}

/// Characters of the hook that a line keeps at least when it is shortened.
const MIN_HOOK_CHARS: usize = 60;

/// Characters of the title that it keeps at least.
const MIN_TITLE_CHARS: usize = 24;

/// Start of the line that counts the lines left out.
const TRUNCATION_MARK: &str = "> **Cut:**";

/// An entry of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// Line number, from 1.
    pub line: usize,
    pub title: String,
    /// The file it links to, as written.
    pub file: String,
}

/// Parses an entry, `- [Title](file.md) — hook`, into title and file.
fn parse_entry(line: &str) -> Option<(&str, &str)> {
    let rest = line
        .trim_start()
        .strip_prefix(['-', '*'])?
        .trim_start()
        .strip_prefix('[')?;
    let (title, rest) = rest.split_once("](")?;
    let (file, _) = rest.split_once(')')?;
    Some((title, file))
}

/// Parses all entries of an index.
pub fn parse_entries(text: &str) -> Vec<IndexEntry> {
    let numbered = text.lines().enumerate();
    let read = |(at, line)| {
        parse_entry(line).map(|(title, file)| IndexEntry {
            line: at + 1,
            title: title.to_owned(),
            file: file.to_owned(),
        })
    };
    numbered.filter_map(read).collect()
}

/// Returns whether an entry links to something other than a memory: a URL, another index, a daily log.
pub fn is_foreign_link(file: &str) -> bool {
    file.contains("://") || file.starts_with('#') || names::is_inside(file) && !names::is_topic(file)
}

/// Returns the entry of a memory. If it is too long, the title is shortened before the hook, which says when the memory
/// applies.
pub fn entry_line(topic: &Topic, file: &str, limits: &IndexLimits) -> String {
    let title = escape_markdown(&topic.name()).replace(['[', ']'], "");
    let title = title.trim();
    let hook = escape_markdown(&topic.description());
    let line = |title: &str, hook: &str| match hook {
        "" => format!("- [{title}]({file})"),
        hook => format!("- [{title}]({file}) — {hook}"),
    };
    let whole = line(title, &hook);
    let length = |text: &str| text.chars().count();
    if length(&whole) <= limits.line {
        return whole;
    }
    let room = limits.line.saturating_sub(length(&line("", " ")) - 1);
    // If the link alone nearly fills the line, there is no room for a hook.
    if room < 2 * MIN_TITLE_CHARS {
        return line(&truncate_chars(title, 60), "");
    }
    let title = truncate_chars(
        title,
        room.saturating_sub(length(&hook).min(MIN_HOOK_CHARS))
            .max(MIN_TITLE_CHARS),
    );
    let hook = truncate_chars(&hook, room - length(&title));
    line(&title, &hook)
}

/// Shortens a text to at most `most` characters, including the ellipsis.
fn truncate_chars(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    truncate_words(text, most - 1)
}

/// Puts a text on one line and escapes raw HTML.
fn escape_markdown(text: &str) -> String {
    to_one_line(text).replace('<', "\\<")
}

/// A memory that an index lists.
#[derive(Debug, Clone, Copy)]
pub struct IndexedMemory<'a> {
    /// The path as the index links it.
    pub path: &'a str,
    pub topic: &'a Topic,
    /// The old version: a line that was generated from it is generated again.
    pub before: Option<&'a Topic>,
}

/// Returns the new text of an index. An entry that links to none of the memories is kept if `is_there` returns true for it.
pub fn rebuild_index(
    old: Option<&str>,
    memories: &[IndexedMemory],
    is_there: &dyn Fn(&str) -> bool,
    limits: &IndexLimits,
) -> String {
    let mut head = Vec::<&str>::new();
    let mut body = Vec::<(Option<&str>, String)>::new();
    let mut listed = BTreeSet::new();
    for text in old.unwrap_or_default().lines() {
        if text.starts_with(TRUNCATION_MARK) {
            continue;
        }
        let Some((_, file)) = parse_entry(text) else {
            match body.is_empty() {
                true => head.push(text),
                false => body.push((None, text.to_owned())),
            }
            continue;
        };
        if let Some(memory) = memories.iter().find(|memory| memory.path == file) {
            let is_made = memory
                .before
                .is_some_and(|before| entry_line(before, file, limits) == text);
            if listed.insert(file) {
                let kept = if is_made {
                    entry_line(memory.topic, file, limits)
                } else {
                    text.to_owned()
                };
                body.push((Some(file), kept));
            }
        } else if is_foreign_link(file) || is_there(file) {
            body.push((None, text.to_owned()));
        }
    }
    while body
        .last()
        .is_some_and(|(file, line)| file.is_none() && line.trim().is_empty())
    {
        body.pop();
    }
    let is_arranged = body.iter().any(|(file, _)| file.is_none());
    for memory in memories {
        if !listed.contains(memory.path) {
            body.push((Some(memory.path), entry_line(memory.topic, memory.path, limits)));
        }
    }
    if !is_arranged {
        body.sort_by_key(|(file, _)| sort_key(memories, file.unwrap_or_default()));
    }
    let lines = body.into_iter().map(|(_, line)| line).collect::<Vec<_>>();
    fit_lines(&head, &lines, limits)
}

/// Returns the sort key of an entry: confirmed most often first, then stated last, then by path.
fn sort_key<'a>(memories: &[IndexedMemory<'a>], file: &str) -> (Reverse<u64>, Reverse<Option<Time>>, &'a str) {
    let memory = memories.iter().find(|memory| memory.path == file);
    let confirmed = memory.map_or(0, |memory| memory.topic.confirmation_count());
    let said = memory.and_then(|memory| memory.topic.last_said_in_sources());
    (
        Reverse(confirmed),
        Reverse(said),
        memory.map_or("", |memory| memory.path),
    )
}

/// Joins as many lines as the client loads, and a last line that counts those left out.
fn fit_lines(head: &[&str], body: &[String], limits: &IndexLimits) -> String {
    let lines = head
        .iter()
        .copied()
        .chain(body.iter().map(String::as_str))
        .collect::<Vec<_>>();
    let size = lines.iter().map(|line| line.len() + 1).sum::<usize>();
    if lines.len() <= limits.lines && size <= limits.bytes {
        return lines.iter().flat_map(|line| [line, "\n"]).collect();
    }
    let note = |left: usize| {
        format!("{TRUNCATION_MARK} {left} more lines do not fit here; `backcast memory list` shows all memories.\n")
    };
    let room = limits.bytes.saturating_sub(note(lines.len()).len());
    let mut text = String::new();
    let mut count = 0;
    for line in &lines {
        if count + 1 >= limits.lines || text.len() + line.len() + 1 > room {
            break;
        }
        text.push_str(line);
        text.push('\n');
        count += 1;
    }
    text + &note(lines.len() - count)
}

/// Returns whether an index has the line that counts the lines left out.
pub fn is_truncated(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(TRUNCATION_MARK))
}

/// Returns the part of an index that the client loads: whole lines within the limits, and a warning if there is more.
pub fn loaded_part(text: &str, limits: &IndexLimits) -> String {
    let mut out = String::new();
    for (count, line) in text.split_inclusive('\n').enumerate() {
        if count >= limits.lines || out.len() + line.len() > limits.bytes {
            let left = text.lines().count() - count;
            out.push_str(&format!(
                "{TRUNCATION_MARK} {left} more lines of {} are not shown: it is over its limits.\n",
                names::INDEX_FILE
            ));
            break;
        }
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::MemoryKind;

    fn topic(file: &str, name: &str) -> Topic {
        Topic::new(file, name, "when it matters", MemoryKind::Feedback, "x")
    }

    fn built(old: Option<&str>, topics: &[Topic]) -> String {
        let listed = |topic| IndexedMemory {
            path: topic_path(topic),
            topic,
            before: None,
        };
        rebuild_index(
            old,
            &topics.iter().map(listed).collect::<Vec<_>>(),
            &|_| false,
            &IndexLimits::default(),
        )
    }

    fn topic_path(topic: &Topic) -> &str {
        &topic.file
    }

    #[test]
    fn a_line_that_was_made_is_made_anew_and_a_persons_is_kept() {
        let before = topic("a.md", "A");
        let after = Topic::new("a.md", "A", "when it matters in 2026", MemoryKind::Feedback, "x");
        let again = |old: &str| {
            let listed = IndexedMemory {
                path: "a.md",
                topic: &after,
                before: Some(&before),
            };
            rebuild_index(
                Some(old),
                &[listed],
                &|file| file == "team/b.md",
                &IndexLimits::default(),
            )
        };
        assert_eq!(
            again("- [A](a.md) — when it matters\n"),
            "- [A](a.md) — when it matters in 2026\n"
        );
        let own = "- [A](a.md) — mine\n- [B](team/b.md) — shared\n- [Team](team/MEMORY.md)\n";
        assert_eq!(again(own), own);
    }

    #[test]
    fn entries_are_made_kept_and_dropped() {
        let topics = [topic("a.md", "A"), topic("b.md", "B")];
        let text = built(
            Some("# Mine\n\n- [My words](b.md) — as I put it\n- [Gone](gone.md) — x\n"),
            &topics,
        );
        assert_eq!(
            text,
            "# Mine\n\n- [A](a.md) — when it matters\n- [My words](b.md) — as I put it\n"
        );
        assert_eq!(built(Some(&text), &topics), text);
    }

    #[test]
    fn an_order_with_headings_is_a_persons() {
        let topics = [topic("a.md", "A"), topic("b.md", "B")];
        let old = "- [B](b.md) — x\n## More\n- [Wiki](https://example.org) — outside\n";
        assert_eq!(
            built(Some(old), &topics),
            format!("{old}- [A](a.md) — when it matters\n")
        );
    }

    #[test]
    fn limits_hold_and_the_cut_is_seen() {
        let topics = (0..400)
            .map(|at| topic(&format!("{at}.md"), &format!("Number {at} {}", "x".repeat(200))))
            .collect::<Vec<_>>();
        let text = built(None, &topics);
        assert!(text.lines().count() <= 200 && text.len() <= 25_000);
        assert!(
            text.lines()
                .last()
                .is_some_and(|line| line.starts_with(TRUNCATION_MARK))
        );
        assert_eq!(built(Some(&text), &topics), text);
        assert!(text.lines().all(|line| line.chars().count() <= 150));
    }

    #[test]
    fn a_hook_has_room_beside_a_long_title() {
        let words = "We freeze merges on 2026-09-01 because the mobile team cuts a release branch";
        let file = names::file_name("project", words);
        let memory = Topic::new(
            &file,
            &words[..60],
            &format!("When planning work: {words}"),
            MemoryKind::Project,
            "x",
        );
        let text = entry_line(&memory, &file, &IndexLimits::default());
        assert!(text.chars().count() <= 150, "{text}");
        let (_, hook) = text.split_once(" — ").expect("a hook");
        assert!(hook.chars().count() >= 50, "{text}");
        assert!(hook.starts_with("When planning work: We freeze merges on"), "{text}");
        assert!(text.starts_with("- [We freeze merges"), "{text}");
    }

    #[test]
    fn what_is_loaded_ends_at_a_line() {
        let long = "- [x](x.md) — y\n".repeat(300);
        let text = loaded_part(&long, &IndexLimits::default());
        assert_eq!(text.lines().count(), 201);
        assert!(text.contains("100 more lines"));
        assert_eq!(loaded_part("- a\n", &IndexLimits::default()), "- a\n");
    }

    #[test]
    fn hostile_titles_stay_in_their_line() {
        let hostile = topic("a.md", "x](../../etc/passwd) <img src=x>\n- [b](b.md)");
        let text = built(None, std::slice::from_ref(&hostile));
        assert_eq!(text.lines().count(), 1);
        assert_eq!(parse_entries(&text)[0].file, "a.md");
        assert!(!text.contains(" <img"));
    }
}
