//! The wire format: what is read of one line of a log.
//!
//! [`read`] pulls one line through a [`PullParser`] into a [`WireRecord`], which borrows from the line. Nothing is
//! interpreted here (which text a person typed, which response a line belongs to): [`crate::build`] does that. The
//! second copy of a tool result (`toolUseResult`), file-history snapshots and every field not named below are skipped.
//!
//! Every object is read in two steps. The first step tries the byte sequences that the client usually writes, in
//! their usual order, several members at a time. The second step reads whatever is left, in any order. The first step
//! is purely an optimization: it sets the same fields as the second.
//!
//! Members that few lines have are read by functions marked `#[inline(never)]`: the code that every line runs through
//! already exceeds the L1 instruction cache.

/// Loops over the members of an open object. After each member, the keys in brackets are tried in this order before an
/// arbitrary key is read: the client writes its keys in a fixed order, so nearly all keys match this way. The list only
/// affects speed, because the body is the same however a key was found.
macro_rules! each_member {
    ($parser:ident, $frame:ident, [$($usual:literal)*], $key:ident => $body:expr) => {
        while let Some($key) = $parser.next_key(&mut $frame)? {
            $body;
            $(
                if $parser.try_key(concat!(",\"", $usual, "\":").as_bytes()) {
                    let $key: &[u8] = $usual.as_bytes();
                    $body;
                }
            )*
        }
    };
}

/// Loops over the members of an object; skips any other value.
macro_rules! members {
    ($parser:ident, [$($usual:literal)*], $key:ident => $body:expr) => {
        if $parser.peek()? != JsonKind::Object {
            $parser.skip()?;
        } else {
            let mut frame = $parser.open_object()?;
            each_member!($parser, frame, [$($usual)*], $key => $body);
        }
    };
    ($parser:ident, $key:ident => $body:expr) => {
        members!($parser, [], $key => $body)
    };
}

mod attachment;
mod boundary;
mod content;
mod usage;
mod wire;

pub use usage::{MAX_COUNT, Tokens, WireUsage};
pub use wire::{ScopeRun, WireBlock, WireBoundary, WireFacts, WireMessage, WireOtherCall, WireRecord, client_estimate};

use crate::json::{JsonKind, JsonStr, PullParser};
use crate::skim::SlowPath;
use attachment::read_attachment;
use boundary::read_compaction;
use content::read_content;
use usage::read_usage;
use wire::Clear;

/// Reads one record. On `Err`, the contents of `record` are unspecified and must not be used.
pub fn read<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.clear();
    let mut frame = match parser.try_open_object(b"{\"parentUuid\":") {
        Some(frame) => {
            record.parent = parser.text()?;
            read_common_members(parser, record)?;
            frame
        }
        None if parser.peek()? == JsonKind::Object => parser.open_object()?,
        None => return Err(SlowPath),
    };
    each_member!(parser, frame, ["session_id" "sessionKind" "userType"], key => match key {
        b"userType" => read_scope_run(parser, record)?,
        _ => read_member(parser, record, key)?,
    });
    Ok(())
}

