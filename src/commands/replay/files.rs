//! The files of `replay --out`.

use crate::commands::compare::Comparison;
use crate::commands::replay::ReplayArgs;
use crate::views::replay::{ReplayOutcome, session_sheet};
use anyhow::{Result, bail};
use replay::policy::presets::PolicySet;
use serde_json::Value as Json;
use std::io;
use std::path::{Path, PathBuf};
use table::{OutputFormat, TableStyle, atomic, write_json, write_json_line};

/// The last file of a run: it says that the rest is whole, and lists it.
const MANIFEST: &str = "manifest.json";

/// Every other file that a run may write.
const FILES: [&str; 9] = [
    "sessions.csv",
    "rounds.csv",
    "rounds.parquet",
    "boundaries.jsonl",
    "summary.json",
    "misses.jsonl",
    "events.jsonl",
    "compare.csv",
    "compare.json",
];

/// Those of this run.
fn output_files(args: &ReplayArgs) -> Vec<&'static str> {
    let rounds = format!("rounds.{}", args.rounds.extension());
    let is_written = |name: &str| match name {
        "rounds.csv" | "rounds.parquet" => name == rounds,
        "misses.jsonl" => args.wants_working_set(),
        "events.jsonl" => args.events,
        "compare.csv" | "compare.json" => args.compare.is_some(),
        _ => true,
    };
    FILES.into_iter().filter(|name| is_written(name)).collect()
}

/// Where the files of a run go.
pub(super) struct ReplayFiles {
    pub folder: PathBuf,
    names: Vec<&'static str>,
    /// The file of the calls, which is written while sessions are replayed.
    pub rounds: PathBuf,
    pub force: bool,
}

impl ReplayFiles {
    /// Fails if a file is in the way, before the work begins.
    pub fn new(folder: &Path, args: &ReplayArgs) -> Result<ReplayFiles> {
        let names = output_files(args);
        let targets = names.iter().chain([&MANIFEST]).map(|name| folder.join(name));
        if let Some(target) = targets.into_iter().find(|target| !args.page.force && target.exists()) {
            bail!("{} exists; use --force to replace it", target.display());
        }
        Ok(ReplayFiles {
            folder: folder.to_path_buf(),
            names,
            rounds: folder.join(format!("rounds.{}", args.rounds.extension())),
            force: args.page.force,
        })
    }

    /// Removes files of an earlier run that this run does not write, lest they are taken for its own: the old manifest, and
    /// files that it lists. Nothing else in the folder is touched.
    pub fn remove_stale_files(&self) -> io::Result<()> {
        let manifest = self.folder.join(MANIFEST);
        let old = std::fs::read(&manifest).ok();
        let old = old.and_then(|bytes| serde_json::from_slice::<Json>(&bytes).ok());
        let Some((true, listed)) = old
            .as_ref()
            .map(|old| (old["backcast"].is_string(), old["files"].as_array()))
        else {
            return Ok(());
        };
        // The manifest first: without it, a folder that is half replaced is known to be.
        std::fs::remove_file(&manifest)?;
        let listed = listed.into_iter().flatten().filter_map(Json::as_str);
        for name in listed.filter(|name| FILES.contains(name) && !self.names.contains(name)) {
            let file = self.folder.join(name);
            if file.symlink_metadata().is_ok_and(|file| file.is_file()) {
                std::fs::remove_file(file)?;
            }
        }
        Ok(())
    }

    /// Writes everything but the rounds. The manifest comes last: it says that the rest is whole.
    pub fn write_files(
        &self,
        outcome: &ReplayOutcome,
        policies: &PolicySet,
        compare: Option<&Comparison>,
        args: &ReplayArgs,
    ) -> Result<()> {
        atomic::write_with(&self.folder.join("sessions.csv"), self.force, |out| {
            session_sheet(&outcome.sessions).write(OutputFormat::Csv, TableStyle::default(), out)
        })?;
        self.write_json_lines("boundaries.jsonl", &outcome.boundaries)?;
        if args.wants_working_set() {
            self.write_json_lines("misses.jsonl", &outcome.misses)?;
        }
        if args.events {
            atomic::write(&self.folder.join("events.jsonl"), self.force, &outcome.events)?;
        }
        if let Some(compare) = compare {
            atomic::write_with(&self.folder.join("compare.csv"), self.force, |out| {
                outcome
                    .comparison_report(compare, args.print.top)
                    .write(OutputFormat::Csv, TableStyle::default(), out)
            })?;
            atomic::write_with(&self.folder.join("compare.json"), self.force, |out| {
                outcome
                    .comparison_report(compare, args.print.top)
                    .write(OutputFormat::Json, TableStyle::default(), out)
            })?;
        }
        let second = compare.map(|compare| &compare.second);
        let prices = args.policy.prices.as_deref();
        let documents = [
            ("summary.json", outcome.summary_json(policies)),
            (MANIFEST, outcome.manifest_json(policies, second, prices, &self.names)),
        ];
        for (name, document) in documents {
            atomic::write_with(&self.folder.join(name), self.force, |out| write_json(&document, out))?;
        }
        Ok(())
    }

    /// Writes one object per line.
    fn write_json_lines(&self, name: &str, objects: &[Json]) -> Result<()> {
        atomic::write_with(&self.folder.join(name), self.force, |out| {
            for object in objects {
                write_json_line(object, out)?;
            }
            Ok(())
        })?;
        Ok(())
    }
}
