use super::*;
use crate::bytes::LineConsumer;
use crate::line_hashes::LineHashes;
use crate::log::RecordScope;
use crate::problem::ProblemKind;
use crate::walk::Walker;

/// Parses a log from a script with lines `id parent what`: `u` prompt, `a:MSG` response text, `c:MSG:CALL` call,
/// `r:CALL` result, `b:PARENT:KEPT...` boundary with a logical parent and kept records, `s` summary, `k` attachment,
/// `x:AGENT` sidechain prompt.
fn part(script: &str) -> SessionLog {
    let mut text = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words = line.split(' ').collect::<Vec<_>>();
        let (id, parent, what) = (words[0], words[1], words[2]);
        let parent = if parent == "-" {
            "null".into()
        } else {
            format!("\"{parent}\"")
        };
        let fields = what.split(':').collect::<Vec<_>>();
        let usage = r#""usage":{"input_tokens":10,"output_tokens":5},"model":"claude-opus-4-5""#;
        let (kind, more) = match fields[0] {
            "u" => ("user", r#""message":{"content":"please"}"#.to_owned()),
            "x" => (
                "user",
                format!(
                    r#""isSidechain":true,"agentId":"{}","message":{{"content":"go"}}"#,
                    fields[1]
                ),
            ),
            "a" => (
                "assistant",
                format!(
                    r#""message":{{"id":"{}",{usage},"content":[{{"type":"text","text":"ok"}}]}}"#,
                    fields[1]
                ),
            ),
            "c" => (
                "assistant",
                format!(
                    r#""message":{{"id":"{}",{usage},"content":[{{"type":"tool_use","id":"{}","name":"Bash","input":{{}}}}]}}"#,
                    fields[1], fields[2]
                ),
            ),
            "r" => (
                "user",
                format!(
                    r#""message":{{"content":[{{"type":"tool_result","tool_use_id":"{}","content":"done"}}]}}"#,
                    fields[1]
                ),
            ),
            "b" => (
                "system",
                format!(
                    r#""subtype":"compact_boundary","logicalParentUuid":"{}","compactMetadata":{{"trigger":"auto","preservedMessages":{{"uuids":[{}]}}}}"#,
                    fields[1],
                    fields[2..]
                        .iter()
                        .map(|kept| format!("\"{kept}\""))
                        .collect::<Vec<_>>()
                        .join(",")
                ),
            ),
            "s" => (
                "user",
                r#""isCompactSummary":true,"message":{"content":"summary"}"#.to_owned(),
            ),
            "k" => (
                "attachment",
                r#""attachment":{"type":"hook_success","content":"x"}"#.to_owned(),
            ),
            other => panic!("{other}"),
        };
        text.push_str(&format!(
            "{{\"type\":\"{kind}\",\"uuid\":\"{id}\",\"parentUuid\":{parent},\"sessionId\":\"S\",{more}}}\n"
        ));
    }
    let mut walker = Walker::new(1 << 20, &|_| ());
    walker.take_lines(text.as_bytes(), 0);
    SessionLog {
        path: "log".into(),
        log: walker.into_builder().finish(),
        copied: Vec::new(),
        lines: Default::default(),
    }
}

/// Threads a script and compares the main chain, written as `inputs>lines` per round, `|` between rounds, then `~` and
/// the tail.
fn check(script: &str, main: &str, rewound: &str, problems: &[ProblemKind]) {
    let parts = [part(script)];
    let session = Session::new("S", &parts);
    let threaded = thread(&session);
    let names = |nodes: &[Node]| {
        let name = |node: &Node| {
            let log = session.log(*node);
            let odd = log.odd_ids.iter().find(|(id, _)| *id == session.record(*node).id);
            odd.map_or("?", |(_, name)| log.string(*name)).to_owned()
        };
        nodes.iter().map(name).collect::<Vec<_>>().join(",")
    };
    let chain = &threaded.chains[0];
    let rounds = chain
        .rounds
        .iter()
        .map(|round| format!("{}>{}", names(&round.inputs), names(&round.lines)));
    let got = format!("{} ~{}", rounds.collect::<Vec<_>>().join(" | "), names(&chain.tail));
    assert_eq!(got, main, "{script}");
    assert_eq!(names(&threaded.rewound), rewound, "{script}");
    assert_eq!(
        threaded.problems.iter().map(|problem| problem.kind).collect::<Vec<_>>(),
        problems,
        "{script}"
    );
}

