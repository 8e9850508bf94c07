//! Tokens that give themselves away: by a known beginning, by their structure, or because a long run of characters looks
//! random. And the opposite: ids and hashes that look random and are no secrets.

use super::shape::{entropy, has_words, is_key_run, is_random};
use super::{Secret, push};
use memchr::memmem;
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

/// Beginnings of ids that services print, up to the last `_` or `-` before the random part.
const ID_PREFIXES: &[&str] = &[
    "toolu",
    "srvtoolu",
    "msg",
    "msgbatch",
    "req",
    "request",
    "call",
    "chatcmpl",
    "cmpl",
    "run",
    "thread",
    "asst",
    "step",
    "file",
    "ft",
    "ftjob",
    "org",
    "proj",
    "prj",
    "resp",
    "rs",
    "fc",
    "batch",
    "vs",
    "mod",
    "modr",
    "embd",
    "conv",
    "conversation",
    "session",
    "sess",
    "agent",
    "task",
    "job",
    "user",
    "usr",
    "team",
    "member",
    "group",
    "acct",
    "account",
    "cus",
    "customer",
    "ch",
    "charge",
    "pi",
    "pm",
    "in",
    "ii",
    "il",
    "si",
    "sub",
    "price",
    "prod",
    "plan",
    "evt",
    "event",
    "seti",
    "cs",
    "cs_test",
    "cs_live",
    "txn",
    "tr",
    "po",
    "ba",
    "card",
    "src",
    "fee",
    "dp",
    "link",
    "plink",
    "promo",
    "qt",
    "inv",
    "order",
    "ord",
    "item",
    "pay",
    "payment",
    "ref",
    "trace",
    "span",
    "dpl",
    "deployment",
    "build",
    "rel",
    "release",
    "env",
    "img",
    "image",
    "vol",
    "vm",
    "node",
    "pod",
    "doc",
    "page",
    "block",
    "note",
    "issue",
    "ticket",
    "wf",
    "workflow",
    "exec",
    "execution",
    "inst",
    "id",
    "uid",
    "cid",
    "pid",
    "gen",
    "cache",
    "chunk",
    "commit",
    "sha",
    "tx",
    "nonce",
    "etag",
    "ckpt",
    "artifact",
    "container",
    "cntr",
    "ws",
    "bucket",
];

/// Parts of a beginning that say secret, for services not in the list.
const SECRET_PARTS: &[&str] = &[
    "sk", "rk", "pat", "key", "apikey", "tok", "tkn", "token", "secret", "sec", "seckey", "api", "pass", "password",
    "pw", "auth", "oauth", "bearer", "cred", "creds", "priv", "private", "live", "access", "refresh", "personal",
    "svc", "svcacct", "whsec", "signing", "webhook",
];

