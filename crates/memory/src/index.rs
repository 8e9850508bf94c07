//! `MEMORY.md`, the index: a line per memory, the most useful first, within the limits of what the client loads. Lines that a
//! person wrote keep their place and their bytes; what of the others does not fit goes to `MEMORY-more.md`. Pure.

use crate::names;
use crate::topic::{Topic, to_one_line};
use language::shorten::cut_at_word_within;
use std::cmp::Reverse;
use std::collections::HashMap;
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

/// Characters of the title that it keeps at least.
const MIN_TITLE_CHARS: usize = 24;

/// Start of the line that counts lines that are not shown. Indexes of earlier builds have one, too.
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

/// Returns the entry of a memory. The title is whole, and is not said again by the hook. If both are too long for the line,
/// the hook is its first clause or is left out; only a title that fills the line by itself is shortened.
pub fn entry_line(topic: &Topic, file: &str, limits: &IndexLimits) -> String {
    let title = escape_markdown(&topic.name()).replace(['[', ']'], "");
    let title = title.trim();
    let hook = escape_markdown(&topic.description());
    let hook = hook
        .strip_suffix(title)
        .map_or(hook.as_str(), |when| when.trim_end_matches([':', ' ']));
    let line = |title: &str, hook: &str| match hook {
        "" => format!("- [{title}]({file})"),
        hook => format!("- [{title}]({file}) — {hook}"),
    };
    let length = |text: &str| text.chars().count();
    let whole = line(title, hook);
    if length(&whole) <= limits.line {
        return whole;
    }
    let room = limits.line.saturating_sub(length(&line(title, " ")) - 1);
    if length(&line(title, "")) > limits.line {
        let room = limits.line.saturating_sub(length(&line("", ""))).max(MIN_TITLE_CHARS);
        return line(&cut_at_word_within(title, room), "");
    }
    let ends = [": ", "; ", ". ", ", ", " — ", " (", "，", "；"];
    let ends = ends.iter().flat_map(|end| hook.match_indices(end).map(|(at, _)| at));
    let clause = ends
        .map(|at| &hook[..at])
        .filter(|clause| length(clause) <= room)
        .max_by_key(|clause| clause.len());
    line(title, clause.unwrap_or_default())
}

/// Text without what Markdown would take for markup of its own: raw HTML and parentheses that end a link are escaped.
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

/// The text of an index, and of the file with the entries that do not fit there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexTexts {
    pub main: Option<String>,
    pub more: Option<String>,
}

/// Returns the new texts of an index. Every line that a person wrote keeps its place and its bytes. Generated entries take what
/// is left of the limits, the most useful first, and the others go to the second file. `was_generated` returns true for lines of
/// earlier runs: of memories that are gone, or that read differently now.
pub fn rebuild_index(
    old: &IndexTexts,
    memories: &[IndexedMemory],
    was_generated: &dyn Fn(&str) -> bool,
    limits: &IndexLimits,
) -> IndexTexts {
    let by_path = memories.iter().enumerate().map(|(at, memory)| (memory.path, at));
    let by_path = by_path.collect::<HashMap<_, _>>();
    let parser = IndexParser {
        memories,
        by_path,
        was_generated,
        limits,
    };
    let mut is_listed = vec![false; memories.len()];
    let main = parser.parse(old.main.as_deref().unwrap_or_default(), &mut is_listed);
    let old_more = old.more.as_deref().unwrap_or_default();
    let more = parser.parse(old_more.strip_prefix(MORE_HEAD).unwrap_or(old_more), &mut is_listed);
    let mut entries = (0..memories.len()).filter(|at| !is_listed[*at]).collect::<Vec<_>>();
    entries.sort_by_cached_key(|at| sort_key(&memories[*at]));
    let lines = memories
        .iter()
        .map(|memory| entry_line(memory.topic, memory.path, limits))
        .collect::<Vec<_>>();
    let fitting = count_fitting(&main, &entries, &lines, more.has_own_lines(), limits);
    let (kept, left) = entries.split_at(fitting);
    let mut text = main.write("", kept, &lines);
    let more = (!left.is_empty() || more.has_own_lines()).then(|| more.write(MORE_HEAD, left, &lines));
    if more.is_some() {
        push_line(&mut text, &link_line(left.len()), main.line_end);
    }
    IndexTexts { main: Some(text), more }
}

