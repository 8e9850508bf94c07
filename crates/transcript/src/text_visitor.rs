//! Visits the texts of a record with the number and role of their block.
//!
//! An optional second pass over a line that [`crate::record`] has accepted. Blocks are numbered as there.

use crate::json::{JsonKind, JsonStr, PullParser};
use crate::line_hashes::TextRole;
use crate::skim::SlowPath;

/// Calls `take` for every text of the content of a message or attachment, with the number of its block in the record.
pub(crate) fn visit_texts<'a, P: PullParser<'a>>(
    parser: &mut P,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match (key, parser.peek()?) {
            (b"message", JsonKind::Object) => {
                let mut inner = parser.open_object()?;
                while let Some(key) = parser.next_key(&mut inner)? {
                    match key {
                        b"content" => visit_content(parser, take)?,
                        _ => parser.skip()?,
                    }
                }
            }
            (b"attachment", JsonKind::Object) => visit_shown_text(parser, 0, take)?,
            _ => parser.skip()?,
        }
    }
    Ok(())
}

fn visit_content<'a, P: PullParser<'a>>(
    parser: &mut P,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    if parser.peek()? != JsonKind::Array {
        return visit_spoken_text(parser, 0, take);
    }
    let mut block = 0;
    let mut frame = parser.open_array()?;
    while parser.next_item(&mut frame)? {
        if parser.peek()? != JsonKind::Object {
            parser.skip()?;
            continue;
        }
        let mut inner = parser.open_object()?;
        while let Some(key) = parser.next_key(&mut inner)? {
            match key {
                b"text" | b"thinking" => visit_spoken_text(parser, block, take)?,
                b"content" => visit_shown_text(parser, block, take)?,
                b"input" => visit_input(parser, block, take)?,
                _ => parser.skip()?,
            }
        }
        block += 1;
    }
    Ok(())
}

/// Visits what an edit replaces and what it writes; several edits in one call are nested in a list.
fn visit_input<'a, P: PullParser<'a>>(
    parser: &mut P,
    block: u32,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    match parser.peek()? {
        JsonKind::Object => {
            let mut frame = parser.open_object()?;
            while let Some(key) = parser.next_key(&mut frame)? {
                let role = match key {
                    b"old_string" | b"old_source" => TextRole::Replaced,
                    b"new_string" | b"new_source" | b"content" => TextRole::Written,
                    b"edits" => {
                        visit_input(parser, block, take)?;
                        continue;
                    }
                    _ => TextRole::Shown,
                };
                let is_command = key == b"command";
                if let Some(text) = parser.text()? {
                    take(block, role, text);
                    if is_command {
                        take(block, TextRole::Named, text);
                    }
                }
            }
            Ok(())
        }
        JsonKind::Array => {
            let mut frame = parser.open_array()?;
            while parser.next_item(&mut frame)? {
                visit_input(parser, block, take)?;
            }
            Ok(())
        }
        _ => parser.skip(),
    }
}

/// Visits text written by a person or the model: it is shown, and it is searched for file names.
fn visit_spoken_text<'a, P: PullParser<'a>>(
    parser: &mut P,
    block: u32,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    if parser.peek()? != JsonKind::String {
        return visit_shown_text(parser, block, take);
    }
    let text = parser.string()?;
    take(block, TextRole::Shown, text);
    take(block, TextRole::Named, text);
    Ok(())
}

/// Visits all texts inside a value.
fn visit_shown_text<'a, P: PullParser<'a>>(
    parser: &mut P,
    block: u32,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    match parser.peek()? {
        JsonKind::String => take(block, TextRole::Shown, parser.string()?),
        JsonKind::Array => {
            let mut frame = parser.open_array()?;
            while parser.next_item(&mut frame)? {
                visit_shown_text(parser, block, take)?;
            }
        }
        JsonKind::Object => {
            let mut frame = parser.open_object()?;
            while let Some(key) = parser.next_key(&mut frame)? {
                match key {
                    b"content" | b"file" | b"text" | b"snippet" | b"prompt" | b"subject" => {
                        visit_shown_text(parser, block, take)?
                    }
                    _ => parser.skip()?,
                }
            }
        }
        _ => parser.skip()?,
    }
    Ok(())
}
