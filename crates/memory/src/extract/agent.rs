//! Memory files that the agent itself wrote, as candidates: the best source there is, marked as the agent's.
//!
//! A topic file is taken over whole. Of an index, the lines that link to files no log shows are taken, and, if it is written
//! as notes, the sentences that are rules by themselves.

use crate::extract::gather::message_line_score;
use crate::extract::score::find_kind;
use crate::extract::title::{MAX_TITLE_CHARS, capitalize, form_title, has_phrase};
use crate::extract::wording::activity_of;
use crate::extract::{ExtractOptions, Extraction, MAX_HOOK_CHARS, accept_agent_candidate};
use crate::harvest::{HarvestedFile, harvest};
use crate::kinds::{Candidate, CandidateOrigin, MemoryKind};
use crate::names::INDEX_FILE;
use crate::topic::{Topic, to_one_line};
use language::words::is_stop_word;
use std::collections::{BTreeMap, BTreeSet};
use transcript::messages::Message;

/// Confidence of a memory that the agent wrote.
const AGENT_CONFIDENCE: f64 = 0.7;
/// Points that a note of the agent needs to be a rule by itself.
const NOTE_SCORE: f64 = 1.6;
/// Longest description that stands for the title of a file, in characters.
const MAX_SLUG_TITLE: usize = 80;
/// Words of headings that name no topic.
const VAGUE: [&str; 22] = [
    "critical",
    "general",
    "gotchas",
    "guidelines",
    "important",
    "info",
    "key",
    "learned",
    "learnings",
    "lessons",
    "memory",
    "misc",
    "notes",
    "other",
    "patterns",
    "practices",
    "preferences",
    "project",
    "rules",
    "tips",
    "workflow",
    "workflows",
];
/// Most notes of a section that one memory takes.
const MAX_NOTES: usize = 8;