/// Words before a random run that make it an id, a hash or a link.
const ID_WORDS: &[&str] = &[
    "id",
    "ids",
    "uid",
    "uuid",
    "guid",
    "cid",
    "hash",
    "hashes",
    "digest",
    "checksum",
    "sum",
    "sha",
    "sha1",
    "sha256",
    "sha384",
    "sha512",
    "md5",
    "blake3",
    "fingerprint",
    "integrity",
    "etag",
    "commit",
    "revision",
    "rev",
    "trace",
    "span",
    "request",
    "run",
    "job",
    "build",
    "deployment",
    "message",
    "cursor",
    "nonce",
    "addr",
    "address",
    "wallet",
    "tx",
    "txid",
    "txn",
    "transaction",
    "block",
    "document",
    "doc",
    "folder",
    "sheet",
    "spreadsheet",
    "video",
    "channel",
    "playlist",
    "image",
    "layer",
    "snapshot",
    "object",
    "event",
    "thread",
    "correlation",
    "contract",
    "mint",
    "account",
    "ref",
    "reference",
    "digests",
    "public",
    "publishable",
    "publickey",
    "jwk",
    "generation",
    "digests",
    "record",
    "tag",
    "signature",
    "pubkey",
    "ssh-ed25519",
    "ssh-rsa",
    "identifier",
    "h1",
    "txhash",
    "state",
    "resource",
    "cache",
    "nix",
];

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
            // `pk_live_...`: what follows a joint is a token only if its beginning says enough.
            before => match_form(&bytes[at..], before.is_some_and(|before| b"_-".contains(&before))),
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
        if is_inside && form.rest != FormRest::Any {
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

/// Returns whether the rest of a token is a filler: `xxxxxxxx`, `...`, `your-key-here`.
fn is_filler(body: &[u8]) -> bool {
    let first = body.first().copied().unwrap_or_default();
    let low = body.to_ascii_lowercase();
    let has = |text: &str| memmem::find(&low, text.as_bytes()).is_some();
    body.iter().all(|byte| *byte == first)
        || has("xxxxxx")
        || has("your")
        || has("example") && !has("examplekey")
        || has("placeholder")
        || has("redacted")
        || has("......")
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
    let bytes = text.as_bytes();
    let is_public_key = bytes[run.clone()].starts_with(b"AAAA") || bytes[run.clone()].starts_with(b"//");
    if is_public_key
        || run.len() > LONGEST_RANDOM_RUN
        || run.len() < SHORTEST_RUN + 4
        || is_in_address(bytes, run.start)
        || is_named_id(text, run.start)
    {
        return;
    }
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
    if is_bare_secret(whole) {
        push(found, start..run.end, "high-entropy");
        return;
    }
    let mut at = start;
    for part in whole.split(|byte| b"/.=|%".contains(byte)) {
        if part.len() < whole.len() && is_bare_secret(part) && !has_file_ending(&bytes[at + part.len()..]) {
            push(found, at..at + part.len(), "high-entropy");
        }
        at += part.len() + 1;
    }
}

fn has_file_ending(after: &[u8]) -> bool {
    after.first() == Some(&b'.') && after.get(1).is_some_and(u8::is_ascii_lowercase) && after.len() <= 8
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

/// Returns whether a run is a public address in bech32: a short name, `1`, and characters that cannot be mixed up.
fn is_public_address(run: &[u8]) -> bool {
    let digits = |byte: &u8| b"qpzry9x8gf2tvdw0s3jn54khce6mua7l".contains(byte);
    let joint = run.iter().position(|byte| *byte == b'1');
    let has_known_name = [
        "age1", "bc1", "tb1", "ltc1", "addr1", "npub1", "cosmos1", "osmo1", "lnbc",
    ]
    .iter()
    .any(|name| run.starts_with(name.as_bytes()));
    has_known_name || joint.is_some_and(|joint| (1..=10).contains(&joint) && run[joint + 1..].iter().all(digits))
}

/// Returns whether a run without a known beginning is a secret: long and random, or with a beginning that says so.
fn is_bare_secret(run: &[u8]) -> bool {
    if is_filler(run) {
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
    match (has_secret_part, is_id) {
        (true, false) => looks_random(rest) && is_random(rest),
        (_, true) => false,
        _ => {
            run.len() >= SHORTEST_BARE_SECRET
                && (rest.len() >= SHORTEST_BARE_SECRET && looks_random(rest) && is_key_run(rest) || is_key_run(run))
        }
    }
}

fn is_id_prefix(prefix: &[u8]) -> bool {
    let first = prefix.split(|byte| b"_-".contains(byte)).next().unwrap_or_default();
    ID_PREFIXES
        .iter()
        .any(|known| prefix.eq_ignore_ascii_case(known.as_bytes()) || first.eq_ignore_ascii_case(known.as_bytes()))
        || prefix
            .rsplit(|byte| b"_-".contains(byte))
            .next()
            .is_some_and(|last| last.eq_ignore_ascii_case(b"id"))
}

/// Returns whether a value is an id by how it begins: `toolu_01...`, `sha256:...`.
pub(super) fn is_ordinary_id(value: &str) -> bool {
    let low = value.as_bytes();
    if [
        "pk_", "sha1-", "sha256-", "sha384-", "sha512-", "sha256:", "SHA256:", "md5:", "MD5:", "h1:", "urn:", "arn:",
        "did:", "data:",
    ]
    .iter()
    .any(|prefix| value.starts_with(prefix))
    {
        return true;
    }
    let joint = low.iter().position(|byte| b"_-".contains(byte));
    joint.is_some_and(|joint| {
        let rest = &low[joint + 1..];
        rest.len() >= 12
            && ID_PREFIXES
                .iter()
                .any(|known| low[..joint].eq_ignore_ascii_case(known.as_bytes()))
            && rest.iter().any(u8::is_ascii_digit)
    })
}

/// Returns whether a place is inside an address and not in its query.
fn is_in_address(bytes: &[u8], at: usize) -> bool {
    let start = at.saturating_sub(400);
    let word = bytes[start..at]
        .iter()
        .rev()
        .take_while(|byte| !byte.is_ascii_whitespace() && !b"\"'<>`()|".contains(byte))
        .count();
    let word = &bytes[at - word..at];
    memmem::find(word, b"://").is_some() || word.starts_with(b"//") || word.starts_with(b"www.")
}

/// Returns whether the words before a run call it an id, a hash or data.
pub(super) fn is_named_id(text: &str, at: usize) -> bool {
    let start = text.floor_char_boundary(at.saturating_sub(48));
    let before = &text[start..at];
    let before = before.rsplit('\n').next().unwrap_or_default();
    if before.ends_with("base64,")
        || before.ends_with("W/\"")
        || before.ends_with("ssh-rsa ")
        || before.ends_with("ssh-ed25519 ")
    {
        return true;
    }
    let mut words = before
        .rsplit(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'))
        .filter(|word| !word.is_empty());
    let is_id_word = |word: &str| {
        let low = word.to_ascii_lowercase();
        let low = low.trim_matches(['-', '_']);
        let last = low.rsplit(['_', '-']).next().unwrap_or_default();
        let parts = super::shape::subwords(word);
        let camel = parts.last().map(|part| part.to_ascii_lowercase()).unwrap_or_default();
        let is_numbered = low.contains("-id-") || low.contains("_id_");
        ID_WORDS.contains(&low) || ID_WORDS.contains(&last) || ID_WORDS.contains(&camel.as_str()) || is_numbered
    };
    let near = [words.next(), words.next(), words.next()];
    // A word for secrets nearer than the word for ids has the last word.
    for word in near.into_iter().flatten() {
        if word.to_ascii_lowercase().contains("secret") {
            return false;
        }
        if is_id_word(word) {
            return true;
        }
        if super::names::contains_keyword(word) && !before.to_ascii_lowercase().contains("publi") {
            return false;
        }
    }
    false
}

/// Adds the private keys: from the first line of one to its last. What was found in public keys and certificates is dropped.
fn find_private_keys(text: &str, found: &mut Vec<Secret>) {
    const LONGEST: usize = 20_000;
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(start) = memmem::find(&bytes[at..], b"-----BEGIN ").map(|start| at + start) {
        let line = &bytes[start..bytes.len().min(start + 80)];
        let Some(kind) = memmem::find(line, b"PRIVATE KEY") else {
            let end = memmem::find(&bytes[start + 11..], b"-----END ").map_or(bytes.len(), |end| start + 11 + end);
            found
                .retain(|secret| secret.rule != "high-entropy" || secret.range.start < start || secret.range.end > end);
            at = start + 11;
            continue;
        };
        let body = &bytes[start..bytes.len().min(start + LONGEST)];
        let end = memmem::find(&body[kind..], b"-----END ").map(|end| kind + end);
        let end = end.map_or(body.len(), |end| {
            let close = memmem::find(&body[end + 9..], b"-----").map(|close| end + 9 + close + 5);
            close.unwrap_or(body.len())
        });
        push(found, start..start + end, "private-key");
        at = start + end;
    }
}

/// Adds addresses that are secrets themselves: whoever has one may post.
fn find_webhooks(text: &str, found: &mut Vec<Secret>) {
    const PLACES: [(&str, &str, usize); 7] = [
        ("hooks.slack.com/", "slack-webhook", 20),
        ("/api/webhooks/", "discord-webhook", 20),
        (".webhook.office.com/", "teams-webhook", 20),
        ("hooks.zapier.com/hooks/", "zapier-webhook", 8),
        ("/cgi-bin/webhook/send?key=", "wecom-webhook", 16),
        ("/open-apis/bot/v2/hook/", "feishu-webhook", 16),
        ("/robot/send?access_token=", "dingtalk-webhook", 16),
    ];
    let bytes = text.as_bytes();
    if memmem::find(bytes, b"hook").is_none() && memmem::find(bytes, b"/robot/send").is_none() {
        return;
    }
    for (place, name, least) in PLACES {
        for start in memmem::find_iter(bytes, place.as_bytes()) {
            let from = start + place.len();
            let length = bytes[from..]
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || b"/_-@%".contains(byte))
                .count();
            if length >= least && !is_filler(&bytes[from..from + length]) {
                push(found, from..from + length, name);
            }
        }
    }
}

/// Adds tokens that a hexadecimal number of 32 digits or more and its ending make: `...-us14`, `...NRAL`.
fn find_suffixed(bytes: &[u8], found: &mut Vec<Secret>) {
    find_owned(bytes, found);
    let hex = |bytes: &[u8]| bytes.iter().rev().take_while(|byte| byte.is_ascii_hexdigit()).count();
    for at in memmem::find_iter(bytes, b"-us") {
        let digits = bytes[at + 3..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if (1..=2).contains(&digits) && hex(&bytes[..at]) == 32 {
            push(found, at - 32..at + 3 + digits, "mailchimp-key");
        }
    }
    for at in memmem::find_iter(bytes, b"NRAL") {
        let digits = hex(&bytes[..at]);
        if digits >= 32 {
            push(found, at - digits..at + 4, "new-relic-key");
        }
    }
}

/// Adds a hexadecimal number after the number of its owner: `1/1234567890123456:9f86...`.
fn find_owned(bytes: &[u8], found: &mut Vec<Secret>) {
    for colon in memchr::memchr_iter(b':', bytes) {
        let digits = bytes[..colon]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits < 13 {
            continue;
        }
        let hex = bytes[colon + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        if hex == 32 && colon > digits && bytes[colon - digits - 1] == b'/' {
            push(found, colon + 1..colon + 1 + hex, "asana-token");
        }
    }
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

/// Adds tokens of Telegram bots: a number, a colon, 35 characters.
fn find_bot_tokens(bytes: &[u8], found: &mut Vec<Secret>) {
    for colon in memmem::find_iter(bytes, b":AA") {
        let digits = bytes[..colon]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let rest = bytes[colon + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte))
            .count();
        if (8..=10).contains(&digits) && rest >= 30 {
            push(found, colon - digits..colon + 1 + rest, "telegram-token");
        }
    }
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
