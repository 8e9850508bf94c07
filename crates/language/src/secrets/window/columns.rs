//! Values under the name of a secret at the head of a column: in a table of Markdown, in lines of fields.

use super::super::names::{NameKind, SecretName};
use super::super::shape::{Shape, shape};
use super::super::{MASK, Secret, push};

const MOST_ROWS: usize = 100;

/// The longest head before and behind a name: longer lines head no table.
const LONGEST_HEAD: usize = 300;

/// Adds the values of the column that a name is the head of.
pub(super) fn find_in_column(text: &str, name: &SecretName, rule: &'static str, found: &mut Vec<Secret>) {
    let is_password = matches!(name.kind, NameKind::Password | NameKind::Phrase);
    let is_token = matches!(name.kind, NameKind::Token | NameKind::Key);
    if !name.is_tail || !(is_password || is_token) {
        return;
    }
    let nearest = text.ceil_char_boundary(name.start.saturating_sub(LONGEST_HEAD));
    let farthest = text.floor_char_boundary((name.end + LONGEST_HEAD).min(text.len()));
    let line_start = text[nearest..name.start]
        .rfind('\n')
        .map_or(nearest, |at| nearest + at + 1);
    let Some(line_end) = text[name.end..farthest].find('\n').map(|at| name.end + at) else {
        return;
    };
    if line_start == nearest && nearest > 0 {
        return;
    }
    let head = &text[line_start..line_end];
    let rest = text.get(line_end + 1..).unwrap_or_default();
    let Some((divider, mut at)) = find_divider(head, rest) else {
        return;
    };
    let column = text[line_start..name.start].matches(divider).count();
    let fields = head.matches(divider).count();
    for row in rest[at..].split_inclusive('\n').take(MOST_ROWS) {
        if row.matches(divider).count() != fields {
            return;
        }
        let cell = row.split(divider).nth(column).unwrap_or_default();
        let from = line_end + 1 + at + (cell.as_ptr() as usize - row.as_ptr() as usize);
        let is_edge = |c: char| c.is_whitespace() || "\"'`*".contains(c);
        let start = from + (cell.len() - cell.trim_start_matches(is_edge).len());
        let value = cell.trim_matches(is_edge);
        let looks = shape(value);
        let is_enough = match looks {
            _ if value.is_empty() || value == MASK || value.contains(char::is_whitespace) => false,
            Shape::Word | Shape::Digits | Shape::Odd => is_password,
            Shape::Hex => value.len() >= 16,
            Shape::Strong => is_password || value.len() >= 8,
            looks => looks == Shape::Random,
        };
        if is_enough {
            push(found, start..start + value.len(), rule);
        }
        at += row.len();
    }
}

/// Returns what divides the fields of a head, and where the first row begins behind it; `None` if it heads no rows.
fn find_divider(head: &str, rest: &str) -> Option<(char, usize)> {
    let near = &rest[..rest.floor_char_boundary((4 * LONGEST_HEAD).min(rest.len()))];
    let next = near.split('\n').next().unwrap_or_default();
    let is_rule = next.contains("--") && next.bytes().all(|byte| b" |:-+\r".contains(&byte));
    if head.contains('|') && is_rule {
        return Some(('|', next.len().saturating_add(1).min(rest.len())));
    }
    let is_field = |field: &str| {
        let field = field.trim();
        (1..=24).contains(&field.len())
            && field
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_- \"".contains(&byte))
    };
    let divider = [',', '\t', ';'].into_iter().find(|divider| head.contains(*divider))?;
    let is_head = head.split(divider).all(is_field) && !head.contains(" and ");
    // Tools print the number of a line and a tab before it.
    let is_numbered = head
        .split(divider)
        .next()
        .is_some_and(|first| first.trim().bytes().all(|byte| byte.is_ascii_digit()));
    let is_row = next.matches(divider).count() == head.matches(divider).count();
    (is_head && is_row && !is_numbered && !head.contains(", ")).then_some((divider, 0))
}
