//! The calls of a chain as the page draws them: packed, and added up by day, model and fullness. Cells come from
//! [`ROUND_COLUMNS`], of a run that just ended or of the files of an earlier one.

use crate::page::{embed_json, mask_secrets, pack};
use crate::views::replay::{ROUND_COLUMNS, RoundRow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use replay::tokens::ledger::CATEGORIES;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use table::CellValue;

/// Bars of the distribution of fullness: a twentieth of the window each, the last one for everything above.
const FULLNESS_BARS: usize = 21;

/// The cells of one call, in the order of [`ROUND_COLUMNS`].
pub type RoundCells = Vec<CellValue>;

/// Returns the text of a column; empty if it is missing.
fn text<'a>(cells: &'a RoundCells, name: &str) -> &'a str {
    let place = ROUND_COLUMNS.iter().position(|column| column.name == name);
    let cell = place.and_then(|place| cells.get(place));
    cell.and_then(CellValue::as_text).unwrap_or_default()
}

/// The calls of one chain.
#[derive(Clone, Copy)]
struct ChainRounds<'a>(&'a [RoundCells]);

impl<'a> ChainRounds<'a> {
    /// Returns a column of numbers, `None` where one is missing.
    fn numbers(self, name: &str) -> Vec<Option<i64>> {
        let place = ROUND_COLUMNS.iter().position(|column| column.name == name);
        let number = |cells: &RoundCells| place.and_then(|place| cells.get(place)?.as_int());
        self.0.iter().map(number).collect()
    }

    /// Returns a column of numbers, 0 where one is missing.
    fn counts(self, name: &str) -> Vec<i64> {
        let numbers = self.numbers(name).into_iter();
        numbers.map(Option::unwrap_or_default).collect()
    }

    fn texts(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(move |cells| text(cells, name))
    }
}

/// The distinct texts of a column, and the index of each call's text.
struct TextIndex<'a> {
    names: Vec<&'a str>,
    indexes: Vec<Option<i64>>,
}

impl<'a> TextIndex<'a> {
    fn new(texts: impl Iterator<Item = &'a str>) -> TextIndex<'a> {
        let mut names = Vec::new();
        let indexes = texts.map(|text| {
            let known = names.iter().position(|name| *name == text);
            let at = known.unwrap_or_else(|| {
                names.push(text);
                names.len() - 1
            });
            Some(at as i64)
        });
        let indexes = indexes.collect();
        TextIndex { names, indexes }
    }
}

/// A packed column: its name on the page, and a number per call.
type PackedColumn = (&'static str, Vec<Option<i64>>);

/// Returns the packed columns of numbers in their order. A column that follows from others is stored as the difference from
/// that, which is mostly 0: calls count up, the parts add up to the input, the log agrees, and cached tokens are read.
fn number_columns(chain: ChainRounds<'_>) -> Vec<PackedColumn> {
    let known = |numbers: Vec<i64>| numbers.into_iter().map(Some).collect::<Vec<_>>();
    let (base, unexplained, input) = (chain.counts("base"), chain.counts("unexplained"), chain.counts("input"));
    let (cache_read, cache_write) = (chain.counts("cache_read"), chain.counts("cache_write"));
    let parts = CATEGORIES.map(|category| (category.name(), chain.counts(category.name())));
    let rest = (0..input.len()).map(|at| {
        let parts = parts.iter().map(|(_, tokens)| tokens[at]).sum::<i64>();
        input[at] - base[at] - unexplained[at] - parts
    });
    let rest = rest.collect();
    let shifts = chain.counts("call").into_iter().enumerate();
    let seconds = chain.numbers("time").into_iter();
    let recorded = std::iter::zip(chain.numbers("recorded_input"), &input);
    let unread = (0..input.len()).map(|at| {
        let before = at
            .checked_sub(1)
            .map_or(0, |before| cache_read[before] + cache_write[before]);
        cache_read[at] - before
    });
    let unread = unread.collect();
    let mut columns = vec![
        ("call_shift", shifts.map(|(at, call)| Some(call - at as i64)).collect()),
        ("turn", known(chain.counts("turn"))),
        ("second", seconds.map(|time| Some(time?.div_euclid(1000))).collect()),
        ("base", known(base)),
    ];
    columns.extend(parts.map(|(name, tokens)| (name, known(tokens))));
    columns.extend([
        ("unexplained", known(unexplained)),
        ("input_over", known(rest)),
        (
            "recorded_over",
            recorded.map(|(recorded, input)| Some(recorded? - input)).collect(),
        ),
        ("output", known(chain.counts("output"))),
        ("threshold", chain.numbers("threshold")),
        ("window", chain.numbers("window")),
        ("cache_unread", known(unread)),
        ("cache_write", known(cache_write)),
        ("cost", chain.numbers("cost_micro_usd")),
    ]);
    columns
}

/// Columns of texts: the name on the page, the list of the distinct texts, and the column of [`ROUND_COLUMNS`].
const TEXT_COLUMNS: [(&str, &str, &str); 3] = [
    ("model", "models", "model"),
    ("miss", "misses", "cache_miss"),
    ("boundary", "boundaries", "recorded_boundary"),
];

/// Returns the names of the packed columns in their order; `assets/data.js` unpacks by them.
pub fn column_names() -> Vec<&'static str> {
    let numbers = number_columns(ChainRounds(&[])).into_iter().map(|(name, _)| name);
    numbers.chain(TEXT_COLUMNS.map(|(name, ..)| name)).collect()
}

/// Packs the calls of a chain.
fn pack_chain(agent: &str, chain: ChainRounds<'_>) -> Json {
    let events = chain
        .texts("events")
        .enumerate()
        .filter(|(_, events)| !events.is_empty());
    let mut packed = json!({
        "agent": agent,
        "rounds": chain.0.len(),
        "events": events.map(|(at, events)| json!([at, events])).collect::<Vec<_>>(),
    });
    let mut bytes = Vec::new();
    for (_, numbers) in number_columns(chain) {
        pack::pack_column(numbers, &mut bytes);
    }
    for (_, list, column) in TEXT_COLUMNS {
        let index = TextIndex::new(chain.texts(column));
        pack::pack_column(index.indexes, &mut bytes);
        packed[list] = json!(index.names);
    }
    packed["packed"] = json!(STANDARD.encode(&bytes));
    packed
}

/// Sums over calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageTally {
    /// Calls and cost by day.
    pub days: BTreeMap<String, (u64, i64)>,
    /// Calls and cost by model.
    pub models: BTreeMap<String, (u64, i64)>,
    /// Calls by fullness of the window.
    pub fullness: [u64; FULLNESS_BARS],
    /// Calls whose window is not known.
    pub windowless: u64,
}

