//! What can be read off the records of a session without threading them: its project, pull requests, times and boundaries.
//! `super::RecordTotals` puts it into the report.

use super::{BoundaryCounts, SessionReport, TimeRange};
use crate::usage::compact::SharedText;
use transcript::build::IdMap;
use transcript::log::{NO_TIME, NameId, RecordKind, Time};
use transcript::thread::{Node, Session, is_client_chain, is_prompt};

/// Numbers strings of a report: texts once, and by the number they have in each log.
#[derive(Default)]
pub(super) struct NameInterner {
    numbers: IdMap<String, u32>,
    by_part: IdMap<u64, u32>,
}

impl NameInterner {
    pub(super) fn intern(
        &mut self,
        names: &mut Vec<SharedText>,
        session: &Session<'_>,
        node: Node,
        name: NameId,
    ) -> u32 {
        if name == 0 {
            return 0;
        }
        let part = session.part_number(node);
        let key = u64::from(part) << 32 | u64::from(name);
        if let Some(&number) = self.by_part.get(&key) {
            return number;
        }
        let text = session.string(part, name);
        let next = names.len() as u32;
        let number = *self.numbers.entry(text.to_owned()).or_insert(next);
        if number == next {
            names.push(text.into());
        }
        self.by_part.insert(key, number);
        number
    }
}

/// Returns the working directory of a session: that of the first record which is no copy, else of the first one.
pub fn session_project<'a>(session: &Session<'a>) -> &'a str {
    let folder = |node: Node| {
        let log = session.log(node);
        log.string(log.scope_of(session.record(node)).cwd)
    };
    let mut fresh = session.own_nodes().filter(|node| !session.is_copied(*node));
    let found = fresh.find(|node| !folder(*node).is_empty());
    found.or_else(|| session.own_nodes().next()).map_or("", folder)
}

/// Returns the pull requests that a session was linked to; a link that repeats the one before is left out.
pub(super) fn pull_links(session: &Session<'_>) -> Vec<(Time, String)> {
    let logs = session.parts().iter().map(|part| &part.log);
    let links = logs.flat_map(|log| log.pulls.iter().filter(|link| log.string(link.session) == session.id));
    let mut links = links.map(|link| (link.time, pull_name(&link.url))).collect::<Vec<_>>();
    links.sort();
    links.dedup_by(|next, known| next.1 == known.1);
    links
}

/// Returns the short name of a pull request, `owner/repository#7`, or its address if that has another form.
fn pull_name(url: &str) -> String {
    let path = url
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'))
        .map_or("", |(_, path)| path);
    let parts = path
        .trim_end_matches('/')
        .split('/')
        .filter(|part| *part != "-")
        .collect::<Vec<_>>();
    match parts[..] {
        [
            ..,
            owner,
            repository,
            "pull" | "pulls" | "pull-requests" | "merge_requests",
            number,
        ] => {
            format!("{owner}/{repository}#{number}")
        }
        _ => url.to_owned(),
    }
}

/// Boundaries that can be read off the records.
#[derive(Default)]
pub(super) struct RecordedBoundaries {
    pub counts: BoundaryCounts,
    /// Automatic ones whose size the log has, the client's own logs left out.
    pub sized_auto: u64,
}

/// Counts what can be read off the records without threading them.
pub(super) fn count_records(
    session: &Session<'_>,
    filter: TimeRange,
    report: &mut SessionReport,
) -> RecordedBoundaries {
    let RecordedBoundaries {
        mut counts,
        mut sized_auto,
    } = RecordedBoundaries::default();
    let mut version = "";
    for node in session.own_nodes() {
        let record = session.record(node);
        if session.is_copied(node) {
            report.copied_records += 1;
            continue;
        }
        if !filter.contains(record.time) {
            continue;
        }
        let log = session.log(node);
        let scope = log.scope_of(record);
        if record.time != NO_TIME {
            let (first, last) = report.times.unwrap_or((record.time, record.time));
            report.times = Some((first.min(record.time), last.max(record.time)));
        }
        if scope.version != 0 && !scope.is_sidechain {
            version = log.string(scope.version);
        }
        match record.kind {
            RecordKind::Boundary => {
                let boundary = session.boundary(node);
                let is_of_client = scope.is_sidechain && is_client_chain(log.string(scope.agent));
                let is_sized_auto = boundary.is_some_and(|found| found.is_auto && found.pre_tokens.is_some());
                sized_auto += u64::from(is_sized_auto && !is_of_client);
                match boundary {
                    Some(boundary) if !boundary.is_auto => counts.manual += 1,
                    _ => counts.auto += 1,
                }
            }
            RecordKind::MicroBoundary => counts.micro += 1,
            RecordKind::User if !scope.is_sidechain && is_prompt(session, node) => report.prompts += 1,
            _ => {}
        }
    }
    report.version = version.into();
    RecordedBoundaries { counts, sized_auto }
}

/// Whether a record is of a call that was billed.
pub(super) fn is_billed(session: &Session<'_>, node: Node) -> bool {
    let line = session.response(node).filter(|line| !line.billed.is_zero());
    line.is_some_and(|line| session.log(node).string(line.model) != CLIENT_MODEL)
}

/// The model of responses that the client wrote.
const CLIENT_MODEL: &str = "<synthetic>";
