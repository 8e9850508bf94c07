//! Sums by model, for the rows of usage.

use crate::usage::tally::UsageSums;
use std::collections::BTreeMap;

/// Sums by the name of the model. There is a row for every session, and most use one model: a tree alone would set aside room
/// for eleven in each.
#[derive(Debug, Clone, Default)]
pub struct ModelSums {
    /// The only model.
    only: Option<Box<(String, UsageSums)>>,
    /// All models, if there are several.
    several: BTreeMap<String, UsageSums>,
}

impl ModelSums {
    /// Adds sums to those of a model.
    pub fn merge(&mut self, model: &str, sums: &UsageSums) {
        match &mut self.only {
            Some(only) if only.0 == model => return only.1.merge(sums),
            None if self.several.is_empty() => {
                self.only = Some(Box::new((model.to_owned(), sums.clone())));
                return;
            }
            _ => {}
        }
        if let Some(only) = self.only.take() {
            self.several.insert(only.0, only.1);
        }
        match self.several.get_mut(model) {
            Some(known) => known.merge(sums),
            None => {
                self.several.insert(model.to_owned(), sums.clone());
            }
        }
    }

    /// Iterates over the models, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &UsageSums)> {
        let only = self.only.iter().map(|only| (only.0.as_str(), &only.1));
        only.chain(self.several.iter().map(|(model, sums)| (model.as_str(), sums)))
    }

    /// Iterates over the names of the models, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(model, _)| model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_summed_apart_and_in_order() {
        let sums = |responses| UsageSums {
            responses,
            ..UsageSums::default()
        };
        let mut models = ModelSums::default();
        assert_eq!(models.names().count(), 0);
        for (model, responses) in [("m", 1), ("m", 2), ("z", 4), ("a", 8), ("m", 16)] {
            models.merge(model, &sums(responses));
        }
        let all = models.iter().map(|(model, sums)| (model, sums.responses));
        assert_eq!(all.collect::<Vec<_>>(), [("a", 8), ("m", 19), ("z", 4)]);
    }
}
