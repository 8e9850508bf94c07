//! The budget of a run: calls, tokens, dollars.
//!
//! Before a call is sent, its worst case is reserved; afterwards the reservation is settled to the usage of the answer. So
//! the caps hold for concurrent calls too. A call whose usage is unknown (a broken stream, a timeout) is booked at its worst
//! case. All sums are integers.

use replay::prices::{PicoUsd, Tariff, micro_usd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use transcript::record::Tokens;

/// Limits of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendingCaps {
    /// Calls, including failed attempts.
    pub calls: Option<u64>,
    /// Input and output tokens.
    pub tokens: Option<u64>,
    /// Micro-dollars.
    pub micro_usd: Option<u64>,
}

/// The price of a call: in a batch it costs half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BillingRate {
    /// A call outside of a batch.
    Full,
    /// A call in a batch.
    Half,
}

/// What a run has spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spending {
    pub calls: u64,
    /// Usage of the answers.
    pub tokens: Tokens,
    /// Worst case of calls with unknown usage.
    pub unsettled_tokens: u64,
    /// Total cost; 0 if the model has no price.
    pub pico: PicoUsd,
}

impl Spending {
    /// Returns all input and output tokens.
    pub fn all_tokens(&self) -> u64 {
        self.tokens.input_side() + self.tokens.output + self.unsettled_tokens
    }
}

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetRefusal {
    #[error("the cap of {0} calls is reached (--max-calls)")]
    Calls(u64),
    #[error("a call could take {needed} tokens and {left} of {cap} are left (--max-tokens)")]
    Tokens {
        /// The worst case of the call.
        needed: u64,
        left: u64,
        cap: u64,
    },
    /// In micro-dollars.
    #[error("a call could cost ${} and ${} of ${} are left (--max-cost)", format_usd(.needed), format_usd(.left), format_usd(.cap))]
    Cost {
        /// The worst case of the call.
        needed: u64,
        left: u64,
        cap: u64,
    },
}

/// Formats micro-dollars as dollars, with at least two digits after the point.
pub fn format_usd(micro: &u64) -> String {
    let (whole, part) = (micro / 1_000_000, micro % 1_000_000);
    let digits = format!("{part:06}");
    let digits = digits.trim_end_matches('0');
    format!("{whole}.{digits:0<2}")
}

#[derive(Debug, Default)]
struct LedgerState {
    spent: Spending,
    /// Calls in flight, and the sums of their worst cases.
    in_flight: u64,
    reserved_tokens: u64,
    reserved_pico: PicoUsd,
    /// Set once a call was refused: all later calls are refused too.
    refusal: Option<BudgetRefusal>,
}

/// Keeps the budget of a run.
#[derive(Debug)]
pub struct SpendingLedger {
    caps: SpendingCaps,
    tariff: Option<Tariff>,
    state: Mutex<LedgerState>,
    settled: Condvar,
}

/// The worst case of a call: an upper bound of the input, and the maximum output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorstCase {
    pub input: u64,
    pub output: u64,
    /// Cost at the full rate.
    pub pico: PicoUsd,
}

/// The budget of a call in flight. If it is dropped without being settled, the worst case is booked.
#[derive(Debug)]
pub struct Reservation<'l> {
    ledger: &'l SpendingLedger,
    worst: WorstCase,
    rate: BillingRate,
    is_open: bool,
}

