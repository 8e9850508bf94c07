//! The texts of a record, for those who need the words: which block they belong to and what they mean.
//!
//! A second, optional look at a line that [`super::record`] has accepted. Blocks are numbered as there.

use crate::evidence::Role;
use crate::json::{Kind, Source, Text};
use crate::skim::Declined;

/// Calls `take` for every text of the content of a message or attachment, with the number of its block in the record.
pub fn read<'a, S: Source<'a>>(source: &mut S, take: &mut dyn FnMut(u32, Role, Text<'a>)) -> Result<(), Declined> {
    let mut frame = source.open_object()?;
    while let Some(key) = source.key(&mut frame)? {
        match (key, source.peek()?) {
            (b"message", Kind::Object) => {
                let mut inner = source.open_object()?;
                while let Some(key) = source.key(&mut inner)? {
                    match key {
                        b"content" => read_content(source, take)?,
                        _ => source.skip()?,
                    }
                }
            }
            (b"attachment", Kind::Object) => shown(source, 0, take)?,
            _ => source.skip()?,
        }
    }
    Ok(())
}

fn read_content<'a, S: Source<'a>>(source: &mut S, take: &mut dyn FnMut(u32, Role, Text<'a>)) -> Result<(), Declined> {
    if source.peek()? != Kind::Array {
        return said(source, 0, take);
    }
    let mut block = 0;
    let mut frame = source.open_array()?;
    while source.item(&mut frame)? {
        if source.peek()? != Kind::Object {
            source.skip()?;
            continue;
        }
        let mut inner = source.open_object()?;
        while let Some(key) = source.key(&mut inner)? {
            match key {
                b"text" | b"thinking" => said(source, block, take)?,
                b"content" => shown(source, block, take)?,
                b"input" => read_input(source, block, take)?,
                _ => source.skip()?,
            }
        }
        block += 1;
    }
    Ok(())
}

/// What an edit replaces and what it writes; several edits in one call are nested in a list.
fn read_input<'a, S: Source<'a>>(
    source: &mut S,
    block: u32,
    take: &mut dyn FnMut(u32, Role, Text<'a>),
) -> Result<(), Declined> {
    match source.peek()? {
        Kind::Object => {
            let mut frame = source.open_object()?;
            while let Some(key) = source.key(&mut frame)? {
                let role = match key {
                    b"old_string" | b"old_source" => Role::Replaced,
                    b"new_string" | b"new_source" | b"content" => Role::Written,
                    b"edits" => {
                        read_input(source, block, take)?;
                        continue;
                    }
                    _ => Role::Shown,
                };
                let is_command = key == b"command";
                if let Some(text) = source.text()? {
                    take(block, role, text);
                    if is_command {
                        take(block, Role::Named, text);
                    }
                }
            }
            Ok(())
        }
        Kind::Array => {
            let mut frame = source.open_array()?;
            while source.item(&mut frame)? {
                read_input(source, block, take)?;
            }
            Ok(())
        }
        _ => source.skip(),
    }
}

/// Somebody's own words: shown, and looked through for files that they name.
fn said<'a, S: Source<'a>>(
    source: &mut S,
    block: u32,
    take: &mut dyn FnMut(u32, Role, Text<'a>),
) -> Result<(), Declined> {
    if source.peek()? != Kind::String {
        return shown(source, block, take);
    }
    let text = source.string()?;
    take(block, Role::Shown, text);
    take(block, Role::Named, text);
    Ok(())
}

/// All texts inside a value.
fn shown<'a, S: Source<'a>>(
    source: &mut S,
    block: u32,
    take: &mut dyn FnMut(u32, Role, Text<'a>),
) -> Result<(), Declined> {
    match source.peek()? {
        Kind::String => take(block, Role::Shown, source.string()?),
        Kind::Array => {
            let mut frame = source.open_array()?;
            while source.item(&mut frame)? {
                shown(source, block, take)?;
            }
        }
        Kind::Object => {
            let mut frame = source.open_object()?;
            while let Some(key) = source.key(&mut frame)? {
                match key {
                    b"content" | b"file" | b"text" | b"snippet" | b"prompt" | b"subject" => shown(source, block, take)?,
                    _ => source.skip()?,
                }
            }
        }
        _ => source.skip()?,
    }
    Ok(())
}
