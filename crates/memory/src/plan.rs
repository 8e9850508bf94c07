//! Plans how candidates change a directory. Pure.
//!
//! A candidate has a mark, the hash of its type and words, and its file stores the mark. So the user may rename or reword the
//! file, and the next run still finds it. Without a mark, candidates are matched by their words: one that states the same
//! as a memory adds its sources to it and changes nothing else.

use crate::change::{ChangeAction, MemoryChange, Provenance};
use crate::extract::{Retraction, is_retracted};
use crate::index;
use crate::index::{IndexLimits, IndexTexts};
use crate::kinds::{Candidate, CandidateOrigin, MemoryKind, MemorySource};
use crate::names;
use crate::names::{INDEX_FILE, MORE_INDEX_FILE, TEAM_FOLDER};
use crate::neighbors::GistIndex;
use crate::similar::{Gist, MemoryRelation, is_comparable};
use crate::topic::{Topic, to_one_line};
use language::words::{content_words, text_stems};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The content of a directory.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Topic files, sorted by path.
    pub topics: Vec<Topic>,
    pub index: Option<String>,
    /// The entries that do not fit into the index.
    pub more_index: Option<String>,
    pub team_index: Option<String>,
    pub more_team_index: Option<String>,
    /// The entries that earlier runs wrote into an index.
    pub generated_lines: HashSet<String>,
    /// Marks of candidates whose memories were retired.
    pub retired: BTreeSet<String>,
    /// What the memories were created from that the user deleted.
    pub deleted: Vec<Provenance>,
    /// Ids of records whose "forget ..." was followed already. If the user restored the memory, it stays.
    pub followed_retractions: BTreeSet<String>,
}

/// Options of [`plan_memories`].
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryPlanOptions {
    /// Whether project facts and references go to the team's folder.
    pub team: bool,
    pub index: IndexLimits,
}

/// The changes that candidates make, and the candidates that make none.
#[derive(Debug, Clone, Default)]
pub struct MemoryPlan {
    /// Indexes last.
    pub changes: Vec<MemoryChange>,
    /// Number of candidates that the directory has already.
    pub unchanged: usize,
    /// Number of candidates whose memory was retired.
    pub retired: usize,
    /// Number of candidates whose memory the user deleted, and that were not stated again since.
    pub deleted: usize,
    /// Files that cannot be updated because their frontmatter is not YAML.
    pub unwritable: Vec<String>,
}

/// Returns the mark of a candidate: a hash of its type and its words.
pub fn candidate_mark(candidate: &Candidate) -> String {
    let words = text_stems(&format!("{}\n{}", candidate.title, candidate.body)).join(" ");
    blake3::hash(format!("{}\0{words}", candidate.kind.name()).as_bytes()).to_hex()[..12].to_owned()
}

/// Plans the changes. The order of the candidates does not matter.
pub fn plan_memories(snapshot: &Snapshot, candidates: &[Candidate], options: &MemoryPlanOptions) -> MemoryPlan {
    plan_with_retractions(snapshot, candidates, &[], options)
}

/// Plans the changes like [`plan_memories`], and retires memories that the user retracted.
pub fn plan_with_retractions(
    snapshot: &Snapshot,
    candidates: &[Candidate],
    forgotten: &[Retraction],
    options: &MemoryPlanOptions,
) -> MemoryPlan {
    let mut ordered = candidates.iter().collect::<Vec<_>>();
    ordered.sort_by_key(|candidate| (first_said(candidate), candidate.kind, &candidate.title, &candidate.body));
    let mut plan = MemoryPlan::default();
    let gists = ordered
        .iter()
        .map(|candidate| candidate_gist(candidate))
        .collect::<Vec<_>>();
    let deleted = DeletedMemories::new(&snapshot.deleted);
    let mut known = KnownTopics::new(&snapshot.topics, &gists);
    for (candidate, gist) in std::iter::zip(ordered, gists) {
        let mark = candidate_mark(candidate);
        let home = known.find_match(candidate, &mark, &gist);
        match home {
            Some(at) if known.topics[at].has_broken_frontmatter() => {
                plan.unwritable.push(known.topics[at].file.clone());
            }
            Some(at) => {
                let topic = &mut known.topics[at];
                let has_new_sources = topic.add_sources(&candidate.sources);
                let has_new_mark = has_new_sources && topic.add_marks(std::slice::from_ref(&mark));
                known.by_mark.entry(mark).or_insert(at);
                plan.unchanged += usize::from(!has_new_sources && !has_new_mark);
            }
            None if snapshot.retired.contains(&mark) => plan.retired += 1,
            None if deleted.has(candidate, &mark) => plan.deleted += 1,
            None => known.push_new(candidate, mark, gist, options),
        }
    }
    let mut after = known.topics;
    let leaving = retract_memories(snapshot, &mut after, forgotten);
    plan.changes = topic_changes(snapshot, &after, "said in a session");
    plan.changes.extend(leaving);
    plan.changes.extend(index_changes(snapshot, &after, &options.index));
    plan
}

