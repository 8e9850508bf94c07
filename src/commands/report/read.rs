//! Results read back from the files that runs wrote.

use crate::commands::tune::POINT_COLUMNS;
use crate::page::overview::overview_from_stats;
use crate::page::rounds::{PageRound, SessionRounds};
use crate::page::{PageContent, PageReplay, short_name};
use crate::views::replay_rows::SESSION_COLUMNS;
use anyhow::{Context, Result, bail};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use table::{Column, ColumnUnit};

/// What `replay --out` wrote.
pub fn read_replay(folder: &Path) -> Result<PageReplay> {
    let manifest = read_json_file(&folder.join("manifest.json"))?;
    // Other files of that name may be left from an earlier run.
    let is_listed = |name: &str| match manifest["files"].as_array() {
        Some(listed) => listed.iter().any(|known| known == name),
        None => folder.join(name).is_file(),
    };
    Ok(PageReplay {
        name: format!(
            "{} ({})",
            policy_name(&manifest["policy"]),
            short_name(&folder.display().to_string())
        ),
        summary: read_json_file(&folder.join("summary.json"))?,
        sessions: read_csv_sheet(&folder.join("sessions.csv"), SESSION_COLUMNS)?,
        rounds: read_rounds(folder, is_listed)?,
        boundaries: read_json_lines(&folder.join("boundaries.jsonl"))?,
        misses: match is_listed("misses.jsonl") {
            true => read_json_lines(&folder.join("misses.jsonl"))?,
            false => Vec::new(),
        },
        compare: is_listed("compare.json")
            .then(|| read_json_file(&folder.join("compare.json")))
            .transpose()?,
    })
}

/// The policy of a manifest, with what was set on the command line.
fn policy_name(policy: &Json) -> String {
    let mut name = policy["name"].as_str().unwrap_or("replay").to_owned();
    let origins = policy["origins"].as_object().into_iter().flatten();
    for (key, _) in origins.filter(|(_, origin)| origin.as_str().is_some_and(|origin| origin.starts_with("--"))) {
        let place = key
            .split('.')
            .fold(&policy["ranges"][0]["values"], |at, part| &at[part]);
        name.push_str(&format!(" {key}={place}"));
    }
    name
}

/// What `tune --out` wrote.
pub fn read_tune(folder: &Path) -> Result<Json> {
    let mut document = read_json_file(&folder.join("recommendation.json"))?;
    document["points"] = read_csv_sheet(&folder.join("points.csv"), POINT_COLUMNS)?.into();
    document["name"] = json!(short_name(&folder.display().to_string()));
    Ok(document)
}

/// A document that some command printed; what it is shows in what it holds. Others are passed over.
pub fn read_document(file: &Path, content: &mut PageContent) -> Result<()> {
    let mut document = read_json_file(file)?;
    let has = |keys: &[&str]| keys.iter().all(|key| document.get(key).is_some());
    let name = json!(short_name(&file.display().to_string()));
    if has(&["thresholds", "boundaries", "totals"]) {
        document["name"] = name;
        content.audits.push(document);
    } else if has(&["points", "choice", "front"]) {
        document["name"] = name;
        content.tunes.push(document);
    } else if has(&["memories"]) {
        document["name"] = name;
        content.memories.push(document);
    } else if has(&["ledger", "totals", "by", "rows"]) {
        let by = document["by"].as_str().unwrap_or_default().to_owned();
        let rows = document["rows"].as_array().cloned().unwrap_or_default();
        content.overview = Some(overview_from_stats(&document, &[(by.as_str(), rows)]));
    } else if has(&["policies", "totals", "bounds", "sessions"]) {
        content.runs.push(PageReplay {
            name: short_name(&file.display().to_string()).into_owned(),
            compare: Some(document),
            ..PageReplay::default()
        });
    }
    Ok(())
}

fn read_json_file(path: &Path) -> Result<Json> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
}

/// Objects, one a line; none if there is no such file.
fn read_json_lines(path: &Path) -> Result<Vec<Json>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let file = File::open(path).with_context(|| format!("reading {}", path.display()))?;
    let mut objects = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let place = || format!("{}:{}", path.display(), number + 1);
        let line = line.with_context(place)?;
        objects.push(serde_json::from_str(&line).with_context(place)?);
    }
    Ok(objects)
}

/// Rows of a CSV file as objects, numbers and flags as the columns declare them.
fn read_csv_sheet<R>(path: &Path, columns: &[Column<R>]) -> Result<Vec<Json>> {
    let mut rows = Vec::new();
    for_each_csv_row(path, |header, cells| {
        let object = header.iter().zip(cells).map(|(name, cell)| {
            let unit = columns
                .iter()
                .find(|column| column.name == name)
                .map(|column| column.unit);
            (name.clone(), cell_to_json(unit, cell))
        });
        rows.push(Json::Object(object.collect()));
    })?;
    Ok(rows)
}

