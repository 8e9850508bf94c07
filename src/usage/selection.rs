//! Which sessions and calls count: what the filters of a command line come to once the logs are known.
//!
//! The meaning is the same for every command. `--agent`, `--project` and `--session` select sessions. `--since`, `--until` and `--last`
//! select records and calls by time, and with them the sessions that have any. `--model` selects calls, and the sessions that
//! have any.

use crate::usage::session::TimeRange;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use transcript::agents::Agent;
use transcript::log::Time;

/// What counts.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Times of records and calls.
    pub range: TimeRange,
    /// Coding agents; empty for all of them.
    pub agents: Vec<Agent>,
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

    /// Whether sessions are selected by what they are called, where they ran, or who wrote them.
    pub fn names_sessions(&self) -> bool {
        !self.projects.is_empty() || !self.sessions.is_empty() || !self.agents.is_empty()
    }

    /// Whether a model is selected.
    pub fn takes_model(&self, model: &str) -> bool {
        contains_any(&self.models, model)
    }

    /// Whether a call counts, if its session does.
    pub fn takes_call(&self, time: Time, model: &str) -> bool {
        self.range.contains(time) && self.takes_model(model)
    }

    /// Whether a session is selected by its agent, id, project and title.
    pub fn takes_session(&self, session: SessionNames<'_>) -> bool {
        let is_named = || {
            let id = session.id.to_lowercase();
            self.sessions.iter().any(|wanted| id.starts_with(wanted)) || contains_any(&self.sessions, session.title)
        };
        (self.agents.is_empty() || self.agents.contains(&session.agent))
            && contains_any(&self.projects, session.project)
            && (self.sessions.is_empty() || is_named())
    }
}

/// What a session is selected by.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionNames<'a> {
    /// The coding agent that wrote its logs.
    pub agent: Agent,
    /// Its id.
    pub id: &'a str,
    /// Its working directory.
    pub project: &'a str,
    /// Its title, unmasked.
    pub title: &'a str,
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
    fn a_session_is_selected_by_agent_id_title_and_project() {
        let selection = Selection {
            sessions: vec!["7ff4".into(), "login".into()],
            projects: vec!["shop".into()],
            agents: vec![Agent::Codex, Agent::Pi],
            ..Selection::default()
        };
        let takes = |agent: Agent, id: &str, project: &str, title: &str| {
            selection.takes_session(SessionNames {
                agent,
                id,
                project,
                title,
            })
        };
        assert!(takes(Agent::Codex, "7FF477a9", "/work/Shop", ""));
        assert!(takes(Agent::Pi, "1234", "/work/shop", "Fix the Login test"));
        assert!(!takes(Agent::Claude, "7ff477a9", "/work/shop", ""));
        assert!(!takes(Agent::Codex, "1234", "/work/shop", "Other"));
        assert!(!takes(Agent::Codex, "7ff477a9", "/work/other", ""));
        assert!(
            !takes(Agent::Codex, "007ff4", "/work/shop", ""),
            "an id is matched from its start"
        );
        let all = Selection::default();
        assert!(all.takes_session(SessionNames::default()) && all.is_everything());
        assert!(!selection.is_everything() && selection.names_sessions());
    }
}
