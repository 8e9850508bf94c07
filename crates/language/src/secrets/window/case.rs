//! Whether a value behind a name is a secret: by what it looks like, how it is tied, and what kind of name it is.

use super::super::names::{NameKind, SecretName};
use super::super::pieces::{Piece, is_unspaced};
use super::super::shape::{Shape, has_file_extension, is_mixed, is_stand_in, shape, subwords};
use super::super::{MASK, forms, prose};
use super::reading::{Reading, Tie};
use super::words::{COMMON_PASSWORDS, UNITS, UNSPACED_UNITS};

/// Returns whether a piece is a value.
pub(super) fn is_value(text: &str, name: &SecretName, piece: &Piece, tie: Tie, reading: &Reading) -> bool {
    if piece.text == MASK || piece.text.chars().any(char::is_whitespace) {
        return false;
    }
    if piece.text.chars().next().is_some_and(is_unspaced) {
        return is_unspaced_value(name, piece, tie);
    }
    let (from, to) = value_range(text, piece, name, reading.is_equals);
    let value = &text[from..to];
    let mut looks = shape(value);
    if is_part_of_other(text, name, piece, to, looks) {
        return false;
    }
    if looks == Shape::Prose && is_unusual_prose(value, name, piece, tie) {
        looks = Shape::Word;
    }
    let case = Case::new(text, name, piece, reading, (value, to), (looks, tie));
    if is_set_outright(text, name, piece, &case, (value, to)) {
        return true;
    }
    if !name.is_tail && !name.is_flag && !case.is_sign && looks < Shape::Random {
        return false;
    }
    if tie < Tie::Direct && looks >= Shape::Hex && looks != Shape::Odd && forms::is_named_id(text, from) {
        return false;
    }
    if name.is_identifier && !piece.is_quoted && is_type_or_variable(value, &text[to.max(piece.end)..]) {
        return false;
    }
    if name.is_bare_pass && !is_pass_value(text, name, &case) {
        return false;
    }
    let is_spoken = name.is_identifier
        && !reading.is_config
        && !reading.is_after_run
        && (tie < Tie::Direct || !case.is_sign && looks < Shape::Strong);
    if is_spoken || name.is_folder && (looks < Shape::Strong || tie < Tie::Direct || value.contains(['/', '\\'])) {
        return false;
    }
    case.is_enough_for(name.kind)
}

/// Returns whether a value is a measure, the name of an attribute, half of a pair, or the rest of a sentence in a cell.
fn is_part_of_other(text: &str, name: &SecretName, piece: &Piece, end: usize, looks: Shape) -> bool {
    let value = &text[piece.start..end];
    let may_be_measure = match looks {
        Shape::Digits | Shape::Word => true,
        looks => looks == Shape::Odd && value.starts_with(|c: char| c.is_ascii_digit()),
    };
    // `secret "db-cred-2" created`: the name of an object.
    let is_object = piece.is_quoted
        && name.kind == NameKind::Token
        && [
            " deleted",
            " created",
            " configured",
            " unchanged",
            " not found",
            " patched",
        ]
        .iter()
        .any(|verb| text[end..].trim_start_matches(['"', '\'']).starts_with(verb));
    // `password: x → autocomplete="new-password"`
    let is_attribute = !piece.is_quoted && (text[end..].starts_with("=\"") || text[end..].starts_with("='"));
    name.kind == NameKind::Login && value.contains(['/', ':'])
        || may_be_measure && is_followed_by_unit(text, end.max(piece.end))
        || is_attribute
        || is_object
        || piece.gap.is_cell && looks < Shape::Strong && !is_whole_cell(text, piece.end)
}

