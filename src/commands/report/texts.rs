//! The notes and the memories of a page of logs.

use crate::cli::InputArgs;
use crate::commands::memory::drawn;
use crate::commands::memory::extract::{EXTRACT_FILTER, find_memories};
use crate::page::{PageContent, PageNotes};
use crate::run::{LogInput, SessionView, with_messages};
use crate::usage::title::SessionTitle;
use anyhow::Result;
use notes::session::SessionNotesWriter;
use notes::template::NotesTemplate;
use notes::{NotesLimits, size};
use replay::policy::presets::PolicySet;
use table::format_time;
use transcript::log::NO_TIME;

/// Writes the notes of a session as they would stand at its end; `None` if there is nothing to write.
pub(super) fn write_notes(view: &SessionView<'_>, policies: &PolicySet) -> Option<PageNotes> {
    if view.chains().is_empty() {
        return None;
    }
    // Logs that cannot be read again are named by the other consumers.
    let (conversation, _) = view.read_conversation(0);
    let trace = view.trace(0);
    let version = trace.calls.last().map(|call| trace.versions[usize::from(call.version)]);
    let policy = policies.for_client(trace.client, version);
    let template = NotesTemplate::built_in();
    let writer = SessionNotesWriter {
        conversation: &conversation,
        template: &template,
        limits: NotesLimits {
            section: policy.notes_section,
            total: policy.notes_total,
        },
        model: None,
        prompt: None,
        variables: &[],
        has_history: false,
        is_gated: false,
    };
    let written = writer.write(&[], "");
    let text = written.last.filter(|_| !conversation.messages.is_empty())?.text;
    let title = SessionTitle::find(view.session());
    let times = conversation.messages.iter().filter_map(|message| message.time);
    Some(PageNotes {
        session: view.id().to_owned(),
        file: String::new(),
        title: title.masked(),
        is_titled: title.is_given,
        project: conversation.root.clone(),
        last_time: times.filter(|time| *time != NO_TIME).max().and_then(format_time),
        prompts: Some(written.prompts as u64),
        messages: Some(conversation.messages.len() as u64),
        tokens: size::tokens(&text),
        text,
    })
}

/// Returns the title that notes give themselves: the first line that says anything.
pub(super) fn notes_title(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let mut said = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '_']));
    said.next().unwrap_or_default().to_owned()
}

/// Adds what `memory extract` finds, by project.
pub(super) fn add_memories(input: LogInput, args: &InputArgs, content: &mut PageContent) -> Result<()> {
    // The first pass has named the problems of the logs.
    let found = with_messages(input, EXTRACT_FILTER, |messages, _| {
        find_memories(messages, &args.selection.project)
    })??;
    let parts = found.iter().map(|project| {
        let mut part = drawn::extraction_json(&project.name, &project.extraction);
        for memory in part["memories"].as_array_mut().into_iter().flatten() {
            memory["project"] = project.root.as_str().into();
        }
        part
    });
    content.memories.extend(parts);
    Ok(())
}
