//! Daily logs: candidates of a day, one per line, that consolidation turns into memories later. Logs only grow. Lines of
//! another form were written by a person or an agent and are ignored. Pure.

use crate::kinds::{Candidate, CandidateOrigin, MemoryKind, MemorySource};
use crate::topic::to_one_line;
use language::when;

/// Separates the parts of a line. The parts do not contain it.
const FIELD_SEPARATOR: &str = " | ";

/// Labels that start a paragraph of a memory.
const PARAGRAPH_LABELS: [&str; 3] = ["**Context:**", "**Why:**", "**How to apply:**"];

/// Confidence of a candidate from a daily log.
const DAILY_CONFIDENCE: f64 = 0.5;

/// Returns a date and a line for each source of a candidate. A source without a time belongs to no day and is left out.
pub fn candidate_lines(candidate: &Candidate) -> Vec<(String, String)> {
    let part = |text: &str| to_one_line(text).replace('|', "/");
    let line = |source: &MemorySource| {
        let time = source.time?;
        let line = format!(
            "{} [{}] {}{FIELD_SEPARATOR}{}{FIELD_SEPARATOR}{} ({} {})",
            when::format_timestamp(time)?,
            candidate.kind.name(),
            part(&candidate.title),
            part(&candidate.hook),
            part(&candidate.body),
            source.session,
            source.uuid
        );
        Some((when::format_date(time), line))
    };
    candidate.sources.iter().filter_map(line).collect()
}

/// Parses the candidates of a log and ignores all other lines.
pub fn parse_log(text: &str) -> Vec<Candidate> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Candidate> {
    let line = line.strip_prefix("- ")?;
    let (time, rest) = line.split_once(" [")?;
    let (kind, rest) = rest.split_once("] ")?;
    let (rest, source) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let (session, uuid) = source.split_once(' ')?;
    let mut parts = rest.splitn(3, FIELD_SEPARATOR);
    let (title, hook, body) = (parts.next()?, parts.next()?, parts.next()?);
    let mut body = body.to_owned();
    for head in PARAGRAPH_LABELS {
        body = body.replace(&format!(" {head}"), &format!("\n\n{head}"));
    }
    Some(Candidate {
        kind: MemoryKind::parse(kind)?,
        title: title.to_owned(),
        hook: hook.to_owned(),
        body,
        confidence: DAILY_CONFIDENCE,
        sources: vec![MemorySource {
            session: session.to_owned(),
            uuid: uuid.to_owned(),
            time: Some(when::parse_timestamp(time)?),
        }],
        project: String::new(),
        origin: CandidateOrigin::Person,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        Candidate {
            kind: MemoryKind::Feedback,
            title: "Small commits".into(),
            hook: "When committing: one change a commit".into(),
            body: "One change a commit.\n\n**Why:** they are reverted one by one".into(),
            confidence: 0.5,
            sources: vec![MemorySource {
                session: "s".into(),
                uuid: "r".into(),
                time: Some(1_772_582_400_000),
            }],
            project: String::new(),
            origin: CandidateOrigin::Person,
        }
    }

    #[test]
    fn a_line_comes_back_as_it_was() {
        let [(date, line)] = &candidate_lines(&candidate())[..] else {
            panic!("one line")
        };
        assert_eq!(date, "2026-03-04");
        assert_eq!(
            parse_log(&format!("# A day\n\n- {line}\n- went for a walk\n")),
            [candidate()]
        );
    }

    #[test]
    fn signs_of_the_form_do_no_harm() {
        let odd = Candidate {
            title: "a | b] [c (d)".into(),
            body: "x) (y z\n- 2026 [user] no".into(),
            ..candidate()
        };
        let [(_, line)] = &candidate_lines(&odd)[..] else {
            panic!("one line")
        };
        let back = parse_log(&format!("- {line}\n"));
        assert_eq!(
            (back.len(), back[0].kind, back[0].title.as_str()),
            (1, MemoryKind::Feedback, "a / b] [c (d)")
        );
        assert!(parse_log("- [user] nothing\n- 2026-03-04T00:00:00Z [other] a | b | c (d e)\n").is_empty());
    }
}