/// Returns whether a value is set in a place that only secrets have, so that it may look like anything: a field of a
/// connection, a variable of the environment, the query of an address.
fn is_set_outright(text: &str, name: &SecretName, piece: &Piece, case: &Case, (value, end): (&str, usize)) -> bool {
    let looks = case.looks;
    let is_variable = is_constant(text, name);
    let has_equals = case.is_equals && text[name.end..].starts_with('=');
    if has_equals && name.kind == NameKind::Key && text[end..].starts_with(';') && looks >= Shape::Word {
        return true;
    }
    let is_key_like = looks == Shape::Hex && case.length >= 24 || looks >= Shape::Strong && case.length >= 10;
    if has_equals && name.kind == NameKind::AnyKey && is_variable && name.is_tail && is_key_like {
        return true;
    }
    let is_password = matches!(name.kind, NameKind::Password | NameKind::Phrase);
    if is_password && case.is_query && case.is_equals && looks != Shape::Prose && !is_stand_in(value) {
        return true;
    }
    // "密码：some.host": a password that looks like a host.
    if is_password && name.is_unspaced && case.tie == Tie::Direct && looks == Shape::Never && is_host_like(value) {
        return true;
    }
    let is_named = value.contains('_') && !case.has_digit;
    let is_enough = looks >= Shape::Word && case.length >= 4
        || looks == Shape::Identifier && case.length >= 6 && case.has_digit
        || is_variable && looks != Shape::Prose && case.length >= 6 && !is_named && is_plain(value);
    is_enough && is_assigned(text, name, piece) && !is_stand_in(value)
}

/// Returns whether a value behind the name of a field is a type or another variable: `privateKey: jose.KeyLike`,
/// `privateKey: ed25519Seed,`.
fn is_type_or_variable(value: &str, after: &str) -> bool {
    let is_type = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
        && value.contains(|c: char| c == '.' || c.is_ascii_uppercase());
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let may_be_type = digits == 0 || digits == 1 && value.starts_with(|c: char| c.is_ascii_uppercase());
    let is_member = value.starts_with(|c: char| c.is_ascii_lowercase())
        && after.starts_with([',', ';', ')'])
        && subwords(value)
            .last()
            .is_some_and(|last| last.len() >= 4 && prose::is_prose(last));
    is_type && (may_be_type || is_member)
}

/// Returns whether a value behind a bare `pass` is one: tests pass, and code passes arguments.
fn is_pass_value(text: &str, name: &SecretName, case: &Case) -> bool {
    let before = &text[text.floor_char_boundary(name.start.saturating_sub(60))..name.start];
    // `User: x` may stand in the line above.
    let lines = before.rsplit('\n').take(2).collect::<Vec<_>>();
    let before = lines.first().copied().unwrap_or_default().to_lowercase();
    let above = lines.get(1).copied().unwrap_or_default().to_lowercase();
    let after = &text[name.end..text.floor_char_boundary((name.end + 60).min(text.len()))];
    let after = after.split('\n').next().unwrap_or_default().to_lowercase();
    let has_user = ["user", "login", "admin", "账号", "帳號", "root", "wifi", "wi-fi"]
        .iter()
        .any(|word| {
            before.contains(word)
                || above.contains(&format!("{word}:"))
                || after.contains(&format!(" {word}:"))
                || after.contains(&format!(" {word}="))
        });
    let is_owned = before
        .split_whitespace()
        .rev()
        .take(2)
        .any(|word| matches!(word, "the" | "my" | "our"));
    let is_odd = matches!(case.looks, Shape::Odd | Shape::Strong | Shape::Random) && (case.has_digit || case.has_sign);
    match (case.tie, case.is_sign) {
        (Tie::Direct, false) => !case.is_adjacent || is_odd || is_owned,
        (Tie::Direct, true) => {
            is_odd
                && (case.is_mixed
                    || has_user
                    || text[name.start..name.end].bytes().all(|byte| byte.is_ascii_lowercase()))
                || has_user && (case.looks >= Shape::Word || case.looks == Shape::Identifier && case.has_digit)
        }
        (Tie::Linked, false) => is_odd && (is_owned || has_user),
        (Tie::Clause, _) if case.is_adjacent && case.is_handmade && case.looks >= Shape::Strong => true,
        _ => has_user && is_odd,
    }
}

/// A value and how it is tied to a name.
struct Case {
    looks: Shape,
    tie: Tie,
    length: usize,
    is_quoted: bool,
    is_sign: bool,
    is_equals: bool,
    is_about: bool,
    is_adjacent: bool,
    has_digit: bool,
    digits: usize,
    has_hyphen: bool,
    is_flag: bool,
    /// Small letters only.
    is_small: bool,
    /// Letters, digits and signs, or letters and digits that change often: nothing that names have.
    is_mixed: bool,
    /// Between commas: "my password, X, works there too".
    is_apart: bool,
    /// A run of Chinese, Japanese or Korean stands before it.
    is_after_run: bool,
    /// The name is `pin`, which is also that of a version or a contact.
    is_plain_pin: bool,
    /// On a line below its name.
    is_below: bool,
    /// The name is one of a program.
    is_identifier: bool,
    /// Several digits, or letters in both cases and a digit.
    is_handmade: bool,
    /// A sign among letters.
    has_sign: bool,
    /// More words follow, as in a list.
    is_listed: bool,
    /// Two of its parts are ordinary words.
    is_worded: bool,
    /// The name is that of a field in the query of an address.
    is_query: bool,
    /// The name is that of an account.
    is_account: bool,
}

