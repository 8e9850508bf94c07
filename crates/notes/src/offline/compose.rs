//! From many things worth saying to a text of limited size: the weightiest are kept, in their order.

use crate::offline::clean;
use crate::size;

/// Something worth saying.
#[derive(Debug, Clone)]
pub struct WeightedItem {
    /// Number of its section.
    pub section: usize,
    /// How much it would be missed.
    pub weight: f64,
    /// One or more lines.
    pub text: String,
}

/// Weight of what is never left out.
pub const MUST_KEEP_WEIGHT: f64 = 1_000.0;

/// What was chosen.
#[derive(Debug)]
pub struct Composition {
    /// A body a section.
    pub bodies: Vec<String>,
    /// Sections that something was left out of, ascending.
    pub condensed: Vec<usize>,
}

/// Room that a section keeps for saying that something was left out.
const CUT_NOTE_TOKENS: u64 = 16;

/// Chooses what fits. `room` is what each section may take, `total` what all of them may.
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

/// What a line adds to a text.
pub fn line_tokens(text: &str) -> u64 {
    size::tokens(text).saturating_sub(size::tokens("")) + 1
}

/// Words of others as a quotation: nothing in it can be taken for structure of ours. Cut at a line's end, with a mark.
pub fn block_quote(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut count = 0;
    for line in text.trim().lines() {
        let line = line.trim_end();
        let length = line.chars().count() + 1;
        if count + length > most {
            let rest = most.saturating_sub(count);
            if rest > 60 {
                push_quoted(&mut out, &clean::to_one_line(line, rest));
            }
            push_quoted(&mut out, "[…]");
            return out;
        }
        count += length;
        push_quoted(&mut out, line);
    }
    out
}

fn push_quoted(out: &mut String, line: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push('>');
    if !line.is_empty() {
        out.push(' ');
        match line.trim_start().starts_with("```") {
            true => out.push_str(line),
            false => out.push_str(&clean::escape_markdown(line)),
        }
    }
}

/// A short text between quotes, on one line.
pub fn inline_quote(text: &str, most: usize) -> String {
    format!(
        "\"{}\"",
        clean::escape_markdown(&clean::to_one_line(text, most)).replace('"', "'")
    )
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
    fn the_weightiest_stay_in_their_order_and_what_is_left_out_is_said() {
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
    fn what_is_always_kept_ignores_limits() {
        let composed = compose(&[item(0, MUST_KEEP_WEIGHT, &"word ".repeat(100))], &[10], 10);
        assert!(composed.condensed.is_empty());
    }

    #[test]
    fn quotations_hold_no_structure() {
        assert_eq!(block_quote("# head\n<b>\ntext", 100), "> # head\n> &lt;b>\n> text");
        assert!(block_quote(&"long line ".repeat(50), 100).ends_with("> […]"));
    }
}
