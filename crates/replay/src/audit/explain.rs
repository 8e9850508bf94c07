//! Explains the verdict on a boundary step by step, so that a person can check it against the log with a calculator.

use crate::audit::validate::{CaseVerdict, Mechanism, ValidationCase};
use crate::policy::Policy;
use crate::policy::value::{OutputCount, ReserveRule, TrailEstimate};
use crate::sim::event::ContextCount;
use crate::sim::limits::{ModelLimits, WindowLimits};
use crate::sim::micro::{estimate, is_in_trail};
use crate::sim::trace::{Call, Trace};
use crate::windows::call_of_boundary;
use std::fmt::Write;
use transcript::thread::Session;

/// Returns an explanation of the cases of a chain; empty if it has no calls.
pub fn explain(session: &Session<'_>, trace: &Trace, policies: &[&Policy], cases: &[ValidationCase]) -> String {
    let mut text = String::new();
    if trace.calls.is_empty() {
        return text;
    }
    let whose = match (trace.is_sidechain, trace.agent.as_str()) {
        (false, _) => "main chain".to_owned(),
        (true, agent) => format!("sub-agent {agent}"),
    };
    let _ = writeln!(
        text,
        "Session {}, {whose}: {} calls, {} cases",
        session.id,
        trace.calls.len(),
        cases.len()
    );
    for (number, case) in cases.iter().enumerate() {
        let explainer = CaseExplainer {
            session,
            trace,
            policy: policies[usize::from(trace.calls[(case.call as usize).min(trace.calls.len() - 1)].version)],
            case,
        };
        let _ = writeln!(text, "\n{}. {}", number + 1, explainer.heading());
        match case.mechanism {
            Mechanism::Micro | Mechanism::Images => explainer.write_micro(&mut text),
            Mechanism::Auto | Mechanism::Manual => explainer.write_compaction(&mut text),
        }
    }
    text
}

struct CaseExplainer<'a> {
    session: &'a Session<'a>,
    trace: &'a Trace,
    policy: &'a Policy,
    case: &'a ValidationCase,
}

