//! Roots in object stores: whether the network may be used, and what is found there.

use crate::run::progress::progress_with_template;
use anyhow::{Result, bail};
use remote::{ObjectStores, is_object_url};
use std::path::PathBuf;
use std::sync::OnceLock;
use transcript::discover::{Discovery, discover_among};

/// Set once the network is forbidden, for the whole process: paths are read from standard input long after the command line.
static OFFLINE: OnceLock<()> = OnceLock::new();

/// Forbids all network for the rest of the process.
pub fn forbid_network() {
    OFFLINE.get_or_init(|| ());
}

/// The error of a build without the feature for a path that needs it, or of a run that forbids the network.
pub fn check_roots(roots: &[PathBuf]) -> Result<()> {
    let Some(url) = roots.iter().find(|root| is_object_url(root)) else {
        return Ok(());
    };
    let url = match remote::ObjectUrl::parse(url) {
        Ok(url) => url.to_string(),
        Err(error) => bail!(error),
    };
    if OFFLINE.get().is_some() {
        bail!("--offline forbids all network, and {url} needs it\n  hint: leave one of them out");
    }
    if !remote::HAS_CLIENT {
        bail!("{url}: {}", remote::NO_CLIENT);
    }
    Ok(())
}

/// Searches roots on this machine and in object stores.
pub fn discover_all(roots: &[PathBuf], follow_links: bool, quiet: bool) -> Result<Discovery> {
    check_roots(roots)?;
    let (urls, paths) = roots.iter().cloned().partition::<Vec<_>, _>(|root| is_object_url(root));
    let mut found = discover_among(&paths, roots.len(), follow_links)?;
    if urls.is_empty() {
        return Ok(found);
    }
    let bar = progress_with_template(0, quiet, "{pos} objects listed, {elapsed}");
    let remote = ObjectStores::start()?.find(&urls, roots.len(), &|listed| bar.inc(listed));
    bar.finish_and_clear();
    let remote = remote?;
    found.logs.extend(remote.logs);
    found.problems.extend(remote.problems);
    found.sort();
    Ok(found)
}
