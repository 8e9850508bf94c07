//! The token ledger: what the tokens of a session were spent on, by category, tool and kind of attachment.

use crate::tokens::calibrate::TokenOrigin;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use transcript::log::{Block, BlockKind, NameId};

named_enum! {
    /// The category of a block. The order is that of reports.
    #[derive(Hash, Serialize, Deserialize)]
    pub enum Category {
        /// Prompts typed by the user.
        Human = "human",
        /// Text by the model.
        Text = "assistant_text",
        Thinking = "thinking",
        /// Tool calls, by tool.
        ToolCall = "tool_calls",
        /// Tool results, by tool.
        ToolResult = "tool_results",
        /// Commands run in the client, and their output.
        LocalCommand = "local_commands",
        /// Attachments, by kind.
        Attachment = "attachments",
        /// Images and documents outside tool results.
        Image = "images",
        /// Summaries of compactions.
        Summary = "summaries",
        /// Reminders and other text that the client inserts.
        Other = "other",
    }
}

/// All categories, in the order of reports.
pub const CATEGORIES: [Category; Category::ALL.len()] = Category::ALL;

impl Category {
    /// Returns the category of a block.
    pub fn of(block: &Block) -> Category {
        match block.kind {
            BlockKind::Human => Category::Human,
            BlockKind::Command | BlockKind::CommandOutput => Category::LocalCommand,
            BlockKind::Summary => Category::Summary,
            BlockKind::Text => Category::Text,
            BlockKind::Thinking => Category::Thinking,
            BlockKind::ToolCall => Category::ToolCall,
            BlockKind::ToolResult => Category::ToolResult,
            BlockKind::Image | BlockKind::Document => Category::Image,
            BlockKind::Attachment => Category::Attachment,
            BlockKind::Injected | BlockKind::Interruption | BlockKind::Other => Category::Other,
        }
    }
}

/// Tokens by origin. Kept as integers, in thousandths of a token, so that sums do not depend on the order of additions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Number of blocks.
    pub count: u64,
    recorded: u64,
    calibrated: u64,
    estimated: u64,
}

impl Amount {
    fn add(&mut self, tokens: f64, origin: TokenOrigin) {
        let thousandths = round_nonnegative(tokens.max(0.0) * 1000.0);
        self.count += 1;
        match origin {
            TokenOrigin::Recorded => self.recorded += thousandths,
            TokenOrigin::Calibrated => self.calibrated += thousandths,
            TokenOrigin::Estimated => self.estimated += thousandths,
        }
    }

    fn merge(&mut self, other: &Amount) {
        self.count += other.count;
        self.recorded += other.recorded;
        self.calibrated += other.calibrated;
        self.estimated += other.estimated;
    }

    /// Returns the tokens of all origins, rounded.
    pub fn tokens(&self) -> u64 {
        (self.recorded + self.calibrated + self.estimated + 500) / 1000
    }

    /// Returns the tokens of one origin, rounded.
    pub fn of_origin(&self, origin: TokenOrigin) -> u64 {
        let thousandths = match origin {
            TokenOrigin::Recorded => self.recorded,
            TokenOrigin::Calibrated => self.calibrated,
            TokenOrigin::Estimated => self.estimated,
        };
        (thousandths + 500) / 1000
    }
}

/// Rounds a non-negative number like `f64::round`, which is a library call on CPUs without SSE4.1. Runs for every block.
pub fn round_nonnegative(number: f64) -> u64 {
    let whole = number as u64;
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
}

/// Tokens by category and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenLedger {
    /// By category and name; the name is empty where the category has none.
    pub entries: BTreeMap<(Category, String), Amount>,
}

/// The entries of a ledger in order, without room for more. Every session keeps its own until all are summed, and most have few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntries(Vec<((Category, String), Amount)>);

impl From<TokenLedger> for LedgerEntries {
    fn from(ledger: TokenLedger) -> LedgerEntries {
        LedgerEntries(ledger.entries.into_iter().collect())
    }
}

/// Builds a ledger. Accounts are found by the number of the name, because there are many blocks and few names.
#[derive(Debug, Default)]
pub struct LedgerBuilder {
    /// By category and number of the name: index of the account plus one, or 0 for none. Only valid for `part`.
    slots: [Vec<u32>; Category::ALL.len()],
    /// The log whose names `slots` refers to.
    part: u32,
    accounts: Vec<LedgerAccount>,
}

#[derive(Debug)]
struct LedgerAccount {
    part: u32,
    category: Category,
    name: NameId,
    amount: Amount,
}

