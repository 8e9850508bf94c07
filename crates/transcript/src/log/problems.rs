//! The problems with the lines of one log, which a [`super::Log`] carries. [`crate::problem`] describes them in words.

/// How many problems of a kind are kept with their places, per log. The others are counted.
pub const KEPT_PER_KIND: usize = 10;

/// The problems with the lines of one log: all of them counted, the first few of each kind kept. A packed log of a few
/// kilobytes can have millions of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineProblems {
    kept: Vec<LineProblem>,
    /// By code of the kind, how many there were.
    counts: [u64; LineProblemKind::ALL.len()],
}

impl LineProblems {
    /// Adds a problem.
    pub fn push(&mut self, problem: LineProblem) {
        let count = &mut self.counts[problem.kind as usize];
        if *count < KEPT_PER_KIND as u64 {
            self.kept.push(problem);
        }
        *count += 1;
    }

    /// Adds the problems of the part of the log that follows, whose lines are counted from its own start.
    pub fn append(&mut self, other: LineProblems, line_base: u64) {
        for problem in &other.kept {
            self.push(LineProblem {
                line: problem.line + line_base,
                ..*problem
            });
        }
        for &kind in LineProblemKind::ALL {
            self.count_more(kind, other.left_out(kind));
        }
    }

    /// Adds problems that are only counted.
    pub fn count_more(&mut self, kind: LineProblemKind, count: u64) {
        let sum = &mut self.counts[kind as usize];
        *sum = sum.saturating_add(count);
    }

    /// Returns how many problems of a kind were counted but not kept.
    pub fn left_out(&self, kind: LineProblemKind) -> u64 {
        self.counts[kind as usize].saturating_sub(KEPT_PER_KIND as u64)
    }

    /// Iterates over the problems that were kept, each with the number of those that it stands for besides itself: the last one
    /// of a kind for all that were left out.
    pub fn with_left_out(&self) -> impl Iterator<Item = (&LineProblem, u64)> {
        let mut seen = [0; LineProblemKind::ALL.len()];
        self.kept.iter().map(move |problem| {
            let seen = &mut seen[problem.kind as usize];
            *seen += 1;
            let is_last = *seen == KEPT_PER_KIND;
            (problem, if is_last { self.left_out(problem.kind) } else { 0 })
        })
    }
}

impl std::ops::Deref for LineProblems {
    type Target = [LineProblem];

    /// Returns the problems that were kept.
    fn deref(&self) -> &[LineProblem] {
        &self.kept
    }
}

/// A problem with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineProblem {
    pub kind: LineProblemKind,
    /// Line number, from 1.
    pub line: u64,
    /// Byte offset of the line.
    pub offset: u64,
}

coded_enum! {
    /// Kinds of problems with a line.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
    pub enum LineProblemKind {
        /// Noise around a record was dropped.
        Stripped = 0,
        /// Text inside a record was repaired.
        Mended = 1,
        /// Several records were on one line.
        Split = 2,
        /// A torn record was lost; a later one on the line was found.
        Resynced = 3,
        /// Nothing on the line could be read.
        Malformed = 4,
        /// A JSON value that is not an object.
        NotAnObject = 5,
        /// Nested too deep.
        TooDeep = 6,
        /// NUL bytes only.
        OnlyNul = 7,
        /// Longer than the limit.
        TooLong = 8,
        /// The last line is incomplete: the log is being written, or was cut off.
        TornTail = 9,
        /// An invalid timestamp.
        BadTime = 10,
        /// An invalid token count.
        BadCount = 11,
        /// The log is one of an agent whose logs are not read.
        OtherAgent = 12,
    }
}
