//! How large a text is.
//!
//! Budgets are held by the larger of two counts: the client's own estimate (UTF-16 units by four) and what the fitted
//! ratios of the newest models give. So a text that fits here fits by either, also in scripts where a character is a token.

use replay::tokens::ratios::{RatioTable, Ratios};
use transcript::log::{Block, BlockKind, Log};

/// Unknown models are taken to be new.
const NEWEST_MODEL: &str = "";

/// The size that budgets are held by.
pub fn tokens(text: &str) -> u64 {
    let block = text_block(text);
    let table = RatioTable::built_in();
    let fitted = tokens_by_ratios(&block, table.for_model(NEWEST_MODEL)).round() as u64;
    fitted.max(u64::from(block.quarters))
}

/// The size of a text as part of the window of a model: what its fitted ratios give.
pub fn window_tokens(text: &str, ratios: &Ratios) -> u64 {
    tokens_by_ratios(&text_block(text), ratios).round() as u64
}

fn tokens_by_ratios(block: &Block, ratios: &Ratios) -> f64 {
    RatioTable::built_in().input(ratios, block, &Log::default())
}

/// A text as a block of what a user typed.
fn text_block(text: &str) -> Block {
    let mut block = Block::new(BlockKind::Human);
    let mut units = 0_u32;
    for character in text.chars() {
        let wide = character.len_utf16() as u32;
        units += wide;
        block.wide += character.len_utf8() as u32 - wide;
        block.escapes += u32::from(matches!(character, '\n' | '\r' | '\t' | '"' | '\\' | '\u{8}' | '\u{c}'));
    }
    block.units = units;
    block.quarters = transcript::record::client_estimate(units);
    block
}

/// The longest start of a text that has at most `most` tokens, at a character's edge.
pub fn truncate_to_tokens(text: &str, most: u64) -> &str {
    if tokens(text) <= most {
        return text;
    }
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if tokens(&text[..text.floor_char_boundary(middle)]) <= most {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    &text[..text.floor_char_boundary(low)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_smaller_than_the_clients_estimate() {
        for text in [
            "",
            "word",
            "a longer text with words in it\nand a line",
            "\u{4f60}\u{597d}\u{4e16}\u{754c}",
        ] {
            assert!(tokens(text) >= text.encode_utf16().count() as u64 / 4, "{text}");
        }
        assert!(
            tokens(&"\u{4f60}".repeat(1_000)) >= 900,
            "a Chinese character is about a token"
        );
    }

    #[test]
    fn cut_keeps_as_much_as_fits() {
        let text = "\u{4f60}\u{597d} and words ".repeat(500);
        let part = truncate_to_tokens(&text, 300);
        assert!(tokens(part) <= 300 && tokens(part) > 290);
        assert!(text.starts_with(part));
    }
}
