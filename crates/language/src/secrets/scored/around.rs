//! What stands around a word: cues, signs of a sentence, words that hand something over.

use super::super::names::NameKind;
use super::super::pieces::{Piece, is_unspaced};
use super::super::shape::{Shape, is_mixed, subwords};
use super::super::window::{UNSPACED_BACK_LINKS, WordRole};
use super::super::{forms, names, prose};
use super::signs::{SignGroup, sign};
use super::{Cue, REACH_AHEAD, REACH_BACK};
use memchr::memmem;

/// The pieces of a region with what they are among.
pub(super) struct Around<'t> {
    text: &'t str,
    pieces: &'t [Piece<'t>],
    cues: &'t [Cue],
    /// Sums over the gaps up to and with each piece.
    sums: Vec<Sums>,
    roles: Vec<WordRole>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    stops: usize,
    lines: usize,
    links: usize,
}

/// A cue before or after a word.
struct Tied {
    kind: usize,
    distance: usize,
    stops: usize,
    lines: usize,
    links: usize,
}

impl<'t> Around<'t> {
    pub fn new(text: &'t str, pieces: &'t [Piece<'t>], cues: &'t [Cue]) -> Around<'t> {
        let roles = pieces.iter().map(|piece| WordRole::of(piece.text)).collect::<Vec<_>>();
        let mut sum = Sums::default();
        let sums = pieces.iter().zip(&roles).map(|(piece, role)| {
            sum.stops += usize::from(piece.gap.is_stop);
            sum.lines += usize::from(piece.gap.newlines);
            sum.links += usize::from(piece.gap.is_link) + usize::from(role.is_link);
            sum
        });
        Around {
            text,
            pieces,
            cues,
            sums: sums.collect(),
            roles,
        }
    }

    /// Returns the cue nearest before a piece.
    fn cue_before(&self, at: usize) -> Option<Tied> {
        let piece = &self.pieces[at];
        let end = self.cues.partition_point(|cue| cue.end <= piece.start);
        // A name says more than a hint that stands nearer.
        let reaches = |cue: &&Cue| cue.end + REACH_AHEAD >= piece.start;
        let near = self.cues[..end].iter().rev().take(3).filter(reaches);
        let cue = near.min_by_key(|cue| kind_rank(cue))?;
        let from = self.pieces.partition_point(|piece| piece.end <= cue.start).min(at);
        Some(self.tie(cue, from, at))
    }

    /// Returns the cue nearest after a piece.
    fn cue_after(&self, at: usize) -> Option<Tied> {
        let piece = &self.pieces[at];
        let start = self.cues.partition_point(|cue| cue.start < piece.end);
        let cue = self.cues.get(start).filter(|cue| cue.start <= piece.end + REACH_BACK)?;
        let to = self.pieces.partition_point(|piece| piece.end <= cue.start);
        Some(self.tie(cue, at, to.min(self.pieces.len() - 1)))
    }

    fn tie(&self, cue: &Cue, from: usize, to: usize) -> Tied {
        let (first, last) = (self.sums[from], self.sums[to]);
        let pieces = to - from;
        let distance = match pieces {
            0..=3 => pieces,
            4..=5 => 4,
            6..=8 => 5,
            9..=13 => 6,
            _ => 7,
        };
        Tied {
            kind: kind_group(cue),
            distance,
            stops: last.stops - first.stops,
            lines: last.lines - first.lines,
            links: last.links - first.links,
        }
    }

