//! Recorded summaries compared with those of a backend, by what the conversation needed afterwards.

use notes::conversation::Conversation;
use notes::coverage::{NEED_KINDS, NeedCoverage, NeededItems};
use notes::{SummaryRequest, SummaryVariant, TextBackend, size};

/// A recorded compaction: the recorded summary and one of the same size by a backend.
#[derive(Debug, Clone)]
pub struct SummaryComparison {
    /// Tokens of the recorded summary, which are the budget of the backend.
    pub budget: u64,
    /// Tokens of the summary by the backend.
    pub size: u64,
    /// By need: the coverage of the recorded summary and of the one by the backend.
    pub scores: [[NeedCoverage; 2]; 4],
    /// By need: what the summary by the backend misses.
    pub missed: [Vec<String>; 4],
}

/// Compares a backend with every recorded summary that is followed by more of the conversation.
pub fn compare_summaries(conversation: &Conversation, backend: &dyn TextBackend) -> Vec<SummaryComparison> {
    let messages = &conversation.messages;
    let summaries = (0..messages.len())
        .filter(|at| messages[*at].is_summary)
        .collect::<Vec<_>>();
    let mut compared = Vec::new();
    for (number, &at) in summaries.iter().enumerate() {
        let start = number.checked_sub(1).map_or(0, |before| summaries[before]);
        let end = summaries.get(number + 1).copied().unwrap_or(messages.len());
        let boundaries = conversation.boundaries.iter().map(|boundary| boundary.before);
        let stop = boundaries
            .filter(|before| (start + 1..=at).contains(before))
            .max()
            .unwrap_or(at);
        if stop == start || end == at + 1 {
            continue;
        }
        let recorded = messages[at].texts().collect::<Vec<_>>().join("\n");
        let budget = size::tokens(&recorded);
        let ask = SummaryRequest {
            material: conversation.to_material(start..stop),
            variant: SummaryVariant::Whole,
            instructions: "",
            budget,
            is_automatic: true,
        };
        let Ok(text) = backend.summary(&ask) else { continue };
        let needed = NeededItems::new(&messages[start..stop], &messages[at + 1..end]);
        let owned = |missing: Vec<&str>| missing.into_iter().map(str::to_owned).collect();
        compared.push(SummaryComparison {
            budget,
            size: size::tokens(&text),
            scores: NEED_KINDS.map(|need| [needed.coverage(need, &recorded), needed.coverage(need, &text)]),
            missed: NEED_KINDS.map(|need| owned(needed.missing(need, &[&text]))),
        });
    }
    compared
}

/// Returns the mean share over all needs, of the recorded summaries and of those by the backend; `None` if nothing was
/// needed.
pub fn mean_coverage<'c>(compared: impl IntoIterator<Item = &'c SummaryComparison>) -> Option<[f64; 2]> {
    let mut sums = [[NeedCoverage::default(); 2]; 4];
    for one in compared {
        for (sums, scores) in std::iter::zip(&mut sums, one.scores) {
            std::iter::zip(sums, scores).for_each(|(sum, score)| sum.add(score));
        }
    }
    let shares = sums
        .iter()
        .filter_map(|[recorded, other]| Some([recorded.share()?, other.share()?]));
    let shares = shares.collect::<Vec<_>>();
    let mean = |of: usize| shares.iter().map(|share| share[of]).sum::<f64>() / shares.len() as f64;
    (!shares.is_empty()).then(|| [mean(0), mean(1)])
}
