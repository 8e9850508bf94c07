//! What `memory extract` wrote, as a person reads it: a line a project, then a line a memory.

use crate::commands::memory::DirArgs;
use crate::commands::memory::consolidate::{print_overlong_indexes, print_undo_hint};
use crate::commands::terminal::notice;
use crate::commands::writing::fold_for_terminal;
use memory::change::{ChangeAction, MemoryChange};
use memory::index::IndexLimits;
use memory::memdir::Memdir;
use memory::plan::MemoryPlan;
use memory::topic::Topic;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use table::human::{format_count, group_digits};

/// Widest name of a type.
const KIND_WIDTH: usize = 9;

/// What a run did in one directory.
pub(super) struct StoredRun {
    pub path: PathBuf,
    /// `None` if there is nothing to write and no directory yet.
    pub memdir: Option<Memdir>,
    pub limits: IndexLimits,
    /// Name of the run, if it changed something.
    pub run: Option<String>,
    pub plan: MemoryPlan,
}

impl StoredRun {
    fn count(&self, action: ChangeAction) -> usize {
        self.plan
            .changes
            .iter()
            .filter(|change| change.action == action)
            .count()
    }

    /// Returns what was done and what was left, in a few words.
    fn summary(&self) -> String {
        let counts = [
            (self.count(ChangeAction::New), "new"),
            (self.count(ChangeAction::Update), "confirmed again"),
            (self.count(ChangeAction::Retire), "retired"),
            (self.plan.unchanged, "already there"),
            (self.plan.retired, "retired before"),
            (self.plan.deleted, "deleted before"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts = counts.map(|(count, what)| format!("{} {what}", group_digits(*count as u64)));
        counts.collect::<Vec<_>>().join(", ")
    }

    fn has_changed(&self) -> bool {
        self.run.is_some()
    }
}

/// Says what runs did in their directories, one for each project.
pub(super) fn print_stored(dir: &DirArgs, runs: &[StoredRun]) {
    if let [only] = runs {
        return print_one(dir, only);
    }
    let mut text = String::new();
    for stored in runs.iter().filter(|stored| stored.has_changed()) {
        let _ = writeln!(text, "{}: {}", directory_name(&stored.path), stored.summary());
        push_changes(&stored.plan.changes, &mut text);
    }
    let idle = runs.iter().filter(|stored| !stored.has_changed()).collect::<Vec<_>>();
    if !idle.is_empty() {
        let names = idle
            .iter()
            .map(|stored| directory_name(&stored.path))
            .collect::<Vec<_>>();
        let known = idle.iter().map(|stored| stored.plan.unchanged as u64).sum::<u64>();
        let known = match known {
            0 => String::new(),
            known => format!(" ({} already there)", group_digits(known)),
        };
        let projects = format_count(idle.len() as u64, "project");
        let _ = writeln!(text, "nothing to do in {projects}{known}: {}", names.join(", "));
    }
    if runs.iter().any(StoredRun::has_changed) {
        let _ = writeln!(text, "`backcast memory undo --dir DIR` reverts the run in a directory");
    }
    notice!("{}", fold_for_terminal(text.trim_end()));
    runs.iter().for_each(print_overlong);
}

fn print_one(dir: &DirArgs, stored: &StoredRun) {
    let mut text = match (stored.has_changed(), stored.summary()) {
        (true, summary) => format!("{summary}\n"),
        (false, summary) if summary.is_empty() => "nothing to do\n".to_owned(),
        (false, summary) => format!("nothing to do: {summary}\n"),
    };
    push_changes(&stored.plan.changes, &mut text);
    notice!("{}", fold_for_terminal(text.trim_end()));
    if let Some(run) = &stored.run {
        print_undo_hint(dir, run);
    }
    print_overlong(stored);
}

fn print_overlong(stored: &StoredRun) {
    if let Some(memdir) = &stored.memdir {
        print_overlong_indexes(memdir, &stored.limits);
    }
}

/// Adds a line for each memory: its type and title, or why it left.
fn push_changes(changes: &[MemoryChange], text: &mut String) {
    for change in changes {
        let (mark, file_text) = match (change.action, &change.after, &change.before) {
            (ChangeAction::New, Some(after), _) => (String::new(), after),
            (ChangeAction::Update, Some(after), _) => (" (said again)".to_owned(), after),
            (ChangeAction::Retire, _, Some(before)) => (format!(" (retired, {})", change.reason), before),
            _ => continue,
        };
        let topic = Topic::from_text(&change.file, 0, file_text);
        let kind = topic.kind().map_or("untyped", |kind| kind.name());
        let _ = writeln!(text, "  {kind:KIND_WIDTH$}  {}{mark}", topic.name());
    }
}

/// Returns the name of a directory: of its project, where it holds only the memories of one.
pub(super) fn directory_name(path: &Path) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let own = name(path).unwrap_or_else(|| path.display().to_string());
    match own == "memory" {
        true => path.parent().and_then(name).unwrap_or(own),
        false => own,
    }
}
