//! The structure of texts: the ten sections of the notes, the nine of a summary, and variables in prompts of the user.

use language::markdown::CodeFence;

/// Names of the sections of a summary, in order.
pub const SUMMARY_SECTIONS: [&str; 9] = [
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code Sections",
    "Errors and Fixes",
    "Problem Solving",
    "All User Messages",
    "Pending Tasks",
    "Current Work",
    "Optional Next Step",
];

/// The last two sections if only the beginning of a conversation is summarized.
pub const UP_TO_SECTIONS: [&str; 2] = ["Work Completed", "Context for Continuing"];

/// The purpose of a section of the notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SectionPurpose {
    /// A title of five to ten words.
    Title,
    /// Current work.
    State,
    /// The request of the user.
    Task,
    /// Files and their role.
    Files,
    /// Commands.
    Workflow,
    /// Failures and corrections.
    Errors,
    /// How the system is built.
    System,
    /// What to do and what to avoid.
    Learnings,
    /// Results that the user asked for.
    Results,
    /// Steps in order.
    Worklog,
}

impl SectionPurpose {
    /// All purposes in the order of the built-in template, with words of their headings.
    const WORDS: [(SectionPurpose, &'static [&'static str]); 10] = [
        (SectionPurpose::Title, &["title"]),
        (SectionPurpose::State, &["state", "status"]),
        (SectionPurpose::Task, &["task", "request", "goal", "specification"]),
        (SectionPurpose::Files, &["file", "function"]),
        (SectionPurpose::Workflow, &["workflow", "command"]),
        (SectionPurpose::Errors, &["error", "correction", "problem"]),
        (
            SectionPurpose::System,
            &["system", "codebase", "architecture", "documentation"],
        ),
        (SectionPurpose::Learnings, &["learning", "lesson"]),
        (SectionPurpose::Results, &["result", "output"]),
        (SectionPurpose::Worklog, &["worklog", "log", "history"]),
    ];

    /// Returns the purpose of a heading; `None` for a section of the user.
    pub fn from_heading(heading: &str) -> Option<SectionPurpose> {
        let heading = heading.to_lowercase();
        let words = heading.split(|sign: char| !sign.is_alphanumeric()).collect::<Vec<_>>();
        let is_word = |known: &str| words.iter().any(|word| word.strip_suffix('s').unwrap_or(word) == known);
        let found = SectionPurpose::WORDS
            .iter()
            .find(|(_, known)| known.iter().any(|known| is_word(known)));
        found.map(|(purpose, _)| *purpose)
    }

    /// Returns the rank of a section when the notes are too long; sections with a low rank are cut last.
    pub fn priority(self) -> u32 {
        match self {
            SectionPurpose::Title | SectionPurpose::State => 0,
            SectionPurpose::Errors => 1,
            SectionPurpose::Task => 2,
            SectionPurpose::Files => 3,
            SectionPurpose::Results => 4,
            SectionPurpose::Learnings => 5,
            SectionPurpose::Workflow => 6,
            SectionPurpose::System => 7,
            SectionPurpose::Worklog => 8,
        }
    }
}

/// A section of a template, or of a file made from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSection {
    /// The line with its heading.
    pub heading: String,
    /// Its description in italics; may have several lines or be empty.
    pub about: String,
    /// The text below, without blank lines around it.
    pub body: String,
}

impl TemplateSection {
    pub fn purpose(&self) -> Option<SectionPurpose> {
        SectionPurpose::from_heading(self.heading.trim_start_matches('#'))
    }
}

/// A notes file, or the template of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotesTemplate {
    /// The text before the first heading.
    pub head: String,
    pub sections: Vec<TemplateSection>,
}

impl NotesTemplate {
    /// Returns the template with the ten sections.
    pub fn built_in() -> NotesTemplate {
        NotesTemplate::parse(include_str!("template.md"))
    }