impl CaseExplainer<'_> {
    fn heading(&self) -> String {
        let record = self.session.record(self.case.node);
        format!(
            "{} before call {}: {} ({}, line {}, version {})",
            self.case.mechanism.name(),
            self.case.call,
            self.case.verdict.name(),
            self.session.part(self.case.node).path,
            record.line,
            self.case.version
        )
    }

    fn line_of(&self, call: &Call) -> u32 {
        self.session.record(call.node).line
    }

    fn write_compaction(&self, text: &mut String) {
        let case = self.case;
        if let Some(reason) = case.reason {
            let _ = writeln!(text, "   Not to be judged: {}.", reason.about());
        }
        match case.count {
            Some(count) => self.write_count(text, &count),
            None => {
                let _ = writeln!(
                    text,
                    "   No call before it tells what was sent, so nothing can be counted."
                );
            }
        }
        self.write_threshold(text);
        if let Some(recorded) = case.recorded {
            let _ = write!(text, "   The client wrote down {recorded} tokens before");
            let _ = match case.error() {
                Some(0) => writeln!(text, ": the same."),
                Some(error) => writeln!(text, ": {error:+} off."),
                None => writeln!(text, "."),
            };
        }
        if case.verdict == CaseVerdict::Early {
            let _ = writeln!(text, "   The policy was due {} calls earlier.", -case.distance);
        }
        if case.verdict == CaseVerdict::Late {
            let _ = writeln!(text, "   The policy would have been due {} calls later.", case.distance);
        }
    }

    fn write_count(&self, text: &mut String, count: &ContextCount) {
        let anchor = &self.trace.calls[count.anchor as usize];
        let usage = anchor.usage.unwrap_or_default();
        let _ = writeln!(
            text,
            "   Last response: call {} (line {}), sent {} = {} new + {} written + {} read.",
            count.anchor,
            self.line_of(anchor),
            count.input,
            usage.input,
            usage.cache_write,
            usage.cache_read
        );
        let how = match self.policy.output {
            OutputCount::Recorded => "as its lines have it",
            OutputCount::Final if count.output == usage.output => "as recorded in the end",
            OutputCount::Final => "estimated: the log has a streaming partial",
        };
        let _ = writeln!(text, "   Its output counts {} ({how}).", count.output);
        match self.policy.trail {
            TrailEstimate::None => {
                let _ = writeln!(text, "   This version estimates nothing that came after it.");
            }
            TrailEstimate::User | TrailEstimate::Text | TrailEstimate::All => self.write_trail(text, count, anchor),
        }
        if matches!(self.policy.trail, TrailEstimate::Text | TrailEstimate::All) {
            let _ = writeln!(
                text,
                "   Later lines of that response: {} estimated.",
                count.later_lines
            );
        }
        let _ = writeln!(
            text,
            "   Context: {} + {} + {} = {}.",
            count.input,
            count.output,
            count.trail + count.later_lines,
            count.context
        );
        if count.padded_context != count.context {
            let _ = writeln!(
                text,
                "   Weighed with the estimates times {:.3}: {}.",
                self.policy.padding, count.padded_context
            );
        }
    }

    /// Writes the items that the client estimates, one per line.
    fn write_trail(&self, text: &mut String, count: &ContextCount, anchor: &Call) {
        let end = self
            .trace
            .recorded
            .iter()
            .find(|boundary| boundary.node == self.case.node)
            .map(|boundary| boundary.item);
        let call_inputs = self
            .trace
            .calls
            .get(self.case.call as usize)
            .map_or(self.trace.tail.end, |call| call.inputs.end);
        let items = anchor.response.end..end.unwrap_or(call_inputs);
        let _ = writeln!(text, "   After it came, each text at a quarter of its length, rounded:");
        for item in self
            .trace
            .items(&items)
            .iter()
            .filter(|item| is_in_trail(self.policy, item))
        {
            let tool = &self.trace.tools[usize::from(item.tool)];
            let name = if tool.is_empty() {
                String::new()
            } else {
                format!(" of {tool}")
            };
            let _ = writeln!(
                text,
                "     {:>8}  {}{name}",
                estimate(self.policy, item),
                item.category.name().replace('_', " ")
            );
        }
        let _ = writeln!(text, "     {:>8}  together", count.trail);
    }

    fn write_threshold(&self, text: &mut String) {
        let window = self.case.window;
        let Some(tokens) = window.tokens else {
            let _ = writeln!(
                text,
                "   The window is unknown, so no threshold applies (--window sets it)."
            );
            return;
        };
        let model = self
            .trace
            .model(&self.trace.calls[call_of_boundary(self.trace, self.case.call)]);
        let limits = WindowLimits::new(self.policy, model, tokens, ModelLimits::default());
        let rule = match self.policy.reserve_rule {
            ReserveRule::Limit => "the output limit",
            _ => "the summary",
        };
        let _ = writeln!(
            text,
            "   Window {tokens} (by {}, {}); {} kept for {rule}, {} below that: threshold {}.",
            window.grounds.name(),
            window.confidence.name(),
            tokens.saturating_sub(limits.effective),
            limits.effective.saturating_sub(limits.threshold),
            self.case.threshold
        );
    }

    fn write_micro(&self, text: &mut String) {
        let case = self.case;
        if let Some(reason) = case.reason {
            let _ = writeln!(text, "   Not to be judged: {}.", reason.about());
        }
        let sum = |tokens: Option<u64>| tokens.map_or("not told".to_owned(), |tokens| tokens.to_string());
        let _ = writeln!(
            text,
            "   Results that could go: {} by the client's own count, {} counted here.",
            sum(case.recorded),
            sum(case.predicted)
        );
        let (recorded, predicted) = &case.cleared;
        let same = std::iter::zip(recorded, predicted).take_while(|(a, b)| a == b).count();
        let _ = writeln!(
            text,
            "   Cleared: {} recorded, {} predicted, the first {same} alike.",
            recorded.len(),
            predicted.len()
        );
        for &item in predicted {
            let found = &self.trace.items[item as usize];
            let _ = writeln!(
                text,
                "     {:>8}  result of {}",
                found.quarters,
                self.trace.tools[usize::from(found.tool)]
            );
        }
    }
}