#[test]
fn lines_of_a_response_are_one_round() {
    check(
        "u1 - u\na1 u1 a:m1\na2 a1 c:m1:t1\nr1 a2 r:t1\na3 r1 a:m2",
        "u1>a1,a2 | r1>a3 ~",
        "",
        &[],
    );
}

#[test]
fn off_chain_results_of_parallel_calls_are_included() {
    check(
        "u1 - u\na1 u1 c:m1:t1\na2 a1 c:m1:t2\nr1 a1 r:t1\nk1 r1 k\nr2 a2 r:t2\na3 r2 a:m2",
        "u1>a1,a2 | r1,k1,r2>a3 ~",
        "",
        &[],
    );
}

#[test]
fn rewound_branches_are_left_out() {
    check(
        "u1 - u\na1 u1 a:m1\nu2 a1 u\na2 u2 a:m2\nu3 a1 u\na3 u3 a:m3",
        "u1>a1 | u3>a3 ~",
        "u2,a2",
        &[],
    );
}

#[test]
fn boundaries_are_crossed_by_their_logical_parent() {
    check(
        "u1 - u\na1 u1 a:m1\nb1 - b:a1\ns1 b1 s\nu2 s1 u\na2 u2 a:m2",
        "u1>a1 | b1,s1,u2>a2 ~",
        "",
        &[],
    );
    check(
        "u1 - u\na1 u1 a:m1\nb1 - b:gone\ns1 b1 s\nu2 s1 u",
        "u1>a1 ~b1,s1,u2",
        "",
        &[ProblemKind::BoundaryWithoutLeaf],
    );
}

#[test]
fn rewritten_kept_segments_move_before_their_boundary() {
    check(
        "u1 - u\nb1 - b:a1:a1\ns1 b1 s\na1 s1 a:m1\nu2 a1 u\na2 u2 a:m2",
        "u1>a1 | b1,s1,u2>a2 ~",
        "",
        &[],
    );
}

#[test]
fn broken_chains_are_joined() {
    check(
        "u1 - u\na1 u1 a:m1\nu2 gone u\na2 u2 a:m2",
        "u1>a1 | u2>a2 ~",
        "",
        &[ProblemKind::MissingParent],
    );
    check("u1 a1 u\na1 u1 a:m1", "u1>a1 ~", "", &[ProblemKind::ParentCycle]);
    check(
        "u1 - u\na1 u1 a:m1\ns1 - s\nu2 s1 u\na2 u2 a:m2",
        "u1>a1 | s1,u2>a2 ~",
        "",
        &[],
    );
}

#[test]
fn calls_and_results_are_paired() {
    check(
        "u1 - u\na1 u1 c:m1:t1\nu2 a1 u\na2 u2 a:m2",
        "u1>a1 | u2>a2 ~",
        "",
        &[ProblemKind::CallWithoutResult],
    );
    check(
        "u1 - u\nr1 u1 r:t9\na1 r1 a:m1",
        "u1,r1>a1 ~",
        "",
        &[ProblemKind::ResultWithoutCall],
    );
    check("u1 - u\na1 u1 c:m1:t1", "u1>a1 ~", "", &[]);
}

#[test]
fn sub_agents_have_chains_of_their_own() {
    let parts = [part("u1 - u\na1 u1 a:m1\nx1 - x:agent1\nx2 - x:agent2\nx3 x1 x:agent1")];
    let session = Session::new("S", &parts);
    let threaded = thread(&session);
    let agents = threaded
        .chains
        .iter()
        .map(|chain| (chain.agent.as_str(), chain.tail.len()))
        .collect::<Vec<_>>();
    assert_eq!(agents, [("", 0), ("agent1", 2), ("agent2", 1)]);
}

