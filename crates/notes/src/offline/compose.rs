//! Chooses items for a text of limited size: those with the highest weight, in their original order.

use crate::offline::prose::whole_sentences;
use crate::size;
use language::markdown::escape_markdown;

/// A candidate for a text.
#[derive(Debug, Clone)]
pub struct WeightedItem {
    /// Number of its section.
    pub section: usize,
    /// Items with a higher weight are chosen first.
    pub weight: f64,
    /// One or more lines.
    pub text: String,
}

/// Items of this weight are never left out.
pub const MUST_KEEP_WEIGHT: f64 = 1_000.0;

/// The chosen items.
#[derive(Debug)]
pub struct Composition {
    /// The text of every section.
    pub bodies: Vec<String>,
    /// Sections from which items were left out, ascending.
    pub condensed: Vec<usize>,
}

/// Tokens reserved per section for the line that says how many items were left out.
const CUT_NOTE_TOKENS: u64 = 16;

/// Chooses the items that fit into `room` tokens per section and `total` tokens overall.
pub fn compose(items: &[WeightedItem], room: &[u64], total: u64) -> Composition {
    let mut order = (0..items.len()).collect::<Vec<_>>();
    order.sort_by(|a, b| items[*b].weight.total_cmp(&items[*a].weight).then(a.cmp(b)));
    let mut used = vec![0; room.len()];
    let mut all = 0;
    let mut is_chosen = vec![false; items.len()];
    let mut left_out = vec![0_usize; room.len()];
    for at in order {
        let item = &items[at];
        let cost = line_tokens(&item.text);
        let fits = used[item.section] + cost + CUT_NOTE_TOKENS <= room[item.section]
            && all + cost + CUT_NOTE_TOKENS * room.len() as u64 <= total;
        if fits || item.weight >= MUST_KEEP_WEIGHT {
            used[item.section] += cost;
            all += cost;
            is_chosen[at] = true;
        } else {
            left_out[item.section] += 1;
        }
    }
    let mut bodies = vec![String::new(); room.len()];
    for (_, item) in items.iter().enumerate().filter(|(at, _)| is_chosen[*at]) {
        let body = &mut bodies[item.section];
        if !body.is_empty() {
            body.push('\n');
        }
        body.push_str(&item.text);
    }
    let mut condensed = Vec::new();
    for (section, count) in left_out.into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let body = &mut bodies[section];
        if !body.is_empty() {
            body.push('\n');
        }
        body.push_str(&format!("- ({count} less important left out)"));
        condensed.push(section);
    }
    Composition { bodies, condensed }
}

/// Returns the tokens that a line adds to a text.
pub fn line_tokens(text: &str) -> u64 {
    size::tokens(text).saturating_sub(size::tokens("")) + 1
}

/// Formats a text in quotation marks on one line.
pub fn inline_quote(text: &str, most: usize) -> String {
    put_in_quotes(&escape_markdown(&whole_sentences(text, most)))
}

/// Puts a line in quotation marks: curly ones if it has straight ones, which stay as they are.
pub fn put_in_quotes(line: &str) -> String {
    match line.contains('"') {
        true => format!("“{line}”"),
        false => format!("\"{line}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(section: usize, weight: f64, text: &str) -> WeightedItem {
        WeightedItem {
            section,
            weight,
            text: text.into(),
        }
    }

    #[test]
    fn items_of_high_weight_stay_in_order_and_the_rest_is_counted() {
        let long = "- something long that is not so important ".repeat(20);
        let items = [
            item(0, 1.0, "- a"),
            item(0, 0.1, &long),
            item(0, 2.0, "- b"),
            item(1, 1.0, "- c"),
        ];
        let composed = compose(&items, &[80, 80], 200);
        assert_eq!(composed.bodies, ["- a\n- b\n- (1 less important left out)", "- c"]);
        assert_eq!(composed.condensed, [0]);
    }

    #[test]
    fn items_that_must_be_kept_ignore_limits() {
        let composed = compose(&[item(0, MUST_KEEP_WEIGHT, &"word ".repeat(100))], &[10], 10);
        assert!(composed.condensed.is_empty());
    }
}
