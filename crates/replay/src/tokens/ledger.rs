//! The ledger: what the tokens of a session were spent on, by category, tool and kind of attachment.

use crate::tokens::calibrate::TokenOrigin;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use transcript::log::{Block, BlockKind, NameId};

/// What a block is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Category {
    /// What people typed.
    Human,
    /// Assistant text.
    Text,
    /// Thinking.
    Thinking,
    /// Tool calls, by tool.
    ToolCall,
    /// Tool results, by tool.
    ToolResult,
    /// Commands run in the client, and what they printed.
    LocalCommand,
    /// Attachments, by kind.
    Attachment,
    /// Images and documents outside tool results.
    Image,
    /// Summaries of compactions.
    Summary,
    /// Reminders and whatever else the client put in.
    Other,
}

/// All categories, in the order of reports (and of their declaration).
pub const CATEGORIES: [Category; 10] = [
    Category::Human,
    Category::Text,
    Category::Thinking,
    Category::ToolCall,
    Category::ToolResult,
    Category::LocalCommand,
    Category::Attachment,
    Category::Image,
    Category::Summary,
    Category::Other,
];

impl Category {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Category::Human => "human",
            Category::Text => "assistant_text",
            Category::Thinking => "thinking",
            Category::ToolCall => "tool_calls",
            Category::ToolResult => "tool_results",
            Category::LocalCommand => "local_commands",
            Category::Attachment => "attachments",
            Category::Image => "images",
            Category::Summary => "summaries",
            Category::Other => "other",
        }
    }

    /// The category of a block.
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
            BlockKind::Injected | BlockKind::Other => Category::Other,
        }
    }
}

/// Tokens by origin, in thousandths so that sums do not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many blocks.
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

    /// Tokens of all origins.
    pub fn tokens(&self) -> u64 {
        (self.recorded + self.calibrated + self.estimated + 500) / 1000
    }

    /// Tokens of one origin.
    pub fn of_origin(&self, origin: TokenOrigin) -> u64 {
        let thousandths = match origin {
            TokenOrigin::Recorded => self.recorded,
            TokenOrigin::Calibrated => self.calibrated,
            TokenOrigin::Estimated => self.estimated,
        };
        (thousandths + 500) / 1000
    }
}

/// What `round` gives of a number that is not negative. That is a call on processors without an instruction for it.
pub fn round_nonnegative(number: f64) -> u64 {
    let whole = number as u64;
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
}

/// Tokens by category and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenLedger {
    /// By category and, where it has one, tool or kind.
    pub entries: BTreeMap<(Category, String), Amount>,
}

/// A ledger while blocks are booked: keyed by numbers, because there are many blocks and few names.
#[derive(Debug, Default)]
pub struct LedgerBuilder {
    /// By category, then by the number of the name: which of the accounts it is, plus one. Of the part booked last.
    slots: [Vec<u32>; CATEGORIES.len()],
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
    /// Books a block of part number `part` of a session.
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
            // For many names at once: they come in no order.
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

    /// Names are numbered per part: a session that moves on to another one starts new accounts, which `finish` joins.
    fn switch_part(&mut self, part: u32) {
        for slots in &mut self.slots {
            slots.clear();
        }
        self.part = part;
    }

    /// The ledger; `name` gives the text of a name of a part.
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

    /// Adds up many ledgers, which mostly have the same entries: found by hash, sorted once.
    pub fn sum(ledgers: impl IntoIterator<Item = TokenLedger>) -> TokenLedger {
        let mut entries = HashMap::<(Category, String), Amount>::new();
        for (key, amount) in ledgers.into_iter().flat_map(|ledger| ledger.entries) {
            entries.entry(key).or_default().merge(&amount);
        }
        TokenLedger {
            entries: entries.into_iter().collect(),
        }
    }

    /// Tokens of a category.
    pub fn category(&self, category: Category) -> Amount {
        let mut total = Amount::default();
        for ((of, _), amount) in &self.entries {
            if *of == category {
                total.merge(amount);
            }
        }
        total
    }

    /// Tokens of everything.
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
        assert_eq!(TokenLedger::sum(ledgers), merged);
        let calls = merged.category(Category::ToolCall);
        assert_eq!((calls.count, calls.estimated), (3, 3750));
    }
}
