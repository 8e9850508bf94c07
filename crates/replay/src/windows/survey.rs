//! Windows that sessions show, as evidence for other sessions of the same project with the same model.

use super::evidence::{ReachedContexts, ShownWindow};
use super::table::{model_name, names_million};
use super::{InferredWindow, WindowConfidence, WindowGrounds};
use std::collections::HashMap;
use std::sync::Arc;
use transcript::log::{NO_TIME, Time};

/// Returns the name under which sessions tell of a model. One that is called large says nothing about the usual one.
fn survey_key(model: &str) -> String {
    let name = model_name(model);
    if names_million(model) { name + "[1m]" } else { name }
}

/// What all sessions of a run show.
#[derive(Debug, Default)]
pub struct WindowSurvey {
    /// By project and model.
    seen: HashMap<(String, String), Vec<SurveyedWindow>>,
    /// Of agents other than Claude Code, by model: limits belong to the model, whatever the project.
    contexts: HashMap<String, ReachedContexts>,
}

/// The context at which an agent compacts under a model, as far as sessions show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownThreshold {
    /// Largest context that did not compact: the threshold is above it.
    pub above: u64,
    /// Smallest context that did: the threshold is not above this one.
    pub up_to: u64,
    /// Compactions that agree with both.
    pub compactions: usize,
}

#[derive(Debug)]
struct SurveyedWindow {
    session: String,
    time: Time,
    tokens: u64,
}

impl WindowSurvey {
    /// Adds what a session of a project shows.
    pub fn add(&mut self, project: &str, session: &str, shown: &[ShownWindow]) {
        for one in shown {
            let contexts = self.contexts.entry(one.model.clone()).or_default();
            contexts.reached.extend(&one.contexts.reached);
            contexts.passed = contexts.passed.max(one.contexts.passed);
            if let Some(tokens) = one.window.tokens.filter(|_| one.window.is_sure()) {
                let key = (project.to_owned(), survey_key(&one.model));
                self.seen.entry(key).or_default().push(SurveyedWindow {
                    session: session.to_owned(),
                    time: one.time,
                    tokens,
                });
            }
        }
    }
}

/// What the other chains and sessions of a project show.
#[derive(Debug, Clone, Default)]
pub struct ProjectWindows {
    survey: Arc<WindowSurvey>,
    project: String,
    session: String,
}

impl ProjectWindows {
    /// Returns what a survey has for a session of a project.
    pub fn new(survey: Arc<WindowSurvey>, project: &str, session: &str) -> ProjectWindows {
        ProjectWindows {
            survey,
            project: project.to_owned(),
            session: session.to_owned(),
        }
    }

    /// Returns where sessions of the run compacted under a model, this one included; `None` if they show no threshold. What
    /// compacted below a context that did not is no sign of a threshold: the provider refused the prompt.
    pub fn find_threshold(&self, model: &str) -> Option<ShownThreshold> {
        let contexts = self.survey.contexts.get(model)?;
        let agreeing = || {
            contexts
                .reached
                .iter()
                .copied()
                .filter(|reached| *reached > contexts.passed)
        };
        Some(ShownThreshold {
            above: contexts.passed,
            up_to: agreeing().min()?,
            compactions: agreeing().count(),
        })
    }

    /// Returns the window of a model that the session nearest in time shows; `None` if no other session shows one. A
    /// sub-agent runs in the process of its own session, whose main chain goes first.
    pub fn find(&self, model: &str, time: Time, is_sidechain: bool) -> Option<InferredWindow> {
        let seen = self.survey.seen.get(&(self.project.clone(), survey_key(model)))?;
        let distance = |one: &&SurveyedWindow| match (one.time, time) {
            (NO_TIME, _) | (_, NO_TIME) => u64::MAX,
            (one, time) => one.abs_diff(time),
        };
        let own = seen.iter().find(|one| is_sidechain && one.session == self.session);
        let others = seen.iter().filter(|one| one.session != self.session);
        let nearest = own.or_else(|| others.min_by_key(|one| (distance(one), one.session.clone())))?;
        Some(InferredWindow::new(
            nearest.tokens,
            WindowGrounds::Sessions,
            WindowConfidence::Likely,
        ))
    }
}
