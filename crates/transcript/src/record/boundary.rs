//! Metadata of compaction and micro-compaction boundaries.

use super::wire::WireBoundary;
use crate::json::{JsonKind, JsonStr, PullParser};
use crate::skim::SlowPath;

#[cold]
pub(super) fn read_compaction<'a, P: PullParser<'a>>(parser: &mut P) -> Result<Option<WireBoundary<'a>>, SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip().map(|()| None);
    }
    let mut found = WireBoundary::default();
    members!(parser, key => match key {
        b"trigger" => found.trigger = parser.text()?,
        b"preTokens" => found.pre_tokens = parser.number()?,
        b"postTokens" => found.post_tokens = parser.number()?,
        b"tokensSaved" => found.tokens_saved = parser.number()?,
        b"durationMs" => found.duration_ms = parser.number()?,
        b"preservedSegment" => members!(parser, key => match key {
            b"headUuid" => found.kept_head = parser.text()?,
            b"tailUuid" => found.kept_tail = parser.text()?,
            _ => parser.skip()?,
        }),
        b"preservedMessages" => members!(parser, key => match key {
            b"uuids" => found.kept = read_texts(parser)?,
            _ => parser.skip()?,
        }),
        b"compactedToolIds" => found.cleared = read_texts(parser)?,
        _ => parser.skip()?,
    });
    Ok(Some(found))
}

fn read_texts<'a, P: PullParser<'a>>(parser: &mut P) -> Result<Vec<JsonStr<'a>>, SlowPath> {
    let mut texts = Vec::new();
    if parser.peek()? != JsonKind::Array {
        parser.skip()?;
        return Ok(texts);
    }
    let mut frame = parser.open_array()?;
    while parser.next_item(&mut frame)? {
        texts.extend(parser.text()?);
    }
    Ok(texts)
}
