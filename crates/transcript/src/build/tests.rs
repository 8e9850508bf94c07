use super::kinds::MAX_INDEXED_KINDS;
use super::names::is_same_id;
use super::*;
use crate::bytes::LineConsumer;
use crate::walk::Walker;

#[test]
fn kinds_are_counted_however_many_there_are() {
    let mut walker = Walker::new(1 << 20, &|_| ());
    for turn in 0..3 * MAX_INDEXED_KINDS {
        let kind = turn % (2 * MAX_INDEXED_KINDS);
        let line = format!("{{\"type\":\"system\",\"subtype\":\"k{kind}\",\"uuid\":\"{turn}\"}}\n");
        walker.take_lines(line.as_bytes(), 0);
    }
    let log = walker.into_builder().finish();
    assert_eq!(log.kinds.len(), 2 * MAX_INDEXED_KINDS);
    for &(name, count) in &log.kinds {
        let number = log
            .string(name)
            .trim_start_matches("system/k")
            .parse::<usize>()
            .unwrap();
        assert_eq!(count, if number < MAX_INDEXED_KINDS { 2 } else { 1 }, "{number}");
    }
}

#[test]
fn records_of_one_setting_differ_by_agent_and_by_what_stands_alone() {
    let setting = r#""userType":"external","cwd":"/a","sessionId":"s","version":"1","gitBranch":"main""#;
    let line =
        |rest: &str| format!(r#"{{"parentUuid":null,"isSidechain":false,{setting},"type":"user"{rest}}}"#) + "\n";
    let lines = [
        line(""),
        line(r#","agentId":"g""#),
        line(""),
        line(r#","cwd":"/b""#),
        line(""),
    ];
    let mut walker = Walker::new(1 << 20, &|_| ());
    // Again in another block, where what was remembered does not hold.
    walker.take_lines(lines.concat().as_bytes(), 0);
    walker.take_lines(lines.concat().replace("/a", "/c").as_bytes(), 0);
    let log = walker.into_builder().finish();
    let places = log.records.iter().map(|record| {
        let scope = log.scope_of(record);
        [log.string(scope.cwd), log.string(scope.agent)]
    });
    let expected = |cwd: &'static str| [[cwd, ""], [cwd, "g"], [cwd, ""], ["/b", ""], [cwd, ""]];
    assert_eq!(places.collect::<Vec<_>>(), [expected("/a"), expected("/c")].concat());
    assert_eq!(log.kinds.iter().map(|(_, count)| count).sum::<u64>(), 10);
}

#[test]
fn texts_with_one_hash_have_two_names() {
    let mut builder = LogBuilder::new(LogBuffers::default());
    let one = builder.intern("one");
    // As if both had this hash.
    builder.names.insert(xxhash_rust::xxh3::xxh3_64(b"other"), one);
    let other = builder.intern("other");
    assert_ne!(one, other);
    assert_eq!([builder.intern("one"), builder.intern("other")], [one, other]);
    assert_eq!(builder.log.string(other), "other");
}

#[test]
fn room_is_made_beside_what_is_there() {
    let mut list = Vec::<u64>::with_capacity(4);
    let room = list.as_ptr();
    reserve_fresh(&mut list, 4);
    assert_eq!(list.as_ptr(), room, "there was room");
    reserve_fresh(&mut list, 5);
    assert!(list.capacity() >= 5);
    list.push(7);
    reserve_fresh(&mut list, 100);
    assert!(list == [7] && list.capacity() >= 101);
}

#[test]
fn a_log_in_the_room_of_another_is_the_same() {
    let line = |number: u32| {
        format!(
            concat!(
                r#"{{"type":"assistant","uuid":"u{0}","parentUuid":"u{1}","sessionId":"s","#,
                r#""message":{{"id":"m{0}","model":"m","content":[{{"type":"text","text":"a"}}],"usage":{{"output_tokens":{0}}}}}}}"#,
                "\n"
            ),
            number,
            number.saturating_sub(1)
        )
    };
    let build = |room: LogBuffers, numbers: std::ops::Range<u32>| {
        let mut walker = Walker::with_buffers(room, 1 << 20, &|_| ());
        walker.take_lines(numbers.map(line).collect::<String>().as_bytes(), 0);
        walker.into_builder()
    };
    let fresh = build(LogBuffers::default(), 5..9).finish();
    assert_eq!(
        (fresh.records.len(), fresh.responses.len(), fresh.blocks.len()),
        (4, 4, 4)
    );
    let room = LogBuffers::from_log(build(LogBuffers::default(), 0..50).finish());
    assert!(room.capacity() >= 50);
    assert!(build(room, 5..9).finish() == fresh);
    // What is left of a part that was joined is room too.
    let mut whole = build(LogBuffers::default(), 0..5);
    let room = whole.append(build(LogBuffers::default(), 5..20));
    assert_eq!(whole.finish().records.len(), 20);
    assert!(room.records.capacity() >= 15 && room.parents.capacity() >= 15);
    assert!(build(room, 5..9).finish() == fresh);
}

#[test]
fn what_was_billed_and_what_was_sent_differ_with_iterations() {
    let tokens = |input: u64| format!(r#""input_tokens":{input},"output_tokens":1"#);
    let listed = |inputs: &[u64]| {
        let each = inputs
            .iter()
            .map(|input| format!(r#"{{"type":"message",{}}}"#, tokens(*input)));
        format!(r#","iterations":[{}]"#, each.collect::<Vec<_>>().join(","))
    };
    let zeroed = r#""input_tokens":0,"output_tokens":0"#;
    // The usage, what was billed, what was sent, and whether counts were zeroed.
    for (usage, billed, sent, is_zeroed) in [
        (tokens(7), 7, 7, false),
        (zeroed.into(), 0, 0, false),
        (tokens(7) + &listed(&[7]), 7, 7, false),
        (tokens(7) + &listed(&[3, 4]), 7, 4, false),
        (zeroed.to_owned() + &listed(&[3, 4]), 7, 4, true),
        (zeroed.to_owned() + &listed(&[5]), 5, 5, true),
    ] {
        let line = format!(r#"{{"type":"assistant","uuid":"u","message":{{"usage":{{{usage}}}}}}}"#);
        let mut walker = Walker::new(1 << 20, &|_| ());
        walker.take_lines(line.as_bytes(), 0);
        let log = walker.into_builder().finish();
        let response = &log.responses[0];
        let found = (response.billed.input, response.context().input, response.is_zeroed);
        assert_eq!(found, (billed, sent, is_zeroed), "{usage}");
        let packed = crate::pack::pack(&log);
        let back = crate::pack::unpack(&packed).ok();
        assert_eq!(back.map(|log| log.responses), Some(log.responses), "{usage}");
    }
}

#[test]
fn ids_are_the_same_only_if_every_byte_is() {
    let id = *b"0c97beba-bfcb-4f84-9950-e0354bfc808b";
    assert!(is_same_id(&id, &id.clone()));
    for at in 0..id.len() {
        let mut other = id;
        other[at] ^= 1;
        assert!(!is_same_id(&id, &other), "{at}");
    }
}
