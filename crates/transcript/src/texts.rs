//! The texts of a record, for those who need the words: which block they belong to and what they mean.
//!
//! A second, optional look at a line that [`super::record`] has accepted. Blocks are numbered as there.

use crate::evidence::TextRole;
use crate::json::{JsonKind, JsonStr, PullParser};
use crate::skim::SlowPath;

/// Calls `take` for every text of the content of a message or attachment, with the number of its block in the record.
pub fn read<'a, S: PullParser<'a>>(
    source: &mut S,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    let mut frame = source.open_object()?;
    while let Some(key) = source.next_key(&mut frame)? {
        match (key, source.peek()?) {
            (b"message", JsonKind::Object) => {
                let mut inner = source.open_object()?;
                while let Some(key) = source.next_key(&mut inner)? {
                    match key {
                        b"content" => read_content(source, take)?,
                        _ => source.skip()?,
                    }
                }
            }
            (b"attachment", JsonKind::Object) => read_shown_text(source, 0, take)?,
            _ => source.skip()?,
        }
    }
    Ok(())
}

fn read_content<'a, S: PullParser<'a>>(
    source: &mut S,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    if source.peek()? != JsonKind::Array {
        return read_spoken_text(source, 0, take);
    }
    let mut block = 0;
    let mut frame = source.open_array()?;
    while source.next_item(&mut frame)? {
        if source.peek()? != JsonKind::Object {
            source.skip()?;
            continue;
        }
        let mut inner = source.open_object()?;
        while let Some(key) = source.next_key(&mut inner)? {
            match key {
                b"text" | b"thinking" => read_spoken_text(source, block, take)?,
                b"content" => read_shown_text(source, block, take)?,
                b"input" => read_input(source, block, take)?,
                _ => source.skip()?,
            }
        }
        block += 1;
    }
    Ok(())
}

/// What an edit replaces and what it writes; several edits in one call are nested in a list.
fn read_input<'a, S: PullParser<'a>>(
    source: &mut S,
    block: u32,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    match source.peek()? {
        JsonKind::Object => {
            let mut frame = source.open_object()?;
            while let Some(key) = source.next_key(&mut frame)? {
                let role = match key {
                    b"old_string" | b"old_source" => TextRole::Replaced,
                    b"new_string" | b"new_source" | b"content" => TextRole::Written,
                    b"edits" => {
                        read_input(source, block, take)?;
                        continue;
                    }
                    _ => TextRole::Shown,
                };
                let is_command = key == b"command";
                if let Some(text) = source.text()? {
                    take(block, role, text);
                    if is_command {
                        take(block, TextRole::Named, text);
                    }
                }
            }
            Ok(())
        }
        JsonKind::Array => {
            let mut frame = source.open_array()?;
            while source.next_item(&mut frame)? {
                read_input(source, block, take)?;
            }
            Ok(())
        }
        _ => source.skip(),
    }
}

/// Somebody's own words: shown, and looked through for files that they name.
fn read_spoken_text<'a, S: PullParser<'a>>(
    source: &mut S,
    block: u32,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    if source.peek()? != JsonKind::String {
        return read_shown_text(source, block, take);
    }
    let text = source.string()?;
    take(block, TextRole::Shown, text);
    take(block, TextRole::Named, text);
    Ok(())
}

/// All texts inside a value.
fn read_shown_text<'a, S: PullParser<'a>>(
    source: &mut S,
    block: u32,
    take: &mut dyn FnMut(u32, TextRole, JsonStr<'a>),
) -> Result<(), SlowPath> {
    match source.peek()? {
        JsonKind::String => take(block, TextRole::Shown, source.string()?),
        JsonKind::Array => {
            let mut frame = source.open_array()?;
            while source.next_item(&mut frame)? {
                read_shown_text(source, block, take)?;
            }
        }
        JsonKind::Object => {
            let mut frame = source.open_object()?;
            while let Some(key) = source.next_key(&mut frame)? {
                match key {
                    b"content" | b"file" | b"text" | b"snippet" | b"prompt" | b"subject" => {
                        read_shown_text(source, block, take)?
                    }
                    _ => source.skip()?,
                }
            }
        }
        _ => source.skip()?,
    }
    Ok(())
}
