//! What the user forbade: calls and plans they refused and never allowed later.

use super::intent::CommandIntent;
use super::parts::split_words;

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedCall {
    Command {
        text: String,
    },
    Edit {
        path: String,
    },
    Plan {
        title: String,
    },
    /// Another tool and its target.
    Other {
        what: String,
    },
}

/// A refusal of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub call: RefusedCall,
    /// What the user said about it; may be empty.
    pub words: String,
    /// Whether the user allowed the same later.
    pub is_lifted: bool,
}

/// The refusals of a session, in order.
#[derive(Debug, Clone, Default)]
pub struct RefusalList {
    refusals: Vec<Refusal>,
}

impl RefusalList {
    /// Adds a refusal whose reason is not known yet.
    pub fn add(&mut self, call: RefusedCall) {
        // The next plan takes the place of the one before it.
        let is_plan = |call: &RefusedCall| matches!(call, RefusedCall::Plan { .. });
        self.refusals
            .retain(|known| known.call != call && !(is_plan(&known.call) && is_plan(&call)));
        self.refusals.push(Refusal {
            call,
            words: String::new(),
            is_lifted: false,
        });
    }

    /// Gives the last refusal its reason.
    pub fn explain(&mut self, words: &str) {
        if let Some(last) = self.refusals.last_mut() {
            words.clone_into(&mut last.words);
        }
    }

    /// Notes that a call went through: refusals of the same are lifted.
    pub fn lift(&mut self, is_same: impl Fn(&RefusedCall) -> bool) {
        for refusal in self.refusals.iter_mut().filter(|refusal| is_same(&refusal.call)) {
            refusal.is_lifted = true;
        }
    }

    /// Notes that another branch was checked out: a refused change was one to the files as they were before.
    pub fn lift_edits(&mut self) {
        self.lift(|call| matches!(call, RefusedCall::Edit { .. }));
    }

    /// Notes that a command went through. It lifts the refusal of a command with the same intent whose options it has all.
    pub fn lift_command(&mut self, text: &str) {
        let words = split_words(text);
        let intents = CommandIntent::parse_all(text);
        self.lift(|call| {
            let RefusedCall::Command { text: refused } = call else {
                return false;
            };
            let asked = split_words(refused);
            let mut options = asked.iter().filter(|word| word.starts_with('-'));
            let is_same = CommandIntent::parse(refused)
                .is_some_and(|refused| intents.iter().any(|intent| intent.covers(&refused)));
            asked.iter().all(|word| words.contains(word)) || is_same && options.all(|word| words.contains(word))
        });
    }

    /// Iterates over what is still forbidden, newest first.
    pub fn standing(&self) -> impl Iterator<Item = &Refusal> {
        self.refusals.iter().rev().filter(|refusal| !refusal.is_lifted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_change_is_over_with_its_branch() {
        let mut list = RefusalList::default();
        list.add(RefusedCall::Command {
            text: "make clean".to_owned(),
        });
        list.add(RefusedCall::Edit {
            path: "/w/a.rs".to_owned(),
        });
        list.lift_edits();
        assert_eq!(list.standing().count(), 1);
    }

    #[test]
    fn a_refusal_stands_until_the_same_is_allowed() {
        let command = |text: &str| RefusedCall::Command { text: text.to_owned() };
        let mut list = RefusalList::default();
        list.add(command("git push --force"));
        list.explain("not to main");
        list.add(command("make clean"));
        list.lift_command("make build");
        list.lift_command("git push");
        assert_eq!(list.standing().count(), 2);
        list.lift_command("make clean -j2");
        let standing = list.standing().map(|refusal| refusal.words.as_str());
        assert_eq!(standing.collect::<Vec<_>>(), ["not to main"]);
        list.add(command("git commit -m 'Add it'"));
        list.lift_command("git add . && git commit -m 'Add the total'");
        assert_eq!(list.standing().count(), 1);
        for title in ["One", "Two"] {
            list.add(RefusedCall::Plan {
                title: title.to_owned(),
            });
        }
        assert_eq!(list.standing().count(), 2);
    }
}
