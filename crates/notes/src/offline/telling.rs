//! What words tell: which command it was, whether it failed and with what words, whether a person corrects, what a
//! sentence of the model is good for. Rules are lists of words; [`super::digest`] asks.

use crate::offline::digest::SentenceKind;
use crate::offline::{clean, names};
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// A command without what makes each run of it different: where it is run, how much of its output is looked at.
pub fn normalize_command(text: &str) -> String {
    let text = clean::strip_control_codes(text);
    let mut text = text.trim();
    while let Some(rest) = text.strip_prefix("cd ") {
        let Some(end) = rest.find(['&', ';', '\n']) else { break };
        let rest = rest[end..].trim_start_matches(['&', ';', '\n', ' ']);
        if rest.is_empty() {
            break;
        }
        text = rest;
    }
    // What a here-document holds is no part of the command.
    let here = text.find("<<").map_or(text, |at| text[..at].trim_end());
    let here = if here.len() < 4 { text } else { here };
    let is_cut = here.len() < text.len();
    let first = here.lines().take(3).collect::<Vec<_>>().join("; ");
    let mut command = first.trim().trim_end_matches(';').to_owned();
    for frill in [
        " | tail",
        "|tail",
        " | head",
        "|head",
        " 2>&1",
        " 2>/dev/null",
        " || true",
        "; echo",
    ] {
        if let Some(at) = command.find(frill).filter(|at| *at > 3) {
            let is_last = frill == " 2>&1" || frill == " 2>/dev/null";
            match is_last && command.len() > at + frill.len() {
                true => command = command.replacen(frill, "", 1),
                false => command.truncate(at),
            }
        }
    }
    let is_cut = is_cut || here.lines().count() > 3;
    let line = clean::to_one_line(&command, 200);
    if is_cut && !line.ends_with('…') {
        format!("{line} …")
    } else {
        line
    }
}

/// Marks of failure in what was printed, for commands whose status a pipe swallowed.
pub fn has_failure_marks(text: &str) -> bool {
    const STARTS: [&str; 14] = [
        "FAIL",
        "--- FAIL",
        "error:",
        "error[",
        "Error:",
        "ERROR:",
        "fatal:",
        "panic:",
        "Traceback (most recent",
        "FAILED",
        "npm ERR!",
        "SyntaxError",
        "TypeError",
        "make: ***",
    ];
    text.lines().rev().take(60).any(|line| {
        let line = line.trim_start();
        let may_be = line.starts_with(['F', '-', 'e', 'E', 'f', 'p', 'T', 'n', 'S', 'm']);
        may_be && STARTS.iter().any(|start| line.starts_with(start)) || line.starts_with("test result: FAILED")
    })
}

/// Words of errors, and words of tallies.
const OUTPUT_CUES: [&[&str]; 2] = [
    &[
        "error",
        "panic",
        "fail",
        "exception",
        "fatal",
        "undefined",
        "not found",
        "cannot",
        "expected",
        "denied",
        "traceback",
        "assert",
    ],
    &["passed", " ok", "warning", "0 issues", "passing"],
];

static OUTPUT_CUE_FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| build_matcher(OUTPUT_CUES.into_iter().flatten().copied()));

/// How telling a line of output is: how many words of errors it has, and whether it counts what passed.
fn score_output_line(line: &str) -> (u32, bool) {
    let Some(finder) = OUTPUT_CUE_FINDER.as_ref() else {
        return (0, false);
    };
    let (mut seen, mut tally) = (0_u32, false);
    for found in finder.find_overlapping_iter(line) {
        match found.pattern().as_usize() {
            word if word < OUTPUT_CUES[0].len() => seen |= 1 << word,
            _ => tally = true,
        }
    }
    (
        seen.count_ones(),
        tally && line.bytes().any(|byte| byte.is_ascii_digit()),
    )
}

/// The lines of an error that say what is wrong: at most three, in their order.
pub fn key_error_lines(text: &str) -> String {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| line.len() > 3 && !line.starts_with("Exit code"));
    let lines = lines.collect::<Vec<_>>();
    let scores = lines
        .iter()
        .map(|line| score_output_line(line).0.min(3))
        .collect::<Vec<_>>();
    let mut best = (0..lines.len()).collect::<Vec<_>>();
    best.sort_by_key(|at| (std::cmp::Reverse(scores[*at]), *at));
    best.truncate(3);
    if best.iter().all(|at| scores[*at] == 0) {
        // Nothing stands out: programs say it at the end.
        best = (lines.len().saturating_sub(2)..lines.len()).collect();
    }
    best.sort_unstable();
    let chosen = best
        .into_iter()
        .map(|at| clean::to_one_line(lines[at], 200))
        .collect::<Vec<_>>();
    chosen.join(" / ")
}

/// The line that says how it came out.
pub fn key_output_line(text: &str, failed: bool) -> String {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| line.len() > 3 && !line.starts_with("Exit code"));
    let found = lines.rev().take(40).find(|line| match failed {
        true => score_output_line(line).0 > 0,
        false => score_output_line(line).1,
    });
    found.map(|line| clean::to_one_line(line, 160)).unwrap_or_default()
}

