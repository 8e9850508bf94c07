//! The figures that more than one command shows, by the one definition that all of them use: sessions, calls, cost, compactions,
//! and what explains the difference where a command counts less or more.
//!
//! Pure: takes a summary, gives sums. The parts add up: every call is in one place of its session.

use crate::usage::session::{BilledCall, BoundaryCounts, CallPlace};
use crate::usage::summary::{LeftOutSessions, UsageSummary};
use crate::usage::tally::UsageSums;
use replay::prices::{PicoUsd, PriceBook, PriceTable, Tariff, micro_usd};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use table::human::{format_count, format_count_with_plural, format_dollars, group_digits};
use transcript::agents::Agent;

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
    /// Of these, those of each coding agent.
    pub sessions_by_agent: BTreeMap<Agent, u64>,
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
    /// What a replay finds of the selected calls: calls of conversations, each as its session tells it. The cost has the calls
    /// within responses, too.
    pub replayable: CallAmount,
    /// The estimated output of these.
    replayable_rest: PicoUsd,
    /// Calls of conversations whose usage the log does not have.
    pub unbilled: u64,
    /// Recorded boundaries, wherever they are.
    pub boundaries: BoundaryCounts,
    /// Those that a conversation goes through.
    chain_boundaries: BoundaryCounts,
    /// Automatic compactions that none goes through, and that a replay is compared with nevertheless.
    off_chain_auto: u64,
    /// Sessions that were compacted, micro-compactions left out.
    pub compacted_sessions: u64,
}

/// Places of calls, with their names in outputs.
const PLACES: [(CallPlace, &str); 5] = [
    (CallPlace::Conversation, "conversations"),
    (CallPlace::WithinResponse, "within_responses"),
    (CallPlace::RewoundBranch, "rewound"),
    (CallPlace::ClientItself, "of_client"),
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
            *account.sessions_by_agent.entry(session.coding_agent).or_default() += 1;
            account.boundaries.merge(&session.boundaries.value());
            account.chain_boundaries.merge(&session.chain_boundaries.value());
            account.off_chain_auto += session.off_chain_auto;
            account.compacted_sessions += u64::from(session.boundaries.value().compactions() > 0);
        }
        account.unbilled = summary.sessions.iter().map(|session| session.unbilled).sum();
        let mut tariffs = SessionTariffs::new(summary, prices);
        for (session, call) in summary.numbered_calls() {
            let tariff = tariffs.find(session, call);
            if call.is_progress {
                account.progress_only.add(call, tariff.as_ref());
                continue;
            }
            account.all.add(call, tariff.as_ref());
            let (cost, rest) = price_call(call, tariff);
            account.by_place[call.place() as usize].add(cost);
            if call.output_rest > 0 {
                account.output_rest.responses += 1;
                account.output_rest.tokens += call.output_rest;
                account.output_rest.cost += rest;
            }
            if !call.is_retold {
                account.add_replayable(call, (cost, rest));
            }
        }
        for (session, call) in &summary.retold {
            account.add_replayable(call, price_call(call, tariffs.find(*session, call)));
        }
        for (session, calls) in std::iter::zip(0.., &summary.unselected) {
            for call in calls.iter().filter(|call| is_replayed(call)) {
                let (cost, _) = price_call(call, tariffs.find(session, call));
                account.unselected.add(cost);
            }
        }
        account
    }

    fn add_replayable(&mut self, call: &BilledCall, (cost, rest): (PicoUsd, PicoUsd)) {
        if is_replayed(call) {
            self.replayable.responses += u64::from(call.place() == CallPlace::Conversation);
            self.replayable.cost += cost;
            self.replayable_rest += rest;
        }
    }

    /// Returns the calls in a place.
    pub fn in_place(&self, place: CallPlace) -> CallAmount {
        self.by_place[place as usize]
    }

    /// Returns the object that every document has.
    pub fn to_json(&self) -> Json {
        let inside = &self.chain_boundaries;
        let mut object = json!({
            "sessions": self.sessions,
            "left_out": self.left_out,
            "responses": self.all.responses,
            "cost_micro_usd": self.all.cost_micro_usd(),
            "unpriced_responses": self.all.unpriced,
            "unselected": self.unselected.to_json(),
            "replayable": {
                "responses": self.replayable.responses,
                "responses_with_unbilled": self.replayable.responses + self.unbilled,
                "cost_micro_usd": micro_usd(self.replayable.cost),
                "cost_with_rest_micro_usd": micro_usd(self.replayable.cost + self.replayable_rest),
            },
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
                "total": self.boundaries.compactions(),
                "automatic": self.boundaries.auto,
                "manual": self.boundaries.manual,
                "unknown_trigger": self.boundaries.unknown,
                "micro": self.boundaries.micro,
                "in_conversations": {
                    "total": inside.compactions(),
                    "automatic": inside.auto,
                    "manual": inside.manual,
                    "unknown_trigger": inside.unknown,
                    "micro": inside.micro,
                },
                "off_chain": self.off_chain(),
                "predictable": inside.auto + self.off_chain_auto,
                "unselected": inside.unselected,
            },
        });
        for ((_, name), amount) in std::iter::zip(PLACES, self.by_place) {
            object[name] = amount.to_json();
        }
        object
    }

    /// Returns how the calls of conversations, which are all that a replay knows, make up all calls; `None` if they are the
    /// same.
    pub fn explain_conversations(&self) -> Option<String> {
        let inside = self.in_place(CallPlace::Conversation);
        let amount = |amount: CallAmount, about: &str| {
            let cost = format_dollars(micro_usd(amount.cost));
            format!("{} {about} ({cost})", group_digits(amount.responses))
        };
        let named = [
            (CallPlace::WithinResponse, "within responses"),
            (CallPlace::RewoundBranch, "on rewound branches"),
            (CallPlace::ClientItself, "of the client for itself"),
            (CallPlace::Elsewhere, "beside conversations"),
        ];
        let more = named.iter().map(|(place, about)| (self.in_place(*place), *about));
        let more = more.filter(|(found, _)| found.responses > 0);
        let mut parts = vec![amount(inside, "in conversations")];
        parts.extend(more.map(|(found, about)| amount(found, about)));
        let notes = self.replay_notes();
        if parts.len() == 1 && notes.is_empty() {
            return None;
        }
        Some(format!(
            "Recorded: {} for {}, {}.{notes}",
            format_dollars(micro_usd(self.all.cost)),
            format_count(self.all.responses, "call"),
            join_words(&parts)
        ))
    }

    /// Returns what a replay has beyond the calls that count, each sentence with a space before it.
    fn replay_notes(&self) -> String {
        let mut notes = String::new();
        let again = self
            .replayable
            .responses
            .saturating_sub(self.in_place(CallPlace::Conversation).responses);
        if again > 0 {
            notes.push_str(&format!(
                " {} told again elsewhere and replayed there, too.",
                format_count_with_plural(again, "call is", "calls are")
            ));
        }
        if self.unbilled > 0 {
            notes.push_str(&format!(
                " {} without usage and replayed as well.",
                format_count_with_plural(self.unbilled, "more call is", "more calls are")
            ));
        }
        if self.unselected.responses > 0 {
            notes.push_str(&format!(
                " Sessions count here as a whole: with {} that the filters leave out ({}).",
                format_count(self.unselected.responses, "call"),
                format_dollars(micro_usd(self.unselected.cost))
            ));
        }
        notes
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

    /// Returns the number of boundaries that no conversation goes through.
    fn off_chain(&self) -> u64 {
        self.boundaries.total().saturating_sub(self.chain_boundaries.total())
    }

    /// Returns what is said of boundaries that no conversation goes through; `None` if there are none.
    pub fn explain_off_chain(&self) -> Option<String> {
        let off = self.off_chain();
        (off > 0).then(|| {
            format!(
                "Not listed: {} in no conversation (on rewound branches, or of the client itself).",
                format_count_with_plural(off, "boundary", "boundaries")
            )
        })
    }

    /// Returns what is said of boundaries outside the filters, where sessions count as a whole; `None` if there are none.
    pub fn explain_unselected_boundaries(&self) -> Option<String> {
        let unselected = self.chain_boundaries.unselected;
        (unselected > 0).then(|| {
            format!(
                "Sessions count here as a whole: with {} that the filters leave out.",
                format_count_with_plural(unselected, "boundary", "boundaries")
            )
        })
    }
}

