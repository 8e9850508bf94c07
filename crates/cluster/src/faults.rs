//! Harm on request, for tests: `BACKCAST_CLUSTER_FAULT` holds `KIND:TEXT`, and work on logs whose path contains the text is
//! harmed. `panic` panics, `io` fails the first two times in this process, `abort` ends the process.

use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

static FAULT: LazyLock<Option<(String, String)>> = LazyLock::new(|| {
    let fault = std::env::var("BACKCAST_CLUSTER_FAULT").ok()?;
    let (kind, text) = fault.split_once(':')?;
    Some((kind.to_owned(), text.to_owned()))
});

/// Storage faults so far.
static FAILED: AtomicU32 = AtomicU32::new(0);

fn is_due(kind: &str, path: &Path) -> bool {
    FAULT
        .as_ref()
        .is_some_and(|(due, text)| due == kind && path.to_string_lossy().contains(text))
}

/// Fails where storage would.
pub fn before_log(path: &Path) -> io::Result<()> {
    if is_due("io", path) {
        let count = FAILED.fetch_add(1, Ordering::Relaxed) + 1;
        if count <= 2 {
            let path = path.display();
            return Err(io::Error::other(format!("{path}: storage fault {count} on request")));
        }
    }
    Ok(())
}

/// Panics or ends the process where a defect would.
pub fn in_log(path: &Path) {
    if is_due("abort", path) {
        std::process::abort();
    }
    assert!(!is_due("panic", path), "on request");
}