/// First line of the file with the entries that do not fit.
const MORE_HEAD: &str = "Memories for which the index has no room, the most useful first.\n\n";

/// Start of the line that links to that file.
const MORE_LINK: &str = "- [More memories](MEMORY-more.md) — ";

/// Returns the line that links to the entries that do not fit.
fn link_line(count: usize) -> String {
    format!("{MORE_LINK}{count} not listed here")
}

/// How many generated entries fit below the lines of a person.
fn count_fitting(
    main: &ParsedIndex,
    entries: &[usize],
    lines: &[String],
    needs_link: bool,
    limits: &IndexLimits,
) -> usize {
    let own = || main.lines.iter().filter_map(IndexLine::own_text);
    // A last line without an end gets one.
    let mut bytes = own()
        .map(|line| line.trim_end_matches(['\r', '\n']).len() + main.line_end.len())
        .sum::<usize>();
    let mut count = own().count();
    let link = link_line(entries.len()).len() + main.line_end.len();
    // How many fit with, and without, room for the link.
    let (mut with_link, mut without) = (0, 0);
    for at in entries {
        count += 1;
        bytes += lines[*at].len() + main.line_end.len();
        if count > limits.lines || bytes > limits.bytes {
            break;
        }
        without += 1;
        if count < limits.lines && bytes + link <= limits.bytes {
            with_link += 1;
        }
    }
    if without == entries.len() && !needs_link {
        without
    } else {
        with_link
    }
}

/// A line of an index.
enum IndexLine<'a> {
    /// A line of a person, with its line end.
    Own(&'a str),
    /// The generated entry of a memory, by number.
    Entry(usize),
}

impl<'a> IndexLine<'a> {
    fn own_text(&self) -> Option<&'a str> {
        match self {
            IndexLine::Own(text) => Some(text),
            IndexLine::Entry(_) => None,
        }
    }
}

/// An index, line by line.
struct ParsedIndex<'a> {
    lines: Vec<IndexLine<'a>>,
    /// How the lines of the file end.
    line_end: &'static str,
}

/// Tells the lines of a person from those that were generated.
struct IndexParser<'a> {
    memories: &'a [IndexedMemory<'a>],
    by_path: HashMap<&'a str, usize>,
    was_generated: &'a dyn Fn(&str) -> bool,
    limits: &'a IndexLimits,
}

impl IndexParser<'_> {
    /// Parses an index, and notes which memories a person lists.
    fn parse<'t>(&self, text: &'t str, is_listed: &mut [bool]) -> ParsedIndex<'t> {
        let mut lines = Vec::new();
        for line in text.split_inclusive('\n') {
            let content = line.trim_end_matches(['\r', '\n']);
            if content.starts_with(TRUNCATION_MARK) || content.starts_with(MORE_LINK) {
                continue;
            }
            let memory = parse_entry(content).and_then(|(_, file)| self.by_path.get(file).copied());
            match memory {
                Some(at) if self.is_generated(&self.memories[at], content) => lines.push(IndexLine::Entry(at)),
                None if (self.was_generated)(content) => {}
                memory => {
                    lines.push(IndexLine::Own(line));
                    if let Some(at) = memory {
                        is_listed[at] = true;
                    }
                }
            }
        }
        let is_dos = text
            .split_inclusive('\n')
            .next()
            .is_some_and(|line| line.ends_with("\r\n"));
        ParsedIndex {
            lines,
            line_end: if is_dos { "\r\n" } else { "\n" },
        }
    }

    fn is_generated(&self, memory: &IndexedMemory, line: &str) -> bool {
        let versions = [memory.before, Some(memory.topic)];
        let mut versions = versions.into_iter().flatten();
        versions.any(|topic| entry_line(topic, memory.path, self.limits) == line) || (self.was_generated)(line)
    }
}

