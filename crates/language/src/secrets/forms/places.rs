//! Secrets that their surroundings give away: the lines around a private key, the address of a webhook, an ending.

use super::super::{Secret, push};
use super::is_filler;
use memchr::memmem;

/// Adds the private keys: from the first line of one to its last. What was found in public keys and certificates is dropped.
pub(super) fn find_private_keys(text: &str, found: &mut Vec<Secret>) {
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
pub(super) fn find_webhooks(text: &str, found: &mut Vec<Secret>) {
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
pub(super) fn find_suffixed(bytes: &[u8], found: &mut Vec<Secret>) {
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

/// Adds tokens of Telegram bots: a number, a colon, 35 characters.
pub(super) fn find_bot_tokens(bytes: &[u8], found: &mut Vec<Secret>) {
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

/// Adds the secrets of Azure's applications: three characters, a digit, `Q~`, 31 to 34 characters.
pub(super) fn find_client_secrets(bytes: &[u8], found: &mut Vec<Secret>) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_~.-".contains(byte);
    for at in memmem::find_iter(bytes, b"Q~") {
        let Some(start) = at.checked_sub(4) else {
            continue;
        };
        let rest = bytes[at + 2..].iter().take(34).take_while(|byte| is_part(byte)).count();
        if bytes[start..at - 1].iter().all(is_part) && bytes[at - 1].is_ascii_digit() && rest >= 31 {
            push(found, start..at + 2 + rest, "azure-client-secret");
        }
    }
}
