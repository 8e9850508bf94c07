//! Elements in text: `<name>...</name>`, as clients and models write them around parts of a message.

use std::borrow::Cow;

/// Returns the content of the first element `name`, up to the end of the text if it is not closed; `None` without one.
pub fn find_element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    Some(
        after
            .split_once(&format!("</{name}>"))
            .map_or(after, |(inside, _)| inside),
    )
}

/// Removes the elements of these names with their content. One that is not closed goes up to the end of the text.
pub fn strip_elements<'t>(text: &'t str, names: &[&str]) -> Cow<'t, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    'text: while let Some(at) = rest.find('<') {
        for name in names {
            let after = &rest[at + 1..];
            let is_it = after
                .strip_prefix(name)
                .is_some_and(|after| after.starts_with(['>', ' ']));
            if is_it {
                let closing = format!("</{name}>");
                out.push_str(&rest[..at]);
                let Some(end) = after.find(&closing) else {
                    rest = "";
                    break 'text;
                };
                rest = &after[end + closing.len()..];
                continue 'text;
            }
        }
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Replaces every closed element of a lower-case name with a line break: what clients, tools and pages put around words.
pub fn strip_all_elements(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let after = &rest[at + 1..];
        let is_name = |sign: char| sign.is_ascii_lowercase() || "-_".contains(sign);
        let name = after.len() - after.trim_start_matches(is_name).len();
        let closing = format!("</{}>", &after[..name]);
        match (name > 2).then(|| after.find(&closing)).flatten() {
            Some(end) => {
                out.push_str(&rest[..at]);
                out.push('\n');
                rest = &after[end + closing.len()..];
            }
            None => {
                out.push_str(&rest[..=at]);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_and_removed() {
        assert_eq!(find_element("a <b>c</b> d", "b"), Some("c"));
        assert_eq!(find_element("a <b>c", "b"), Some("c"));
        assert_eq!(find_element("a", "b"), None);
        assert_eq!(strip_elements("a <bb>c <d></bb>e <x>f</x>", &["bb"]), "a e <x>f</x>");
        assert_eq!(strip_elements("a <bb id=1>c", &["bb"]), "a ");
        assert!(matches!(strip_elements("a", &["bb"]), Cow::Borrowed(_)));
        assert_eq!(
            strip_all_elements("a <bbb x=1>c</bbb>d <b>e</b> <fff>"),
            "a \nd <b>e</b> <fff>"
        );
    }
}
