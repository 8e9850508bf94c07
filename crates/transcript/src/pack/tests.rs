use super::*;
use crate::bytes::LineConsumer;
use crate::walk::Walker;

/// Parses the whole corpus, which has every kind of record.
fn logs() -> Vec<Log> {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let found = crate::discover::discover(&[corpus], false).unwrap();
    assert!(found.logs.len() > 50);
    let parse = |path: &std::path::Path| {
        let mut walker = Walker::new(1 << 20, &|_| ());
        walker.take_lines(&std::fs::read(path).unwrap(), 0);
        walker.into_builder().finish()
    };
    found.logs.iter().map(|log| parse(&log.path)).collect()
}

#[test]
fn packing_loses_nothing() {
    for log in logs() {
        let packed = pack(&log);
        assert_eq!(unpack(&packed).unwrap(), log);
        let outline = PackedOutline::read(&packed).unwrap();
        assert!(outline.ids().eq(log.records.iter().map(|record| record.id)));
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let log = logs().into_iter().max_by_key(|log| log.boundaries.len()).unwrap();
    let packed = pack(&log);
    for at in 0..packed.len() {
        let mut damaged = packed.clone();
        damaged[at] ^= 0x55;
        let _ = unpack(&damaged);
        assert!(unpack(&packed[..at]).is_err(), "cut at {at}");
    }
}