fn cell_to_json(unit: Option<ColumnUnit>, cell: &str) -> Json {
    match unit {
        _ if cell.is_empty() => Json::Null,
        None | Some(ColumnUnit::Text | ColumnUnit::Time) => json!(unescape_formula(cell)),
        Some(_) => serde_json::from_str(cell).unwrap_or(Json::Null),
    }
}

/// Text as it was before a spreadsheet was kept from running it.
fn unescape_formula(cell: &str) -> &str {
    let starts = |text: &str| text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    match cell.strip_prefix('\'') {
        Some(rest) if starts(cell.trim_start_matches('\'')) => rest,
        _ => cell,
    }
}

fn for_each_csv_row(path: &Path, mut take: impl FnMut(&[String], &csv::StringRecord)) -> Result<()> {
    let mut reader = csv::Reader::from_path(path).with_context(|| format!("reading {}", path.display()))?;
    let header = reader.headers().with_context(|| path.display().to_string())?;
    let header = header.iter().map(str::to_owned).collect::<Vec<_>>();
    let mut record = csv::StringRecord::new();
    while reader
        .read_record(&mut record)
        .with_context(|| path.display().to_string())?
    {
        take(&header, &record);
    }
    Ok(())
}

/// The calls of all sessions, packed session by session.
fn read_rounds(folder: &Path, is_listed: impl Fn(&str) -> bool) -> Result<Vec<SessionRounds>> {
    let mut sessions = SessionRoundsBuilder::default();
    let (csv, parquet) = (folder.join("rounds.csv"), folder.join("rounds.parquet"));
    if is_listed("rounds.csv") {
        let mut places = None::<BTreeMap<String, usize>>;
        for_each_csv_row(&csv, |header, cells| {
            let places = places.get_or_insert_with(|| {
                let names = header.iter().enumerate();
                names.map(|(at, name)| (name.clone(), at)).collect()
            });
            let cell = |name: &str| {
                let cell = cells.get(*places.get(name)?)?;
                Some(unescape_formula(cell).to_owned()).filter(|cell| !cell.is_empty())
            };
            sessions.push_round(
                &cell("session").unwrap_or_default(),
                &cell("agent").unwrap_or_default(),
                PageRound::from_cells(cell),
            );
        })?;
    } else if is_listed("rounds.parquet") {
        table::read_parquet(&parquet, |cell| {
            let round = PageRound::from_cells(|name| cell(name));
            sessions.push_round(
                &cell("session").unwrap_or_default(),
                &cell("agent").unwrap_or_default(),
                round,
            );
        })
        .with_context(|| format!("reading {}", parquet.display()))?;
    } else {
        bail!("{}: neither rounds.csv nor rounds.parquet", folder.display());
    }
    Ok(sessions.finish())
}

/// Gathers the calls of one session after the other.
#[derive(Default)]
struct SessionRoundsBuilder {
    current: String,
    rounds: Vec<(String, PageRound)>,
    finished: Vec<SessionRounds>,
}

impl SessionRoundsBuilder {
    fn push_round(&mut self, session: &str, agent: &str, round: PageRound) {
        if session != self.current {
            self.close_session();
            self.current = session.to_owned();
        }
        self.rounds.push((agent.to_owned(), round));
    }

    fn close_session(&mut self) {
        if !self.rounds.is_empty() {
            self.finished.push(SessionRounds::new(&self.current, &self.rounds));
            self.rounds.clear();
        }
    }

    fn finish(mut self) -> Vec<SessionRounds> {
        self.close_session();
        self.finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_are_taken_off() {
        for (cell, text) in [
            ("'=1", "=1"),
            ("''=1", "'=1"),
            ("'quoted'", "'quoted'"),
            ("-5", "-5"),
            ("", ""),
        ] {
            assert_eq!(unescape_formula(cell), text);
        }
    }

    #[test]
    fn a_policy_is_named_with_what_was_set() {
        let policy = json!({
            "name": "recorded",
            "origins": {"window.percent": "--set", "notes.on": "preset recorded"},
            "ranges": [{"values": {"window": {"percent": 50.0}}}],
        });
        assert_eq!(policy_name(&policy), "recorded window.percent=50.0");
    }

    #[test]
    fn cells_have_the_types_of_their_columns() {
        assert_eq!(cell_to_json(Some(ColumnUnit::Count), "12"), json!(12));
        assert_eq!(cell_to_json(Some(ColumnUnit::Flag), "true"), json!(true));
        assert_eq!(cell_to_json(Some(ColumnUnit::Text), "12"), json!("12"));
        assert_eq!(cell_to_json(Some(ColumnUnit::Share), ""), Json::Null);
    }
}
