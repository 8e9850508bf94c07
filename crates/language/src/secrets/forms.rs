//! Tokens that give themselves away: by a known beginning, by their structure, or because a long run of characters looks
//! random. And the opposite: ids and hashes that look random and are no secrets.

mod ids;
mod places;

use super::shape::{contains_any, entropy, has_words, is_key_run, is_random};
use super::{Secret, prose, push};
use aho_corasick::AhoCorasick;
use ids::{SECRET_PARTS, is_id_prefix, is_in_address, is_public_address};
pub(super) use ids::{is_named_id, is_ordinary_id};
use places::{find_bot_tokens, find_client_secrets, find_private_keys, find_suffixed, find_webhooks};
use std::ops::Range;
use std::sync::LazyLock;

/// The shortest run that is looked at.
const SHORTEST_RUN: usize = 16;

/// Longer runs without a known beginning are data: pictures, certificates, maps of sources.
const LONGEST_RANDOM_RUN: usize = 256;

/// The shortest random run that is a secret without a word that says so. Ids are shorter: 20 to 28 characters.
const SHORTEST_BARE_SECRET: usize = 30;

/// How much the rest of a token must look like chance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FormRest {
    Any,
    Random,
    /// Letters and digits in one run that looks like chance.
    Solid,
    Hex,
    /// Fourteen letters and digits, a dot, 64 hexadecimal digits.
    Airtable,
}

/// A token with a known beginning.
struct Form {
    prefix: &'static str,
    /// Fewest characters after it.
    least: usize,
    rest: FormRest,
    name: &'static str,
}

/// The forms, sorted by their first byte; longer beginnings first.
static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let lines = include_str!("forms.txt").lines().filter(|line| !line.starts_with('#'));
    let mut forms = lines.filter_map(parse_form).collect::<Vec<_>>();
    forms.sort_by_key(|form| (form.prefix.as_bytes()[0], usize::MAX - form.prefix.len()));
    forms
});

/// Where the forms of each first byte begin in [`FORMS`].
static BUCKETS: LazyLock<[u16; 257]> = LazyLock::new(|| {
    let mut starts = [0; 257];
    for (byte, start) in starts.iter_mut().enumerate() {
        *start = FORMS.partition_point(|form| usize::from(form.prefix.as_bytes()[0]) < byte) as u16;
    }
    starts
});

fn parse_form(line: &'static str) -> Option<Form> {
    let mut fields = line.split(' ');
    let prefix = fields.next()?;
    let least = fields.next()?.parse::<usize>().ok()?;
    let rest = match fields.next()? {
        "form" => FormRest::Any,
        "random" => FormRest::Random,
        "hex" => FormRest::Hex,
        "solid" => FormRest::Solid,
        "airtable" => FormRest::Airtable,
        _ => return None,
    };
    Some(Form {
        prefix,
        least,
        rest,
        name: fields.next()?,
    })
}

/// Returns whether a byte may be part of a token.
fn is_run_byte(byte: u8) -> bool {
    const TABLE: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let c = byte as u8;
            table[byte] =
                c.is_ascii_alphanumeric() || matches!(c, b'_' | b'+' | b'/' | b'=' | b'.' | b'~' | b'-' | b'|' | b'%');
            byte += 1;
        }
        table
    };
    TABLE[usize::from(byte)]
}

/// Calls `take` with every run of at least [`SHORTEST_RUN`] token bytes. Looks at one byte in sixteen of ordinary prose.
fn for_each_run(bytes: &[u8], mut take: impl FnMut(Range<usize>)) {
    let mut at = 0;
    while at + SHORTEST_RUN <= bytes.len() {
        // A run of sixteen bytes that starts at `at` or later has the byte at `probe`, or starts after it.
        let probe = at + SHORTEST_RUN - 1;
        if !is_run_byte(bytes[probe]) {
            at = probe + 1;
            continue;
        }
        let back = bytes[at..probe]
            .iter()
            .rev()
            .take_while(|byte| is_run_byte(**byte))
            .count();
        let start = probe - back;
        let ahead = bytes[probe..].iter().take_while(|byte| is_run_byte(**byte)).count();
        let end = probe + ahead;
        if end - start >= SHORTEST_RUN {
            take(start..end);
        }
        at = end;
    }
}

/// Adds the tokens of a text.
pub(super) fn find(text: &str, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    for_each_run(bytes, |run| find_in_run(text, run, found));
    find_private_keys(text, found);
    find_suffixed(bytes, found);
    find_webhooks(text, found);
    find_bot_tokens(bytes, found);
    find_client_secrets(bytes, found);
}

