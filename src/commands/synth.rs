//! `backcast synth`: made-up logs.

use crate::cli::{parse_share, parse_size};
use crate::commands::RunStatus;
use crate::run::progress_bar;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use synth;
use synth::{BulkOptions, SynthAgent};

/// Arguments of `synth`.
#[derive(Debug, Args)]
pub struct SynthArgs {
    /// What to write.
    #[command(subcommand)]
    pub command: SynthCommand,
}

/// What `synth` writes.
#[derive(Debug, Subcommand)]
pub enum SynthCommand {
    /// A corpus of a given size, laid out as the client would, with the expected results in `expected.json`.
    Bulk {
        /// Folder to write to; must be empty or missing.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Size of all logs together.
        #[arg(long, default_value = "64MiB", value_parser = parse_size, value_name = "SIZE")]
        bytes: u64,
        /// How many logs.
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        files: u32,
        /// Same seed, same bytes.
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
        /// Share of lines that are damaged, 0 to 1.
        #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE")]
        corruption: f64,
        /// Agent whose logs are made.
        #[arg(long, default_value = "claude", value_parser = ["claude", "codex", "opencode", "pi"], value_name = "AGENT")]
        agent: String,
    },
    /// The bundled cases, one folder each, with the expected results in `expected.json`.
    Corpus {
        /// Folder to write to; must be empty or missing.
        #[arg(long, value_name = "DIR", required_unless_present = "list")]
        out: Option<PathBuf>,
        /// Only list the cases.
        #[arg(long)]
        list: bool,
    },
}

/// Runs it.
pub fn run(args: &SynthArgs) -> Result<RunStatus> {
    match &args.command {
        SynthCommand::Bulk {
            out,
            bytes,
            files,
            seed,
            corruption,
            agent,
        } => {
            prepare_empty_folder(out)?;
            let options = BulkOptions {
                seed: *seed,
                bytes: *bytes,
                files: *files,
                corruption: *corruption,
            };
            let bar = progress_bar(options.bytes, false);
            let progress = |bytes| bar.set_position(bytes);
            let truth = match other_agent(agent) {
                None => synth::write_bulk(out, &options, &progress),
                Some(agent) => synth::write_agent_bulk(out, agent, &options, &progress),
            };
            let truth = truth.with_context(|| format!("writing to {}", out.display()))?;
            bar.finish_and_clear();
            let expected = out.join("expected.json");
            std::fs::write(&expected, truth.to_json()).with_context(|| expected.display().to_string())?;
        }
        SynthCommand::Corpus { list: true, .. } | SynthCommand::Corpus { out: None, .. } => {
            let cases = synth::cases()
                .iter()
                .map(|(name, proves)| format!("{name:<28} {proves}\n"));
            return super::print(cases.collect::<String>().as_bytes());
        }
        SynthCommand::Corpus { out: Some(out), .. } => {
            prepare_empty_folder(out)?;
            synth::write_corpus(out).with_context(|| format!("writing to {}", out.display()))?;
        }
    }
    Ok(RunStatus::Done)
}

/// Returns the agent of this name, unless it is Claude Code.
fn other_agent(name: &str) -> Option<SynthAgent> {
    match name {
        "codex" => Some(SynthAgent::Codex),
        "opencode" => Some(SynthAgent::OpenCode),
        "pi" => Some(SynthAgent::Pi),
        _ => None,
    }
}

/// Nothing is ever written into a folder that holds something.
fn prepare_empty_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    if std::fs::read_dir(folder)?.next().is_some() {
        bail!("{} is not empty\n  hint: use a new folder", folder.display());
    }
    Ok(())
}