#[test]
fn a_sub_agent_excludes_messages_of_others() {
    // One sub-agent starts after the main agent's response, the other after the first one's prompt.
    let parts = [part(
        "u1 - u\na1 u1 a:m1\nx1 a1 x:agent1\nx2 x1 x:agent2\nx3 x2 x:agent2",
    )];
    let session = Session::new("S", &parts);
    let threaded = thread(&session);
    let lengths = threaded
        .chains
        .iter()
        .map(|chain| (chain.rounds.len(), chain.tail.len()));
    assert_eq!(lengths.collect::<Vec<_>>(), [(1, 0), (0, 1), (0, 2)]);
    assert_eq!((threaded.branches, threaded.problems.len()), (0, 0));
}

/// Sessions in one log that follow each other's records, with copies, holes and sub-agents.
fn shared_log() -> SessionLog {
    let mut log = part(
        "u1 - u\na1 u1 c:m1:t1\nu2 a1 u\na2 u2 a:m2\nr1 a1 r:t1\nu3 gone u\na3 u3 a:m3\nx1 a3 x:agent1\n\
         b1 - b:a2:a1\ns1 b1 s\nu4 s1 u\na4 u4 a:m4\nx2 x1 x:agent2\nu1 - u\na5 a4 a:m2\nk1 a5 k\nr2 a5 r:t9\nu5 r2 u\na6 u5 a:m6",
    );
    // Every record goes to one of four sessions.
    let base = log.log.scopes.clone();
    for (at, name) in ["T", "U", "V"].iter().enumerate() {
        log.log.strings.push((*name).into());
        let session = log.log.strings.len() as u32 - 1;
        log.log
            .scopes
            .extend(base.iter().map(|scope| RecordScope { session, ..*scope }));
        assert_eq!(log.log.scopes.len(), base.len() * (at + 2));
    }
    for (at, record) in log.log.records.iter_mut().enumerate() {
        record.scope += (base.len() * (at * 7 % 5 % 4)) as u32;
    }
    log.copied = (0..log.log.records.len()).map(|at| at % 3 == 0).collect();
    log
}

#[test]
fn a_split_log_is_threaded_like_the_whole() {
    let whole = shared_log();
    let describe = |session: &Session<'_>| {
        let threaded = thread(session);
        let node = |node: &Node| {
            (
                session.record(*node).offset,
                session.is_copied(*node),
                session.blocks(*node).len(),
            )
        };
        let nodes = |nodes: &[Node]| nodes.iter().map(node).collect::<Vec<_>>();
        let round = |round: &Round| {
            let flags = (round.turn, round.is_after_hole, round.is_after_restart);
            (nodes(&round.inputs), nodes(&round.lines), flags)
        };
        let chain = |chain: &Chain| {
            let rounds = chain.rounds.iter().map(round).collect::<Vec<_>>();
            (
                chain.agent.clone(),
                rounds,
                nodes(&chain.tail),
                nodes(&chain.off_chain_inputs),
            )
        };
        let chains = threaded.chains.iter().map(chain).collect::<Vec<_>>();
        let repeats = nodes(session.repeats());
        (
            chains,
            nodes(&threaded.rewound),
            threaded.branches,
            threaded.problems,
            repeats,
        )
    };
    let parts = crate::split::split_sessions(&whole.log, LineHashes::default());
    assert_eq!(parts.len(), 4);
    let mut linked_elsewhere = 0;
    for part in parts {
        let id = part.session.clone();
        let expected = describe(&Session::new(&id, std::slice::from_ref(&whole)));
        linked_elsewhere += part.log.records.len() - part.records.len();
        let copied = part.records.iter().map(|record| whole.copied[*record as usize]);
        let log = SessionLog {
            path: whole.path.clone(),
            copied: copied.collect(),
            log: crate::pack::unpack(&crate::pack::pack(&part.log)).expect("a log"),
            lines: part.line_hashes,
        };
        assert_eq!(log.log, part.log);
        assert_eq!(describe(&Session::new(&id, &[log])), expected, "{id}");
    }
    assert!(linked_elsewhere > 0, "some follow records of other sessions");
}
