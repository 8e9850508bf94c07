//! What texts in simulated boundaries lack (`replay --with-text`).

use notes::coverage::{NEED_KINDS, NeedCoverage};
use serde_json::{Value as Json, json};

/// Losses of the texts of one boundary, or of many.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextLosses {
    pub boundaries: u64,
    pub by_notes: u64,
    pub tokens: u64,
    pub prompts: u64,
    pub prompts_in_full: u64,
    pub prompts_in_part: u64,
    pub needs: [NeedCoverage; 4],
}

impl TextLosses {
    /// Adds the losses of other boundaries.
    pub fn add(&mut self, other: TextLosses) {
        self.boundaries += other.boundaries;
        self.by_notes += other.by_notes;
        self.tokens += other.tokens;
        self.prompts += other.prompts;
        self.prompts_in_full += other.prompts_in_full;
        self.prompts_in_part += other.prompts_in_part;
        for (sum, one) in std::iter::zip(&mut self.needs, other.needs) {
            sum.add(one);
        }
    }

    /// Returns the object of `summary.json` and `boundaries.jsonl`.
    pub fn to_json(&self) -> Json {
        let needs = NEED_KINDS.iter().map(|need| {
            let carried = self.needs[*need as usize];
            let value = json!({"needed": carried.needed, "carried": carried.carried, "share": carried.share()});
            (need.name().to_owned(), value)
        });
        json!({
            "boundaries": self.boundaries,
            "by_notes": self.by_notes,
            "tokens": self.tokens,
            "prompts": self.prompts,
            "prompts_in_full": self.prompts_in_full,
            "prompts_in_part": self.prompts_in_part,
            "prompts_lost": self.prompts - self.prompts_in_full - self.prompts_in_part,
            "needs": serde_json::Map::from_iter(needs),
        })
    }
}