/// Adds the tokens of one run: at its start and after every joint, else the run itself if it looks random.
fn find_in_run(text: &str, run: Range<usize>, found: &mut Vec<Secret>) {
    let bytes = &text.as_bytes()[run.clone()];
    let mut at = 0;
    let mut has_form = false;
    while at + 8 <= bytes.len() {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        let matched = match before {
            Some(before) if before.is_ascii_alphanumeric() => None,
            // What follows a joint is a token only if its beginning says enough.
            before if before.is_some_and(|before| b"_-".contains(&before)) => {
                // `pk_live_...` may be published, `cs_live_...` is an id.
                let name = bytes[..at - 1].rsplit(|byte| !byte.is_ascii_alphanumeric()).next();
                let is_public = name.is_some_and(|name| name == b"pk" || name == b"cs");
                match_form(&bytes[at..], true).filter(|_| !is_public)
            }
            _ => match_form(&bytes[at..], false),
        };
        if let Some((name, length)) = matched {
            push(found, run.start + at..run.start + at + length, name);
            at += length;
            has_form = true;
        } else {
            at += 1;
        }
    }
    if !has_form {
        find_bare(text, run, found);
    }
}

/// Returns the name and length of the token that bytes begin with.
fn match_form(bytes: &[u8], is_inside: bool) -> Option<(&'static str, usize)> {
    if bytes.starts_with(b"eyJ")
        && let Some(length) = match_web_token(bytes)
    {
        return Some(("json-web-token", length));
    }
    let bucket = usize::from(bytes[0]);
    let (start, end) = (usize::from(BUCKETS[bucket]), usize::from(BUCKETS[bucket + 1]));
    FORMS[start..end].iter().find_map(|form| {
        let rest = bytes.strip_prefix(form.prefix.as_bytes())?;
        let is_token_byte = |byte: &&u8| {
            byte.is_ascii_alphanumeric()
                || b"_-".contains(byte)
                || form.rest == FormRest::Any && b".+/=|~%".contains(byte)
        };
        let length = rest.iter().take_while(is_token_byte).count();
        let trimmed = rest[..length]
            .iter()
            .rev()
            .take_while(|byte| b".-_/|%".contains(byte))
            .count();
        let body = &rest[..length - trimmed];
        if is_inside && !matches!(form.rest, FormRest::Any | FormRest::Solid) && !is_token_inside(form, body) {
            return None;
        }
        let fits = match form.rest {
            FormRest::Any => body.len() >= form.least && !is_filler(body),
            FormRest::Random => {
                let alnum = body
                    .iter()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
                    .count();
                alnum >= form.least && looks_random(body)
            }
            FormRest::Solid => {
                let solid = body.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                solid >= form.least && looks_random(&body[..solid])
            }
            FormRest::Hex => {
                let digits = body
                    .iter()
                    .take_while(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
                    .count();
                digits >= form.least && digits <= 64 && !is_filler(body)
            }
            FormRest::Airtable => {
                let hex = rest.get(form.least + 1..form.least + 65);
                rest.get(form.least) == Some(&b'.') && hex.is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
            }
        };
        let length = if form.rest == FormRest::Airtable {
            form.least + 65
        } else {
            body.len()
        };
        fits.then_some((form.name, form.prefix.len() + length))
    })
}

/// Returns whether a token behind a joint, as in `backup-TOKEN.sql`, says enough: its beginning is no short word, and what
/// follows is one long run.
fn is_token_inside(form: &Form, body: &[u8]) -> bool {
    const SHORTEST_PREFIX: usize = 3;
    const SHORTEST_RUN: usize = 20;
    let run = body.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    form.prefix.len() >= SHORTEST_PREFIX && run >= SHORTEST_RUN
}

/// Returns whether the rest of a token is a filler: `xxxxxxxx`, `...`, `your-key-here`.
fn is_filler(body: &[u8]) -> bool {
    const FILLERS: [&str; 6] = ["example", "xxxxxx", "your", "placeholder", "redacted", "......"];
    static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| contains_any(&FILLERS));
    let first = body.first().copied().unwrap_or_default();
    let is_filled = |body: &[u8]| {
        let mut hits = AUTOMATON.iter().flat_map(|automaton| automaton.find_iter(body));
        // `...EXAMPLEKEY` ends the keys in a vendor's documents.
        hits.any(|hit| hit.pattern().as_usize() > 0 || !has_prefix(&body[hit.end()..], b"key"))
    };
    body.iter().all(|byte| *byte == first) || is_filled(body)
}

