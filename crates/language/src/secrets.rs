//! Secrets in text: found by rules of our own, so that none of them is kept or printed.
//!
//! Three families: tokens with a known form, values that a key word introduces (`password = ...`, `user:pass@host`, a
//! private key between its lines), and long strings that look like chance. A rule is tried only where one of its key
//! words stands, and compiled when it is tried for the first time: most texts cost one pass for the key words.

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Where it stands.
    pub range: Range<usize>,
    /// Name of the rule that found it.
    pub rule: &'static str,
}

/// What a secret is replaced by.
pub const MASK: &str = "[secret]";

/// One form of secret. What is secret is the group `s`, or all of it.
struct SecretRule {
    name: &'static str,
    /// Small letters; one of them must be in the text.
    keys: &'static [&'static str],
    pattern: &'static str,
    /// Whether the value must look like chance, because the words around it are common.
    check: SecretCheck,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretCheck {
    /// The form says enough.
    Form,
    /// No placeholder, and not a plain word or a reference to a variable.
    Value,
    /// Looks like chance.
    HighEntropy,
}

const fn plain_rule(name: &'static str, keys: &'static [&'static str], pattern: &'static str) -> SecretRule {
    SecretRule {
        name,
        keys,
        pattern,
        check: SecretCheck::Form,
    }
}

const RULES: &[SecretRule] = &[
    plain_rule(
        "private-key",
        &["-----begin"],
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY( BLOCK)?-----[\s\S]{0,20000}?(-----END [A-Z0-9 ]{0,40}PRIVATE KEY( BLOCK)?-----|\z)",
    ),
    plain_rule(
        "aws-access-key",
        &["akia", "asia", "abia", "acca"],
        r"\b(?-i:AKIA|ASIA|ABIA|ACCA)(?-i:[A-Z2-7]{16})\b",
    ),
    plain_rule(
        "github-token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"\bgh[pousr]_[A-Za-z0-9]{30,255}\b",
    ),
    plain_rule(
        "github-fine-grained-token",
        &["github_pat_"],
        r"\bgithub_pat_[A-Za-z0-9_]{40,255}\b",
    ),
    plain_rule(
        "gitlab-token",
        &["glpat-", "gldt-", "glrt-", "glcbt-"],
        r"\bgl(pat|dt|rt|cbt)-[A-Za-z0-9_-]{20,}",
    ),
    plain_rule(
        "slack-token",
        &["xox", "xapp-"],
        r"\b(xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}",
    ),
    plain_rule(
        "slack-webhook",
        &["hooks.slack.com"],
        r"hooks\.slack\.com/(services|workflows)/[A-Za-z0-9/_-]{20,}",
    ),
    plain_rule(
        "discord-webhook",
        &["/api/webhooks/"],
        r"discord(app)?\.com/api/webhooks/\d+/[A-Za-z0-9_-]{20,}",
    ),
    plain_rule("anthropic-key", &["sk-ant-"], r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    plain_rule(
        "openai-key",
        &["sk-"],
        r"\bsk-(proj-|svcacct-|admin-|or-v1-|live-|test-)?[A-Za-z0-9_-]{20,}",
    ),
    plain_rule(
        "stripe-key",
        &["sk_", "rk_", "whsec_"],
        r"\b((sk|rk)_(live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,})",
    ),
    plain_rule("google-api-key", &["aiza"], r"\bAIza[A-Za-z0-9_-]{35}"),
    plain_rule(
        "google-oauth",
        &["ya29.", "gocspx-", "1//0"],
        r"\b(ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{20,})",
    ),
    plain_rule("hugging-face-token", &["hf_"], r"\bhf_[A-Za-z0-9]{30,}\b"),
    plain_rule("npm-token", &["npm_"], r"\bnpm_[A-Za-z0-9]{30,}\b"),
    plain_rule("pypi-token", &["pypi-"], r"\bpypi-[A-Za-z0-9_-]{40,}"),
    plain_rule(
        "docker-token",
        &["dckr_pat_", "dckr_oat_"],
        r"\bdckr_[po]at_[A-Za-z0-9_-]{20,}",
    ),
    plain_rule(
        "sendgrid-key",
        &["sg."],
        r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    ),
    plain_rule("twilio-key", &["sk", "ac"], r"\b(?-i:SK|AC)[0-9a-f]{32}\b"),
    plain_rule("telegram-token", &[":aa"], r"\b\d{8,10}:AA[A-Za-z0-9_-]{32,}"),
    plain_rule(
        "linear-key",
        &["lin_api_", "lin_oauth_"],
        r"\blin_(api|oauth)_[A-Za-z0-9]{20,}",
    ),
    plain_rule(
        "notion-token",
        &["ntn_", "secret_"],
        r"\b(ntn_[A-Za-z0-9]{30,}|secret_[A-Za-z0-9]{40,})\b",
    ),
    plain_rule("databricks-token", &["dapi"], r"\bdapi[0-9a-f]{32}\b"),
    plain_rule("vault-token", &["hvs.", "hvb."], r"\bhv[sb]\.[A-Za-z0-9_-]{20,}"),
    plain_rule(
        "digital-ocean-token",
        &["dop_v1_", "doo_v1_"],
        r"\bdo[op]_v1_[0-9a-f]{40,}",
    ),
    plain_rule(
        "shopify-token",
        &["shpat_", "shpss_", "shpca_"],
        r"\bshp(at|ss|ca)_[0-9a-f]{32}",
    ),
    plain_rule("posthog-key", &["phc_", "phx_"], r"\bph[cx]_[A-Za-z0-9]{30,}"),
    plain_rule(
        "sentry-token",
        &["sntrys_", "sntryu_"],
        r"\bsntry[su]_[A-Za-z0-9_=+/-]{30,}",
    ),
    plain_rule("grafana-token", &["glsa_", "glc_"], r"\bgl(sa|c)_[A-Za-z0-9_=+/-]{30,}"),
    plain_rule("age-key", &["age-secret-key-"], r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    plain_rule(
        "azure-key",
        &["accountkey=", "sharedaccesskey="],
        r"(AccountKey|SharedAccessKey)=(?P<s>[A-Za-z0-9+/=]{20,})",
    ),
    plain_rule(
        "json-web-token",
        &["eyj"],
        r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    ),
    SecretRule {
        name: "password-in-address",
        keys: &["://"],
        pattern: r"\b[a-z][a-z0-9+.-]*://[^\s:/@'\x22<>]{0,80}:(?P<s>[^\s/@'\x22<>]{3,200})@",
        check: SecretCheck::Value,
    },
    SecretRule {
        name: "authorization-header",
        keys: &["bearer", "basic"],
        pattern: r"\b(bearer|basic)\s+(?P<s>[A-Za-z0-9_.~+/=-]{16,})",
        check: SecretCheck::HighEntropy,
    },
    SecretRule {
        name: "assigned-secret",
        keys: &[
            "passw",
            "pwd",
            "passphrase",
            "secret",
            "token",
            "api_key",
            "apikey",
            "api-key",
            "api key",
            "access_key",
            "private_key",
            "credential",
            "密码",
            "口令",
            "密钥",
        ],
        pattern: r#"\b[A-Za-z0-9_.-]{0,40}(pass(word|wd|phrase)?|pwd|secret|token|api[_ -]?key|access[_-]?key|private[_-]?key|credentials?)[A-Za-z0-9_]{0,20}['"]?\s*(:=|=>|=|:|\bis\b|\bwas\b)\s*['"]?(?P<s>[^\s'",;<>`(){}]{6,200})"#,
        check: SecretCheck::Value,
    },
    SecretRule {
        name: "assigned-secret",
        keys: &["密码", "口令", "密钥", "令牌"],
        pattern: r"(密码|口令|密钥|令牌)\s*(是|为|：|:|=)\s*(?P<s>[!-~]{6,200})",
        check: SecretCheck::Value,
    },
    SecretRule {
        name: "command-line-password",
        keys: &["--password", "--token", "--api-key", "--secret", "-p", "-u "],
        pattern: r#"(--(password|passwd|token|api-key|secret)[= ]|\s-u\s+[^\s:]{1,60}:)['"]?(?P<s>[^\s'"]{6,200})"#,
        check: SecretCheck::Value,
    },
];

/// A long run of the signs that keys are written with.
static RUNS: LazyLock<Option<Regex>> = LazyLock::new(|| compile(r"[A-Za-z0-9_+/=-]{24,200}"));

static COMPILED: [OnceLock<Option<Regex>>; RULES.len()] = [const { OnceLock::new() }; RULES.len()];

/// Key words, and the rule of each.
static KEYS: LazyLock<Option<(AhoCorasick, Vec<usize>)>> = LazyLock::new(|| {
    let keys = RULES
        .iter()
        .enumerate()
        .flat_map(|(at, rule)| rule.keys.iter().map(move |key| (*key, at)))
        .collect::<Vec<_>>();
    let words = keys.iter().map(|(key, _)| key);
    let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()?;
    Some((automaton, keys.into_iter().map(|(_, rule)| rule).collect()))
});

fn compile(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern)
        .unicode(!pattern.is_ascii())
        .case_insensitive(true)
        .build()
        .ok()
}

/// All secrets of a text, in order, not overlapping.
pub fn find(text: &str) -> Vec<Secret> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    if let Some((keys, rules)) = KEYS.as_ref() {
        let mut is_due = [false; RULES.len()];
        for key in keys.find_overlapping_iter(bytes) {
            is_due[rules[key.pattern().as_usize()]] = true;
        }
        for (at, rule) in RULES.iter().enumerate().filter(|(at, _)| is_due[*at]) {
            let Some(regex) = COMPILED[at].get_or_init(|| compile(rule.pattern)) else {
                continue;
            };
            for captures in regex.captures_iter(bytes) {
                let Some(value) = captures.name("s").or_else(|| captures.get(0)) else {
                    continue;
                };
                let is_secret = match rule.check {
                    SecretCheck::Form => true,
                    SecretCheck::Value => is_plausible_value(value.as_bytes()),
                    SecretCheck::HighEntropy => is_high_entropy(value.as_bytes()),
                };
                if is_secret {
                    found.push(Secret {
                        range: value.range(),
                        rule: rule.name,
                    });
                }
            }
        }
    }
    if let Some(runs) = RUNS.as_ref() {
        let by_chance = runs.find_iter(bytes).filter(|run| is_random_run(run.as_bytes()));
        found.extend(by_chance.map(|run| Secret {
            range: run.range(),
            rule: "high-entropy",
        }));
    }
    merge_overlaps(text, found)
}

/// Sorts, joins what overlaps, and moves edges to whole characters.
fn merge_overlaps(text: &str, mut found: Vec<Secret>) -> Vec<Secret> {
    for secret in &mut found {
        secret.range = text.floor_char_boundary(secret.range.start)..text.ceil_char_boundary(secret.range.end);
    }
    found.sort_by_key(|secret| (secret.range.start, secret.range.end));
    let mut tidied: Vec<Secret> = Vec::new();
    for secret in found {
        match tidied.last_mut() {
            Some(last) if secret.range.start < last.range.end => last.range.end = last.range.end.max(secret.range.end),
            _ => tidied.push(secret),
        }
    }
    tidied
}

/// The text without its secrets.
pub fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for secret in find(text) {
        out.push_str(&text[at..secret.range.start]);
        out.push_str(MASK);
        at = secret.range.end;
    }
    out.push_str(&text[at..]);
    out
}

