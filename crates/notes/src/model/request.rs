//! A request to the model as a value: what is asked, its name in the cache of answers, and how large it is. Pure.
//!
//! Every text goes through here on its way out, and secrets are masked here, so none can be forgotten.

use crate::size;
use language::secrets;
use serde_json::{Value, json};
use table::store::EntryName;

/// Part of the name of every answer; changes with the form of requests.
const KEY_SEED: &[u8] = b"answer 1";

/// Tokens that stand around every text of a request, more than there are.
const OVERHEAD_TOKENS: u64 = 32;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelTask {
    /// A summary that stands in for history.
    Summary,
    /// An update of session notes.
    Notes,
    /// Memories from what people said.
    Extract,
    /// Memories that say the same or contradict each other.
    Dream,
    /// Memories that help with a query.
    Recall,
}

impl ModelTask {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            ModelTask::Summary => "summary",
            ModelTask::Notes => "notes",
            ModelTask::Extract => "extract",
            ModelTask::Dream => "dream",
            ModelTask::Recall => "recall",
        }
    }
}

/// A text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequestBlock {
    text: String,
    /// Whether what stands up to here comes again in other requests, so that it pays to keep it in the prompt cache.
    is_shared: bool,
    /// Whether the answer has another name without it: what only helps the model to say less.
    is_unkeyed: bool,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    task: ModelTask,
    model: String,
    max_output: u64,
    system: Vec<RequestBlock>,
    user: Vec<RequestBlock>,
}

/// Name of an answer: hash of everything it depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerKey(String);

impl AnswerKey {
    /// As letters and digits, 64 of them.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name read back; `None` if it is none.
    pub fn parse(text: &str) -> Option<AnswerKey> {
        let is_name = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_name.then(|| AnswerKey(text.to_owned()))
    }

    /// Returns the name under which the answer is stored.
    pub fn entry_name(&self) -> Option<EntryName> {
        EntryName::parse(&self.0)
    }
}

impl ModelRequest {
    /// A request with instructions, to a model, for at most so much output.
    pub fn new(task: ModelTask, model: &str, max_output: u64, instructions: &str) -> ModelRequest {
        let request = ModelRequest {
            task,
            model: model.to_owned(),
            max_output,
            system: Vec::new(),
            user: Vec::new(),
        };
        request.with_instructions(instructions)
    }

    fn with_instructions(mut self, text: &str) -> ModelRequest {
        self.system.push(RequestBlock::new(text, true));
        self
    }

    /// Adds a text that comes again in other requests.
    pub fn with_shared(mut self, text: &str) -> ModelRequest {
        self.user.push(RequestBlock::new(text, true));
        self
    }

    /// Adds a text that comes again in other requests and is no part of the answer's name: the same material has the same
    /// answer, however much of it is known by now.
    pub fn with_unkeyed(mut self, text: &str) -> ModelRequest {
        let block = RequestBlock {
            is_unkeyed: true,
            ..RequestBlock::new(text, true)
        };
        self.user.push(block);
        self
    }

    /// Adds a text of this request alone.
    pub fn with_text(mut self, text: &str) -> ModelRequest {
        self.user.push(RequestBlock::new(text, false));
        self
    }

    /// What it is for.
    pub fn task(&self) -> ModelTask {
        self.task
    }

    /// The model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Most tokens of the answer.
    pub fn max_output(&self) -> u64 {
        self.max_output
    }

    /// The body that is sent.
    pub fn body(&self, is_streamed: bool) -> Value {
        let mut body = self.count_body();
        body["max_tokens"] = json!(self.max_output);
        if is_streamed {
            body["stream"] = json!(true);
        }
        body
    }

    /// The body that is sent to have its tokens counted.
    pub fn count_body(&self) -> Value {
        json!({
            "model": self.model,
            "system": blocks_json(&self.system),
            "messages": [{"role": "user", "content": blocks_json(&self.user)}],
        })
    }

