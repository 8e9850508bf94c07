//! Secrets of several words, and the second half of a name and a password.

use super::super::names::{NameKind, SecretName};
use super::super::pieces::{Gap, Piece, PieceReader, is_unspaced};
use super::super::shape::{Shape, has_file_extension, shape};
use super::super::{MASK, Secret, prose, push};
use super::reading::{Reading, Tie};

/// Returns the end of a password of several words that begins with a piece.
pub(super) fn find_words(
    text: &str,
    name: &SecretName,
    piece: &Piece,
    reading: &Reading,
    limit: usize,
) -> Option<usize> {
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
    let tie = reading.tie(text, piece, name);
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
    // "the spoken password is three blind lizards": nothing but a value has so many words and then ends.
    let ends_soon = name.kind == NameKind::Password && reading.is_direct && reading.is_linked;
    let least = if name.kind == NameKind::Phrase || ends_soon {
        3
    } else {
        4
    };
    let mut count = 0;
    let mut known = 0;
    let mut end = piece.end;
    for word in PieceReader::new(text, piece.start, limit).take(26) {
        let is_same = count == 0
            || word.gap == Gap::default()
            || word.gap.is_dash && !word.gap.is_link && name.kind == NameKind::Phrase;
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
    let is_end =
        text[end..].trim_start_matches(['"', '`']).is_empty() || text[end..].starts_with(['.', ',', '\n', ')']);
    let is_phrase = count >= least
        && (count > 3 || is_end || name.kind == NameKind::Phrase)
        && (known < count || name.kind == NameKind::Phrase && count >= 4);
    is_phrase.then_some(end)
}

/// Returns the end of a code that is written in groups of three or four digits: `123 456`.
pub(super) fn find_digit_groups(text: &str, piece: &Piece) -> Option<usize> {
    let is_group = |group: &str| (3..=4).contains(&group.len()) && group.bytes().all(|byte| byte.is_ascii_digit());
    if piece.is_quoted || !is_group(piece.text) {
        return None;
    }
    let rest = text[piece.end..].strip_prefix([' ', '-'])?;
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    let follows = rest[length..].chars().next();
    let is_end = follows.is_none_or(|c| !(c.is_alphanumeric() || c == '-' || c == '/'));
    (length == piece.text.len() && is_end).then_some(piece.end + 1 + length)
}

/// Returns the end of a password that a mail service made: four groups of four small letters.
pub(super) fn find_letter_groups(text: &str, piece: &Piece) -> Option<usize> {
    const GROUPS: usize = 4;
    let is_group = |group: &str| group.len() == 4 && group.bytes().all(|byte| byte.is_ascii_lowercase());
    if !is_group(piece.text) {
        return None;
    }
    let length = 5 * GROUPS - 1;
    let run = text.get(piece.start..piece.start + length)?;
    let ends = !text[piece.start + length..].starts_with(|c: char| c.is_ascii_alphanumeric());
    let groups = run.split(' ').collect::<Vec<_>>();
    let is_made = groups.len() == GROUPS && groups.iter().all(|group| is_group(group));
    let words = groups.iter().filter(|group| prose::is_prose(group)).count();
    (is_made && ends && words <= 1).then_some(piece.start + length)
}

/// Returns the end of a value that begins in Chinese and ends in digits or letters: "密码是 龙猫88".
pub(super) fn find_unspaced_value(text: &str, name: &SecretName, piece: &Piece, reading: &Reading) -> Option<usize> {
    const LONGEST: usize = 10;
    let is_set_off = text[..piece.start].ends_with([' ', '：', ':', '=', '「', '“']);
    let is_password = matches!(name.kind, NameKind::Password | NameKind::Phrase);
    let is_tied = reading.is_direct && reading.is_linked && is_set_off && !piece.is_quoted;
    let is_short = piece.text.chars().all(is_unspaced) && piece.text.chars().count() <= LONGEST;
    if !(name.is_unspaced && is_password && is_tied && is_short) {
        return None;
    }
    let rest = &text[piece.end..];
    let length = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let digits = rest[..length].bytes().filter(u8::is_ascii_digit).count();
    let goes_on = rest[length..].starts_with(|c: char| is_unspaced(c) && c.is_alphanumeric());
    (digits >= 2 && !goes_on).then_some(piece.end + length)
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
pub(super) fn find_long_phrase(
    text: &str,
    name: &SecretName,
    piece: &Piece,
    reading: &Reading,
    limit: usize,
) -> Option<usize> {
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
    let least_tie = match piece.is_quoted && name.kind == NameKind::Phrase {
        true if name.is_flag => Tie::Clause,
        true => Tie::Linked,
        false => Tie::Direct,
    };
    if name.kind != NameKind::Phrase && !piece.is_quoted || reading.tie(text, piece, name) < least_tie {
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
    let least = match name.kind {
        _ if name.is_flag && piece.is_quoted => 2,
        NameKind::Phrase => 4,
        _ => 5,
    };
    let is_phrase =
        (least..=26).contains(&words.len()) && words.iter().all(is_plain) && (piece.is_quoted || piece.gap.is_link);
    is_phrase.then_some(piece.start + line.trim_end().len())
}

/// Returns the second half of a name and a password: `admin/hunter2`, `admin : hunter2`, "admin and hunter2".
pub(super) fn find_pair(
    piece: &Piece,
    before: Option<&Piece>,
    reading: &Reading,
    is_credential: bool,
) -> Option<std::ops::Range<usize>> {
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
        let is_path = has_file_extension(user) && password.starts_with(|c: char| c.is_ascii_digit())
            || password.contains('@') && shape(piece.text) == Shape::Never
            || password.contains('/')
            || shape(piece.text) == Shape::Prose && !is_known;
        let is_in_json = piece.is_quoted && (looks == Shape::Word || piece.gap.is_link && !reading.is_direct);
        if is_user(user)
            && !is_in_json
            && !is_path
            && is_tied
            && (looks >= Shape::Word && looks != Shape::Hex || is_known)
            && password.len() >= 3
        {
            return Some(piece.start + at + 1..piece.end);
        }
    }
    let user = before.filter(|user| is_user(user.text) && !user.text.contains(MASK))?;
    let is_given = matches!(user.text, "with" | "and" | "using") && reading.stops == 0 && reading.count <= 8;
    let has_digit = piece.text.bytes().any(|byte| byte.is_ascii_digit());
    let is_pair = reading.has_account || user.text == "and" && is_credential;
    let looks_given = matches!(shape(piece.text), Shape::Identifier) || shape(piece.text) >= Shape::Word;
    let is_one_word = !piece.text.contains(char::is_whitespace);
    if is_given && is_pair && is_one_word && has_digit && piece.gap == Gap::default() && looks_given {
        return Some(piece.start..piece.end);
    }
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

/// Adds what a call is given in quotes: `setPassword("X")`, `HTTPBasicAuth("user", "X")`.
pub(super) fn find_in_call(text: &str, open: usize, name: &SecretName, rule: &'static str, found: &mut Vec<Secret>) {
    let (values, is_closed) = quoted_arguments(text, open + 1);
    let is_secret = matches!(name.kind, NameKind::Password | NameKind::Token | NameKind::Key);
    let takes_pair = matches!(name.kind, NameKind::Login | NameKind::AnyKey);
    let value = match values.as_slice() {
        [value] if is_secret => value,
        [_, value] if takes_pair && is_closed => value,
        _ => return,
    };
    let argument = &text[value.clone()];
    let has_digit = argument.bytes().any(|byte| byte.is_ascii_digit());
    let looks = shape(argument);
    // `login("bob@example.com", "X")`
    let is_of_account = takes_pair && values.first().is_some_and(|user| text[user.clone()].contains('@'));
    let is_enough = match looks {
        Shape::Word | Shape::Odd if is_of_account => argument.len() >= 6,
        Shape::Identifier | Shape::Word | Shape::Odd => has_digit && argument.len() >= 6,
        looks => looks >= Shape::Strong,
    };
    if is_enough && !argument.contains(char::is_whitespace) {
        push(found, value.clone(), rule);
    }
}

/// Returns the quoted arguments of a call, and whether its bracket closes behind them.
fn quoted_arguments(text: &str, from: usize) -> (Vec<std::ops::Range<usize>>, bool) {
    const LONGEST: usize = 120;
    let mut values = Vec::new();
    let mut at = from;
    while let Some(value) = quoted_at(text, at, LONGEST).filter(|_| values.len() < 3) {
        at = value.end + 1;
        values.push(value);
        let rest = text[at..].trim_start_matches([',', ' ']);
        at = text.len() - rest.len();
    }
    (values, text[at..].starts_with(')'))
}

/// Returns the text in quotes that begins at a place, without its quotes; `None` if its line or `longest` bytes end before it.
pub(super) fn quoted_at(text: &str, at: usize, longest: usize) -> Option<std::ops::Range<usize>> {
    let quote = text[at..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let start = at + 1;
    let near = &text[start..text.floor_char_boundary((start + longest).min(text.len()))];
    let end = start + near.find([quote, '\n'])?;
    text[end..].starts_with(quote).then_some(start..end)
}
