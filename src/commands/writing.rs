//! What every command that writes results does: the price table they are priced by, and where they go.

use crate::cli::{CheckOutputArgs, OutputArgs, PrintArgs};
use crate::commands::terminal::{is_stdout_terminal, notice, write_stdout};
use crate::page::{PageContent, is_page_of, render_page};
use anyhow::{Context, Result, bail};
use language::secrets;
use language::visible::strip_controls;
use replay::prices::PriceTable;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use table::human::format_size;
use table::{OutputFormat, TableStyle, atomic, fold_lines};
use transcript::bytes::Compression;

/// The price table of a file, or the built-in one.
pub fn load_prices(path: Option<&Path>) -> Result<PriceTable> {
    let Some(path) = path else {
        return Ok(PriceTable::built_in().clone());
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    PriceTable::parse(&text).with_context(|| path.display().to_string())
}

/// The first bytes of a file, which tell whose it is.
pub fn read_head(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut head)?;
    Ok(head)
}

/// Refuses a file that is there already, before the work begins.
pub fn ensure_absent(path: Option<&Path>, force: bool) -> Result<()> {
    if let Some(path) = path.filter(|path| !force && path.exists()) {
        bail!("{} exists; use --force to replace it", path.display());
    }
    Ok(())
}

/// Refuses a file that is there already, unless it is an earlier page of that name: that one can be made again, and so is
/// replaced without a switch.
pub fn ensure_absent_or_page(path: &Path, name: &str) -> Result<()> {
    const ENOUGH: u64 = 4096;
    let is_page = || read_head(path, ENOUGH).is_ok_and(|head| is_page_of(&String::from_utf8_lossy(&head), name));
    if path.exists() && !(path.is_file() && is_page()) {
        bail!(
            "{} exists and is not a page of {name}\n  hint: use another file; only an earlier page is replaced",
            path.display()
        );
    }
    Ok(())
}

/// Writes a page and says where it is.
pub fn write_page(path: &Path, force: bool, is_quiet: bool, content: PageContent) -> Result<()> {
    let text = render_page(content);
    atomic::write(path, force, text.as_bytes())?;
    if !is_quiet {
        notice!("{}: wrote a page of {}", path.display(), format_size(text.len() as u64));
    }
    Ok(())
}

/// Whether an existing file is a session log, and not rows that backcast wrote.
fn is_session_log(path: &Path) -> bool {
    match Compression::from_path(path) {
        None => false,
        Some(Compression::Plain) => {
            let is_record = |head: Vec<u8>| memchr::memmem::find(&head, b"\"sessionId\":").is_some();
            let foreign = read_head(path, 1 << 16).ok();
            let foreign = foreign.filter(|head| !head.starts_with(b"{\"schema_version\":"));
            foreign.is_some_and(is_record)
        }
        Some(_) => path.exists(),
    }
}

/// Where results go, and in which format.
#[derive(Debug, Clone, Copy)]
pub struct OutputTarget<'a> {
    format: OutputFormat,
    /// The file; `None` for standard output.
    path: Option<&'a Path>,
    force: bool,
}

impl OutputTarget<'static> {
    /// Standard output.
    pub fn stdout(format: OutputFormat) -> OutputTarget<'static> {
        OutputTarget {
            format,
            path: None,
            force: false,
        }
    }
}

impl<'a> From<&'a OutputArgs> for OutputTarget<'a> {
    fn from(args: &'a OutputArgs) -> OutputTarget<'a> {
        OutputTarget {
            format: args.format,
            path: args.output.as_deref().filter(|path| path.as_os_str() != "-"),
            force: args.force,
        }
    }
}

impl From<&PrintArgs> for OutputTarget<'static> {
    fn from(args: &PrintArgs) -> OutputTarget<'static> {
        OutputTarget::stdout(args.format)
    }
}