impl ParsedIndex<'_> {
    fn has_own_lines(&self) -> bool {
        self.lines.iter().any(|line| line.own_text().is_some())
    }

    /// Returns the text with these entries, of which `lines` has the texts. If a person wrote something below generated entries,
    /// these stay where they are; else all of them follow in the order given.
    fn write(&self, head: &str, entries: &[usize], lines: &[String]) -> String {
        let first = self.lines.iter().position(|line| line.own_text().is_none());
        let is_arranged = first.is_some_and(|first| self.lines[first..].iter().any(|line| line.own_text().is_some()));
        let mut is_open = vec![false; lines.len()];
        entries.iter().for_each(|at| is_open[*at] = true);
        let mut text = head.to_owned();
        for line in &self.lines {
            match line {
                IndexLine::Own(line) => text.push_str(line),
                IndexLine::Entry(at) if is_arranged && std::mem::take(&mut is_open[*at]) => {
                    push_line(&mut text, &lines[*at], self.line_end);
                }
                IndexLine::Entry(_) => {}
            }
        }
        for at in entries.iter().filter(|at| is_open[**at]) {
            push_line(&mut text, &lines[*at], self.line_end);
        }
        text
    }
}

/// Adds a line of our own.
fn push_line(text: &mut String, line: &str, line_end: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(line_end);
    }
    text.push_str(line);
    text.push_str(line_end);
}

/// Returns the sort key of an entry: confirmed most often first, then stated last, then by path.
fn sort_key(memory: &IndexedMemory) -> (Reverse<u64>, Reverse<Option<Time>>, String) {
    (
        Reverse(memory.topic.confirmation_count()),
        Reverse(memory.topic.last_said_in_sources()),
        memory.path.to_owned(),
    )
}

