//! Joins parts of single logs, made on other machines, into the part that one machine would have made of all of them.

use super::map::{MapJob, PartWriter};
use super::{PartEntry, PartIndex, Section, read_index};
use anyhow::{Context, Result, anyhow, bail};
use std::io::{self, Write};
use transcript::bytes::OpenBytes;
use transcript::discover::DiscoveredLog;
use transcript::line_hashes::LineHashes;
use transcript::log::Log;
use transcript::pack::{self, PackedOutline};
use transcript::problem::{Problem, ProblemKind};

/// What became of a log that another machine mapped.
pub enum CollectedLog {
    /// The part that [`super::map_log`] made of it.
    Part(Box<dyn OpenBytes>),
    /// No part: the work on it panicked, with this message.
    Panicked(String),
}

/// A part of a single log, open.
struct LogPart<'a> {
    bytes: &'a dyn OpenBytes,
    start: u64,
    index: PartIndex,
    entry: PartEntry,
}

impl<'a> LogPart<'a> {
    /// Opens the part of a log. Fails if it is a part of anything else.
    fn open(bytes: &'a dyn OpenBytes, found: &DiscoveredLog) -> Result<LogPart<'a>> {
        let (mut index, start) = read_index(bytes, bytes.size())?;
        let (Some(entry), true, 0) = (index.logs.pop(), index.logs.is_empty(), start) else {
            bail!("it is not the part of one log");
        };
        if entry.path != found.path.as_os_str().as_encoded_bytes()
            || entry.packing != found.packing as u8
            || entry.size != found.stamp.size
        {
            bail!("it is the part of another log");
        }
        Ok(LogPart {
            bytes,
            start,
            index,
            entry,
        })
    }

    fn read(&self, section: &Section) -> io::Result<Vec<u8>> {
        section.read(self.bytes, self.start)
    }
}

/// Fails if bytes are not the whole part of a log, with or without its texts.
pub fn check_log_part(bytes: &dyn OpenBytes, found: &DiscoveredLog, max_line: usize, texts: bool) -> Result<()> {
    let part = LogPart::open(bytes, found)?;
    if part.index.max_line != max_line as u64 {
        bail!("it was mapped with another --max-line");
    }
    let entry = &part.entry;
    // A log that could not be read has no texts anywhere.
    if entry.texts.is_some() != (texts && entry.content.is_some()) {
        bail!("it was mapped with other options");
    }
    let blocks = entry.texts.iter().flatten();
    for section in [&entry.numbers, &entry.lines].into_iter().chain(blocks) {
        part.read(section)?;
    }
    Ok(())
}

impl MapJob<'_> {
    /// Writes the part that [`MapJob::write_part`] would write, byte for byte, from parts of its single logs. Returns what was
    /// wrong with the logs. Logs are asked for by their numbers.
    pub fn write_collected(
        &self,
        out: &mut dyn Write,
        collect: &mut dyn FnMut(usize) -> Result<CollectedLog>,
    ) -> Result<Vec<Problem>> {
        let mut writer = PartWriter::new(out, self.index())?;
        let mut problems = self.found_problems().to_vec();
        for (number, found) in self.logs().iter().enumerate() {
            let path = found.path.display().to_string();
            match collect(number)? {
                CollectedLog::Part(bytes) => {
                    let part = LogPart::open(bytes.as_ref(), found);
                    let part = part.with_context(|| format!("the part of {path}"))?;
                    problems.append(&mut add_part(&mut writer, &part, &path)?);
                }
                CollectedLog::Panicked(message) => problems.push(add_panicked(&mut writer, found, &message)?),
            }
        }
        writer.finish()?;
        Ok(problems)
    }
}

/// Adds a log from its part. Returns what was wrong with it.
fn add_part<W: Write>(writer: &mut PartWriter<W>, part: &LogPart<'_>, path: &str) -> Result<Vec<Problem>> {
    let mut entry = part.entry.clone();
    let numbers = part.read(&entry.numbers)?;
    let front = PackedOutline::read(&numbers).map_err(|error| anyhow!("the part of {path}: {error}"))?;
    let mut problems = entry.problems.clone();
    problems.extend(Problem::lines(path, &front.log.problems));
    entry.numbers = writer.write(&numbers)?;
    entry.lines = writer.write(&part.read(&entry.lines)?)?;
    for block in entry.texts.iter_mut().flatten() {
        *block = writer.write(&part.read(block)?)?;
    }
    writer.push(entry);
    Ok(problems)
}

