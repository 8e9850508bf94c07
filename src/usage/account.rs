//! The figures that more than one command shows, by the one definition that all of them use: sessions, calls, cost, compactions,
//! and what explains the difference where a command counts less or more.
//!
//! Pure: takes a summary, gives sums. The parts add up: every call is in one place of its session.

use crate::usage::session::{BoundaryCounts, CallPlace};
use crate::usage::summary::{LeftOutSessions, UsageSummary};
use crate::usage::tally::UsageSums;
use replay::prices::{PicoUsd, PriceBook, PriceTable, micro_usd};
use serde_json::{Value as Json, json};
use table::human::{format_count, format_count_with_plural, format_dollars, group_digits};

/// Some calls and their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallAmount {
    /// API calls.
    pub responses: u64,
    /// Cost of those whose model has a price.
    pub cost: PicoUsd,
}

impl CallAmount {
    fn add(&mut self, cost: PicoUsd) {
        self.responses += 1;
        self.cost += cost;
    }

    fn to_json(self) -> Json {
        json!({"responses": self.responses, "cost_micro_usd": micro_usd(self.cost)})
    }
}

/// Output that the logs do not have and that is estimated: clients up to 2.1.44 wrote counts from the middle of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputRest {
    /// API calls with such a count.
    pub responses: u64,
    /// Estimated tokens beyond the recorded ones.
    pub tokens: u64,
    /// Their cost.
    pub cost: PicoUsd,
}

/// What a run counts, by the definitions that hold for every command.
#[derive(Debug, Clone, Default)]
pub struct UsageAccount {
    /// Sessions with an API call of their own.
    pub sessions: u64,
    /// Sessions that do not count.
    pub left_out: LeftOutSessions,
    /// Sums over all calls.
    pub all: UsageSums,
    /// Calls that only progress records show; in no other figure.
    pub progress_only: UsageSums,
    /// The calls by their place, in the order of [`PLACES`].
    by_place: [CallAmount; PLACES.len()],
    /// Estimated output; in no other figure.
    pub output_rest: OutputRest,
    /// Calls of the same conversations that the filters leave out; in no other figure.
    pub unselected: CallAmount,
    /// Recorded boundaries.
    pub boundaries: BoundaryCounts,
    /// Sessions that were compacted, micro-compactions left out.
    pub compacted_sessions: u64,
}

/// Places of calls, with their names in outputs.
const PLACES: [(CallPlace, &str); 4] = [
    (CallPlace::Conversation, "conversations"),
    (CallPlace::WithinResponse, "within_responses"),
    (CallPlace::RewoundBranch, "rewound"),
    (CallPlace::Elsewhere, "elsewhere"),
];

impl UsageAccount {
    /// Counts a summary.
    pub fn new(summary: &UsageSummary, prices: &PriceTable) -> UsageAccount {
        let mut account = UsageAccount {
            sessions: summary.counted_sessions().count() as u64,
            left_out: summary.left_out_sessions(),
            ..UsageAccount::default()
        };
        for (_, session) in summary.counted_sessions() {
            account.boundaries.merge(&session.boundaries);
            account.compacted_sessions += u64::from(session.boundaries.compactions() > 0);
        }
        let mut book = PriceBook::new(prices);
        let mut price_of = |session: u32, model: u32| {
            let names = &summary.sessions[session as usize].names;
            let number = book.number(names.get(model as usize).map_or("", |name| name));
            book.tariff(number).copied()
        };
        // Most calls have the model of the one before.
        let mut recent = None;
        for (session, call) in summary.numbered_calls() {
            let tariff = match recent {
                Some((known, tariff)) if known == (session, call.model) => tariff,
                _ => price_of(session, call.model),
            };
            recent = Some(((session, call.model), tariff));
            if call.is_progress {
                account.progress_only.add(call, tariff.as_ref());
                continue;
            }
            account.all.add(call, tariff.as_ref());
            let cost = |output: u64| {
                let mut tokens = call.tokens;
                tokens.output += output;
                tariff.map_or(0, |tariff| tariff.cost(&tokens, call.window))
            };
            account.by_place[place_number(call.place())].add(cost(0));
            if call.output_rest > 0 {
                account.output_rest.responses += 1;
                account.output_rest.tokens += call.output_rest;
                account.output_rest.cost += cost(call.output_rest) - cost(0);
            }
        }
        for (session, calls) in std::iter::zip(0.., &summary.unselected) {
            let is_replayed = |place| matches!(place, CallPlace::Conversation | CallPlace::WithinResponse);
            for call in calls.iter().filter(|call| is_replayed(call.place())) {
                let tariff = price_of(session, call.model);
                let cost = tariff.map_or(0, |tariff| tariff.cost(&call.tokens, call.window));
                account.unselected.add(cost);
            }
        }
        account
    }

