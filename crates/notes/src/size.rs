//! The size of a text in tokens.
//!
//! Budgets use the larger of two estimates: the client's (UTF-16 units divided by four) and the fitted ratios of the newest
//! models. A text that fits by this measure fits by either, also in scripts where a character is a token.

use language::shorten::longest_fitting;
use replay::tokens::ratios::{RatioTable, Ratios};
use transcript::log::{Block, BlockKind, Log};

/// Unknown models have the ratios of the newest.
const NEWEST_MODEL: &str = "";

/// Returns the size that budgets are compared with.
pub fn tokens(text: &str) -> u64 {
    let block = text_block(text);
    let table = RatioTable::built_in();
    let fitted = tokens_by_ratios(&block, table.for_model(NEWEST_MODEL)).round() as u64;
    fitted.max(u64::from(block.quarters))
}

/// Returns the size of a text in the context window of a model, by its fitted ratios.
pub fn window_tokens(text: &str, ratios: &Ratios) -> u64 {
    tokens_by_ratios(&text_block(text), ratios).round() as u64
}

fn tokens_by_ratios(block: &Block, ratios: &Ratios) -> f64 {
    RatioTable::built_in().input(ratios, block, &Log::default())
}

/// Returns a text as a block that the user typed.
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

/// Returns the longest start of a text with at most `most` tokens.
pub fn truncate_to_tokens(text: &str, most: u64) -> &str {
    longest_fitting(text, |start| tokens(start) <= most)
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
    fn truncation_keeps_as_much_as_fits() {
        let text = "\u{4f60}\u{597d} and words ".repeat(500);
        let part = truncate_to_tokens(&text, 300);
        assert!(tokens(part) <= 300 && tokens(part) > 290);
        assert!(text.starts_with(part));
    }
}
