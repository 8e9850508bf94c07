//! What the client puts back into the window after a compaction: the files read last, invoked skills, state.

use crate::policy::Policy;
use crate::policy::value::LargeFile;
use crate::sim::trace::{NONE, Trace, flag};
use crate::sim::window::{ItemState, Window};
use crate::tokens::ledger::Category;
use std::ops::Range;

/// What a boundary restores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoredContext {
    /// Index of the path and restored tokens of each file, newest first.
    pub files: Vec<(u32, u64)>,
    /// Tokens of skills.
    pub skills: u64,
    /// Tokens of state (plan, to-do list, announcements) and hook output.
    pub states: u64,
}

impl RestoredContext {
    /// Returns the tokens of everything restored.
    pub fn tokens(&self) -> u64 {
        self.files.iter().map(|(_, tokens)| tokens).sum::<u64>() + self.skills + self.states
    }
}

/// Returns what a compaction restores. `earlier` are the files that the previous boundary restored; `kept` are the items
/// that stay verbatim, so their files need no restoring.
pub fn restore_context(
    policy: &Policy,
    trace: &Trace,
    window: &Window<'_>,
    earlier: &[(u32, u64)],
    kept: &Range<u32>,
) -> RestoredContext {
    let mut restored = RestoredContext {
        states: policy.restore_state_tokens + policy.restore_hook_tokens,
        ..RestoredContext::default()
    };
    let mut seen = Vec::new();
    let mut budget = policy.restore_files_tokens;
    let read_tool = trace.tool("Read");
    let reads = window.live_items().rev().filter_map(|at| {
        let item = &trace.items[at as usize];
        let is_read = item.category == Category::ToolResult
            && Some(item.tool) == read_tool
            && !item.has_flag(flag::ERROR)
            && window.state(at) == ItemState::Live;
        let path = if item.path != 0 || item.pair == NONE {
            item.path
        } else {
            trace.items[item.pair as usize].path
        };
        (is_read && path != 0).then_some((path, u64::from(item.tokens), kept.contains(&at)))
    });
    let earlier = earlier.iter().map(|(path, tokens)| (*path, *tokens, false));
    for (path, tokens, is_visible) in reads.chain(earlier) {
        if seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let is_excluded = policy
            .restore_not
            .iter()
            .any(|part| trace.paths[path as usize].contains(part.as_str()));
        if is_visible || is_excluded {
            continue;
        }
        if restored.files.len() as u64 >= policy.restore_files {
            break;
        }
        let is_large = tokens > policy.restore_file_tokens;
        let tokens = tokens.min(policy.restore_file_tokens);
        if tokens > budget || (is_large && policy.restore_large == LargeFile::Skip) {
            // It is still one of the files read last, so it uses up one of their places.
            restored.files.push((path, 0));
            continue;
        }
        budget -= tokens;
        restored.files.push((path, tokens));
    }
    restored.skills = restored_skills(policy, trace, window);
    restored
}

/// Returns the tokens of restored skills, newest first: the result of each call and the text that the client inserted
/// with it.
fn restored_skills(policy: &Policy, trace: &Trace, window: &Window<'_>) -> u64 {
    let mut total = 0;
    let Some(skill) = trace.tool("Skill") else { return 0 };
    for at in window.live_items().rev() {
        let item = &trace.items[at as usize];
        if item.category != Category::ToolResult || item.tool != skill {
            continue;
        }
        let text = trace.items[at as usize + 1..]
            .iter()
            .take_while(|next| next.category == Category::Other)
            .map(|next| u64::from(next.tokens))
            .sum::<u64>();
        let tokens = (u64::from(item.tokens) + text).min(policy.restore_skill_tokens);
        if total + tokens > policy.restore_skills_tokens {
            break;
        }
        total += tokens;
    }
    total
}
