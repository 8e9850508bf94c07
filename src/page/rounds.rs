//! The calls of a chain as the page draws them: packed, and added up by day, model and fullness.

use crate::page::pack;
use crate::views::replay_rows::RoundRow;
use replay::prices::micro_usd;
use replay::sim::event::{CacheMiss, PARTS};
use replay::tokens::ledger::CATEGORIES;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use table::CellValue;
use transcript::log::NO_TIME;

/// Bars of the distribution of fullness: a twentieth of the window each, the last one for everything above.
const FULLNESS_BARS: usize = 21;

/// One call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageRound {
    /// Number of the call in its chain.
    pub call: i64,
    /// Turn.
    pub turn: i64,
    /// When it was made, in milliseconds.
    pub time: Option<i64>,
    /// Its model.
    pub model: String,
    /// Tokens sent.
    pub input: i64,
    /// Tokens sent, as the log has them.
    pub recorded: Option<i64>,
    /// Tokens answered.
    pub output: i64,
    /// System prompt and tools.
    pub base: i64,
    /// The window by category.
    pub parts: [i64; PARTS],
    /// What nothing explains.
    pub unexplained: i64,
    /// Where compaction starts.
    pub threshold: Option<i64>,
    /// Context window.
    pub window: Option<i64>,
    /// Read from the prompt cache.
    pub cache_read: i64,
    /// Written to it.
    pub cache_write: i64,
    /// Why it was missed.
    pub miss: String,
    /// Price in millionths of a dollar.
    pub cost: Option<i64>,
    /// The boundary that the log has before it.
    pub boundary: String,
    /// What happened before it.
    pub events: String,
}

impl From<&RoundRow> for PageRound {
    fn from(row: &RoundRow) -> PageRound {
        let signed = |tokens: u64| match CellValue::from(tokens) {
            CellValue::Int(number) => number,
            _ => 0,
        };
        let called = &row.called;
        PageRound {
            call: row.call.into(),
            turn: row.turn.into(),
            time: Some(row.time).filter(|time| *time != NO_TIME),
            model: row.model.to_string(),
            input: signed(called.tokens.input_side()),
            recorded: row.recorded.map(signed),
            output: signed(called.tokens.output),
            base: signed(called.base),
            parts: called.parts.map(signed),
            unexplained: called.drift,
            threshold: Some(signed(called.threshold)),
            window: row.window.map(signed),
            cache_read: signed(called.tokens.cache_read),
            cache_write: signed(called.tokens.cache_write),
            miss: called.miss.map(CacheMiss::name).unwrap_or_default().to_owned(),
            cost: called.cost.map(micro_usd),
            boundary: row.boundary.unwrap_or_default().to_owned(),
            events: row.events.clone(),
        }
    }
}

impl PageRound {
    /// A row of `rounds.csv` or `rounds.parquet`: `cell` gives the text of a column, none if it is missing.
    pub fn from_cells(cell: impl Fn(&str) -> Option<String>) -> PageRound {
        let number = |name: &str| cell(name).and_then(|text| text.parse::<i64>().ok());
        let text = |name: &str| cell(name).unwrap_or_default();
        let time = cell("time").and_then(|text| text.parse::<jiff::Timestamp>().ok());
        PageRound {
            call: number("call").unwrap_or(0),
            turn: number("turn").unwrap_or(0),
            time: time.map(jiff::Timestamp::as_millisecond),
            model: text("model"),
            input: number("input").unwrap_or(0),
            recorded: number("recorded_input"),
            output: number("output").unwrap_or(0),
            base: number("base").unwrap_or(0),
            parts: CATEGORIES.map(|category| number(category.name()).unwrap_or(0)),
            unexplained: number("unexplained").unwrap_or(0),
            threshold: number("threshold"),
            window: number("window"),
            cache_read: number("cache_read").unwrap_or(0),
            cache_write: number("cache_write").unwrap_or(0),
            miss: text("cache_miss"),
            cost: number("cost_micro_usd"),
            boundary: text("recorded_boundary"),
            events: text("events"),
        }
    }