impl Case {
    /// Gathers what is known of a value that ends at `end`.
    fn new(
        text: &str,
        name: &SecretName,
        piece: &Piece,
        reading: &Reading,
        (value, end): (&str, usize),
        (looks, tie): (Shape, Tie),
    ) -> Case {
        Case {
            looks,
            tie,
            length: value.len(),
            is_quoted: piece.is_quoted,
            is_sign: reading.is_equals || piece.gap.is_link,
            is_equals: reading.is_equals,
            is_about: reading.is_about,
            is_adjacent: reading.is_direct,
            has_digit: value.bytes().any(|byte| byte.is_ascii_digit()),
            has_hyphen: value.contains('-'),
            is_flag: name.is_flag,
            is_small: value.bytes().all(|byte| byte.is_ascii_lowercase()),
            is_mixed: is_mixed(value),
            is_apart: piece.gap.is_comma
                && text[end.max(piece.end)..]
                    .trim_start_matches(['"', '`'])
                    .starts_with([',', '，', ';']),
            is_after_run: name.is_unspaced || reading.is_after_run,
            is_plain_pin: name.kind == NameKind::Pin && is_plain_pin(&text[name.start..name.end]),
            is_below: piece.gap.newlines > 0,
            is_identifier: name.is_identifier,
            digits: value.bytes().filter(u8::is_ascii_digit).count(),
            is_handmade: value.bytes().filter(u8::is_ascii_digit).count() >= 2
                || [u8::is_ascii_digit, u8::is_ascii_uppercase, u8::is_ascii_lowercase]
                    .iter()
                    .all(|is| value.bytes().any(|byte| is(&byte))),
            has_sign: value.bytes().rev().skip(1).any(|byte| b"!@#$%^&*~+".contains(&byte)),
            is_listed: text[end.max(piece.end)..].trim_start_matches('`').starts_with(", "),
            is_worded: subwords(value)
                .iter()
                .filter(|part| part.len() >= 4 && prose::is_prose(part))
                .count()
                >= 2,
            is_query: name.start > 0 && matches!(text.as_bytes()[name.start - 1], b'?' | b'&'),
            is_account: name.kind == NameKind::Login
                && !text[name.start..name.end].to_ascii_lowercase().contains("cred"),
        }
    }

    /// Returns whether the value is a secret of that kind.
    fn is_enough_for(&self, kind: NameKind) -> bool {
        match kind {
            NameKind::Password | NameKind::Phrase => self.is_password(),
            NameKind::Token | NameKind::Key => self.is_token(),
            NameKind::AnyKey => match self.tie {
                Tie::Direct => {
                    self.looks == Shape::Random
                        || self.looks == Shape::Strong
                            && self.length >= 12
                            && self.has_digit
                            && self.is_mixed
                            && !self.is_worded
                        || self.looks == Shape::Strong && self.length >= 8 && self.is_mixed && self.is_sign
                        || self.looks == Shape::Hex && self.length >= 24 && !self.is_sign && !self.is_flag
                }
                Tie::Linked => {
                    self.looks == Shape::Random && self.length >= 20
                        || self.looks == Shape::Hex && self.length >= 24 && !self.is_sign
                }
                _ => self.looks == Shape::Random && self.length >= 20,
            },
            NameKind::Pin => self.is_pin(),
            NameKind::Login => match self.tie {
                Tie::Direct => self.looks >= if self.is_account { Shape::Strong } else { Shape::Odd },
                Tie::Linked => self.looks >= Shape::Strong,
                _ => self.looks >= Shape::Strong && self.length >= 6,
            },
            NameKind::Header => match self.tie {
                Tie::Direct => self.looks >= Shape::Word && self.length >= 8 && !self.is_below,
                Tie::Clause if self.is_adjacent => {
                    self.looks >= Shape::Strong && self.length >= 10
                        || self.looks >= Shape::Odd && self.length >= 14
                        || self.looks == Shape::Hex && self.length >= 16
                        || self.looks == Shape::Word && self.length >= 16
                }
                _ => self.looks == Shape::Random,
            },
            NameKind::Cookie => match self.tie {
                Tie::Direct => {
                    self.looks >= Shape::Strong && self.length >= 12 && (self.is_mixed || self.looks == Shape::Random)
                        || self.looks == Shape::Hex && self.length >= 32 && self.is_equals && !self.has_hyphen
                }
                Tie::Linked => {
                    self.looks == Shape::Random && self.length >= 20
                        || self.looks == Shape::Hex && self.length >= 32 && !self.has_hyphen
                }
                _ => self.looks == Shape::Random && self.length >= 24,
            },
            NameKind::Signature => self.tie == Tie::Direct && self.length >= 12,
            NameKind::Wordlist | NameKind::Leet => false,
        }
    }