/// Whether the value of an assignment may be a secret: no placeholder, no variable, no plain word.
fn is_plausible_value(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return true;
    };
    let low = text.to_ascii_lowercase();
    let is_reference = text.starts_with(['$', '%', '&', '*', '[', '.']) || low.contains("env") || low.contains("://");
    let placeholder = [
        "example",
        "changeme",
        "placeholder",
        "redacted",
        "xxxx",
        "****",
        "...",
        "your",
        "none",
        "null",
        "true",
        "false",
        "undefined",
        "[secret]",
    ];
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let has_sign = text
        .bytes()
        .any(|byte| byte.is_ascii_punctuation() && !b"_-./:".contains(&byte));
    let has_both_cases = text.bytes().any(|byte| byte.is_ascii_lowercase())
        && text.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
    // `token: string` and `the token is missing` are no secrets; `hunter2` is.
    !is_reference
        && !placeholder.iter().any(|word| low.contains(word))
        && (has_digit || has_sign || has_both_cases && text.len() >= 10)
}

/// Whether a value looks like chance: many different signs, digits among letters.
fn is_high_entropy(value: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| value.iter().any(is);
    is_plausible_value(value) && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && entropy(value) >= 3.3
}

/// As [`is_chance`], for a run that no word introduces: ids, hashes and paths must not count.
fn is_random_run(run: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| run.iter().filter(|byte| is(byte)).count();
    let is_hex = run.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    let joints = count(|byte| b"/_-=+".contains(byte));
    let mixed =
        count(u8::is_ascii_uppercase) >= 3 && count(u8::is_ascii_lowercase) >= 3 && count(u8::is_ascii_digit) >= 3;
    // Digits and case changes are scattered in a key; in a name they stand at the ends of its words.
    let changes = run
        .windows(2)
        .filter(|pair| byte_class(pair[0]) != byte_class(pair[1]))
        .count();
    !is_hex && mixed && joints * 8 <= run.len() && changes * 3 >= run.len() && entropy(run) >= 4.2
}

fn byte_class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    }
}

/// Bits a byte.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    let total = value.len() as f64;
    let bits = |count: u32| {
        let share = f64::from(count) / total;
        -share * share.log2()
    };
    counts.into_iter().filter(|count| *count > 0).map(bits).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Made up, one of every kind. Written in two halves, so that no scanner takes this file for a leak.
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
    fn what_people_write_is_no_secret() {
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
        fn any_text_is_survived(text in "\\PC{0,80}") {
            for secret in find(&text) {
                prop_assert!(text.get(secret.range).is_some());
            }
            let _ = mask(&text);
        }
    }
}
