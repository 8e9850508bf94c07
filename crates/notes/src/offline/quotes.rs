//! Block quotes: text inside Markdown whose structure cannot change the text around it. A long text keeps its start, the
//! headings of what is left out, and its last paragraph, where people and models say what comes next.

use crate::offline::prose::whole_sentences;
use language::markdown::{CodeFence, escape_markdown};

/// Lines of code above which a block is left out of a long text first.
const MOST_CODE_LINES: usize = 5;

/// Most headings of what is left out.
const MOST_HEADINGS: usize = 8;

/// A paragraph or a code block.
struct TextBlock<'t> {
    lines: Vec<&'t str>,
    is_code: bool,
}

impl TextBlock<'_> {
    /// Returns the characters it takes with the blank line after it.
    fn cost(&self) -> usize {
        self.lines.iter().map(|line| line.chars().count() + 1).sum::<usize>() + 1
    }
}

/// Formats a text as a block quote of about `most` characters. What is left out is marked.
pub fn block_quote(text: &str, most: usize) -> String {
    let text = text.trim();
    let mut quote = QuoteWriter::default();
    if text.chars().count() <= most {
        let mut fence = CodeFence::default();
        for line in text.lines() {
            quote.push(line, fence.is_inside(line));
        }
        return quote.out;
    }
    let mut blocks = split_blocks(text);
    for block in &mut blocks {
        if block.is_code && block.lines.len() > MOST_CODE_LINES {
            block.lines = vec!["[code left out]"];
            block.is_code = false;
        }
    }
    if blocks.iter().map(TextBlock::cost).sum::<usize>() <= most + 1 {
        blocks
            .iter()
            .for_each(|block| quote.push_block(&block.lines, block.is_code));
        return quote.out;
    }
    let Some(last) = blocks.pop() else { return quote.out };
    if blocks.is_empty() {
        quote.push_start(&last, most);
        return quote.out;
    }
    // The last lines of a last paragraph that is very long.
    let mut tail = last.lines.len();
    let mut tail_cost = 0;
    while tail > 0 && (tail_cost == 0 || tail_cost + last.lines[tail - 1].chars().count() < most / 2) {
        tail -= 1;
        tail_cost += last.lines[tail].chars().count() + 1;
    }
    let mut room = most.saturating_sub(tail_cost);
    let mut shown = 0;
    while let Some(block) = blocks.get(shown).filter(|block| block.cost() <= room) {
        room -= block.cost();
        quote.push_block(&block.lines, block.is_code);
        shown += 1;
    }
    if shown < blocks.len() {
        match blocks[shown].is_code || room < 60 {
            true => quote.push_block(&["[…]"], false),
            false => quote.push_start(&blocks[shown], room),
        }
        let headings = blocks[shown..].iter().skip(1).filter_map(|block| block.lines.first());
        let mut headings = headings.filter(|line| line.starts_with('#')).collect::<Vec<_>>();
        // The last one is that of the last paragraph.
        if headings.len() > MOST_HEADINGS {
            headings.drain(MOST_HEADINGS - 1..headings.len() - 1);
        }
        headings.into_iter().for_each(|line| quote.push(line, false));
    }
    if tail > 0 && shown == blocks.len() {
        quote.push_block(&["[…]"], false);
    }
    quote.push_block(&last.lines[tail..], last.is_code && tail == 0);
    quote.out
}

/// Splits a text at blank lines and at code fences.
fn split_blocks(text: &str) -> Vec<TextBlock<'_>> {
    let mut blocks = Vec::<TextBlock<'_>>::new();
    let mut fence = CodeFence::default();
    let mut is_new = true;
    for line in text.lines() {
        let is_code = fence.is_inside(line);
        if !is_code && line.trim().is_empty() {
            is_new = true;
            continue;
        }
        match blocks.last_mut() {
            Some(last) if !is_new && last.is_code == is_code => last.lines.push(line),
            _ => blocks.push(TextBlock {
                lines: vec![line],
                is_code,
            }),
        }
        is_new = false;
    }
    blocks
}

/// Writes the lines of a quote.
#[derive(Default)]
struct QuoteWriter {
    out: String,
}

impl QuoteWriter {
    /// Adds a line. Code stays as it is.
    fn push(&mut self, line: &str, is_code: bool) {
        let line = line.trim_end();
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out.push('>');
        if !line.is_empty() {
            self.out.push(' ');
            match is_code {
                true => self.out.push_str(line),
                false => self.out.push_str(&escape_markdown(line)),
            }
        }
    }

    /// Adds a block, after a blank line if it is not the first.
    fn push_block(&mut self, lines: &[&str], is_code: bool) {
        if !self.out.is_empty() {
            self.push("", false);
        }
        lines.iter().for_each(|line| self.push(line, is_code));
    }

    /// Adds the start of a block that is too long: whole lines, of the first one whole sentences, and a mark.
    fn push_start(&mut self, block: &TextBlock<'_>, most: usize) {
        let mut count = 0;
        let fits = |line: &&&str| {
            count += line.chars().count() + 1;
            count <= most
        };
        let lines = block.lines.iter().take_while(fits).copied().collect::<Vec<_>>();
        match lines.is_empty() {
            true => self.push_block(&[whole_sentences(block.lines[0], most).as_str()], false),
            false => self.push_block(&lines, block.is_code),
        }
        if !self.out.ends_with('…') {
            self.push("[…]", false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_have_no_structure() {
        assert_eq!(block_quote("# head\n<b>\ntext", 100), "> # head\n> &lt;b>\n> text");
        assert!(block_quote(&"long line ".repeat(50), 100).ends_with('…'));
        assert_eq!(block_quote("```\n<b>\n```", 100), "> ```\n> <b>\n> ```");
    }

    #[test]
    fn a_long_text_keeps_its_start_the_headings_and_its_last_paragraph() {
        let middle = "A sentence of the middle part that says nothing new. ".repeat(8);
        let text = format!("It is done.\n\n{middle}\n\n## Left out\n\n{middle}\n\nThe second phase is next.");
        let quote = block_quote(&text, 300);
        assert!(quote.starts_with("> It is done.\n>\n> A sentence"), "{quote}");
        assert!(
            quote.ends_with("> […]\n> ## Left out\n>\n> The second phase is next."),
            "{quote}"
        );
        let code = format!("Look:\n\n```\n{}```\n\nWhat is wrong?", "let x = 1;\n".repeat(40));
        assert_eq!(
            block_quote(&code, 200),
            "> Look:\n>\n> [code left out]\n>\n> What is wrong?"
        );
    }
}
