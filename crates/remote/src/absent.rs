//! Stands in for `client` in a build without the feature: stores that cannot be made.

use crate::{ListedObject, ObjectUrl, RemoteError};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use transcript::bytes::SourceFault;
use transcript::discover::Discovery;

/// Never made in this build.
#[derive(Debug)]
pub struct ObjectStores(Infallible);

/// Never made in this build.
#[derive(Debug)]
pub struct Bucket(Infallible);

impl ObjectStores {
    /// Always an error.
    pub fn start() -> Result<ObjectStores, RemoteError> {
        Err(RemoteError::NoClient)
    }

    pub fn bucket(&self, _url: &ObjectUrl) -> Result<Arc<Bucket>, RemoteError> {
        match self.0 {}
    }

    pub fn find(&self, _roots: &[PathBuf], _named: usize, _progress: &dyn Fn(u64)) -> Result<Discovery, RemoteError> {
        match self.0 {}
    }
}

impl Bucket {
    pub fn look_up(&self, _key: &str) -> Result<Option<ListedObject>, SourceFault> {
        match self.0 {}
    }

    pub fn read_small(&self, _key: &str, _most: u64) -> Result<Option<Vec<u8>>, SourceFault> {
        match self.0 {}
    }

    pub fn write(&self, _key: &str, _body: Vec<u8>) -> Result<(), SourceFault> {
        match self.0 {}
    }
}
