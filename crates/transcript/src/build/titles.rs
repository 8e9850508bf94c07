//! Titles of sessions, the beginnings of their first prompts, and their pull requests.

use super::{LogBuilder, raw_bytes};
use crate::json::JsonStr;
use crate::log::{BlockKind, NameId, PullLink, RecordId, TITLE_CHARS, TITLE_PROMPTS, TitleSource, TitleText};
use crate::record::{WireBlock, WireRecord};
use crate::timestamp::parse_time;
use language::shorten::first_chars;
use std::collections::HashMap;

/// Bytes of a text that are decoded: enough for [`TITLE_CHARS`] characters behind what the client puts before a prompt.
const MAX_DECODED: usize = 16 << 10;

/// Where the titles of a session from one source are, because a log may hold many sessions.
#[derive(Clone, Copy)]
pub(super) struct KeptTitles {
    /// Place of the first.
    first: usize,
    count: usize,
}

impl LogBuilder {
    /// Keeps what a record says that holds a fact about its session and no message.
    #[inline(never)]
    pub(super) fn keep_session_facts(&mut self, record: &WireRecord<'_>, offset: u64) {
        if let Some(url) = record.pull_url {
            let link = PullLink {
                session: self.intern_text(record.session),
                url: decode_start(url).into(),
                time: parse_time(raw_bytes(record.timestamp)),
            };
            self.log.pulls.push(link);
        }
        let Some(title) = record.title else { return };
        let text = decode_start(title);
        let text = first_chars(text.trim(), TITLE_CHARS);
        match raw_bytes(record.kind) {
            b"custom-title" => self.set_title(record.session, TitleSource::Custom, text, offset),
            b"ai-title" => self.set_title(record.session, TitleSource::Model, text, offset),
            b"tag" => self.set_title(record.session, TitleSource::Tag, text, offset),
            b"summary" => {
                if let Some(leaf) = record.leaf {
                    self.leaf_titles.push((RecordId::read(leaf.raw()).0, text.into()));
                }
            }
            _ => {}
        }
    }

    fn set_title(&mut self, session: Option<JsonStr<'_>>, source: TitleSource, text: &str, offset: u64) {
        let session = self.intern_text(session);
        self.put_title(TitleText {
            session,
            source,
            text: text.into(),
            offset,
        });
    }

    /// Replaces the title from the same source. An empty one takes the title back.
    fn put_title(&mut self, title: TitleText) {
        match self.kept_titles.get(&(title.session, title.source)) {
            Some(kept) => self.log.titles[kept.first] = title,
            None => self.push_title(title),
        }
    }

    /// Adds a title behind the others.
    fn push_title(&mut self, title: TitleText) {
        let new = KeptTitles {
            first: self.log.titles.len(),
            count: 0,
        };
        let kept = self.kept_titles.entry((title.session, title.source));
        kept.or_insert(new).count += 1;
        self.log.titles.push(title);
    }

    /// Keeps the beginning of one of the first prompts of a session, or of its first command.
    pub(super) fn keep_prompt(&mut self, record: &WireRecord<'_>, block: &WireBlock<'_>, kind: BlockKind, scope: u32) {
        let scope = self.log.scopes[scope as usize];
        let (source, most) = match kind {
            BlockKind::Human => (TitleSource::Prompt, TITLE_PROMPTS),
            _ => (TitleSource::Command, 1),
        };
        if !record.is_meta && !scope.is_sidechain && self.has_room_for(scope.session, source, most) {
            self.push_prompt(scope.session, source, block.head);
        }
    }

    fn has_room_for(&self, session: NameId, source: TitleSource, most: usize) -> bool {
        let kept = self.kept_titles.get(&(session, source));
        kept.is_none_or(|kept| kept.count < most)
    }

    #[cold]
    fn push_prompt(&mut self, session: NameId, source: TitleSource, head: Option<JsonStr<'_>>) {
        let Some(head) = head else { return };
        let text = decode_start(head);
        let text = language::client_text::strip_context(&text);
        let text = first_chars(text.trim(), TITLE_CHARS).into();
        self.push_title(TitleText {
            session,
            source,
            text,
            offset: 0,
        });
    }

    /// Adds the titles and pull requests of the part that follows.
    pub(super) fn append_titles(&mut self, other: &mut LogBuilder, names: &[NameId]) {
        for title in other.log.titles.drain(..) {
            let session = names[title.session as usize];
            match title.source {
                TitleSource::Prompt if !self.has_room_for(session, title.source, TITLE_PROMPTS) => {}
                TitleSource::Command if !self.has_room_for(session, title.source, 1) => {}
                TitleSource::Prompt | TitleSource::Command => self.push_title(TitleText { session, ..title }),
                _ => self.put_title(TitleText { session, ..title }),
            }
        }
        self.log.pulls.extend(other.log.pulls.drain(..).map(|link| PullLink {
            session: names[link.session as usize],
            ..link
        }));
        self.leaf_titles.append(&mut other.leaf_titles);
    }

    /// Gives each conversation the title that names its last message.
    pub(super) fn assign_leaf_titles(&mut self) {
        let titles = std::mem::take(&mut self.leaf_titles);
        if titles.is_empty() {
            return;
        }
        // Of records with the same id, the first one counts.
        let mut sessions = titles.iter().map(|(leaf, _)| (*leaf, None)).collect::<HashMap<_, _>>();
        for record in &self.log.records {
            if let Some(session) = sessions.get_mut(&record.id) {
                session.get_or_insert(self.log.scope_of(record).session);
            }
        }
        for (leaf, text) in titles {
            if let Some(session) = sessions[&leaf] {
                self.put_title(TitleText {
                    session,
                    source: TitleSource::Summary,
                    text,
                    offset: 0,
                });
            }
        }
    }
}

/// Decodes the beginning of a text.
fn decode_start(text: JsonStr<'_>) -> String {
    let mut buffer = String::new();
    text.starting(MAX_DECODED).decode(&mut buffer).to_owned()
}
