//! Results read back from the files that runs wrote.

use crate::page::overview::overview_from_stats;
use crate::page::rounds::{PageRounds, SessionRoundsBuilder};
use crate::page::{PageContent, PageReplay, PageSessions, short_name};
use crate::views::replay::{ROUND_COLUMNS, SESSION_COLUMNS};
use crate::views::tune::POINT_COLUMNS;
use anyhow::{Context, Result, bail};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use table::stream::StreamFormat;
use table::{Column, cells_to_json, read_cells};

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
        sessions: PageSessions::from_rows(&read_csv_sheet(&folder.join("sessions.csv"), SESSION_COLUMNS)?),
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

/// Reads a document that a command printed, by its `kind`. Skips documents that the page does not show.
pub fn read_document(file: &Path, content: &mut PageContent) -> Result<()> {
    let mut document = read_json_file(file)?;
    let name = short_name(&file.display().to_string()).into_owned();
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "audit" | "tune" | "memories" => document["name"] = json!(name),
        _ => {}
    }
    match kind.as_str() {
        "audit" => content.audits.push(document),
        "tune" => content.tunes.push(document),
        "memories" => content.memories.push(document),
        "stats" => {
            let by = document["by"].as_str().unwrap_or_default().to_owned();
            let rows = document["rows"].as_array().cloned().unwrap_or_default();
            content.overview = Some(overview_from_stats(&document, &[(by.as_str(), rows)]));
        }
        "compare" => content.runs.push(PageReplay {
            name,
            compare: Some(document),
            ..PageReplay::default()
        }),
        _ => {}
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

/// Reads the rows of a CSV file as objects.
fn read_csv_sheet<R>(path: &Path, columns: &[Column<R>]) -> Result<Vec<Json>> {
    let mut rows = Vec::new();
    read_cells(path, StreamFormat::Csv, columns, |cells| {
        rows.push(cells_to_json(columns, cells))
    })
    .with_context(|| format!("reading {}", path.display()))?;
    Ok(rows)
}

/// Reads the calls of all sessions and packs them session by session.
fn read_rounds(folder: &Path, is_listed: impl Fn(&str) -> bool) -> Result<PageRounds> {
    let formats =
        [StreamFormat::Csv, StreamFormat::Parquet].map(|format| (format!("rounds.{}", format.extension()), format));
    let Some((name, format)) = formats.into_iter().find(|(name, _)| is_listed(name)) else {
        bail!("{}: neither rounds.csv nor rounds.parquet", folder.display());
    };
    let path = folder.join(name);
    let mut sessions = SessionRoundsBuilder::default();
    read_cells(&path, format, ROUND_COLUMNS, |cells| sessions.push(cells))
        .with_context(|| format!("reading {}", path.display()))?;
    Ok(sessions.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_named_with_what_was_set() {
        let policy = json!({
            "name": "recorded",
            "origins": {"window.percent": "--set", "notes.on": "preset recorded"},
            "ranges": [{"values": {"window": {"percent": 50.0}}}],
        });
        assert_eq!(policy_name(&policy), "recorded window.percent=50.0");
    }
}
