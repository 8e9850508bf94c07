//! The content blocks of a message.

use super::wire::WireBlock;
use crate::json::{JsonKind, JsonStr, PullParser, decoded_shape};
use crate::skim::{SlowPath, TextShape};

pub(super) fn read_content<'a, P: PullParser<'a>>(
    parser: &mut P,
    blocks: &mut Vec<WireBlock<'a>>,
) -> Result<(), SlowPath> {
    blocks.clear();
    match parser.peek()? {
        JsonKind::String => {
            let (text, shape) = parser.measured_string()?;
            let mut block = WireBlock {
                head: Some(text),
                ..WireBlock::default()
            };
            block.add_part(shape);
            blocks.push(block);
        }
        JsonKind::Array => {
            let mut frame = parser.open_array()?;
            while parser.next_item(&mut frame)? {
                if parser.peek()? == JsonKind::Object {
                    // Filled in place: a block is too large to move cheaply.
                    blocks.push(WireBlock::default());
                    if let Some(block) = blocks.last_mut() {
                        read_block(parser, block)?;
                    }
                } else {
                    parser.skip()?;
                }
            }
        }
        _ => parser.skip()?,
    }
    Ok(())
}

fn read_block<'a, P: PullParser<'a>>(parser: &mut P, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    let mut frame = if let Some(frame) = parser.try_open_object(b"{\"tool_use_id\":") {
        block.id = parser.text()?;
        if parser.try_key(b",\"type\":\"tool_result\",\"content\":") {
            block.kind = Some(JsonStr::plain(b"tool_result"));
            read_result(parser, block)?;
        }
        if parser.try_key(b",\"is_error\":") {
            block.is_error = parser.flag()?;
        }
        frame
    } else if let Some(frame) = parser.try_open_object(b"{\"type\":\"tool_use\",\"id\":") {
        block.kind = Some(JsonStr::plain(b"tool_use"));
        block.id = parser.text()?;
        if parser.try_key(b",\"name\":") {
            block.name = parser.text()?;
        }
        if parser.try_key(b",\"input\":") {
            read_input(parser, block)?;
        }
        frame
    } else if let Some(frame) = parser.try_open_object(b"{\"type\":\"text\",\"text\":") {
        block.kind = Some(JsonStr::plain(b"text"));
        read_part(parser, block)?;
        frame
    } else if let Some(frame) = parser.try_open_object(b"{\"type\":\"thinking\",\"thinking\":") {
        block.kind = Some(JsonStr::plain(b"thinking"));
        read_part(parser, block)?;
        frame
    } else {
        parser.open_object()?
    };
    each_member!(parser, frame, ["signature"], key => match key {
        b"type" => block.kind = parser.text()?,
        b"id" | b"tool_use_id" => block.id = parser.text()?,
        b"name" => block.name = parser.text()?,
        b"text" | b"thinking" => read_part(parser, block)?,
        b"signature" => block.signature = match parser.peek()? {
            JsonKind::String => parser.measured_string()?.1.units,
            _ => parser.skip().map(|()| 0)?,
        },
        b"input" => read_input(parser, block)?,
        b"content" => read_result(parser, block)?,
        b"is_error" => block.is_error = parser.flag()?,
        _ => parser.skip()?,
    });
    Ok(())
}

/// Reads the text of a block. The last of several equal keys wins, so everything read before is reset.
fn read_part<'a, P: PullParser<'a>>(parser: &mut P, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    block.shape = TextShape::default();
    block.quarters = 0;
    block.head = None;
    if parser.peek()? != JsonKind::String {
        return parser.skip();
    }
    let (text, shape) = parser.measured_string()?;
    block.head = Some(text);
    block.add_part(shape);
    Ok(())
}

/// Reads the input of a tool call: its serialized length, and the few arguments that name files, ranges and commands.
fn read_input<'a, P: PullParser<'a>>(parser: &mut P, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    block.shape = TextShape::default();
    (block.path, block.offset, block.limit, block.command) = (None, None, None, None);
    if parser.peek()? != JsonKind::Object {
        block.shape.units = parser.serialized_units()?;
        return Ok(());
    }
    let mut units = 1u32;
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        // Two quotes, the colon, and the comma or closing brace.
        units = units.saturating_add(key_units(key)?).saturating_add(4);
        let value = match (parser.peek()?, key) {
            (JsonKind::String, _) => {
                let (text, shape) = parser.measured_string()?;
                match key {
                    b"file_path" | b"path" | b"notebook_path" => block.path = Some(text),
                    b"command" => block.command = Some(text),
                    _ => {}
                }
                block.shape.wide = block.shape.wide.saturating_add(shape.wide);
                block.shape.escapes = block.shape.escapes.saturating_add(shape.escapes);
                shape.serialized_units().saturating_add(2)
            }
            (JsonKind::Number, b"offset" | b"limit") => {
                let count = parser.count()?;
                if key == b"offset" {
                    block.offset = count;
                } else {
                    block.limit = count;
                }
                count.map_or(1, |count| count.to_string().len() as u32)
            }
            _ => parser.serialized_units()?,
        };
        units = units.saturating_add(value);
    }
    block.shape.units = units.max(2);
    Ok(())
}

/// Returns the serialized length of a key without its quotes.
fn key_units(key: &[u8]) -> Result<u32, SlowPath> {
    if key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return Ok(key.len() as u32);
    }
    let text = std::str::from_utf8(key).map_err(|_| SlowPath)?;
    Ok(decoded_shape(text).serialized_units())
}

/// Reads the content of a tool result: a string, or a list of texts, images and references.
fn read_result<'a, P: PullParser<'a>>(parser: &mut P, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    block.shape = TextShape::default();
    (block.quarters, block.images, block.head) = (0, 0, None);
    match parser.peek()? {
        JsonKind::String => read_part(parser, block)?,
        JsonKind::Array => {
            let mut frame = parser.open_array()?;
            while parser.next_item(&mut frame)? {
                read_result_part(parser, block)?;
            }
        }
        _ => parser.skip()?,
    }
    Ok(())
}

#[inline(never)]
fn read_result_part<'a, P: PullParser<'a>>(parser: &mut P, block: &mut WireBlock<'a>) -> Result<(), SlowPath> {
    let mut part = WireBlock::default();
    let mut has_source = false;
    members!(parser, key => match key {
        b"text" => read_part(parser, &mut part)?,
        b"source" => {
            has_source = true;
            parser.skip()?;
        }
        _ => parser.skip()?,
    });
    block.images += u32::from(has_source);
    if part.head.is_some() {
        block.head = block.head.or(part.head);
        block.add_part(part.shape);
    }
    Ok(())
}
