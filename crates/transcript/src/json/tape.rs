//! The slow path: pulls values from a tape that simd-json has built.

use super::text::{JsonStr, decoded_shape};
use super::{JsonKind, PullParser, float_units};
use crate::skim::{SlowPath, TextShape};
use simd_json::{Node, StaticNode};

/// The slow-path parser.
pub struct TapeParser<'t, 'a> {
    nodes: &'t [Node<'a>],
    at: usize,
}

/// Members left in an open object or array.
pub struct TapeFrame {
    left: usize,
}

impl<'t, 'a> TapeParser<'t, 'a> {
    /// Starts at the root of a tape.
    pub fn new(nodes: &'t [Node<'a>]) -> Self {
        TapeParser { nodes, at: 0 }
    }

    fn next(&mut self) -> Result<Node<'a>, SlowPath> {
        let node = self.nodes.get(self.at).copied().ok_or(SlowPath)?;
        self.at += 1;
        Ok(node)
    }

    fn open_container(&mut self) -> Result<TapeFrame, SlowPath> {
        match self.next()? {
            Node::Object { len, .. } | Node::Array { len, .. } => Ok(TapeFrame { left: len }),
            _ => Err(SlowPath),
        }
    }

    fn next_member(frame: &mut TapeFrame) -> bool {
        let more = frame.left > 0;
        frame.left -= usize::from(more);
        more
    }
}

impl<'a> PullParser<'a> for TapeParser<'_, 'a> {
    type Frame = TapeFrame;

    fn peek(&mut self) -> Result<JsonKind, SlowPath> {
        Ok(match self.nodes.get(self.at).ok_or(SlowPath)? {
            Node::String(_) => JsonKind::String,
            Node::Object { .. } => JsonKind::Object,
            Node::Array { .. } => JsonKind::Array,
            Node::Static(StaticNode::Null | StaticNode::Bool(_)) => JsonKind::Literal,
            Node::Static(_) => JsonKind::Number,
        })
    }

    fn open_object(&mut self) -> Result<TapeFrame, SlowPath> {
        self.open_container()
    }

    fn next_key(&mut self, frame: &mut TapeFrame) -> Result<Option<&'a [u8]>, SlowPath> {
        if !Self::next_member(frame) {
            return Ok(None);
        }
        Ok(Some(self.string()?.raw))
    }

    fn open_array(&mut self) -> Result<TapeFrame, SlowPath> {
        self.open_container()
    }

    fn next_item(&mut self, frame: &mut TapeFrame) -> Result<bool, SlowPath> {
        Ok(Self::next_member(frame))
    }

    fn string(&mut self) -> Result<JsonStr<'a>, SlowPath> {
        match self.next()? {
            Node::String(text) => Ok(JsonStr::plain(text.as_bytes())),
            _ => Err(SlowPath),
        }
    }

    fn measured_string(&mut self) -> Result<(JsonStr<'a>, TextShape), SlowPath> {
        match self.next()? {
            Node::String(text) => Ok((JsonStr::plain(text.as_bytes()), decoded_shape(text))),
            _ => Err(SlowPath),
        }
    }

    fn count(&mut self) -> Result<Option<u64>, SlowPath> {
        match self.next()? {
            Node::Static(StaticNode::U64(value)) => Ok(Some(value)),
            Node::Static(StaticNode::I64(value)) => Ok(u64::try_from(value).ok()),
            _ => Ok(None),
        }
    }

    fn literal(&mut self) -> Result<Option<bool>, SlowPath> {
        match self.next()? {
            Node::Static(StaticNode::Bool(value)) => Ok(Some(value)),
            _ => Ok(None),
        }
    }

    fn skip(&mut self) -> Result<(), SlowPath> {
        if let Node::Object { count, .. } | Node::Array { count, .. } = self.next()? {
            self.at += count;
        }
        Ok(())
    }

    fn serialized_units(&mut self) -> Result<u32, SlowPath> {
        // A container adds its brackets, the commas between its members and, for objects, the colons.
        let mut units = 0u32;
        let mut left = 1usize;
        while left > 0 {
            left -= 1;
            let own = match self.next()? {
                Node::String(text) => decoded_shape(text).serialized_units().saturating_add(2),
                Node::Object { len, .. } => {
                    left += 2 * len;
                    (2 + len + len.saturating_sub(1)) as u32
                }
                Node::Array { len, .. } => {
                    left += len;
                    (2 + len.saturating_sub(1)) as u32
                }
                Node::Static(StaticNode::Null) => 4,
                Node::Static(StaticNode::Bool(value)) => 5 - u32::from(value),
                Node::Static(StaticNode::I64(value)) => value.to_string().len() as u32,
                Node::Static(StaticNode::U64(value)) => value.to_string().len() as u32,
                Node::Static(StaticNode::F64(value)) => float_units(value),
            };
            units = units.saturating_add(own);
        }
        Ok(units)
    }
}
