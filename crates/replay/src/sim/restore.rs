//! What the client puts back into the window after a compaction: files, skills, the plan, and announcements.
//!
//! Each kind is restored by itself. Sizes come from the log where it shows them: whole files from their reads and writes,
//! announcements from the attachments that made them first.

use crate::policy::Policy;
use crate::policy::value::{LargeFile, NotesRestore};
use crate::sim::event::CompactionKind;
use crate::sim::micro::estimate_quarters;
use crate::sim::trace::{FileTouch, NONE, TouchKind, Trace, TraceItem, flag};
use crate::sim::window::{ItemState, Window};
use crate::tokens::ledger::Category;
use std::ops::Range;

/// Tokens of the listing of skills where the log shows none.
const USUAL_SKILL_LISTING: u64 = 4_000;

named_enum! {
    /// A kind of content that comes back after a compaction.
    pub enum RestoredPart {
        /// Files, and references to files.
        Files = "files",
        /// Skills that were invoked.
        Skills = "skills",
        /// The plan file.
        Plan = "plan",
        /// The reminder that the agent is planning.
        PlanMode = "plan_mode",
        /// The to-do list.
        Todo = "todo",
        /// Agents at work in the background.
        Agents = "agents",
        /// Tools that can be loaded.
        Tools = "tools",
        /// Types of sub-agents.
        AgentTypes = "agent_types",
        /// Instructions of MCP servers.
        Mcp = "mcp",
        /// The listing of skills.
        SkillListing = "skill_listing",
        /// Output of hooks.
        Hooks = "hooks",
        /// Announcements of an assumed size.
        Other = "other",
    }
}

/// Number of kinds.
pub const RESTORED_PARTS: usize = RestoredPart::ALL.len();

/// What a boundary restores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoredContext {
    /// Index of the path and restored tokens of each file, newest first; 0 for a reference.
    pub files: Vec<(u32, u64)>,
    /// Tokens by [`RestoredPart`].
    pub parts: [u64; RESTORED_PARTS],
}

impl RestoredContext {
    /// Returns the tokens of everything restored.
    pub fn tokens(&self) -> u64 {
        self.parts.iter().sum()
    }
}

/// The situation at a boundary.
pub struct RestoreInput<'a, 't> {
    pub policy: &'a Policy,
    pub trace: &'t Trace,
    pub window: &'a Window<'t>,
    /// What the previous boundary restored.
    pub earlier: &'a RestoredContext,
    /// Items that stay verbatim.
    pub kept: &'a Range<u32>,
    pub kind: CompactionKind,
}

/// Returns what a compaction restores.
pub fn restore_context(input: &RestoreInput<'_, '_>) -> RestoredContext {
    let policy = input.policy;
    let end = input.window.end();
    let mut restored = RestoredContext::default();
    let mut put = |part: RestoredPart, tokens: u64| restored.parts[part as usize] = tokens;
    put(RestoredPart::Plan, plan_tokens(input.trace, end));
    if input.kind == CompactionKind::SessionMemory && policy.notes_restore == NotesRestore::Plan {
        return restored;
    }
    put(RestoredPart::Skills, skill_tokens(input));
    put(RestoredPart::PlanMode, plan_mode_tokens(policy, input.trace, end));
    put(RestoredPart::Todo, todo_tokens(input.trace, end));
    put(RestoredPart::Agents, policy.agent_tokens * running_agents(input, end));
    let announced = |name: &str| largest_attachment(input.trace, name, end);
    let announcements = [
        (RestoredPart::Tools, announced("deferred_tools_delta")),
        (RestoredPart::AgentTypes, announced("agent_listing_delta")),
        (RestoredPart::Mcp, announced("mcp_instructions_delta")),
    ];
    for (part, tokens) in announcements {
        put(part, tokens.unwrap_or(0));
    }
    if announcements.iter().all(|(_, tokens)| tokens.is_none()) {
        put(RestoredPart::Other, policy.restore_state_tokens);
    }
    if policy.skill_listing {
        let listing = announced("skill_listing").unwrap_or(USUAL_SKILL_LISTING);
        put(RestoredPart::SkillListing, listing);
    }
    let hooks = start_hook_tokens(input.trace, end).unwrap_or(policy.restore_hook_tokens);
    put(RestoredPart::Hooks, hooks + policy.after_hook_tokens);
    restore_files(input, &mut restored);
    restored
}

