//! Shorter texts: by characters, by bytes or by any other measure, at word ends, with or without a mark where text is missing.
//!
//! Columns of a terminal are a measure of their own, which the tables use (`table`).

/// Marks missing text.
const ELLIPSIS: char = '…';

/// Splits a text after `most` characters; `None` if it has no more than that.
pub fn split_after_chars(text: &str, most: usize) -> Option<(&str, &str)> {
    let (end, _) = text.char_indices().nth(most)?;
    Some(text.split_at(end))
}

/// Returns the first `most` characters, or all if there are fewer.
pub fn first_chars(text: &str, most: usize) -> &str {
    split_after_chars(text, most).map_or(text, |(head, _)| head)
}

/// Returns the last `most` characters, or all if there are fewer.
pub fn last_chars(text: &str, most: usize) -> &str {
    let start = most
        .checked_sub(1)
        .and_then(|before| text.char_indices().nth_back(before));
    match (most, start) {
        (0, _) => "",
        (_, Some((start, _))) => &text[start..],
        (_, None) => text,
    }
}

/// Cuts a text after `most` characters, at the end of a word if one ends in the second half, and adds an ellipsis.
pub fn cut_at_word(text: &str, most: usize) -> String {
    let Some((head, _)) = split_after_chars(text, most) else {
        return text.to_owned();
    };
    let is_late = |at: &usize| *at > head.len() / 2;
    let whole = head.rfind(' ').filter(is_late).map_or(head, |at| &head[..at]);
    format!("{}{ELLIPSIS}", whole.trim_end_matches([',', ';', ':', ' ']))
}

/// [`cut_at_word`], with the ellipsis counted among the `most` characters.
pub fn cut_at_word_within(text: &str, most: usize) -> String {
    match split_after_chars(text, most) {
        Some(_) => cut_at_word(text, most.saturating_sub(1)),
        None => text.to_owned(),
    }
}

/// Cuts a text after `most` characters and adds a note, which is made from the number of bytes that are missing.
pub fn cut_with_note(text: &str, most: usize, note: impl FnOnce(usize) -> String) -> String {
    match split_after_chars(text, most) {
        Some((head, rest)) => format!("{head}{}", note(rest.len())),
        None => text.to_owned(),
    }
}

/// Replaces the middle of a text of more than `most` bytes with a mark; half of the bytes stay on either side of it.
pub fn cut_middle(text: &str, most: usize, mark: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(most / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - most / 2)..];
    format!("{head}{mark}{tail}")
}

/// Returns the longest start of a text that fits. `fits` must hold for every start of one that fits.
pub fn longest_fitting(text: &str, fits: impl Fn(&str) -> bool) -> &str {
    if fits(text) {
        return text;
    }
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(&text[..text.floor_char_boundary(middle)]) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    &text[..text.floor_char_boundary(low)]
}

/// Puts a text on one line of at most `most` characters, with single blanks; an ellipsis marks where words are missing.
pub fn to_one_line(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if count + length + usize::from(count > 0) > most {
            if count == 0 {
                out.push_str(first_chars(word, most.saturating_sub(1)));
            }
            out.push(ELLIPSIS);
            return out;
        }
        if count > 0 {
            out.push(' ');
            count += 1;
        }
        out.push_str(word);
        count += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_words() {
        assert_eq!(cut_at_word("one two three", 100), "one two three");
        assert_eq!(cut_at_word("one, two, three", 10), "one, two…");
        assert_eq!(cut_at_word("one twothreefour", 8), "one twot…");
        assert_eq!(cut_at_word_within("one two", 7), "one two");
        assert_eq!(cut_at_word_within("one two three", 8), "one two…");
    }

    #[test]
    fn lines_are_cut_with_a_mark() {
        assert_eq!(to_one_line("one  two\nthree", 100), "one two three");
        assert_eq!(to_one_line("one two three", 8), "one two…");
        assert_eq!(to_one_line("abcdefghij", 5), "abcd…");
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let text = "é".repeat(10);
        assert_eq!(first_chars(&text, 3), "ééé");
        assert_eq!(first_chars(&text, 30), text);
        assert_eq!(last_chars(&text, 3), "ééé");
        assert_eq!((last_chars(&text, 0), last_chars(&text, 30)), ("", text.as_str()));
        assert_eq!(cut_with_note(&text, 9, |bytes| format!(" -{bytes}")), "ééééééééé -2");
        assert_eq!(cut_middle(&text, 11, "…"), "éé…éé");
        assert_eq!(cut_middle(&text, 20, "…"), text);
        assert_eq!(longest_fitting(&text, |start| start.len() <= 7), "ééé");
        assert_eq!(longest_fitting(&text, |_| true), text);
    }
}