/// Reads the usual members of a conversation record after the value of `parentUuid`, in the order in which the client
/// writes them.
#[inline(always)]
fn read_common_members<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    // Main agent, sub-agent, or a newer client that writes the scope at the end of the line.
    if parser.try_key(b",\"isSidechain\":false,\"userType\":") {
        read_scope_run(parser, record)?;
    } else if parser.try_key(b",\"isSidechain\":true,\"userType\":") {
        record.is_sidechain = true;
        read_scope_run(parser, record)?;
        if parser.try_key(b",\"agentId\":") {
            record.agent = parser.text()?;
        }
        if parser.try_key(b",\"slug\":") {
            parser.skip()?;
        }
    } else if parser.try_key(b",\"isSidechain\":") {
        record.is_sidechain = parser.flag()?;
        if parser.try_key(b",\"promptId\":") {
            parser.skip()?;
        }
    }
    // Prompt or tool result, response, progress.
    if parser.try_key(b",\"type\":\"user\",\"message\":") {
        record.kind = Some(JsonStr::plain(b"user"));
        read_message(parser, record)?;
    } else if parser.try_key(b",\"message\":") {
        read_message(parser, record)?;
        if parser.try_key(b",\"requestId\":") {
            record.request = parser.text()?;
        }
        if parser.try_key(b",\"type\":\"assistant\",\"uuid\":") {
            record.kind = Some(JsonStr::plain(b"assistant"));
            record.uuid = parser.text()?;
        }
    } else if parser.try_key(b",\"type\":\"progress\",\"data\":") {
        record.kind = Some(JsonStr::plain(b"progress"));
        read_progress(parser, record)?;
        for _ in 0..2 {
            let other = parser.try_key(b",\"parentToolUseID\":");
            if other || parser.try_key(b",\"toolUseID\":") {
                parser.skip()?;
            }
        }
    }
    if parser.try_key(b",\"uuid\":") {
        record.uuid = parser.text()?;
    }
    if parser.try_key(b",\"timestamp\":") {
        record.timestamp = parser.text()?;
    }
    // A second copy of the tool result, often the largest value of the line.
    if parser.try_key(b",\"toolUseResult\":") {
        parser.skip()?;
        if parser.try_key(b",\"sourceToolAssistantUUID\":") {
            parser.skip()?;
        }
    }
    Ok(())
}

/// Reads the value of `userType` and the members that usually follow: folder, session, version and branch. They are
/// byte-identical on hundreds of consecutive lines, so the whole run is compared with the memoized one first.
fn read_scope_run<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    if let Some(texts) = parser.take_memoized_texts() {
        [record.cwd, record.session, record.version, record.branch] = texts;
        record.scope_run = ScopeRun(parser.run_number());
        return Ok(());
    }
    read_new_scope_run(parser, record)
}

#[inline(never)]
fn read_new_scope_run<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.scope_run = ScopeRun::default();
    let mark = parser.position_mark();
    parser.skip()?;
    if parser.try_key(b",\"entrypoint\":") {
        parser.skip()?;
    }
    let texts = [
        &mut record.cwd,
        &mut record.session,
        &mut record.version,
        &mut record.branch,
    ];
    let tokens: [&[u8]; 4] = [b",\"cwd\":", b",\"sessionId\":", b",\"version\":", b",\"gitBranch\":"];
    for (token, text) in std::iter::zip(tokens, texts) {
        if !parser.try_key(token) {
            return Ok(());
        }
        *text = parser.text()?;
    }
    if parser.try_key(b",\"slug\":") {
        parser.skip()?;
    }
    parser.memoize_texts(mark, [record.cwd, record.session, record.version, record.branch]);
    record.scope_run = ScopeRun(parser.run_number());
    Ok(())
}

/// Reads one member of a record. Inlined because most callers pass a constant key, which leaves one arm of the match.
#[inline(always)]
fn read_member<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>, key: &[u8]) -> Result<(), SlowPath> {
    // A scope member that is read on its own may differ from the memoized run, so it resets `scope_run`.
    match key {
        b"type" => record.kind = parser.text()?,
        b"subtype" => record.subtype = parser.text()?,
        b"uuid" => record.uuid = parser.text()?,
        b"parentUuid" => record.parent = parser.text()?,
        b"logicalParentUuid" => record.logical_parent = parser.text()?,
        b"sessionId" => (record.session, record.scope_run) = (parser.text()?, ScopeRun::default()),
        b"agentId" => record.agent = parser.text()?,
        b"version" => (record.version, record.scope_run) = (parser.text()?, ScopeRun::default()),
        b"cwd" => (record.cwd, record.scope_run) = (parser.text()?, ScopeRun::default()),
        b"gitBranch" => (record.branch, record.scope_run) = (parser.text()?, ScopeRun::default()),
        b"timestamp" => record.timestamp = parser.text()?,
        b"requestId" => record.request = parser.text()?,
        b"isSidechain" => record.is_sidechain = parser.flag()?,
        b"isMeta" => record.is_meta = parser.flag()?,
        b"isCompactSummary" => record.is_compact_summary = parser.flag()?,
        b"isApiErrorMessage" => record.is_api_error = parser.flag()?,
        b"message" => read_message(parser, record)?,
        b"attachment" => read_attachment(parser, record)?,
        b"content" => record.system_text = parser.text()?,
        b"compactMetadata" | b"microcompactMetadata" => record.compaction = read_compaction(parser)?,
        b"data" => read_progress(parser, record)?,
        b"callFacts" => record.facts = read_facts(parser)?,
        _ => read_session_member(parser, record, key)?,
    }
    Ok(())
}

