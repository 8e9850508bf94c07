//! What a check found, in the forms that CI systems read: annotations of GitHub, and JUnit XML.
//!
//! Texts come from logs and file names, so both forms escape whatever would end a value early. Neither has a time: the same
//! input gives the same bytes.

use crate::human::harmless;
use std::fmt::Write;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Notice => "notice",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// A few words.
    pub title: String,
    /// One sentence.
    pub message: String,
    /// The file and line that it is about, if it is about one.
    pub place: Option<(String, Option<u64>)>,
}

/// A line that GitHub shows as an annotation.
pub fn annotation(finding: &Finding) -> String {
    let mut line = format!("::{} ", finding.level.name());
    if let Some((file, at)) = &finding.place {
        let _ = write!(line, "file={},", property(file));
        if let Some(at) = at {
            let _ = write!(line, "line={at},");
        }
    }
    let _ = write!(line, "title={}::{}", property(&finding.title), data(&finding.message));
    harmless(&line) + "\n"
}

/// All findings, a line each.
pub fn annotations<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> String {
    findings.into_iter().map(annotation).collect()
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// How a test case of a report ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// Why.
    Failed(String),
    /// Why.
    Skipped(String),
}

/// A test case of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub name: String,
    pub outcome: Outcome,
}

/// One suite as JUnit XML.
pub fn junit(suite: &str, cases: &[Case]) -> String {
    let count = |wanted: fn(&Outcome) -> bool| cases.iter().filter(|case| wanted(&case.outcome)).count();
    let failures = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let sums = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"",
        cases.len()
    );
    let suite = attribute(suite);
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{suite}\" {sums}>\n");
    let _ = writeln!(text, "  <testsuite name=\"{suite}\" {sums}>");
    for case in cases {
        let _ = write!(
            text,
            "    <testcase classname=\"{suite}\" name=\"{}\"",
            attribute(&case.name)
        );
        let _ = match &case.outcome {
            Outcome::Passed => writeln!(text, "/>"),
            Outcome::Failed(why) => writeln!(
                text,
                ">\n      <failure message=\"{}\"/>\n    </testcase>",
                attribute(why)
            ),
            Outcome::Skipped(why) => writeln!(
                text,
                ">\n      <skipped message=\"{}\"/>\n    </testcase>",
                attribute(why)
            ),
        };
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

/// Text inside quotes. What XML 1.0 cannot hold at all becomes a question mark.
fn attribute(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => {
                let _ = write!(escaped, "&#{};", c as u32);
            }
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_one_line_whatever_it_says() {
        let finding = Finding {
            level: Level::Warning,
            title: "a: b, c".into(),
            message: "100 %\n::error::x".into(),
            place: Some(("logs/a,b:c.jsonl".into(), Some(7))),
        };
        assert_eq!(
            annotation(&finding),
            "::warning file=logs/a%2Cb%3Ac.jsonl,line=7,title=a%3A b%2C c::100 %25%0A::error::x\n"
        );
        let nowhere = Finding { place: None, ..finding };
        assert!(annotation(&nowhere).starts_with("::warning title="));
    }

    #[test]
    fn a_report_counts_and_escapes() {
        let cases = [
            Case {
                name: "a<b".into(),
                outcome: Outcome::Passed,
            },
            Case {
                name: "c".into(),
                outcome: Outcome::Failed("\"x\" > 1 & \u{1b}[31m\n".into()),
            },
            Case {
                name: "d".into(),
                outcome: Outcome::Skipped("why not".into()),
            },
        ];
        let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites name=\"s\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\">
  <testsuite name=\"s\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\">
    <testcase classname=\"s\" name=\"a&lt;b\"/>
    <testcase classname=\"s\" name=\"c\">
      <failure message=\"&quot;x&quot; &gt; 1 &amp; ?[31m&#10;\"/>
    </testcase>
    <testcase classname=\"s\" name=\"d\">
      <skipped message=\"why not\"/>
    </testcase>
  </testsuite>
</testsuites>
";
        assert_eq!(junit("s", &cases), expected);
    }
}
