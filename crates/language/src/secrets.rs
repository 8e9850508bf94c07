//! Secrets in text, so that none of them is stored, printed or sent. One module decides for every output.
//!
//! Two ways lead to a secret. *Form*: a token with a known beginning, a private key, a long run that looks random
//! (`forms`). *Context*: the name of a secret and a value near it, whatever stands between (`names` finds the name,
//! `window` reads on from it in both directions, `shape` says what a value looks like); addresses and command lines
//! have rules of their own. The closer a value is tied to a name, the less it has to look like a secret.
//!
//! Most texts cost two scans: one that looks at every sixteenth byte for long runs, and the automaton of the keywords.

mod address;
mod calls;
mod commands;
mod forms;
mod names;
mod pieces;
mod prose;
mod scored;
mod shape;
mod window;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Input, MatchKind};
use names::{HINTS, KEYWORDS, NameKind};
use scored::Cue;
pub use scored::{Candidate, score, sign_name};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its bytes.
    pub range: Range<usize>,
    /// Name of the matching rule.
    pub rule: &'static str,
}

/// Replaces a secret in masked text.
pub const MASK: &str = "[secret]";

/// How far a secret may reach over the place where a text is cut.
const REACH: usize = 512;

/// What a text in the automaton stands for.
#[derive(Debug, Clone, Copy)]
enum Sign {
    Name(NameKind),
    Hint,
    Scheme,
    At,
    PasswordFile,
    Command,
    Pipe,
    /// A field of a query that stands for a key.
    Query,
    /// A call, by its place in the list of functions.
    Call(usize),
}

/// Fields that stand for a key in the query of an address, and whose names say nothing elsewhere.
const QUERY_KEYS: [&str; 10] = [
    "?appid=",
    "&appid=",
    "?ak=",
    "&ak=",
    "?sk=",
    "&sk=",
    "?key=",
    "&key=",
    "?k=",
    "&subscription-key=",
];

/// The texts that the automaton finds, each with what it stands for.
static SIGNS: LazyLock<Vec<(&'static str, Sign)>> = LazyLock::new(|| {
    let names = KEYWORDS.iter().map(|(word, kind)| (*word, Sign::Name(*kind)));
    let hints = HINTS.iter().map(|word| (*word, Sign::Hint));
    let addresses = [
        ("://", Sign::Scheme),
        ("@", Sign::At),
        (":5432:", Sign::PasswordFile),
        (":3306:", Sign::PasswordFile),
    ];
    let commands = commands::COMMANDS.iter().map(|word| (*word, Sign::Command));
    let pipes = commands::PIPES.iter().map(|word| (*word, Sign::Pipe));
    let queries = QUERY_KEYS.iter().map(|word| (*word, Sign::Query));
    let calls = calls::function_names()
        .enumerate()
        .map(|(at, name)| (name, Sign::Call(at)));
    names
        .chain(hints)
        .chain(addresses)
        .chain(commands)
        .chain(pipes)
        .chain(queries)
        .chain(calls)
        .collect()
});

/// How many bytes are read before the fast automaton is worth building: it takes as long as reading a megabyte.
const FEW_BYTES: usize = 1 << 20;

/// Returns the automaton of the signs. Both kinds find the same; the choice never changes a result.
fn automaton(more: usize) -> Option<&'static AhoCorasick> {
    static SMALL: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| build(AhoCorasickKind::ContiguousNFA));
    static FAST: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| build(AhoCorasickKind::DFA));
    static READ: AtomicUsize = AtomicUsize::new(0);
    match READ.fetch_add(more, Ordering::Relaxed) {
        0..FEW_BYTES => SMALL.as_ref(),
        _ => FAST.as_ref(),
    }
}

fn build(kind: AhoCorasickKind) -> Option<AhoCorasick> {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(kind))
        .build(SIGNS.iter().map(|(text, _)| *text))
        .ok()
}

/// Finds all secrets of a text, in order and without overlaps.
pub fn find(text: &str) -> Vec<Secret> {
    let (mut found, cues) = apply_rules(text);
    scored::find(text, &cues, &mut found);
    merge_overlaps(text, found)
}

/// [`find`] without the trained score.
pub fn find_by_rules(text: &str) -> Vec<Secret> {
    merge_overlaps(text, apply_rules(text).0)
}

/// Returns what forms and names give away, and the cues near which more may stand.
fn apply_rules(text: &str) -> (Vec<Secret>, Vec<Cue>) {
    let mut found = Vec::new();
    forms::find(text, &mut found);
    let cues = find_named(text, &mut found);
    (found, cues)
}

