//! Rows of sessions that are made when they are written: there may be very many sessions, and a row takes more room than what it
//! is made from.

use crate::usage::session::SessionReport;
use crate::usage::summary::UsageSummary;
use crate::usage::tally::{UsageRow, UsageSums, UsageTally, fill_session_texts, session_row};
use jiff::tz::TimeZone;
use replay::prices::{PicoUsd, PriceBook, PriceTable};
use std::cell::RefCell;
use std::cmp::Reverse;
use transcript::log::Time;

/// The usage of sessions, a row each, in the order of `super::tally::sort_by_cost`.
pub struct SessionRows<'a> {
    summary: &'a UsageSummary,
    zone: &'a TimeZone,
    book: RefCell<PriceBook<'a>>,
    /// Numbers of the sessions.
    order: Vec<u32>,
}

/// What decides the place of a row: cost, calls, start, number of the session.
type RowRank = (Reverse<(PicoUsd, u64)>, Time, u32);

impl<'a> SessionRows<'a> {
    /// Sums up the calls of each session. Also returns the sum of all rows, and a tally that has everything but the rows.
    pub fn new(
        summary: &'a UsageSummary,
        zone: &'a TimeZone,
        prices: &'a PriceTable,
    ) -> (SessionRows<'a>, UsageRow, UsageTally) {
        let mut rows = SessionRows {
            summary,
            zone,
            book: RefCell::new(PriceBook::new(prices)),
            order: Vec::new(),
        };
        let mut total = UsageRow::total(&[]);
        let mut ranks = Vec::<RowRank>::with_capacity(summary.counted_sessions().count());
        for (number, session) in summary.counted_sessions() {
            let row = rows.sum_up(number, session);
            let start = row.times.map_or(Time::MAX, |times| times.0);
            ranks.push((Reverse((row.sums.cost, row.sums.responses)), start, number));
            total.absorb(&row);
        }
        let id = |rank: &RowRank| &summary.sessions[rank.2 as usize].id;
        ranks.sort_unstable_by(|a, b| (a.0, a.1, id(a)).cmp(&(b.0, b.1, id(b))));
        rows.order = ranks.into_iter().map(|rank| rank.2).collect();
        let book = rows.book.get_mut();
        let mut progress_only = UsageSums::default();
        for (number, call) in summary.numbered_calls().filter(|(_, call)| call.is_progress) {
            let model = book.number(summary.sessions[number as usize].name(call.model));
            progress_only.add(call, book.tariff(model));
        }
        let tally = UsageTally {
            rows: Vec::new(),
            progress_only,
            unknown: book.unpriced().map(str::to_owned).collect(),
        };
        (rows, total, tally)
    }

    /// Makes the rows, one at a time.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = UsageRow> + Clone {
        self.order.iter().map(|&number| {
            let session = &self.summary.sessions[number as usize];
            let mut row = self.sum_up(number, session);
            fill_session_texts(&mut row, session, self.zone);
            row
        })
    }

    /// Returns the row of a session without its texts: to find and mask these is most of the work.
    fn sum_up(&self, number: u32, session: &SessionReport) -> UsageRow {
        let mut row = session_row(number, session);
        let mut book = self.book.borrow_mut();
        let calls = self.summary.calls.get(number as usize).into_iter().flatten();
        let mut calls = calls.filter(|call| !call.is_progress).peekable();
        while let Some(first) = calls.next() {
            let model = session.name(first.model);
            let price = book.number(model);
            let tariff = book.tariff(price);
            let mut sums = UsageSums::default();
            sums.add(first, tariff);
            while let Some(call) = calls.next_if(|call| call.model == first.model) {
                sums.add(call, tariff);
            }
            row.sums.merge(&sums);
            row.models.merge(model, &sums);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::period::GroupBy;
    use crate::usage::selection::Selection;
    use crate::usage::session::BilledCall;
    use crate::usage::summary::LogFacts;
    use crate::usage::tally::group_calls;
    use transcript::record::Tokens;

    /// Sessions of every kind that the order and the sums depend on.
    fn summary() -> UsageSummary {
        let call = |model: u32, output: u64, is_progress: bool| BilledCall {
            model,
            is_progress,
            tokens: Tokens {
                output,
                ..Tokens::default()
            },
            ..BilledCall::default()
        };
        let session = |id: &str, start: Time, calls: Vec<BilledCall>| {
            Box::new(SessionReport {
                id: id.into(),
                project: "/work/shop".into(),
                names: ["", "claude-opus-4-5", "no-such-model"].map(Into::into).to_vec(),
                times: Some((start, start + 5)),
                calls,
                ..SessionReport::default()
            })
        };
        let sessions = vec![
            session("b", 7, vec![call(1, 10, false), call(2, 3, false), call(1, 4, false)]),
            session("d", 9, vec![call(1, 500, false)]),
            session("c", 9, vec![call(1, 500, false), call(2, 9, true)]),
            session("e", 8, vec![call(1, 500, false)]),
            session("without calls of its own", 1, vec![call(1, 1, true)]),
        ];
        UsageSummary::new(LogFacts::default(), sessions, Vec::new(), &Selection::default())
    }

    #[test]
    fn rows_are_those_of_the_groups() {
        let (summary, prices, zone) = (summary(), PriceTable::built_in(), TimeZone::UTC);
        let (rows, total, tally) = SessionRows::new(&summary, &zone, prices);
        let groups = group_calls(&summary, GroupBy::Session, false, &zone, prices);
        let shown = |rows: &[UsageRow]| rows.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>();
        let made = rows.iter().collect::<Vec<_>>();
        assert_eq!(shown(&made), shown(&groups.rows));
        assert_eq!(
            made.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(),
            ["e", "c", "d", "b"]
        );
        assert_eq!(shown(&[total]), shown(&[UsageRow::total(&groups.rows)]));
        assert_eq!(
            format!("{:?}", tally.progress_only),
            format!("{:?}", groups.progress_only)
        );
        assert_eq!(tally.unknown, groups.unknown);
        assert_eq!(tally.unknown.len(), 1);
    }
}
