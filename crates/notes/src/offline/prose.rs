//! Prose cut at the ends of sentences, so that no text ends in half of one.

use language::sentences::split_prose;
use language::shorten::to_one_line;

/// Returns the leading whole sentences of a text in at most `most` characters. A first sentence that is too long ends at a
/// clause, with a mark.
pub fn whole_sentences(text: &str, most: usize) -> String {
    let mut line = to_one_line(text, usize::MAX);
    // Half of a pair: the sentence was cut out of a bold phrase. In code, the signs are a pattern.
    let is_half = || {
        line.split('`')
            .step_by(2)
            .map(|prose| prose.matches("**").count())
            .sum::<usize>()
            % 2
            == 1
    };
    if line.contains("**") && !line.contains("**/") && is_half() {
        line = line.replace("**", "");
    }
    if line.chars().count() <= most {
        return line;
    }
    let mut kept = String::new();
    for sentence in split_prose(&line) {
        let length = kept.chars().count() + sentence.chars().count() + 1;
        if length > most {
            break;
        }
        if !kept.is_empty() {
            kept.push(' ');
        }
        kept.push_str(sentence.trim());
    }
    match kept.chars().count() * 4 >= most || kept.chars().count() >= 40 {
        true => kept,
        false => cut_at_clause(&line, most),
    }
}

/// Cuts a text at the last clause that fits, with a mark; at a word if there is no clause.
fn cut_at_clause(line: &str, most: usize) -> String {
    let cut = to_one_line(line, most);
    let body = cut.trim_end_matches('…');
    let clause = body
        .rfind([',', ';', ':', '–', '，', '；'])
        .filter(|at| at * 2 >= body.len());
    match clause {
        Some(at) => format!("{} …", body[..at].trim_end()),
        None => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_with_a_sentence_or_a_clause() {
        assert_eq!(
            whole_sentences("One is done. Two is not.", 100),
            "One is done. Two is not."
        );
        let text = "The first sentence stands here as a whole. The second one is far too long for what is left of it.";
        assert_eq!(whole_sentences(text, 60), "The first sentence stands here as a whole.");
        assert_eq!(whole_sentences("It ends** here.", 60), "It ends here.");
        assert_eq!(whole_sentences("Ignore **/*.md here.", 60), "Ignore **/*.md here.");
        let long = "a clause that goes on for a while, and another one that does not fit any more at all";
        assert_eq!(whole_sentences(long, 50), "a clause that goes on for a while …");
    }
}
