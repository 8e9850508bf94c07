//! Names of secrets: which words, flags, fields and variables say that a secret is near.

mod hints;
mod lists;

use super::shape::contains_any;
use aho_corasick::AhoCorasick;
pub(super) use hints::HINTS;
pub(super) use lists::KEYWORDS;
use lists::{COMPOUNDS, KEY_QUALIFIERS, LAST_PARTS, NOT_PASS, OTHER_QUALIFIERS, OTHER_THINGS};
use std::collections::HashSet;
use std::sync::LazyLock;

/// What a name announces. Decides how much a value must look like one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameKind {
    /// A password: any value will do.
    Password,
    /// A secret or a token: more than a word.
    Token,
    /// A key for an interface or a cipher.
    Key,
    /// Just a key: of a map, a table, a keyboard or a door.
    AnyKey,
    /// A short code: digits will do.
    Pin,
    /// Several words.
    Phrase,
    /// A name and a password: `admin / hunter2`.
    Login,
    /// `Authorization: Bearer ...`.
    Header,
    /// `Cookie: sid=...`.
    Cookie,
    /// The signature in the query of an address.
    Signature,
    /// Where a list of words may stand, as wallets have them.
    Wordlist,
    /// A value that says itself what it is: `P@ssw0rd1`.
    Leet,
}

/// A name of a secret in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct SecretName {
    /// From the first byte of the identifier or word.
    pub start: usize,
    pub end: usize,
    pub kind: NameKind,
    /// The keyword ends the name: `db_password`, and not `password_staging`.
    pub is_tail: bool,
    /// Written in Chinese, Japanese or Korean, where no blank stands between words.
    pub is_unspaced: bool,
    /// A name of a program, such as `refreshToken`: people speak of it without its value.
    pub is_identifier: bool,
    /// `pwd` where people speak of folders.
    pub is_folder: bool,
    /// Just `pass`, which also counts tests.
    pub is_bare_pass: bool,
    /// `--password`.
    pub is_flag: bool,
}

/// Returns whether a word contains a keyword that names a secret, such as `userPassword`.
pub(super) fn contains_keyword(word: &str) -> bool {
    const STEMS: &[&str] = &[
        "passw",
        "passphrase",
        "passcode",
        "pwd",
        "secret",
        "token",
        "credential",
        "apikey",
        "api_key",
        "api-key",
        "_key",
        "-key",
        "密码",
        "密碼",
        "_pass",
        "密钥",
    ];
    static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| contains_any(STEMS));
    AUTOMATON.as_ref().is_some_and(|automaton| automaton.is_match(word))
        || ["key", "keys", "pass", "creds", "pin", "otp"]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name))
        || word.ends_with("Key")
}

/// Returns whether letters neither go before nor after a place.
pub(super) fn is_whole_word(text: &str, start: usize, end: usize) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric();
    !text[start..].starts_with(|c: char| c.is_ascii())
        || !text[..start].ends_with(is_letter) && !text[end..].starts_with(is_letter)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Returns the name that a keyword at `start..end` is part of; `None` if it is not the name of a secret.