impl<'a> From<&'a CheckOutputArgs> for OutputTarget<'a> {
    fn from(args: &'a CheckOutputArgs) -> OutputTarget<'a> {
        OutputTarget {
            // The formats of CI systems are text as it is, like JSON.
            format: args.format.row_format().unwrap_or(OutputFormat::Json),
            path: args.output.as_deref().filter(|path| path.as_os_str() != "-"),
            force: args.force,
        }
    }
}

/// Writes to the file or to standard output.
pub fn write_output<'a>(
    target: impl Into<OutputTarget<'a>>,
    write: impl Fn(&mut dyn Write, TableStyle) -> io::Result<()>,
) -> Result<()> {
    let OutputTarget { format, path, force } = target.into();
    let fitted = |out: &mut dyn Write, look: TableStyle| {
        if format != OutputFormat::Table {
            return write(out, look);
        }
        // Tables fit as they are; sentences between them may not.
        let mut text = Vec::new();
        write(&mut text, look)?;
        let text = String::from_utf8_lossy(&text);
        let shown = to_shown_table(&text, look.color);
        out.write_all(fold_lines(&shown, look.width).as_bytes())
    };
    if let Some(path) = path {
        if is_session_log(path) {
            bail!(
                "{} looks like a session log; backcast never replaces one",
                path.display()
            );
        }
        return Ok(atomic::write_with(path, force, |out| {
            let style = TableStyle {
                width: usize::MAX,
                ..TableStyle::default()
            };
            fitted(out, style)
        })?);
    }
    let is_terminal = is_stdout_terminal();
    if format.is_binary() && is_terminal {
        bail!("{format:?} is binary: write it to a file with --output");
    }
    Ok(write_stdout(|out| fitted(out, table_style(is_terminal)))?)
}

/// Returns a table with its sentences without tokens and control characters. Cells have been made fit before. The colors of our
/// own stay.
fn to_shown_table(text: &str, has_color: bool) -> String {
    let text = secrets::mask_forms(text);
    if !has_color {
        return strip_controls(&text).into_owned();
    }
    let mut out = String::with_capacity(text.len());
    for (at, part) in text.split("\u{1b}[").enumerate() {
        let codes = part
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b';')
            .count();
        let is_color = at > 0 && part.as_bytes().get(codes) == Some(&b'm');
        if is_color {
            out.push_str("\u{1b}[");
        }
        out.push_str(&strip_controls(part));
    }
    out
}

/// Text for standard output, folded to its width.
pub fn fold_for_terminal(text: &str) -> String {
    fold_lines(text, table_style(is_stdout_terminal()).width)
}

/// How standard output wants its tables. `COLUMNS` has the last word; a pipe has no limit.
fn table_style(is_terminal: bool) -> TableStyle {
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|columns| columns.parse::<usize>().ok());
    let terminal = || match is_terminal {
        true => comfy_table::Table::new().width().map_or(80, usize::from),
        false => usize::MAX,
    };
    TableStyle {
        width: columns.filter(|columns| *columns > 0).unwrap_or_else(terminal).max(20),
        color: wants_color(is_terminal, |name| std::env::var(name).ok()),
    }
}

/// Whether to use color, by what terminals and people usually say: `NO_COLOR` has the last word, `CLICOLOR_FORCE` the one
/// before; else only a terminal that can, and where `CLICOLOR` is not 0.
fn wants_color(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if set("NO_COLOR").is_some() {
        return false;
    }
    if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        return true;
    }
    let is_able = set("TERM").is_none_or(|term| term != "dumb");
    is_terminal && is_able && set("CLICOLOR").is_none_or(|value| value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_where_they_are_wanted() {
        let check = |is_terminal: bool, set: &[(&str, &str)]| {
            wants_color(is_terminal, |name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(check(true, &[]));
        assert!(!check(false, &[]));
        assert!(!check(true, &[("NO_COLOR", "1")]));
        assert!(check(true, &[("NO_COLOR", "")]));
        assert!(check(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!check(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!check(true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
        assert!(!check(true, &[("CLICOLOR", "0")]));
        assert!(!check(true, &[("TERM", "dumb")]));
    }
}