    fn is_password(&self) -> bool {
        match self.tie {
            Tie::Direct => match self.looks {
                Shape::Never | Shape::Prose => false,
                Shape::Identifier => self.is_quoted || !self.is_sign || self.has_digit,
                Shape::Digits => self.length >= if self.is_identifier { 6 } else { 3 },
                _ => true,
            },
            Tie::Linked => match self.looks {
                Shape::Never | Shape::Prose => false,
                Shape::Identifier => self.has_digit && self.is_about || self.is_handmade && self.is_sign,
                Shape::Word => self.is_about,
                Shape::Digits => self.length >= 4,
                Shape::Hex => self.length >= 8,
                _ => true,
            },
            Tie::Clause => match self.looks {
                Shape::Odd => {
                    let is_near = self.is_adjacent || self.is_apart || self.is_after_run;
                    (is_near || self.is_quoted && self.length >= 6) && self.has_digit
                }
                Shape::Identifier => self.is_adjacent && self.is_handmade && !self.is_identifier,
                Shape::Digits => self.is_adjacent && self.length >= 5,
                Shape::Hex => self.is_adjacent && self.length >= 16,
                looks => {
                    let is_near = self.is_adjacent || self.is_apart || self.is_after_run;
                    looks >= Shape::Strong && (is_near || self.is_mixed)
                }
            },
            Tie::Near => {
                self.looks == Shape::Random || self.looks == Shape::Strong && self.is_mixed && self.length >= 8
            }
        }
    }

    fn is_token(&self) -> bool {
        // Keys to a disk are groups of digits.
        if self.looks == Shape::Digits && self.length >= 24 && self.has_hyphen && self.tie >= Tie::Clause {
            return self.is_adjacent || self.tie >= Tie::Linked;
        }
        match self.tie {
            Tie::Direct => match self.looks {
                Shape::Never | Shape::Prose => false,
                Shape::Identifier => {
                    let is_given = self.is_flag || self.is_quoted || self.is_equals || self.is_sign && self.digits >= 3;
                    self.has_digit && self.length >= 8 && is_given
                }
                Shape::Word => self.length >= 7 && !self.is_listed,
                Shape::Digits => self.length >= 6 && !self.is_equals && !self.is_sign,
                Shape::Hex => self.length >= if self.is_query { 8 } else { 12 },
                _ => self.length >= 5,
            },
            Tie::Linked => match self.looks {
                Shape::Word => self.length >= 9 && self.is_about && !self.is_listed,
                Shape::Hex => {
                    let least = if self.has_hyphen { 20 } else { 14 };
                    self.length >= least && self.is_about || self.length >= 32 && !self.has_hyphen
                }
                Shape::Odd => {
                    let is_phrase = self.is_quoted && self.is_after_run && self.length >= 12;
                    self.length >= 6 && (self.has_digit || self.has_sign) && (self.is_about || self.is_quoted)
                        || is_phrase
                }
                looks => looks >= Shape::Strong && self.length >= 6,
            },
            Tie::Clause => match self.looks {
                Shape::Odd => {
                    self.is_adjacent && self.length >= 10 || self.is_after_run && self.has_digit && self.length >= 6
                }
                Shape::Hex => self.is_adjacent && self.length >= 32,
                Shape::Strong => self.is_adjacent && self.length >= 7 || self.is_mixed && self.length >= 10,
                looks => looks == Shape::Random,
            },
            Tie::Near => self.looks == Shape::Random,
        }
    }

