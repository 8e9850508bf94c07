//! The first sentences of `backcast audit`: whether the user's setting is in effect, and where sessions compact.

use super::{AuditView, CheckedSession};
use crate::usage::period::day_of;
use crate::views::short_id;
use replay::audit::thresholds::SettingEffect;
use std::collections::BTreeSet;
use table::human::{format_count, group_digits};

/// Sessions named as examples.
const EXAMPLES: usize = 3;

impl AuditView<'_> {
    /// Returns the answer to "is my setting in effect?"; `None` if there is no setting to judge.
    pub(super) fn setting_answer(&self) -> Option<String> {
        let settings = self.settings.as_ref()?;
        let name = settings
            .iter()
            .map(|(key, value, origin)| setting_name(key, value, origin));
        let name = name.collect::<Vec<_>>().join(", ");
        let judged = self.judged_sessions().collect::<Vec<_>>();
        if judged.is_empty() {
            return Some(self.no_session_since(&name));
        }
        let with = |effects: &[SettingEffect]| {
            let found = judged.iter().filter(|session| effects.contains(&session.check.effect));
            found.copied().collect::<Vec<_>>()
        };
        let took = with(&[SettingEffect::Took, SettingEffect::LowerStill]);
        let failed = with(&[SettingEffect::DidNot, SettingEffect::InPart]);
        let unknown = with(&[SettingEffect::WindowUnknown]);
        let sentence = if with(&[SettingEffect::NoDifference]).len() == judged.len() {
            format!("Your setting ({name}) changes nothing: an override can only lower the threshold.")
        } else if !took.is_empty() && failed.is_empty() {
            self.in_effect(&name, &took)
        } else if !took.is_empty() {
            format!(
                "Your setting ({name}) is in effect only in part{}: {} compacted as set, {} did not ({}).",
                self.since_clause(),
                format_count(took.len() as u64, "session"),
                group_digits(failed.len() as u64),
                examples(&failed)
            )
        } else if !failed.is_empty() {
            format!(
                "Your setting ({name}) is not in effect{}: {} ({}).",
                self.since_clause(),
                failure_clause(&failed),
                examples(&failed)
            )
        } else if !unknown.is_empty() {
            format!(
                "Whether your setting ({name}) is in effect cannot be told: the window of {} is not known; pass --window.",
                format_count(unknown.len() as u64, "session")
            )
        } else {
            self.not_reached(&name, &judged)
        };
        Some(sentence)
    }

    /// Returns what is said if no session has started since the setting was changed.
    fn no_session_since(&self, name: &str) -> String {
        let older = self.checked_settings.len() as u64;
        match self.options.setting_since {
            Some(since) if older > 0 => {
                let end = self.options.newest.map(|newest| day_of(newest, self.zone));
                let end = end.map_or_else(String::new, |end| format!("; logs end {end}"));
                format!(
                    "Your setting ({name}) cannot be judged yet: no session has started since {}{end}.",
                    day_of(since, self.zone)
                )
            }
            _ => format!("Your setting ({name}) cannot be judged: no session has a call of its own."),
        }
    }

    fn in_effect(&self, name: &str, took: &[&CheckedSession]) -> String {
        let first = took.iter().filter_map(|session| session.started).min();
        let since = first.map(|first| format!(" since {}", day_of(first, self.zone)));
        let since = since.unwrap_or_default();
        let number = format_count(took.len() as u64, "session");
        match shared_threshold(took) {
            Some(Some(threshold)) => format!(
                "Your setting ({name}) has been in effect{since}: {number} compacted at its threshold of {}, and none passed it.",
                group_digits(threshold)
            ),
            Some(None) => format!(
                "Your setting ({name}) has been in effect{since}: {number} passed the usual threshold without a compaction."
            ),
            None => {
                format!("Your setting ({name}) has been in effect{since}: {number} compacted as set, and none did not.")
            }
        }
    }

    fn not_reached(&self, name: &str, judged: &[&CheckedSession]) -> String {
        let highest = judged.iter().filter_map(|session| session.check.highest_unfired).max();
        let highest = highest.map(|highest| format!("; the largest context was {}", group_digits(highest)));
        let threshold = match shared_threshold(judged) {
            Some(Some(threshold)) => format!("its threshold of {}", group_digits(threshold)),
            Some(None) => "the usual threshold".to_owned(),
            None => "its threshold".to_owned(),
        };
        let number = judged.len() as u64;
        let none = match number {
            1 => "the one session did not reach".to_owned(),
            _ => format!("none of {} reached", format_count(number, "session")),
        };
        format!(
            "Your setting ({name}) has not come into play yet{}: {none} {threshold}{}.",
            self.since_clause(),
            highest.unwrap_or_default()
        )
    }

    fn since_clause(&self) -> String {
        let since = self.options.setting_since;
        since.map_or_else(String::new, |since| format!(" since {}", day_of(since, self.zone)))
    }

    /// Returns which sessions the answer about the setting rests on; `None` if it rests on all of them.
    pub(super) fn setting_basis(&self) -> Option<String> {
        self.settings.as_ref()?;
        let older = self.checked_settings.len() - self.judged_sessions().count();
        match (self.options.setting_since, older) {
            (Some(_), 0) => None,
            (Some(since), older) => Some(format!(
                "{} from before {} and not judged.",
                match older {
                    1 => "1 session is".to_owned(),
                    _ => format!("{} are", format_count(older as u64, "session")),
                },
                day_of(since, self.zone)
            )),
            (None, _) => {
                Some("When it was set is not known; --since DATE judges it by later sessions only.".to_owned())
            }
        }
    }

    /// Returns which titles and tags a resume would not find; `None` if it finds all of them.
    pub(super) fn missed_titles_sentence(&self) -> Option<String> {
        let sessions = self.missed_titles.iter().map(|missed| missed.session.as_str());
        let sessions = sessions.collect::<BTreeSet<_>>();
        let ids = sessions.iter().take(EXAMPLES).map(|session| short_id(session));
        let ids = ids.collect::<Vec<_>>().join(", ");
        let rest = if sessions.len() > EXAMPLES { ", ..." } else { "" };
        (!sessions.is_empty()).then(|| {
            format!(
                "A resume may miss the title or tag of {} ({ids}{rest}): the log has it only before its last 16 KB.",
                format_count(sessions.len() as u64, "session")
            )
        })
    }

    /// Returns what is said about sessions whose window is not known; `None` if there are none.
    pub(super) fn unknown_windows(&self) -> Option<String> {
        let unknown = self.sessions_of_unknown_window as u64;
        if unknown == 0 {
            return None;
        }
        if unknown >= self.account.sessions {
            return Some("Your window is not known; pass --window TOKENS.".to_owned());
        }
        let groups = self.thresholds.iter().filter(|row| row.group.window.is_none());
        let models = groups
            .map(|row| row.group.family.as_str())
            .filter(|model| !model.is_empty());
        let models = models
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join(", ");
        let models = if models.is_empty() {
            models
        } else {
            format!(" ({models})")
        };
        Some(format!(
            "The window of {} is not known{models}; pass --window TOKENS.",
            format_count(unknown, "session")
        ))
    }
}

