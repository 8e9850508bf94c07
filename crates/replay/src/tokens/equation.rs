//! The equations that the ratios are fitted to: amounts of coefficients, and the tokens that they should add up to.
//!
//! Two kinds of recorded counts give such a sum. The growth of the window between two calls is the new input plus, if its
//! output count was not final, the response before it. A final output count is the response alone. Everything is linear in
//! the coefficients. A test checks that [`super::calibrate`] predicts from the same amounts.

use crate::tokens::calibrate::{CallPair, ChainSizes, TokenOrigin};
use crate::tokens::ratios::{Coefficient, RatioTable, drops_thinking};
use transcript::log::BlockKind;
use transcript::thread::{Chain, Round, Session};

/// The amounts times their coefficients should add up to `tokens`.
#[derive(Debug, Clone, PartialEq)]
pub struct Equation {
    /// Amount of each coefficient, in the order of [`Coefficient::ALL`].
    pub amounts: [f64; Coefficient::ALL.len()],
    /// The recorded tokens.
    pub tokens: f64,
}

impl Equation {
    /// Returns the equation for the growth of the window between the two calls of a pair.
    pub fn growth(
        session: &Session<'_>,
        chain: &Chain,
        sizes: &ChainSizes,
        pair: &CallPair,
        table: &RatioTable,
    ) -> Equation {
        let (before, round) = (&chain.rounds[pair.round - 1], &chain.rounds[pair.round]);
        let sent = &sizes.rounds[pair.round - 1];
        let mut equation = Equation::new(pair.actual - sent.input.unwrap_or(0) as f64);
        for &node in &round.inputs {
            for block in session.blocks(node) {
                table.input_amounts(block, session.log(node), &mut |of, amount| equation.add(of, amount));
            }
        }
        match sent.output_origin {
            TokenOrigin::Recorded => equation.tokens -= sent.output,
            _ => equation.add_response(session, before, table),
        }
        let model = session
            .response(pair.node)
            .map_or("", |line| session.log(pair.node).string(line.model));
        if round.turn != before.turn && drops_thinking(model) {
            for past in chain.rounds[..pair.round]
                .iter()
                .rev()
                .take_while(|past| past.turn == before.turn)
            {
                equation.add_blocks(session, past, table, -1.0, |kind| kind == BlockKind::Thinking);
            }
        }
        equation
    }

    /// Returns the equation for the response of a round; `None` if its final output was not recorded.
    pub fn output(
        session: &Session<'_>,
        chain: &Chain,
        sizes: &ChainSizes,
        round: usize,
        table: &RatioTable,
    ) -> Option<Equation> {
        let size = &sizes.rounds[round];
        (size.output_origin == TokenOrigin::Recorded).then(|| {
            let mut equation = Equation::new(size.output);
            equation.add_response(session, &chain.rounds[round], table);
            equation
        })
    }

    fn new(tokens: f64) -> Equation {
        Equation {
            amounts: [0.0; Coefficient::ALL.len()],
            tokens,
        }
    }

    fn add(&mut self, of: Coefficient, amount: f64) {
        self.amounts[of as usize] += amount;
    }

    fn add_response(&mut self, session: &Session<'_>, round: &Round, table: &RatioTable) {
        self.add(Coefficient::PerResponse, 1.0);
        self.add_blocks(session, round, table, 1.0, |_| true);
    }

    fn add_blocks(
        &mut self,
        session: &Session<'_>,
        round: &Round,
        table: &RatioTable,
        factor: f64,
        takes: impl Fn(BlockKind) -> bool,
    ) {
        for &node in &round.lines {
            for block in session.blocks(node).iter().filter(|block| takes(block.kind)) {
                table.output_amounts(block, session.log(node), &mut |of, amount| {
                    self.add(of, factor * amount)
                });
            }
        }
    }
}