/// Removes topics that were retracted after they were last stated. Returns the changes that retire those that exist on disk.
fn retract_memories(snapshot: &Snapshot, topics: &mut Vec<Topic>, forgotten: &[Retraction]) -> Vec<MemoryChange> {
    let mut leaving = Vec::new();
    for forgotten in forgotten {
        if snapshot.followed_retractions.contains(&forgotten.source.uuid) {
            continue;
        }
        let words = content_words(&forgotten.text);
        let is_meant = |topic: &Topic| {
            let said = topic.sources().iter().filter_map(|source| source.time).max();
            let statement = topic.body().trim_start().split("\n\n").next().unwrap_or_default();
            said.is_some() && said <= forgotten.source.time && is_retracted(&content_words(statement), &words)
        };
        topics.retain(|topic| {
            let is_gone = is_meant(topic);
            // A topic of this very plan is just not created.
            if is_gone && let Some(old) = snapshot.topics.iter().find(|old| old.file == topic.file) {
                leaving.push(MemoryChange {
                    file: old.file.clone(),
                    action: ChangeAction::Retire,
                    before: Some(old.text()),
                    after: None,
                    reason: format!("taken back: {}", to_one_line(&forgotten.text)),
                    marks: topic.marks(),
                    provenance: None,
                    retracted_by: Some(forgotten.source.uuid.clone()),
                });
            }
            !is_gone
        });
    }
    leaving
}

fn first_said(candidate: &Candidate) -> Option<i64> {
    candidate.sources.iter().filter_map(|source| source.time).min()
}

fn candidate_gist(candidate: &Candidate) -> Gist {
    Gist::from_text(&candidate.title, &candidate.hook, &candidate.body)
}

/// The memories that the user deleted, by what they were created from.
struct DeletedMemories<'a> {
    by_mark: HashMap<&'a str, Vec<&'a Provenance>>,
    by_source: HashMap<&'a str, Vec<&'a Provenance>>,
}

impl<'a> DeletedMemories<'a> {
    fn new(deleted: &'a [Provenance]) -> DeletedMemories<'a> {
        let mut found = DeletedMemories {
            by_mark: HashMap::new(),
            by_source: HashMap::new(),
        };
        for made in deleted {
            for mark in &made.marks {
                found.by_mark.entry(mark).or_default().push(made);
            }
            for source in &made.sources {
                found.by_source.entry(source).or_default().push(made);
            }
        }
        found
    }

    /// Whether a candidate is one of them and was not stated again since.
    fn has(&self, candidate: &Candidate, mark: &str) -> bool {
        let sources = candidate.sources.iter();
        let by_source = sources.filter_map(|source| self.by_source.get(source.uuid.as_str()));
        let mut found = self.by_mark.get(mark).into_iter().chain(by_source).flatten();
        found.any(|made| made.is_repeated_by(candidate, mark))
    }
}

/// The topics of a directory, those of the plan among them, indexed by what candidates are matched by.
struct KnownTopics {
    topics: Vec<Topic>,
    gists: Vec<Gist>,
    index: GistIndex,
    /// The first topic of each mark.
    by_mark: HashMap<String, usize>,
    /// Paths in lower case: file systems may not tell case apart.
    files: HashSet<String>,
    /// The last number that was tried for a path without its ending.
    numbers: HashMap<String, usize>,
}

impl KnownTopics {
    /// Indexes the topics of a directory; `candidates` are those that will be matched.
    fn new(topics: &[Topic], candidates: &[Gist]) -> KnownTopics {
        let gists = topics.iter().map(Gist::from_topic).collect::<Vec<_>>();
        let mut known = KnownTopics {
            topics: Vec::with_capacity(topics.len()),
            index: GistIndex::new(gists.iter().chain(candidates)),
            gists: Vec::with_capacity(topics.len()),
            by_mark: HashMap::new(),
            files: HashSet::new(),
            numbers: HashMap::new(),
        };
        for (topic, gist) in std::iter::zip(topics, gists) {
            known.push(topic.clone(), gist);
        }
        known
    }

