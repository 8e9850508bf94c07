//! Prompts that a person queued while the model was working.
//!
//! The client notes what enters and leaves its queue as `queue-operation` records. A prompt leaves the queue when it is
//! sent: as a user record of its own, as a `queued_command` attachment (newer clients), or beside a tool result, of which
//! older clients write nothing. So a queued prompt is held back until the end of the log, and read as a message only if no
//! record with the same words came after it. What leaves the queue is mostly not named; words decide, not the order.

use super::record::{decode_owned, read_result_text};
use super::{Message, MessagePart, MessageRole, NOTICE_START, PartSelection, SessionTitle, WordsChannel};
use crate::json::{JsonKind, PullParser};
use crate::log::{NO_TIME, Time};
use crate::skim::SlowPath;
use crate::timestamp::parse_time;
use language::client_text;
use memchr::memmem;

/// Marks of the kinds of records without an id that are read: operations on the queue, and titles.
pub(super) const LOOSE_KINDS: [&[u8]; 2] = [b"\"queue-operation\"", b"-title\""];

/// Shortest prompt that is recognized inside a longer one: the client may send several queued prompts as one.
const MIN_CONTAINED: usize = 20;

/// A record without an id: an operation on the queue, or a title of the session.
#[derive(Debug, Default)]
pub(super) struct LooseRecord {
    kind: String,
    operation: String,
    content: String,
    session: String,
    title: String,
    time: Option<Time>,
}

impl LooseRecord {
    /// Reads a record; `None` if it is of another kind.
    pub(super) fn read<'a, P: PullParser<'a>>(parser: &mut P) -> Result<Option<LooseRecord>, SlowPath> {
        if parser.peek()? != JsonKind::Object {
            return Err(SlowPath);
        }
        let mut read = LooseRecord::default();
        let mut frame = parser.open_object()?;
        while let Some(key) = parser.next_key(&mut frame)? {
            match key {
                b"type" => read.kind = parser.text()?.map(decode_owned).unwrap_or_default(),
                b"operation" => read.operation = parser.text()?.map(decode_owned).unwrap_or_default(),
                b"sessionId" => read.session = parser.text()?.map(decode_owned).unwrap_or_default(),
                b"timestamp" => {
                    let time = parser.text()?.map(|text| parse_time(decode_owned(text).as_bytes()));
                    read.time = time.filter(|time| *time != NO_TIME);
                }
                b"customTitle" | b"aiTitle" => read.title = parser.text()?.map(decode_owned).unwrap_or_default(),
                b"content" => read_result_text(parser, &mut read.content)?,
                _ => parser.skip()?,
            }
        }
        let is_known = ["queue-operation", "custom-title", "ai-title"].contains(&read.kind.as_str());
        Ok(is_known.then_some(read))
    }

    /// Returns the title that the record gives the session; `None` if it is an operation on the queue.
    pub(super) fn to_title(&self) -> Option<SessionTitle> {
        (self.kind != "queue-operation").then(|| SessionTitle {
            session: self.session.clone(),
            text: self.title.clone(),
            is_custom: self.kind == "custom-title",
        })
    }
}

/// A prompt that may still appear as a record.
#[derive(Debug)]
struct HeldPrompt {
    text: String,
    message: Message,
    /// A piece of the text that is the same in the log, where characters may be escaped.
    needle: String,
}

/// Prompts that were queued and have not been seen as a record.
#[derive(Debug, Default)]
pub(super) struct PromptQueue {
    held: Vec<HeldPrompt>,
    /// Notices that a background task ended. A record may repeat them.
    notices: Vec<Message>,
}

