//! Looks for values around the name of a secret: how they are tied to it decides how much they must look like one.
//!
//! A value after `password:` or "the password is" may be any word that is no ordinary one. A value some words away must look
//! like nothing but a secret. Both directions are read: "use X as the password" puts the value first.

use super::names::{NameKind, SecretName};
use super::pieces::{Gap, Piece, PieceReader, is_unspaced};
use super::shape::{Shape, shape};
use super::{MASK, Secret, forms, prose, push};

/// How far a name reaches, in bytes and in pieces.
const REACH: usize = 240;
const MOST_PIECES: usize = 18;

/// How a value is tied to its name. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tie {
    /// In the neighborhood.
    Near,
    /// In the same clause, or right behind without a sign.
    Clause,
    /// After a linking word, with other words between.
    Linked,
    /// After a sign or a linking word, nothing between.
    Direct,
}

/// Words that say that the value follows.
const LINKS: &[&str] = &[
    "is", "was", "are", "were", "be", "being", "equals", "equal", "becomes", "became", "it's", "it’s", "that's",
    "that’s", "its", "reads", "called", "namely", "ist", "es", "est", "value", "val", "say", "says", "i.e", "=", "==",
    "值",
];

/// Words that may stand between a linking word and the value.
const FILLERS: &[&str] = &[
    "now",
    "currently",
    "still",
    "just",
    "simply",
    "literally",
    "actually",
    "set",
    "changed",
    "reset",
    "rotated",
    "updated",
    "the",
    "a",
    "an",
    "following",
    "here",
    "below",
    "probably",
    "always",
    "temporarily",
    "again",
    "also",
    "really",
    "basically",
    "well",
    "this",
    "one",
    "string",
    "word",
    "value",
    "literal",
    "plain",
    "text",
    "new",
    "old",
    "it",
    "that",
    "going",
    "ok",
    "okay",
    "yes",
    "hi",
    "please",
    "use",
    "try",
    "enter",
    "type",
    "will",
    "should",
    "would",
    "must",
    "can",
    "been",
    "to",
    "as",
    "only",
    "exactly",
    "definitely",
    "has",
    "have",
    "had",
    "might",
    "may",
    "could",
];

/// Verbs after which `to` comes before the value.
const SETTERS: &[&str] = &[
    "set",
    "change",
    "changed",
    "changing",
    "reset",
    "rotate",
    "rotated",
    "update",
    "updated",
    "switch",
    "switched",
    "setting",
    "modify",
    "equal",
    "equals",
    "move",
    "moved",
    "resetting",
];

/// What may follow a name and still be about it: "password for the demo account is ...".
const CONTINUATIONS: &[&str] = &[
    "for",
    "to",
    "of",
    "on",
    "at",
    "in",
    "from",
    "with",
    "under",
    "i",
    "you",
    "we",
    "he",
    "she",
    "they",
    "that",
    "which",
    "used",
    "needed",
    "i've",
    "i'll",
    "you'll",
    "we'll",
    "by",
    "everyone",
    "bob",
    "there",
    "over",
    "he's",
    "between",
    "behind",
    "protecting",
    "who",
    "our",
];

/// Words that begin a clause about something else.
const CLAUSES: &[&str] = &[
    "if",
    "when",
    "because",
    "unless",
    "so",
    "then",
    "but",
    "after",
    "before",
    "while",
    "since",
    "whether",
    "until",
    "than",
    "otherwise",
    "else",
];

/// Units after a number: "8 characters" is no value.
const UNITS: &[&str] = &[
    "characters",
    "character",
    "chars",
    "char",
    "days",
    "day",
    "hours",
    "hour",
    "minutes",
    "minute",
    "mins",
    "min",
    "seconds",
    "second",
    "secs",
    "sec",
    "ms",
    "weeks",
    "week",
    "months",
    "month",
    "years",
    "year",
    "bits",
    "bit",
    "bytes",
    "byte",
    "times",
    "time",
    "attempts",
    "attempt",
    "tries",
    "users",
    "user",
    "tokens",
    "token",
    "requests",
    "request",
    "digits",
    "digit",
    "letters",
    "words",
    "per",
    "percent",
    "keys",
    "passwords",
    "位",
    "个",
    "個",
    "天",
    "秒",
    "分钟",
    "分鐘",
    "小时",
    "小時",
    "次",
    "字符",
    "字元",
    "字节",
    "年",
];

/// What follows a word in Chinese when it is a kind or a method and no value.
const UNSPACED_UNITS: &[&str] = &[
    "位",
    "个",
    "個",
    "天",
    "秒",
    "分钟",
    "分鐘",
    "小时",
    "小時",
    "次",
    "字符",
    "字元",
    "字节",
    "字節",
    "年",
    "月",
    "类型",
    "類型",
    "格式",
    "加密",
    "算法",
    "演算法",
    "字段",
    "欄位",
    "文件",
    "檔案",
    "里",
    "裡",
    "裏",
    "中",
    "接口",
    "介面",
    "服务",
    "服務",
    "表",
    "模块",
    "模組",
    "目录",
    "目錄",
    "哈希",
];

