//! Buckets and requests. Requests run on threads of their own; who asks waits, or asks for several things at once.

mod fault;
mod find;
mod names;
mod reader;

use crate::{ListedObject, ObjectUrl, RemoteError, Scheme};
use fault::fault_of;
use futures_util::TryStreamExt;
use names::NameFilter;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use transcript::bytes::SourceFault;

/// Threads that requests run on. They decrypt and copy; all else of a request is waiting.
const REQUEST_THREADS: usize = 2;

/// How often a piece is asked for again that came to an end too early without an error.
const SHORT_RETRIES: usize = 3;

/// How often and how long a request is tried again.
fn retry_config() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(4),
            base: 2.,
        },
        max_retries: 6,
        retry_timeout: Duration::from_secs(90),
    }
}

/// The buckets of a run.
#[derive(Debug)]
pub struct ObjectStores {
    runtime: Arc<Runtime>,
    buckets: Mutex<HashMap<(Scheme, String), Arc<Bucket>>>,
}

/// A bucket. Its methods wait, and may be called on any thread that requests do not run on.
#[derive(Debug)]
pub struct Bucket {
    runtime: Arc<Runtime>,
    store: Arc<dyn ObjectStore>,
    names: NameFilter,
}

impl ObjectStores {
    /// Starts the threads.
    pub fn start() -> Result<ObjectStores, RemoteError> {
        // A failure means that one was set already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(REQUEST_THREADS)
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| RemoteError::Setup {
            url: "object stores".to_owned(),
            reason: error.to_string(),
            variables: "none",
        })?;
        Ok(ObjectStores {
            runtime: Arc::new(runtime),
            buckets: Mutex::default(),
        })
    }

    /// Returns the bucket of a URL. Nothing is sent yet.
    pub fn bucket(&self, url: &ObjectUrl) -> Result<Arc<Bucket>, RemoteError> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (url.scheme, url.bucket.clone());
        if let Some(bucket) = buckets.get(&name) {
            return Ok(Arc::clone(bucket));
        }
        let names = NameFilter::default();
        let store = open_store(url, &names).map_err(|error| RemoteError::Setup {
            url: url.to_string(),
            reason: fault::text_of(&error),
            variables: url.scheme.variables(),
        })?;
        let bucket = Arc::new(Bucket {
            runtime: Arc::clone(&self.runtime),
            store,
            names,
        });
        buckets.insert(name, Arc::clone(&bucket));
        Ok(bucket)
    }
}

/// Sets a client up from the environment.
fn open_store(url: &ObjectUrl, names: &NameFilter) -> object_store::Result<Arc<dyn ObjectStore>> {
    let (bucket, names) = (url.bucket.as_str(), names.clone());
    Ok(match url.scheme {
        Scheme::S3 => Arc::new(
            AmazonS3Builder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry_config())
                .with_http_connector(names)
                .build()?,
        ),
        Scheme::Gcs => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_retry(retry_config())
                .with_http_connector(names)
                .build()?,
        ),
        Scheme::Azure => Arc::new(
            MicrosoftAzureBuilder::from_env()
                .with_container_name(bucket)
                .with_retry(retry_config())
                .with_http_connector(names)
                .build()?,
        ),
    })
}

fn path_of(key: &str) -> Result<ObjectPath, SourceFault> {
    ObjectPath::parse(key).map_err(|error| SourceFault::Refused(fault::text_of(&error)))
}

/// Returns an entity tag without quotes: listings of Azure have none, answers have some.
fn plain_tag(tag: Option<&str>) -> Option<String> {
    let tag = tag?.trim();
    let tag = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
    (!tag.is_empty()).then(|| tag.to_owned())
}

fn quoted_tag(tag: &str) -> String {
    format!("\"{tag}\"")
}

impl From<ObjectMeta> for ListedObject {
    fn from(meta: ObjectMeta) -> ListedObject {
        ListedObject {
            tag: plain_tag(meta.e_tag.as_deref()),
            size: meta.size,
            modified: meta.last_modified.timestamp_nanos_opt().map_or(0, i128::from),
            key: String::from(meta.location),
        }
    }
}

