//! What a run may spend and has spent: calls, tokens, dollars.
//!
//! Before a call is sent, the most that it could come to is held; afterwards it is settled to what the answer says. So the
//! caps hold whatever comes back, also with several calls on their way. A call whose end nobody knows (a stream that was cut
//! off, a time-out) is booked at the most that it could have come to. All sums are whole numbers.

use replay::prices::{PicoUsd, Tariff, micro_usd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use transcript::record::Tokens;

/// What a run may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendingCaps {
    /// Calls of the model, tries that failed among them.
    pub calls: Option<u64>,
    /// Tokens, sent and received.
    pub tokens: Option<u64>,
    /// Millionths of a dollar.
    pub micro_usd: Option<u64>,
}

/// Whether a call is made now or in a batch, which costs half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BillingRate {
    /// Now.
    Full,
    /// In a batch.
    Half,
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spending {
    /// Calls that were sent.
    pub calls: u64,
    /// What the answers said they took.
    pub tokens: Tokens,
    /// Tokens of calls whose end is not known, at the most they could have come to.
    pub unsettled_tokens: u64,
    /// What all that costs; 0 where the model has no price.
    pub pico: PicoUsd,
}

impl Spending {
    /// Everything that was sent and received.
    pub fn all_tokens(&self) -> u64 {
        self.tokens.input_side() + self.tokens.output + self.unsettled_tokens
    }
}

/// What keeps a call from being made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetRefusal {
    /// Another call would be one too many.
    #[error("the cap of {0} calls is reached (--max-calls)")]
    Calls(u64),
    /// It could take more tokens than are left.
    #[error("a call could take {needed} tokens and {left} of {cap} are left (--max-tokens)")]
    Tokens {
        /// The most it could take.
        needed: u64,
        /// What is left.
        left: u64,
        /// The cap.
        cap: u64,
    },
    /// It could cost more than is left.
    #[error("a call could cost ${} and ${} of ${} are left (--max-cost)", format_usd(.needed), format_usd(.left), format_usd(.cap))]
    Cost {
        /// The most it could cost, in millionths of a dollar.
        needed: u64,
        /// What is left.
        left: u64,
        /// The cap.
        cap: u64,
    },
}

/// Millionths of a dollar as dollars, with as many digits as they need.
pub fn format_usd(micro: &u64) -> String {
    let (whole, part) = (micro / 1_000_000, micro % 1_000_000);
    let digits = format!("{part:06}");
    let digits = digits.trim_end_matches('0');
    format!("{whole}.{digits:0<2}")
}

#[derive(Debug, Default)]
struct LedgerState {
    spent: Spending,
    /// Calls on their way, and the most that they could come to.
    in_flight: u64,
    reserved_tokens: u64,
    reserved_pico: PicoUsd,
    /// Why no further call is made.
    refusal: Option<BudgetRefusal>,
}

/// The books of a run.
#[derive(Debug)]
pub struct SpendingLedger {
    caps: SpendingCaps,
    tariff: Option<Tariff>,
    state: Mutex<LedgerState>,
    settled: Condvar,
}

/// The most that a call could come to: input by a sure bound, and the whole of the output that it may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorstCase {
    /// Most tokens sent.
    pub input: u64,
    /// Most tokens received.
    pub output: u64,
    /// Most that it costs at the full rate.
    pub pico: PicoUsd,
}

/// A call that is on its way. One that is dropped without being settled is booked in full.
#[derive(Debug)]
pub struct Reservation<'l> {
    ledger: &'l SpendingLedger,
    worst: WorstCase,
    rate: BillingRate,
    is_open: bool,
}

impl SpendingLedger {
    /// Opens the books.
    pub fn new(caps: SpendingCaps, tariff: Option<Tariff>) -> SpendingLedger {
        SpendingLedger {
            caps,
            tariff,
            state: Mutex::default(),
            settled: Condvar::new(),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, LedgerState> {
        // Sums are changed in one go, so they are right even after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was spent so far.
    pub fn spending(&self) -> Spending {
        self.lock_state().spent
    }

    /// Cost of tokens at the full rate, if the model has a price.
    pub fn cost(&self, tokens: &Tokens) -> Option<PicoUsd> {
        Some(self.tariff.as_ref()?.cost(tokens, tokens.input_side()))
    }

    /// The most that a call could come to: all of its input is written to the prompt cache, the dearest way to send it.
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

    /// Holds the most that a call could come to. Where other calls on their way may still come to less than is held for
    /// them, it waits for them; where nothing can help, the call is refused, and so is every later one.
    pub fn reserve(&self, worst: WorstCase, rate: BillingRate) -> Result<Reservation<'_>, BudgetRefusal> {
        self.reserve_or_wait(worst, rate, true)
    }

    /// As `Ledger::hold`, for calls that are sent together: waiting for one another would be waiting for ever.
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
    /// Books what the answer says it took.
    pub fn settle(mut self, tokens: &Tokens) {
        let pico = self.ledger.cost(tokens).map_or(0, |pico| apply_rate(self.rate, pico));
        self.close(|spent| {
            add_tokens(&mut spent.tokens, tokens);
            spent.pico += pico;
        });
    }

    /// Books nothing but the call itself: it was turned away.
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

/// Adds tokens up.
pub fn add_tokens(sum: &mut Tokens, more: &Tokens) {
    sum.input += more.input;
    sum.output += more.output;
    sum.cache_write += more.cache_write;
    sum.cache_write_1h += more.cache_write_1h;
    sum.cache_read += more.cache_read;
}

/// A price at a rate; halves are rounded up, so that a cap is not passed by rounding.
pub fn apply_rate(rate: BillingRate, pico: PicoUsd) -> PicoUsd {
    match rate {
        BillingRate::Full => pico,
        BillingRate::Half => pico.div_ceil(2),
    }
}

/// A cost in millionths of a dollar.
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