    /// What the parts of the window add up to.
    fn parts_total(&self) -> i64 {
        self.base + self.unexplained + self.parts.iter().sum::<i64>()
    }
}

/// Names of the packed columns, in their order; the page is told them.
pub fn column_names() -> Vec<&'static str> {
    let parts = CATEGORIES.iter().map(|category| category.name());
    ["call_shift", "turn", "second", "base"]
        .into_iter()
        .chain(parts)
        .chain([
            "unexplained",
            "input_over",
            "recorded_over",
            "output",
            "threshold",
            "window",
        ])
        .chain(["cache_unread", "cache_write", "cost", "model", "miss", "boundary"])
        .collect()
}

/// Packs the calls of a chain. What can be told from other columns is written as the difference from that, which mostly
/// is nothing: calls count up, the parts add up to the input, the log agrees, and what was cached is read.
pub fn pack_chain(agent: &str, rounds: &[PageRound]) -> Json {
    let mut names = [const { Vec::<&str>::new() }; 3];
    let mut numbers = [const { Vec::new() }; 3];
    for round in rounds {
        for (list, texts) in [&round.model, &round.miss, &round.boundary].into_iter().enumerate() {
            let known = names[list].iter().position(|name| *name == texts);
            let at = known.unwrap_or_else(|| {
                names[list].push(texts);
                names[list].len() - 1
            });
            numbers[list].push(Some(at as i64));
        }
    }
    let mut bytes = Vec::new();
    let mut put = |of: &dyn Fn(usize, &PageRound) -> Option<i64>| {
        pack::pack_column(rounds.iter().enumerate().map(|(at, round)| of(at, round)), &mut bytes);
    };
    put(&|at, round| Some(round.call - at as i64));
    put(&|_, round| Some(round.turn));
    put(&|_, round| round.time.map(|time| time.div_euclid(1000)));
    put(&|_, round| Some(round.base));
    for part in 0..PARTS {
        put(&|_, round| Some(round.parts[part]));
    }
    put(&|_, round| Some(round.unexplained));
    put(&|_, round| Some(round.input - round.parts_total()));
    put(&|_, round| round.recorded.map(|recorded| recorded - round.input));
    put(&|_, round| Some(round.output));
    put(&|_, round| round.threshold);
    put(&|_, round| round.window);
    put(&|at, round| {
        let before = at
            .checked_sub(1)
            .map_or(0, |before| rounds[before].cache_read + rounds[before].cache_write);
        Some(round.cache_read - before)
    });
    put(&|_, round| Some(round.cache_write));
    put(&|_, round| round.cost);
    for list in numbers {
        pack::pack_column(list, &mut bytes);
    }
    let events = rounds.iter().enumerate().filter(|(_, round)| !round.events.is_empty());
    let [models, misses, boundaries] = names;
    json!({
        "agent": agent,
        "rounds": rounds.len(),
        "models": models,
        "misses": misses,
        "boundaries": boundaries,
        "events": events.map(|(at, round)| json!([at, round.events])).collect::<Vec<_>>(),
        "packed": pack::base64(&bytes),
    })
}

/// What calls add up to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageTally {
    /// Calls and cost by day.
    pub days: BTreeMap<String, (u64, i64)>,
    /// Calls and cost by model.
    pub models: BTreeMap<String, (u64, i64)>,
    /// Calls by fullness of the window: all, and main agents alone.
    pub fullness: [u64; FULLNESS_BARS],
    /// Calls whose window is not known.
    pub windowless: u64,
}

impl PageTally {
    /// Adds calls.
    pub fn add(&mut self, rounds: &[PageRound]) {
        for round in rounds {
            let cost = round.cost.unwrap_or(0);
            let day = round.time.and_then(table::format_time);
            let day = day.map_or_else(|| "undated".to_owned(), |time| time.chars().take(10).collect());
            for (list, name) in [(&mut self.days, day), (&mut self.models, round.model.clone())] {
                let sum = list.entry(name).or_default();
                sum.0 += 1;
                sum.1 += cost;
            }
            match round.window.filter(|window| *window > 0) {
                Some(window) => {
                    let bar = (round.input.max(0) * (FULLNESS_BARS as i64 - 1) / window) as usize;
                    self.fullness[bar.min(FULLNESS_BARS - 1)] += 1;
                }
                None => self.windowless += 1,
            }
        }
    }

