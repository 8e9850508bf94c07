//! What is known while reading on from a name: how the next piece is tied to it.

use super::super::names::{NameKind, SecretName, contains_keyword};
use super::super::pieces::{Piece, is_unspaced};
use super::super::shape::{Shape, shape};
use super::roles::WordRole;
use super::words::UNSPACED_LINKS;

/// How a value is tied to its name. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tie {
    /// In the neighborhood.
    Near,
    /// In the same clause, or right behind without a sign.
    Clause,
    /// After a linking word, with other words between.
    Linked,
    /// After a sign or a linking word, nothing between.
    Direct,
}

/// What is known while reading on from a name.
pub(super) struct Reading {
    /// Nothing but linking words and signs since the name.
    pub(super) is_direct: bool,
    /// A linking word or sign came last.
    pub(super) is_linked: bool,
    /// The link is a sign of a program.
    pub(super) is_equals: bool,
    /// The words since the name may be about it.
    pub(super) is_about: bool,
    pub(super) stops: u32,
    pub(super) wraps: u32,
    pub(super) count: usize,
    /// The last value's tie, while a list of values goes on.
    pub(super) listed: Option<Tie>,
    /// `set`, `changed`: `to` comes before a value.
    pub(super) has_setter: bool,
    /// The sentence after a full stop speaks of the name: "It is ...".
    pub(super) is_resumed: bool,
    /// The name begins its line and one word follows: `password hunter2`.
    pub(super) is_config: bool,
    /// The name is that of a group of fields: `secrets: {staging: ...}`.
    pub(super) is_group: bool,
    /// The last piece was a run of Chinese, Japanese or Korean.
    pub(super) is_after_run: bool,
    /// An address of mail or a quoted word came, which may be the name of a user.
    pub(super) has_account: bool,
    /// Length of the last value.
    pub(super) last_length: usize,
    /// The name speaks of several: "the passwords are".
    pub(super) is_plural: bool,
    /// The name is all that its line holds: what stands alone below is its value.
    pub(super) is_heading: bool,
    /// Words since the last value of several: "X for dev and Y for prod".
    pub(super) list_gap: usize,
}

/// The most words between two values of one list.
const LONGEST_LIST_GAP: usize = 4;

