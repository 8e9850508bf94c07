//! Usage in the smallest groups that a reader of the page can choose from: the calls of a session on one day with one model.
//! Every grouping by time, project or model is a sum of these.

use crate::usage::period::day_of;
use crate::usage::summary::UsageSummary;
use crate::usage::tally::UsageSums;
use jiff::tz::TimeZone;
use replay::prices::{PriceBook, PriceTable};
use std::collections::BTreeMap;
use transcript::log::Time;

/// Milliseconds of a day.
const DAY: Time = 86_400_000;

/// Calls of one session on one day with one model.
#[derive(Debug, Clone, Default)]
pub struct UsageCell {
    /// Place of the session among those that count.
    pub session: usize,
    /// Day in UTC.
    pub day: String,
    pub model: String,
    pub sums: UsageSums,
}

/// Splits the calls of all sessions that count, in the order of sessions and days. Calls that only progress records show are
/// in no cell, as they are in no total.
pub fn usage_cells(summary: &UsageSummary, prices: &PriceTable) -> Vec<UsageCell> {
    let mut book = PriceBook::new(prices);
    let mut cells = Vec::new();
    for (place, (number, session)) in summary.counted_sessions().enumerate() {
        let calls = summary.calls.get(number as usize).into_iter().flatten();
        // By day and model; the time of one call names the day.
        let mut own = BTreeMap::<(Time, u32), (Time, UsageSums)>::new();
        for call in calls.filter(|call| !call.is_progress) {
            let model = session.names.get(call.model as usize).map_or("", |model| model);
            let price = book.number(model);
            let key = (call.time.div_euclid(DAY), call.model);
            let (_, sums) = own.entry(key).or_insert_with(|| (call.time, UsageSums::default()));
            sums.add(call, book.tariff(price));
        }
        cells.extend(own.into_iter().map(|((_, model), (time, sums))| UsageCell {
            session: place,
            day: day_of(time, &TimeZone::UTC),
            model: session.names.get(model as usize).cloned().unwrap_or_default(),
            sums,
        }));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::session::{BilledCall, SessionReport};
    use transcript::log::NO_TIME;
    use transcript::record::Tokens;

    #[test]
    fn calls_are_split_by_session_day_and_model() {
        let call = |day: i64, model: u32, output: u64| BilledCall {
            time: if day < 0 { NO_TIME } else { day * DAY + 5 },
            model,
            tokens: Tokens {
                output,
                ..Tokens::default()
            },
            ..BilledCall::default()
        };
        let session = |id: &str| SessionReport {
            id: id.to_owned(),
            names: vec![String::new(), "m".to_owned(), "n".to_owned()],
            ..SessionReport::default()
        };
        let unseen = BilledCall {
            is_progress: true,
            ..call(0, 1, 9)
        };
        let summary = UsageSummary {
            sessions: vec![Box::new(session("none")), Box::new(session("some"))],
            calls: vec![
                vec![unseen],
                vec![
                    call(1, 1, 1),
                    call(1, 1, 2),
                    call(1, 2, 4),
                    call(0, 1, 8),
                    call(-1, 1, 16),
                ],
            ],
            ..UsageSummary::default()
        };
        let cells = usage_cells(&summary, PriceTable::built_in());
        let found = cells
            .iter()
            .map(|cell| (cell.session, cell.day.as_str(), cell.model.as_str(), cell.sums.output));
        let expected = [
            (0, "(undated)", "m", 16),
            (0, "1970-01-01", "m", 8),
            (0, "1970-01-02", "m", 3),
            (0, "1970-01-02", "n", 4),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
