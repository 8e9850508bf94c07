//! Findings of a check in the formats of CI systems: GitHub annotations and JUnit XML.
//!
//! Texts come from logs and file names, so both formats escape everything that would end a value early. Neither has a
//! timestamp: the same input gives the same bytes.

use crate::words::sanitize;
use std::fmt::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
    Notice,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFinding {
    pub level: Severity,
    /// A few words.
    pub title: String,
    /// One sentence.
    pub message: String,
    /// File and line, if the finding is about one.
    pub location: Option<(String, Option<u64>)>,
}

/// Returns the line that GitHub shows as an annotation.
pub fn format_annotation(finding: &CheckFinding) -> String {
    let mut line = format!("::{} ", finding.level.name());
    if let Some((file, at)) = &finding.location {
        let _ = write!(line, "file={},", escape_property(file));
        if let Some(at) = at {
            let _ = write!(line, "line={at},");
        }
    }
    let _ = write!(
        line,
        "title={}::{}",
        escape_property(&finding.title),
        escape_data(&finding.message)
    );
    sanitize(&line) + "\n"
}

/// Returns all findings, one line each.
pub fn format_annotations<'a>(findings: impl IntoIterator<Item = &'a CheckFinding>) -> String {
    findings.into_iter().map(format_annotation).collect()
}

fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestOutcome {
    Passed,
    /// With the reason.
    Failed(String),
    /// With the reason.
    Skipped(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestCase {
    pub name: String,
    pub outcome: TestOutcome,
}

/// Returns one suite as JUnit XML.
pub fn format_junit(suite: &str, cases: &[TestCase]) -> String {
    let count = |wanted: fn(&TestOutcome) -> bool| cases.iter().filter(|case| wanted(&case.outcome)).count();
    let failures = count(|outcome| matches!(outcome, TestOutcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, TestOutcome::Skipped(_)));
    let sums = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\"",
        cases.len()
    );
    let suite = escape_attribute(suite);
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{suite}\" {sums}>\n");
    let _ = writeln!(text, "  <testsuite name=\"{suite}\" {sums}>");
    for case in cases {
        let _ = write!(
            text,
            "    <testcase classname=\"{suite}\" name=\"{}\"",
            escape_attribute(&case.name)
        );
        let _ = match &case.outcome {
            TestOutcome::Passed => writeln!(text, "/>"),
            TestOutcome::Failed(why) => writeln!(
                text,
                ">\n      <failure message=\"{}\"/>\n    </testcase>",
                escape_attribute(why)
            ),
            TestOutcome::Skipped(why) => writeln!(
                text,
                ">\n      <skipped message=\"{}\"/>\n    </testcase>",
                escape_attribute(why)
            ),
        };
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

/// Escapes text inside quotes. Characters that XML 1.0 does not allow become a question mark.
fn escape_attribute(text: &str) -> String {
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
        let finding = CheckFinding {
            level: Severity::Warning,
            title: "a: b, c".into(),
            message: "100 %\n::error::x".into(),
            location: Some(("logs/a,b:c.jsonl".into(), Some(7))),
        };
        assert_eq!(
            format_annotation(&finding),
            "::warning file=logs/a%2Cb%3Ac.jsonl,line=7,title=a%3A b%2C c::100 %25%0A::error::x\n"
        );
        let nowhere = CheckFinding {
            location: None,
            ..finding
        };
        assert!(format_annotation(&nowhere).starts_with("::warning title="));
    }

    #[test]
    fn a_report_counts_and_escapes() {
        let cases = [
            TestCase {
                name: "a<b".into(),
                outcome: TestOutcome::Passed,
            },
            TestCase {
                name: "c".into(),
                outcome: TestOutcome::Failed("\"x\" > 1 & \u{1b}[31m\n".into()),
            },
            TestCase {
                name: "d".into(),
                outcome: TestOutcome::Skipped("why not".into()),
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
        assert_eq!(format_junit("s", &cases), expected);
    }
}