    fn push(&mut self, topic: Topic, gist: Gist) {
        let at = self.topics.len();
        for mark in topic.marks() {
            self.by_mark.entry(mark).or_insert(at);
        }
        self.files.insert(topic.file.to_ascii_lowercase());
        self.index.insert(at, &gist);
        self.topics.push(topic);
        self.gists.push(gist);
    }

    /// Finds the topic of a candidate: by its mark, by its words, or by a shared source and similar words.
    fn find_match(&self, candidate: &Candidate, mark: &str, gist: &Gist) -> Option<usize> {
        if let Some(&at) = self.by_mark.get(mark) {
            return Some(at);
        }
        let id = |source: &MemorySource| (source.session.clone(), source.uuid.clone());
        let sources = candidate.sources.iter().map(id).collect::<BTreeSet<_>>();
        let is_match = |at: &usize| {
            let topic = &self.topics[*at];
            let shares_source = || topic.sources().iter().any(|source| sources.contains(&id(source)));
            is_comparable(topic.kind(), Some(candidate.kind))
                && match self.gists[*at].relation(gist) {
                    MemoryRelation::Same => true,
                    MemoryRelation::Similar(_) => shares_source(),
                    _ => false,
                }
        };
        self.index.find_related(gist).into_iter().find(is_match)
    }

    /// Adds a topic for a candidate.
    fn push_new(&mut self, candidate: &Candidate, mark: String, gist: Gist, options: &MemoryPlanOptions) {
        let is_shared = options.team && matches!(candidate.kind, MemoryKind::Project | MemoryKind::Reference);
        let folder = if is_shared { TEAM_FOLDER } else { "" };
        let name = names::file_name(candidate.kind.name(), &candidate.title);
        let file = self.free_file(&format!("{folder}{}", name.trim_end_matches(".md")));
        let mut topic = Topic::new(
            &file,
            &candidate.title,
            &candidate.hook,
            candidate.kind,
            &candidate.body,
        );
        let project = names::shown_name(candidate.project.rsplit(['/', '\\']).next().unwrap_or_default());
        // Frontmatter that this program wrote takes a field.
        let project = language::visible::strip_controls(&project);
        let _ = project.is_empty() || topic.set("project", &project.as_ref().into());
        let _ = candidate.origin == CandidateOrigin::Person || topic.set("origin", &candidate.origin.name().into());
        topic.add_sources(&candidate.sources);
        topic.add_marks(&[mark]);
        self.push(topic, gist);
    }

