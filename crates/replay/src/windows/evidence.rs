//! What a chain or session itself shows about its windows, model by model and independent of policies.
//!
//! A window belongs to the client process, so calls copied from another session say nothing about it.

use super::{InferredWindow, MARGIN, ModelFacts, WINDOW_SIZES, WindowConfidence, WindowGrounds, threshold};
use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::sim::trace::{BoundaryTrigger, Trace};
use crate::windows::{ProjectWindows, call_of_boundary};
use std::collections::HashSet;
use transcript::agents::Agent;
use transcript::log::{RecordKind, Time, WindowMark};
use transcript::thread::Session;

/// What is known about the windows of a chain, by model.
#[derive(Debug, Clone, Default)]
pub struct WindowEvidence {
    models: Vec<ModelEvidence>,
    /// Calls at which something was seen that may change the answer, in order.
    events: Vec<usize>,
}

/// What is known about the window of one model.
#[derive(Debug, Clone, Default)]
struct ModelEvidence {
    /// Largest prompt.
    sent: u64,
    /// Recorded automatic compactions: the call that follows, and the tokens before.
    reached: Vec<(usize, u64)>,
    /// Calls and their contexts.
    contexts: Vec<(usize, u64)>,
    /// Texts that name a size, and the call that each belongs to.
    marks: Vec<(usize, WindowMark)>,
    /// The fewest tokens at which a compaction was recorded.
    smallest: Option<u64>,
    /// The largest context between two recorded compactions: one before each of them, and one behind the last.
    between: Vec<u64>,
}

impl WindowEvidence {
    /// Collects the evidence of a trace.
    pub fn gather(trace: &Trace) -> WindowEvidence {
        let mut evidence = WindowEvidence::default();
        let model = |call: usize| usize::from(trace.calls[call].model);
        for (at, call) in trace.calls.iter().enumerate() {
            if let Some(usage) = call.usage.filter(|_| !call.is_copied) {
                let input = usage.input_side();
                evidence.add_call(
                    at,
                    usize::from(call.model),
                    input,
                    input + u64::from(call.output.tokens),
                );
            }
        }
        for boundary in &trace.recorded {
            let is_auto = !boundary.is_micro && boundary.trigger == BoundaryTrigger::Auto;
            if let Some(tokens) = boundary
                .pre_tokens
                .filter(|_| is_auto && !boundary.is_copied && !trace.calls.is_empty())
            {
                let decided = model(call_of_boundary(trace, boundary.call));
                let before = model((boundary.call as usize).saturating_sub(1));
                evidence.add_boundary(boundary.call as usize, decided, before, tokens);
            }
        }
        for &(call, mark) in &trace.window_marks {
            evidence.add_mark(call as usize, model(call as usize), mark);
        }
        evidence.finish()
    }

    fn of_model(&mut self, model: usize) -> &mut ModelEvidence {
        if self.models.len() <= model {
            self.models.resize_with(model + 1, ModelEvidence::default);
        }
        &mut self.models[model]
    }

    fn add_call(&mut self, at: usize, model: usize, input: u64, context: u64) {
        let known = self.of_model(model);
        known.sent = known.sent.max(input);
        known.contexts.push((at, context));
    }

    /// Adds an automatic compaction. If the model was switched there, it may have happened under either of the two windows
    /// and shows neither.
    fn add_boundary(&mut self, call: usize, model: usize, before: usize, tokens: u64) {
        self.events.push(call);
        if model == before {
            self.of_model(model).reached.push((call, tokens));
        }
    }

    fn add_mark(&mut self, call: usize, model: usize, mark: WindowMark) {
        self.events.push(call);
        self.of_model(model).marks.push((call, mark));
    }

    fn finish(mut self) -> WindowEvidence {
        self.events.sort_unstable();
        for model in &mut self.models {
            model.finish();
        }
        self
    }

    /// Returns the number of events up to a call.
    pub(super) fn events_until(&self, at: usize) -> usize {
        self.events.partition_point(|event| *event <= at)
    }

    /// Infers the window of a call from the session alone; `None` if it shows nothing.
    pub(super) fn shown(
        &self,
        at: usize,
        model: usize,
        policy: &Policy,
        known: &ModelFacts<'_>,
    ) -> Option<InferredWindow> {
        let seen = self.models.get(model)?;
        let certain = |tokens, grounds| InferredWindow::new(tokens, grounds, WindowConfidence::Certain);
        let sizes = known.sizes();
        let client = |window: u64| threshold(known.client(), known.name, window);
        let wanted = |window: u64| threshold(policy, known.name, window);
        let by_boundary = seen
            .size_from_boundaries(at, &sizes, &client)
            .or_else(|| seen.size_from_boundaries(at, &sizes, &wanted));
        if let Some(tokens) = by_boundary {
            return Some(certain(tokens, WindowGrounds::Boundary));
        }
        if !known.is_claude {
            // Of another vendor's model the prompt is only a lower bound.
            let is_too_small = match known.tabled().tokens {
                Some(tokens) => tokens < seen.sent,
                None => seen.sent > WINDOW_SIZES[0],
            };
            if is_too_small {
                let fitting = sizes.iter().copied().find(|size| *size >= seen.sent)?;
                return Some(InferredWindow::new(
                    fitting,
                    WindowGrounds::Usage,
                    WindowConfidence::Weak,
                ));
            }
        } else if seen.sent > WINDOW_SIZES[0] {
            // Only users set sizes in between, and then a boundary shows them.
            let tokens = known.largest.filter(|largest| *largest >= seen.sent);
            return Some(certain(tokens.unwrap_or(WINDOW_SIZES[3]), WindowGrounds::Usage));
        }
        seen.by_text(at)
    }
}

