//! `backcast replay --compare`: two policies side by side on the same sessions.

use crate::cli::PolicyArgs;
use crate::commands::policy::load_policy;
use crate::commands::replay::ReplayArgs;
use crate::views::compare::CompareSide;
use anyhow::Result;
use replay::policy::presets::PolicySet;

/// The policies that a policy is compared with.
pub struct Comparison {
    /// Both policies, as the command line has them.
    pub names: [String; 2],
    /// The other policies that have to be replayed: the second one, and `never` as a bound. One that equals another is left
    /// out.
    others: Vec<PolicySet>,
    /// By side: the number of its policy, where 0 is the first policy and others follow.
    by_side: [usize; 3],
    /// The second policy, as it was named.
    pub second: PolicySet,
}

impl Comparison {
    /// The policy that `--compare` names, if it is given.
    pub fn new(args: &ReplayArgs, first: &PolicySet) -> Result<Option<Comparison>> {
        let Some(name) = &args.compare else { return Ok(None) };
        Comparison::with_settings(name, &args.compare_set, &args.policy, first).map(Some)
    }

    /// A policy by its name or file, as it is.
    pub fn with_policy(name: &str, args: &PolicyArgs, first: &PolicySet) -> Result<Comparison> {
        Comparison::with_settings(name, &[], args, first)
    }

    /// The window of the model is a fact about the sessions, so it is the same for both; everything else that was set belongs
    /// to the first.
    fn with_settings(name: &str, set: &[String], args: &PolicyArgs, first: &PolicySet) -> Result<Comparison> {
        let mut second = load_policy(name)?;
        if let Some(window) = args.window {
            second.assign(&format!("window.tokens={window}"), "--window")?;
        }
        for assignment in set {
            second.assign(assignment, "--compare-set")?;
        }
        let names = [(first, &args.set[..]), (&second, set)]
            .map(|(policies, set)| [std::slice::from_ref(&policies.name), set].concat().join(" "));
        Ok(Comparison::of_policies(names, first, second, load_policy("never")?))
    }

    fn of_policies(names: [String; 2], first: &PolicySet, second: PolicySet, never: PolicySet) -> Comparison {
        let mut others = Vec::<PolicySet>::new();
        let by_side = [first, &second, &never].map(|policies| {
            // Equal policies have equal results, whatever they are called.
            let is_same = |known: &PolicySet| known.ranges() == policies.ranges();
            if is_same(first) {
                return 0;
            }
            let known = others.iter().position(is_same);
            1 + known.unwrap_or_else(|| {
                others.push(policies.clone());
                others.len() - 1
            })
        });
        Comparison {
            names,
            others,
            by_side,
            second,
        }
    }

    /// Returns the policies that are replayed beside the first.
    pub fn other_policies(&self) -> &[PolicySet] {
        &self.others
    }

    /// Returns all sides, given the results of each policy that was replayed: 0 is the first, then follow the others.
    pub fn sides(&self, side: impl Fn(usize) -> CompareSide) -> [CompareSide; 3] {
        self.by_side.map(side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_policies_are_replayed_once() {
        let preset = |name: &str| PolicySet::preset(name).unwrap();
        let numbers = |first: &str, second: PolicySet| {
            let compared = Comparison::of_policies(Default::default(), &preset(first), second, preset("never"));
            (compared.others.len(), compared.by_side)
        };
        assert_eq!(numbers("recorded", preset("article")), (2, [0, 1, 2]));
        assert_eq!(numbers("recorded", preset("never")), (1, [0, 1, 1]));
        assert_eq!(numbers("never", preset("recorded")), (1, [0, 1, 0]));
        assert_eq!(numbers("article", preset("article")), (1, [0, 0, 1]));
        assert_eq!(numbers("never", preset("never")), (0, [0, 0, 0]));
        // A window is a part of a policy: the bound keeps the one that is inferred.
        let mut windowed = preset("never");
        windowed.assign("window.tokens=60000", "--window").unwrap();
        assert_eq!(numbers("recorded", windowed), (2, [0, 1, 2]));
    }
}