impl Bucket {
    /// Lists everything below a prefix and hands it on page by page, in no certain order. Returns the names that were left out
    /// because they cannot be asked for.
    fn list(&self, prefix: &str, take: &mut dyn FnMut(ListedObject)) -> Result<Vec<String>, SourceFault> {
        let prefix = path_of(prefix)?;
        let listing = async {
            let mut listed = self.store.list(Some(&prefix));
            while let Some(meta) = listed.try_next().await? {
                take(meta.into());
            }
            Ok(())
        };
        self.runtime
            .block_on(listing)
            .map_err(|error: Error| fault_of(&error))?;
        Ok(self.names.take_left_out())
    }

    /// Returns an object; `None` if there is none of that name.
    pub fn look_up(&self, key: &str) -> Result<Option<ListedObject>, SourceFault> {
        let path = path_of(key)?;
        match self.runtime.block_on(self.store.head(&path)) {
            Ok(meta) => Ok(Some(meta.into())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(fault_of(&error)),
        }
    }

    /// Reads an object of at most `most` bytes; `None` if there is none of that name, or it is bigger or does not come whole.
    pub fn read_small(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>, SourceFault> {
        let path = path_of(key)?;
        let reading = async {
            let got = self.store.get(&path).await?;
            if got.meta.size > most {
                return Ok(None);
            }
            let size = got.meta.size;
            let body = got.bytes().await?;
            Ok((body.len() as u64 == size).then(|| body.to_vec()))
        };
        match self.runtime.block_on(reading) {
            Ok(found) => Ok(found),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(fault_of(&error)),
        }
    }

    /// Writes an object, and replaces the one that is there.
    pub fn write(&self, key: &str, body: Vec<u8>) -> Result<(), SourceFault> {
        let path = path_of(key)?;
        let writing = self.store.put(&path, PutPayload::from(body));
        self.runtime.block_on(writing).map_err(|error| fault_of(&error))?;
        Ok(())
    }
}

/// Reads a stretch of an object as it was listed, whole or not at all.
async fn read_range(store: &dyn ObjectStore, object: &ListedObject, range: Range<u64>) -> Result<Vec<u8>, SourceFault> {
    let wanted = usize::try_from(range.end - range.start).map_err(|error| SourceFault::Refused(error.to_string()))?;
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let path = path_of(&object.key)?;
    let mut fault = None;
    for _ in 0..=SHORT_RETRIES {
        match read_once(store, object, &path, range.clone(), wanted).await {
            Ok(bytes) if bytes.len() == wanted => return Ok(bytes),
            Ok(bytes) => {
                let text = format!("{} of {wanted} bytes came", bytes.len());
                fault = Some(SourceFault::Undelivered(text));
            }
            Err(fault) => return Err(fault),
        }
    }
    Err(fault.unwrap_or(SourceFault::Changed))
}

async fn read_once(
    store: &dyn ObjectStore,
    object: &ListedObject,
    path: &ObjectPath,
    range: Range<u64>,
    wanted: usize,
) -> Result<Vec<u8>, SourceFault> {
    let options = GetOptions {
        range: Some(GetRange::Bounded(range)),
        if_match: object.tag.as_deref().map(quoted_tag),
        ..GetOptions::default()
    };
    let got = store.get_opts(path, options).await.map_err(|error| fault_of(&error))?;
    // Not every server heeds the condition, so the answer is looked at, too.
    let tag = plain_tag(got.meta.e_tag.as_deref());
    if got.meta.size != object.size || (tag.is_some() && object.tag.is_some() && tag != object.tag) {
        return Err(SourceFault::Changed);
    }
    let mut pieces = got.into_stream();
    let mut bytes = Vec::with_capacity(wanted);
    while let Some(piece) = pieces.try_next().await.map_err(|error| fault_of(&error))? {
        if bytes.len() + piece.len() > wanted {
            return Err(SourceFault::Undelivered(
                "more bytes came than were asked for".to_owned(),
            ));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_without_quotes() {
        for tag in ["\"abc\"", "abc", "W/\"abc\"", " \"abc\" "] {
            assert_eq!(plain_tag(Some(tag)).as_deref(), Some("abc"), "{tag}");
        }
        assert_eq!(plain_tag(Some("\"\"")), None);
        assert_eq!(plain_tag(None), None);
    }
}