/// Reads a member of the records that say something about a session as a whole, and skips every other one.
#[inline(never)]
fn read_session_member<'a, P: PullParser<'a>>(
    parser: &mut P,
    record: &mut WireRecord<'a>,
    key: &[u8],
) -> Result<(), SlowPath> {
    match key {
        b"customTitle" | b"aiTitle" | b"tag" | b"summary" => record.title = parser.text()?,
        b"prUrl" => record.pull_url = parser.text()?,
        b"leafUuid" => record.leaf = parser.text()?,
        _ => parser.skip()?,
    }
    Ok(())
}

#[cold]
fn read_facts<'a, P: PullParser<'a>>(parser: &mut P) -> Result<Option<WireFacts>, SlowPath> {
    let mut facts = WireFacts::default();
    let small = |count: Option<u64>| count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    members!(parser, key => match key {
        b"reasoning" => facts.reasoning = small(parser.number()?),
        b"window" => facts.window = small(parser.number()?),
        _ => parser.skip()?,
    });
    Ok((facts != WireFacts::default()).then_some(facts))
}

fn read_message<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.message.clear();
    record.other_calls.clear();
    record.blocks.clear();
    let mut frame = if let Some(frame) = parser.try_open_object(b"{\"role\":\"user\",\"content\":") {
        read_content(parser, &mut record.blocks)?;
        frame
    } else if let Some(frame) = parser.try_open_object(b"{\"model\":") {
        read_common_response(parser, record)?;
        frame
    } else if parser.peek()? == JsonKind::Object {
        parser.open_object()?
    } else {
        return parser.skip();
    };
    each_member!(parser, frame, [
        "type" "role" "model" "content" "stop_reason" "stop_sequence" "stop_details" "usage"
    ], key => match key {
        b"id" => record.message.id = parser.text()?,
        b"model" => record.message.model = parser.text()?,
        b"stop_reason" => record.message.stop_reason = parser.text()?,
        b"usage" => read_usage(parser, record)?,
        b"content" => read_content(parser, &mut record.blocks)?,
        _ => parser.skip()?,
    });
    Ok(())
}

/// Reads the usual members of a model's response after the key `model`, in the order in which the client writes them.
#[inline(always)]
fn read_common_response<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.message.model = parser.text()?;
    if parser.try_key(b",\"id\":") {
        record.message.id = parser.text()?;
    }
    if parser.try_key(b",\"type\":\"message\",\"role\":\"assistant\",\"content\":") {
        read_content(parser, &mut record.blocks)?;
    }
    if parser.try_key(b",\"stop_reason\":null,\"stop_sequence\":null,\"usage\":") {
        read_usage(parser, record)?;
    } else if parser.try_key(b",\"stop_reason\":") {
        record.message.stop_reason = parser.text()?;
        let with_details = parser.try_key(b",\"stop_sequence\":null,\"stop_details\":null,\"usage\":");
        if with_details || parser.try_key(b",\"stop_sequence\":null,\"usage\":") {
            read_usage(parser, record)?;
        }
    }
    Ok(())
}

/// Reads the message nested in a sub-agent's progress record: its usage, not its content.
#[inline(never)]
fn read_progress<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    members!(parser, key => match key {
        b"type" => record.subtype = parser.text()?,
        b"agentId" => record.agent = parser.text()?,
        b"message" => members!(parser, key => match key {
            b"requestId" => record.request = parser.text()?,
            b"message" => {
                record.message.clear();
                record.other_calls.clear();
                members!(parser, key => match key {
                    b"id" => record.message.id = parser.text()?,
                    b"model" => record.message.model = parser.text()?,
                    b"stop_reason" => record.message.stop_reason = parser.text()?,
                    b"usage" => read_usage(parser, record)?,
                    _ => parser.skip()?,
                });
            }
            _ => parser.skip()?,
        }),
        _ => parser.skip()?,
    });
    Ok(())
}