    fn is_pin(&self) -> bool {
        match self.tie {
            Tie::Direct | Tie::Linked => match self.looks {
                Shape::Digits => {
                    let least = if self.is_equals && self.length == 3 { 4 } else { 3 };
                    (least..=24).contains(&self.length)
                        && (!self.is_plain_pin || self.tie == Tie::Direct || self.is_about || !self.is_sign)
                }
                _ if self.is_plain_pin => false,
                Shape::Identifier => self.digits >= 4 && self.tie == Tie::Direct,
                Shape::Word => (self.is_quoted || self.length >= 8) && self.is_small && self.tie == Tie::Direct,
                looks => looks >= Shape::Odd,
            },
            Tie::Clause => match self.looks {
                Shape::Digits => {
                    self.is_adjacent && (4..=24).contains(&self.length)
                        || self.is_quoted && (4..=8).contains(&self.length)
                }
                _ if self.is_plain_pin => false,
                Shape::Odd => self.is_adjacent && self.has_digit,
                looks => looks >= Shape::Strong,
            },
            Tie::Near => false,
        }
    }
}

/// Returns whether what looks like an ordinary word is the password nevertheless.
fn is_unusual_prose(value: &str, name: &SecretName, piece: &Piece, tie: Tie) -> bool {
    /// Words that are joined in ordinary compounds: `end-to-end`.
    const SMALL: &[&str] = &[
        "to", "and", "of", "the", "in", "by", "not", "non", "up", "or", "on", "a", "as", "per", "at", "out", "no",
        "is", "in",
    ];
    let low = value.to_ascii_lowercase();
    let is_password = matches!(name.kind, NameKind::Password | NameKind::Phrase);
    let is_common = COMMON_PASSWORDS.contains(&low.as_str()) && (piece.is_quoted || !piece.gap.is_comma);
    // "the passphrase is seven-lemons-dance"
    let parts = low.split('-').collect::<Vec<_>>();
    let is_joined = parts.len() >= 3 && !parts.iter().any(|part| part.len() < 3 || SMALL.contains(part));
    // `woaibeijing` only ends like an English word.
    let is_foreign = name.is_unspaced && value.len() >= 6 && !low.contains('-') && !prose::is_known(&low);
    tie == Tie::Direct && (is_common && (is_password || name.kind == NameKind::Login) || is_joined && is_password)
        || tie >= Tie::Linked && is_foreign && is_password
}

/// Returns whether a quoted text in Chinese is a password: short, and no sentence about one.
fn is_unspaced_value(name: &SecretName, piece: &Piece, tie: Tie) -> bool {
    const SENTENCE_PARTS: &[&str] = &[
        "不", "错", "錯", "请", "請", "必须", "必須", "为空", "為空", "输入", "輸入", "密码", "密碼", "过期", "過期",
        "失败", "失敗", "成功", "的", "了", "和", "或", "字段", "类型", "強度", "强度", "长度", "長度", "无效", "無效",
        "重置", "修改", "忘记", "忘記",
    ];
    let is_password = matches!(name.kind, NameKind::Password | NameKind::Phrase);
    let count = piece.text.chars().count();
    is_password
        && piece.is_quoted
        && tie >= Tie::Linked
        && (2..=16).contains(&count)
        && !SENTENCE_PARTS.iter().any(|part| piece.text.contains(part))
}

/// Returns whether what follows a word or a number makes it a quantity or a kind.
pub(super) fn is_followed_by_unit(text: &str, end: usize) -> bool {
    let after = text[end..].trim_start_matches([' ', '`', '"', '-']);
    if UNSPACED_UNITS.iter().any(|unit| after.starts_with(unit)) {
        return true;
    }
    let length = after.bytes().take_while(u8::is_ascii_alphabetic).count();
    let is_near = text[end..].starts_with([' ', '-']);
    let is_more = matches!(&after[..length], "of" | "or") && text[..end].ends_with(|c: char| c.is_ascii_digit());
    is_near && (is_more || UNITS.contains(&after[..length].to_ascii_lowercase().as_str()))
}