impl PageTally {
    fn add(&mut self, chain: ChainRounds<'_>) {
        let (times, costs) = (chain.numbers("time"), chain.counts("cost_micro_usd"));
        let (inputs, windows) = (chain.counts("input"), chain.numbers("window"));
        for (at, model) in chain.texts("model").enumerate() {
            let cost = costs[at];
            let day = times[at].and_then(table::format_time);
            let day = day.map_or_else(|| "undated".to_owned(), |time| time.chars().take(10).collect());
            for (list, name) in [(&mut self.days, day), (&mut self.models, model.to_owned())] {
                let sum = list.entry(name).or_default();
                sum.0 += 1;
                sum.1 += cost;
            }
            match windows[at].filter(|window| *window > 0) {
                Some(window) => {
                    let bar = (inputs[at].max(0) * (FULLNESS_BARS as i64 - 1) / window) as usize;
                    self.fullness[bar.min(FULLNESS_BARS - 1)] += 1;
                }
                None => self.windowless += 1,
            }
        }
    }

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
    pub session: String,
    /// Packed chains as they stand on the page: a list. As values they would take several times the memory.
    pub chains: String,
    /// What they add up to; taken when the session joins others.
    tally: Option<Box<PageTally>>,
}

impl SessionRounds {
    /// Of a session whose calls follow, chain by chain.
    pub fn of_session(session: &str) -> SessionRounds {
        SessionRounds {
            session: session.to_owned(),
            ..SessionRounds::default()
        }
    }

    /// Packs the calls of chains that are complete, and takes them from the list. It is called after every chain: a session may
    /// have very many. What follows may belong to the last agent, too.
    pub fn take_complete(&mut self, rows: &mut Vec<RoundRow>) {
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            return;
        };
        if first.agent != last.agent {
            let complete = rows.partition_point(|row| row.agent == first.agent);
            self.pack_rows(&rows[..complete]);
            rows.drain(..complete);
        }
    }

    /// Packs the last calls.
    pub fn finish(mut self, rows: &[RoundRow]) -> SessionRounds {
        self.pack_rows(rows);
        self.close_list();
        self
    }

    fn pack_rows(&mut self, rows: &[RoundRow]) {
        let cells = |row| ROUND_COLUMNS.iter().map(|column| column.cell(row)).collect();
        // Cells take several times the memory of a row: those of one chain at a time.
        for chain in rows.chunk_by(|a, b| a.agent == b.agent) {
            self.push_chains(&chain.iter().map(cells).collect::<Vec<_>>());
        }
    }

    /// Packs the calls of a session, which are ordered chain by chain.
    pub fn new(session: &str, rounds: &[RoundCells]) -> SessionRounds {
        let mut packed = SessionRounds {
            session: session.to_owned(),
            ..SessionRounds::default()
        };
        packed.push_chains(rounds);
        packed.close_list();
        packed
    }

    /// Ends the list of chains.
    fn close_list(&mut self) {
        if self.chains.is_empty() {
            self.chains.push('[');
        }
        self.chains.push(']');
        self.chains.shrink_to_fit();
    }

    fn push_chains(&mut self, rounds: &[RoundCells]) {
        for chain in rounds.chunk_by(|a, b| text(a, "agent") == text(b, "agent")) {
            self.tally.get_or_insert_default().add(ChainRounds(chain));
            let packed = pack_chain(text(&chain[0], "agent"), ChainRounds(chain));
            self.chains.push(if self.chains.is_empty() { '[' } else { ',' });
            self.chains.push_str(&embed_json(mask_secrets(packed)));
        }
    }
}