impl ModelEvidence {
    /// Sorts what was seen by call, and finds what is asked for at every call: a session may have very many boundaries.
    fn finish(&mut self) {
        self.reached.sort_by_key(|(call, _)| *call);
        self.marks.sort_by_key(|(call, _)| *call);
        self.smallest = self.reached.iter().map(|(_, tokens)| *tokens).min();
        // Contexts only tell where a boundary was not. The last call before a boundary may have passed the threshold: that is
        // why the boundary is there.
        self.between = vec![0; self.reached.len() + 1];
        for &(call, context) in &self.contexts {
            let before = self.boundaries_until(call);
            let next = self.reached.get(before).map_or(usize::MAX, |(next, _)| *next);
            if call + 1 < next {
                self.between[before] = self.between[before].max(context);
            }
        }
        self.contexts = Vec::new();
    }

    /// Returns the number of recorded compactions up to a call.
    fn boundaries_until(&self, at: usize) -> usize {
        self.reached.partition_point(|(call, _)| *call <= at)
    }

    /// Returns the contexts with and without a compaction after them.
    fn reached_contexts(&self) -> ReachedContexts {
        let compacted = self.reached.iter().map(|(next, _)| *next).collect::<HashSet<_>>();
        let is_compacted = |call: usize| compacted.contains(&(call + 1));
        let passed = self.contexts.iter().filter(|(call, _)| !is_compacted(*call));
        ReachedContexts {
            reached: self.reached.iter().map(|(_, tokens)| *tokens).collect(),
            passed: passed.map(|(_, context)| *context).max().unwrap_or(0),
        }
    }

    /// Returns the largest size whose threshold every recorded boundary had reached. `None` without boundaries, or if a call
    /// between the boundaries around `at` passed that threshold without compacting: then the window changed in between.
    fn size_from_boundaries(&self, at: usize, sizes: &[u64], threshold: &impl Fn(u64) -> u64) -> Option<u64> {
        let smallest = self.smallest?;
        let size = sizes
            .iter()
            .copied()
            .rev()
            .find(|size| threshold(*size) <= smallest + MARGIN)?;
        let largest = self.between[self.boundaries_until(at)];
        let is_passed = largest >= threshold(size) + MARGIN;
        (!is_passed).then_some(size)
    }

    /// Returns the window of a call that a text names.
    fn by_text(&self, at: usize) -> Option<InferredWindow> {
        let large = InferredWindow::new(WINDOW_SIZES[3], WindowGrounds::Text, WindowConfidence::Certain);
        (self.mark_at(at) == Some(true)).then_some(large)
    }

    /// Returns whether a text says that the window at a call had a million tokens; `None` if no text does. An answer of
    /// `/model` holds until the next one, a commit trailer also for the calls before it.
    fn mark_at(&self, at: usize) -> Option<bool> {
        let (before, after) = self.marks.split_at(self.marks.partition_point(|(call, _)| *call <= at));
        match (before.last(), after.first()) {
            (Some((_, mark)), _) => Some(*mark != WindowMark::OtherModel),
            (None, Some((_, WindowMark::Trailer))) => Some(true),
            (None, _) => None,
        }
    }
}

/// The window that a session shows for one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownWindow {
    pub model: String,
    pub version: ClientVersion,
    /// Time of the model's last call.
    pub time: Time,
    pub window: InferredWindow,
    /// The window by texts alone.
    by_text: Option<InferredWindow>,
    /// Contexts of another agent than Claude Code: for models whose limits are in no table.
    pub contexts: ReachedContexts,
}

/// Where sessions compacted on their own, and where they did not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReachedContexts {
    /// Contexts at automatic compactions.
    pub reached: Vec<u64>,
    /// Largest context without one.
    pub passed: u64,
}