/// Linking words at the end of a run of Chinese.
const UNSPACED_LINKS: &[&str] = &[
    "是", "为", "為", "成", "成了", "叫", "叫做", "等于", "等於", "填", "填的", "填写", "填寫", "输入", "輸入", "输",
    "輸", "即", "如下", "用", "用的", "设的", "到", "給", "给", "给你", "給你", "发你", "發你", "贴", "貼", "作", "写",
    "寫", "写的", "成是", "用了", "做", "係", "还是", "還是", "でし", "は", "就", "写着", "寫著",
];

/// Linking words after a value: "X as the password".
const BACK_LINKS: &[&str] = &[
    "is", "as", "was", "=", "being", "for", "==", "becomes", "will", "should", "for:", "→", "are", "works",
];

/// The same in Chinese.
const UNSPACED_BACK_LINKS: &[&str] = &[
    "是", "作为", "作為", "当", "當", "做", "为", "為", "就是", "设为", "設為", "设成", "設成", "这个",
];

/// Passwords that are ordinary words.
const COMMON_PASSWORDS: &[&str] = &[
    "admin",
    "root",
    "guest",
    "welcome",
    "letmein",
    "toor",
    "postgres",
    "demo",
    "changeit",
    "manager",
    "super",
    "hello",
    "raspberry",
    "default1",
    "abc",
];

/// Adds the values that belong to a name.
pub(super) fn find(text: &str, name: &SecretName, found: &mut Vec<Secret>) {
    let rule = match name.kind {
        _ if name.is_flag => "command-line-password",
        NameKind::Header => "authorization-header",
        _ => "assigned-secret",
    };
    find_after(text, name, rule, found);
    if !name.is_flag && !name.is_identifier && !name.is_folder && name.kind != NameKind::Header {
        find_before(text, name, rule, found);
    }
}

/// What is known while reading on from a name.
struct Reading {
    /// Nothing but linking words and signs since the name.
    is_direct: bool,
    /// A linking word or sign came last.
    is_linked: bool,
    /// The link is a sign of a program.
    is_equals: bool,
    /// The words since the name may be about it.
    is_about: bool,
    stops: u32,
    wraps: u32,
    count: usize,
    /// The last value's tie, while a list of values goes on.
    listed: Option<Tie>,
    /// `set`, `changed`: `to` comes before a value.
    has_setter: bool,
    /// The sentence after a full stop speaks of the name: "It is ...".
    is_resumed: bool,
    /// The name begins its line and one word follows: `password hunter2`.
    is_config: bool,
}

fn find_after(text: &str, name: &SecretName, rule: &'static str, found: &mut Vec<Secret>) {
    let limit = text.floor_char_boundary((name.end + REACH).min(text.len()));
    // A quote that closes right after the name belongs to the name.
    let mut start = name.end;
    if let Some(quote) = text[start..].chars().next().filter(|c| "\"'`”」』）)]".contains(*c)) {
        start += quote.len_utf8();
    } else if text[start..].starts_with("\\\"") {
        start += 2;
    }
    if text[start..].starts_with('(') && !name.is_unspaced {
        // A call: `token(...)`.
        return;
    }
    let mut reader = PieceReader::new(text, start, limit);
    let mut reading = Reading {
        is_direct: true,
        is_linked: false,
        is_equals: false,
        is_about: true,
        stops: 0,
        wraps: 0,
        count: 0,
        listed: None,
        has_setter: is_set_before(text, name.start),
        is_resumed: false,
        is_config: is_config_line(text, name),
    };
    for possessive in ["'s ", "’s "] {
        if text[name.end..].starts_with(possessive) {
            reading.is_linked = true;
            reader = PieceReader::new(text, name.end + possessive.len(), limit);
        }
    }
    let mut before: Option<Piece> = None;
    for piece in reader {
        if reading.count > MOST_PIECES || !reading.enter(&piece, name) {
            return;
        }
        reading.count += 1;
        if piece.text.is_empty() {
            continue;
        }
        if name.kind == NameKind::Phrase
            && piece.text.starts_with(is_unspaced)
            && let Some(end) = find_long_phrase(text, name, &piece, &reading, limit)
        {
            push(found, piece.start..end, rule);
            return;
        }
        if !piece.is_quoted && reading.take_word(&piece, name) {
            before = Some(piece);
            continue;
        }
        if let Some(end) = find_words(text, name, &piece, &reading, limit) {
            push(found, piece.start..end, rule);
            return;
        }
        if name.kind == NameKind::Login
            && let Some(range) = find_pair(&piece, before.as_ref(), &reading)
        {
            push(found, range, rule);
            reading.skip(&piece);
            before = Some(piece);
            continue;
        }
        let tie = reading.tie(&piece, name);
        if is_value(text, name, &piece, tie, &reading) {
            let (from, to) = value_range(text, &piece, reading.is_equals);
            push(found, from..to, rule);
            reading.listed = Some(tie);
            reading.is_linked = false;
            reading.is_direct = false;
        } else {
            reading.skip(&piece);
        }
        before = Some(piece);
    }
}