/// Returns how many lines of an index the client does not load.
pub fn count_unloaded_lines(text: &str, limits: &IndexLimits) -> usize {
    let mut bytes = 0;
    let lines = text.split_inclusive('\n').enumerate();
    let is_loaded = |(at, line): &(usize, &str)| {
        bytes += line.len();
        *at < limits.lines && bytes <= limits.bytes
    };
    let loaded = lines.take_while(is_loaded).count();
    text.split_inclusive('\n').count() - loaded
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

    fn rebuilt(old: &IndexTexts, topics: &[Topic]) -> IndexTexts {
        let listed = |topic| IndexedMemory {
            path: topic_path(topic),
            topic,
            before: None,
        };
        let memories = topics.iter().map(listed).collect::<Vec<_>>();
        let built = rebuild_index(old, &memories, &|_| false, &IndexLimits::default());
        let again = rebuild_index(&built, &memories, &|_| false, &IndexLimits::default());
        assert_eq!(again, built, "a second run changes nothing");
        built
    }

    fn built(old: Option<&str>, topics: &[Topic]) -> String {
        let old = IndexTexts {
            main: old.map(str::to_owned),
            more: None,
        };
        rebuilt(&old, topics).main.expect("an index")
    }

    fn topic_path(topic: &Topic) -> &str {
        &topic.file
    }

    /// Many memories whose lines are long.
    fn many(count: usize) -> Vec<Topic> {
        let topic = |at| topic(&format!("{at}.md"), &format!("Number {at} {}", "x".repeat(200)));
        (0..count).map(topic).collect()
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
            let old = IndexTexts {
                main: Some(old.to_owned()),
                more: None,
            };
            let is_stale = |line: &str| line == "- [Old](old.md) — when it mattered";
            rebuild_index(&old, &[listed], &is_stale, &IndexLimits::default())
                .main
                .expect("an index")
        };
        assert_eq!(
            again("- [A](a.md) — when it matters\n- [Old](old.md) — when it mattered\n"),
            "- [A](a.md) — when it matters in 2026\n"
        );
        let own = "- [A](a.md) — mine\n- [B](team/b.md) — shared\n- [Team](team/MEMORY.md)\n";
        assert_eq!(again(own), own);
    }

    #[test]
    fn a_persons_lines_keep_their_place_and_their_bytes() {
        let topics = [topic("a.md", "A"), topic("b.md", "B")];
        let entry = "- [A](a.md) — when it matters";
        let old = "# Mine\n\n- [My words](b.md) — as I put it\n- [Gone](gone.md) — x\n\n\n";
        assert_eq!(built(Some(old), &topics), format!("{old}{entry}\n"));
        let dos = "# Mine\r\n- [My words](b.md) — as I put it\r\n\r\n";
        assert_eq!(built(Some(dos), &topics), format!("{dos}{entry}\r\n"));
        assert_eq!(
            built(Some("- [B](b.md) — x"), &topics),
            format!("- [B](b.md) — x\n{entry}\n")
        );
        assert_eq!(
            built(Some("- [A](a.md) — x\n- [B](b.md)"), &topics),
            "- [A](a.md) — x\n- [B](b.md)"
        );
    }

    #[test]
    fn an_order_with_headings_is_a_persons() {
        let topics = [topic("a.md", "A"), topic("b.md", "B"), topic("c.md", "C")];
        let old = "- [B](b.md) — when it matters\n## More\n- [Wiki](https://example.org) — outside\n- [A](a.md) — when it matters\n";
        assert_eq!(
            built(Some(old), &topics),
            format!("{old}- [C](c.md) — when it matters\n")
        );
    }

    #[test]
    fn entries_that_do_not_fit_go_to_the_second_file() {
        let topics = many(400);
        let new = rebuilt(&IndexTexts::default(), &topics);
        let (main, more) = (new.main.clone().expect("an index"), new.more.clone().expect("the rest"));
        assert!(main.lines().count() <= 200 && main.len() <= 25_000);
        assert!(main.len() > 25_000 - 2 * 151, "no room is wasted");
        assert!(main.lines().all(|line| line.chars().count() <= 150));
        let kept = main.lines().count() - 1;
        assert_eq!(main.lines().last(), Some(&*link_line(400 - kept)));
        assert_eq!(parse_entries(&more).len(), 400 - kept);
        // Memories that leave make room again.
        let listed = |topic| IndexedMemory {
            path: topic_path(topic),
            topic,
            before: None,
        };
        let few = topics[..10].iter().map(listed).collect::<Vec<_>>();
        let is_stale = |line: &str| parse_entry(line).is_some_and(|(_, file)| !few.iter().any(|one| one.path == file));
        let fewer = rebuild_index(&new, &few, &is_stale, &IndexLimits::default());
        assert_eq!(parse_entries(&fewer.main.expect("an index")).len(), 10);
        assert_eq!(fewer.more, None);
    }

    #[test]
    fn three_hundred_lines_of_a_person_survive() {
        let own = (0..300)
            .map(|at| format!("- remember number {at}\n"))
            .collect::<String>();
        let old = |main: &str| IndexTexts {
            main: Some(main.to_owned()),
            more: Some("my own line\n".to_owned()),
        };
        let new = rebuilt(&old(&own), &many(3));
        assert_eq!(new.main, Some(format!("{own}{}\n", link_line(3))));
        let more = new.more.expect("the rest");
        assert!(
            more.starts_with(&format!("{MORE_HEAD}my own line\n- [Number 0 ")),
            "{more}"
        );
        assert_eq!(count_unloaded_lines(&own, &IndexLimits::default()), 100);
        // Without memories there is nothing to add.
        assert_eq!(built(Some(&own), &[]), own);
        // What is left is used up, and not more.
        let own = own
            .lines()
            .take(198)
            .map(|line| format!("{line}\n"))
            .collect::<String>();
        let few = (0..3).map(|at| topic(&format!("{at}.md"), "x")).collect::<Vec<_>>();
        let text = built(Some(&own), &few);
        assert!(
            text.starts_with(&own) && text.lines().count() == 200,
            "{}",
            text.lines().count()
        );
        assert_eq!(built(Some(&own), &few[..2]).lines().count(), 200);
        assert_eq!(count_unloaded_lines(&text, &IndexLimits::default()), 0);
    }

    #[test]
    fn a_title_is_whole_and_the_hook_ends_at_a_clause() {
        let title = "Never merge into the release branch before the mobile team has cut it";
        let file = names::file_name("project", title);
        let of = |hook: &str| {
            let memory = Topic::new(&file, title, hook, MemoryKind::Project, "x");
            entry_line(&memory, &file, &IndexLimits::default())
        };
        let start = format!("- [{title}]({file})");
        assert_eq!(of(&format!("When merging: {title}")), format!("{start} — When merging"));
        let late = "When merging: the mobile team builds from that branch";
        assert_eq!(of(late), format!("{start} — When merging"));
        assert_eq!(of(&"merging ".repeat(15)), start);
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