/// Whether somebody corrects what the model did. Cues of several languages, at the start or as whole words.
pub fn is_correction(text: &str) -> bool {
    const STARTS: [&str; 16] = [
        "no,",
        "no ",
        "nope",
        "not ",
        "don't",
        "dont ",
        "do not",
        "stop",
        "wait",
        "actually",
        "wrong",
        "that's not",
        "revert",
        "undo",
        "hmm",
        "but ",
    ];
    const WITHIN: [&str; 34] = [
        "instead of",
        "instead,",
        " instead.",
        "should be ",
        "should have",
        "shouldn't",
        "should not",
        "i meant",
        "i said",
        "i asked",
        "you forgot",
        "you missed",
        "still not",
        "still fail",
        "still see",
        "doesn't work",
        "does not work",
        "didn't work",
        "not what i",
        "that's wrong",
        "is wrong",
        "incorrect",
        "why did you",
        "why are you",
        "please don't",
        "never ",
        "rather than",
        "you need to",
        "must not",
        "not working",
        "is broken",
        "too much",
        "unnecessary",
        "no need",
    ];
    const STRONG: [&str; 12] = [
        "why did you",
        "i meant",
        "i said",
        "i asked",
        "you forgot",
        "you missed",
        "not what i",
        "that's wrong",
        "instead of",
        "doesn't work",
        "still not",
        "still fail",
    ];
    const CHINESE: [&str; 14] = [
        "不对",
        "不是",
        "不要",
        "别",
        "错了",
        "应该",
        "而不是",
        "改回",
        "不需要",
        "还是不",
        "没有效果",
        "重新",
        "为什么",
        "不行",
    ];
    let low = clean::to_one_line(text, 1_200).to_lowercase();
    let low = low.replace('’', "'");
    // A long text that holds such words somewhere is pasted, and a question asks.
    let is_short = low.chars().count() <= 700;
    let is_question = low.ends_with(['?', '？']);
    STARTS.iter().any(|cue| low.starts_with(cue))
        || is_short
            && !is_question
            && (WITHIN.iter().any(|cue| low.contains(cue)) || CHINESE.iter().any(|cue| low.contains(cue)))
        || is_short && STRONG.iter().any(|cue| low.contains(cue))
}

/// Turns of phrase of the model, by what a sentence with them is good for; the last are those of a mere intention.
const CUES: [(&[&str], Option<SentenceKind>); 3] = [
    (
        &[
            "root cause",
            "the issue is",
            "the problem is",
            "the bug is",
            "the reason",
            "because ",
            "turns out",
            "was caused",
            "the fix",
            "this happens",
            "this means",
            "caused by",
            "the error is",
            "i see the issue",
            "found the issue",
            "was missing",
            "the culprit",
            "the cause",
            "原因",
            "问题是",
            "因为",
            "导致",
            "根本",
            "修复",
        ],
        Some(SentenceKind::Cause),
    ),
    (
        &[
            "i'll go with",
            "decided",
            "the approach",
            "we agreed",
            "better to ",
            "instead of",
            "rather than",
            "trade-off",
            "tradeoff",
            "the plan",
            "design:",
            "i chose",
            "simplest",
            "决定",
            "方案",
            "采用",
        ],
        Some(SentenceKind::Decision),
    ),
    (
        &[
            " is responsible",
            " handles ",
            " stores ",
            " contains ",
            " returns ",
            " is called ",
            " calls ",
            " uses ",
            " is defined",
            " lives in",
            " is used ",
            " writes ",
            " reads ",
            " implements ",
            " is stored",
            " are stored",
            " depends on",
            " is the ",
            " creates ",
            "负责",
            "用于",
            "实现",
        ],
        Some(SentenceKind::System),
    ),
];

/// Finds words whatever their case, all at once.
fn build_matcher(words: impl Iterator<Item = &'static str>) -> Option<AhoCorasick> {
    let words = words.collect::<Vec<_>>();
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
}

static CUE_FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| build_matcher(CUES.iter().flat_map(|(cues, _)| cues.iter().copied())));

/// What a sentence of the model is good for, if it says more than what it does next.
pub fn classify_sentence(sentence: &str) -> Option<SentenceKind> {
    let length = sentence.chars().count();
    if !(20..=400).contains(&length) || sentence.ends_with(['?', '？', ':', '：']) {
        return None;
    }
    let mut best = CUES.len();
    for found in CUE_FINDER.as_ref()?.find_overlapping_iter(sentence) {
        let mut cue = found.pattern().as_usize();
        let group = CUES.iter().position(|(cues, _)| {
            let is_here = cue < cues.len();
            cue = cue.wrapping_sub(cues.len());
            is_here
        });
        best = best.min(group.unwrap_or(best));
    }
    let sense = CUES.get(best)?.1?;
    let is_intent = || {
        let start = sentence.chars().take(10).collect::<String>().to_lowercase();
        ["let me", "i'll ", "i will", "now i", "now let"]
            .iter()
            .any(|known| start.starts_with(known))
    };
    let has_code = || {
        let mut code = sentence.matches('`').count() / 2;
        names::for_each_identifier(sentence, |_| code += 1);
        code > 0
    };
    let is_good = match sense {
        // Short ones say that there is a cause and not which.
        SentenceKind::Cause => !is_intent() && (length >= 60 || has_code()),
        SentenceKind::Decision => true,
        SentenceKind::System => !is_intent() && has_code(),
    };
    is_good.then_some(sense)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_known_again_without_their_frills() {
        assert_eq!(normalize_command("cd /w && cargo test 2>&1 | tail -20"), "cargo test");
        assert_eq!(normalize_command("cd /w\ncargo test|head -5"), "cargo test");
        assert_eq!(normalize_command("python3 - <<'E'\nprint(1)\nE"), "python3 - …");
        assert_eq!(normalize_command("cargo build"), "cargo build");
    }

    #[test]
    fn corrections_in_several_languages() {
        for text in [
            "no, the other file",
            "please don't touch the tests",
            "that should be a list rather than a map",
            "why did you remove the check?",
            "不对，应该用整数",
        ] {
            assert!(is_correction(text), "{text}");
        }
        for text in ["add a flag for that", "how does it work?", "ok", "请添加一个测试"] {
            assert!(!is_correction(text), "{text}");
        }
    }
}
