//! The signs of a word near a cue, by group and value. A weight belongs to each.

use std::sync::LazyLock;

/// Groups of signs, with how many values each has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignGroup {
    Always,
    Looks,
    Length,
    Look,
    BeforeCue,
    BeforeDistance,
    BeforeStops,
    BeforeLines,
    BeforeLink,
    AfterCue,
    AfterDistance,
    AfterStops,
    AfterLines,
    Gap,
    Previous,
    Next,
    Ahead,
    Given,
    Remark,
    Line,
    Code,
    Rivals,
    Named,
    Again,
    ShapeOfCue,
    ShapeAfterCue,
    ShapeAtDistance,
    ShapeOfPrevious,
    ShapeInCode,
    CueAndPrevious,
    CueAndGap,
}

use SignGroup::*;

/// Every group, with its name in the table and the number of its values.
const GROUPS: [(SignGroup, &str, usize); 31] = [
    (Always, "always", 1),
    (Looks, "shape", 9),
    (Length, "length", 8),
    (Look, "look", 12),
    (BeforeCue, "before-cue", 8),
    (BeforeDistance, "before-distance", 8),
    (BeforeStops, "before-stops", 4),
    (BeforeLines, "before-lines", 4),
    (BeforeLink, "before-link", 2),
    (AfterCue, "after-cue", 8),
    (AfterDistance, "after-distance", 8),
    (AfterStops, "after-stops", 4),
    (AfterLines, "after-lines", 4),
    (Gap, "gap", 12),
    (Previous, "previous", 16),
    (Next, "next", 12),
    (Ahead, "ahead", 10),
    (Given, "given", 2),
    (Remark, "remark", 2),
    (Line, "line", 4),
    (Code, "code", 4),
    (Rivals, "rivals", 5),
    (Named, "named", 2),
    (Again, "again", 3),
    (ShapeOfCue, "shape-of-cue", 72),
    (ShapeAfterCue, "shape-after-cue", 72),
    (ShapeAtDistance, "shape-at-distance", 72),
    (ShapeOfPrevious, "shape-of-previous", 144),
    (ShapeInCode, "shape-in-code", 36),
    (CueAndPrevious, "cue-and-previous", 128),
    (CueAndGap, "cue-and-gap", 96),
];

/// The number of all signs.
pub(super) const SIGN_COUNT: usize = {
    let mut sum = 0;
    let mut at = 0;
    while at < GROUPS.len() {
        sum += GROUPS[at].2;
        at += 1;
    }
    sum
};

/// The first index of each group.
static OFFSETS: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let sums = GROUPS.iter().scan(0, |sum, (_, _, count)| {
        let offset = *sum;
        *sum += count;
        Some(offset)
    });
    sums.collect()
});

/// Returns the index of a sign; values beyond the last of a group count as the last.
pub(super) fn sign(group: SignGroup, value: usize) -> u16 {
    let at = group as usize;
    (OFFSETS[at] + value.min(GROUPS[at].2 - 1)) as u16
}

/// Returns the name of a sign in the table: `shape.4`.
pub fn sign_name(index: u16) -> String {
    let index = usize::from(index);
    let at = OFFSETS.partition_point(|offset| *offset <= index).saturating_sub(1);
    format!("{}.{}", GROUPS[at].1, index - OFFSETS[at])
}

/// Returns the sign with a name.
pub(super) fn sign_index(name: &str) -> Option<u16> {
    let (group, value) = name.split_once('.')?;
    let at = GROUPS.iter().position(|(_, name, _)| *name == group)?;
    let value = value.parse::<usize>().ok()?;
    (value < GROUPS[at].2).then(|| sign(GROUPS[at].0, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_has_its_own_name_and_index() {
        for (at, (group, _, _)) in GROUPS.iter().enumerate() {
            assert_eq!(*group as usize, at);
        }
        for index in 0..SIGN_COUNT as u16 {
            assert_eq!(sign_index(&sign_name(index)), Some(index));
        }
    }
}