pub(super) fn read_name(text: &str, start: usize, end: usize, kind: NameKind) -> Option<SecretName> {
    let bytes = text.as_bytes();
    if !bytes[start].is_ascii() || !bytes[end - 1].is_ascii() {
        return read_unspaced_name(text, start, end, kind);
    }
    if !ends_a_part(bytes, end) || !starts_a_part(bytes, start, end, kind) {
        return None;
    }
    let before = bytes[..start]
        .iter()
        .rev()
        .take_while(|byte| is_name_byte(**byte))
        .count()
        .min(64);
    let after = bytes[end..].iter().take_while(|byte| is_name_byte(**byte)).count();
    let (name_start, mut name_end) = (start - before, end + after);
    while name_end > end && bytes[name_end - 1] == b'-' {
        name_end -= 1;
    }
    if bytes.get(name_end).is_some_and(|byte| *byte == b']')
        && bytes[..name_start].ends_with(b"[")
        && &bytes[name_start..name_end] == b"secret"
    {
        return None;
    }
    // `Pat` is a person, `secrets.json` a file.
    let is_etc = text[start..end].eq_ignore_ascii_case("passwd") && text[..start].ends_with("etc/");
    if is_etc || &text[start..end] == "Pat" || is_file(text, name_end) {
        return None;
    }
    if kind == NameKind::Signature
        && !(bytes.get(name_end) == Some(&b'=') && name_start > 0 && b"?&".contains(&bytes[name_start - 1]))
    {
        return None;
    }
    let (prefix, suffix) = (&text[name_start..start], &text[end..name_end]);
    // `${PASSWORD:?not set}` says what happens without one, `existingSecret` names an object that holds one.
    let is_expansion = text[..name_start].ends_with("${") && !text[name_end..].starts_with(":-");
    if is_expansion || prefix.eq_ignore_ascii_case("existing") {
        return None;
    }
    if text[start..end].eq_ignore_ascii_case("pass") && is_turn(text, prefix, name_start) {
        return None;
    }
    if last_part(suffix).is_some_and(|last| LAST_PARTS.contains(&last.to_ascii_lowercase().as_str())) {
        return None;
    }
    // `login-action`
    if kind == NameKind::Login && suffix.starts_with('-') && !contains_keyword(suffix) {
        return None;
    }
    let is_plural = text[start..end].ends_with('s') && !text[start..end].ends_with("pass");
    let before_word = last_part(prefix).map_or_else(|| previous_word(text, name_start), str::to_ascii_lowercase);
    let after_word = first_part(suffix).map_or_else(|| next_word(text, name_end), str::to_ascii_lowercase);
    let kind = if kind == NameKind::AnyKey && contains_keyword(suffix) {
        NameKind::Token
    } else {
        kind
    };
    if kind == NameKind::AnyKey && has_other_qualifier(text, name_start) {
        return None;
    }
    let keyword = text[start..end].to_ascii_lowercase();
    let kind = adjust_kind(kind, &before_word, &keyword, is_plural, || {
        is_of_service(&text[name_end..]) || is_of_product(text, name_start)
    })?;
    let is_verb = is_verb_behind(&text[name_end..], kind);
    if !is_verb && OTHER_THINGS.contains(&after_word.as_str()) && !(kind == NameKind::Login || kind == NameKind::Cookie)
    {
        return None;
    }
    Some(SecretName {
        start: name_start,
        end: name_end,
        kind,
        is_tail: suffix
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"_-".contains(&byte))
            || contains_keyword(suffix),
        is_unspaced: false,
        is_identifier: is_identifier(text, name_start, name_end, start, end),
        is_folder: text[start..end].eq_ignore_ascii_case("pwd") && is_folder(text, name_start, name_end),
        is_bare_pass: name_end - name_start == 4 && kind == NameKind::Password,
        is_flag: prefix.starts_with("--")
            || prefix.starts_with('-') && name_start > 0 && bytes[name_start - 1].is_ascii_whitespace(),
    })
}

fn read_unspaced_name(text: &str, start: usize, end: usize, kind: NameKind) -> Option<SecretName> {
    // `密码学`, `密码管理器`, `密钥长度`: things that are no secrets.
    const OTHERS: &[&str] = &[
        "学",
        "學",
        "管理器",
        "长度",
        "長度",
        "强度",
        "強度",
        "策略",
        "框",
        "输入框",
        "輸入框",
        "错误",
        "錯誤",
        "字段",
        "欄位",
        "栏",
        "找回",
        "重置",
        "重設",
        "重设",
        "哈希",
        "雜湊",
        "过期",
        "過期",
        "有效期",
        "类型",
        "類型",
        "数量",
        "數量",
        "桶",
        "轮换",
        "輪換",
        "管理",
        "校验",
        "校驗",
        "验证",
        "驗證",
        "复杂度",
        "複雜度",
        "规则",
        "規則",
        "加密",
        "泄露",
        "洩漏",
        "存储",
        "儲存",
    ];
    let after = &text[end..];
    let is_changed = ["重置", "重設", "重设"].iter().any(|verb| {
        after
            .strip_prefix(verb)
            .is_some_and(|rest| rest.starts_with(['成', '为', '為', '到', '了']))
    });
    if !is_changed && OTHERS.iter().any(|other| after.starts_with(other)) {
        return None;
    }
    Some(SecretName {
        start,
        end,
        kind,
        is_tail: true,
        is_unspaced: !text[start..].starts_with(|c: char| ('а'..='я').contains(&c) || c.is_ascii()),
        is_identifier: false,
        is_folder: false,
        is_bare_pass: false,
        is_flag: false,
    })
}

