//! The generator's random numbers: xoshiro256** seeded by splitmix64.
//!
//! Written here instead of taken from a crate, because the bundled corpus must keep its bytes whatever a crate changes.
//! Integers only: `ln` and `exp` differ in the last bit between platforms.

/// A seeded random number generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One band of a table of sizes: `parts` of all sizes lie between `low` and `high`.
pub struct SizeBand {
    pub parts: u32,
    pub low: u64,
    pub high: u64,
}

/// Returns a band of a table of sizes.
pub const fn band(parts: u32, low: u64, high: u64) -> SizeBand {
    SizeBand { parts, low, high }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self {
            state: std::array::from_fn(|_| splitmix(&mut state)),
        }
    }

    /// Returns an independent generator for part `index` of a whole, so that one part can change without affecting the
    /// others.
    pub fn fork(seed: u64, index: u64) -> Self {
        Self::new(Self::at(seed, index))
    }

    /// Returns the number at a place of a fixed infinite sequence, for random access.
    pub fn at(seed: u64, place: u64) -> u64 {
        let mut state = seed ^ place.wrapping_mul(0xd134_2543_de82_ef95);
        splitmix(&mut state)
    }

    pub fn next(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// Returns a number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `low..=high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns true `parts` times in a thousand.
    pub fn permille(&mut self, parts: u64) -> bool {
        self.below(1000) < parts
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Returns a size from a table of bands: a piecewise uniform approximation of a log-normal with a Pareto tail.
    pub fn size(&mut self, bands: &[SizeBand]) -> u64 {
        let whole: u32 = bands.iter().map(|band| band.parts).sum();
        let mut at = self.below(u64::from(whole)) as u32;
        for band in bands {
            if at < band.parts {
                return self.range(band.low, band.high);
            }
            at -= band.parts;
        }
        0
    }

    /// Returns `value` changed by at most `percent` percent in either direction.
    pub fn around(&mut self, value: u64, percent: u64) -> u64 {
        let spread = value * percent / 100;
        value - spread + self.below(2 * spread + 1)
    }
}