/// Returns the words near cues that may be secrets, with the signs that their score is made of.
pub fn candidates(text: &str) -> Vec<Candidate> {
    let cues = find_named(text, &mut Vec::new());
    scored::candidates(text, &cues)
}

/// [`mask_text`] by form alone: for texts of our own that quote a name now and then.
pub fn mask_forms(text: &str) -> Cow<'_, str> {
    let mut found = Vec::new();
    forms::find(text, &mut found);
    replace(text, merge_overlaps(text, found))
}

/// Adds the secrets that something near them names. Returns the cues near which more may stand, in order.
fn find_named(text: &str, found: &mut Vec<Secret>) -> Vec<Cue> {
    let mut cues = Vec::new();
    let Some(automaton) = automaton(text.len()) else {
        return cues;
    };
    let mut done = 0;
    let mut from = 0;
    while let Some(hit) = automaton.find(Input::new(text).range(from..)) {
        let (start, end) = (hit.start(), hit.end());
        // What is no name may begin inside one: `rootPassword` holds `otp`.
        from = end;
        match SIGNS[hit.pattern().as_usize()].1 {
            Sign::Name(_) if start < done => {}
            Sign::Name(NameKind::Leet) => window::find_word_at(text, start, found),
            Sign::Name(kind) => {
                if let Some(name) = names::read_name(text, start, end, kind) {
                    window::find(text, &name, found);
                    window::find_in_name(text, end..name.end, found);
                    done = name.end;
                    cues.extend(Cue::of_name(&name));
                } else {
                    from = text.ceil_char_boundary(start + 1);
                }
            }
            Sign::Hint => cues.extend(Cue::of_hint(text, start, end)),
            Sign::Scheme => address::find_after_scheme(text, start, found),
            Sign::At => address::find_before_at(text, start, found),
            Sign::PasswordFile => address::find_in_password_file(text, start, end, found),
            Sign::Command => commands::find(text, start, end, found),
            Sign::Pipe => commands::find_piped(text, start, found),
            Sign::Query => window::find_in_query(text, end, found),
            Sign::Call(at) => calls::find(text, at, end, found),
        }
    }
    cues
}

/// Adds a secret.
fn push(found: &mut Vec<Secret>, range: Range<usize>, rule: &'static str) {
    if !range.is_empty() {
        found.push(Secret { range, rule });
    }
}

/// Sorts secrets, joins those that overlap, and rounds their ranges to whole characters.
fn merge_overlaps(text: &str, mut found: Vec<Secret>) -> Vec<Secret> {
    for secret in &mut found {
        secret.range = text.floor_char_boundary(secret.range.start)..text.ceil_char_boundary(secret.range.end);
    }
    found.sort_by_key(|secret| (secret.range.start, secret.range.end));
    let mut tidied: Vec<Secret> = Vec::new();
    for secret in found {
        match tidied.last_mut() {
            Some(last) if secret.range.start < last.range.end => {
                last.range.end = last.range.end.max(secret.range.end);
                // A rule that names the secret says more than one that found it random.
                if last.rule == "high-entropy" {
                    last.rule = secret.rule;
                }
            }
            _ => tidied.push(secret),
        }
    }
    tidied
}

/// Replaces every secret of a text with [`MASK`].
pub fn mask(text: &str) -> String {
    mask_text(text).into_owned()
}

/// [`mask`], which borrows a text that has no secret.
pub fn mask_text(text: &str) -> Cow<'_, str> {
    replace(text, find(text))
}