/// Adds the files that were read, edited or written last, whole and in their current state.
fn restore_files(input: &RestoreInput<'_, '_>, restored: &mut RestoredContext) {
    let RestoreInput { policy, trace, .. } = *input;
    let mut budget = policy.restore_files_tokens;
    for (path, is_visible) in recent_paths(input) {
        let name = trace.paths[path as usize].as_str();
        if is_visible || policy.restore_not.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        if restored.files.len() as u64 >= policy.restore_files {
            break;
        }
        let (tokens, estimate) = current_size(trace, policy, path, input.window.end());
        let is_large = estimate > policy.restore_file_tokens;
        let counted = estimate.min(policy.restore_file_tokens);
        // What does not come back is still one of the files touched last, so it uses up one of their places.
        if counted > budget || (is_large && policy.restore_large != LargeFile::Cut) {
            restored.files.push((path, 0));
            if is_large && policy.restore_large == LargeFile::Reference {
                restored.parts[RestoredPart::Files as usize] += policy.reference_tokens;
            }
            continue;
        }
        budget -= counted;
        // A file that is cut loses the same share of its real tokens as of the estimate.
        let tokens = match estimate {
            0 => tokens,
            _ => tokens * counted / estimate,
        };
        restored.files.push((path, tokens));
        restored.parts[RestoredPart::Files as usize] += tokens;
    }
}

/// Returns the files that the client remembers, newest first and each once, and whether a kept message shows the file.
fn recent_paths(input: &RestoreInput<'_, '_>) -> Vec<(u32, bool)> {
    let RestoreInput {
        trace, window, kept, ..
    } = *input;
    let mut paths: Vec<(u32, bool)> = Vec::new();
    let (start, end) = (window.floor(), window.end());
    let inside = trace.touches.partition_point(|touch| touch.item < start)
        ..trace.touches.partition_point(|touch| touch.item < end);
    for touch in trace.touches[inside].iter().rev() {
        let item = &trace.items[touch.item as usize];
        // A stub points at an earlier read; it shows nothing itself.
        let is_visible = touch.kind == TouchKind::Read && !item.has_flag(flag::STUB) && kept.contains(&touch.item);
        if let Some(known) = paths.iter_mut().find(|(path, _)| *path == touch.path) {
            known.1 |= is_visible;
        } else if is_remembered(touch, window) {
            paths.push((touch.path, is_visible));
        }
    }
    for (path, tokens) in &input.earlier.files {
        if *tokens > 0 && !paths.iter().any(|(known, _)| known == path) {
            paths.push((*path, false));
        }
    }
    paths
}

/// Returns whether the client still remembers the file for this touch: a read is forgotten when its result is cleared.
pub fn is_remembered(touch: &FileTouch, window: &Window<'_>) -> bool {
    match touch.kind {
        TouchKind::Read => window.state(touch.item) == ItemState::Live,
        TouchKind::Edit | TouchKind::Write => window.state(touch.item) != ItemState::Out,
    }
}

/// Returns the tokens of a file as it is before item `end`, and the client's estimate of them.
fn current_size(trace: &Trace, policy: &Policy, path: u32, end: u32) -> (u64, u64) {
    let before = trace.touches.partition_point(|touch| touch.item < end);
    let last = trace.touches[..before].iter().rev().find(|touch| touch.path == path);
    last.map_or((0, 0), |touch| {
        (u64::from(touch.tokens), estimate_quarters(policy, touch.quarters))
    })
}

/// Returns the tokens of the plan file; 0 if there is none.
fn plan_tokens(trace: &Trace, end: u32) -> u64 {
    let before = trace.touches.partition_point(|touch| touch.item < end);
    let is_plan = |path: &str| path.replace('\\', "/").contains("/.claude/plans/");
    let plan = trace.touches[..before].iter().rev();
    let mut plan = plan.filter(|touch| is_plan(&trace.paths[touch.path as usize]));
    plan.next().map_or(0, |touch| u64::from(touch.tokens))
}

