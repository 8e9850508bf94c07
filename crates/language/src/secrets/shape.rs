//! What a value looks like, whatever stands around it: a word, an identifier, digits, or something that only a secret is.

use super::{forms, names, prose};

/// How much a value looks like a secret. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    /// Never a secret: a placeholder, a variable, code, a path, a version, a known kind of id.
    Never,
    /// An ordinary word, or words joined by hyphens.
    Prose,
    /// Words joined as in a program: `retry_limit`, `useAuthStore`.
    Identifier,
    /// Letters only, and no ordinary word; or an ordinary word and a number.
    Word,
    /// Digits only.
    Digits,
    /// A hash or a UUID, which most often is an id.
    Hex,
    /// Letters with digits or signs: `hunter2`, `correct-horse`.
    Odd,
    /// Letters, digits and signs in turn: `Tr0ub4dor&3`.
    Strong,
    /// A long run without a pattern.
    Random,
}

/// Texts that stand for a value.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "placeholder",
    "redacted",
    "xxxx",
    "****",
    "...",
    "…",
    "your_",
    "your-",
    "yourp",
    "yourt",
    "yours",
    "yourk",
    "my_",
    "<",
    "[secret]",
    "changeme",
    "change_me",
    "change-me",
    "changethis",
    "insert-",
    "insert_",
    "replace_",
    "replaceme",
];

/// Endings of file names.
const EXTENSIONS: &[&str] = &[
    "rs",
    "py",
    "js",
    "ts",
    "tsx",
    "jsx",
    "mjs",
    "cjs",
    "go",
    "java",
    "kt",
    "swift",
    "c",
    "h",
    "cc",
    "cpp",
    "hpp",
    "cs",
    "rb",
    "php",
    "sh",
    "bash",
    "zsh",
    "ps1",
    "bat",
    "sql",
    "md",
    "txt",
    "json",
    "jsonl",
    "yaml",
    "yml",
    "toml",
    "ini",
    "cfg",
    "conf",
    "env",
    "local",
    "lock",
    "log",
    "csv",
    "xml",
    "html",
    "css",
    "scss",
    "vue",
    "svelte",
    "pem",
    "key",
    "crt",
    "pub",
    "p12",
    "png",
    "jpg",
    "svg",
    "pdf",
    "zip",
    "gz",
    "db",
    "properties",
];

/// Last parts of host names.
const DOMAINS: &[&str] = &[
    "com",
    "org",
    "net",
    "io",
    "dev",
    "cn",
    "internal",
    "local",
    "app",
    "ai",
    "co",
    "uk",
    "de",
    "eu",
    "us",
    "localhost",
    "lan",
    "test",
    "invalid",
    "edu",
    "gov",
    "me",
    "tw",
    "hk",
    "jp",
    "sh",
    "cloud",
];

/// Returns the shape of a value without the quotes around it.
pub(super) fn shape(value: &str) -> Shape {
    let value = value.trim_end_matches(['.', ',', ';', ':']);
    if value.len() < 3 || value.len() > 2_000 || is_reference(value) || forms::is_ordinary_id(value) {
        return Shape::Never;
    }
    if is_notation(value) {
        return Shape::Never;
    }
    let is_key = is_random(value.as_bytes()) && !is_hex(value) && !is_location(value);
    if !is_key && is_code(value) {
        return Shape::Never;
    }
    let low = value.to_ascii_lowercase();
    if PLACEHOLDERS.iter().any(|text| low.contains(text)) || is_repeated(value) {
        return Shape::Never;
    }
    if prose::is_prose(value.trim_end_matches(['!', '?'])) {
        return Shape::Prose;
    }
    let count = |is: fn(u8) -> bool| value.bytes().filter(|byte| is(*byte)).count();
    let digits = count(|byte| byte.is_ascii_digit());
    let letters = value.chars().filter(|c| c.is_alphabetic()).count();
    if letters == 0 {
        return numeric_shape(value, digits);
    }
    if is_hex(value) {
        return Shape::Hex;
    }
    if digits == 0 && letters == value.chars().count() {
        return letters_shape(value);
    }
    if is_key {
        return Shape::Random;
    }
    if is_location(value) || is_measure(value) {
        return Shape::Never;
    }
    mixed_shape(value, digits, letters)
}

