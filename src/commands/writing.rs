//! What every command that writes results does: the price table they are priced by, and where they go.

use super::words::size_text;
use crate::cli::OutputArgs;
use crate::metrics::cost::PriceTable;
use crate::output::{Look, atomic};
use crate::report::{Content, page};
use anyhow::{Context, Result, bail};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// The price table of a file, or the built-in one.
pub fn load_prices(path: Option<&Path>) -> Result<PriceTable> {
    let Some(path) = path else {
        return Ok(PriceTable::built_in().clone());
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    PriceTable::parse(&text).with_context(|| path.display().to_string())
}

/// Refuses a file that is there already, before the work begins.
pub fn check_free(path: Option<&Path>, force: bool) -> Result<()> {
    if let Some(path) = path.filter(|path| !force && path.exists()) {
        bail!("{} exists; use --force to replace it", path.display());
    }
    Ok(())
}

/// Writes a page and says where it is.
pub fn write_page(path: &Path, force: bool, is_quiet: bool, content: Content) -> Result<()> {
    let text = page(content);
    atomic::write(path, force, text.as_bytes())?;
    if !is_quiet {
        eprintln!("{}: a page of {}", path.display(), size_text(text.len() as u64));
    }
    Ok(())
}

/// Writes to the file or to standard output.
pub fn emit(args: &OutputArgs, write: impl Fn(&mut dyn Write, Look) -> io::Result<()>) -> Result<()> {
    if let Some(path) = &args.output {
        return Ok(atomic::write_with(path, args.force, |out| write(out, Look::default()))?);
    }
    let mut out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    if args.format.is_binary() && is_terminal {
        bail!("{:?} is binary: name a file with --output", args.format);
    }
    let width = if is_terminal {
        comfy_table::Table::new().width().map_or(80, usize::from)
    } else {
        80
    };
    let colour = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    write(
        &mut out,
        Look {
            width: width.clamp(40, 200),
            colour,
        },
    )?;
    Ok(out.flush()?)
}
