//! Answers as they come in: server-sent events put together into a text, its usage and why it ended. Pure, and bounded
//! whatever the server sends.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use transcript::record::Tokens;

/// Longest line of a stream. Pieces of an answer are a few words each.
const MAX_LINE: usize = 1 << 20;

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// Its text.
    pub text: String,
    /// What it took.
    pub usage: Tokens,
    /// Why it ended; empty if it did not say.
    pub stop: String,
}

/// What is wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    /// Larger than anything that was asked for.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// Not what the API sends.
    #[error("the answer does not have the form of the API: {0}")]
    Malformed(String),
    /// An error that came in the middle of a stream: its kind and its words.
    #[error("{kind}: {message}")]
    Error {
        /// Kind, as the API names it.
        kind: String,
        /// In words.
        message: String,
    },
    /// It ended before it was complete.
    #[error("the answer was cut off")]
    CutOff,
}

/// Puts an answer together.
#[derive(Debug)]
pub struct AnswerAssembler {
    line: Vec<u8>,
    data: String,
    answer: ModelAnswer,
    max_text: usize,
    is_done: bool,
}

impl AnswerAssembler {
    /// For an answer of at most so many bytes.
    pub fn new(max_text: usize) -> AnswerAssembler {
        AnswerAssembler {
            line: Vec::new(),
            data: String::new(),
            answer: ModelAnswer::default(),
            max_text,
            is_done: false,
        }
    }

    /// Bytes of text so far.
    pub fn received_bytes(&self) -> usize {
        self.answer.text.len()
    }

    /// Whether the answer is complete; what may come after it does not matter.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Takes in bytes as they come.
    pub fn push_bytes(&mut self, mut bytes: &[u8]) -> Result<(), AnswerFault> {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            self.line.extend_from_slice(&bytes[..at]);
            bytes = &bytes[at + 1..];
            let line = std::mem::take(&mut self.line);
            self.process_line(line.strip_suffix(b"\r").unwrap_or(&line))?;
            if self.is_done {
                return Ok(());
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MAX_LINE {
            return Err(AnswerFault::TooLarge(MAX_LINE));
        }
        Ok(())
    }

    /// The answer, once the stream ended.
    pub fn finish(self) -> Result<ModelAnswer, AnswerFault> {
        if self.is_done {
            Ok(self.answer)
        } else {
            Err(AnswerFault::CutOff)
        }
    }

    /// What is known of the usage, also of an answer that was cut off.
    pub fn usage(&self) -> &Tokens {
        &self.answer.usage
    }

    fn process_line(&mut self, line: &[u8]) -> Result<(), AnswerFault> {
        if line.is_empty() {
            let data = std::mem::take(&mut self.data);
            return if data.is_empty() {
                Ok(())
            } else {
                self.process_event(&data)
            };
        }
        if let Some(data) = line.strip_prefix(b"data:") {
            let data = std::str::from_utf8(data).map_err(|_| AnswerFault::Malformed("not UTF-8".into()))?;
            if self.data.len() + data.len() > MAX_LINE {
                return Err(AnswerFault::TooLarge(MAX_LINE));
            }
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
        }
        // `event:` says the same as the data, and comments are only there to keep the line open.
        Ok(())
    }

    fn process_event(&mut self, data: &str) -> Result<(), AnswerFault> {
        let event: Value =
            serde_json::from_str(data).map_err(|_| AnswerFault::Malformed("an event is not JSON".into()))?;
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => update_usage(&mut self.answer.usage, &event["message"]["usage"]),
            "content_block_start" => {
                let block = &event["content_block"];
                refuse_tools(block)?;
                self.push_text(block["text"].as_str().unwrap_or_default())?;
            }
            "content_block_delta" if event["delta"]["type"] == "text_delta" => {
                self.push_text(event["delta"]["text"].as_str().unwrap_or_default())?;
            }
            "message_delta" => {
                update_usage(&mut self.answer.usage, &event["usage"]);
                if let Some(stop) = event["delta"]["stop_reason"].as_str() {
                    stop.clone_into(&mut self.answer.stop);
                }
            }
            "message_stop" => self.is_done = true,
            "error" => return Err(parse_error(&event)),
            // Pings, thinking, ends of blocks, and what may be added to the API.
            _ => {}
        }
        Ok(())
    }

    fn push_text(&mut self, text: &str) -> Result<(), AnswerFault> {
        if self.answer.text.len() + text.len() > self.max_text {
            return Err(AnswerFault::TooLarge(self.max_text));
        }
        self.answer.text.push_str(text);
        Ok(())
    }
}

/// An answer that came in one piece, as results of batches do.
pub fn parse_message(message: &Value, max_text: usize) -> Result<ModelAnswer, AnswerFault> {
    let mut answer = ModelAnswer::default();
    let blocks = message["content"]
        .as_array()
        .ok_or_else(|| AnswerFault::Malformed("an answer without content".into()))?;
    for block in blocks {
        refuse_tools(block)?;
        let text = block["text"]
            .as_str()
            .filter(|_| block["type"] == "text")
            .unwrap_or_default();
        if answer.text.len() + text.len() > max_text {
            return Err(AnswerFault::TooLarge(max_text));
        }
        answer.text.push_str(text);
    }
    update_usage(&mut answer.usage, &message["usage"]);
    message["stop_reason"]
        .as_str()
        .unwrap_or_default()
        .clone_into(&mut answer.stop);
    Ok(answer)
}

/// The error that an answer carries.
pub fn parse_error(value: &Value) -> AnswerFault {
    let error = &value["error"];
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    AnswerFault::Error {
        kind: text(&error["type"]),
        message: text(&error["message"]),
    }
}