/// Returns whether a value names another value: a variable of a shell, a template or a program.
fn is_reference(value: &str) -> bool {
    let is_name = |text: &str| {
        let text = text.trim_end_matches(['"', '\'', ')', '}']);
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_one_case =
            !text.bytes().any(|byte| byte.is_ascii_lowercase()) || !text.bytes().any(|byte| byte.is_ascii_digit());
        !text.is_empty() && is_plain && is_one_case
    };
    let low = value.to_ascii_lowercase();
    value
        .strip_prefix('$')
        .is_some_and(|rest| rest.starts_with(['{', '(']) || is_name(rest))
        || value
            .strip_prefix('%')
            .is_some_and(|rest| rest.strip_suffix('%').is_some_and(is_name))
        || value.starts_with("{{")
        || value.starts_with("${{")
        || value.starts_with("<%")
        || value.starts_with('{') && value.ends_with('}')
        || value.starts_with("--")
        || value.starts_with('<') && value.contains('>')
        || low.starts_with("process.env")
        || low.starts_with("os.environ")
        || low.starts_with("env.")
        || low.starts_with("secrets.")
        || low.starts_with("var.")
        || low.starts_with("self.")
        || low.starts_with("this.")
        || low.starts_with("config.")
        || value.contains("://")
        || value.starts_with(['@', '#'])
            && value
                .bytes()
                .skip(1)
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-/".contains(&byte))
            && !has_inner_digit(value)
}

fn has_inner_digit(value: &str) -> bool {
    value
        .bytes()
        .zip(value.bytes().skip(1))
        .any(|(one, next)| one.is_ascii_digit() && next.is_ascii_alphabetic())
}

/// Returns whether a value is a piece of a program: a call, a path of names, an operator.
fn is_code(value: &str) -> bool {
    let name = value
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte))
        .count();
    let is_call = name > 0
        && value.as_bytes().get(name).is_some_and(|byte| b"([".contains(byte))
        && !has_inner_digit(&value[..name]);
    let has_operator = [
        "::", "->", "=>", "==", "&&", "||", "()", "[]", "!=", "\\d", "\\w", "${", ".*", ".+",
    ]
    .iter()
    .any(|operator| value.contains(operator));
    let is_macro = value.ends_with('(') || value.ends_with("({") || value.contains("!(\"");
    is_call || has_operator || is_macro || is_member(value)
}

/// Returns whether a value is written in some notation: an escape, a format, an entity, a list of choices, a field, a number of
/// an advisory or a ticket.
fn is_notation(value: &str) -> bool {
    let has_mark = [
        "\\x", "\\u", "%s", "%d", "%v", "&lt;", "&gt;", "&amp;", "&quot;", ":\"", "=\"", "='", "[^", "$(", "`", "\\\\",
        "##", "/>", "</",
    ]
    .iter()
    .any(|mark| value.contains(mark));
    let is_format =
        ["%s", "%d", "%v"].iter().any(|mark| value.contains(mark)) && !value.bytes().any(|byte| byte.is_ascii_digit());
    let is_choice = value.contains('|')
        && value.split('|').all(|part| {
            let is_word = part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
            part.len() <= 12 && is_word && !part.bytes().all(|byte| byte.is_ascii_digit())
        });
    let port = value.split_once(':').filter(|(host, _)| {
        !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || b"-.".contains(&byte))
    });
    let is_port =
        port.is_some_and(|(_, port)| (2..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_attribute =
        value.starts_with("#[") || value.starts_with("@") && value.contains('/') || value.starts_with(':');
    let is_windows_path = value.contains('\\') && value.split('\\').count() >= 3;
    let capitals = value.bytes().take_while(u8::is_ascii_uppercase).count();
    let rest = &value[capitals..];
    let is_ticket = (2..=10).contains(&capitals)
        && rest.starts_with('-')
        && rest.len() > 1
        && rest[1..]
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte));
    let is_advisory = [
        "GHSA-", "CVE-", "CWE-", "RUSTSEC-", "PYSEC-", "RFC", "ISO-", "UTF-", "ES20",
    ]
    .iter()
    .any(|prefix| value.starts_with(prefix));
    let is_pair = value.split_once('=').is_some_and(|(name, rest)| {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        is_name
            && !rest.is_empty()
            && !rest.starts_with('=')
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || b"_.".contains(&byte))
    });
    has_mark
        || is_format
        || is_port
        || value.starts_with('.')
        || is_choice
        || is_attribute
        || is_windows_path
        || is_ticket
        || is_advisory
        || is_pair
}