impl Reading {
    /// Takes the gap before a piece. Returns whether the name still reaches that far.
    fn enter(&mut self, piece: &Piece, name: &SecretName) -> bool {
        let gap = piece.gap;
        if gap.is_link {
            self.is_linked = true;
            self.is_equals = gap.is_equals;
        }
        let is_pending = self.is_direct && (self.is_linked || name.is_flag) || self.is_linked && gap.newlines < 2;
        if gap.newlines > 0 && !is_pending && self.listed.is_none() {
            let is_label = piece.text.eq_ignore_ascii_case("value")
                || self.is_direct && self.count == 0 && gap.newlines == 1 && name.kind != NameKind::AnyKey;
            if !is_label && (gap.newlines > 1 || gap.is_stop || gap.is_comma || gap.is_bracket || self.wraps > 0) {
                return false;
            }
            self.wraps += 1;
        }
        if gap.newlines > 0 && name.kind != NameKind::Pin {
            self.listed = None;
        }
        if gap.newlines > 3 {
            return false;
        }
        if gap.is_stop {
            self.stops += 1;
            self.listed = None;
            self.is_about = false;
            let low = piece.text.to_ascii_lowercase();
            self.is_resumed = matches!(
                low.as_str(),
                "it" | "it's" | "it’s" | "that's" | "its" | "value" | "this" | "here" | "here's" | "use" | "try"
            );
            if self.stops > 1 {
                return false;
            }
        }
        if gap.is_comma && !self.is_direct && self.listed.is_none() {
            self.is_linked &= gap.is_link;
        }
        true
    }

    /// Takes a word that is no value: a linking word, a filler. Returns whether it is one.
    fn take_word(&mut self, piece: &Piece, name: &SecretName) -> bool {
        let word = piece.text;
        if word.chars().next().is_some_and(is_unspaced) {
            return self.take_unspaced(word);
        }
        if word.len() > 12 {
            return false;
        }
        let low = word.to_ascii_lowercase();
        let low = low.as_str();
        if self.listed.is_some() && matches!(low, "and" | "or" | "then" | "also" | "&" | "to") {
            return true;
        }
        if name.kind == NameKind::Header && matches!(low, "bearer" | "basic" | "token" | "digest" | "apikey" | "bot") {
            return true;
        }
        if SETTERS.contains(&low) {
            self.has_setter = true;
        }
        if LINKS.contains(&low) {
            self.is_linked = true;
            self.is_equals = false;
            return true;
        }
        if matches!(low, "to" | "as" | "from" | "with" | "into") && self.has_setter {
            self.is_linked = true;
            self.is_equals = false;
            return true;
        }
        if self.is_direct
            && matches!(low, "type" | "enter" | "use" | "try" | "put" | "say" | "send" | "with")
            && self.count <= 3
        {
            self.is_linked = true;
            self.is_equals = false;
            return low != "with" || self.has_setter;
        }
        if FILLERS.contains(&low) && (self.is_linked || self.is_direct) && !matches!(low, "to" | "as") {
            return true;
        }
        false
    }

    fn take_unspaced(&mut self, word: &str) -> bool {
        let ends_linking = UNSPACED_LINKS.iter().any(|link| word.ends_with(link));
        let is_short = word.chars().count() <= 7;
        self.is_linked = ends_linking;
        self.is_equals = false;
        if !ends_linking || !is_short {
            self.is_direct = false;
        }
        self.is_about = true;
        // A quoted run of Chinese may be the value itself, an unquoted one is not.
        true
    }

    /// Takes a piece that was no value.
    fn skip(&mut self, piece: &Piece) {
        let low = piece.text.to_ascii_lowercase();
        if self.is_direct && self.count == 1 {
            self.is_about = CONTINUATIONS.contains(&low.as_str())
                || piece.gap.is_comma
                || piece.gap.is_bracket
                || piece.gap.is_dash;
        }
        if CLAUSES.contains(&low.as_str()) {
            self.is_about = false;
        }
        self.is_direct = false;
        self.is_linked = false;
        self.is_equals = false;
        if !matches!(low.as_str(), "and" | "or") {
            self.listed = None;
        }
    }