impl PromptQueue {
    /// Takes an operation at a line.
    pub(super) fn apply(&mut self, operation: LooseRecord, selection: PartSelection, line: u64) {
        match operation.operation.as_str() {
            "enqueue" if selection.notices && operation.content.trim_start().starts_with(NOTICE_START) => {
                let text = selection.shorten(operation.content);
                let notice = queued_message(text, operation.session, operation.time, line);
                self.notices.push(Message {
                    is_meta: true,
                    ..notice
                });
            }
            "enqueue" => self.hold(operation, line),
            // The person took the queued prompts back into the input line, to change or drop them.
            "popAll" => self
                .held
                .retain(|held| !operation.content.is_empty() && !operation.content.contains(&held.text)),
            _ => {}
        }
    }

    fn hold(&mut self, operation: LooseRecord, line: u64) {
        let text = words_of(&operation.content);
        if text.is_empty() {
            return;
        }
        let message = queued_message(text.clone(), operation.session, operation.time, line);
        let needle = plain_run(&text).to_owned();
        self.held.push(HeldPrompt { text, message, needle });
    }

    /// Returns whether a line may hold the words of a prompt that is held.
    pub(super) fn may_appear_in(&self, line: &[u8]) -> bool {
        let appears = |held: &HeldPrompt| memmem::find(line, held.needle.as_bytes()).is_some();
        self.held.iter().any(appears)
    }

    /// Drops the prompts that a record of the user repeats.
    pub(super) fn drop_repeated(&mut self, message: &Message) {
        if self.held.is_empty() || message.role != MessageRole::User {
            return;
        }
        for part in &message.parts {
            if let MessagePart::Text(text) = part {
                let sent = words_of(text);
                self.held.retain(|held| !is_repeated(&held.text, &sent));
            }
        }
    }

    /// Returns the prompts that no record repeats, in the order they were typed, and the notices.
    pub(super) fn take_unrepeated(&mut self) -> Vec<Message> {
        let held = std::mem::take(&mut self.held).into_iter().map(|held| held.message);
        let mut messages = held.chain(std::mem::take(&mut self.notices)).collect::<Vec<_>>();
        messages.sort_by_key(|message| message.line);
        messages
    }
}

/// Returns a message from the queue.
fn queued_message(text: String, session: String, time: Option<Time>, line: u64) -> Message {
    let mut message = Message::with_parts(MessageRole::User, vec![MessagePart::Text(text)]);
    message.session = session;
    message.time = time;
    message.line = line;
    message.channel = WordsChannel::Queued;
    message
}

fn is_repeated(held: &str, sent: &str) -> bool {
    held == sent || held.len() >= MIN_CONTAINED && sent.contains(held)
}

/// Returns the words of a person in the content of an operation; empty for notices of the client and for its commands,
/// which become records when they run.
fn words_of(content: &str) -> String {
    if client_text::classify(content).is_some() || is_slash_command(content.trim()) {
        return String::new();
    }
    client_text::strip_context(content).trim().to_owned()
}

fn is_slash_command(text: &str) -> bool {
    let Some(name) = text.strip_prefix('/').and_then(|rest| rest.split_whitespace().next()) else {
        return false;
    };
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':'))
}

/// Returns the longest run of characters that JSON never escapes; all of them are ASCII.
fn plain_run(text: &str) -> &str {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, ' ' | ',' | '.' | '-' | '_' | ':' | '?');
    let runs = text.split(|sign| !is_plain(sign));
    runs.max_by_key(|run| run.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_a_person_are_held() {
        for (content, words) in [
            ("push it", "push it"),
            ("{\"task_id\":\"b1\",\"description\":\"Run\"}", ""),
            ("<task-notification>\n<task-id>1</task-id></task-notification>", ""),
            ("/clear", ""),
            ("/review 12", ""),
            ("/usr/bin/env is missing", "/usr/bin/env is missing"),
            ("<ide_opened_file>a</ide_opened_file>\nfix it", "fix it"),
        ] {
            assert_eq!(words_of(content), words, "{content}");
        }
    }

    #[test]
    fn the_needle_is_a_run_that_is_never_escaped() {
        assert_eq!(plain_run("say \"hello there\" to\nthem"), "hello there");
        assert_eq!(plain_run("你好"), "");
    }
}
