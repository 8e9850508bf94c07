//! What is never a secret: a variable, a piece of a program, a notation, a path, a host, a measure.

use super::super::{names, prose};
use super::{subwords, transitions};

/// Endings of file names.
const EXTENSIONS: &[&str] = &[
    "dockerfile",
    "mp3",
    "mp4",
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

/// Returns whether a value names another value: a variable of a shell, a template or a program.
pub(super) fn is_reference(value: &str) -> bool {
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
        || value.strip_prefix('$').is_some_and(|rest| {
            let name = rest.split('/').next().unwrap_or_default();
            name.len() < rest.len() && is_name(name)
        })
        || value.contains("/$")
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
pub(super) fn is_code(value: &str) -> bool {
    let name = value
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(byte))
        .count();
    let is_call = name > 0
        && value.as_bytes().get(name).is_some_and(|byte| b"([".contains(byte))
        && (!has_inner_digit(&value[..name])
            || value.starts_with(|c: char| c.is_ascii_alphabetic()) && transitions(&value[..name]) <= 2);
    // `&str`, `&mut`, `&[u8]`
    let is_borrow = value
        .strip_prefix('&')
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_lowercase()) || rest.starts_with(['[', '\'']));
    let has_operator = [
        "::", "->", "=>", "==", "&&", "||", "()", "[]", "!=", "\\d", "\\w", "${", ".*", ".+", "![", "](", "},{", "**/",
        "/*", "*/", "\\.", "{{", "{}", "`+", "+`", "&,",
    ]
    .iter()
    .any(|operator| value.contains(operator));
    let is_macro = value.ends_with(['(', '{']) || value.ends_with("({") || value.contains("!(\"");
    let is_annotation = value.starts_with('@') && value.contains('(');
    is_call || is_annotation || has_operator || is_macro || is_borrow || value.starts_with("#!") || is_member(value)
}

/// Returns whether a value is the number of a ticket or of an advisory: `ABC-123`, `CVE-2026-1`.
pub(super) fn is_numbered(value: &str) -> bool {
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
    is_ticket || is_advisory || is_algorithm(value)
}

/// Returns whether a value is the name of an algorithm: `SCRAM-SHA-512`, `AEAD_AES_256_GCM`.
fn is_algorithm(value: &str) -> bool {
    const PARTS: &[&str] = &[
        "SHA", "SHA1", "SHA256", "SHA384", "SHA512", "AES", "RSA", "ECDSA", "HMAC", "SCRAM", "GCM", "CBC", "MD5",
        "ECDHE", "CHACHA20", "POLY1305", "ED25519", "AES128", "AES256",
    ];
    let mut parts = value.split(['-', '_', '/']);
    parts.clone().count() >= 2
        && !value.bytes().any(|byte| byte.is_ascii_lowercase())
        && parts.any(|part| PARTS.contains(&part))
}

/// Returns whether a value is written in some notation: an escape, a format, an entity, a list of choices, a field,
/// a number of an advisory or a ticket.
pub(super) fn is_notation(value: &str) -> bool {
    let has_mark = [
        "\\x", "\\u", "&lt;", "&gt;", "&quot;", ":\"", "=\"", "='", "[^", "$(", "\\\\", "##", "/>", "</", "[a-", "[0-",
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
            part.len() <= 24 && is_word && !part.bytes().all(|byte| byte.is_ascii_digit())
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
    let is_pair = value.split_once('=').is_some_and(|(name, rest)| {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        is_name
            && !rest.is_empty()
            && !rest.starts_with('=')
            && (rest
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || b"_.".contains(&byte))
                || rest
                    .trim_end_matches(',')
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b'.'))
    });
    // `env=read_env(root),`
    let is_argument = value.split_once('=').is_some_and(|(name, rest)| {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        is_name && rest.contains('(') && is_code(rest)
    });
    let is_media_type = ["application/", "text/", "image/", "multipart/"]
        .iter()
        .any(|kind| value.starts_with(kind));
    let is_empty_field = value.strip_suffix('=').is_some_and(|field| {
        names::contains_keyword(field) || field.len() <= 12 && field.bytes().all(|byte| byte.is_ascii_lowercase())
    });
    let hex = value.strip_prefix('#').unwrap_or_default();
    let is_color = matches!(hex.len(), 3 | 6 | 8) && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_template = value.len() > 2 && value.starts_with('@') && value.ends_with('@');
    let low = value.to_ascii_lowercase();
    let is_chord = ["ctrl+", "cmd+", "shift+", "alt+", "meta+", "super+"]
        .iter()
        .any(|key| low.starts_with(key));
    // `moby/moby#29110`
    let is_issue = value.rsplit_once('#').is_some_and(|(project, number)| {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_./".contains(&byte);
        project.contains('/') && project.bytes().all(is_name) && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let is_encoded_text = value.matches("%20").count() >= 2;
    let is_query = value.contains("&amp;") && value.contains('=');
    has_mark
        || is_query
        || is_issue
        || is_encoded_text
        || is_color
        || is_template
        || is_chord
        || value.starts_with("*.")
        || is_format
        || is_port
        || value.starts_with('.')
        || is_choice
        || is_attribute
        || is_windows_path
        || is_numbered(value)
        || is_media_type
        || is_empty_field
        || is_pair
        || is_argument
        || value.starts_with("charset=")
}

/// Returns whether a value is a path of ordinary names: `form.value`, `settings.retry`.
fn is_member(value: &str) -> bool {
    let is_name = |part: &str| {
        let words = subwords(part);
        let is_plain = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let has = |is: fn(u8) -> bool| part.bytes().any(is);
        let is_mixed = has(|byte| byte.is_ascii_digit())
            && has(|byte| byte.is_ascii_uppercase())
            && has(|byte| byte.is_ascii_lowercase());
        is_plain
            && !is_mixed
            && !words.is_empty()
            && words
                .iter()
                .all(|word| word.len() <= 3 || prose::is_prose(word) || names::contains_keyword(word))
    };
    let is_constant = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    // `tempResp.status`: letters only, and a capital inside a part that begins small or with a dot before it.
    let is_camel = |part: &str| {
        part.len() >= 2
            && part.bytes().all(|byte| byte.is_ascii_alphabetic())
            && part.starts_with(|c: char| c.is_ascii_lowercase())
    };
    let has_hump = value
        .bytes()
        .zip(value.bytes().skip(1))
        .any(|(one, next)| one.is_ascii_lowercase() && next.is_ascii_uppercase());
    let is_chain = value.contains('.')
        && has_hump
        && value.split('.').next().is_some_and(is_camel)
        && value
            .split('.')
            .all(|part| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic()));
    let is_path = value.contains('.')
        && value
            .split('.')
            .all(|part| is_name(part) || is_constant(part) && transitions(part) <= 2);
    is_chain || is_path
}

