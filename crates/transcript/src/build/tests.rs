use super::kinds::MAX_INDEXED_KINDS;
use super::names::is_same_id;
use super::*;
use crate::bytes::LineConsumer;
use crate::walk::Walker;

#[test]
fn record_types_beyond_the_indexed_ones_are_counted() {
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
fn scopes_differ_by_agent_and_by_single_members() {
    let scope_run = r#""userType":"external","cwd":"/a","sessionId":"s","version":"1","gitBranch":"main""#;
    let line =
        |rest: &str| format!(r#"{{"parentUuid":null,"isSidechain":false,{scope_run},"type":"user"{rest}}}"#) + "\n";
    let lines = [
        line(""),
        line(r#","agentId":"g""#),
        line(""),
        line(r#","cwd":"/b""#),
        line(""),
    ];
    let mut walker = Walker::new(1 << 20, &|_| ());
    // Repeat in another block, where memoized runs must not carry over.
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
fn hash_collisions_get_different_names() {
    let mut builder = LogBuilder::new(LogBuffers::default());
    let one = builder.intern("one");
    // Simulate a hash collision.
    builder.names.insert(xxhash_rust::xxh3::xxh3_64(b"other"), one);
    let other = builder.intern("other");
    assert_ne!(one, other);
    assert_eq!([builder.intern("one"), builder.intern("other")], [one, other]);
    assert_eq!(builder.log.string(other), "other");
}

#[test]
fn reserving_keeps_existing_items() {
    let mut list = Vec::<u64>::with_capacity(4);
    let buffers = list.as_ptr();
    reserve_fresh(&mut list, 4);
    assert_eq!(list.as_ptr(), buffers, "there was buffers");
    reserve_fresh(&mut list, 5);
    assert!(list.capacity() >= 5);
    list.push(7);
    reserve_fresh(&mut list, 100);
    assert!(list == [7] && list.capacity() >= 101);
}

#[test]
fn reused_buffers_give_the_same_log() {
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
    let build = |buffers: LogBuffers, numbers: std::ops::Range<u32>| {
        let mut walker = Walker::with_buffers(buffers, 1 << 20, &|_| ());
        walker.take_lines(numbers.map(line).collect::<String>().as_bytes(), 0);
        walker.into_builder()
    };
    let fresh = build(LogBuffers::default(), 5..9).finish();
    assert_eq!(
        (fresh.records.len(), fresh.responses.len(), fresh.blocks.len()),
        (4, 4, 4)
    );
    let buffers = LogBuffers::from_log(build(LogBuffers::default(), 0..50).finish());
    assert!(buffers.capacity() >= 50);
    assert!(build(buffers, 5..9).finish() == fresh);
    // The buffers of an appended part are reused too.
    let mut whole = build(LogBuffers::default(), 0..5);
    let buffers = whole.append(build(LogBuffers::default(), 5..20));
    assert_eq!(whole.finish().records.len(), 20);
    assert!(buffers.records.capacity() >= 15 && buffers.parents.capacity() >= 15);
    assert!(build(buffers, 5..9).finish() == fresh);
}

#[test]
fn billed_and_context_tokens_differ_with_iterations() {
    let tokens = |input: u64| format!(r#""input_tokens":{input},"output_tokens":1"#);
    let listed = |inputs: &[u64]| {
        let each = inputs
            .iter()
            .map(|input| format!(r#"{{"type":"message",{}}}"#, tokens(*input)));
        format!(r#","iterations":[{}]"#, each.collect::<Vec<_>>().join(","))
    };
    let zeroed = r#""input_tokens":0,"output_tokens":0"#;
    // Usage, billed input, input of the last call, and whether counts were zeroed.
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

#[test]
fn titles_and_first_prompts_are_kept_however_a_log_is_cut_into_parts() {
    let prompt = |number: u32, text: &str| {
        let message = format!(r#"{{"role":"user","content":"{text}"}}"#);
        format!(r#"{{"type":"user","uuid":"u{number}","sessionId":"s","message":{message}}}"#) + "\n"
    };
    let title =
        |key: &str, kind: &str, text: &str| format!(r#"{{"type":"{kind}","{key}":"{text}","sessionId":"s"}}"#) + "\n";
    let lines = [
        r#"{"type":"summary","summary":"Old name","leafUuid":"u3"}"#.to_owned() + "\n",
        r#"{"type":"summary","summary":"Another log's","leafUuid":"u9"}"#.to_owned() + "\n",
        prompt(1, "first \\u00e9"),
        title("aiTitle", "ai-title", "One"),
        prompt(2, &"x".repeat(2 * TITLE_CHARS)),
        title("customTitle", "custom-title", "Mine"),
        prompt(3, "<system-reminder>no</system-reminder>third"),
        prompt(4, "fourth"),
        title("tag", "tag", "later"),
        title("aiTitle", "ai-title", "Two"),
        r#"{"type":"pr-link","sessionId":"s","prUrl":"https://h/o/r/pull/7","timestamp":"2026-01-01T00:00:00Z"}"#
            .to_owned()
            + "\n",
    ];
    let parse = |lines: &[String], start: usize| {
        let mut walker = Walker::new(1 << 20, &|_| ());
        walker.take_lines(lines.concat().as_bytes(), start as u64);
        walker.into_builder()
    };
    let whole = parse(&lines, 0).finish();
    let texts = |source: TitleSource| {
        let of_source = whole.titles.iter().filter(|title| title.source == source);
        of_source.map(|title| title.text.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(texts(TitleSource::Custom), ["Mine"]);
    assert_eq!(texts(TitleSource::Model), ["Two"]);
    assert_eq!(texts(TitleSource::Summary), ["Old name"]);
    assert_eq!(texts(TitleSource::Tag), ["later"]);
    let place = |source| {
        whole
            .titles
            .iter()
            .find(|title| title.source == source)
            .map(|title| title.offset)
    };
    assert_eq!(
        place(TitleSource::Custom),
        Some(lines[..5].concat().len() as u64),
        "where it stands"
    );
    assert_eq!(
        texts(TitleSource::Prompt),
        ["first é", &"x".repeat(TITLE_CHARS), "third"]
    );
    assert_eq!((whole.pulls.len(), &*whole.pulls[0].url), (1, "https://h/o/r/pull/7"));
    assert!(whole.titles.iter().all(|title| whole.string(title.session) == "s"));
    assert_eq!(crate::pack::unpack(&crate::pack::pack(&whole)), Ok(whole.clone()));
    for cut in 1..lines.len() {
        let mut builder = parse(&lines[..cut], 0);
        builder.append(parse(&lines[cut..], lines[..cut].concat().len()));
        let joined = builder.finish();
        assert_eq!(
            (joined.titles, joined.pulls),
            (whole.titles.clone(), whole.pulls.clone()),
            "{cut}"
        );
    }
}
