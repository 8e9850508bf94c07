//! Standard output and standard error, either of which may be closed while a command runs (`backcast stats | head`). A reader
//! that goes away ends the writing, never the run: the exit status is that of the work.

use language::visible::shown;
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// Prints a line on standard error, as `eprintln!` does, but never panics.
macro_rules! notice {
    ($($part:tt)*) => {
        $crate::commands::terminal::print_notice(format_args!($($part)*))
    };
}
pub(crate) use notice;

/// Prints a line on standard error, without secrets and without what would act on the terminal. Nothing can be done if that fails, so it is ignored.
pub fn print_notice(text: fmt::Arguments<'_>) {
    // One write per notice: lines of several threads never mix.
    let text = text.to_string();
    let _ = io::stderr().lock().write_all(format!("{}\n", shown(&text)).as_bytes());
}

/// Writes to standard output. Returns `Ok` if nobody reads it any more: what was to be written is then dropped.
pub fn write_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    // Standard output flushes every line of its own accord, and rows have many lines.
    let mut out = io::BufWriter::with_capacity(1 << 16, ClosableWriter::new(io::stdout().lock()));
    let written = write(&mut out).and_then(|()| out.flush());
    // What is left in the buffer would be written once more when it is dropped.
    let (out, _) = out.into_parts();
    if out.is_closed { Ok(()) } else { written }
}

/// Whether standard output is a terminal.
pub fn is_stdout_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Notes that the reader of a pipe went away. Errors pass through formats that keep no kind, so the error alone does not tell.
struct ClosableWriter<W> {
    inner: W,
    is_closed: bool,
}

impl<W: Write> ClosableWriter<W> {
    fn new(inner: W) -> ClosableWriter<W> {
        ClosableWriter {
            inner,
            is_closed: false,
        }
    }

    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_closed |= matches!(&result, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl<W: Write> Write for ClosableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.inner.flush();
        self.note(flushed)
    }
}
