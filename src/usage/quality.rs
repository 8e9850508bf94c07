//! How good the sizes are: the next round predicted from the one before, against what the log says.

use crate::usage::session::SessionReport;
use replay::quantile::quantile;
use replay::tokens::calibrate::UnfitReason;
use replay::tokens::ratios::RatioTable;
use std::collections::BTreeMap;

/// Errors of one family of models.
#[derive(Debug, Clone, Default)]
pub struct QualityRow {
    /// The family, or `all`.
    pub family: String,
    errors: Vec<(f64, f64, f64)>,
}

impl QualityRow {
    fn sorted(&self, value: impl Fn(&(f64, f64, f64)) -> f64) -> Vec<f64> {
        let mut values = self.errors.iter().map(value).collect::<Vec<_>>();
        values.sort_by(f64::total_cmp);
        values
    }

    /// Rounds that were predicted.
    pub fn rounds(&self) -> usize {
        self.errors.len()
    }

    /// Median of the absolute error in tokens.
    pub fn median(&self) -> Option<f64> {
        quantile(&self.sorted(|(error, _, _)| error.abs()), 0.5)
    }

    /// 95th percentile of the absolute error relative to the window.
    pub fn p95(&self) -> Option<f64> {
        quantile(&self.sorted(|(error, _, actual)| error.abs() / actual.max(1.0)), 0.95)
    }

    /// Mean of the signed error in tokens.
    pub fn bias(&self) -> Option<f64> {
        (!self.errors.is_empty())
            .then(|| self.sorted(|(error, _, _)| *error).iter().sum::<f64>() / self.errors.len() as f64)
    }

    /// The median with characters / 4.
    pub fn naive_median(&self) -> Option<f64> {
        quantile(&self.sorted(|(_, naive, _)| naive.abs()), 0.5)
    }

    /// The 95th percentile with characters / 4.
    pub fn naive_p95(&self) -> Option<f64> {
        quantile(&self.sorted(|(_, naive, actual)| naive.abs() / actual.max(1.0)), 0.95)
    }
}

/// Quality by family, all together first, and why the other rounds could not be predicted.
#[derive(Debug, Default)]
pub struct Quality {
    /// Rows.
    pub rows: Vec<QualityRow>,
    /// Rounds that say nothing, by reason.
    pub unfit: BTreeMap<&'static str, u64>,
}

/// Gathers the predictions of all sessions.
pub fn quality(sessions: &[Box<SessionReport>], table: &RatioTable) -> Quality {
    let mut families = BTreeMap::<String, QualityRow>::new();
    let mut all = QualityRow {
        family: "all".into(),
        ..QualityRow::default()
    };
    let mut quality = Quality::default();
    for session in sessions {
        for prediction in &session.predictions {
            let model = session.names.get(prediction.model as usize).map_or("", |name| name);
            let family = &table.for_model(model).name;
            let error = (prediction.error, prediction.naive_error, prediction.actual);
            all.errors.push(error);
            let row = families.entry(family.clone()).or_default();
            row.family.clone_from(family);
            row.errors.push(error);
        }
        for (unfit, count) in &session.unfit {
            *quality.unfit.entry(unfit_name(*unfit)).or_insert(0) += count;
        }
    }
    quality.rows.push(all);
    quality.rows.extend(families.into_values());
    quality
}

fn unfit_name(unfit: UnfitReason) -> &'static str {
    match unfit {
        UnfitReason::First => "first-of-chain",
        UnfitReason::NoUsage => "no-usage",
        UnfitReason::Boundary => "after-boundary",
        UnfitReason::Micro => "after-micro-compaction",
        UnfitReason::ModelSwitch => "model-switch",
        UnfitReason::Resume => "resumed",
        UnfitReason::Copy => "copy",
        UnfitReason::Kept => "kept-over-boundary",
    }
}
