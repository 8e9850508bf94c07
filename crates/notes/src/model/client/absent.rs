//! Stands in for `http.rs` in a build without the `model` feature: a client that cannot be made.

use super::{Failure, Key, SetupError, Timeouts};
use crate::model::Watch;
use crate::model::stream::Answer;
use serde_json::Value;
use std::convert::Infallible;

/// Never constructed in this build.
#[derive(Debug)]
pub struct Client(Infallible);

/// Always an error: there is nothing to send with.
pub fn checked_base(_text: &str) -> Result<String, SetupError> {
    Err(SetupError::NoClient)
}

impl Client {
    /// Always an error.
    pub fn new(_base: &str, _key: Option<Key>, _timeouts: Timeouts) -> Result<Client, SetupError> {
        Err(SetupError::NoClient)
    }

    pub fn base(&self) -> &str {
        match self.0 {}
    }

    pub fn message(&self, _body: &Value, _max_text: usize, _watch: &Watch) -> Result<Answer, Failure> {
        match self.0 {}
    }

    pub fn json(&self, _path: &str, _body: Option<&Value>, _watch: &Watch) -> Result<Value, Failure> {
        match self.0 {}
    }

    pub fn lines(&self, _path: &str, _watch: &Watch, _each: impl FnMut(&[u8])) -> Result<(), Failure> {
        match self.0 {}
    }

    pub fn kept(&self, _answer: Answer) -> Answer {
        match self.0 {}
    }

    pub fn scrubbed(&self, _text: &str, _most: usize) -> String {
        match self.0 {}
    }
}