impl ShownWindow {
    /// Returns the window that would be inferred without recorded boundaries and usage: what the inference is worth where
    /// a session shows nothing. `None` if the session shows nothing that the answer could be held against.
    pub fn predict_hidden(&self, siblings: &ProjectWindows, largest: Option<u64>) -> Option<InferredWindow> {
        let is_shown = matches!(self.window.grounds, WindowGrounds::Boundary | WindowGrounds::Usage);
        let predicted = self.by_text.or_else(|| siblings.find(&self.model, self.time, false));
        let tabled = || ModelFacts::new(&self.model, self.version, largest).tabled();
        is_shown.then(|| predicted.unwrap_or_else(tabled))
    }
}

/// Returns the windows that the main chain of a session shows, by model. Reads the records in the order of the log without
/// threading them: rewound calls say as much about the window as others.
pub fn shown_windows(session: &Session<'_>, largest: &dyn Fn(&str) -> Option<u64>) -> Vec<ShownWindow> {
    let mut evidence = WindowEvidence::default();
    let mut models = Vec::<ShownWindow>::new();
    let mut calls = 0;
    let mut last = None;
    let mut boundaries = Vec::new();
    let mut marks = session.window_marks().peekable();
    let mut pending = Vec::new();
    for node in session.own_nodes() {
        let is_main = !session.is_sidechain(node) && !session.is_copied(node);
        while let Some((_, mark)) = marks.next_if(|(marked, _)| *marked <= node) {
            match (mark, last) {
                (WindowMark::Trailer, Some((model, _))) => evidence.add_mark(calls, model, mark),
                _ => pending.push(mark),
            }
        }
        if !is_main {
            continue;
        }
        if session.kind(node) == RecordKind::Boundary {
            let tokens = session
                .boundary(node)
                .filter(|found| found.is_auto)
                .and_then(|found| found.pre_tokens);
            boundaries.extend(tokens.zip(last).map(|(tokens, (model, _))| (calls, model, tokens)));
            continue;
        }
        let Some(line) = session
            .api_response(node)
            .filter(|line| line.context().input_side() > 0)
        else {
            continue;
        };
        let log = session.log(node);
        let record = session.record(node);
        let name = log.string(line.model);
        let model = models.iter().position(|known| known.model == name).unwrap_or_else(|| {
            models.push(ShownWindow {
                model: name.to_owned(),
                version: ClientVersion::default(),
                time: record.time,
                window: InferredWindow::UNKNOWN,
                by_text: None,
                contexts: ReachedContexts::default(),
            });
            models.len() - 1
        });
        // The lines of a response are one call.
        if last != Some((model, line.call_key())) || line.call_key() == 0 {
            calls += 1;
            last = Some((model, line.call_key()));
            let version = ClientVersion::parse(log.string(log.scope_of(record).version));
            (models[model].version, models[model].time) = (version.unwrap_or_default(), record.time);
        }
        for mark in pending.drain(..) {
            evidence.add_mark(calls, model, mark);
        }
        for (call, before, tokens) in boundaries.drain(..) {
            evidence.add_boundary(call + 1, model, before, tokens);
        }
        let context = line.context();
        evidence.add_call(calls, model, context.input_side(), context.total());
    }
    for (call, before, tokens) in boundaries {
        evidence.add_boundary(call + 1, before, before, tokens);
    }
    let is_foreign = session.coding_agent() != Agent::Claude;
    for (number, model) in models.iter_mut().enumerate().filter(|_| is_foreign) {
        model.contexts = evidence
            .models
            .get(number)
            .map(ModelEvidence::reached_contexts)
            .unwrap_or_default();
    }
    let evidence = evidence.finish();
    for (number, model) in models.iter_mut().enumerate() {
        let known = ModelFacts::new(&model.model, model.version, largest(&model.model));
        let shown = evidence.shown(calls, number, known.client(), &known);
        model.window = shown.unwrap_or(InferredWindow::UNKNOWN);
        model.by_text = evidence.models.get(number).and_then(|seen| seen.by_text(calls));
    }
    models.retain(|model| model.window.tokens.is_some() || is_foreign);
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_context_between_boundaries_is_the_one_that_a_search_finds() {
        let reached = [(3, 10), (3, 9), (7, 12)];
        let contexts = [(0, 5), (1, 9), (2, 30), (3, 4), (5, 8), (6, 40), (7, 1), (9, 2)];
        let mut evidence = ModelEvidence {
            reached: reached.to_vec(),
            contexts: contexts.to_vec(),
            ..ModelEvidence::default()
        };
        evidence.finish();
        assert_eq!(evidence.smallest, Some(9));
        for at in 0..12 {
            let calls = || reached.iter().map(|(call, _)| *call);
            let next = calls().find(|call| *call > at).unwrap_or(usize::MAX);
            let start = calls().rev().find(|call| *call <= at).unwrap_or(0);
            let inside = contexts.iter().filter(|(call, _)| *call >= start && call + 1 < next);
            let largest = inside.map(|(_, context)| *context).max().unwrap_or(0);
            assert_eq!(evidence.between[evidence.boundaries_until(at)], largest, "at {at}");
        }
    }
}
