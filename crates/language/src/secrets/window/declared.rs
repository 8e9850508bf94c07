//! Values that a program declares apart from their name: behind a type, in the block that the name opens, in a query.

use super::super::names::{NameKind, SecretName};
use super::super::shape::{Shape, shape};
use super::super::{Secret, push};
use super::phrases::quoted_at;
use std::ops::Range;

/// Adds the value that a program declares for a name.
pub(super) fn find_declared(text: &str, name: &SecretName, rule: &'static str, found: &mut Vec<Secret>) {
    if matches!(name.kind, NameKind::Login | NameKind::Signature | NameKind::Wordlist) {
        return;
    }
    let value = find_behind_type(text, name.end).or_else(|| find_in_block(text, name.end));
    if let Some(range) = value
        && shape(&text[range.clone()]) >= Shape::Word
    {
        push(found, range, rule);
    }
}

/// Returns the literal behind the type of a variable: `password: str = "X"`.
fn find_behind_type(text: &str, end: usize) -> Option<Range<usize>> {
    const LONGEST_TYPE: usize = 40;
    let rest = text[end..].strip_prefix(':')?;
    let near = &rest[..rest.floor_char_boundary(LONGEST_TYPE.min(rest.len()))];
    let equals = near.find('=')?;
    let is_type = |c: char| c.is_ascii_alphanumeric() || "_[]<>|&?'., ".contains(c);
    let kind = near[..equals].trim();
    if kind.is_empty() || !kind.chars().all(is_type) || kind.starts_with(['\'', '.']) {
        return None;
    }
    literal_at(text, end + 1 + equals + 1)
}

/// Returns the default of a variable that opens a block: `variable "db_password" { default = "X" }`.
fn find_in_block(text: &str, end: usize) -> Option<Range<usize>> {
    const LONGEST_BLOCK: usize = 300;
    let rest = text[end..].strip_prefix('"')?.trim_start_matches(' ');
    let open = text.len() - rest.len();
    let block = rest.strip_prefix('{')?;
    let block = &block[..block.floor_char_boundary(LONGEST_BLOCK.min(block.len()))];
    let block = block.split('}').next().unwrap_or_default();
    let field = ["default", "value"].iter().find_map(|field| {
        let at = block.find(field)?;
        let gap = block[at + field.len()..].len() - block[at + field.len()..].trim_start().len();
        block[at + field.len() + gap..]
            .starts_with('=')
            .then_some(at + field.len() + gap + 1)
    })?;
    literal_at(text, open + 1 + field)
}

/// Returns the text in quotes at a place, blanks skipped.
fn literal_at(text: &str, at: usize) -> Option<Range<usize>> {
    /// Longer texts have no shape.
    const LONGEST: usize = 2_001;
    let rest = text[at..].trim_start_matches(' ');
    quoted_at(text, text.len() - rest.len(), LONGEST)
}

/// Adds the value that the rest of a name holds, as those of branches do: `set-db-password-to-X`.
pub(in crate::secrets) fn find_in_name(text: &str, rest: Range<usize>, found: &mut Vec<Secret>) {
    let value = ["-to-", "_to_", "-is-", "_is_"]
        .iter()
        .find_map(|link| text[rest.clone()].strip_prefix(link));
    if let Some(value) = value
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && shape(value) >= Shape::Word
    {
        push(found, rest.end - value.len()..rest.end, "secret-in-name");
    }
}

/// Adds the value of a field that stands for a key in the query of an address: `?appid=X`.
pub(in crate::secrets) fn find_in_query(text: &str, end: usize, found: &mut Vec<Secret>) {
    let length = text[end..]
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte))
        .count();
    let looks = shape(&text[end..end + length]);
    if length >= 10 && (looks == Shape::Hex || looks >= Shape::Strong) {
        push(found, end..end + length, "key-in-address");
    }
}

#[cfg(test)]
mod tests {
    use crate::secrets::mask;

    #[test]
    fn declared_values_are_found_and_types_are_not() {
        for (text, value) in [
            ("self.password: str = \"JCNYNlG2aI57vzOTrf6W\"", "JCNYNlG2aI57vzOTrf6W"),
            ("const API_TOKEN: &str = \"nM3jZ9sVt1Bq\";", "nM3jZ9sVt1Bq"),
            (
                "variable \"api_token\" {\n  type    = string\n  default = \"nM3jZ9sVt1Bq\"\n}",
                "nM3jZ9sVt1Bq",
            ),
            (
                "GET /v1/now?city=Bern&appid=aaac5638d75c9e9b1ecfeb93c1040684",
                "aaac5638d75c9e9b1ecfeb93c1040684",
            ),
        ] {
            assert!(!mask(text).contains(value), "{text}");
        }
        for text in [
            "password: string = \"\"",
            "password: Option<String> = None;",
            "variable \"db_password\" {\n  type = string\n}",
            "GET /v1/now?city=Bern&appid=demo",
        ] {
            assert_eq!(mask(text), text);
        }
    }
}