impl SpendingLedger {
    pub fn new(caps: SpendingCaps, tariff: Option<Tariff>) -> SpendingLedger {
        SpendingLedger {
            caps,
            tariff,
            state: Mutex::default(),
            settled: Condvar::new(),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, LedgerState> {
        // Every update is complete before the lock is released, so the state is valid even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was spent so far.
    pub fn spending(&self) -> Spending {
        self.lock_state().spent
    }

    /// Returns the cost of tokens at the full rate; `None` if the model has no price.
    pub fn cost(&self, tokens: &Tokens) -> Option<PicoUsd> {
        Some(self.tariff.as_ref()?.cost(tokens, tokens.input_side()))
    }

    /// Returns the worst case of a call: writing all input to the prompt cache is the most expensive way to send it.
    pub fn worst_case(&self, input: u64, output: u64) -> WorstCase {
        let tokens = Tokens {
            output,
            cache_write: input,
            ..Tokens::default()
        };
        let plain = Tokens {
            input,
            output,
            ..Tokens::default()
        };
        let pico = self.cost(&tokens).max(self.cost(&plain)).unwrap_or(0);
        WorstCase { input, output, pico }
    }

    /// Reserves the worst case of a call. If calls in flight may still free some budget, it waits for them; otherwise this call
    /// and every later one is refused.
    pub fn reserve(&self, worst: WorstCase, rate: BillingRate) -> Result<Reservation<'_>, BudgetRefusal> {
        self.reserve_or_wait(worst, rate, true)
    }

    /// Reserves without waiting, for calls that are sent together: they would wait for one another forever.
    pub fn try_reserve(&self, worst: WorstCase, rate: BillingRate) -> Result<Reservation<'_>, BudgetRefusal> {
        self.reserve_or_wait(worst, rate, false)
    }

    fn reserve_or_wait(
        &self,
        worst: WorstCase,
        rate: BillingRate,
        waits: bool,
    ) -> Result<Reservation<'_>, BudgetRefusal> {
        let mut books = self.lock_state();
        loop {
            if let Some(refusal) = &books.refusal {
                return Err(refusal.clone());
            }
            let Err(refusal) = self.check_caps(&books, &worst, rate) else {
                books.spent.calls += 1;
                books.in_flight += 1;
                books.reserved_tokens += worst.input + worst.output;
                books.reserved_pico += apply_rate(rate, worst.pico);
                return Ok(Reservation {
                    ledger: self,
                    worst,
                    rate,
                    is_open: true,
                });
            };
            if !waits || books.in_flight == 0 || matches!(refusal, BudgetRefusal::Calls(_)) {
                books.refusal = Some(refusal.clone());
                return Err(refusal);
            }
            books = self.settled.wait(books).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn check_caps(&self, books: &LedgerState, worst: &WorstCase, rate: BillingRate) -> Result<(), BudgetRefusal> {
        if let Some(cap) = self.caps.calls
            && books.spent.calls >= cap
        {
            return Err(BudgetRefusal::Calls(cap));
        }
        if let Some(cap) = self.caps.tokens {
            let left = cap.saturating_sub(books.spent.all_tokens() + books.reserved_tokens);
            let needed = worst.input + worst.output;
            if needed > left {
                return Err(BudgetRefusal::Tokens { needed, left, cap });
            }
        }
        if let Some(cap) = self.caps.micro_usd {
            let left = (PicoUsd::from(cap) * 1_000_000).saturating_sub(books.spent.pico + books.reserved_pico);
            let needed = apply_rate(rate, worst.pico);
            if needed > left {
                return Err(BudgetRefusal::Cost {
                    needed: to_micro_usd(needed),
                    left: u64::try_from(left / 1_000_000).unwrap_or(u64::MAX),
                    cap,
                });
            }
        }
        Ok(())
    }
}

impl Reservation<'_> {
    /// Books the usage of the answer.
    pub fn settle(mut self, tokens: &Tokens) {
        let pico = self.ledger.cost(tokens).map_or(0, |pico| apply_rate(self.rate, pico));
        self.close(|spent| {
            add_tokens(&mut spent.tokens, tokens);
            spent.pico += pico;
        });
    }

    /// Books only the call: the server refused it.
    pub fn release(mut self) {
        self.close(|_| ());
    }

    fn close(&mut self, book: impl FnOnce(&mut Spending)) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let mut books = self.ledger.lock_state();
        books.in_flight -= 1;
        books.reserved_tokens -= self.worst.input + self.worst.output;
        books.reserved_pico -= apply_rate(self.rate, self.worst.pico);
        book(&mut books.spent);
        drop(books);
        self.ledger.settled.notify_all();
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let (worst, rate) = (self.worst, self.rate);
        self.close(|spent| {
            spent.unsettled_tokens += worst.input + worst.output;
            spent.pico += apply_rate(rate, worst.pico);
        });
    }
}

pub fn add_tokens(sum: &mut Tokens, more: &Tokens) {
    sum.input += more.input;
    sum.output += more.output;
    sum.cache_write += more.cache_write;
    sum.cache_write_1h += more.cache_write_1h;
    sum.cache_read += more.cache_read;
}

/// Returns a cost at a rate. Halves are rounded up, so that rounding cannot exceed a cap.
pub fn apply_rate(rate: BillingRate, pico: PicoUsd) -> PicoUsd {
    match rate {
        BillingRate::Full => pico,
        BillingRate::Half => pico.div_ceil(2),
    }
}

