//! `backcast synth`: made-up logs.

use crate::cli::{SynthArgs, SynthCommand};
use crate::commands::RunStatus;
use crate::run::progress_bar;
use anyhow::{Context, Result, bail};
use std::path::Path;
use synth;
use synth::BulkOptions;

/// Runs it.
pub fn run(args: &SynthArgs) -> Result<RunStatus> {
    match &args.command {
        SynthCommand::Bulk {
            out,
            bytes,
            files,
            seed,
            corruption,
        } => {
            prepare_empty_folder(out)?;
            let options = BulkOptions {
                seed: *seed,
                bytes: *bytes,
                files: *files,
                corruption: *corruption,
            };
            let bar = progress_bar(options.bytes, false);
            let truth = synth::write_bulk(out, &options, &|bytes| bar.set_position(bytes))
                .with_context(|| format!("writing to {}", out.display()))?;
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

/// Nothing is ever written into a folder that holds something.
fn prepare_empty_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    if std::fs::read_dir(folder)?.next().is_some() {
        bail!("{} is not empty\n  hint: name a new folder", folder.display());
    }
    Ok(())
}
