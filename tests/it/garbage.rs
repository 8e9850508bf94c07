//! Damage to one line never changes the figures of other lines.

use crate::fixture::{Fixture, library_stats, only_log, plain_count};
use proptest::prelude::*;

/// Bytes of all sorts without a newline: noise, the letters that JSON is made of, and pieces of real records.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 1..200);
    let marks = prop::collection::vec(prop::sample::select(b"{}[]\":,\\u0123def \t\0".to_vec()), 1..200);
    let pieces = [
        &b"{\"type\":\"assistant\",\"message\":{"[..],
        b"{\"parentUuid\":null,",
        b"{\"type\":\"user\"}",
        b"\"usage\":{\"input_tokens\":7,\"output_tokens\":9}",
        b"\xef\xbb\xbf",
        b"\\ud800",
        b"[[[[",
        b"}{",
    ];
    let spliced = prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..8).prop_map(|pieces| pieces.concat());
    let any = prop_oneof![noise, marks, spliced];
    any.prop_map(|bytes| {
        bytes
            .into_iter()
            .map(|byte| if byte == b'\n' { b' ' } else { byte })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_line_put_between_others_changes_none_of_them(garbage in garbage(), at in any::<prop::sample::Index>()) {
        let fixture = Fixture::new();
        let content = only_log("plain");
        let before = library_stats(&fixture.write("before.jsonl", &content));
        let mut lines = content.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
        let at = at.index(lines.len());
        lines.insert(at, [&garbage[..], b"\n"].concat());
        let after = library_stats(&fixture.write("after.jsonl", lines.concat()));
        prop_assert_eq!(before.figures, after.figures);
        prop_assert_eq!(before.ledger, after.ledger);
        prop_assert_eq!(before.lines + 1, after.lines);
        for (kind, count) in &before.kinds {
            // A whole record inside the garbage is one more of its kind.
            prop_assert!(after.kinds.get(kind) >= Some(count), "{}: {:?}", kind, after.kinds);
        }
        let elsewhere = after.problems.iter().find(|problem| problem.line != Some(at as u64 + 1));
        prop_assert!(elsewhere.is_none(), "{:?}", elsewhere);
    }

    #[test]
    fn a_line_that_became_garbage_takes_only_itself_away(garbage in garbage(), at in any::<prop::sample::Index>()) {
        let fixture = Fixture::new();
        let content = only_log("one-hour-writes");
        let mut lines = content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect::<Vec<_>>();
        let at = at.index(lines.len());
        lines[at] = &garbage;
        let stats = library_stats(&fixture.write("log.jsonl", lines.join(&b'\n')));
        prop_assert_eq!(stats.figures, plain_count(lines.iter().copied()));
    }

    #[test]
    fn a_byte_that_changed_in_one_line_leaves_the_others_alone(
        byte in any::<u8>(),
        line in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
    ) {
        prop_assume!(byte != b'\n');
        let fixture = Fixture::new();
        let content = only_log("one-hour-writes");
        let mut lines = content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect::<Vec<_>>();
        let line = line.index(lines.len());
        let at = at.index(lines[line].len());
        lines[line][at] = byte;
        let stats = library_stats(&fixture.write("log.jsonl", lines.join(&b'\n')));
        let others = lines.iter().enumerate().filter(|(number, _)| *number != line).map(|(_, line)| line.as_slice());
        let least = plain_count(others);
        // The changed line adds at most one response; the others are all still there.
        prop_assert!((least[0]..=least[0] + 1).contains(&stats.figures[0]), "{:?} {:?}", stats.figures, least);
        prop_assert!(std::iter::zip(stats.figures, least).all(|(stats, least)| stats >= least), "{:?} {:?}", stats.figures, least);
    }
}
