//! Looks for values around the name of a secret: how they are tied to it decides how much they must look like one.
//!
//! A value after `password:` or "the password is" may be any word that is no ordinary one. A value some words away must look
//! like nothing but a secret. Both directions are read: "use X as the password" puts the value first.

mod before;
mod case;
mod columns;
mod declared;
mod phrases;
mod reading;
mod roles;
mod words;

use super::names::{NameKind, SecretName};
use super::pieces::{Piece, PieceReader, is_unspaced};
use super::shape::{Shape, shape};
use super::{Secret, push};
use before::find_before;
use case::{is_value, value_range};
use columns::find_in_column;
use declared::find_declared;
pub(super) use declared::{find_in_name, find_in_query};
use phrases::{
    find_digit_groups, find_in_call, find_letter_groups, find_long_phrase, find_pair, find_unspaced_value, find_words,
};
use reading::{Reading, is_config_line, is_heading, is_other_field, is_set_before, skip_remark};
pub(super) use roles::WordRole;
pub(super) use words::UNSPACED_BACK_LINKS;

/// How far a name reaches, in bytes and in pieces.
const REACH: usize = 240;
const MOST_PIECES: usize = 18;

/// Adds the values that belong to a name.
pub(super) fn find(text: &str, name: &SecretName, found: &mut Vec<Secret>) {
    let rule = match name.kind {
        _ if name.is_flag => "command-line-password",
        NameKind::Header => "authorization-header",
        _ => "assigned-secret",
    };
    find_after(text, name, rule, found);
    find_in_column(text, name, rule, found);
    find_declared(text, name, rule, found);
    if !name.is_flag && !name.is_identifier && !name.is_folder && name.kind != NameKind::Header {
        find_before(text, name, rule, found);
    }
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
        return find_in_call(text, start, name, rule, found);
    }
    start = skip_remark(text, start, limit);
    let pair = text[start..limit].trim_start_matches([' ', '=', ':']);
    if pair.starts_with('(') && matches!(name.kind, NameKind::Login | NameKind::AnyKey) {
        find_in_call(text, limit - pair.len(), name, rule, found);
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
        is_group: false,
        is_after_run: false,
        has_account: false,
        last_length: 0,
        is_plural: !name.is_unspaced && text[name.start..name.end].ends_with(['s', 'S']) && !name.is_bare_pass,
        is_heading: is_heading(text, name),
        list_gap: 0,
    };
    for possessive in ["'s ", "’s "] {
        if text[name.end..].starts_with(possessive) {
            reading.is_linked = true;
            reader = PieceReader::new(text, name.end + possessive.len(), limit);
        }
    }
    let is_credential = text[name.start..name.end].to_ascii_lowercase().contains("cred");
    let mut before: Option<Piece> = None;
    for piece in reader {
        if reading.count > MOST_PIECES || !reading.enter(&piece, name) || reading.is_over(name) {
            return;
        }
        if let Some(label) = &before
            && !reading.is_group
            && is_other_field(text, label, &piece, name)
        {
            // `password: {prod: ...}`: the field is one of the name's own.
            if !label.gap.is_link {
                return;
            }
            reading.is_group = true;
        }
        reading.count += 1;
        if piece.text.is_empty() {
            continue;
        }
        // `list-secrets --region X`: the value of another option.
        if piece.text.starts_with("--") && !name.is_flag && !reading.is_linked {
            return;
        }
        if name.kind == NameKind::Phrase
            && piece.text.starts_with(is_unspaced)
            && let Some(end) = find_long_phrase(text, name, &piece, &reading, limit)
        {
            push(found, piece.start..end, rule);
            return;
        }
        if let Some(end) = find_unspaced_value(text, name, &piece, &reading) {
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
            && let Some(range) = find_pair(&piece, before.as_ref(), &reading, is_credential)
        {
            push(found, range, rule);
            reading.skip(&piece);
            before = Some(piece);
            continue;
        }
        let may_be_digits = name.kind == NameKind::Pin || name.kind == NameKind::Password && name.is_unspaced;
        if may_be_digits
            && (name.is_unspaced || reading.is_linked || reading.count <= 2)
            && let Some(end) = find_digit_groups(text, &piece)
        {
            push(found, piece.start..end, rule);
            return;
        }
        if name.kind == NameKind::Password
            && let Some(end) = find_letter_groups(text, &piece)
        {
            push(found, piece.start..end, rule);
            return;
        }
        let tie = reading.tie(text, &piece, name);
        if is_value(text, name, &piece, tie, &reading) {
            let (from, to) = value_range(text, &piece, name, reading.is_equals);
            push(found, from..to, rule);
            reading.list_gap = 0;
            reading.listed = Some(tie);
            reading.last_length = piece.text.len();
            reading.is_linked = false;
            reading.is_direct = false;
        } else {
            reading.skip(&piece);
        }
        before = Some(piece);
    }
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
