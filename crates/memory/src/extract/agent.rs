//! Memory files that the agent itself wrote, as candidates: the best source there is, marked as the agent's.

use crate::extract::{ExtractOptions, Extraction, MAX_HOOK_CHARS, MAX_TITLE_CHARS, accept_candidate};
use crate::harvest::{HarvestedFile, harvest};
use crate::kinds::{Candidate, CandidateOrigin, MemoryKind};
use crate::names::INDEX_FILE;
use crate::topic::{Topic, to_one_line};
use transcript::messages::Message;

/// Confidence of a memory that the agent wrote.
const AGENT_CONFIDENCE: f64 = 0.7;

/// Adds the last versions of the memory files in the logs, each to the project of the session that wrote it.
pub fn add_agent_files(messages: &[Message], options: &ExtractOptions<'_>, extraction: &mut Extraction) {
    let found = harvest(messages);
    extraction.secrets_dropped += found.secrets_dropped;
    for file in found.files {
        let name = file.path.rsplit(['/', '\\']).next().unwrap_or_default();
        if name == INDEX_FILE || !name.ends_with(".md") || file.path.contains("/logs/") {
            continue;
        }
        let project = options
            .projects
            .map(|projects| projects.root_of_folder(&file.cwd))
            .unwrap_or_default();
        if let Some(candidate) = to_candidate(&file, project) {
            accept_candidate(candidate, options.min_confidence, options.rules, extraction);
        }
    }
}

/// Returns the candidate of a file; `None` if it has no type or says nothing.
fn to_candidate(file: &HarvestedFile, project: String) -> Option<Candidate> {
    let name = file.path.rsplit(['/', '\\']).next().unwrap_or(&file.path);
    let topic = Topic::from_text(name, 0, &file.text);
    let kind = topic.kind().or_else(|| kind_of_name(name))?;
    let fits = |text: String, most: usize| (text.chars().count() <= most).then_some(text);
    let title = fits(to_one_line(&topic.name()), MAX_TITLE_CHARS)
        .unwrap_or_else(|| name.trim_end_matches(".md").replace(['_', '-'], " "));
    let hook = fits(to_one_line(&topic.description()), MAX_HOOK_CHARS).unwrap_or_else(|| title.clone());
    let body = topic.body().trim().to_owned();
    (!body.is_empty()).then_some(Candidate {
        kind,
        title,
        hook,
        body,
        confidence: AGENT_CONFIDENCE,
        sources: file.sources.clone(),
        project,
        origin: CandidateOrigin::Agent,
    })
}

/// Returns the type that the name of a file starts with, as `feedback_tests.md`.
fn kind_of_name(name: &str) -> Option<MemoryKind> {
    name.split(['_', '-']).next().and_then(MemoryKind::parse)
}