    /// Parses a file. A heading of the first level begins a section; lines in italics right after it are its description.
    /// Headings inside code fences are text.
    pub fn parse(text: &str) -> NotesTemplate {
        let mut template = NotesTemplate {
            head: String::new(),
            sections: Vec::new(),
        };
        let mut fence = CodeFence::default();
        let mut in_about = false;
        for line in text.lines() {
            let is_code = fence.is_inside(line);
            if !is_code && line.starts_with("# ") {
                template.sections.push(TemplateSection {
                    heading: line.trim_end().to_owned(),
                    about: String::new(),
                    body: String::new(),
                });
                in_about = true;
                continue;
            }
            let Some(section) = template.sections.last_mut() else {
                template.head.push_str(line);
                template.head.push('\n');
                continue;
            };
            in_about = in_about && is_italic(line);
            let target = if in_about {
                &mut section.about
            } else {
                &mut section.body
            };
            if !target.is_empty() {
                target.push('\n');
            }
            target.push_str(line.trim_end());
        }
        for section in &mut template.sections {
            section.body = section.body.trim_matches('\n').to_owned();
        }
        template.head.truncate(template.head.trim_end().len());
        template
    }

    /// Renders the template with other bodies, one per section.
    pub fn render<'b>(&self, bodies: impl IntoIterator<Item = &'b str>) -> String {
        let mut text = self.head.clone();
        let mut bodies = bodies.into_iter();
        for section in &self.sections {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&section.heading);
            if !section.about.is_empty() {
                text.push('\n');
                text.push_str(&section.about);
            }
            let body = bodies.next().unwrap_or_default();
            if !body.is_empty() {
                text.push_str("\n\n");
                text.push_str(body);
            }
        }
        text.push('\n');
        text
    }

    /// Renders the template itself.
    pub fn render_empty(&self) -> String {
        self.render(self.sections.iter().map(|section| section.body.as_str()))
    }

    /// Returns whether a file has exactly these headings and descriptions, in this order.
    pub fn has_same_sections(&self, text: &str) -> bool {
        let other = NotesTemplate::parse(text);
        let shape = |template: &NotesTemplate| {
            let lines = template
                .sections
                .iter()
                .map(|section| (section.heading.clone(), section.about.clone()));
            lines.collect::<Vec<_>>()
        };
        shape(&other) == shape(self)
    }
}

fn is_italic(line: &str) -> bool {
    let line = line.trim();
    let is_between = |sign: char| line.len() > 2 && line.starts_with(sign) && line.ends_with(sign);
    is_between('_') || (is_between('*') && !line.starts_with("**"))
}

/// Replaces `{{name}}` with the value of a variable. One pass, so values are not expanded again; unknown names stay.
pub fn substitute(text: &str, variables: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let known = after.find("}}").and_then(|end| {
            let name = after[..end].trim();
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value, end))
        });
        match known {
            Some((value, end)) => {
                out.push_str(value);
                rest = &after[end + 2..];
            }
            None => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_section_of_the_template_has_its_own_purpose() {
        let template = NotesTemplate::built_in();
        let mut purposes = template
            .sections
            .iter()
            .map(|section| section.purpose().unwrap())
            .collect::<Vec<_>>();
        assert_eq!(purposes.len(), 10);
        purposes.sort();
        purposes.dedup();
        assert_eq!(purposes.len(), 10);
        assert!(
            template
                .sections
                .iter()
                .all(|section| is_italic(&section.about) && section.body.is_empty())
        );
        assert_eq!(template.render_empty(), include_str!("template.md"));
    }

    #[test]
    fn headings_in_fences_are_text() {
        let text = "# One\n_about_\n\n````\n# not a heading\n```\n````\n\n# Two\ntext\n";
        let parsed = NotesTemplate::parse(text);
        assert_eq!(parsed.sections.len(), 2);
        assert!(parsed.sections[0].body.contains("# not a heading"));
        assert_eq!(parsed.sections[1].body, "text");
        let bodies = parsed
            .sections
            .iter()
            .map(|section| section.body.as_str())
            .collect::<Vec<_>>();
        assert_eq!(NotesTemplate::parse(&parsed.render(bodies.iter().copied())), parsed);
    }

    #[test]
    fn variables_are_expanded_once() {
        let filled = substitute("{{a}} {{ b }} {{c}} {{", &[("a", "{{b}}"), ("b", "2")]);
        assert_eq!(filled, "{{b}} 2 {{c}} {{");
    }
}
