//! Which sessions and calls count: what the filters of a command line come to once the logs are known.
//!
//! The meaning is the same for every command. `--project` and `--session` select sessions. `--since`, `--until` and `--last`
//! select records and calls by time, and with them the sessions that have any. `--model` selects calls, and the sessions that
//! have any.

use crate::usage::session::TimeRange;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use transcript::log::Time;

/// What counts.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Times of records and calls.
    pub range: TimeRange,
    /// Parts of paths, in lower case; empty for all projects.
    pub projects: Vec<String>,
    /// Parts of model names, in lower case; empty for all models.
    pub models: Vec<String>,
    /// Beginnings of session ids or parts of titles, in lower case; empty for all sessions.
    pub sessions: Vec<String>,
    /// The selection in words, for a header; empty if everything counts.
    pub label: String,
    /// Whether anything was found to be selected. Shared, because sessions are looked at on all threads.
    pub found: Arc<AtomicBool>,
}

impl Selection {
    /// Whether everything counts.
    pub fn is_everything(&self) -> bool {
        self.range.is_unbounded() && self.models.is_empty() && !self.names_sessions()
    }

    /// Notes that a session is selected.
    pub fn mark_found(&self) {
        self.found.store(true, Ordering::Relaxed);
    }

    /// Whether sessions are selected by what they are called or where they ran.
    pub fn names_sessions(&self) -> bool {
        !self.projects.is_empty() || !self.sessions.is_empty()
    }

    /// Whether a model is selected.
    pub fn takes_model(&self, model: &str) -> bool {
        contains_any(&self.models, model)
    }

    /// Whether a call counts, if its session does.
    pub fn takes_call(&self, time: Time, model: &str) -> bool {
        self.range.contains(time) && self.takes_model(model)
    }

    /// Whether a session is selected by its id, project and title.
    pub fn takes_session(&self, id: &str, project: &str, title: &str) -> bool {
        let is_named = || {
            let id = id.to_lowercase();
            self.sessions.iter().any(|wanted| id.starts_with(wanted)) || contains_any(&self.sessions, title)
        };
        contains_any(&self.projects, project) && (self.sessions.is_empty() || is_named())
    }
}

/// Whether a text contains one of some parts in lower case; any text does if there are none.
fn contains_any(parts: &[String], text: &str) -> bool {
    if parts.is_empty() {
        return true;
    }
    let text = text.to_lowercase();
    parts.iter().any(|part| text.contains(part.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_selected_by_id_title_and_project() {
        let selection = Selection {
            sessions: vec!["7ff4".into(), "login".into()],
            projects: vec!["shop".into()],
            ..Selection::default()
        };
        assert!(selection.takes_session("7FF477a9", "/work/Shop", ""));
        assert!(selection.takes_session("1234", "/work/shop", "Fix the Login test"));
        assert!(!selection.takes_session("1234", "/work/shop", "Other"));
        assert!(!selection.takes_session("7ff477a9", "/work/other", ""));
        assert!(
            !selection.takes_session("007ff4", "/work/shop", ""),
            "an id is matched from its start"
        );
        assert!(Selection::default().takes_session("", "", "") && Selection::default().is_everything());
    }
}
