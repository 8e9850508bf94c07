//! A recorded summary, parsed into its numbered sections.

use crate::template::{NotesTemplate, SectionPurpose};
use language::markup::find_element;

/// An earlier summary by section number. Section 0 is the text before the first heading.
#[derive(Debug, Default)]
pub struct EarlierSummary {
    sections: Vec<String>,
}

impl EarlierSummary {
    /// Parses a summary. Without numbered sections, the whole text is the first section.
    pub fn parse(text: &str) -> EarlierSummary {
        let text = summary_body(text);
        let mut sections = vec![String::new(); 10];
        let mut now = 0;
        for line in text.lines() {
            if let Some(number) = heading_number(line).filter(|number| *number == now + 1) {
                now = number;
                let rest = line
                    .split_once([':', '：'])
                    .map(|(_, rest)| rest.trim_matches(['*', ' ']))
                    .unwrap_or_default();
                sections[now].push_str(rest);
                continue;
            }
            let section = &mut sections[now];
            if !section.is_empty() {
                section.push('\n');
            }
            section.push_str(line.trim_end());
        }
        if now == 0 && !map_notes_sections(text, &mut sections) {
            sections.swap(0, 1);
        }
        for section in &mut sections {
            *section = section.trim_matches('\n').to_owned();
        }
        EarlierSummary { sections }
    }

    /// Returns the text of a section, from 1; empty if there is none.
    pub fn section(&self, number: usize) -> &str {
        self.sections.get(number).map_or("", String::as_str)
    }

    /// Returns the points of a section: list items of the outermost level with their sub-items, or paragraphs.
    pub fn points(&self, number: usize) -> Vec<String> {
        let text = self.section(number);
        let lines = text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let is_item = |line: &str| {
            line.trim_start().starts_with(['-', '*', '•'])
                || line.trim_start().starts_with(|sign: char| sign.is_ascii_digit())
        };
        let outer = lines.iter().filter(|line| is_item(line)).map(|line| indent(line)).min();
        let mut points = Vec::<String>::new();
        for line in lines {
            let begins = match outer {
                Some(outer) => is_item(line) && indent(line) <= outer + 1,
                None => true,
            };
            match points.last_mut() {
                Some(point) if !begins => {
                    point.push(' ');
                    point.push_str(line.trim());
                }
                _ => points.push(line.trim().trim_start_matches(['-', '*', '•']).trim().to_owned()),
            }
        }
        points
    }
}

/// Maps the sections of session notes to those of a summary, for clients that use notes as the summary. Returns whether the
/// text is notes.
fn map_notes_sections(text: &str, sections: &mut [String]) -> bool {
    let notes = NotesTemplate::parse(text);
    if notes.sections.len() < 5 {
        return false;
    }
    for section in &notes.sections {
        let number = match section.purpose() {
            Some(SectionPurpose::Task) => 1,
            Some(SectionPurpose::System) => 2,
            Some(SectionPurpose::Files) => 3,
            Some(SectionPurpose::Errors) => 4,
            Some(SectionPurpose::Learnings | SectionPurpose::Workflow) => 5,
            Some(SectionPurpose::State) => 8,
            Some(SectionPurpose::Title | SectionPurpose::Results | SectionPurpose::Worklog) | None => continue,
        };
        let target = &mut sections[number];
        if !target.is_empty() {
            target.push('\n');
        }
        target.push_str(&section.body);
    }
    sections[0].clear();
    true
}

/// Returns the summary without the analysis before it and the instructions to continue after it.
fn summary_body(text: &str) -> &str {
    let is_tagged = text.lines().any(|line| line.trim() == "<summary>");
    let text = find_element(text, "summary").filter(|_| is_tagged).unwrap_or(text);
    let text = match text.split_once("\nSummary:\n") {
        Some((_, summary)) => summary,
        None => text,
    };
    let ends = [
        "\nIf you need specific details from before",
        "\nPlease continue the conversation from where",
        "\nContinue the conversation from where",
    ];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    &text[..end.unwrap_or(text.len())]
}

/// Returns the number of a heading such as `3. Files and Code Sections:` or `## 3. Files`.
fn heading_number(line: &str) -> Option<usize> {
    if line.starts_with(' ') {
        let inner = line.trim_start();
        if line.len() - inner.len() > 3 {
            return None;
        }
    }
    let line = line.trim_start().trim_start_matches(['#', '*', ' ']);
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let number = line[..digits]
        .parse::<usize>()
        .ok()
        .filter(|number| (1..=9).contains(number))?;
    let rest = line[digits..].strip_prefix(['.', ')'])?;
    // A heading is short and in title case; an item of a numbered list is a sentence.
    let title = rest.split([':', '：']).next().unwrap_or(rest).trim().trim_matches('*');
    let known = [
        "request", "concept", "file", "error", "problem", "message", "pending", "task", "current", "work", "next",
        "context",
    ];
    let low = title.to_lowercase();
    (title.len() < 60 && known.iter().any(|word| low.contains(word))).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_sections_are_parsed() {
        let text = "This session continues.\nAnalysis.\n1. Primary Request and Intent:\n   do it\n\n2. Key Technical Concepts:\n   - one\n   - two\n     more of two\n3. **Files and Code Sections**: \n - a.rs\n6. All user messages:\n - \"hi\"";
        let earlier = EarlierSummary::parse(text);
        assert_eq!(earlier.section(1).trim(), "do it");
        assert_eq!(earlier.points(2), ["one", "two more of two"]);
        assert!(earlier.section(3).contains("a.rs") && earlier.section(3).contains("hi"));
        let plain = EarlierSummary::parse("just words");
        assert_eq!(plain.section(1), "just words");
    }
}
