//! A request to the model as a value: what is asked, its name in the cache of answers, and how large it is. Pure.
//!
//! Every text goes through here on its way out, and secrets are masked here, so none can be forgotten.

use crate::size;
use language::secrets;
use serde_json::{Value, json};

/// Part of the name of every answer; changes with the form of requests.
const MARK: &[u8] = b"answer 1";

/// Tokens that stand around every text of a request, more than there are.
const AROUND: u64 = 32;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
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

impl Task {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Task::Summary => "summary",
            Task::Notes => "notes",
            Task::Extract => "extract",
            Task::Dream => "dream",
            Task::Recall => "recall",
        }
    }
}

/// A text of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Block {
    text: String,
    /// Whether what stands up to here comes again in other requests, so that it pays to keep it in the prompt cache.
    is_shared: bool,
    /// Whether the answer has another name without it: what only helps the model to say less.
    is_aside: bool,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    task: Task,
    model: String,
    max_output: u64,
    system: Vec<Block>,
    user: Vec<Block>,
}

/// Name of an answer: hash of everything it depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// As letters and digits, 64 of them.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name read back; `None` if it is none.
    pub fn read(text: &str) -> Option<Name> {
        let is_name = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_name.then(|| Name(text.to_owned()))
    }
}

impl Request {
    /// A request with instructions, to a model, for at most so much output.
    pub fn new(task: Task, model: &str, max_output: u64, instructions: &str) -> Request {
        let request = Request {
            task,
            model: model.to_owned(),
            max_output,
            system: Vec::new(),
            user: Vec::new(),
        };
        request.instructed(instructions)
    }

    fn instructed(mut self, text: &str) -> Request {
        self.system.push(Block::new(text, true));
        self
    }

    /// Adds a text that comes again in other requests.
    pub fn shared(mut self, text: &str) -> Request {
        self.user.push(Block::new(text, true));
        self
    }

    /// Adds a text that comes again in other requests and is no part of the answer's name: the same material has the same
    /// answer, however much of it is known by now.
    pub fn aside(mut self, text: &str) -> Request {
        let block = Block {
            is_aside: true,
            ..Block::new(text, true)
        };
        self.user.push(block);
        self
    }

    /// Adds a text of this request alone.
    pub fn with(mut self, text: &str) -> Request {
        self.user.push(Block::new(text, false));
        self
    }

    /// What it is for.
    pub fn task(&self) -> Task {
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
        let mut body = self.to_count();
        body["max_tokens"] = json!(self.max_output);
        if is_streamed {
            body["stream"] = json!(true);
        }
        body
    }

    /// The body that is sent to have its tokens counted.
    pub fn to_count(&self) -> Value {
        json!({
            "model": self.model,
            "system": blocks(&self.system),
            "messages": [{"role": "user", "content": blocks(&self.user)}],
        })
    }

    /// Name of its answer, from a server.
    pub fn name(&self, server: &str) -> Name {
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
                .filter(|block| !block.is_aside)
                .for_each(|block| take(&block.text));
        }
        Name(hasher.update(MARK).finalize().to_hex().to_string())
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.system.iter().chain(&self.user).map(|block| block.text.as_str())
    }

    /// Tokens sent, estimated.
    pub fn estimate(&self) -> u64 {
        self.texts().map(size::tokens).sum()
    }

    /// Tokens sent, at most: no token is less than a byte.
    pub fn bound(&self) -> u64 {
        self.texts().map(|text| text.len() as u64 + AROUND).sum::<u64>() + 8 * AROUND
    }
}

impl Block {
    fn new(text: &str, is_shared: bool) -> Block {
        Block {
            text: secrets::mask(text),
            is_shared,
            is_aside: false,
        }
    }
}

/// Texts with the mark of the prompt cache after the last one that is shared.
fn blocks(blocks: &[Block]) -> Vec<Value> {
    let last = blocks.iter().rposition(|block| block.is_shared);
    let block = |(at, block): (usize, &Block)| {
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

    fn request() -> Request {
        Request::new(Task::Extract, "m", 100, "rules")
            .aside("known so far")
            .with("what was said")
    }

    #[test]
    fn the_shared_part_is_marked_for_the_prompt_cache() {
        let body = request().body(true);
        assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
        assert_eq!(body["messages"][0]["content"][0]["cache_control"]["type"], "ephemeral");
        assert!(body["messages"][0]["content"][1].get("cache_control").is_none());
        assert_eq!((&body["stream"], &body["max_tokens"]), (&json!(true), &json!(100)));
        assert!(body.get("tools").is_none());
        assert!(request().to_count().get("max_tokens").is_none());
    }

    #[test]
    fn a_name_is_of_everything_but_what_stands_aside() {
        let name = request().name("s");
        assert_eq!(Name::read(name.as_str()), Some(name.clone()));
        assert_eq!(Name::read("../x"), None);
        let other = Request::new(Task::Extract, "m", 100, "rules")
            .aside("more is known")
            .with("what was said");
        assert_eq!(other.name("s"), name);
        assert_ne!(request().name("other"), name);
        assert_ne!(request().with("more").name("s"), name);
        let parted = Request::new(Task::Extract, "m", 100, "rules")
            .with("what was ")
            .with("said");
        assert_ne!(parted.name("s"), name);
    }

    #[test]
    fn secrets_never_get_into_a_request() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let request = Request::new(Task::Notes, "m", 1, &secret)
            .shared(&secret)
            .aside(&secret)
            .with(&format!("token: {secret}"));
        assert!(!request.body(true).to_string().contains("a1B2c3D4"));
    }

    #[test]
    fn the_bound_is_above_the_estimate() {
        for text in ["", "words and words", "你好世界", "\u{1F600}\u{1F600}", "\n\n\n\t\t"] {
            let request = Request::new(Task::Notes, "m", 1, text).with(&text.repeat(100));
            assert!(request.bound() > request.estimate(), "{text}");
        }
    }
}