/// The calls of all sessions, and what they add up to. A tally takes more room than the calls of a small session, and there may
/// be very many sessions.
#[derive(Debug, Default, PartialEq)]
pub struct PageRounds {
    pub sessions: Vec<SessionRounds>,
    pub tally: PageTally,
}

impl PageRounds {
    /// Adds a session.
    pub fn push(&mut self, mut session: SessionRounds) {
        if let Some(tally) = session.tally.take() {
            self.tally.merge(*tally);
        }
        self.sessions.push(session);
    }
}

/// Gathers calls that arrive one by one, session after session.
#[derive(Default)]
pub struct SessionRoundsBuilder {
    rounds: Vec<RoundCells>,
    finished: PageRounds,
}

impl SessionRoundsBuilder {
    pub fn push(&mut self, round: RoundCells) {
        let is_same = |last: &RoundCells| text(last, "session") == text(&round, "session");
        if !self.rounds.last().is_none_or(is_same) {
            self.close_session();
        }
        self.rounds.push(round);
    }

    fn close_session(&mut self) {
        if let Some(first) = self.rounds.first() {
            let session = text(first, "session");
            self.finished.push(SessionRounds::new(session, &self.rounds));
            self.rounds.clear();
        }
    }

    pub fn finish(mut self) -> PageRounds {
        self.close_session();
        self.finished
    }
}

/// Returns the cells of a call with these columns alone.
#[cfg(test)]
pub fn test_round(known: &[(&str, CellValue)]) -> RoundCells {
    let cell = |name: &str| known.iter().find(|(column, _)| *column == name);
    let cells = ROUND_COLUMNS
        .iter()
        .map(|column| cell(column.name).map_or(CellValue::None, |(_, cell)| cell.clone()));
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(call: i64, input: i64) -> RoundCells {
        test_round(&[
            ("call", CellValue::Int(call)),
            ("time", CellValue::Int(1_760_000_000_000 + call * 1000)),
            ("model", CellValue::Text("m".to_owned())),
            ("input", CellValue::Int(input)),
            ("recorded_input", CellValue::Int(input)),
            ("base", CellValue::Int(1000)),
            ("human", CellValue::Int(input - 1000)),
            ("window", CellValue::Int(200_000)),
            ("cost_micro_usd", CellValue::Int(5)),
        ])
    }

    #[test]
    fn a_chain_that_grows_steadily_is_small() {
        let rounds = (0..1000).map(|call| round(call, 10_000 + 50 * call));
        let packed = pack_chain("", ChainRounds(&rounds.collect::<Vec<_>>()));
        assert!(packed["packed"].as_str().unwrap().len() < 6_000);
        assert_eq!(packed["rounds"], 1000);
    }

    #[test]
    fn calls_are_added_up_by_day_model_and_fullness() {
        let mut tally = PageTally::default();
        let rounds = [round(0, 20_000), round(1, 199_999), round(2, 400_000)];
        tally.add(ChainRounds(&rounds));
        assert_eq!((tally.fullness[2], tally.fullness[19], tally.fullness[20]), (1, 1, 1));
        assert_eq!(tally.days["2025-10-09"], (3, 15));
        let mut twice = tally.clone();
        twice.merge(tally);
        assert_eq!(twice.models["m"], (6, 30));
    }

    #[test]
    fn columns_are_those_of_the_rounds() {
        let names = [
            "agent",
            "session",
            "events",
            "call",
            "turn",
            "time",
            "base",
            "unexplained",
            "input",
        ];
        let more = [
            "recorded_input",
            "output",
            "threshold",
            "window",
            "cache_read",
            "cache_write",
            "cost_micro_usd",
        ];
        let texts = TEXT_COLUMNS.map(|(_, _, column)| column);
        let parts = CATEGORIES.map(|category| category.name());
        for name in names.into_iter().chain(more).chain(texts).chain(parts) {
            assert!(ROUND_COLUMNS.iter().any(|column| column.name == name), "{name}");
        }
    }

    #[test]
    fn calls_are_gathered_by_session() {
        let of = |session: &str| test_round(&[("session", CellValue::Text(session.to_owned()))]);
        let mut builder = SessionRoundsBuilder::default();
        for session in ["a", "a", "b"] {
            builder.push(of(session));
        }
        let found = builder.finish();
        assert_eq!(found.tally.windowless, 3);
        assert!(found.sessions.iter().all(|session| session.tally.is_none()));
        let found = found.sessions.iter().map(|found| {
            (
                found.session.as_str(),
                serde_json::from_str::<Json>(&found.chains).unwrap(),
            )
        });
        let found = found.map(|(session, chains)| (session, chains[0]["rounds"].clone()));
        assert_eq!(found.collect::<Vec<_>>(), [("a", json!(2)), ("b", json!(1))]);
    }
}
