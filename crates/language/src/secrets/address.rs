//! Secrets in addresses: `scheme://user:password@host`, a token in place of the user, `user:password@host` without a scheme.

use super::shape::{Shape, is_random, shape};
use super::{Secret, push};

const LONGEST: usize = 400;

/// Adds the secret of the address whose `://` is at `at`.
pub(super) fn find_after_scheme(text: &str, at: usize, found: &mut Vec<Secret>) {
    let rest = &text[at + 3..text.floor_char_boundary((at + 3 + LONGEST).min(text.len()))];
    let ends =
        |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`' | '|' | '”' | '」' | '，' | '。') || c == '\\';
    let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let word = word.split("://").next().unwrap_or(word);
    let Some(close) = word.rfind('@') else {
        return;
    };
    let info = &word[..close];
    let host = &word[close + 1..];
    let has_host = host.starts_with(|c: char| c.is_alphanumeric() || "[${<".contains(c));
    let Some((user, password)) = info.split_once(':') else {
        // `https://TOKEN@host`
        if has_host
            && !info.contains('/')
            && (is_random(info.as_bytes()) || shape(info) >= Shape::Strong && info.len() >= 12)
        {
            push(found, at + 3..at + 3 + info.len(), "password-in-address");
        }
        return;
    };
    // `host:8080/@scope` has a port, and `host/a:b@c` a path.
    let port = password.bytes().take_while(u8::is_ascii_digit).count();
    let is_port = port > 0
        && port <= 5
        && password[port..].starts_with(['/', '?', '#'])
        && host
            .split('/')
            .next()
            .is_some_and(|host| !host.contains('.') || host.contains(".js"));
    if user.contains(['/', '@', '?']) || is_port || !has_host || password.is_empty() || is_stand_in(password) {
        return;
    }
    let start = at + 3 + user.len() + 1;
    push(found, start..start + password.len(), "password-in-address");
}

/// Returns whether a password in an address is a variable or stands for one.
fn is_stand_in(password: &str) -> bool {
    let low = password.to_ascii_lowercase();
    let is_variable = password.starts_with(['$', '%', '{', '<', '[', '*'])
        && !password.starts_with("%2")
        && !password.starts_with("%4");
    let is_word = matches!(
        low.as_str(),
        "password" | "pass" | "pwd" | "passwd" | "pw" | "secret" | "token" | "xxx" | "x" | "***" | "..."
    );
    is_variable
        || is_word
        || shape(password) == Shape::Never
            && !low.contains("://")
            && (low.contains("your") || low.contains("xxxx") || low.contains("****") || low.contains("..."))
}

/// Adds the password of `user:password@host`, whose `@` is at `at`.
pub(super) fn find_before_at(text: &str, at: usize, found: &mut Vec<Secret>) {
    let host = &text[at + 1..text.floor_char_boundary((at + 1 + 80).min(text.len()))];
    let length = host
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b".-".contains(byte))
        .count();
    let host = &host[..length];
    if text[at + 1..].starts_with("//") {
        return find_before_service(text, at, found);
    }
    if !(host.contains('.') || host == "localhost") || host.starts_with('.') {
        return;
    }
    let start = text.ceil_char_boundary(at.saturating_sub(120));
    let before = &text[start..at];
    let begin = before
        .rfind(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '(' | '=' | ',' | '/'))
        .map_or(0, |place| {
            place + before[place..].chars().next().map_or(1, char::len_utf8)
        });
    let Some((user, password)) = before[begin..].split_once(':') else {
        return;
    };
    let is_user = !user.is_empty()
        && user
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    let is_label = matches!(
        user.to_ascii_lowercase().as_str(),
        "mailto"
            | "to"
            | "from"
            | "cc"
            | "bcc"
            | "email"
            | "mail"
            | "author"
            | "by"
            | "user"
            | "contact"
            | "sip"
            | "xmpp"
            | "acct"
            | "npm"
            | "git"
            | "workspace"
    );
    if is_user && !is_label && matches!(shape(password), Shape::Odd | Shape::Strong | Shape::Random) {
        let from = start + begin + user.len() + 1;
        push(found, from..at, "password-in-address");
    }
}

/// Adds the password of `user/password@//host`, as database drivers write it, whose `@` is at `at`.
fn find_before_service(text: &str, at: usize, found: &mut Vec<Secret>) {
    let before = &text[text.ceil_char_boundary(at.saturating_sub(120))..at];
    let is_edge = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ':' | '=' | '<' | '(');
    let word = before.rsplit(is_edge).next().unwrap_or_default();
    if let Some((user, password)) = word.split_once('/')
        && !user.is_empty()
        && !is_stand_in(password)
        && password.len() >= 3
    {
        push(found, at - password.len()..at, "password-in-address");
    }
}

/// Adds the last field of a line `host:port:database:user:password`, whose port is at `start..end` with its colons.
pub(super) fn find_in_password_file(text: &str, start: usize, end: usize, found: &mut Vec<Secret>) {
    let line_start = text[..start].rfind(['\n', ' ', '"', '\'', '`']).map_or(0, |at| at + 1);
    let line = &text[end..];
    let line = &line[..line.find(['\n', '"', '`']).unwrap_or(line.len())];
    let mut fields = line.splitn(3, ':');
    let (Some(database), Some(user), Some(password)) = (fields.next(), fields.next(), fields.next()) else {
        return;
    };
    let is_name = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte))
    };
    if is_name(&text[line_start..start]) && is_name(database) && is_name(user) && password.len() >= 3 {
        let from = end + database.len() + user.len() + 2;
        push(found, from..from + password.trim_end().len(), "password-file");
    }
}