/// Returns whether a keyword begins a part of a name. Longer keywords may also end a compound: `authtoken`.
fn starts_a_part(bytes: &[u8], start: usize, end: usize, kind: NameKind) -> bool {
    let Some(before) = start.checked_sub(1).map(|at| bytes[at]) else {
        return true;
    };
    if !before.is_ascii_alphabetic() {
        return true;
    }
    if before.is_ascii_lowercase() && bytes[start].is_ascii_uppercase() {
        return true;
    }
    let letters = bytes[..start]
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count()
        .min(40);
    let compound = String::from_utf8_lossy(&bytes[start - letters..end]).to_ascii_lowercase();
    let keyword = &compound[letters..];
    match keyword {
        "pass" => {
            let is_constant = bytes[start].is_ascii_uppercase() && !NOT_PASS.contains(&compound.as_str());
            is_constant || COMPOUNDS.contains(&compound.as_str())
        }
        "key" | "keys" => COMPOUNDS.contains(&compound.trim_end_matches('s')),
        "login" | "auth" | "bearer" | "cookie" | "cookies" | "secrets" | "tokens" => false,
        _ => kind != NameKind::Pin && keyword.len() >= 3 && !matches!(keyword, "pat" | "psw" | "pw"),
    }
}

/// Returns whether a keyword ends a part of a name: `tokenizer` and `passing` do not hold one.
fn ends_a_part(bytes: &[u8], end: usize) -> bool {
    let Some(after) = bytes.get(end) else {
        return true;
    };
    let last = bytes[end - 1];
    let goes_on = after.is_ascii_lowercase() || after.is_ascii_uppercase() && last.is_ascii_uppercase();
    // `DBPassword`: the keyword is written in small letters; `PASSWORDX` goes on.
    !goes_on
}

/// Returns whether a name goes on as that of a file: `secrets.json`, `token.rs:42`.
fn is_file(text: &str, end: usize) -> bool {
    let rest = &text[end..text.floor_char_boundary((end + 40).min(text.len()))];
    let word = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte))
        .count();
    rest.starts_with('.')
        && word > 1
        && super::shape::has_file_extension(&format!("x{}", rest[..word].trim_end_matches('.')))
}

/// Returns whether `pass` is a turn: "the second pass", `two-pass`.
fn is_turn(text: &str, prefix: &str, name_start: usize) -> bool {
    const TURNS: &[&str] = &[
        "single", "one", "two", "three", "multi", "first", "second", "third", "final", "last", "next", "each", "every",
        "another", "double", "full", "dry", "by", "tests", "checks", "files", "all",
    ];
    let before = last_part(prefix).map_or_else(|| previous_word(text, name_start), str::to_ascii_lowercase);
    TURNS.contains(&before.as_str())
}

/// Returns whether a name is one of a program and none that people use as a word: `refresh_tokens`, `getToken(`.
fn is_identifier(text: &str, name_start: usize, name_end: usize, start: usize, end: usize) -> bool {
    let name = &text[name_start..name_end];
    let is_constant = !name.bytes().any(|byte| byte.is_ascii_lowercase());
    // `Set-Cookie` is a header.
    let is_header = name.contains('-') && !name.contains('_');
    let is_joined =
        name.contains('_') || !is_header && name[1..].bytes().any(|byte| byte.is_ascii_uppercase()) && !is_constant;
    let is_member = name_start > 0
        && text.as_bytes()[name_start - 1] == b'.'
        && text[..name_start - 1].ends_with(|c: char| c.is_alphanumeric());
    let is_flag = name.starts_with('-');
    !is_flag && !is_constant && (is_joined && (name_start < start || end < name_end) || is_member)
        || text[name_end..].starts_with('(')
}

/// Returns whether `pwd` is a folder here: not part of another name, and near a word about folders.
fn is_folder(text: &str, start: usize, end: usize) -> bool {
    const SIGNS: &[&str] = &[
        "cwd", "dir", "folder", "$pwd", "path", "shell", "terminal", "/home", "`pwd`", "$(pwd)", "pwd()", "prompt",
    ];
    if end - start > 5 {
        return false;
    }
    let near = &text
        [text.floor_char_boundary(start.saturating_sub(300))..text.ceil_char_boundary((end + 300).min(text.len()))];
    let near = near.to_lowercase();
    SIGNS.iter().any(|sign| near.contains(sign))
}

/// Returns whether the words of the same sentence before a key say that it is the key of a cache, a map or a keyboard.
fn has_other_qualifier(text: &str, at: usize) -> bool {
    let start = text.floor_char_boundary(at.saturating_sub(40));
    let near = &text[start..at];
    let ends_sentence = |(at, c): &(usize, char)| match c {
        '\n' | '。' | '！' | '？' | '；' => true,
        '.' | '!' | '?' | ';' => near[at + 1..].starts_with(' '),
        _ => false,
    };
    let end = near.char_indices().rev().find(ends_sentence);
    let mut words = near[end.map_or(0, |(at, c)| at + c.len_utf8())..]
        .rsplit(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(4);
    words.any(is_other_qualifier)
}

/// Returns whether a word of any case makes a key that of a cache, a map or a keyboard.
fn is_other_qualifier(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| OTHER_QUALIFIERS.iter().copied().collect());
    match word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => WORDS.contains(word.to_ascii_lowercase().as_str()),
        false => WORDS.contains(word),
    }
}