    /// Returns the signs of a piece; `None` if no cue reaches it.
    pub fn signs(&self, at: usize, shape: Shape, rivals: usize) -> Option<Vec<u16>> {
        use SignGroup::*;
        let (before, after) = (self.cue_before(at), self.cue_after(at));
        if before.is_none() && after.is_none() {
            return None;
        }
        let piece = &self.pieces[at];
        let looks = shape as usize;
        let mut signs = vec![
            sign(Always, 0),
            sign(Looks, looks),
            sign(Length, length_group(piece.text.len())),
        ];
        signs.extend(look_signs(piece).map(|look| sign(Look, look)));
        let mut cue = 7;
        if let Some(tied) = &before {
            cue = tied.kind;
            signs.extend([
                sign(BeforeDistance, tied.distance),
                sign(BeforeStops, tied.stops),
                sign(BeforeLines, tied.lines),
                sign(BeforeLink, usize::from(tied.links > 0)),
                sign(
                    ShapeAtDistance,
                    looks * 8 + tied.distance.min(3) + 4 * usize::from(tied.stops > 0),
                ),
            ]);
        }
        signs.push(sign(BeforeCue, cue));
        signs.push(sign(ShapeOfCue, looks * 8 + cue));
        let mut later = 7;
        if let Some(tied) = &after {
            later = tied.kind;
            signs.extend([
                sign(AfterDistance, tied.distance),
                sign(AfterStops, tied.stops),
                sign(AfterLines, tied.lines),
            ]);
        }
        signs.push(sign(AfterCue, later));
        if before.is_none() {
            signs.push(sign(ShapeAfterCue, looks * 8 + later));
        }
        let (gap, previous, code) = (self.gap(at), self.previous(at), self.code(piece));
        signs.extend([
            sign(Gap, gap),
            sign(Previous, previous),
            sign(Next, self.next(at)),
            sign(Ahead, self.ahead(piece)),
            sign(Given, usize::from(self.is_given(at))),
            sign(Remark, usize::from(self.has_remark(at))),
            sign(Line, self.line(at)),
            sign(Code, code),
            sign(Rivals, rivals),
            sign(
                Named,
                usize::from(shape >= Shape::Hex && forms::is_named_id(self.text, piece.start)),
            ),
            sign(Again, self.count_again(piece)),
            sign(ShapeOfPrevious, looks * 16 + previous),
            sign(ShapeInCode, looks * 4 + code),
            sign(CueAndPrevious, cue * 16 + previous),
            sign(CueAndGap, cue * 12 + gap),
        ]);
        Some(signs)
    }

    /// What stands between a piece and the one before it.
    fn gap(&self, at: usize) -> usize {
        let gap = &self.pieces[at].gap;
        match () {
            () if at == 0 => 0,
            () if gap.is_equals => 1,
            () if gap.is_cell => 2,
            () if gap.is_link && gap.newlines == 0 => 3,
            () if gap.is_link => 4,
            () if gap.newlines > 1 => 5,
            () if gap.newlines > 0 => 6,
            () if gap.is_question => 7,
            () if gap.is_stop => 8,
            () if gap.is_comma || gap.is_slash => 9,
            () if gap.is_bracket || gap.is_dash => 10,
            () => 11,
        }
    }

    /// What kind of word the one before is.
    fn previous(&self, at: usize) -> usize {
        let Some(before) = at.checked_sub(1) else {
            return 0;
        };
        let (word, role) = (&self.pieces[before], self.roles[before]);
        let text = word.text;
        if text.starts_with(is_unspaced) {
            const NAME_ENDS: [char; 8] = ['码', '碼', '钥', '鑰', '词', '詞', '号', '號'];
            return match () {
                () if role.is_giving => 1,
                () if role.is_link => 2,
                () if text.ends_with(NAME_ENDS) || names::contains_keyword(text) => 3,
                () => 4,
            };
        }
        if role.is_link {
            return 5;
        }
        if role.is_giving {
            return 6;
        }
        let low = text.to_ascii_lowercase();
        match low.as_str() {
            "to" | "as" | "into" | "from" | "and" | "or" | "but" | "not" => 7,
            _ if (role.is_setter || role.is_filler) => 8,
            "user" | "username" | "login" | "admin" | "root" | "account" | "deploy" | "guest" => 10,
            low if names::contains_keyword(low) => 9,
            low if prose::is_prose(low) => 12,
            _ if word.is_quoted => 11,
            low if low.bytes().all(|byte| byte.is_ascii_alphabetic()) => 13,
            _ => 14,
        }
    }

    /// What kind of word the next one is.
    fn next(&self, at: usize) -> usize {
        let Some(word) = self.pieces.get(at + 1) else {
            return 0;
        };
        let text = word.text;
        if word.gap.newlines > 0 {
            return 1;
        }
        if text.starts_with(is_unspaced) {
            let is_link = UNSPACED_BACK_LINKS.iter().any(|link| text.starts_with(link));
            return if is_link { 3 } else { 4 };
        }
        if self.roles[at + 1].is_back_link {
            return 2;
        }
        let low = text.to_ascii_lowercase();
        match low.as_str() {
            "on" | "in" | "at" | "if" | "when" | "please" | "thanks" | "still" | "but" | "again" | "from" => 6,
            low if names::contains_keyword(low) => 5,
            low if prose::is_prose(low) => 7,
            low if low.bytes().all(|byte| byte.is_ascii_alphabetic()) => 8,
            _ => 9,
        }
    }

