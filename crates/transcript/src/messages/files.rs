//! Reads the text of instruction and memory files from what the client notes beside tool results and in attachments.

use super::record::decode_owned;
use super::{SeenFile, to_shown};
use crate::json::{JsonKind, PullParser};
use crate::paths::{is_instruction, is_memory};
use crate::skim::SlowPath;

/// Returns whether the text of a file is worth keeping.
fn is_wanted(path: &str) -> bool {
    is_instruction(path) || is_memory(path)
}

/// Reads the structured copy of a tool result: the file that was read, written or edited.
///
/// The client writes the path before the text, so the text of other files is skipped, not decoded.
pub(super) fn read_result_file<'a, P: PullParser<'a>>(parser: &mut P) -> Result<Option<SeenFile>, SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip().map(|()| None);
    }
    let mut read = None;
    let mut path = String::new();
    let [mut content, mut old, mut new, mut original] = [const { None }; 4];
    let mut replaces_all = false;
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"file" => read = read_part(parser)?,
            b"filePath" => path = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"replaceAll" => replaces_all = parser.flag()?,
            b"content" | b"oldString" | b"newString" | b"originalFile" if is_wanted(&path) => {
                let text = parser.text()?.map(decode_owned);
                match key {
                    b"content" => content = text,
                    b"oldString" => old = text,
                    b"newString" => new = text,
                    _ => original = text,
                }
            }
            _ => parser.skip()?,
        }
    }
    let edited = match (original, old, new) {
        (Some(text), Some(old), Some(new)) if !old.is_empty() && text.contains(&old) => Some(match replaces_all {
            true => text.replace(&old, &new),
            false => text.replacen(&old, &new, 1),
        }),
        _ => None,
    };
    let written = edited.or(content).map(|text| SeenFile {
        path,
        text: to_shown(text),
        is_whole: true,
    });
    Ok(read.or(written))
}

/// Reads the file that a read returned, or some of its lines.
fn read_part<'a, P: PullParser<'a>>(parser: &mut P) -> Result<Option<SeenFile>, SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip().map(|()| None);
    }
    let (mut path, mut text) = (String::new(), None);
    let [mut start, mut shown, mut total] = [1, 0, 0];
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"filePath" => path = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"content" if is_wanted(&path) => text = parser.text()?.map(decode_owned),
            b"startLine" | b"numLines" | b"totalLines" if parser.peek()? == JsonKind::Number => {
                let count = parser.count()?.unwrap_or(0);
                match key {
                    b"startLine" => start = count,
                    b"numLines" => shown = count,
                    _ => total = count,
                }
            }
            _ => parser.skip()?,
        }
    }
    Ok(text.map(|text| SeenFile {
        path,
        text: to_shown(text),
        is_whole: start <= 1 && shown >= total,
    }))
}

/// Reads an instruction file that the client attached.
pub(super) fn read_nested_file<'a, P: PullParser<'a>>(parser: &mut P) -> Result<Option<SeenFile>, SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip().map(|()| None);
    }
    let (mut path, mut text) = (String::new(), None);
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"path" => path = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"content" => text = parser.text()?.map(decode_owned),
            _ => parser.skip()?,
        }
    }
    Ok(text.map(|text| SeenFile {
        path,
        text: to_shown(text),
        is_whole: true,
    }))
}