/// Adds the last versions of the memory files in the logs, each to the project of the session that wrote it.
pub fn add_agent_files(messages: &[Message], options: &ExtractOptions<'_>, extraction: &mut Extraction) {
    let found = harvest(messages);
    extraction.secrets_dropped += found.secrets_dropped;
    let known = found
        .files
        .iter()
        .map(|file| file_name(&file.path))
        .collect::<BTreeSet<_>>();
    let titles = index_titles(&found.files);
    for file in found.files.iter().chain(&found.withheld) {
        if !file.path.ends_with(".md") || file.path.contains("/logs/") {
            continue;
        }
        let project = options
            .projects
            .map(|projects| projects.root_of_folder(&file.cwd))
            .unwrap_or_default();
        let candidates = match file_name(&file.path) == INDEX_FILE {
            true => read_index(file, &project, &known, options),
            false => to_candidate(file, &project, &titles).into_iter().collect(),
        };
        for candidate in candidates {
            accept_agent_candidate(candidate, options, extraction);
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns the titles that the agent's indexes give to the files beside them, by folder and name.
fn index_titles(files: &[HarvestedFile]) -> BTreeMap<String, String> {
    let mut titles = BTreeMap::new();
    for index in files.iter().filter(|file| file_name(&file.path) == INDEX_FILE) {
        let folder = index.path.trim_end_matches(INDEX_FILE);
        let lines = index.text.lines().map(str::trim);
        let entries = lines.filter_map(|line| parse_link(line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))?));
        titles.extend(entries.map(|(title, target, _)| (format!("{folder}{target}"), to_one_line(title))));
    }
    titles
}

/// Returns the candidate of a topic file; `None` if it says nothing.
fn to_candidate(file: &HarvestedFile, project: &str, titles: &BTreeMap<String, String>) -> Option<Candidate> {
    let name = file_name(&file.path);
    let topic = Topic::from_text(name, 0, &file.text);
    let kind = topic
        .kind()
        .or_else(|| kind_of_name(name))
        .unwrap_or(MemoryKind::Project);
    let body = topic.body().trim();
    let hook = whole_clause(&topic.description(), MAX_HOOK_CHARS);
    // A name such as `build-notes` is for the file system; the description says more.
    let is_slug = !topic.name().trim().contains(' ');
    let title = titles.get(&file.path).cloned();
    let title = title
        .or_else(|| {
            hook.as_deref()
                .filter(|_| is_slug)
                .and_then(|hook| whole_clause(hook, MAX_SLUG_TITLE))
        })
        .or_else(|| whole_clause(&unslug(&topic.name()), MAX_TITLE_CHARS))
        .map(|title| capitalize(&title));
    let title = title.or_else(|| whole_clause(&unslug(name.trim_end_matches(".md")), MAX_TITLE_CHARS))?;
    (!body.is_empty()).then(|| agent_candidate(file, project, kind, (title.clone(), hook.unwrap_or(title)), body))
}

fn agent_candidate(
    file: &HarvestedFile,
    project: &str,
    kind: MemoryKind,
    (title, hook): (String, String),
    body: &str,
) -> Candidate {
    Candidate {
        kind,
        title,
        hook,
        body: body.to_owned(),
        confidence: AGENT_CONFIDENCE,
        sources: file.sources.clone(),
        project: project.to_owned(),
        origin: CandidateOrigin::Agent,
    }
}

/// Reads the lines of an index whose files no log shows, and the notes of one that is no index of files.
fn read_index(
    file: &HarvestedFile,
    project: &str,
    known: &BTreeSet<&str>,
    options: &ExtractOptions<'_>,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut heading = String::new();
    let mut notes: Vec<String> = Vec::new();
    for line in file.text.lines().chain(["# "]) {
        if let Some(next) = line.strip_prefix('#') {
            found.extend(to_sections(file, project, &heading, &notes, options));
            heading = next.trim_start_matches('#').trim().to_owned();
            notes.clear();
            continue;
        }
        let line = line.trim();
        let text = line
            .strip_prefix("- ")
            .or_else(|| line.strip_prefix("* "))
            .unwrap_or(line);
        match parse_link(text) {
            Some((title, target, hook)) if !known.contains(file_name(target)) => {
                let kind = kind_of_name(file_name(target)).or_else(|| find_kind(hook, options.rules));
                let kind = kind.unwrap_or(MemoryKind::Project);
                let fits = title.chars().count() <= MAX_TITLE_CHARS && !hook.is_empty();
                let titles = (title.to_owned(), whole_clause(hook, MAX_HOOK_CHARS));
                if let (title, Some(short)) = titles
                    && fits
                {
                    found.push(agent_candidate(file, project, kind, (title, short), hook));
                }
            }
            Some(_) => {}
            None if notes.len() < MAX_NOTES && message_line_score(text, options) >= NOTE_SCORE => {
                notes.push(text.trim().to_owned());
            }
            None => {}
        }
    }
    found
}

/// Returns the candidates of a section of notes: one, or one for each note if the heading names no topic.
fn to_sections(
    file: &HarvestedFile,
    project: &str,
    heading: &str,
    notes: &[String],
    options: &ExtractOptions<'_>,
) -> Vec<Candidate> {
    let mut words = heading
        .split(|sign: char| !sign.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let is_vague = words.all(|word| {
        let word = word.to_lowercase();
        VAGUE.contains(&word.as_str()) || is_stop_word(&word)
    });
    let sections = match is_vague {
        true => notes.chunks(1).collect::<Vec<_>>(),
        false => notes.chunks(MAX_NOTES).collect(),
    };
    let sections = sections
        .into_iter()
        .filter_map(|notes| to_section(file, project, heading, notes, options));
    sections.collect()
}

/// Returns the candidate of notes below a heading; `None` if they have no title.
fn to_section(
    file: &HarvestedFile,
    project: &str,
    heading: &str,
    notes: &[String],
    options: &ExtractOptions<'_>,
) -> Option<Candidate> {
    let first = notes.first()?;
    let plain = |text: &str| to_one_line(&text.replace("**", "").replace('`', ""));
    let note = plain(first);
    let title = match notes.len() {
        1 => form_title(&note, options.rules)
            .or_else(|| form_title(&without_asides(&note), options.rules))
            .map(|(title, _)| title)
            .or_else(|| whole_clause(&note, MAX_TITLE_CHARS)),
        _ => None,
    };
    // What points at the heading is no title, and neither is a condition.
    let is_condition = |title: &str| has_phrase(&format!("{title}, "), options.rules, |phrases| &phrases.condition);
    let is_whole = |title: &String| note.len() <= title.len() + 1 || !is_condition(title) || title.contains(", ");
    let title = title.filter(|title| !title.to_lowercase().contains(" these ") && is_whole(title));
    let title = title.or_else(|| whole_clause(&plain(heading), MAX_TITLE_CHARS))?;
    let rule = whole_clause(&note, MAX_HOOK_CHARS);
    let hook = match activity_of(&format!("{heading} {first}"), options.rules) {
        Some(when) => rule
            .filter(|rule| when.len() + 2 + rule.len() <= MAX_HOOK_CHARS)
            .map_or_else(|| when.to_owned(), |rule| format!("{when}: {rule}")),
        None => rule.unwrap_or_else(|| title.clone()),
    };
    let body = match notes {
        [note] => note.clone(),
        notes => {
            let list = notes.iter().map(|note| format!("- {note}\n")).collect::<String>();
            format!("{heading}:\n\n{}", list.trim_end())
        }
    };
    let kind = find_kind(&note, options.rules).unwrap_or(MemoryKind::Project);
    Some(agent_candidate(file, project, kind, (title, hook), &body))
}

/// Returns a text without what stands in brackets.
fn without_asides(text: &str) -> String {
    let (mut depth, mut kept) = (0_usize, String::new());
    for sign in text.chars() {
        match sign {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(sign),
            _ => {}
        }
    }
    to_one_line(&kept)
}

/// Parses `[Title](file.md) — hook`.
fn parse_link(text: &str) -> Option<(&str, &str, &str)> {
    let (title, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, hook) = rest.split_once(')')?;
    let hook = hook.trim_start_matches([' ', '—', '–', '-', ':']).trim();
    target.ends_with(".md").then_some((title, target, hook))
}

/// Returns the type that the name of a file starts with, as `feedback_tests.md`.
fn kind_of_name(name: &str) -> Option<MemoryKind> {
    name.split(['_', '-']).next().and_then(MemoryKind::parse)
}

/// Returns a name in words: `feedback-small-commits` becomes `Small commits`.
fn unslug(name: &str) -> String {
    let name = name.trim();
    if name.contains(' ') {
        return to_one_line(name);
    }
    let mut words = name.split(['_', '-']).collect::<Vec<_>>();
    if words.len() > 2 && MemoryKind::parse(words[0]).is_some() {
        words.remove(0);
    }
    capitalize(&words.join(" "))
}

/// Returns a text that fits, or the longest of its first clauses that does; a clause is never cut.
fn whole_clause(text: &str, most: usize) -> Option<String> {
    const ENDS: [&str; 9] = [". ", "; ", " — ", " – ", " - ", ": ", ", ", "。", "，"];
    let line = to_one_line(text);
    let line = line.trim_end_matches(['.', ':', ';']);
    let fits = |text: &str| !text.is_empty() && text.chars().count() <= most;
    if fits(line) {
        return Some(line.to_owned());
    }
    let ends = ENDS.iter().flat_map(|end| line.match_indices(end).map(|(at, _)| at));
    let is_closed = |text: &&str| text.matches('(').count() == text.matches(')').count();
    let clauses = ends.map(|at| &line[..at]).filter(is_closed);
    clauses
        .filter(|clause| fits(clause) && clause.split_whitespace().count() >= 3)
        .max_by_key(|clause| clause.len())
        .map(str::to_owned)
}