    /// Name of its answer, from a server.
    pub fn answer_key(&self, server: &str) -> AnswerKey {
        let mut hasher = blake3::Hasher::new();
        let mut take = |text: &str| {
            hasher
                .update(&(text.len() as u64).to_le_bytes())
                .update(text.as_bytes());
        };
        take(server);
        take(self.task.name());
        take(&self.model);
        take(&self.max_output.to_string());
        for (role, blocks) in [("system", &self.system), ("user", &self.user)] {
            take(role);
            blocks
                .iter()
                .filter(|block| !block.is_unkeyed)
                .for_each(|block| take(&block.text));
        }
        AnswerKey(hasher.update(KEY_SEED).finalize().to_hex().to_string())
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.system.iter().chain(&self.user).map(|block| block.text.as_str())
    }

    /// Tokens sent, estimated.
    pub fn estimate_tokens(&self) -> u64 {
        self.texts().map(size::tokens).sum()
    }

    /// Tokens sent, at most: no token is less than a byte.
    pub fn max_input_tokens(&self) -> u64 {
        self.texts()
            .map(|text| text.len() as u64 + OVERHEAD_TOKENS)
            .sum::<u64>()
            + 8 * OVERHEAD_TOKENS
    }
}

impl RequestBlock {
    fn new(text: &str, is_shared: bool) -> RequestBlock {
        RequestBlock {
            text: secrets::mask(text),
            is_shared,
            is_unkeyed: false,
        }
    }
}

/// Texts with the mark of the prompt cache after the last one that is shared.
fn blocks_json(blocks: &[RequestBlock]) -> Vec<Value> {
    let last = blocks.iter().rposition(|block| block.is_shared);
    let block = |(at, block): (usize, &RequestBlock)| {
        let mut value = json!({"type": "text", "text": block.text});
        if last == Some(at) {
            value["cache_control"] = json!({"type": "ephemeral"});
        }
        value
    };
    blocks.iter().enumerate().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ModelRequest {
        ModelRequest::new(ModelTask::Extract, "m", 100, "rules")
            .with_unkeyed("known so far")
            .with_text("what was said")
    }

    #[test]
    fn the_shared_part_is_marked_for_the_prompt_cache() {
        let body = request().body(true);
        assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
        assert_eq!(body["messages"][0]["content"][0]["cache_control"]["type"], "ephemeral");
        assert!(body["messages"][0]["content"][1].get("cache_control").is_none());
        assert_eq!((&body["stream"], &body["max_tokens"]), (&json!(true), &json!(100)));
        assert!(body.get("tools").is_none());
        assert!(request().count_body().get("max_tokens").is_none());
    }

    #[test]
    fn a_name_is_of_everything_but_what_stands_aside() {
        let name = request().answer_key("s");
        assert_eq!(AnswerKey::parse(name.as_str()), Some(name.clone()));
        assert_eq!(AnswerKey::parse("../x"), None);
        let other = ModelRequest::new(ModelTask::Extract, "m", 100, "rules")
            .with_unkeyed("more is known")
            .with_text("what was said");
        assert_eq!(other.answer_key("s"), name);
        assert_ne!(request().answer_key("other"), name);
        assert_ne!(request().with_text("more").answer_key("s"), name);
        let parted = ModelRequest::new(ModelTask::Extract, "m", 100, "rules")
            .with_text("what was ")
            .with_text("said");
        assert_ne!(parted.answer_key("s"), name);
    }

    #[test]
    fn secrets_never_get_into_a_request() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let request = ModelRequest::new(ModelTask::Notes, "m", 1, &secret)
            .with_shared(&secret)
            .with_unkeyed(&secret)
            .with_text(&format!("token: {secret}"));
        assert!(!request.body(true).to_string().contains("a1B2c3D4"));
    }

    #[test]
    fn the_bound_is_above_the_estimate() {
        for text in ["", "words and words", "你好世界", "\u{1F600}\u{1F600}", "\n\n\n\t\t"] {
            let request = ModelRequest::new(ModelTask::Notes, "m", 1, text).with_text(&text.repeat(100));
            assert!(request.max_input_tokens() > request.estimate_tokens(), "{text}");
        }
    }
}