    /// Returns how a piece is tied to the name.
    fn tie(&self, piece: &Piece, name: &SecretName) -> Tie {
        if let Some(tie) = self.listed {
            return tie.min(Tie::Linked);
        }
        if self.stops > 0 {
            let answers = self.is_direct && self.count == 1;
            return match (
                self.is_linked && self.is_resumed,
                answers || self.is_linked || self.is_resumed && self.is_direct,
            ) {
                (true, _) => Tie::Direct,
                (_, true) => Tie::Linked,
                _ => Tie::Near,
            };
        }
        match (self.is_direct, self.is_linked) {
            (true, true) => Tie::Direct,
            (true, false) if name.is_flag || self.is_config && self.count == 1 => Tie::Direct,
            (true, false) if name.is_unspaced || piece.is_quoted => Tie::Linked,
            (true, false) => Tie::Clause,
            (false, true) => Tie::Linked,
            (false, false) if self.count <= 9 && self.wraps == 0 => Tie::Clause,
            _ => Tie::Near,
        }
    }
}

/// Returns whether a verb before a name says that the name gets a value: "change the admin password to ...".
fn is_set_before(text: &str, at: usize) -> bool {
    let start = text.floor_char_boundary(at.saturating_sub(60));
    let before = &text[start..at];
    let sentence = before.rsplit(['\n', '.', ';']).next().unwrap_or_default();
    let mut words = sentence
        .rsplit(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(7);
    words.any(|word| SETTERS.contains(&word.to_ascii_lowercase().as_str()))
}

/// Returns whether a piece is a value.
fn is_value(text: &str, name: &SecretName, piece: &Piece, tie: Tie, reading: &Reading) -> bool {
    if piece.text == MASK || piece.text.chars().any(char::is_whitespace) {
        return false;
    }
    if piece.text.chars().next().is_some_and(is_unspaced) {
        return is_unspaced_value(name, piece, tie);
    }
    let (from, to) = value_range(text, piece, reading.is_equals);
    let value = &text[from..to];
    let mut looks = shape(value);
    if name.kind == NameKind::Login && value.contains(['/', ':']) {
        return false;
    }
    if matches!(looks, Shape::Digits | Shape::Word | Shape::Odd) && is_followed_by_unit(text, to.max(piece.end)) {
        return false;
    }
    if looks == Shape::Prose && is_common_password(value, name, piece, tie) {
        looks = Shape::Word;
    }
    let case = Case {
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
        is_mixed: super::shape::is_mixed(value),
    };
    if !name.is_tail && !name.is_flag && !case.is_sign && tie >= Tie::Linked && looks < Shape::Strong {
        return false;
    }
    if tie < Tie::Direct && looks >= Shape::Hex && looks != Shape::Odd && forms::is_named_id(text, from) {
        return false;
    }
    // `privateKey: jose.KeyLike`: a type and no value.
    let is_type = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte))
        && value.contains(|c: char| c == '.' || c.is_ascii_uppercase());
    if name.is_identifier && !piece.is_quoted && !case.has_digit && is_type {
        return false;
    }
    if name.is_bare_pass && !is_pass_value(text, name, &case) {
        return false;
    }
    let is_spoken = name.is_identifier && (tie < Tie::Direct || !case.is_sign && looks < Shape::Strong);
    if is_spoken || name.is_folder && (looks < Shape::Strong || tie < Tie::Direct || value.contains(['/', '\\'])) {
        return false;
    }
    case.is_enough_for(name.kind)
}

