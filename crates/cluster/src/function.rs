//! The function of a job: a key in, a packed part out.
//!
//! What the engine makes of a failure depends on its kind alone, so the kinds are chosen here. An IO error is tried again, on
//! another executor if there is one: storage that failed for a moment, a folder that is not mounted there. Anything that
//! would fail again is a row of the result: the engine ends the whole job over any other error.

use backcast::run::cache::BUILD_ID;
use backcast::run::parts::{MapFailure, map_log};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, LargeBinaryBuilder, StringArray, StringBuilder, StructArray,
    UInt8Array, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Fields, UInt8Type, UInt64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use transcript::bytes::{ByteSource, Compression, OpenBytes};
use transcript::discover::{DiscoveredLog, FileStamp, LogOrigin};
use transcript::parallel::with_threads;

/// Its name in plans. The number counts changes of its arguments and of its result.
pub const MAP_FUNCTION: &str = "backcast_map_1";

/// The biggest part that goes through the engine. Messages may have twice as much.
pub const MAX_PART_BYTES: usize = 512 << 20;

/// The most bytes in a message between processes of the cluster.
pub const MAX_MESSAGE_BYTES: u32 = 2 * MAX_PART_BYTES as u32;

/// How long a task waits before it fails.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// What a log became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// A part.
    Part = 0,
    /// Nothing: the work panicked.
    Panicked = 1,
    /// A part that is too big for the engine.
    TooBig = 2,
}

impl RowKind {
    /// All of them.
    pub const ALL: [RowKind; 3] = [RowKind::Part, RowKind::Panicked, RowKind::TooBig];
}

/// Where the function is.
#[derive(Debug, Clone)]
pub enum MapSite {
    /// In a plan: it is named, and never called.
    Plan,
    /// On an executor.
    Executor(Arc<ExecutorSite>),
}

/// An executor, as the function knows it.
#[derive(Debug)]
pub struct ExecutorSite {
    /// Its name in messages.
    pub name: String,
    /// Told when work of another build came: the executor then leaves the cluster.
    pub refused: Notify,
}

/// Maps logs.
#[derive(Debug)]
struct MapFunction {
    signature: Signature,
    site: MapSite,
}

// There is one such function in a plan, wherever it is.
impl PartialEq for MapFunction {
    fn eq(&self, _: &MapFunction) -> bool {
        true
    }
}

impl Eq for MapFunction {}

impl Hash for MapFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        MAP_FUNCTION.hash(state);
    }
}

/// Returns the function.
pub fn map_function(site: MapSite) -> Arc<ScalarUDF> {
    let arguments = vec![
        DataType::Binary,
        DataType::Binary,
        DataType::UInt8,
        DataType::UInt64,
        DataType::Utf8,
        DataType::UInt64,
        DataType::Boolean,
        DataType::Utf8,
    ];
    Arc::new(ScalarUDF::new_from_impl(MapFunction {
        // The engine must neither call it ahead of time nor share its results.
        signature: Signature::exact(arguments, Volatility::Volatile),
        site,
    }))
}

/// The fields of a result.
fn result_fields() -> Fields {
    Fields::from(vec![
        Field::new("kind", DataType::UInt8, false),
        Field::new("part", DataType::LargeBinary, true),
        Field::new("detail", DataType::Utf8, true),
    ])
}

impl ScalarUDFImpl for MapFunction {
    fn name(&self) -> &str {
        MAP_FUNCTION
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(result_fields()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let MapSite::Executor(site) = &self.site else {
            return Err(DataFusionError::Execution(format!(
                "{MAP_FUNCTION} runs on executors only"
            )));
        };
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let table = KeyColumns::new(&columns)?;
        let mut rows = ResultRows::default();
        for at in 0..table.paths.len() {
            table.check_build(at, site);
            let key = table.key(at);
            match map_key(&key, &site.name) {
                Ok((kind, part, detail)) => rows.push(kind, part.as_deref(), detail.as_deref()),
                Err(error) => {
                    // The engine tries again at once, and storage that fails needs a moment.
                    std::thread::sleep(FAILURE_PAUSE);
                    return Err(DataFusionError::IoError(error));
                }
            }
        }
        Ok(ColumnarValue::Array(rows.finish()?))
    }
}

/// The arguments, one array each.
struct KeyColumns<'a> {
    paths: &'a BinaryArray,
    locations: &'a BinaryArray,
    packings: &'a UInt8Array,
    sizes: &'a UInt64Array,
    max_lines: &'a UInt64Array,
    texts: &'a BooleanArray,
    builds: &'a StringArray,
}