    /// Returns the calls in a place.
    pub fn in_place(&self, place: CallPlace) -> CallAmount {
        self.by_place[place_number(place)]
    }

    /// Returns the object that every document has.
    pub fn to_json(&self) -> Json {
        let mut object = json!({
            "sessions": self.sessions,
            "left_out": self.left_out,
            "responses": self.all.responses,
            "cost_micro_usd": self.all.cost_micro_usd(),
            "unpriced_responses": self.all.unpriced,
            "unselected": self.unselected.to_json(),
            "progress_only": {
                "responses": self.progress_only.responses,
                "cost_micro_usd": self.progress_only.cost_micro_usd(),
            },
            "output_rest": {
                "responses": self.output_rest.responses,
                "output_tokens": self.output_rest.tokens,
                "cost_micro_usd": micro_usd(self.output_rest.cost),
            },
            "compactions": {
                "sessions": self.compacted_sessions,
                "automatic": self.boundaries.auto,
                "manual": self.boundaries.manual,
                "unknown_trigger": self.boundaries.unknown,
                "micro": self.boundaries.micro,
                "off_chain": self.boundaries.off_chain,
                "unselected": self.boundaries.unselected,
            },
        });
        for ((_, name), amount) in std::iter::zip(PLACES, self.by_place) {
            object[name] = amount.to_json();
        }
        object
    }

    /// Returns how the calls of conversations make up all calls, in one sentence; `None` if they are all of them and the
    /// logs have all of their output. `replayed` says what a command counted of conversations.
    pub fn explain_conversations(&self) -> Option<String> {
        let named = [
            (CallPlace::WithinResponse, "within responses"),
            (CallPlace::RewoundBranch, "on rewound branches"),
            (CallPlace::Elsewhere, "beside conversations"),
        ];
        let mut more = named
            .iter()
            .map(|(place, about)| (self.in_place(*place), *about))
            .filter(|(amount, _)| amount.responses > 0)
            .map(|(amount, about)| {
                let cost = format_dollars(micro_usd(amount.cost));
                format!("{} {about} ({cost})", group_digits(amount.responses))
            })
            .collect::<Vec<_>>();
        let inside = self.in_place(CallPlace::Conversation);
        if more.is_empty() && self.unselected.responses == 0 {
            return None;
        }
        let unselected = match self.unselected.responses {
            0 => String::new(),
            calls => format!(
                " Sessions count here as a whole: with {} that the filters leave out ({}).",
                format_count(calls, "call"),
                format_dollars(micro_usd(self.unselected.cost))
            ),
        };
        more.insert(
            0,
            format!(
                "{} in conversations ({})",
                group_digits(inside.responses),
                format_dollars(micro_usd(inside.cost))
            ),
        );
        Some(format!(
            "Recorded: {} for {}, {}.{unselected}",
            format_dollars(micro_usd(self.all.cost)),
            format_count(self.all.responses, "call"),
            join_words(&more)
        ))
    }

    /// Returns what is said of estimated output; `None` if the logs have all of it.
    pub fn explain_output_rest(&self) -> Option<String> {
        let rest = &self.output_rest;
        (rest.responses > 0).then(|| {
            format!(
                "Not in the logs: the rest of the output of {}, an estimated {} for {} (clients up to 2.1.44 wrote counts from \
                 the middle of the stream).",
                format_count(rest.responses, "call"),
                format_count(rest.tokens, "token"),
                format_dollars(micro_usd(rest.cost))
            )
        })
    }

    /// Returns which sessions do not count; `None` if all do.
    pub fn explain_left_out(&self) -> Option<String> {
        let left = self.left_out.total();
        (left > 0).then(|| {
            format!(
                "Left out: {} of {} own.",
                format_count_with_plural(left, "session without an API call", "sessions without an API call"),
                if left == 1 { "its" } else { "their" }
            )
        })
    }

    /// Returns what is said of boundaries that no conversation goes through; `None` if there are none.
    pub fn explain_off_chain(&self) -> Option<String> {
        let off = self.boundaries.off_chain;
        (off > 0).then(|| {
            format!(
                "Not counted: {} on branches that were rewound.",
                format_count_with_plural(off, "boundary", "boundaries")
            )
        })
    }

    /// Returns what is said of boundaries outside the filters, where sessions count as a whole; `None` if there are none.
    pub fn explain_unselected_boundaries(&self) -> Option<String> {
        let unselected = self.boundaries.unselected;
        (unselected > 0).then(|| {
            format!(
                "Sessions count here as a whole: with {} that the filters leave out.",
                format_count_with_plural(unselected, "boundary", "boundaries")
            )
        })
    }
}

fn place_number(place: CallPlace) -> usize {
    place as usize
}

/// Joins phrases: `a, b and c`.
fn join_words(phrases: &[String]) -> String {
    match phrases {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