/// Returns the kind of a keyword among its neighbors; `None` if they make it something else.
fn adjust_kind(
    kind: NameKind,
    before: &str,
    keyword: &str,
    is_plural: bool,
    is_owned: impl Fn() -> bool,
) -> Option<NameKind> {
    let is_other = is_other_qualifier(before)
        || before
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b",.".contains(&byte))
            && !before.is_empty()
            && is_plural;
    match kind {
        NameKind::Token | NameKind::AnyKey if is_other => None,
        NameKind::Token
            if keyword == "tokens"
                && !matches!(
                    before,
                    "api" | "access" | "auth" | "bot" | "personal" | "refresh" | "session"
                ) =>
        {
            None
        }
        NameKind::AnyKey => {
            let compound = COMPOUNDS
                .iter()
                .any(|compound| compound.trim_end_matches("key") == before);
            Some(if KEY_QUALIFIERS.contains(&before) || compound || is_owned() {
                NameKind::Key
            } else {
                NameKind::AnyKey
            })
        }
        kind => Some(kind),
    }
}

/// Returns whether the word behind a name is a verb, where it could also be a noun: "the secret set as X", "for the password
/// type X".
fn is_verb_behind(behind: &str, kind: NameKind) -> bool {
    let is_setting = [" set as ", " set to ", " reset to ", " is set to "]
        .iter()
        .any(|verb| behind.starts_with(verb));
    let typed = [" type ", " input "].iter().find_map(|verb| behind.strip_prefix(verb));
    let is_typing = matches!(kind, NameKind::Password | NameKind::Phrase)
        && typed.is_some_and(|rest| {
            let word = rest.split_whitespace().next().unwrap_or_default();
            super::shape::shape(word.trim_matches(['"', '`', '\'', '*'])) >= super::shape::Shape::Odd
        });
    is_setting || is_typing
}

/// Returns whether a key is one of a person: "my key", "my Fastmail key".
fn is_of_product(text: &str, name_start: usize) -> bool {
    let near = &text[text.floor_char_boundary(name_start.saturating_sub(40))..name_start];
    let mut words = near.split_whitespace().rev();
    // "my key: X", "这是我的key：X"
    let is_said = [" my ", " our ", "我的", "你的", "您的", "我们的"]
        .iter()
        .any(|word| near.ends_with(word));
    if is_said {
        return true;
    }
    let is_proper = words.next().is_some_and(|word| {
        let is_name =
            word.starts_with(|c: char| c.is_ascii_uppercase()) && word.bytes().all(|c| c.is_ascii_alphanumeric());
        is_name && !is_other_qualifier(word)
    });
    let is_owned = words
        .next()
        .is_some_and(|word| matches!(word.to_ascii_lowercase().as_str(), "my" | "our" | "your"));
    is_proper && is_owned && near.ends_with(' ')
}

/// Returns whether a key is one for an interface: "key for the maps api".
fn is_of_service(behind: &str) -> bool {
    let Some(rest) = behind.strip_prefix(" for ").or_else(|| behind.strip_prefix(" to ")) else {
        return false;
    };
    let words = rest.split([' ', ':', '.', '\n']).take(4);
    words.into_iter().any(|word| word.eq_ignore_ascii_case("api"))
}

/// Returns the last part of the start of a name: of `MY_API_` it is `API`.
fn last_part(prefix: &str) -> Option<&str> {
    let trimmed = prefix.trim_end_matches(['_', '-']);
    let parts = super::shape::subwords(trimmed);
    parts.last().copied()
}

/// Returns the first part of the rest of a name.
fn first_part(suffix: &str) -> Option<&str> {
    let parts = super::shape::subwords(suffix);
    parts.first().copied()
}

/// Returns the word before a place, in lower case, if only one blank stands between.
fn previous_word(text: &str, at: usize) -> String {
    let before = &text.as_bytes()[..at];
    let Some((&gap, rest)) = before.split_last() else {
        return String::new();
    };
    if !b" ._".contains(&gap) {
        return String::new();
    }
    let length = rest
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"-,".contains(byte))
        .count()
        .min(30);
    text[at - 1 - length..at - 1]
        .trim_start_matches(',')
        .to_ascii_lowercase()
}

/// Returns the word after a place, in lower case, if only one blank stands between.
fn next_word(text: &str, at: usize) -> String {
    let Some(rest) = text.as_bytes()[at..].strip_prefix(b" ") else {
        return String::new();
    };
    let length = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count()
        .min(30);
    text[at + 1..at + 1 + length].to_ascii_lowercase()
}