/// Converts a cost to micro-dollars.
pub fn to_micro_usd(pico: PicoUsd) -> u64 {
    u64::try_from(micro_usd(pico)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use replay::prices::PriceTable;

    fn ledger(caps: SpendingCaps) -> SpendingLedger {
        // 1 dollar in, 5 out, 1.25 to write to the cache.
        let tariff = PriceTable::built_in()
            .find("claude-haiku-4-5")
            .map(|price| price.tariff());
        SpendingLedger::new(caps, tariff)
    }

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens {
            input,
            output,
            ..Tokens::default()
        }
    }

    #[test]
    fn the_most_is_held_and_the_rest_comes_free() {
        let ledger = ledger(SpendingCaps {
            micro_usd: Some(2_000),
            ..SpendingCaps::default()
        });
        // 1,000 x 1.25 + 100 x 5
        let worst = ledger.worst_case(1_000, 100);
        assert_eq!(to_micro_usd(worst.pico), 1_750);
        ledger
            .reserve(worst, BillingRate::Full)
            .unwrap()
            .settle(&tokens(800, 10));
        assert_eq!(to_micro_usd(ledger.spending().pico), 850);
        let refused = ledger.reserve(worst, BillingRate::Full).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a call could cost $0.00175 and $0.00115 of $0.002 are left (--max-cost)"
        );
        // Once refused, always refused: what is left out does not depend on which call is small enough.
        assert!(ledger.reserve(ledger.worst_case(1, 1), BillingRate::Full).is_err());
        assert_eq!(ledger.spending().calls, 1);
    }

    #[test]
    fn a_batch_costs_half_and_a_turned_away_call_nothing() {
        let ledger = ledger(SpendingCaps {
            micro_usd: Some(875),
            ..SpendingCaps::default()
        });
        let worst = ledger.worst_case(1_000, 100);
        ledger.reserve(worst, BillingRate::Half).unwrap().release();
        ledger
            .reserve(worst, BillingRate::Half)
            .unwrap()
            .settle(&tokens(1_000, 100));
        assert_eq!(
            (to_micro_usd(ledger.spending().pico), ledger.spending().calls),
            (750, 2)
        );
    }

    #[test]
    fn a_call_whose_end_is_not_known_is_booked_in_full() {
        let ledger = ledger(SpendingCaps {
            tokens: Some(2_300),
            ..SpendingCaps::default()
        });
        drop(
            ledger
                .reserve(ledger.worst_case(1_000, 100), BillingRate::Full)
                .unwrap(),
        );
        assert_eq!(ledger.spending().all_tokens(), 1_100);
        drop(
            ledger
                .reserve(ledger.worst_case(1_000, 100), BillingRate::Full)
                .unwrap(),
        );
        let refused = ledger
            .reserve(ledger.worst_case(100, 1), BillingRate::Full)
            .unwrap_err();
        assert!(matches!(
            refused,
            BudgetRefusal::Tokens {
                needed: 101,
                left: 100,
                ..
            }
        ));
    }

    #[test]
    fn calls_are_counted_when_they_are_sent() {
        let ledger = ledger(SpendingCaps {
            calls: Some(2),
            ..SpendingCaps::default()
        });
        ledger
            .reserve(ledger.worst_case(1, 1), BillingRate::Full)
            .unwrap()
            .release();
        let _second = ledger.reserve(ledger.worst_case(1, 1), BillingRate::Full).unwrap();
        assert_eq!(
            ledger.reserve(ledger.worst_case(1, 1), BillingRate::Full).unwrap_err(),
            BudgetRefusal::Calls(2)
        );
    }

    #[test]
    fn money_in_words() {
        for (micro, text) in [
            (0, "0.00"),
            (1, "0.000001"),
            (1_500_000, "1.50"),
            (12_345_678, "12.345678"),
        ] {
            assert_eq!(format_usd(&micro), text);
        }
    }

    #[test]
    fn a_call_waits_for_what_others_may_not_need() {
        let ledger = ledger(SpendingCaps {
            tokens: Some(1_500),
            ..SpendingCaps::default()
        });
        let first = ledger.reserve(ledger.worst_case(900, 100), BillingRate::Full).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                ledger
                    .reserve(ledger.worst_case(900, 100), BillingRate::Full)
                    .map(Reservation::release)
                    .is_ok()
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            first.settle(&tokens(10, 1));
            assert!(second.join().unwrap());
        });
    }

    proptest! {
        /// Whatever calls come to, and however many are on their way, the caps hold.
        #[test]
        fn caps_hold(calls in prop::collection::vec((1_u64..2_000, 1_u64..500, 0_u64..3, 0_u64..=100), 1..60), cap in 0_u64..20_000) {
            let ledger = ledger(SpendingCaps { calls: Some(20), tokens: Some(15_000), micro_usd: Some(cap) });
            std::thread::scope(|scope| {
                for part in calls.chunks(15) {
                    let ledger = &ledger;
                    scope.spawn(move || {
                        for &(input, output, end, share) in part {
                            let Ok(hold) = ledger.reserve(ledger.worst_case(input, output), BillingRate::Full) else { return };
                            match end {
                                0 => hold.release(),
                                1 => hold.settle(&tokens(input * share / 100, output * share / 100)),
                                _ => drop(hold),
                            }
                        }
                    });
                }
            });
            let spent = ledger.spending();
            prop_assert!(spent.calls <= 20 && spent.all_tokens() <= 15_000);
            prop_assert!(spent.pico <= u128::from(cap) * 1_000_000);
        }
    }
}