impl LedgerBuilder {
    /// Adds a block of log number `part` of the session.
    pub fn add(&mut self, part: u32, block: &Block, tokens: f64, origin: TokenOrigin) {
        let category = Category::of(block);
        let name = match category {
            Category::ToolCall | Category::ToolResult | Category::Attachment => block.name,
            _ => 0,
        };
        if part != self.part {
            self.switch_part(part);
        }
        let slots = &mut self.slots[category as usize];
        if slots.len() <= name as usize {
            // Grow for many names at once, because their numbers come in no order.
            slots.resize((name as usize + 1).next_multiple_of(64), 0);
        }
        let slot = &mut slots[name as usize];
        if *slot == 0 {
            self.accounts.push(LedgerAccount {
                part,
                category,
                name,
                amount: Amount::default(),
            });
            *slot = self.accounts.len() as u32;
        }
        self.accounts[*slot as usize - 1].amount.add(tokens, origin);
    }

    /// Clears the slots, because names are numbered per log. New accounts are opened; `finish` merges those of equal names.
    fn switch_part(&mut self, part: u32) {
        for slots in &mut self.slots {
            slots.clear();
        }
        self.part = part;
    }

    /// Returns the ledger; `name` returns the text of a name of a log.
    pub fn finish<'a>(&self, name: impl Fn(u32, NameId) -> &'a str) -> TokenLedger {
        let mut ledger = TokenLedger::default();
        for account in &self.accounts {
            let name = match (account.category, name(account.part, account.name)) {
                (Category::ToolCall | Category::ToolResult | Category::Attachment, "") => "(unknown)",
                (_, name) => name,
            };
            let key = (account.category, name.to_owned());
            ledger.entries.entry(key).or_default().merge(&account.amount);
        }
        ledger
    }
}

impl TokenLedger {
    /// Adds another ledger.
    pub fn merge(&mut self, other: TokenLedger) {
        if self.entries.is_empty() {
            *self = other;
            return;
        }
        for (key, amount) in other.entries {
            self.entries.entry(key).or_default().merge(&amount);
        }
    }

    /// Sums up many ledgers. They mostly have the same entries, so a hash map is filled and sorted once.
    pub fn sum(ledgers: impl IntoIterator<Item = LedgerEntries>) -> TokenLedger {
        let mut entries = HashMap::<(Category, String), Amount>::new();
        for (key, amount) in ledgers.into_iter().flat_map(|ledger| ledger.0) {
            entries.entry(key).or_default().merge(&amount);
        }
        TokenLedger {
            entries: entries.into_iter().collect(),
        }
    }

    /// Returns the tokens of a category.
    pub fn category(&self, category: Category) -> Amount {
        let mut total = Amount::default();
        for ((of, _), amount) in &self.entries {
            if *of == category {
                total.merge(amount);
            }
        }
        total
    }

    /// Returns the tokens of all categories.
    pub fn total(&self) -> Amount {
        let mut total = Amount::default();
        for amount in self.entries.values() {
            total.merge(amount);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(entries: &[(Category, &str, f64)]) -> TokenLedger {
        let mut ledger = TokenLedger::default();
        for (category, name, tokens) in entries {
            let amount = ledger.entries.entry((*category, (*name).to_owned())).or_default();
            amount.add(*tokens, TokenOrigin::Estimated);
        }
        ledger
    }

    #[test]
    fn rounding_is_that_of_round() {
        let halves = (0..2000).map(|number| f64::from(number) / 2.0);
        let odd = [
            0.499_999_999_999_999_94,
            1e15 + 0.5,
            4_503_599_627_370_495.5,
            1e19,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        for number in halves
            .flat_map(|half| [half.next_down().max(0.0), half, half.next_up()])
            .chain(odd)
        {
            assert_eq!(round_nonnegative(number), number.round() as u64, "{number}");
        }
    }

    #[test]
    fn a_sum_is_what_merging_one_by_one_gives() {
        let ledgers = [
            ledger(&[(Category::ToolCall, "Read", 1.5), (Category::ToolResult, "Read", 20.0)]),
            TokenLedger::default(),
            ledger(&[(Category::ToolCall, "Bash", 2.0), (Category::ToolCall, "Read", 0.25)]),
        ];
        let mut merged = TokenLedger::default();
        for ledger in ledgers.clone() {
            merged.merge(ledger);
        }
        assert_eq!(TokenLedger::sum(ledgers.map(LedgerEntries::from)), merged);
        let calls = merged.category(Category::ToolCall);
        assert_eq!((calls.count, calls.estimated), (3, 3750));
    }
}
