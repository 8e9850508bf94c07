//! Ids, hashes and data that look random and are no secrets.

use super::super::names;
use super::super::shape::subwords;
use memchr::memmem;

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
pub(super) const SECRET_PARTS: &[&str] = &[
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
    "onion",
    "sid",
    "rsa",
    "serial",
    "clsid",
    "thumbprint",
    "geohash",
    "ksuid",
    "ulid",
    "cuid",
    "nanoid",
    "snowflake",
    "pin-sha256",
    "openid",
    "unionid",
    "index",
    "patch",
    "distribution",
    "attachment",
    "release",
];

/// Returns whether a run begins like a public key, the number of a cloud resource, or an address without its scheme.
pub(super) fn is_public_data(run: &[u8]) -> bool {
    /// The first bytes of public keys in SSH's format and in DER, written in base64.
    const KEYS: [&[u8]; 6] = [
        b"AAAA",
        b"MIGfMA0GCSqGSIb3",
        b"MIIBIjANBgkqhki",
        b"MIICIjANBgkqhki",
        b"MFkwEwYHKoZIzj0",
        b"MCowBQYDK2Vw",
    ];
    let is_resource = run.starts_with(b"ocid1.") && !run.starts_with(b"ocid1.credential.");
    is_resource || run.starts_with(b"//") || KEYS.iter().any(|key| run.starts_with(key))
}

/// Returns whether a run is a public number of a JSON web key: `"kty": "EC", "x": "..."`.
pub(super) fn is_public_member(text: &str, at: usize) -> bool {
    const REACH: usize = 300;
    let is_member = |name: &str| {
        let before = text[..at].trim_end_matches(['"', '\\', ' ', ':']);
        before.strip_suffix(name).is_some_and(|rest| rest.ends_with('"'))
    };
    let near = || {
        &text
            [text.floor_char_boundary(at.saturating_sub(REACH))..text.floor_char_boundary((at + REACH).min(text.len()))]
    };
    ["x", "y", "n"].iter().any(|name| is_member(name)) && near().contains("kty")
}

/// Returns whether a run is a public address in bech32: a short name, `1`, and characters that cannot be mixed up.
pub(super) fn is_public_address(run: &[u8]) -> bool {
    let digits = |byte: &u8| b"qpzry9x8gf2tvdw0s3jn54khce6mua7l".contains(byte);
    let joint = run.iter().position(|byte| *byte == b'1');
    let has_known_name = [
        "age1", "bc1", "tb1", "ltc1", "addr1", "npub1", "cosmos1", "osmo1", "lnbc",
    ]
    .iter()
    .any(|name| run.starts_with(name.as_bytes()));
    // Names of peers and of their records.
    let is_peer = run.starts_with(b"12D3Koo") || run.starts_with(b"k51qzi5u");
    has_known_name
        || is_peer
        || joint.is_some_and(|joint| (1..=10).contains(&joint) && run[joint + 1..].iter().all(digits))
}

pub(super) fn is_id_prefix(prefix: &[u8]) -> bool {
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
pub(in crate::secrets) fn is_ordinary_id(value: &str) -> bool {
    let low = value.as_bytes();
    if [
        "pk_", "sha1-", "sha256-", "sha384-", "sha512-", "sha256:", "SHA256:", "sha256=", "sha512=", "md5:", "MD5:",
        "h1:", "urn:", "arn:", "did:", "data:", "ocid1.",
    ]
    .iter()
    .any(|prefix| value.starts_with(prefix))
    {
        return true;
    }
    // The public number of a program of WeChat.
    if low.len() == 18 && low.starts_with(b"wx") && low[2..].iter().all(u8::is_ascii_hexdigit) {
        return true;
    }
    let joint = low.iter().position(|byte| b"_-".contains(byte));
    // Nodes of GitHub: `PRRT_kwDO...`.
    let is_node = |joint: usize| {
        joint <= 6 && low[..joint].iter().all(u8::is_ascii_uppercase) && low[joint + 1..].starts_with(b"kw")
    };
    joint.is_some_and(is_node)
        || joint.is_some_and(|joint| {
            let rest = &low[joint + 1..];
            (rest.len() >= 12 || low.starts_with(b"toolu_"))
                && ID_PREFIXES
                    .iter()
                    .any(|known| low[..joint].eq_ignore_ascii_case(known.as_bytes()))
                && rest.iter().any(u8::is_ascii_digit)
        })
}

/// Returns whether a place is inside an address and not in its query.
pub(super) fn is_in_address(bytes: &[u8], at: usize) -> bool {
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
pub(in crate::secrets) fn is_named_id(text: &str, at: usize) -> bool {
    let start = text.floor_char_boundary(at.saturating_sub(48));
    let before = &text[start..at];
    let before = before.rsplit('\n').next().unwrap_or_default();
    if before.ends_with("base64,")
        || before.ends_with("W/\"")
        || before.ends_with("W/\\\"")
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
        let parts = subwords(word);
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
        if names::contains_keyword(word) && !before.to_ascii_lowercase().contains("publi") {
            return false;
        }
    }
    false
}