/// Returns whether a value behind a bare `pass` is one: tests pass, and code passes arguments.
fn is_pass_value(text: &str, name: &SecretName, case: &Case) -> bool {
    let before = text[text.floor_char_boundary(name.start.saturating_sub(60))..name.start].to_lowercase();
    let has_user = ["user", "login", "admin", "账号", "帳號", "root", "wifi", "wi-fi"]
        .iter()
        .any(|word| before.contains(word));
    let is_odd = matches!(case.looks, Shape::Odd | Shape::Strong | Shape::Random) && case.has_digit;
    match (case.tie, case.is_sign) {
        (Tie::Direct, false) => {
            !case.is_adjacent || is_odd || ["the ", "my ", "our "].iter().any(|word| before.contains(word))
        }
        (Tie::Direct, true) => {
            is_odd
                && (case.is_mixed
                    || has_user
                    || text[name.start..name.end].bytes().all(|byte| byte.is_ascii_lowercase()))
                || has_user && case.looks >= Shape::Word
        }
        (Tie::Linked, false) => is_odd,
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
    has_hyphen: bool,
    is_flag: bool,
    /// Small letters only.
    is_small: bool,
    /// Letters, digits and signs, or letters and digits that change often: nothing that names have.
    is_mixed: bool,
}

impl Case {
    /// Returns whether the value is a secret of that kind.
    fn is_enough_for(&self, kind: NameKind) -> bool {
        match kind {
            NameKind::Password | NameKind::Phrase => self.is_password(),
            NameKind::Token | NameKind::Key => self.is_token(),
            NameKind::AnyKey => match self.tie {
                Tie::Direct => {
                    self.looks == Shape::Random
                        || self.looks == Shape::Strong && self.length >= 12 && self.has_digit
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
                Tie::Direct => self.looks >= Shape::Odd,
                Tie::Linked => self.looks >= Shape::Strong,
                _ => self.looks >= Shape::Strong && self.length >= 6,
            },
            NameKind::Header => match self.tie {
                Tie::Direct => self.looks >= Shape::Word && self.length >= 8,
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
                    self.looks >= Shape::Strong && self.length >= 12
                        || self.looks == Shape::Hex && self.length >= 32 && self.is_equals
                }
                Tie::Linked => {
                    self.looks == Shape::Random && self.length >= 20
                        || self.looks == Shape::Hex && self.length >= 32 && !self.has_hyphen
                }
                _ => self.looks == Shape::Random && self.length >= 24,
            },
            NameKind::Signature => self.tie == Tie::Direct && self.length >= 16,
            NameKind::Wordlist | NameKind::Leet => false,
        }
    }

    fn is_password(&self) -> bool {
        match self.tie {
            Tie::Direct => match self.looks {
                Shape::Never | Shape::Prose => false,
                Shape::Identifier => self.is_quoted || !self.is_sign,
                Shape::Digits => self.length >= 3,
                _ => true,
            },
            Tie::Linked => match self.looks {
                Shape::Never | Shape::Prose | Shape::Identifier => false,
                Shape::Word => self.is_about,
                Shape::Digits => self.length >= 4,
                Shape::Hex => self.length >= 12,
                _ => true,
            },
            Tie::Clause => match self.looks {
                Shape::Odd => (self.is_adjacent || self.is_quoted && self.length >= 6) && self.has_digit,
                Shape::Digits => self.is_adjacent && self.length >= 5,
                Shape::Hex => self.is_adjacent && self.length >= 16,
                looks => looks >= Shape::Strong && (self.is_adjacent || self.is_mixed),
            },
            Tie::Near => {
                self.looks == Shape::Random || self.looks == Shape::Strong && self.is_mixed && self.length >= 8
            }
        }
    }

    fn is_token(&self) -> bool {
        match self.tie {
            Tie::Direct => match self.looks {
                Shape::Never | Shape::Prose | Shape::Identifier => false,
                Shape::Word => self.length >= 7,
                Shape::Digits => self.length >= 6 && !self.is_equals && !self.is_sign,
                Shape::Hex => self.length >= 12,
                _ => self.length >= 5,
            },
            Tie::Linked => match self.looks {
                Shape::Word => self.length >= 9 && self.is_about,
                Shape::Hex => self.length >= 20 && self.is_about || self.length >= 32 && !self.has_hyphen,
                Shape::Odd => self.length >= 6 && self.has_digit && (self.is_about || self.is_quoted),
                looks => looks >= Shape::Strong && self.length >= 6,
            },
            Tie::Clause => match self.looks {
                Shape::Odd => self.is_adjacent && self.length >= 10,
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
                Shape::Digits => (3..=24).contains(&self.length),
                Shape::Word => (self.is_quoted || self.length >= 8) && self.is_small && self.tie == Tie::Direct,
                looks => looks >= Shape::Odd,
            },
            Tie::Clause => match self.looks {
                Shape::Digits => {
                    self.is_adjacent && (4..=24).contains(&self.length)
                        || self.is_quoted && (4..=8).contains(&self.length)
                }
                looks => looks >= Shape::Strong,
            },
            Tie::Near => false,
        }
    }
}

/// Returns whether an ordinary word is the password nevertheless.
fn is_common_password(value: &str, name: &SecretName, piece: &Piece, tie: Tie) -> bool {
    let low = value.to_ascii_lowercase();
    let is_password = matches!(name.kind, NameKind::Password | NameKind::Phrase | NameKind::Login);
    is_password
        && tie == Tie::Direct
        && COMMON_PASSWORDS.contains(&low.as_str())
        && (piece.is_quoted || !piece.gap.is_comma)
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
fn is_followed_by_unit(text: &str, end: usize) -> bool {
    let after = text[end..].trim_start_matches([' ', '`', '"', '-']);
    if UNSPACED_UNITS.iter().any(|unit| after.starts_with(unit)) {
        return true;
    }
    let length = after.bytes().take_while(u8::is_ascii_alphabetic).count();
    let is_near = text[end..].starts_with([' ', '-']);
    let is_more = matches!(&after[..length], "of" | "or") && text[..end].ends_with(|c: char| c.is_ascii_digit());
    is_near && (is_more || UNITS.contains(&after[..length].to_ascii_lowercase().as_str()))
}

/// Returns where the value of a piece lies: without the next field of a query or a list of settings.
fn value_range(text: &str, piece: &Piece, is_equals: bool) -> (usize, usize) {
    let mut end = piece.end;
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

/// Returns the end of a password of several words that begins with a piece.
fn find_words(text: &str, name: &SecretName, piece: &Piece, reading: &Reading, limit: usize) -> Option<usize> {
    const SMALL: &[&str] = &[
        "the", "a", "an", "is", "are", "to", "of", "in", "on", "for", "and", "or", "not", "by", "with", "at", "from",
        "be", "it", "you", "we", "i", "must", "should", "can", "will", "was", "has", "have", "this", "that", "if",
        "when", "your", "my", "our", "please", "as", "which", "no", "so", "do",
    ];
    if !matches!(name.kind, NameKind::Password | NameKind::Phrase | NameKind::Wordlist)
        || !name.is_tail
        || name.is_folder
        || name.is_bare_pass
        || name.is_identifier && !reading.is_linked
    {
        return None;
    }
    if name.kind == NameKind::Wordlist {
        return find_wordlist(text, piece, limit);
    }
    if let Some(end) = find_long_phrase(text, name, piece, reading, limit) {
        return Some(end);
    }
    let is_word = |word: &str| {
        word.len() >= 2
            && word.bytes().all(|byte| byte.is_ascii_alphabetic())
            && !SMALL.contains(&word.to_ascii_lowercase().as_str())
    };
    let tie = reading.tie(piece, name);
    if piece.is_quoted {
        let words = piece.text.split_whitespace().collect::<Vec<_>>();
        let fits = (2..=24).contains(&words.len()) && tie >= Tie::Linked && !piece.text.ends_with(['.', '?']);
        let is_phrase = words.iter().all(|word| is_word(word)) && words.iter().any(|word| !prose::is_prose(word));
        let is_plain = |word: &&str| {
            word.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"'!-&@".contains(&byte))
        };
        let has_value = words.iter().any(|word| shape(word) >= Shape::Odd)
            && words.iter().all(is_plain)
            && words.len() <= 5
            && tie == Tie::Direct
            && !name.is_identifier
            && !name.is_folder;
        return (fits && (is_phrase || has_value)).then_some(piece.end);
    }
    if tie < Tie::Direct || piece.gap.newlines > 0 || !is_word(piece.text) {
        return None;
    }
    let least = if name.kind == NameKind::Phrase { 3 } else { 4 };
    let mut count = 0;
    let mut known = 0;
    let mut end = piece.end;
    for word in PieceReader::new(text, piece.start, limit).take(26) {
        let is_same = count == 0 || word.gap == Gap::default() || word.gap.is_dash && name.kind == NameKind::Phrase;
        if !is_same
            || word.is_quoted
            || !is_word(word.text)
            || word.text.ends_with("ed") && prose::is_prose(word.text)
            || word.text.ends_with("ing") && prose::is_prose(word.text)
            || word.text.ends_with("ly")
        {
            break;
        }
        known += usize::from(prose::is_prose(word.text));
        count += 1;
        end = word.end;
    }
    let is_phrase = count >= least && (known < count || name.kind == NameKind::Phrase && count >= 4);
    is_phrase.then_some(end)
}

/// Returns whether a name and one word are all that a line holds, as in settings.
fn is_config_line(text: &str, name: &SecretName) -> bool {
    let before = text[..name.start].rsplit('\n').next().unwrap_or_default();
    let after = text[name.end..].split('\n').next().unwrap_or_default();
    let mut words = after.split_whitespace();
    !name.is_unspaced
        && before.trim().is_empty()
        && after.starts_with(' ')
        && words.next().is_some()
        && words.next().is_none()
}

/// Adds the word around a place.
pub(super) fn find_word_at(text: &str, at: usize, found: &mut Vec<Secret>) {
    let is_edge = |c: char| c.is_whitespace() || is_unspaced(c) || "\"`'“”()<>*,=:".contains(c);
    let start = text[..at]
        .rfind(is_edge)
        .map_or(0, |edge| edge + text[edge..].chars().next().map_or(1, char::len_utf8));
    let length = text[start..].find(is_edge).unwrap_or(text.len() - start);
    let word = text[start..start + length].trim_end_matches(['.', ';', '?']);
    if shape(word) >= Shape::Odd {
        push(found, start..start + word.len(), "assigned-secret");
    }
}

/// Returns the end of twelve or more ordinary words in a row, as wallets have them.
fn find_wordlist(text: &str, piece: &Piece, limit: usize) -> Option<usize> {
    let is_word = |word: &str| (3..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let limit = text.floor_char_boundary((limit + 200).min(text.len()));
    let mut words = 0;
    let mut end = piece.end;
    for (at, word) in text[piece.start..limit]
        .split_inclusive([' ', '\n'])
        .scan(piece.start, |at, word| {
            let start = *at;
            *at += word.len();
            Some((start, word))
        })
    {
        let plain = word.trim_matches([' ', '\n', '"', '`', '.', ',', '\'']);
        if !is_word(plain)
            || matches!(
                plain,
                "the" | "and" | "for" | "are" | "with" | "that" | "this" | "from" | "you"
            )
        {
            break;
        }
        words += 1;
        end = at + word.trim_end().len();
    }
    (words >= 12).then_some(end)
}

/// Returns the end of a passphrase that is a sentence of its own: the rest of a line or what is quoted.
fn find_long_phrase(text: &str, name: &SecretName, piece: &Piece, reading: &Reading, limit: usize) -> Option<usize> {
    const RULES: &[&str] = &[
        "must",
        "should",
        "required",
        "optional",
        "least",
        "enter",
        "please",
        "minimum",
        "never",
        "not",
        "if",
        "use",
        "when",
        "is",
        "are",
        "will",
        "was",
        "empty",
        "stored",
        "prompt",
        "your",
        "password",
        "passphrase",
        "can",
        "cannot",
        "may",
        "you",
        "be",
        "incorrect",
        "wrong",
        "expected",
        "none",
        "blank",
    ];
    if name.kind != NameKind::Phrase && !piece.is_quoted || reading.tie(piece, name) != Tie::Direct {
        return None;
    }
    if piece.text.chars().next().is_some_and(is_unspaced) {
        let line = text[piece.start..limit]
            .split(['\n', '，', '。'])
            .next()
            .unwrap_or_default();
        let words = line.split_whitespace().collect::<Vec<_>>();
        let is_list = words.len() >= 6 && words.iter().all(|word| word.chars().count() <= 3);
        return is_list.then_some(piece.start + line.trim_end().len());
    }
    let line = if piece.is_quoted {
        piece.text
    } else {
        text[piece.start..limit]
            .split(['\n', '.', ';', '(', '"'])
            .next()
            .unwrap_or_default()
    };
    let words = line.split_whitespace().collect::<Vec<_>>();
    let is_plain = |word: &&str| {
        word.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"'-,!".contains(&byte))
            && !RULES.contains(&word.to_ascii_lowercase().as_str())
    };
    let least = if name.kind == NameKind::Phrase { 4 } else { 5 };
    let is_phrase =
        (least..=26).contains(&words.len()) && words.iter().all(is_plain) && (piece.is_quoted || piece.gap.is_link);
    is_phrase.then_some(piece.start + line.trim_end().len())
}

/// Returns the second half of a name and a password: `admin/hunter2`, `admin : hunter2`, "admin and hunter2".
fn find_pair(piece: &Piece, before: Option<&Piece>, reading: &Reading) -> Option<std::ops::Range<usize>> {
    let is_user = |user: &str| {
        let is_plain = user
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.@+".contains(&byte));
        (2..=64).contains(&user.len()) && is_plain
    };
    if let Some(at) = piece
        .text
        .find([':', '/'])
        .filter(|_| reading.stops == 0 && reading.count <= 8)
    {
        let (user, password) = (&piece.text[..at], &piece.text[at + 1..]);
        let looks = shape(password);
        let is_tied = reading.is_direct || reading.is_linked || looks >= Shape::Strong;
        let is_known = ["admin", "root", "test", "guest", "demo", "user"].contains(&user.to_ascii_lowercase().as_str())
            && user.eq_ignore_ascii_case(password);
        let is_path = password.contains('/') || super::shape::shape(piece.text) == Shape::Prose && !is_known;
        if is_user(user)
            && !is_path
            && is_tied
            && (looks >= Shape::Word && looks != Shape::Hex || is_known)
            && password.len() >= 3
        {
            return Some(piece.start + at + 1..piece.end);
        }
    }
    let user = before.filter(|user| is_user(user.text) && !user.text.contains(MASK))?;
    let is_colon = piece.gap.is_link && !piece.gap.is_equals && !piece.gap.is_bracket && piece.gap.newlines == 0;
    let is_joined = piece.gap.is_slash || is_colon && shape(piece.text) >= Shape::Odd;
    let looks = shape(piece.text);
    let is_near = reading.count <= 8 && reading.stops == 0;
    let is_password = looks >= Shape::Word
        && looks != Shape::Hex
        && !piece.text.contains('/')
        && (user.text.len() >= 3 || looks >= Shape::Odd);
    (is_joined && is_near && is_password && !piece.text.chars().any(char::is_whitespace))
        .then_some(piece.start..piece.end)
}

/// Looks before the name: "use X as the password", "X is the password".
fn find_before(text: &str, name: &SecretName, rule: &'static str, found: &mut Vec<Secret>) {
    let start = text.floor_char_boundary(name.start.saturating_sub(140));
    let before = &text[start..name.start];
    let from = sentence_start(before);
    let pieces = PieceReader::new(text, start + from, name.start).collect::<Vec<_>>();
    let nearest = pieces.len().saturating_sub(12);
    for (at, piece) in pieces.iter().enumerate().skip(nearest) {
        let between = &pieces[at + 1..];
        let closing = text[piece.end..name.start].chars().next();
        let Some(tie) = back_tie(text, name, piece, between) else {
            continue;
        };
        if piece.text.is_empty()
            || piece.text == MASK
            || piece.text.chars().any(char::is_whitespace)
            || piece.text.chars().next().is_some_and(is_unspaced)
        {
            continue;
        }
        let looks = shape(piece.text);
        if looks < Shape::Word || is_followed_by_unit(text, piece.end) || closing == Some('(') {
            continue;
        }
        let is_password = matches!(
            name.kind,
            NameKind::Password | NameKind::Phrase | NameKind::Login | NameKind::Pin
        );
        let length = piece.text.len();
        let is_mixed = super::shape::is_mixed(piece.text);
        let has_digit = piece.text.bytes().any(|byte| byte.is_ascii_digit());
        let is_enough = match (tie, looks) {
            _ if name.is_bare_pass && (tie < Tie::Direct || looks < Shape::Odd || !has_digit) => false,
            (Tie::Direct, Shape::Word) => {
                is_password && (piece.is_quoted || between.len() <= 4) && name.kind != NameKind::Login
            }
            (Tie::Direct, Shape::Digits) => is_password && length >= 4,
            (_, Shape::Hex) if name.kind == NameKind::Cookie => length >= 32 && !piece.text.contains('-'),
            (_, _) if name.kind == NameKind::Cookie => looks == Shape::Random && length >= 24,
            (Tie::Direct, Shape::Hex) => length >= if is_password { 8 } else { 20 },
            (Tie::Direct, Shape::Odd) => is_password || length >= 8,
            (Tie::Direct, _) => name.kind != NameKind::AnyKey || looks == Shape::Random,
            (Tie::Linked, Shape::Odd) => is_password && (piece.is_quoted || between.len() <= 2),
            (Tie::Linked, Shape::Digits) => name.kind == NameKind::Pin && length >= 4,
            (Tie::Linked, Shape::Strong) => name.kind != NameKind::AnyKey && (is_password || length >= 8),
            (Tie::Clause, Shape::Strong) => {
                is_mixed && (is_password && length >= 7 || length >= 12 && name.kind != NameKind::AnyKey)
            }
            (Tie::Near, Shape::Strong) => is_mixed && is_password && length >= 8,
            (_, Shape::Random) => name.kind != NameKind::AnyKey || tie >= Tie::Linked,
            _ => false,
        };
        let is_enough = is_enough && !matches!(name.kind, NameKind::Signature | NameKind::Wordlist);
        if is_enough && !forms::is_ordinary_id(piece.text) {
            push(found, piece.start..piece.end, rule);
        }
    }
}

/// Returns where the last sentence of a text begins.
fn sentence_start(text: &str) -> usize {
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let mut start = line;
    for (at, _) in text.match_indices(['.', '?', '!', '。', '？', '！']) {
        let after = at + text[at..].chars().next().map_or(1, char::len_utf8);
        let ends = text[after..].starts_with([' ', '"']) || !text.is_char_boundary(at + 1);
        // "Tr0ub4dor&3. That's the password" speaks of the sentence before.
        let resumes = ["that", "this", "it", "is", "those", "it's"]
            .iter()
            .any(|word| text[after..].trim_start().to_lowercase().starts_with(word));
        if ends && after > start && !resumes {
            start = after;
        }
    }
    start
}

/// Returns how a value is tied to a name that follows it; `None` if it is not.
fn back_tie(text: &str, name: &SecretName, piece: &Piece, between: &[Piece]) -> Option<Tie> {
    let ends_in_link = |word: &str| UNSPACED_BACK_LINKS.iter().any(|link| word.starts_with(link));
    let gap = &text[piece.end..between.first().map_or(name.start, |next| next.start)];
    let is_sign = gap.contains(['=', '→', '—', '–']) || gap.contains("->") || gap.contains(" - ");
    let is_bracket = gap.contains(['(', '（', '[']);
    let Some(first) = between.first() else {
        return Some(if is_sign || is_bracket || name.is_unspaced {
            Tie::Linked
        } else {
            Tie::Near
        });
    };
    let low = first.text.to_lowercase();
    let is_clean = between[1..].iter().all(|word| {
        !CLAUSES.contains(&word.text.to_lowercase().as_str()) && !super::names::contains_keyword(word.text)
    });
    if (BACK_LINKS.contains(&low.as_str()) || ends_in_link(&low)) && is_clean && between.len() <= 7 {
        return Some(if low == "for" { Tie::Linked } else { Tie::Direct });
    }
    if low == "that's"
        || low == "thats"
        || low == "that’s"
        || matches!(low.as_str(), "this" | "that" | "which")
            && between.get(1).is_some_and(|next| matches!(next.text, "is" | "was"))
    {
        return Some(Tie::Direct);
    }
    if (is_sign || is_bracket) && between.len() <= 4 && is_clean {
        return Some(Tie::Linked);
    }
    Some(if between.len() <= 7 && is_clean {
        Tie::Clause
    } else {
        Tie::Near
    })
}