    /// The signs right behind a piece.
    fn ahead(&self, piece: &Piece) -> usize {
        let rest = self.text[piece.end..].trim_start_matches(['"', '\'', '`', '”', '」', '*', '\\']);
        match rest.chars().next() {
            None => 0,
            Some('\n' | '\r') => 1,
            Some(',' | '，' | '、') => 2,
            Some('.' | '。' | '!' | '！' | '?' | '？') => 3,
            Some(';' | '；') => 4,
            Some(')' | '）' | ']' | '}' | '】') => 5,
            Some(':' | '：' | '=') => 6,
            Some('(' | '{' | '<' | '[') => 7,
            Some(c) if is_unspaced(c) => 8,
            Some(_) => 9,
        }
    }

    /// Whether one of the few words before hands over something.
    fn is_given(&self, at: usize) -> bool {
        self.roles[at.saturating_sub(4)..at].iter().any(|role| role.is_giving)
    }

    /// Whether a word near says how the value is spelled.
    fn has_remark(&self, at: usize) -> bool {
        let end = self.pieces.len().min(at + 8);
        self.roles[at.saturating_sub(5)..end].iter().any(|role| role.is_remark)
    }

    /// How often a piece stands in the text near it once more: names of a program do.
    fn count_again(&self, piece: &Piece) -> usize {
        const REACH: usize = 2_000;
        let start = piece.start.saturating_sub(REACH);
        let end = self.text.len().min(piece.end + REACH);
        let near = &self.text.as_bytes()[start..end];
        memmem::find_iter(near, piece.text.as_bytes())
            .take(3)
            .count()
            .saturating_sub(1)
    }

    /// Whether a piece is the first, the last or the only one of its line.
    fn line(&self, at: usize) -> usize {
        let is_first = at == 0 || self.pieces[at].gap.newlines > 0;
        let is_last = self.pieces.get(at + 1).is_none_or(|next| next.gap.newlines > 0);
        usize::from(is_first) + 2 * usize::from(is_last)
    }

    /// How much the line of a piece is one of a program.
    fn code(&self, piece: &Piece) -> usize {
        const LONGEST: usize = 120;
        let start = self.text.ceil_char_boundary(piece.start.saturating_sub(LONGEST));
        let end = self
            .text
            .floor_char_boundary((piece.end + LONGEST).min(self.text.len()));
        let before = self.text[start..piece.start].rsplit('\n').next().unwrap_or_default();
        let after = self.text[piece.end..end].split('\n').next().unwrap_or_default();
        let signs = before
            .bytes()
            .chain(after.bytes())
            .filter(|byte| b"{};()[]<>=_\\".contains(byte));
        match signs.count() {
            0 => 0,
            1..=2 => 1,
            3..=6 => 2,
            _ => 3,
        }
    }
}

/// Names first, hints last.
fn kind_rank(cue: &Cue) -> usize {
    usize::from(cue.kind.is_none())
}

fn kind_group(cue: &Cue) -> usize {
    match cue.kind {
        Some(NameKind::Password | NameKind::Phrase | NameKind::Leet) => 0,
        Some(NameKind::Token | NameKind::Key | NameKind::Header | NameKind::Cookie | NameKind::Signature) => 1,
        Some(NameKind::Pin) => 2,
        Some(NameKind::Login) => 3,
        Some(NameKind::AnyKey | NameKind::Wordlist) => 4,
        None => 5,
    }
}

fn length_group(length: usize) -> usize {
    match length {
        0..=3 => 0,
        4..=5 => 1,
        6..=7 => 2,
        8..=11 => 3,
        12..=15 => 4,
        16..=23 => 5,
        24..=31 => 6,
        _ => 7,
    }
}

/// Returns what the characters of a piece show.
fn look_signs(piece: &Piece) -> impl Iterator<Item = usize> {
    let value = piece.text;
    let has = |is: fn(u8) -> bool| value.bytes().any(is);
    let worded = subwords(value)
        .iter()
        .filter(|part| part.len() >= 3 && prose::is_prose(part))
        .count();
    let (upper, lower) = (
        has(|byte| byte.is_ascii_uppercase()),
        has(|byte| byte.is_ascii_lowercase()),
    );
    let looks = [
        piece.is_quoted,
        has(|byte| b"!@#$%^&*?~+".contains(&byte)),
        has(|byte| byte.is_ascii_digit()),
        upper && lower && value.bytes().skip(1).any(|byte| byte.is_ascii_uppercase()),
        is_mixed(value),
        !upper && lower,
        upper && !lower,
        worded >= 1,
        worded >= 2,
        has(|byte| b"-_".contains(&byte)),
        has(|byte| b"./:".contains(&byte)),
        has(|byte| b"()[]{}<>=;,\"'\\".contains(&byte)),
    ];
    looks
        .into_iter()
        .enumerate()
        .filter_map(|(at, shows)| shows.then_some(at))
}