/// Returns whether bytes begin with others, in any case.
fn has_prefix(bytes: &[u8], prefix: &[u8]) -> bool {
    bytes
        .get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// Returns whether the rest of a token looks random enough: digits among letters, and no words joined by hyphens.
fn looks_random(body: &[u8]) -> bool {
    let digits = body.iter().filter(|byte| byte.is_ascii_digit()).count();
    let upper = body.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let lower = body.iter().filter(|byte| byte.is_ascii_lowercase()).count();
    let longest = body
        .split(|byte| b"_-".contains(byte))
        .map(<[u8]>::len)
        .max()
        .unwrap_or_default();
    let is_mixed = digits >= 2 && upper + lower >= 4 || upper >= 4 && lower >= 4;
    is_mixed
        && (digits > 0 || upper >= 6)
        && !has_words(body)
        && longest >= 12
        && entropy(body) >= 3.0
        && !is_filler(body)
}

/// Returns the length of a JSON web token: two or three parts joined by dots, each base64 of an object, then a signature.
fn match_web_token(bytes: &[u8]) -> Option<usize> {
    let part = |bytes: &[u8]| {
        bytes
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-=".contains(byte))
            .count()
    };
    let head = part(bytes);
    let rest = bytes.get(head..)?.strip_prefix(b".")?;
    let body = part(rest);
    if head < 11 || body < 8 {
        return None;
    }
    let mut length = head + 1 + body;
    while let Some(rest) = bytes.get(length..).and_then(|rest| rest.strip_prefix(b".")) {
        let more = part(rest);
        if more == 0 {
            break;
        }
        length += 1 + more;
    }
    Some(length)
}

/// Adds a run without a known beginning if it looks random and nothing makes it an id.
fn find_bare(text: &str, run: Range<usize>, found: &mut Vec<Secret>) {
    if run.len() > LONGEST_RANDOM_RUN || run.len() < SHORTEST_RUN + 4 {
        return;
    }
    let ranges = random_parts(text.as_bytes(), run.clone());
    if ranges.is_empty() {
        return;
    }
    let is_ordinary = ids::is_public_data(&text.as_bytes()[run.clone()])
        || is_ordinary_id(&text[run.clone()])
        || ids::is_public_member(text, run.start)
        || is_in_address(text.as_bytes(), run.start)
        || is_named_id(text, run.start);
    for range in ranges {
        if !is_ordinary {
            push(found, range, "high-entropy");
        }
    }
}

/// Returns the parts of a run that look random: all of it, or what stands between its joints.
fn random_parts(bytes: &[u8], run: Range<usize>) -> Vec<Range<usize>> {
    // Padding belongs to a value, other equals signs divide a name from one.
    let trimmed = bytes[run.clone()]
        .iter()
        .rev()
        .take_while(|byte| b".=%|".contains(byte))
        .count();
    let mut start = run.start;
    let end = run.end - trimmed;
    if let Some(equals) = bytes[start..end].iter().rposition(|byte| *byte == b'=') {
        start += equals + 1;
    }
    let whole = &bytes[start..end];
    if bytes[..run.end].ends_with(b"...")
        || whole.starts_with(b"0x") && whole[2..].iter().all(u8::is_ascii_hexdigit)
        || whole.starts_with(b"Qm") && whole.len() == 46
        || is_hashed_file(whole)
    {
        return Vec::new();
    }
    let mut parts = Vec::new();
    if is_bare_secret(whole) && !is_path_of_names(whole) {
        parts.push(start..run.end);
        return parts;
    }
    let mut at = start;
    for part in whole.split(|byte| b"/.=|%".contains(byte)) {
        if part.len() < whole.len() && is_bare_secret(part) {
            parts.push(at..at + part.len());
        }
        at += part.len() + 1;
    }
    parts
}

/// Returns whether a run with several slashes has ordinary words or hashes between them, as a path has.
fn is_path_of_names(run: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(run) else {
        return false;
    };
    let is_named = |part: &str| {
        let word = part
            .split(['-', '_', '.'])
            .all(|word| word.len() >= 4 && prose::is_prose(word));
        word || part.len() >= 7 && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let words = text
        .split(['/', '-', '_', '.'])
        .filter(|word| word.len() >= 5 && prose::is_prose(word));
    words.count() >= 2 || text.matches('/').count() >= 2 && text.split('/').any(is_named)
}

/// Returns whether a run is the name of a file with a short hash in it: `liblock_api-667559f904d1df8d.rlib`.
fn is_hashed_file(run: &[u8]) -> bool {
    const LONGEST_HASH: usize = 20;
    let Some(dot) = run.iter().rposition(|byte| *byte == b'.') else {
        return false;
    };
    let (name, ending) = (&run[..dot], &run[dot + 1..]);
    let hash = name.rsplit(|byte| b"_-".contains(byte)).next().unwrap_or_default();
    (2..=5).contains(&ending.len())
        && ending.iter().all(u8::is_ascii_lowercase)
        && hash.len() <= LONGEST_HASH
        && hash.iter().all(u8::is_ascii_hexdigit)
}

/// Returns whether a run of small letters and digits is a key: longer than a hash in base 32, and no hexadecimal number.
fn is_small_key_run(run: &[u8]) -> bool {
    let is_small = run
        .iter()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let digits = run.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_content_id = run.starts_with(b"bafy") || run.starts_with(b"bafk") || run.starts_with(b"bafz");
    is_small
        && (40..=64).contains(&run.len())
        && !is_content_id
        && !is_public_address(run)
        && !run.iter().all(u8::is_ascii_hexdigit)
        && digits >= 4
        && entropy(run) >= 4.0
        && !has_words(run)
}

/// Returns whether a run without a known beginning is a secret: long and random, or with a beginning that says so.
fn is_bare_secret(run: &[u8]) -> bool {
    if is_filler(run) || ends_in_uuid(run) || is_public_address(run) {
        return false;
    }
    if is_split_hex(run) {
        return true;
    }
    let Some(joint) = run
        .iter()
        .rposition(|byte| b"_-".contains(byte))
        .filter(|joint| *joint <= 24 && run.len() - joint > SHORTEST_RUN)
    else {
        return run.len() >= SHORTEST_BARE_SECRET && is_key_run(run) || is_small_key_run(run);
    };
    let (prefix, rest) = (&run[..joint], &run[joint + 1..]);
    let mut parts = prefix.split(|byte| b"_-".contains(byte));
    let has_secret_part = parts.any(|part| {
        SECRET_PARTS
            .iter()
            .any(|secret| part.eq_ignore_ascii_case(secret.as_bytes()))
    });
    let is_id = is_id_prefix(prefix) || prefix.starts_with(b"pk");
    // `file-sk-...`: what stands right before the random part says more, but for the keys of a cache.
    let last = prefix.rsplit(|byte| b"_-".contains(byte)).next().unwrap_or_default();
    let is_own_part = last.len() < prefix.len()
        && ["sk", "key", "secret", "token"]
            .iter()
            .any(|part| last.eq_ignore_ascii_case(part.as_bytes()))
        && !prefix.starts_with(b"cache")
        && !prefix.starts_with(b"pk");
    match (has_secret_part, is_id) {
        (true, true) if is_own_part => looks_random(rest) && is_random(rest),
        (true, false) => looks_random(rest) && is_random(rest),
        (_, true) => false,
        _ => {
            run.len() >= SHORTEST_BARE_SECRET
                && (rest.len() >= SHORTEST_BARE_SECRET && looks_random(rest) && is_key_run(rest) || is_key_run(run))
        }
    }
}

/// Returns whether a name and a UUID are joined: `worker-0cf3db51-1c2d-4e5f-8a9b-0c1d2e3f4a5b`.
fn ends_in_uuid(run: &[u8]) -> bool {
    const LENGTHS: [usize; 5] = [12, 4, 4, 4, 8];
    let parts = run.rsplit(|byte| *byte == b'-').zip(LENGTHS);
    let is_part = |(part, length): (&[u8], usize)| part.len() == length && part.iter().all(u8::is_ascii_hexdigit);
    run.len() > 36 && parts.map(is_part).filter(|is_part| *is_part).count() == LENGTHS.len()
}

/// Returns whether a run is a hexadecimal number of 32 digits and two of eight behind it.
fn is_split_hex(run: &[u8]) -> bool {
    let mut parts = run.split(|byte| *byte == b'-').map(|part| {
        if part.iter().all(u8::is_ascii_hexdigit) {
            part.len()
        } else {
            0
        }
    });
    run.len() == 50 && [parts.next(), parts.next(), parts.next(), parts.next()] == [Some(32), Some(8), Some(8), None]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_sixteen_bytes_are_found_wherever_they_start() {
        for before in 0..40 {
            for length in 14..40 {
                let text = format!("{}{} b", " a".repeat(before), " ".to_owned() + &"x".repeat(length));
                let mut runs = Vec::new();
                for_each_run(text.as_bytes(), |run| runs.push(run.len()));
                let expected = if length >= SHORTEST_RUN { vec![length] } else { vec![] };
                assert_eq!(runs, expected, "{text:?}");
            }
        }
    }

    #[test]
    fn every_line_of_the_forms_is_read() {
        let lines = include_str!("forms.txt").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(FORMS.len(), lines.count());
    }
}