    /// Returns a path that no topic has: the stem, with a number if it is taken.
    fn free_file(&mut self, stem: &str) -> String {
        let number = self.numbers.entry(stem.to_ascii_lowercase()).or_insert(0);
        loop {
            *number += 1;
            let file = match *number {
                1 => format!("{stem}.md"),
                number => format!("{stem}_{number}.md"),
            };
            if !self.files.contains(&file.to_ascii_lowercase()) {
                return file;
            }
        }
    }
}

/// Returns the changes of topic files that are new or differ.
pub fn topic_changes(snapshot: &Snapshot, after: &[Topic], reason: &str) -> Vec<MemoryChange> {
    let mut changes = Vec::new();
    let known = snapshot.topics.iter().map(|topic| (topic.file.as_str(), topic));
    let known = known.collect::<HashMap<_, _>>();
    for topic in after {
        let before = known.get(topic.file.as_str()).map(|old| old.text());
        let text = topic.text();
        if before.as_ref() != Some(&text) {
            let action = if before.is_some() {
                ChangeAction::Update
            } else {
                ChangeAction::New
            };
            let (file, reason) = (topic.file.clone(), reason.to_owned());
            changes.push(MemoryChange {
                file,
                action,
                before,
                after: Some(text),
                reason,
                marks: Vec::new(),
                provenance: Provenance::from_topic(topic),
                retracted_by: None,
            });
        }
    }
    changes
}

/// Returns the changes of the indexes. They are written last: if a run is killed before that, the next run rewrites them.
pub fn index_changes(snapshot: &Snapshot, after: &[Topic], limits: &IndexLimits) -> Vec<MemoryChange> {
    let known = snapshot.topics.iter().map(|topic| (topic.file.as_str(), topic));
    let known = known.collect::<HashMap<_, _>>();
    let there = after.iter().map(|topic| topic.file.as_str()).collect::<HashSet<_>>();
    let mut changes = Vec::new();
    for (folder, main, more) in [
        (TEAM_FOLDER, &snapshot.team_index, &snapshot.more_team_index),
        ("", &snapshot.index, &snapshot.more_index),
    ] {
        let in_folder = after
            .iter()
            .filter(|topic| topic.file.starts_with(TEAM_FOLDER) != folder.is_empty());
        let listed = in_folder.map(|topic| index::IndexedMemory {
            path: &topic.file[folder.len()..],
            topic,
            before: known.get(topic.file.as_str()).copied(),
        });
        let listed = listed.collect::<Vec<_>>();
        if main.is_none() && listed.is_empty() {
            continue;
        }
        let retired = snapshot
            .topics
            .iter()
            .filter(|topic| !there.contains(topic.file.as_str()));
        let retired =
            retired.filter_map(|topic| Some(index::entry_line(topic, topic.file.strip_prefix(folder)?, limits)));
        let retired = retired.collect::<HashSet<_>>();
        let was_generated = |line: &str| snapshot.generated_lines.contains(line) || retired.contains(line);
        let old = IndexTexts {
            main: main.clone(),
            more: more.clone(),
        };
        let new = index::rebuild_index(&old, &listed, &was_generated, limits);
        // The entries that moved first: a run that is killed in between leaves some twice, and none nowhere.
        for (name, before, text) in [(MORE_INDEX_FILE, old.more, new.more), (INDEX_FILE, old.main, new.main)] {
            if before != text {
                changes.push(MemoryChange {
                    file: format!("{folder}{name}"),
                    action: ChangeAction::Index,
                    before,
                    after: text,
                    reason: "lists the memories".to_owned(),
                    marks: Vec::new(),
                    provenance: None,
                    retracted_by: None,
                });
            }
        }
    }
    changes
}

/// Adds the changes that keep the indexes consistent with other changes. An undo, for example, restores an index that may lack
/// a memory that stays.
pub fn refresh_index_changes(snapshot: &Snapshot, changes: &mut Vec<MemoryChange>, limits: &IndexLimits) {
    let after = apply_changes(snapshot, changes);
    let indexes = Snapshot {
        index: after.index,
        more_index: after.more_index,
        team_index: after.team_index,
        more_team_index: after.more_team_index,
        ..snapshot.clone()
    };
    for fitting in index_changes(&indexes, &after.topics, limits) {
        match changes.iter_mut().find(|change| change.file == fitting.file) {
            Some(change) => {
                let before = change.before.take();
                *change = MemoryChange { before, ..fitting };
            }
            None => changes.push(fitting),
        }
    }
    changes.retain(|change| change.before != change.after);
}

/// The directory after changes: what the next run will read.
pub fn apply_changes(snapshot: &Snapshot, changes: &[MemoryChange]) -> Snapshot {
    let mut after = snapshot.clone();
    let topics = std::mem::take(&mut after.topics).into_iter();
    let mut topics = topics
        .map(|topic| (topic.file.clone(), topic))
        .collect::<BTreeMap<_, _>>();
    for change in changes {
        after.retired.extend(change.marks.iter().cloned());
        match change.file.as_str() {
            INDEX_FILE => after.index = change.after.clone(),
            MORE_INDEX_FILE => after.more_index = change.after.clone(),
            file if file.strip_prefix(TEAM_FOLDER) == Some(INDEX_FILE) => after.team_index = change.after.clone(),
            file if file.strip_prefix(TEAM_FOLDER) == Some(MORE_INDEX_FILE) => {
                after.more_team_index = change.after.clone();
            }
            file if names::is_topic(file) => {
                topics.remove(file);
                let new = change.after.as_ref().map(|text| Topic::from_text(file, 0, text));
                topics.extend(new.map(|topic| (file.to_owned(), topic)));
            }
            // The logs of days are no memories.
            _ => {}
        }
    }
    after.topics = topics.into_values().collect();
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(kind: MemoryKind, title: &str, body: &str, uuid: &str) -> Candidate {
        Candidate {
            kind,
            title: title.into(),
            hook: format!("When it comes to {title}"),
            body: body.into(),
            confidence: 0.9,
            sources: vec![MemorySource {
                session: "s".into(),
                uuid: uuid.into(),
                time: Some(1_760_000_000_000),
            }],
            project: String::new(),
            origin: CandidateOrigin::Person,
        }
    }

    fn some() -> Vec<Candidate> {
        vec![
            candidate(
                MemoryKind::Feedback,
                "Small commits",
                "One change a commit.\n\n**Why:** easier review.",
                "u1",
            ),
            candidate(
                MemoryKind::Project,
                "Freeze in March",
                "No merges from 2026-03-01 on.",
                "u2",
            ),
            candidate(
                MemoryKind::Reference,
                "Board",
                "Bugs are tracked on the board INGEST.",
                "u3",
            ),
        ]
    }

    #[test]
    fn a_second_run_changes_nothing() {
        let first = plan_memories(&Snapshot::default(), &some(), &MemoryPlanOptions::default());
        assert_eq!(first.changes.len(), 4);
        let after = apply_changes(&Snapshot::default(), &first.changes);
        let second = plan_memories(&after, &some(), &MemoryPlanOptions::default());
        assert_eq!(second.changes, []);
        assert_eq!(second.unchanged, 3);
        let mut shuffled = some();
        shuffled.reverse();
        assert_eq!(
            plan_memories(&Snapshot::default(), &shuffled, &MemoryPlanOptions::default()).changes,
            first.changes
        );
    }

    #[test]
    fn said_again_adds_a_source_and_keeps_a_persons_words() {
        let first = plan_memories(&Snapshot::default(), &some(), &MemoryPlanOptions::default());
        let mut snapshot = apply_changes(&Snapshot::default(), &first.changes);
        let edited = snapshot.topics[0]
            .text()
            .replace("One change a commit.", "A commit does one thing. - Ana");
        let file = snapshot.topics[0].file.clone();
        snapshot.topics[0] = Topic::from_text(&file, 0, &edited);
        let again = candidate(
            MemoryKind::Feedback,
            "Small commits",
            "One change a commit.\n\n**Why:** easier review.",
            "u9",
        );
        let second = plan_memories(&snapshot, &[again], &MemoryPlanOptions::default());
        let [change] = &second.changes[..] else {
            panic!("{:?}", second.changes)
        };
        let text = change.after.clone().unwrap();
        assert!(text.contains("A commit does one thing. - Ana"));
        assert_eq!(Topic::from_text("a.md", 0, &text).confirmation_count(), 2);
    }

    #[test]
    fn what_was_retired_is_not_made_again() {
        let retired = some().iter().map(candidate_mark).collect();
        let plan = plan_memories(
            &Snapshot {
                retired,
                ..Snapshot::default()
            },
            &some(),
            &MemoryPlanOptions::default(),
        );
        assert_eq!((plan.changes.len(), plan.retired), (0, 3));
    }

    #[test]
    fn a_team_has_a_folder_and_an_index_of_its_own() {
        let options = MemoryPlanOptions {
            team: true,
            ..MemoryPlanOptions::default()
        };
        let changes = plan_memories(&Snapshot::default(), &some(), &options).changes;
        let files = changes.iter().map(|change| change.file.as_str()).collect::<Vec<_>>();
        assert_eq!(
            files,
            [
                "feedback_small_commits.md",
                "team/project_freeze_march.md",
                "team/reference_board.md",
                "team/MEMORY.md",
                "MEMORY.md"
            ]
        );
        assert!(changes[3].after.as_ref().unwrap().contains("](reference_board.md)"));
    }

    #[test]
    fn two_memories_of_one_name_get_two_files() {
        let two = [
            candidate(
                MemoryKind::Feedback,
                "Tests",
                "Run the whole suite before pushing anything.",
                "u1",
            ),
            candidate(
                MemoryKind::Feedback,
                "Tests",
                "Fixtures live beside what they are for.",
                "u2",
            ),
        ];
        let changes = plan_memories(&Snapshot::default(), &two, &MemoryPlanOptions::default()).changes;
        assert_eq!(changes[1].file, "feedback_tests_2.md");
    }
}
