//! The generator's own random numbers: xoshiro256** seeded through splitmix64.
//! Everything here is integer arithmetic, because `ln` and `exp` differ in the last bit between platforms and
//! the logs must be the same bytes everywhere. Used by every other file of `synth`.

/// A small, fast, seedable source of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of a heavy-tailed size table: this many parts of the whole fall between `low` and `high`.
pub struct SizeBand {
    pub parts: u32,
    pub low: u64,
    pub high: u64,
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

    /// A source of its own for the part `index` of a larger whole, so that one part can change without moving the others.
    pub fn fork(seed: u64, index: u64) -> Self {
        Self::new(Self::at(seed, index))
    }

    /// The number at a place of an endless fixed sequence: any place can be asked for again, in any order.
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

    /// A number in `0..bound`; 0 for an empty range.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True `parts` times in a thousand.
    pub fn permille(&mut self, parts: u64) -> bool {
        self.below(1000) < parts
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// A size from a table of bands: the piecewise-uniform stand-in for a log-normal with a Pareto tail.
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

    /// `value` moved by at most `percent` percent either way.
    pub fn around(&mut self, value: u64, percent: u64) -> u64 {
        let spread = value * percent / 100;
        value - spread + self.below(2 * spread + 1)
    }
}
