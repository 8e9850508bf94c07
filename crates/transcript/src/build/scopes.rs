//! Scopes: session, agent, version, folder and branch, stored once for all records that share them.

use super::{LogBuilder, raw_bytes};
use crate::json::JsonStr;
use crate::log::RecordScope;
use crate::record::{ScopeRun, WireRecord};

/// Index of the agent in [`RecentScope::texts`].
const AGENT_TEXT: usize = 1;

#[derive(Default)]
pub(super) struct RecentScope {
    /// Session, agent, version, folder and branch.
    texts: [Vec<u8>; 5],
    is_sidechain: bool,
    /// The run that all texts but the agent were read from.
    scope_run: ScopeRun,
    pub(super) scope: Option<u32>,
}

impl LogBuilder {
    pub(super) fn scope_of(&mut self, record: &WireRecord<'_>) -> u32 {
        let recent = &self.recent;
        let is_same_agent = match raw_bytes(record.agent) {
            b"" => recent.texts[AGENT_TEXT].is_empty(),
            agent => recent.texts[AGENT_TEXT] == agent,
        };
        if let Some(scope) = recent.scope
            && recent.scope_run.is_same_run(record.scope_run)
            && recent.is_sidechain == record.is_sidechain
            && is_same_agent
        {
            return scope;
        }
        self.scope_of_changed_run(record)
    }

    #[inline(never)]
    fn scope_of_changed_run(&mut self, record: &WireRecord<'_>) -> u32 {
        let texts = [record.session, record.agent, record.version, record.cwd, record.branch];
        if let Some(scope) = self.recent.scope
            && self.recent.is_sidechain == record.is_sidechain
            && std::iter::zip(&self.recent.texts, texts).all(|(known, text)| known == raw_bytes(text))
        {
            self.recent.scope_run = record.scope_run;
            return scope;
        }
        self.new_scope(record, texts)
    }

    /// Interns the texts of a scope that differs from the previous record's.
    #[cold]
    fn new_scope(&mut self, record: &WireRecord<'_>, texts: [Option<JsonStr<'_>>; 5]) -> u32 {
        let [session, agent, version, cwd, branch] = texts.map(|text| self.intern_text(text));
        let scope = RecordScope {
            session,
            agent,
            version,
            cwd,
            branch,
            is_sidechain: record.is_sidechain,
        };
        let number = self.scope_number(scope);
        for (known, text) in std::iter::zip(&mut self.recent.texts, texts) {
            known.clear();
            known.extend_from_slice(raw_bytes(text));
        }
        self.recent.is_sidechain = record.is_sidechain;
        self.recent.scope_run = record.scope_run;
        self.recent.scope = Some(number);
        number
    }

    pub(super) fn scope_number(&mut self, scope: RecordScope) -> u32 {
        let next = self.log.scopes.len() as u32;
        let number = *self.scopes.entry(scope).or_insert(next);
        if number == next {
            self.log.scopes.push(scope);
        }
        number
    }
}
