//! Attachments: context that the client adds to the conversation.

use super::wire::WireRecord;
use crate::json::{JsonKind, PullParser};
use crate::skim::{SlowPath, TextShape};

/// Reads an attachment: the texts under the keys that the client turns into user content.
#[inline(never)]
pub(super) fn read_attachment<'a, P: PullParser<'a>>(
    parser: &mut P,
    record: &mut WireRecord<'a>,
) -> Result<(), SlowPath> {
    record.attachment = None;
    (record.attachment_mode, record.attachment_origin) = (None, None);
    record.attachment_shape = TextShape::default();
    record.hook_name_units = 0;
    record.attachment_path = None;
    let mut shape = TextShape::default();
    members!(parser, key => match key {
        b"type" => record.attachment = parser.text()?,
        b"commandMode" => record.attachment_mode = parser.text()?,
        b"origin" => members!(parser, key => match key {
            b"kind" => record.attachment_origin = parser.text()?,
            _ => parser.skip()?,
        }),
        b"hookName" => record.hook_name_units = text_shape(parser)?.units,
        b"filename" | b"path" => record.attachment_path = parser.text()?,
        b"content" | b"snippet" | b"prompt" | b"text" | b"addedLines" | b"removedNames" | b"addedBlocks" | b"skills" => {
            let found = text_shape(parser)?;
            shape.units = shape.units.saturating_add(found.units);
            shape.escapes = shape.escapes.saturating_add(found.escapes);
            shape.wide = shape.wide.saturating_add(found.wide);
        }
        _ => parser.skip()?,
    });
    record.attachment_shape = shape;
    Ok(())
}

/// Measures the texts inside a value: strings, lists of them, and what objects hold under text keys. Returns the sums.
fn text_shape<'a, P: PullParser<'a>>(parser: &mut P) -> Result<TextShape, SlowPath> {
    if parser.peek()? == JsonKind::String {
        return Ok(parser.measured_string()?.1);
    }
    let mut total = TextShape::default();
    add_text_shape(parser, &mut total)?;
    Ok(total)
}

#[inline(never)]
fn add_text_shape<'a, P: PullParser<'a>>(parser: &mut P, total: &mut TextShape) -> Result<(), SlowPath> {
    match parser.peek()? {
        JsonKind::String => {
            let (_, shape) = parser.measured_string()?;
            total.units = total.units.saturating_add(shape.units);
            total.escapes = total.escapes.saturating_add(shape.escapes);
            total.wide = total.wide.saturating_add(shape.wide);
        }
        JsonKind::Array => {
            let mut frame = parser.open_array()?;
            while parser.next_item(&mut frame)? {
                add_text_shape(parser, total)?;
            }
        }
        JsonKind::Object => {
            let mut frame = parser.open_object()?;
            while let Some(key) = parser.next_key(&mut frame)? {
                match key {
                    b"content" | b"file" | b"text" | b"subject" => add_text_shape(parser, total)?,
                    _ => parser.skip()?,
                }
            }
        }
        _ => parser.skip()?,
    }
    Ok(())
}