/// Returns a setting as the user knows it: the key of the settings file, the variable, or the value of the policy.
fn setting_name(key: &str, value: &str, origin: &str) -> String {
    match origin.strip_prefix("settings: ") {
        Some("modelSettings") => format!("modelSettings in settings.json: {value}"),
        Some(name) => format!("{name} {value} in settings.json"),
        None if origin.starts_with(|first: char| first.is_ascii_uppercase()) => format!("{origin}={value}"),
        None => format!("{key}={value}"),
    }
}

/// Returns the threshold that all sessions share: `Some(None)` if the setting turns compaction off, `None` if they differ.
fn shared_threshold(sessions: &[&CheckedSession]) -> Option<Option<u64>> {
    let first = sessions.first()?.check.threshold;
    let is_shared = sessions.iter().all(|session| session.check.threshold == first);
    is_shared.then_some(first)
}

fn failure_clause(failed: &[&CheckedSession]) -> String {
    let number = format_count(failed.len() as u64, "session");
    match shared_threshold(failed) {
        Some(Some(threshold)) => format!("{number} passed its threshold of {}", group_digits(threshold)),
        Some(None) => format!("{number} compacted automatically"),
        None => format!("{number} passed its threshold"),
    }
}

fn examples(sessions: &[&CheckedSession]) -> String {
    let ids = sessions.iter().take(EXAMPLES).map(|session| short_id(&session.session));
    let rest = if sessions.len() > EXAMPLES { ", ..." } else { "" };
    format!("{}{rest}", ids.collect::<Vec<_>>().join(", "))
}