/// Returns where the value of a piece lies: without the next field of a query or a list of settings, and without the ending of
/// the file whose name says it.
pub(super) fn value_range(text: &str, piece: &Piece, name: &SecretName, is_equals: bool) -> (usize, usize) {
    let mut end = piece.end;
    if !piece.is_quoted && has_file_extension(piece.text) && is_in_file_name(text, name.start) {
        end -= piece.text.len() - piece.text.rfind('.').unwrap_or(piece.text.len());
    }
    if !piece.is_quoted && is_equals {
        for (at, byte) in piece.text.bytes().enumerate() {
            if !matches!(byte, b'&' | b';') || at < 3 {
                continue;
            }
            let rest = &piece.text[at + 1..];
            let is_field = || {
                let name = rest
                    .bytes()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-. []%".contains(byte))
                    .count();
                name > 0 && rest.as_bytes().get(name) == Some(&b'=') || name == rest.len()
            };
            if is_field() {
                end = piece.start + at;
                break;
            }
        }
    }
    (piece.start, text.floor_char_boundary(end))
}

/// Returns whether a place is inside the name of a file with blanks: `/w/notes/the password is hunter2.md`.
fn is_in_file_name(text: &str, at: usize) -> bool {
    const LONGEST: usize = 160;
    let near = &text[text.ceil_char_boundary(at.saturating_sub(LONGEST))..at];
    let is_edge = |c: char| matches!(c, '\n' | '"' | '`' | '(' | ')' | '<' | '>' | '|');
    let path = near.rsplit(is_edge).next().unwrap_or_default();
    // The first word is a path, and no word after it is one.
    path.rfind(['/', '\\']).is_some_and(|slash| {
        let start = path[..slash].rfind(' ').map_or(0, |blank| blank + 1);
        path[start..].starts_with(['/', '.', '~'])
            || start == 0 && near.len() > path.len()
            || path[start..].contains(":\\")
    })
}

/// Returns whether nothing but the wall of the table or the end of the line follows.
fn is_whole_cell(text: &str, end: usize) -> bool {
    let rest = text[end..].trim_start_matches([' ', '`', '"', '*', '\'', '”']);
    rest.is_empty() || rest.starts_with(['|', '│', '\n', '\r'])
}

/// Returns whether a name says `pin` and no more: versions and contacts are pinned, too.
fn is_plain_pin(name: &str) -> bool {
    name.to_ascii_lowercase().trim_end_matches('s').ends_with("pin")
}

/// Returns whether a name is written in capitals, as variables of the environment are.
fn is_constant(text: &str, name: &SecretName) -> bool {
    text[name.start..name.end]
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns whether a value is assigned to a variable of the environment: `DB_PASSWORD=...`. Whatever it is, it is the secret.
fn is_assigned(text: &str, name: &SecretName, piece: &Piece) -> bool {
    let gap = text[name.end..piece.start].trim_end_matches(['"', '\'']);
    let is_given = is_constant(text, name) || is_option(text, name);
    let is_secret = !matches!(
        name.kind,
        NameKind::AnyKey | NameKind::Login | NameKind::Header | NameKind::Cookie
    );
    is_given && name.is_tail && is_secret && gap == "="
}

/// Returns whether a name stands in the option of a command: `--set auth.rootPassword=X`, `-var 'db_password=X'`, `-Dpassword=X`.
fn is_option(text: &str, name: &SecretName) -> bool {
    const LONGEST: usize = 120;
    let near = &text[text.ceil_char_boundary(name.start.saturating_sub(LONGEST))..name.start];
    let line = near.rsplit('\n').next().unwrap_or_default();
    let field = line.rfind([' ', '"', '\'']).map_or(0, |at| at + 1);
    let before = line[..field].trim_end_matches([' ', '"', '\'', '=']);
    let option = before.rsplit(' ').next().unwrap_or_default();
    let is_dashed = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| {
            rest.trim_start_matches('-')
                .starts_with(|c: char| c.is_ascii_alphabetic())
        })
    };
    is_dashed(option) || is_dashed(&line[field..])
}

/// Returns whether a value is letters and digits joined by single dots, and no file.
fn is_host_like(value: &str) -> bool {
    let parts = value.split('.').collect::<Vec<_>>();
    let is_part =
        |part: &&str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    parts.len() >= 2 && !has_file_extension(value) && parts.iter().all(is_part)
}

/// Returns whether a value is one run of letters and digits with joints: no code, no path.
fn is_plain(value: &str) -> bool {
    value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_!@#%^*+".contains(&byte))
}