/// Whether a replay bills a call.
fn is_replayed(call: &BilledCall) -> bool {
    matches!(call.place(), CallPlace::Conversation | CallPlace::WithinResponse)
}

/// Returns the cost of a call, and that of its estimated output.
fn price_call(call: &BilledCall, tariff: Option<Tariff>) -> (PicoUsd, PicoUsd) {
    let cost = |output: u64| {
        let mut tokens = call.tokens;
        tokens.output += output;
        tariff.map_or(0, |tariff| tariff.cost(&tokens, call.window))
    };
    let recorded = cost(0);
    (recorded, cost(call.output_rest) - recorded)
}

/// Finds the prices of calls. Most have the model of the one before.
struct SessionTariffs<'a> {
    summary: &'a UsageSummary,
    book: PriceBook<'a>,
    recent: Option<((u32, u32), Option<Tariff>)>,
}

impl<'a> SessionTariffs<'a> {
    fn new(summary: &'a UsageSummary, prices: &'a PriceTable) -> SessionTariffs<'a> {
        SessionTariffs {
            summary,
            book: PriceBook::new(prices),
            recent: None,
        }
    }

    fn find(&mut self, session: u32, call: &BilledCall) -> Option<Tariff> {
        let key = (session, call.model);
        match self.recent {
            Some((known, tariff)) if known == key => tariff,
            _ => {
                let number = self
                    .book
                    .number(self.summary.sessions[session as usize].name(call.model));
                let tariff = self.book.tariff(number).copied();
                self.recent = Some((key, tariff));
                tariff
            }
        }
    }
}

/// Joins phrases: `a, b and c`.
fn join_words(phrases: &[String]) -> String {
    match phrases {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
