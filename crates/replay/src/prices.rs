//! Prices and costs, in integer arithmetic: tokens times millionths of a micro-dollar.
//!
//! The price table is data (`prices.json`) with a date, and the user can replace it. A model that it does not list is
//! reported by name and never priced at zero.

use crate::windows::table::{is_claude, strip_provider_version};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use transcript::record::Tokens;

/// Prices of a model in US dollars per million tokens, as published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Input that is neither read from nor written to the cache.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Cache writes that live for five minutes; 1.25 times the input price if missing.
    #[serde(default)]
    pub cache_write_5m: Option<f64>,
    /// Cache writes that live for one hour; twice the input price if missing.
    #[serde(default)]
    pub cache_write_1h: Option<f64>,
    /// Cache reads; a tenth of the input price if missing.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// Input price of a request with more than 200,000 input tokens, if it differs.
    #[serde(default)]
    pub input_above_200k: Option<f64>,
    /// Output price of such a request.
    #[serde(default)]
    pub output_above_200k: Option<f64>,
    /// Input price of a request with more than 272,000 input tokens, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_above_272k: Option<f64>,
    /// Output price of such a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_above_272k: Option<f64>,
    /// Price of cache reads of such a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_above_272k: Option<f64>,
    /// Context window, if input alone may not fill it: it is larger than `max_input` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Maximum input tokens.
    #[serde(default)]
    pub max_input: Option<u64>,
    /// Maximum output tokens.
    #[serde(default)]
    pub max_output: Option<u64>,
}

/// A dated table of prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriceTable {
    /// The day when the prices were looked up.
    #[serde(default)]
    pub as_of: Option<String>,
    /// Where they come from.
    #[serde(default, alias = "note")]
    pub source: Option<String>,
    /// Prices by model.
    pub models: BTreeMap<String, Price>,
}

/// Why a price table cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// Not JSON of this shape.
    #[error("not a price table")]
    Shape(#[from] serde_json::Error),
    /// A price outside of the plausible range.
    #[error("{model}: {field} is {value}: a price must be a number from 0 to 1,000,000 dollars per million tokens")]
    Value {
        model: String,
        field: &'static str,
        value: f64,
    },
}

static BUILT_IN: LazyLock<PriceTable> = LazyLock::new(|| {
    // A unit test reads the same file, so this cannot fail in a released binary.
    PriceTable::parse(PriceTable::built_in_text()).unwrap_or_else(|error| unreachable!("prices.json: {error}"))
});

/// A cost in millionths of a micro-dollar, the unit of all sums.
pub type PicoUsd = u128;

/// Rounds a sum to micro-dollars.
pub fn micro_usd(pico: PicoUsd) -> i64 {
    i64::try_from((pico + 500_000) / 1_000_000).unwrap_or(i64::MAX)
}

impl PriceTable {
    /// Returns the built-in table.
    pub fn built_in() -> &'static PriceTable {
        &BUILT_IN
    }

    /// Returns the text of the built-in table.
    pub fn built_in_text() -> &'static str {
        include_str!("prices.json")
    }

    /// Parses a table and checks its prices.
    pub fn parse(text: &str) -> Result<PriceTable, PriceError> {
        let table: PriceTable = serde_json::from_str(text)?;
        for (model, price) in &table.models {
            let fields = [
                ("input", Some(price.input)),
                ("output", Some(price.output)),
                ("cache_write_5m", price.cache_write_5m),
                ("cache_write_1h", price.cache_write_1h),
                ("cache_read", price.cache_read),
                ("input_above_200k", price.input_above_200k),
                ("output_above_200k", price.output_above_200k),
                ("input_above_272k", price.input_above_272k),
                ("output_above_272k", price.output_above_272k),
                ("cache_read_above_272k", price.cache_read_above_272k),
            ];
            for (field, value) in fields {
                if let Some(value) = value.filter(|value| !(0.0..=1e6).contains(value)) {
                    let model = model.clone();
                    return Err(PriceError::Value { model, field, value });
                }
            }
        }
        Ok(table)
    }

    /// Returns the price of a model: by its full name, else without what providers add around it, else without its date or
    /// with the newest listed date. `None` if the table does not list it.
    pub fn find(&self, model: &str) -> Option<&Price> {
        if let Some(price) = self.models.get(model) {
            return Some(price);
        }
        let name = model.rsplit('/').next().unwrap_or(model);
        let name = name.split(['@', ':', '[']).next().unwrap_or(name);
        let name = strip_provider_version(name);
        // A dot may end what a provider adds, or belong to the version. Gateways also write `claude-opus-4.5`.
        self.find_undated(name)
            .or_else(|| self.find_undated(name.rsplit('.').next()?))
            .or_else(|| is_claude(name).then(|| self.find_undated(&name.replace('.', "-")))?)
    }

    /// Looks a bare name up, also without its date or with the newest listed date.
    fn find_undated(&self, name: &str) -> Option<&Price> {
        let undated = strip_date(name);
        let dated = || {
            let prefix = format!("{undated}-");
            let newest = self
                .models
                .range(prefix.clone()..)
                .take_while(|(known, _)| known.starts_with(&prefix));
            newest
                .filter(|(known, _)| strip_date(known) == undated)
                .last()
                .map(|(_, price)| price)
        };
        self.models
            .get(name)
            .or_else(|| self.models.get(undated))
            .or_else(dated)
    }
}