impl Reading {
    /// Takes the gap before a piece. Returns whether the name still reaches that far.
    pub(super) fn enter(&mut self, piece: &Piece, name: &SecretName) -> bool {
        let gap = piece.gap;
        if gap.is_link {
            self.is_linked = true;
            self.is_equals = gap.is_equals;
        }
        if self.is_heading && self.count == 0 && gap.newlines == 2 && !gap.is_item {
            self.is_linked = true;
        }
        // "The password got reset; it is now X" comes back to the name.
        if gap.is_comma && self.stops == 0 && matches!(piece.text, "it" | "It" | "it's" | "it’s") {
            self.is_about = true;
        }
        // A value is in the cell next to its name.
        if gap.is_cell && !self.is_direct {
            self.is_linked = false;
        }
        let is_new_row = gap.is_cell && gap.newlines > 0;
        let is_new_item = gap.is_item && !self.is_linked && !name.is_flag;
        if (is_new_row || is_new_item) && self.listed.is_none() {
            return false;
        }
        let is_pending = self.is_direct && (self.is_linked || name.is_flag) || self.is_linked && gap.newlines < 2;
        if gap.newlines > 0 && !is_pending && self.listed.is_none() {
            let is_label = piece.text.eq_ignore_ascii_case("value")
                || self.is_direct
                    && self.count == 0
                    && gap.newlines == 1
                    && !(gap.is_bracket && name.kind == NameKind::Token)
                    && name.kind != NameKind::AnyKey;
            if !is_label && (gap.newlines > 1 || gap.is_stop || gap.is_comma || gap.is_bracket || self.wraps > 0) {
                return false;
            }
            self.wraps += 1;
        }
        // Codes are listed line by line, and all are as long.
        if gap.newlines > 0 && (name.kind != NameKind::Pin || piece.text.len() != self.last_length) {
            self.listed = None;
        }
        if gap.newlines > 3 {
            return false;
        }
        if gap.is_stop {
            self.stops += 1;
            self.listed = None;
            self.is_about = gap.is_question && piece.text.bytes().all(|byte| byte.is_ascii_lowercase());
            let low = piece.text.to_ascii_lowercase();
            self.is_resumed = matches!(
                low.as_str(),
                "it" | "it's"
                    | "it’s"
                    | "that's"
                    | "its"
                    | "value"
                    | "this"
                    | "here"
                    | "here's"
                    | "use"
                    | "try"
                    | "give"
                    | "paste"
                    | "enter"
                    | "type"
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

    /// Returns whether no later piece can be the value: behind the name of a program only what stands right behind it is one.
    pub(super) fn is_over(&self, name: &SecretName) -> bool {
        name.is_identifier
            && name.kind != NameKind::Login
            && !(self.is_direct || self.is_config || self.is_after_run || self.is_group)
            && self.listed.is_none()
    }

    /// Takes a word that is no value: a linking word, a filler. Returns whether it is one.
    pub(super) fn take_word(&mut self, piece: &Piece, name: &SecretName) -> bool {
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
        let role = WordRole::of(low);
        if role.is_setter {
            self.has_setter = true;
        }
        // "... but I typed X": the next word is it.
        if matches!(name.kind, NameKind::Password | NameKind::Phrase | NameKind::Pin)
            && self.stops == 0
            && matches!(
                low,
                "typed" | "entered" | "tried" | "typing" | "entering" | "trying" | "wrote"
            )
        {
            self.is_linked = true;
            self.is_equals = false;
            self.is_direct = false;
            return true;
        }
        // A secret that is called something has a name.
        let is_naming = low == "called" && matches!(name.kind, NameKind::Token | NameKind::Key);
        if role.is_link && !is_naming {
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
            && matches!(
                low,
                "type" | "enter" | "use" | "try" | "put" | "say" | "send" | "with" | "give" | "paste"
            )
            && self.count <= 3
        {
            self.is_linked = true;
            self.is_equals = false;
            return low != "with" || self.has_setter;
        }
        if role.is_filler && (self.is_linked || self.is_direct) && !matches!(low, "to" | "as") {
            return true;
        }
        false
    }

    fn take_unspaced(&mut self, word: &str) -> bool {
        self.is_after_run = true;
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
    pub(super) fn skip(&mut self, piece: &Piece) {
        self.is_after_run = false;
        self.has_account |= piece.is_quoted || piece.text.contains('@');
        let role = WordRole::of(piece.text);
        if self.is_direct && self.count == 1 {
            self.is_about = role.is_continuation || piece.gap.is_comma || piece.gap.is_bracket || piece.gap.is_dash;
        }
        if role.is_clause {
            self.is_about = false;
        }
        self.is_direct = false;
        self.is_linked = false;
        self.is_equals = false;
        self.list_gap += 1;
        let goes_on = self.is_plural && self.list_gap <= LONGEST_LIST_GAP;
        let is_joint = ["and", "or"].iter().any(|word| piece.text.eq_ignore_ascii_case(word));
        if !is_joint && !goes_on {
            self.listed = None;
        }
    }

    /// Returns how a piece is tied to the name.
    pub(super) fn tie(&self, text: &str, piece: &Piece, name: &SecretName) -> Tie {
        if let Some(tie) = self.listed {
            return tie.min(Tie::Linked);
        }
        // "wants a password and X works": words of the value, not of the name, tie them.
        if self.stops == 0 && is_said_to_work(text, piece) {
            return Tie::Linked;
        }
        // "The password for staging? hunter2"
        if piece.gap.is_question && is_alone(text, piece.end) {
            return Tie::Linked;
        }
        if self.stops > 0 {
            let answers = self.is_direct && self.count == 1;
            return match (
                self.is_linked && self.is_resumed,
                answers || self.is_linked || self.is_resumed && self.is_direct,
            ) {
                // "It is X.", and not "This can be handy to ...".
                (true, _) if piece.is_quoted || shape(piece.text) >= Shape::Odd || is_last_word(text, piece.end) => {
                    Tie::Direct
                }
                (true, _) | (_, true) => Tie::Linked,
                _ => Tie::Near,
            };
        }
        match (self.is_direct, self.is_linked) {
            (true, true) => Tie::Direct,
            (true, false) if name.is_flag || self.is_config && self.count == 1 => Tie::Direct,
            (true, false) if name.is_unspaced || piece.is_quoted => Tie::Linked,
            // "the old password (hunter2) no longer works"
            (true, false) if piece.gap.is_bracket && self.count == 1 && text[piece.end..].starts_with([')', '）']) => {
                Tie::Linked
            }
            (true, false) if piece.gap.is_dash && self.count == 1 && is_last_word(text, piece.end) => Tie::Linked,
            (true, false) => Tie::Clause,
            (false, true) => Tie::Linked,
            (false, false) if self.count <= 9 && self.wraps == 0 => Tie::Clause,
            _ => Tie::Near,
        }
    }
}

/// Returns whether a verb before a name says that the name gets a value: "change the admin password to ...".
pub(super) fn is_set_before(text: &str, at: usize) -> bool {
    let start = text.floor_char_boundary(at.saturating_sub(60));
    let before = &text[start..at];
    let sentence = before.rsplit(['\n', '.', ';']).next().unwrap_or_default();
    let mut words = sentence
        .rsplit(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(7);
    words.any(|word| WordRole::of(word).is_setter)
}

/// Returns whether a name and one word are all that a line holds, as in settings; before them may stand a command that sets
/// one, as `npm config set`, or the account that they belong to, as in "log in as deploy, password X".
pub(super) fn is_config_line(text: &str, name: &SecretName) -> bool {
    let before = line_before(text, name.start);
    let after = line_after(text, name.end);
    if name.is_unspaced || !after.starts_with(' ') {
        return false;
    }
    let clause = after.trim_end_matches(['.', '!', '\'', '"', '`', ')', ' ', '\r']);
    let clause = clause.split([',', ';', ')']).next().unwrap_or_default();
    let count = clause.split_whitespace().count();
    let is_only_word = after.split_whitespace().count() == 1;
    let is_before_flags = after
        .split_whitespace()
        .nth(1)
        .is_none_or(|word| word.starts_with("--"));
    is_only_word && before.trim().is_empty()
        || is_before_flags && is_set_by_command(before)
        || before.contains("machine ") && before.contains(" login ")
        || count == 1 && name.kind == NameKind::Password && !name.is_identifier && follows_account(before)
}

/// Returns whether a line up to a name is a command that sets a value: `aws configure set NAME`, `git config x.NAME`.
fn is_set_by_command(before: &str) -> bool {
    // What is left of the word of the name: `//registry.example.com/:` in front of `_authToken`.
    let words = before[..before.rfind(' ').map_or(0, |at| at + 1)].split_whitespace();
    let words = words.collect::<Vec<_>>();
    let is_setting = |word: &&str| matches!(*word, "set" | "config" | "configure" | "--global" | "--add" | "put");
    words.len() >= 2 && words.last().is_some_and(is_setting)
}

/// Returns whether a clause before a name ends with a comma or the like, and speaks of an account.
fn follows_account(before: &str) -> bool {
    const ACCOUNTS: &[&str] = &[
        "user",
        "log in",
        "login",
        "logged in",
        "log into",
        "sign in",
        "account",
        "admin",
        "root",
        " as ",
        "ssh",
        "wifi",
        "wi-fi",
        "ssid",
    ];
    let sentence = before.rsplit(". ").next().unwrap_or_default();
    let trimmed = sentence.trim_end();
    let is_clause =
        trimmed.ends_with([',', ';', '/', '(', '-', '–']) || trimmed.ends_with(" and") || trimmed.ends_with(" with");
    let low = trimmed.to_ascii_lowercase();
    is_clause && ACCOUNTS.iter().any(|word| low.contains(word))
}

/// Returns whether a name is all that its line holds, but for marks of a heading.
pub(super) fn is_heading(text: &str, name: &SecretName) -> bool {
    let is_mark = |c: char| c.is_whitespace() || "#*:_-".contains(c);
    matches!(name.kind, NameKind::Password | NameKind::Phrase)
        && !name.is_identifier
        && line_before(text, name.start).chars().all(is_mark)
        && line_after(text, name.end).chars().all(is_mark)
}

/// The most of a line that is looked at.
const LONGEST_LINE: usize = 200;

fn line_before(text: &str, at: usize) -> &str {
    let near = &text[text.ceil_char_boundary(at.saturating_sub(LONGEST_LINE))..at];
    near.rsplit('\n').next().unwrap_or_default()
}

fn line_after(text: &str, at: usize) -> &str {
    let near = &text[at..text.floor_char_boundary((at + LONGEST_LINE).min(text.len()))];
    near.split('\n').next().unwrap_or_default()
}

/// Returns whether what follows a piece says that it opens something: "and X works there".
fn is_said_to_work(text: &str, piece: &Piece) -> bool {
    let after = text[piece.end..].trim_start_matches(['"', '`', '\'', '*']);
    [
        " works",
        " worked",
        " did it",
        " did the trick",
        " doesn't work",
        " does not work",
        " didn't work",
    ]
    .iter()
    .any(|verb| after.starts_with(verb))
        && shape(piece.text) >= Shape::Identifier
        && piece.text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns where reading begins behind a name: after a remark in brackets that holds no value, as in "password (staging): X".
pub(super) fn skip_remark(text: &str, start: usize, limit: usize) -> usize {
    const LONGEST: usize = 60;
    let rest = &text[start..limit];
    let inner = rest.trim_start_matches(' ');
    let Some(open) = inner.chars().next().filter(|c| matches!(c, '(' | '（' | '[')) else {
        return start;
    };
    let from = rest.len() - inner.len() + open.len_utf8();
    let Some(close) = rest[from..]
        .find([')', '）', ']', '\n'])
        .filter(|close| *close <= LONGEST)
    else {
        return start;
    };
    let is_closed = rest[from + close..].starts_with([')', '）', ']']);
    let is_remark = rest[from..from + close].split([' ', ',', ':', '，']).all(|word| {
        let looks = shape(word);
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        looks == Shape::Never || looks <= Shape::Identifier && !has_digit || word.chars().any(is_unspaced)
    });
    match is_closed && is_remark {
        true => start + from + close + rest[from + close..].chars().next().map_or(0, char::len_utf8),
        false => start,
    }
}

/// Returns whether the word before a sign is the name of another field, to which the value after the sign belongs:
/// `"login": "bob", "id": ...`.
pub(super) fn is_other_field(text: &str, label: &Piece, piece: &Piece, name: &SecretName) -> bool {
    const OWN: &[&str] = &[
        "value", "val", "is", "default", "new", "old", "current", "previous", "data", "text", "example", "plain", "raw",
    ];
    /// Attributes of markup.
    const ATTRIBUTES: &[&str] = &[
        "id", "class", "href", "src", "rel", "role", "style", "rows", "for", "alt",
    ];
    let gap = text[label.end..piece.start].trim_start_matches(['"', '\'', '`', '”']);
    let is_sign = (gap.starts_with([':', '=', '：']) || gap.starts_with(" =")) && !piece.gap.is_cell;
    let low = label.text.to_ascii_lowercase();
    let role = WordRole::of(&low);
    let is_name = label
        .text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if !is_sign || !is_name || label.text.is_empty() || OWN.contains(&low.as_str()) || role.is_filler || role.is_link {
        return false;
    }
    let is_attribute = gap.starts_with('=') && ATTRIBUTES.contains(&low.as_str());
    // "the passphrase for the ssh key: X" goes on about the passphrase.
    let between = text.get(name.end..label.start).unwrap_or_default();
    let is_continued = [" for ", " of ", " to ", " on "]
        .iter()
        .any(|word| between.starts_with(word))
        && !between.contains([',', ':', ';', '\n', '=']);
    if is_continued && !label.is_quoted && !gap.starts_with('=') {
        return false;
    }
    let is_data_attribute = label.text.contains('-') && gap.starts_with("=\"");
    if contains_keyword(label.text) || is_attribute || is_data_attribute {
        return true;
    }
    let is_quoted_field = label.is_quoted && text[label.end..].starts_with(['"', '\'']);
    let begins = label.text.contains('_') || label.gap.is_comma || label.gap.newlines > 0 || label.gap.is_bracket;
    is_quoted_field || begins && name.kind != NameKind::Login && shape(label.text) <= Shape::Identifier
}

/// Returns whether a sign or the end of the line follows, and no further word.
fn is_last_word(text: &str, end: usize) -> bool {
    let rest = text[end..].trim_start_matches(['`', '"', '\'', '*', ' ']);
    !rest.starts_with(|c: char| c.is_alphanumeric())
}

/// Returns whether nothing follows in the line.
fn is_alone(text: &str, end: usize) -> bool {
    let near = &text[end..text.floor_char_boundary((end + 8).min(text.len()))];
    let line = near.split('\n').next().unwrap_or_default();
    line.trim_end_matches(['`', '"', '\'', '.', ' ', '\r']).is_empty()
}