/// Returns whether a value is a path, a file, a host, an address of mail or a package with its version.
pub(super) fn is_location(value: &str) -> bool {
    if value.starts_with(['/', '~'])
        && value.len() > 1
        && value[1..].starts_with(|c: char| c.is_ascii_alphanumeric() || "._/$".contains(c))
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
    if !has_signs && has_file_extension(value) {
        return true;
    }
    let slashes = value.bytes().filter(|byte| *byte == b'/').count();
    if !has_signs
        && (slashes >= 2
            || slashes == 1
                && (value.split('/').all(|part| prose::is_prose(part) || part.is_empty())
                    || value
                        .bytes()
                        .all(|byte| byte.is_ascii_lowercase() || b"/-_".contains(&byte))))
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
            || name.contains('/') && rest.split('-').all(prose::is_prose)
            || rest.len() >= 7 && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
            || rest
                .strip_prefix('v')
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()));
        if (is_name || name.is_empty()) && (is_host || is_version) {
            return true;
        }
    }
    // `v1.2.3-rc1`, `10.0.0.1:80`, `db.example.com`
    let is_number = |part: &str| part.bytes().any(|byte| byte.is_ascii_digit()) && transitions(part) <= 1;
    let numbers = value.split(['.', '-', ':']).filter(|part| is_number(part)).count();
    let starts_as_number = value
        .trim_start_matches(['v', 'V'])
        .starts_with(|c: char| c.is_ascii_digit());
    let is_version = numbers >= 2 && starts_as_number && value.split('.').next().is_some_and(is_number);
    let domain = value.split([':', '/']).next().unwrap_or_default().rsplit_once('.');
    let is_host = domain
        .is_some_and(|(name, domain)| DOMAINS.contains(&domain) && !name.bytes().any(|byte| byte.is_ascii_uppercase()));
    // `17.0.20+8-1~deb12u1`, `1:2.47.3-0+deb13u1`
    let is_package = starts_as_number
        && value.split('.').filter(|part| is_number(part)).count() >= 2
        && value
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".:+~-".contains(&byte));
    value.contains('.') && (!has_signs && (is_version || is_host) || is_package)
}

/// Returns whether a value ends like the name of a file, the number of a line or a range of lines behind it included.
pub(in crate::secrets) fn has_file_extension(value: &str) -> bool {
    value.rsplit_once('.').is_some_and(|(name, extension)| {
        let low = extension.to_ascii_lowercase();
        let plain = low.trim_end_matches(|c: char| c.is_ascii_digit() || ":-,".contains(c));
        !name.is_empty() && (EXTENSIONS.contains(&plain) || EXTENSIONS.contains(&low.as_str()))
    })
}

/// Returns whether a value is a number with a unit, an ordinal, or a version: `24h`, `64-bit`, `2nd`, `v2`, `0x1f`.
pub(super) fn is_measure(value: &str) -> bool {
    let value = value.strip_prefix(['-', '^', '~']).unwrap_or(value);
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
