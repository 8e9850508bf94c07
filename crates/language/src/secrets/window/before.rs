//! Looks before the name: "use X as the password", "X is the password".

use super::super::names::{self, NameKind, SecretName};
use super::super::pieces::{Gap, Piece, PieceReader, is_unspaced};
use super::super::shape::{Shape, is_mixed, shape};
use super::super::{MASK, Secret, forms, prose, push};
use super::case::is_followed_by_unit;
use super::reading::Tie;
use super::roles::WordRole;
use super::words::{CLAUSES, UNSPACED_BACK_LINKS};

/// Looks before the name: "use X as the password", "X is the password".
pub(super) fn find_before(text: &str, name: &SecretName, rule: &'static str, found: &mut Vec<Secret>) {
    let start = text.floor_char_boundary(name.start.saturating_sub(140));
    let before = &text[start..name.start];
    let from = sentence_start(before);
    let pieces = PieceReader::new(text, start + from, name.start).collect::<Vec<_>>();
    let behind = text[name.end..].trim_start_matches(['"', '\'', '`', ' ']);
    let has_own_value = behind.starts_with([':', '=', '：']);
    let nearest = pieces.len().saturating_sub(12);
    for (at, piece) in pieces.iter().enumerate().skip(nearest) {
        let between = &pieces[at + 1..];
        let closing = text[piece.end..name.start].chars().next();
        let Some(tie) = back_tie(text, name, piece, between) else {
            continue;
        };
        // A field with a value of its own takes none from before.
        if has_own_value && tie < Tie::Direct {
            continue;
        }
        if piece.text.is_empty()
            || piece.text == MASK
            || piece.text.chars().any(char::is_whitespace)
            || piece.text.chars().next().is_some_and(is_unspaced)
        {
            continue;
        }
        if at
            .checked_sub(1)
            .is_some_and(|before| is_called(&pieces[before], piece))
        {
            continue;
        }
        let looks = shape(piece.text);
        let is_spelled = looks == Shape::Identifier
            && tie == Tie::Direct
            && matches!(name.kind, NameKind::Password)
            && !name.is_bare_pass
            && piece.text.bytes().any(|byte| byte.is_ascii_digit());
        let may_be_spelled = is_spelled || looks == Shape::Identifier && name.is_unspaced && piece.is_quoted;
        if looks < Shape::Word && !may_be_spelled || is_followed_by_unit(text, piece.end) || closing == Some('(') {
            continue;
        }
        let is_password = matches!(
            name.kind,
            NameKind::Password | NameKind::Phrase | NameKind::Login | NameKind::Pin
        );
        let is_given = is_password && name.kind != NameKind::Login && is_given_before(&pieces[..at], piece, between);
        let length = piece.text.len();
        let is_mixed = is_mixed(piece.text);
        let has_digit = piece.text.bytes().any(|byte| byte.is_ascii_digit());
        let is_asked = at.checked_sub(1).is_some_and(|before| {
            matches!(
                pieces[before].text.to_ascii_lowercase().as_str(),
                "type" | "enter" | "input" | "typing" | "entering"
            ) && !piece.gap.is_comma
        });
        let follows_user = text[..piece.start]
            .trim_end_matches([' ', '`', '"'])
            .ends_with(['/', ':']);
        let is_plain_pin = name.kind == NameKind::Pin && looks != Shape::Digits;
        let is_enough = match (tie, looks) {
            _ if is_plain_pin => false,
            (_, Shape::Odd) if is_given => true,
            (_, Shape::Word | Shape::Identifier) if is_given && name.is_unspaced => true,
            (Tie::Direct, Shape::Identifier) => true,
            (_, Shape::Word | Shape::Odd) if is_asked && is_password && between.len() <= 7 => true,
            (_, Shape::Digits) if is_asked && is_password && length >= 4 && between.len() <= 11 => true,
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
            (Tie::Linked, Shape::Odd) => {
                is_password && (name.kind != NameKind::Login || follows_user) && (piece.is_quoted || between.len() <= 2)
            }
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
            // "X or Y is the password"
            if let [.., other, joint] = &pieces[..at]
                && matches!(joint.text, "or" | "and" | "或" | "和")
                && shape(other.text) >= Shape::Odd
                && looks >= Shape::Odd
            {
                push(found, other.start..other.end, rule);
            }
        }
    }
}

/// Returns whether the word before a piece says what it is: "the figma file X has the login frames".
fn is_called(before: &Piece, piece: &Piece) -> bool {
    /// Words after which a value may come.
    const LEADS: &[&str] = &[
        "with", "to", "is", "was", "that", "and", "or", "so", "but", "then", "as", "by", "for", "not", "no", "yes",
        "it", "ok", "again", "now", "just", "only", "either", "like", "via", "than", "of", "in", "on", "be", "think",
        "guess", "believe", "hey", "please", "me", "you", "old", "new", "one", "both",
    ];
    let low = before.text.to_ascii_lowercase();
    let role = WordRole::of(&low);
    let is_lead = LEADS.contains(&low.as_str()) || role.is_giving || role.is_setter || names::contains_keyword(&low);
    piece.gap == Gap::default() && !piece.is_quoted && prose::is_prose(&low) && !is_lead
}

/// Returns whether a value is handed over in front of a name: "with X if it wants a password", "用「X」这个密码".
fn is_given_before(before: &[Piece], piece: &Piece, between: &[Piece]) -> bool {
    const ASKS: &[&str] = &[
        "for", "if", "when", "wants", "asks", "asked", "needs", "prompts", "prompted", "这个", "這個",
    ];
    let low = before.last().map(|word| word.text.to_lowercase()).unwrap_or_default();
    let is_handed = matches!(low.as_str(), "with" | "using" | "use" | "try" | "type" | "enter") || low.ends_with('用');
    let asks = between
        .iter()
        .any(|word| ASKS.iter().any(|ask| word.text.to_lowercase().starts_with(ask)));
    is_handed && asks && between.len() <= 7 && !piece.gap.is_stop
}

/// Returns where the last sentence of a text begins.
fn sentence_start(text: &str) -> usize {
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let mut start = line;
    for (at, _) in text.match_indices(['.', '?', '!', '。', '？', '！']) {
        let after = at + text[at..].chars().next().map_or(1, char::len_utf8);
        // A password may end with such a sign.
        let goes_on = text[at..].starts_with(['!', '?'])
            && text[after..]
                .trim_start_matches(' ')
                .starts_with(|c: char| c.is_lowercase() || matches!(c, '-' | '—' | '–' | '(' | ','));
        let ends = !goes_on && text[after..].starts_with([' ', '"']) || !text.is_char_boundary(at + 1);
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
    let is_being = matches!(low.as_str(), "is" | "are" | "was");
    let is_clean = between[1..].iter().all(|word| {
        let turns = is_being && matches!(word.text, "and" | "but" | "not");
        let is_clause = CLAUSES.contains(&word.text.to_lowercase().as_str());
        !(turns || is_clause || names::contains_keyword(word.text))
    });
    if (WordRole::of(&low).is_back_link || ends_in_link(&low)) && is_clean && between.len() <= 7 {
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