/// Returns whether a value is a path of ordinary names: `form.value`, `settings.retry`.
fn is_member(value: &str) -> bool {
    let is_name = |part: &str| {
        let words = subwords(part);
        let is_plain = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_plain
            && !words.is_empty()
            && words
                .iter()
                .all(|word| word.len() <= 2 || prose::is_prose(word) || names::contains_keyword(word))
    };
    let is_constant = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    value.contains('.')
        && value
            .split('.')
            .all(|part| is_name(part) || is_constant(part) && transitions(part) <= 2)
}

/// Returns whether a value consists of one or two characters, as `xxxxxx` and `------`.
fn is_repeated(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_period =
        |step: usize| bytes.len() >= 4 && bytes.iter().skip(step).zip(bytes).all(|(one, before)| one == before);
    is_period(1) && !bytes[0].is_ascii_digit()
}

fn numeric_shape(value: &str, digits: usize) -> Shape {
    if digits == value.len() {
        return Shape::Digits;
    }
    // `1234-5678`: groups of equal length. Other numbers are dates, times, versions, ranges and addresses.
    let groups = value.split(['-', ' ']).collect::<Vec<_>>();
    let is_grouped = groups.len() >= 2
        && groups
            .iter()
            .all(|group| group.len() == groups[0].len() && group.len() >= 3);
    let is_number = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".:-/,_+%~ ()#".contains(&byte));
    match (is_grouped, is_number) {
        (true, true) if value.bytes().all(|byte| byte.is_ascii_digit() || b"- ".contains(&byte)) => Shape::Digits,
        (_, true) => Shape::Never,
        // Only signs, or signs and digits.
        _ if digits >= 3 => Shape::Odd,
        _ => Shape::Never,
    }
}

fn letters_shape(value: &str) -> Shape {
    if !value.is_ascii() {
        return Shape::Word;
    }
    if names::contains_keyword(value) {
        return Shape::Never;
    }
    let is_upper = value.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_upper && value.len() <= 5 {
        return Shape::Prose;
    }
    let parts = subwords(value);
    if parts.len() >= 2 && parts.iter().all(|part| part.len() <= 2 || prose::is_prose(part)) {
        return Shape::Identifier;
    }
    Shape::Word
}

/// Returns the parts of a name: `HTTPServer_v2` gives `HTTP`, `Server`, `v2`.
pub(super) fn subwords(value: &str) -> Vec<&str> {
    let bytes = value.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 0..=bytes.len() {
        let is_joint = |byte: u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
        let is_end = at == bytes.len() || is_joint(bytes[at]);
        let turns = !is_end
            && at > start
            && bytes[at].is_ascii_uppercase()
            && (!bytes[at - 1].is_ascii_uppercase() || bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase));
        if (is_end || turns) && start < at {
            parts.push(&value[start..at]);
        }
        if is_end {
            start = at + 1;
        } else if turns {
            start = at;
        }
    }
    parts
}

/// Returns whether a value is a hash or a UUID.
pub(super) fn is_hex(value: &str) -> bool {
    let plain = value.bytes().filter(|byte| *byte != b'-').count();
    let is_uuid =
        value.len() == 36 && plain == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_hash = value.len() >= 7
        && value.bytes().all(|byte| byte.is_ascii_hexdigit())
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic());
    // A date before a UUID, or a UUID in parts.
    let is_parts = plain >= 16
        && value.contains('-')
        && value
            .split('-')
            .all(|part| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
        && value.split('-').count() >= 4;
    is_uuid || is_hash || is_parts
}