/// Memoizes the lookups of a price table, because a corpus has few models and many calls.
pub struct PriceBook<'a> {
    table: &'a PriceTable,
    /// Models looked up so far, by number.
    known: Vec<(String, Option<Tariff>)>,
    /// Numbers of those models.
    numbers: HashMap<String, usize>,
}

impl<'a> PriceBook<'a> {
    pub fn new(table: &'a PriceTable) -> PriceBook<'a> {
        PriceBook {
            table,
            known: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    /// Returns the number of a model, for [`PriceBook::tariff`].
    pub fn number(&mut self, model: &str) -> usize {
        // There are rarely more than a few models, so a linear scan beats hashing the name.
        let first = self.known.iter().take(8).position(|(known, _)| known == model);
        if let Some(number) = first.or_else(|| self.numbers.get(model).copied()) {
            return number;
        }
        let number = self.known.len();
        let tariff = self.table.find(model).map(Price::tariff);
        self.known.push((model.to_owned(), tariff));
        self.numbers.insert(model.to_owned(), number);
        number
    }

    /// Iterates over the models that were looked up and have no price.
    pub fn unpriced(&self) -> impl Iterator<Item = &str> {
        let unpriced = self.known.iter().filter(|(_, tariff)| tariff.is_none());
        unpriced.map(|(model, _)| model.as_str())
    }

    /// Returns the tariff of a model by its number; `None` if it has no price.
    pub fn tariff(&self, number: usize) -> Option<&Tariff> {
        self.known.get(number)?.1.as_ref()
    }
}

/// Integer prices per token, in [`PicoUsd`]: input, output, five-minute cache writes, one-hour cache writes, cache reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tariff {
    usual: [u64; 5],
    /// For calls with more input tokens than `limit`.
    long: [u64; 5],
    limit: u64,
}

impl Tariff {
    /// Returns the cost of one API call. `window` is its input, which decides whether long-context prices apply.
    pub fn cost(&self, tokens: &Tokens, window: u64) -> PicoUsd {
        let prices = if window > self.limit { &self.long } else { &self.usual };
        let counts = [
            tokens.input,
            tokens.output,
            tokens.cache_write - tokens.cache_write_1h.min(tokens.cache_write),
            tokens.cache_write_1h,
            tokens.cache_read,
        ];
        std::iter::zip(counts, prices)
            .map(|(count, price)| PicoUsd::from(count) * PicoUsd::from(*price))
            .sum()
    }
}

/// Returns the tariffs of a list of prices; `None` where a price is missing.
pub fn tariffs<L: FromIterator<Option<Tariff>>>(prices: &[Option<&Price>]) -> L {
    prices.iter().map(|price| price.map(Price::tariff)).collect()
}

/// Returns a name without its date: `-20251101` or `-2025-11-01`.
fn strip_date(name: &str) -> &str {
    let is_digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (rest, last) = name.rsplit_once('-').unwrap_or(("", name));
    if !rest.is_empty() && is_digits(last, 8) {
        return rest;
    }
    let mut parts = name.rsplitn(4, '-');
    match [parts.next(), parts.next(), parts.next(), parts.next()] {
        [Some(day), Some(month), Some(year), Some(rest)]
            if is_digits(day, 2) && is_digits(month, 2) && is_digits(year, 4) =>
        {
            rest
        }
        _ => name,
    }
}

/// Input tokens above which some models cost more.
const LONG_CONTEXT: u64 = 200_000;

/// The same for models that name this limit.
const LONGER_CONTEXT: u64 = 272_000;

impl Price {
    /// Converts the price to integers.
    pub fn tariff(&self) -> Tariff {
        let prices = |is_long: bool| {
            let raised = |price: Option<f64>| price.filter(|_| is_long);
            let input = raised(self.input_above_272k.or(self.input_above_200k)).unwrap_or(self.input);
            let output = raised(self.output_above_272k.or(self.output_above_200k)).unwrap_or(self.output);
            // Cache prices are multiples of the input price, so they rise with it.
            let rise = if self.input > 0.0 { input / self.input } else { 1.0 };
            let write_5m = self.cache_write_5m.unwrap_or(1.25 * self.input) * rise;
            let write_1h = self.cache_write_1h.unwrap_or(2.0 * self.input) * rise;
            let read = self.cache_read.unwrap_or(0.1 * self.input) * rise;
            let read = raised(self.cache_read_above_272k).unwrap_or(read);
            // A dollar per million tokens is a micro-dollar per token.
            [input, output, write_5m, write_1h, read].map(|price| (price * 1e6).round() as u64)
        };
        Tariff {
            usual: prices(false),
            long: prices(true),
            limit: match self.input_above_272k {
                Some(_) => LONGER_CONTEXT,
                None => LONG_CONTEXT,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: Tokens = Tokens {
        input: 1_000,
        output: 100,
        cache_write: 3_000,
        cache_write_1h: 1_000,
        cache_read: 10_000,
    };

    #[test]
    fn each_kind_of_token_at_its_own_price() {
        let price = PriceTable::built_in().find("claude-opus-4-5").unwrap();
        // 1000 x 5 + 100 x 25 + 2000 x 6.25 + 1000 x 10 + 10000 x 0.5
        assert_eq!(
            micro_usd(price.tariff().cost(&TOKENS, 14_000)),
            5_000 + 2_500 + 12_500 + 10_000 + 5_000
        );
    }

    #[test]
    fn long_requests_cost_more_where_the_model_says_so() {
        let table = PriceTable::built_in();
        let sonnet = table.find("claude-sonnet-4-20250514").unwrap();
        assert_eq!(
            micro_usd(sonnet.tariff().cost(&TOKENS, 200_000)),
            3_000 + 1_500 + 7_500 + 6_000 + 3_000
        );
        assert_eq!(
            micro_usd(sonnet.tariff().cost(&TOKENS, 200_001)),
            6_000 + 2_250 + 15_000 + 12_000 + 6_000
        );
        let opus = table.find("claude-opus-4-6").unwrap();
        assert_eq!(opus.tariff().cost(&TOKENS, 300_000), opus.tariff().cost(&TOKENS, 3_000));
    }

    #[test]
    fn the_limit_of_long_requests_depends_on_the_model() {
        let price = PriceTable::built_in().find("gpt-5.5").unwrap();
        let tokens = Tokens {
            input: 1_000,
            output: 100,
            cache_read: 10_000,
            ..Tokens::default()
        };
        // 1000 x 5 + 100 x 30 + 10000 x 0.5, and twice the input, 1.5 times the output.
        assert_eq!(micro_usd(price.tariff().cost(&tokens, 272_000)), 5_000 + 3_000 + 5_000);
        assert_eq!(
            micro_usd(price.tariff().cost(&tokens, 272_001)),
            10_000 + 4_500 + 10_000
        );
    }

    #[test]
    fn versions_with_dots_are_no_prefixes() {
        let table = PriceTable::built_in();
        let price = table.find("gpt-5.4");
        assert!(price.is_some());
        for name in ["openai/gpt-5.4", "gpt-5.4-2026-03-05", "gpt-5.4-2027-01-01"] {
            assert_eq!(table.find(name), price, "{name}");
        }
        assert_eq!(table.find("gpt-5.99"), None);
        assert_eq!(table.find("mimo-v2.5-free"), None);
    }

    #[test]
    fn names_are_found_through_what_providers_add() {
        let table = PriceTable::built_in();
        let opus = table.find("claude-opus-4-5-20251101");
        assert!(opus.is_some());
        for name in [
            "claude-opus-4-5",
            "anthropic/claude-opus-4-5",
            "us.anthropic.claude-opus-4-5-20251101-v1:0",
            "claude-opus-4-5@20251101",
            "claude-opus-4-5-20991231",
            "claude-opus-4-5[1m]",
            "anthropic/claude-opus-4.5",
            "anthropic.claude-opus-4-5-20251101-v2:0",
        ] {
            assert_eq!(table.find(name), opus, "{name}");
        }
        assert_eq!(table.find("claude-sonnet-4"), table.find("claude-sonnet-4-20250514"));
        assert_eq!(table.find("gpt-9"), None);
        assert_eq!(table.find("claude-opus"), None);
    }

    #[test]
    fn absurd_prices_are_refused() {
        assert!(PriceTable::parse(r#"{"models": {"m": {"input": -1, "output": 1}}}"#).is_err());
        assert!(PriceTable::parse(r#"{"models": {"m": {"input": 1}}}"#).is_err());
        assert!(PriceTable::parse(r#"{"models": {"m": {"input": 1, "output": 2}}, "note": "x"}"#).is_ok());
    }
}
