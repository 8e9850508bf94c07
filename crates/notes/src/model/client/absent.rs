//! Stands in for `http.rs` in a build without the `model` feature: a client that cannot be made.

use super::{ApiKey, RequestFailure, SetupError, Timeouts};
use crate::model::ModelObserver;
use crate::model::stream::ModelAnswer;
use serde_json::Value;
use std::convert::Infallible;

/// Never constructed in this build.
#[derive(Debug)]
pub struct Client(Infallible);

/// Always an error: there is nothing to send with.
pub fn parse_base_url(_text: &str) -> Result<String, SetupError> {
    Err(SetupError::NoClient)
}

impl Client {
    /// Always an error.
    pub fn new(_base: &str, _key: Option<ApiKey>, _timeouts: Timeouts) -> Result<Client, SetupError> {
        Err(SetupError::NoClient)
    }

    pub fn base(&self) -> &str {
        match self.0 {}
    }

    pub fn message(
        &self,
        _body: &Value,
        _max_text: usize,
        _watch: &ModelObserver,
    ) -> Result<ModelAnswer, RequestFailure> {
        match self.0 {}
    }

    pub fn json(&self, _path: &str, _body: Option<&Value>, _watch: &ModelObserver) -> Result<Value, RequestFailure> {
        match self.0 {}
    }

    pub fn lines(&self, _path: &str, _watch: &ModelObserver, _each: impl FnMut(&[u8])) -> Result<(), RequestFailure> {
        match self.0 {}
    }

    pub fn kept(&self, _answer: ModelAnswer) -> ModelAnswer {
        match self.0 {}
    }

    pub fn scrubbed(&self, _text: &str, _most: usize) -> String {
        match self.0 {}
    }
}