/// Returns whether a value is a path, a file, a host, an address of mail or a package with its version.
fn is_location(value: &str) -> bool {
    if value.starts_with(['/', '~'])
        && value.len() > 1
        && value[1..].starts_with(|c: char| c.is_ascii_alphanumeric() || "._/".contains(c))
        || value.starts_with("./")
        || value.starts_with("../")
        || value.starts_with("\\\\")
        || value
            .as_bytes()
            .get(1..3)
            .is_some_and(|drive| drive == b":\\" || drive == b":/")
    {
        return true;
    }
    let has_signs = value.bytes().any(|byte| b"!$%^&*?+=|".contains(&byte));
    let extension = value
        .rsplit_once('.')
        .map(|(_, extension)| extension.trim_end_matches(|c: char| c.is_ascii_digit() || c == ':'));
    if !has_signs && extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
        return true;
    }
    let slashes = value.bytes().filter(|byte| *byte == b'/').count();
    if !has_signs
        && (slashes >= 2 || slashes == 1 && value.split('/').all(|part| prose::is_prose(part) || part.is_empty()))
    {
        return true;
    }
    if let Some((name, rest)) = value.rsplit_once('@') {
        let is_name = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._+-/@".contains(&byte));
        let is_host = rest.contains('.')
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_:/".contains(&byte));
        let is_version = rest.starts_with(|c: char| c.is_ascii_digit() || "^~v".contains(c)) && rest.contains('.')
            || rest == "latest"
            || rest
                .strip_prefix('v')
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
        if is_name && (is_host || is_version) {
            return true;
        }
    }
    // `v1.2.3-rc1`, `10.0.0.1:80`, `db.example.com`
    let is_number = |part: &str| part.bytes().any(|byte| byte.is_ascii_digit()) && transitions(part) <= 1;
    let numbers = value.split(['.', '-', ':']).filter(|part| is_number(part)).count();
    let is_version = numbers >= 2 && value.split('.').next().is_some_and(is_number);
    let domain = value.split([':', '/']).next().unwrap_or_default().rsplit_once('.');
    let is_host = domain
        .is_some_and(|(name, domain)| DOMAINS.contains(&domain) && !name.bytes().any(|byte| byte.is_ascii_uppercase()));
    value.contains('.') && !has_signs && (is_version || is_host)
}

/// Returns whether a value is a number with a unit, an ordinal, or a version: `24h`, `64-bit`, `2nd`, `v2`, `0x1f`.
fn is_measure(value: &str) -> bool {
    let digits = value
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || b".,".contains(byte))
        .count();
    let unit = &value[digits..];
    let is_unit = digits > 0
        && unit.len() <= 3
        && unit
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || b"%+".contains(&byte));
    let is_joined = digits > 0 && unit.starts_with('-') && unit[1..].split('-').all(prose::is_prose);
    let is_version =
        value.starts_with(['v', 'V']) && value[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_unit || is_joined || is_version || value.starts_with("0x") || value.starts_with("U+")
}

/// Returns the shape of letters with digits or signs.
fn mixed_shape(value: &str, digits: usize, letters: usize) -> Shape {
    let has_keyword = names::contains_keyword(value);
    let parts = subwords(value);
    let is_plain = |part: &&str| {
        let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
        part.len() <= 2 || word.is_empty() || prose::is_prose(word) || prose::is_prose(part)
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let core = value.trim_end_matches(['!', '?', ')', '}', ']', '>', '"', '\'']);
    let signs = core
        .bytes()
        .filter(|byte| byte.is_ascii_punctuation() && !b"_-.'/:,()".contains(byte))
        .count();
    let joined = core.bytes().all(|byte| is_name(byte) || b"-./:'".contains(&byte));
    if digits == 0 {
        if core.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return letters_shape(core).min(Shape::Word);
        }
        if has_keyword {
            return Shape::Never;
        }
        if joined && parts.iter().all(is_plain) {
            let is_prose = core
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || b"-/'".contains(&byte));
            return if is_prose { Shape::Prose } else { Shape::Identifier };
        }
        if core.bytes().all(is_name) {
            let is_constant = core.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            return if is_constant { Shape::Identifier } else { Shape::Word };
        }
        return if signs >= 2 && letters >= 4 {
            Shape::Strong
        } else {
            Shape::Odd
        };
    }
    let turns = transitions(core);
    if joined && parts.iter().all(is_plain) && turns <= 2 * parts.len() {
        // `step3`, `retry_after_2`; with one part an ordinary word and a number, which may well be a password.
        return match (parts.len(), has_keyword) {
            (1, _) => Shape::Word,
            (_, true) => Shape::Never,
            _ => Shape::Identifier,
        };
    }
    let is_strong = core.len() >= 6
        && (signs >= 1 && letters >= 2 || turns >= 3 || turns >= 2 && core.len() >= 8 && !joined_prose(core));
    if is_strong { Shape::Strong } else { Shape::Odd }
}