    /// Adds another.
    pub fn merge(&mut self, other: PageTally) {
        for (list, more) in [(&mut self.days, other.days), (&mut self.models, other.models)] {
            for (name, (calls, cost)) in more {
                let sum = list.entry(name).or_default();
                sum.0 += calls;
                sum.1 += cost;
            }
        }
        for (sum, more) in std::iter::zip(&mut self.fullness, other.fullness) {
            *sum += more;
        }
        self.windowless += other.windowless;
    }

    /// For the page.
    pub fn to_json(&self) -> Json {
        let list = |list: &BTreeMap<String, (u64, i64)>| {
            let rows = list.iter();
            rows.map(|(name, (calls, cost))| json!({"name": name, "calls": calls, "cost_micro_usd": cost}))
                .collect::<Vec<_>>()
        };
        json!({
            "days": list(&self.days),
            "models": list(&self.models),
            "fullness": self.fullness,
            "windowless": self.windowless,
        })
    }
}

/// The calls of one session, ready for the page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRounds {
    /// Session id.
    pub session: String,
    /// Its chains, packed.
    pub chains: Vec<Json>,
    /// What its calls add up to.
    pub tally: PageTally,
}

impl SessionRounds {
    /// Packs calls, which stand chain by chain; each comes with its agent.
    pub fn new(session: &str, rounds: &[(impl AsRef<str>, PageRound)]) -> SessionRounds {
        let mut packed = SessionRounds {
            session: session.to_owned(),
            ..SessionRounds::default()
        };
        for chain in rounds.chunk_by(|(a, _), (b, _)| a.as_ref() == b.as_ref()) {
            let calls = chain.iter().map(|(_, round)| round.clone()).collect::<Vec<_>>();
            packed.tally.add(&calls);
            packed.chains.push(pack_chain(chain[0].0.as_ref(), &calls));
        }
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(call: i64, input: i64) -> PageRound {
        PageRound {
            call,
            time: Some(1_760_000_000_000 + call * 1000),
            model: "m".to_owned(),
            input,
            recorded: Some(input),
            base: 1000,
            parts: [input - 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            window: Some(200_000),
            cost: Some(5),
            ..PageRound::default()
        }
    }

    #[test]
    fn a_chain_that_grows_steadily_is_small() {
        let rounds = (0..1000)
            .map(|call| round(call, 10_000 + 50 * call))
            .collect::<Vec<_>>();
        let packed = pack_chain("", &rounds);
        assert!(packed["packed"].as_str().unwrap().len() < 6_000);
        assert_eq!(packed["rounds"], 1000);
    }

    #[test]
    fn calls_are_added_up_by_day_model_and_fullness() {
        let mut tally = PageTally::default();
        tally.add(&[round(0, 20_000), round(1, 199_999), round(2, 400_000)]);
        assert_eq!((tally.fullness[2], tally.fullness[19], tally.fullness[20]), (1, 1, 1));
        assert_eq!(tally.days["2025-10-09"], (3, 15));
        let mut twice = tally.clone();
        twice.merge(tally);
        assert_eq!(twice.models["m"], (6, 30));
    }

    #[test]
    fn a_row_of_the_file_is_the_row_of_the_run() {
        let cells = BTreeMap::from([
            ("call", "3"),
            ("time", "2026-01-02T03:04:05.678Z"),
            ("tool_results", "7"),
        ]);
        let round = PageRound::from_cells(|name| cells.get(name).map(|cell| (*cell).to_owned()));
        assert_eq!(
            (round.call, round.time, round.parts[4]),
            (3, Some(1_767_323_045_678), 7)
        );
        assert_eq!(round.recorded, None);
    }
}