/// Returns the tokens of the reminder of plan mode; 0 outside of it.
fn plan_mode_tokens(policy: &Policy, trace: &Trace, end: u32) -> u64 {
    let names = ["plan_mode", "plan_mode_exit", "EnterPlanMode", "ExitPlanMode"].map(|name| trace.tool(name));
    if names.iter().all(Option::is_none) {
        return 0;
    }
    let is_named =
        |item: &&TraceItem| item.tool != 0 && item.category != Category::ToolResult && names.contains(&Some(item.tool));
    let last = trace.items[..end as usize].iter().rev().find(is_named);
    match last {
        Some(item) if Some(item.tool) == names[0] => u64::from(item.tokens),
        Some(item) if Some(item.tool) == names[2] => policy.plan_mode_tokens,
        _ => 0,
    }
}

/// Returns the tokens of the to-do list; 0 without one.
fn todo_tokens(trace: &Trace, end: u32) -> u64 {
    let Some(tool) = trace.tool("TodoWrite") else { return 0 };
    let mut items = trace.items[..end as usize].iter().rev();
    let call = items.find(|item| item.tool == tool && item.category == Category::ToolCall);
    call.map_or(0, |item| u64::from(item.tokens))
}

/// Counts the agents in the window that have not reported by item `end`.
fn running_agents(input: &RestoreInput<'_, '_>, end: u32) -> u64 {
    let tools = ["Task", "Agent"].map(|name| input.trace.tool(name));
    let is_running = |at: &u32| {
        let item = &input.trace.items[*at as usize];
        let is_agent = item.category == Category::ToolCall && item.tool != 0 && tools.contains(&Some(item.tool));
        is_agent && (item.pair == NONE || item.pair >= end)
    };
    match tools {
        [None, None] => 0,
        _ => input.window.live_items().filter(is_running).count() as u64,
    }
}

/// Returns the tokens of the largest attachment of a kind before item `end`: the first one announces everything, later ones
/// only what changed. `None` if there is none.
fn largest_attachment(trace: &Trace, name: &str, end: u32) -> Option<u64> {
    let tool = trace.tool(name)?;
    let items = trace.items[..end as usize].iter();
    let attachments = items.filter(|item| item.tool == tool && item.category == Category::Attachment);
    attachments.map(|item| u64::from(item.tokens)).max()
}

/// Returns the tokens of hook output at the start of the session; `None` if the log shows none.
fn start_hook_tokens(trace: &Trace, end: u32) -> Option<u64> {
    let first = trace.calls.first()?.inputs.end.min(end);
    let hooks = trace.items[..first as usize]
        .iter()
        .filter(|item| item.has_flag(flag::START_HOOK));
    let (count, tokens) = hooks.fold((0, 0), |(count, sum), item| (count + 1, sum + u64::from(item.tokens)));
    (count > 0).then_some(tokens)
}

/// Returns the tokens of restored skills, newest first: the result of each call and the text that the client inserted
/// with it, then the skills that the previous boundary restored.
fn skill_tokens(input: &RestoreInput<'_, '_>) -> u64 {
    let RestoreInput {
        policy, trace, window, ..
    } = *input;
    let budget = policy.restore_skills_tokens;
    let mut total = 0;
    for at in trace.tool("Skill").into_iter().flat_map(|_| window.live_items().rev()) {
        let item = &trace.items[at as usize];
        if item.category != Category::ToolResult || Some(item.tool) != trace.tool("Skill") {
            continue;
        }
        let text = trace.items[at as usize + 1..]
            .iter()
            .take_while(|next| next.category == Category::Other)
            .map(|next| u64::from(next.tokens))
            .sum::<u64>();
        let tokens = (u64::from(item.tokens) + text).min(policy.restore_skill_tokens);
        if total + tokens > budget {
            return total;
        }
        total += tokens;
    }
    let earlier = input.earlier.parts[RestoredPart::Skills as usize];
    match total + earlier > budget {
        true => total,
        false => total + earlier,
    }
}