/// Adds a log without content, and says why in a problem with it.
fn add_panicked<W: Write>(writer: &mut PartWriter<W>, found: &DiscoveredLog, message: &str) -> Result<Problem> {
    let problem = Problem::file(found.path.display().to_string(), ProblemKind::Internal, message);
    let entry = PartEntry {
        path: found.path.as_os_str().as_encoded_bytes().to_vec(),
        packing: found.packing as u8,
        size: found.stamp.size,
        content: None,
        problems: vec![problem.clone()],
        numbers: writer.write(&pack::pack(&Log::default()))?,
        lines: writer.write(&LineHashes::default().pack())?,
        texts: None,
    };
    writer.push(entry);
    Ok(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::parts::{MapTask, PartSet, map_log};
    use crate::run::read::ReadOptions;
    use std::path::PathBuf;
    use transcript::discover::discover;

    const MAX_LINE: usize = 32 << 20;

    fn corpus() -> (PathBuf, Vec<DiscoveredLog>) {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let found = discover(std::slice::from_ref(&root), false).expect("the bundled logs");
        (root, found.logs)
    }

    fn job<'a>(logs: &'a [DiscoveredLog], roots: &'a [PathBuf], texts: bool) -> MapJob<'a> {
        MapJob::new(MapTask {
            logs,
            shard: None,
            roots,
            problems: vec![Problem::file("there", ProblemKind::LinkSkipped, "")],
            texts,
            options: ReadOptions::default(),
        })
    }

    fn bytes_of(part: Vec<u8>) -> CollectedLog {
        CollectedLog::Part(Box::new(part))
    }

    #[test]
    fn parts_of_single_logs_join_into_the_part_of_all() {
        let (root, logs) = corpus();
        let roots = [root];
        for texts in [false, true] {
            let job = job(&logs, &roots, texts);
            let (mut local, mut joined) = (Vec::new(), Vec::new());
            let mut wanted = job.write_part(&mut local).expect("a part");
            let mut problems = job
                .write_collected(&mut joined, &mut |number| {
                    Ok(bytes_of(map_log(&logs[number], MAX_LINE, texts)?))
                })
                .expect("joined");
            assert!(local == joined, "the same bytes, texts: {texts}");
            assert!(wanted.len() >= 10, "the bundled logs have problems");
            wanted.sort();
            problems.sort();
            assert_eq!(wanted, problems);
        }
    }

    #[test]
    fn a_part_of_something_else_is_refused() {
        let (_, logs) = corpus();
        let part = map_log(&logs[0], MAX_LINE, false).expect("a part");
        check_log_part(&part, &logs[0], MAX_LINE, false).expect("its own");
        assert!(check_log_part(&part, &logs[1], MAX_LINE, false).is_err());
        assert!(check_log_part(&part, &logs[0], MAX_LINE + 1, false).is_err());
        assert!(check_log_part(&part, &logs[0], MAX_LINE, true).is_err());
        for at in (0..part.len()).step_by(7) {
            let mut damaged = part.clone();
            damaged[at] ^= 0x40;
            assert!(
                check_log_part(&damaged, &logs[0], MAX_LINE, false).is_err(),
                "byte {at}"
            );
            damaged.truncate(at);
            assert!(
                check_log_part(&damaged, &logs[0], MAX_LINE, false).is_err(),
                "cut at {at}"
            );
        }
        let joined = job(&logs, &[], false).write_collected(&mut Vec::new(), &mut |_| Ok(bytes_of(part.clone())));
        assert!(joined.is_err(), "the part of one log stands for no other");
    }

    #[test]
    fn a_log_that_panics_is_a_problem_and_the_rest_is_there() {
        let (root, logs) = corpus();
        let roots = [root];
        let mut part = Vec::new();
        let job = job(&logs, &roots, false);
        let problems = job.write_collected(&mut part, &mut |number| {
            if number == 3 {
                return Ok(CollectedLog::Panicked("index out of bounds".into()));
            }
            Ok(bytes_of(map_log(&logs[number], MAX_LINE, false)?))
        });
        let problems = problems.expect("a part of the rest");
        let internal = problems.iter().filter(|problem| problem.kind == ProblemKind::Internal);
        let internal = internal.collect::<Vec<_>>();
        assert_eq!(internal.len(), 1);
        assert_eq!(internal[0].path, logs[3].path.display().to_string());
        let opened = PartSet::from_bytes([("all".to_owned(), part)]).expect("a whole part");
        opened.check_sections().expect("intact");
        assert_eq!(opened.logs().len(), logs.len());
    }
}