impl<'a> KeyColumns<'a> {
    fn new(columns: &'a [ArrayRef]) -> Result<KeyColumns<'a>> {
        let [paths, locations, packings, sizes, _, max_lines, texts, builds] = columns else {
            return Err(DataFusionError::Internal(format!(
                "{MAP_FUNCTION} takes eight arguments"
            )));
        };
        Ok(KeyColumns {
            paths: paths.as_binary(),
            locations: locations.as_binary(),
            packings: packings.as_primitive::<UInt8Type>(),
            sizes: sizes.as_primitive::<UInt64Type>(),
            max_lines: max_lines.as_primitive::<UInt64Type>(),
            texts: texts.as_boolean(),
            builds: builds.as_string(),
        })
    }

    /// Never returns if the work is that of another build: sizes and sums may be defined differently there. Any answer would
    /// count against the task, and the engine would soon hand it to this executor again. So the executor keeps the task until
    /// it has left, and the engine gives it to another one.
    fn check_build(&self, at: usize, site: &ExecutorSite) {
        if self.builds.value(at) == BUILD_ID {
            return;
        }
        site.refused.notify_one();
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }

    fn key(&self, at: usize) -> LogKey {
        LogKey {
            path: path_of(self.paths.value(at)),
            location: path_of(self.locations.value(at)),
            packing: self.packings.value(at),
            size: self.sizes.value(at),
            max_line: usize::try_from(self.max_lines.value(at)).unwrap_or(usize::MAX),
            texts: self.texts.value(at),
        }
    }
}

/// A row of the table, and the options of the map.
struct LogKey {
    path: PathBuf,
    location: PathBuf,
    packing: u8,
    size: u64,
    max_line: usize,
    texts: bool,
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::new(String::from_utf8_lossy(bytes).as_ref()))
}

type Outcome = (RowKind, Option<Vec<u8>>, Option<String>);

/// Maps the log behind a key. An error is worth another try.
fn map_key(key: &LogKey, executor: &str) -> io::Result<Outcome> {
    #[cfg(feature = "faults")]
    crate::faults::before_log(&key.path)?;
    let mut packings = Compression::ALL.into_iter();
    let Some(packing) = packings.find(|packing| *packing as u8 == key.packing) else {
        return Err(io::Error::other(format!(
            "{}: an unknown compression",
            key.path.display()
        )));
    };
    let found = DiscoveredLog {
        path: key.path.clone(),
        packing,
        stamp: FileStamp {
            size: key.size,
            ..FileStamp::default()
        },
        origin: LogOrigin::Source(Arc::new(LocatedFile {
            location: key.location.clone(),
            size: key.size,
        })),
    };
    // A task has one core.
    let map = || with_threads(Some(1), || map_log(&found, key.max_line, key.texts));
    match catch_unwind(AssertUnwindSafe(|| {
        #[cfg(feature = "faults")]
        crate::faults::in_log(&key.path);
        map()
    })) {
        Err(panic) => Ok((RowKind::Panicked, None, Some(panic_message(&*panic)))),
        Ok(Ok(Ok(part))) if part.len() > MAX_PART_BYTES => Ok((RowKind::TooBig, None, None)),
        Ok(Ok(Ok(part))) => Ok((RowKind::Part, Some(part), None)),
        Ok(Ok(Err(failure))) => Err(try_again(key, executor, &failure)),
        Ok(Err(error)) => Err(io::Error::other(error.to_string())),
    }
}

fn try_again(key: &LogKey, executor: &str, failure: &MapFailure) -> io::Error {
    let location = key.location.display();
    let reason = match failure {
        MapFailure::Storage { reason, .. } => reason.clone(),
        other => other.to_string(),
    };
    io::Error::other(format!("executor {executor}: {location}: {reason}"))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the executor panicked: {}", text.as_deref().unwrap_or("no message"))
}

/// A file under another name than the log's. Of one that has grown, what it held when the log was found.
#[derive(Debug)]
struct LocatedFile {
    location: PathBuf,
    size: u64,
}

impl ByteSource for LocatedFile {
    fn open(&self) -> io::Result<Box<dyn OpenBytes>> {
        Ok(Box::new(open_up_to(&self.location, self.size)?))
    }
}

/// The beginning of a file.
struct FileStart {
    file: File,
    size: u64,
}

/// Opens a file that must still have what it had.
fn open_up_to(path: &Path, size: u64) -> io::Result<FileStart> {
    let file = File::open(path)?;
    let now = file.metadata()?.len();
    if now < size {
        return Err(io::Error::other(format!(
            "it had {size} bytes when it was found and has {now} here"
        )));
    }
    Ok(FileStart { file, size })
}

impl OpenBytes for FileStart {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        self.file.read_at(&mut buffer[..wanted], at)
    }
}

/// Results, row by row.
#[derive(Default)]
struct ResultRows {
    kinds: Vec<u8>,
    parts: LargeBinaryBuilder,
    details: StringBuilder,
}