/// Replaces secrets, which are in order, with [`MASK`].
fn replace(text: &str, found: Vec<Secret>) -> Cow<'_, str> {
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for secret in found {
        out.push_str(&text[at..secret.range.start]);
        out.push_str(MASK);
        at = secret.range.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// Returns the masked start of a text: at least `most` bytes of it, for a caller that cuts it. Masking comes first, because
/// half a secret is no longer recognized, and the start of a long text is masked without reading all of it.
pub fn mask_head(text: &str, most: usize) -> Cow<'_, str> {
    let end = most.saturating_add(REACH);
    if text.len() <= end {
        return mask_text(text);
    }
    mask_text(&text[..text.floor_char_boundary(end)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Invented secrets, one of every kind. Each is written in two halves, so that no scanner reports this file.
    pub(crate) fn canaries() -> Vec<(&'static str, String)> {
        let long = "Zx9Qw3Er7Ty1Ui5Op2As8Df4Gh6Jk0LmVb";
        let hex = "9f86d081884c7d659a2feaa0c55ad015";
        let join = |first: &str, second: &str| format!("{first}{second}");
        vec![
            (
                "private-key",
                join(
                    "-----BEGIN RSA PRIV",
                    "ATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
                ),
            ),
            ("aws-access-key", join("AKIA", "QZ3NPT5VWX2YLMKD")),
            ("github-token", join("ghp_", &format!("{long}ab"))),
            (
                "github-fine-grained-token",
                join("github_pat_", &format!("{long}_{long}")),
            ),
            ("gitlab-token", join("glpat-", &long[..22])),
            ("slack-token", join("xoxb-", "123456789012-abcdefGHIJKL")),
            ("anthropic-key", join("sk-ant-", &format!("api03-{long}"))),
            ("openai-key", join("sk-", &format!("proj-{long}"))),
            ("stripe-key", join("sk_live_", long)),
            ("google-api-key", join("AIza", &format!("{long}c"))),
            ("hugging-face-token", join("hf_", long)),
            ("npm-token", join("npm_", &format!("{long}ab"))),
            ("sendgrid-key", join("SG.", &format!("{}.{long}", &long[..22]))),
            ("databricks-token", join("dapi", hex)),
            ("linear-key", join("lin_api_", long)),
            (
                "json-web-token",
                join("eyJ", "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"),
            ),
            (
                "password-in-address",
                join("postgres://app:", "s3cr3tpw@db.internal/main"),
            ),
            ("authorization-header", join("Authorization: Bearer ", long)),
            ("assigned-secret", join("DB_PASSWORD=", "hunter2hunter")),
            ("assigned-secret", join("the password is ", "tr0ub4dor")),
            ("assigned-secret", join("数据库密码是", "tr0ub4dor")),
            ("command-line-password", join("mysql --password ", "s3cr3t!pw")),
            ("high-entropy", long.to_owned()),
        ]
    }

    #[test]
    fn every_kind_is_found_and_masked() {
        for (rule, canary) in canaries() {
            let text = format!("use this: {canary} thanks");
            let found = find(&text);
            assert!(!found.is_empty(), "{rule}: {canary}");
            assert!(found.iter().any(|secret| secret.rule == rule), "{rule}: {found:?}");
            let masked = mask(&text);
            assert!(masked.contains(MASK) && find(&masked).is_empty(), "{masked}");
        }
    }

    #[test]
    fn ordinary_text_has_no_secrets() {
        for text in [
            "the token is missing, so the request fails",
            "set password: string in the struct",
            "API_KEY=$API_KEY and token=${TOKEN}",
            "PASSWORD=changeme in the example",
            "commit 3f2a1b9c8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a",
            "session 0cf3db51-1c2d-4e5f-8a9b-0c1d2e3f4a5b",
            "src/components/SessionNavigationWithCombinedLink2.tsx",
            "TestInstallHooks_PreservesUserHooksOnSameType",
            "https://github.com/someone/project/actions/runs/21662191208/job/62449194626",
            "run sk-learn tests and the basic authentication flow",
        ] {
            assert_eq!(find(text), [], "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_around_names_is_handled(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "password", "token", "密码", "://", "@", ":5432:", "curl -u ", "mysql -p", "echo ", "| sudo -S", "api key", "P@ss",
                    " is ", "是", ": ", "=", "\"", "`", "'", "“", "**", "```", "\n", "\\", "→", "é", "…", "𝕏", "••••", "←", "（", "）", "*", "\u{1b}[3", "|", "|---|\n", ", ", "？", "a1b2C3&x=", ";", "hunter2", "[secret]",
                    "(", ")", "<b>", "-----BEGIN RSA PRIVATE KEY-----", "ghp_", "/", ".", "123456", "words here", "pwd", "wallet", "login a/b", "'s ", ",", "|", "seed phrase", "$", "{", "%", "--token ",
                ]),
                0..14,
            )
        ) {
            let text = pieces.concat();
            for secret in find(&text) {
                prop_assert!(text.get(secret.range).is_some());
            }
            let _ = mask(&text);
        }

        #[test]
        fn any_text_is_handled(text in "\\PC{0,80}") {
            for secret in find(&text) {
                prop_assert!(text.get(secret.range).is_some());
            }
            let _ = mask(&text);
        }
    }
}