/// Returns whether a value mixes letters, digits and signs as no name of a program does.
pub(super) fn is_mixed(value: &str) -> bool {
    let has = |is: fn(u8) -> bool| value.bytes().any(is);
    let has_sign = has(|byte| b"!@#$%^&*?~+".contains(&byte));
    let has_letters = has(|byte| byte.is_ascii_alphabetic());
    has_letters
        && has(|byte| byte.is_ascii_digit())
        && (has_sign && !value.contains(['/', '(', '[', '{', '<'])
            || transitions(value) >= 3 && !joined_prose(value) && !value.contains(['/', '.', '(', ':']))
}

/// Returns whether all runs of letters in a value are ordinary words.
fn joined_prose(value: &str) -> bool {
    value
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|part| part.len() > 2)
        .all(prose::is_prose)
}

/// Counts the changes between letters and digits.
fn transitions(value: &str) -> usize {
    let bytes = value.as_bytes();
    let kinds = bytes.iter().zip(bytes.iter().skip(1));
    kinds
        .filter(|(one, next)| {
            one.is_ascii_digit() && next.is_ascii_alphabetic() || one.is_ascii_alphabetic() && next.is_ascii_digit()
        })
        .count()
}

/// Returns whether a value is a long run of characters without a pattern.
pub(super) fn is_random(value: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| value.iter().filter(|byte| is(byte)).count();
    let is_token = value
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_+/=.~-%".contains(byte));
    if value.len() < 16 || !is_token || count(|byte| byte.is_ascii_alphanumeric()) * 8 < value.len() * 7 {
        return false;
    }
    let changes = value
        .windows(2)
        .filter(|pair| byte_class(pair[0]) != byte_class(pair[1]))
        .count();
    let has_classes = count(u8::is_ascii_digit) >= 2 && count(u8::is_ascii_alphabetic) >= 4;
    has_classes && changes * 4 >= value.len() && entropy(value) >= 3.2 && !has_words(value)
}

/// Returns whether most of a run is ordinary words: `getUserV2Response3`.
pub(super) fn has_words(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let words = subwords(text)
        .into_iter()
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    let known = words
        .filter(|word| word.len() >= 3 && prose::is_prose(word))
        .map(str::len)
        .sum::<usize>();
    known * 2 >= value.len()
}

fn byte_class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    }
}

/// Returns whether a run without any word around it looks like a key: stricter than [`is_random`].
pub(super) fn is_key_run(run: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| run.iter().filter(|byte| is(byte)).count();
    let joints = count(|byte| b"/_-=+.~".contains(byte));
    let mixed =
        count(u8::is_ascii_uppercase) >= 3 && count(u8::is_ascii_lowercase) >= 3 && count(u8::is_ascii_digit) >= 3;
    // In a key, digits and case changes are scattered; in a name they are at the ends of words.
    let changes = run
        .windows(2)
        .filter(|pair| byte_class(pair[0]) != byte_class(pair[1]))
        .count();
    mixed && joints * 8 <= run.len() && changes * 3 >= run.len() && entropy(run) >= 4.2 && !has_words(run)
}

/// Returns the Shannon entropy in bits per byte.
pub(super) fn entropy(value: &[u8]) -> f64 {
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

    #[test]
    fn shapes_are_told_apart() {
        for (shape_wanted, values) in [
            (
                Shape::Never,
                &[
                    "$TOKEN",
                    "${X}",
                    "<password>",
                    "getToken()",
                    "src/auth.rs",
                    "user_password",
                    "10.0.0.1:80",
                    "24h",
                    "process.env.KEY",
                    "toolu_01A09q90qw90lq917835lq9",
                ][..],
            ),
            (Shape::Prose, &["missing", "read-only", "OAuth2", "sha256", "string"]),
            (Shape::Identifier, &["retry_after", "requestBody"]),
            (Shape::Word, &["swordfish", "Winterfell", "summer2024"]),
            (Shape::Digits, &["123456", "4821", "1234-5678"]),
            (Shape::Hex, &["3f2a1b9c8d7e", "0cf3db51-1c2d-4e5f-8a9b-0c1d2e3f4a5b"]),
            (Shape::Odd, &["hunter2", "correct-horse-battery", "open!sesame"]),
            (Shape::Strong, &["Tr0ub4dor&3", "P@ssw0rd!", "s3cr3tpw"]),
            (Shape::Random, &["Zx9Qw3Er7Ty1Ui5Op2As8Df4Gh6"]),
        ] {
            for value in values {
                assert_eq!(shape(value), shape_wanted, "{value}");
            }
        }
    }
}
