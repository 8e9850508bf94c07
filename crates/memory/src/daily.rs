//! Daily logs: what was said on a day, a line each, for later. They only grow; consolidation distils them into memories.
//! Lines of another form are a person's or an agent's and are left to them. Pure.

use crate::kinds::{Candidate, Kind, Source};
use crate::topic::one_line;
use language::when;

/// Between the parts of a line. The parts themselves have none.
const JOINT: &str = " | ";

/// Heads of the sections of a memory, which start paragraphs.
const HEADS: [&str; 3] = ["**Context:**", "**Why:**", "**How to apply:**"];

/// Confidence of what was thought worth a line.
const NOTED: f64 = 0.5;

/// The lines of a candidate, each with its date: one for each time it was said. What has no time belongs to no day.
pub fn lines(candidate: &Candidate) -> Vec<(String, String)> {
    let part = |text: &str| one_line(text).replace('|', "/");
    let line = |source: &Source| {
        let time = source.time?;
        let line = format!(
            "{} [{}] {}{JOINT}{}{JOINT}{} ({} {})",
            when::timestamp(time)?,
            candidate.kind.name(),
            part(&candidate.title),
            part(&candidate.hook),
            part(&candidate.body),
            source.session,
            source.uuid
        );
        Some((when::date(time), line))
    };
    candidate.sources.iter().filter_map(line).collect()
}

/// What the lines of a log say; those of another form say nothing here.
pub fn read(text: &str) -> Vec<Candidate> {
    text.lines().filter_map(read_line).collect()
}

fn read_line(line: &str) -> Option<Candidate> {
    let line = line.strip_prefix("- ")?;
    let (time, rest) = line.split_once(" [")?;
    let (kind, rest) = rest.split_once("] ")?;
    let (rest, source) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let (session, uuid) = source.split_once(' ')?;
    let mut parts = rest.splitn(3, JOINT);
    let (title, hook, body) = (parts.next()?, parts.next()?, parts.next()?);
    let mut body = body.to_owned();
    for head in HEADS {
        body = body.replace(&format!(" {head}"), &format!("\n\n{head}"));
    }
    Some(Candidate {
        kind: Kind::read(kind)?,
        title: title.to_owned(),
        hook: hook.to_owned(),
        body,
        confidence: NOTED,
        sources: vec![Source {
            session: session.to_owned(),
            uuid: uuid.to_owned(),
            time: Some(when::read(time)?),
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate() -> Candidate {
        Candidate {
            kind: Kind::Feedback,
            title: "Small commits".into(),
            hook: "When committing: one change a commit".into(),
            body: "One change a commit.\n\n**Why:** they are reverted one by one".into(),
            confidence: 0.5,
            sources: vec![Source {
                session: "s".into(),
                uuid: "r".into(),
                time: Some(1_772_582_400_000),
            }],
        }
    }

    #[test]
    fn a_line_comes_back_as_it_was() {
        let [(date, line)] = &lines(&candidate())[..] else {
            panic!("one line")
        };
        assert_eq!(date, "2026-03-04");
        assert_eq!(
            read(&format!("# A day\n\n- {line}\n- went for a walk\n")),
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
        let [(_, line)] = &lines(&odd)[..] else {
            panic!("one line")
        };
        let back = read(&format!("- {line}\n"));
        assert_eq!(
            (back.len(), back[0].kind, back[0].title.as_str()),
            (1, Kind::Feedback, "a / b] [c (d)")
        );
        assert!(read("- [user] nothing\n- 2026-03-04T00:00:00Z [other] a | b | c (d e)\n").is_empty());
    }
}