/// None were offered: a call of one is no answer.
fn refuse_tools(block: &Value) -> Result<(), AnswerFault> {
    match block["type"].as_str() {
        Some(kind) if kind.ends_with("tool_use") => {
            Err(AnswerFault::Malformed("it calls a tool, and there are none".into()))
        }
        _ => Ok(()),
    }
}

/// Counts are totals: what comes later replaces what came before.
fn update_usage(tokens: &mut Tokens, usage: &Value) {
    let mut set = |place: fn(&mut Tokens) -> &mut u64, value: &Value| {
        if let Some(count) = value.as_u64() {
            *place(tokens) = count;
        }
    };
    set(|tokens| &mut tokens.input, &usage["input_tokens"]);
    set(|tokens| &mut tokens.output, &usage["output_tokens"]);
    set(|tokens| &mut tokens.cache_write, &usage["cache_creation_input_tokens"]);
    set(|tokens| &mut tokens.cache_read, &usage["cache_read_input_tokens"]);
    set(
        |tokens| &mut tokens.cache_write_1h,
        &usage["cache_creation"]["ephemeral_1h_input_tokens"],
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn events(values: &[Value]) -> String {
        let event = |value: &Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
        values.iter().map(event).collect()
    }

    fn stream() -> String {
        events(&[
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 25, "output_tokens": 1,
                "cache_creation_input_tokens": 7, "cache_read_input_tokens": 9}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Good "}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "day 你好\n"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}),
            json!({"type": "message_stop"}),
        ])
    }

    fn read(bytes: &[u8], max: usize) -> Result<ModelAnswer, AnswerFault> {
        let mut assembler = AnswerAssembler::new(max);
        assembler.push_bytes(bytes)?;
        assembler.finish()
    }

    #[test]
    fn pieces_become_an_answer() {
        let answer = read(stream().as_bytes(), 1_000).unwrap();
        assert_eq!(
            (answer.text.as_str(), answer.stop.as_str()),
            ("Good day 你好\n", "end_turn")
        );
        let usage = Tokens {
            input: 25,
            output: 15,
            cache_write: 7,
            cache_read: 9,
            cache_write_1h: 0,
        };
        assert_eq!(answer.usage, usage);
        assert_eq!(read(stream().replace('\n', "\r\n").as_bytes(), 1_000), Ok(answer));
    }

    #[test]
    fn what_is_cut_off_anywhere_is_no_answer() {
        let stream = stream();
        let end = stream.find("data: {\"type\":\"message_stop\"").unwrap();
        for at in 0..end {
            let cut = read(&stream.as_bytes()[..at], 1_000);
            assert_eq!(cut, Err(AnswerFault::CutOff), "{at}");
        }
    }

    #[test]
    fn too_much_is_refused() {
        assert_eq!(read(stream().as_bytes(), 10), Err(AnswerFault::TooLarge(10)));
        assert_eq!(read(&[b'x'; MAX_LINE + 1], 10), Err(AnswerFault::TooLarge(MAX_LINE)));
        let lines = "data: xxxxxxxxxxxxxxxx\n".repeat(MAX_LINE / 10);
        assert_eq!(read(lines.as_bytes(), 10), Err(AnswerFault::TooLarge(MAX_LINE)));
    }

    #[test]
    fn errors_and_tools_in_the_stream() {
        let error = events(&[json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})]);
        assert_eq!(
            read(error.as_bytes(), 10).unwrap_err().to_string(),
            "overloaded_error: Overloaded"
        );
        let tool = json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "rm"}});
        let start = events(&[json!({"type": "content_block_start", "content_block": tool})]);
        assert!(matches!(read(start.as_bytes(), 10), Err(AnswerFault::Malformed(_))));
        assert!(matches!(
            parse_message(&json!({"content": [tool]}), 10),
            Err(AnswerFault::Malformed(_))
        ));
        assert!(matches!(read(b"data: {\n\n", 10), Err(AnswerFault::Malformed(_))));
        assert!(matches!(read(b"data: \xff\n\n", 10), Err(AnswerFault::Malformed(_))));
    }

    #[test]
    fn a_whole_message_is_read_the_same_way() {
        let message = json!({"content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "ab"}, {"type": "text", "text": "c"}],
            "stop_reason": "max_tokens", "usage": {"input_tokens": 3, "output_tokens": 4, "cache_creation": {"ephemeral_1h_input_tokens": 2}}});
        let answer = parse_message(&message, 3).unwrap();
        assert_eq!(
            (answer.text.as_str(), answer.stop.as_str(), answer.usage.output),
            ("abc", "max_tokens", 4)
        );
        assert_eq!(parse_message(&message, 2), Err(AnswerFault::TooLarge(2)));
        assert!(parse_message(&json!({"content": "text"}), 10).is_err());
    }

    proptest! {
        /// Where the pieces part does not matter.
        #[test]
        fn any_cut_gives_the_same(cuts in prop::collection::vec(0_usize..2_000, 0..20)) {
            let stream = stream();
            let mut cuts = cuts.iter().map(|cut| cut % stream.len()).collect::<Vec<_>>();
            cuts.sort_unstable();
            cuts.push(stream.len());
            let mut assembler = AnswerAssembler::new(1_000);
            let mut from = 0;
            for cut in cuts {
                assembler.push_bytes(&stream.as_bytes()[from..cut]).unwrap();
                from = cut;
            }
            prop_assert_eq!(assembler.finish(), read(stream.as_bytes(), 1_000));
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let _ = read(&bytes, 100);
        }
    }
}