impl ResultRows {
    fn push(&mut self, kind: RowKind, part: Option<&[u8]>, detail: Option<&str>) {
        self.kinds.push(kind as u8);
        self.parts.append_option(part);
        self.details.append_option(detail);
    }

    fn finish(mut self) -> Result<ArrayRef> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt8Array::from(self.kinds)),
            Arc::new(self.parts.finish()),
            Arc::new(self.details.finish()),
        ];
        Ok(Arc::new(StructArray::try_new(result_fields(), columns, None)?))
    }
}

/// A result, as the client reads it.
pub struct ResultRow<'a> {
    /// What the log became.
    pub kind: RowKind,
    /// The part.
    pub part: Option<&'a [u8]>,
    /// What there is to say about it.
    pub detail: Option<&'a str>,
}

/// Reads a row of the result column. Returns `None` if it is not one.
pub fn read_result(column: &ArrayRef, at: usize) -> Option<ResultRow<'_>> {
    let column = column.as_struct_opt()?;
    let kind = column.column(0).as_primitive_opt::<UInt8Type>()?.value(at);
    let part = column.column(1).as_binary_opt::<i64>()?;
    let detail = column.column(2).as_string_opt::<i32>()?;
    Some(ResultRow {
        kind: RowKind::ALL.into_iter().find(|known| *known as u8 == kind)?,
        part: part.is_valid(at).then(|| part.value(at)),
        detail: detail.is_valid(at).then(|| detail.value(at)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use backcast::run::parts::check_log_part;

    fn key(folder: &Path, name: &str, bytes: &[u8]) -> LogKey {
        let location = folder.join(name);
        std::fs::write(&location, bytes).expect("a log");
        LogKey {
            path: PathBuf::from("logs").join(name),
            location,
            packing: 0,
            size: bytes.len() as u64,
            max_line: 1 << 20,
            texts: false,
        }
    }

    #[test]
    fn a_part_has_the_name_that_was_typed_and_what_the_log_held_then() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = key(folder.path(), "a.jsonl", b"{\"type\":\"user\"}\n");
        let (kind, first, _) = map_key(&key, "here").expect("mapped");
        assert_eq!(kind, RowKind::Part);
        let mut grown = std::fs::read(&key.location).expect("a log");
        grown.extend_from_slice(b"{\"type\":\"system\"}\n");
        std::fs::write(&key.location, grown).expect("a log");
        let (_, second, _) = map_key(&key, "there").expect("mapped");
        assert_eq!(first, second, "what was appended is left to the next run");
        let found = DiscoveredLog {
            path: key.path.clone(),
            packing: Compression::Plain,
            stamp: FileStamp {
                size: key.size,
                ..FileStamp::default()
            },
            origin: LogOrigin::File,
        };
        check_log_part(&first.expect("a part"), &found, 1 << 20, false).expect("its part");
    }

    #[test]
    fn a_file_that_is_missing_or_short_is_tried_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = key(folder.path(), "a.jsonl", b"{\"type\":\"user\"}\n");
        std::fs::write(&key.location, b"{").expect("a log");
        let error = map_key(&key, "node-7:50061").expect_err("too short").to_string();
        assert!(error.contains("node-7:50061") && error.contains("16 bytes"), "{error}");
        std::fs::remove_file(&key.location).expect("removed");
        let error = map_key(&key, "node-7:50061").expect_err("missing").to_string();
        assert!(error.contains("a.jsonl: No such file"), "{error}");
    }

    #[test]
    fn a_bad_log_is_a_part() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = key(folder.path(), "bad.jsonl", b"\x00\xff{{{not json\n\n[1]\n");
        let (kind, part, detail) = map_key(&key, "here").expect("mapped");
        assert_eq!((kind, detail), (RowKind::Part, None));
        assert!(part.is_some_and(|part| !part.is_empty()));
    }

    #[test]
    fn a_panic_is_told_in_a_row() {
        let panic = catch_unwind(|| panic!("index {} out of bounds", 7)).expect_err("panics");
        assert_eq!(panic_message(&*panic), "the executor panicked: index 7 out of bounds");
        let mut rows = ResultRows::default();
        rows.push(RowKind::Panicked, None, Some("why"));
        rows.push(RowKind::Part, Some(b"part"), None);
        let column = rows.finish().expect("an array");
        let first = read_result(&column, 0).expect("a row");
        assert_eq!(
            (first.kind, first.part, first.detail),
            (RowKind::Panicked, None, Some("why"))
        );
        let second = read_result(&column, 1).expect("a row");
        assert_eq!((second.kind, second.part), (RowKind::Part, Some(&b"part"[..])));
    }
}
