//! The table of a job: one row per log, several small logs or one big one per partition, and a partition is a task.

use anyhow::Result;
use backcast::run::parts::MapJob;
use datafusion::arrow::array::{BinaryArray, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::path::PathBuf;
use std::sync::Arc;
use transcript::discover::DiscoveredLog;

/// Small logs share a task up to this many bytes: below, a task costs more to hand out than to do.
const TASK_BYTES: u64 = 16 << 20;

/// Most logs in a task.
const TASK_LOGS: usize = 64;

/// Tasks in a job, for each core of the cluster, and at least. The results of a job arrive when all of it is done: a job must keep
/// all cores busy, and is what a lost scheduler costs.
const JOB_TASKS_PER_CORE: usize = 4;
const MIN_JOB_TASKS: usize = 16;

/// Returns how many tasks are in a job on a cluster of so many cores.
pub fn job_tasks(cores: usize) -> usize {
    cores.saturating_mul(JOB_TASKS_PER_CORE).max(MIN_JOB_TASKS)
}

/// Logs that are mapped together, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTask {
    /// Numbers of the logs, biggest first.
    pub logs: Vec<usize>,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// Shares out logs among tasks, biggest first: what starts last should not take long.
pub fn plan_tasks(all: &[DiscoveredLog], wanted: impl IntoIterator<Item = usize>) -> Vec<LogTask> {
    let mut numbers = wanted.into_iter().collect::<Vec<_>>();
    numbers.sort_by(|one, other| {
        let size = |number: usize| all[number].stamp.size;
        size(*other).cmp(&size(*one)).then(one.cmp(other))
    });
    let mut tasks = Vec::<LogTask>::new();
    for number in numbers {
        let size = all[number].stamp.size;
        let has_room =
            |task: &&mut LogTask| task.logs.len() < TASK_LOGS && task.bytes.saturating_add(size) <= TASK_BYTES;
        match tasks.last_mut().filter(has_room) {
            Some(task) => {
                task.logs.push(number);
                task.bytes += size;
            }
            None => tasks.push(LogTask {
                logs: vec![number],
                bytes: size,
            }),
        }
    }
    tasks
}

/// The columns of a table of keys.
pub fn key_schema() -> SchemaRef {
    let column = |name: &str, kind: DataType| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        column("number", DataType::UInt32),
        column("path", DataType::Binary),
        column("location", DataType::Binary),
        column("packing", DataType::UInt8),
        column("size", DataType::UInt64),
        column("etag", DataType::Utf8),
    ]))
}

/// Returns what tells one state of a log from another, in the words of an object store.
pub fn etag(found: &DiscoveredLog) -> String {
    let stamp = &found.stamp;
    format!("{:x}-{:x}", stamp.size, stamp.modified)
}

/// Returns the rows of a task. A path is the log's name in every output, as it was typed; its location is where executors find
/// it, whatever folder they run in.
pub fn key_rows(job: &MapJob<'_>, task: &LogTask) -> Result<RecordBatch> {
    let logs = || task.logs.iter().map(|number| &job.logs()[*number]);
    let numbers = task.logs.iter().map(|number| *number as u32);
    let paths = logs().map(|found| found.path.as_os_str().as_encoded_bytes());
    let locations = logs().map(|found| Ok(std::path::absolute(&found.path)?));
    let locations = locations.collect::<Result<Vec<PathBuf>>>()?;
    let locations = locations.iter().map(|path| path.as_os_str().as_encoded_bytes());
    Ok(RecordBatch::try_new(
        key_schema(),
        vec![
            Arc::new(UInt32Array::from_iter_values(numbers)),
            Arc::new(BinaryArray::from_iter_values(paths)),
            Arc::new(BinaryArray::from_iter_values(locations)),
            Arc::new(UInt8Array::from_iter_values(logs().map(|found| found.packing as u8))),
            Arc::new(UInt64Array::from_iter_values(logs().map(|found| found.stamp.size))),
            Arc::new(StringArray::from_iter_values(logs().map(etag))),
        ],
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use transcript::bytes::Compression;
    use transcript::discover::{FileStamp, LogOrigin};

    fn log(size: u64) -> DiscoveredLog {
        DiscoveredLog {
            path: format!("{size}.jsonl").into(),
            packing: Compression::Plain,
            stamp: FileStamp {
                size,
                ..FileStamp::default()
            },
            origin: LogOrigin::File,
        }
    }

    #[test]
    fn every_log_is_in_one_task_and_the_biggest_come_first() {
        let sizes = [5, 18 << 20, 6 << 20, 8 << 20, 0, 4 << 20, 100 << 20];
        let logs = sizes.map(log);
        let tasks = plan_tasks(&logs, 0..logs.len());
        let of = |numbers: &[usize]| LogTask {
            logs: numbers.to_vec(),
            bytes: numbers.iter().map(|number| sizes[*number]).sum(),
        };
        assert_eq!(tasks, [of(&[6]), of(&[1]), of(&[3, 2]), of(&[5, 0, 4])]);
    }

    #[test]
    fn a_task_has_a_bounded_number_of_logs() {
        let logs = (0..1000).map(|_| log(10)).collect::<Vec<_>>();
        let tasks = plan_tasks(&logs, 0..logs.len());
        assert_eq!(tasks.len(), 1000usize.div_ceil(TASK_LOGS));
        assert_eq!(plan_tasks(&logs, [7, 3])[0].logs, [3, 7]);
        assert!(plan_tasks(&logs, []).is_empty());
    }
}
