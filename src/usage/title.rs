//! The name of a session as people see it: its title, else the task that it began with.

use language::secrets;
use language::title::task_phrase;
use serde::{Deserialize, Serialize};
use transcript::log::TitleSource;
use transcript::log::TitleText;
use transcript::thread::Session;

/// The title of a session. Its text may hold secrets until it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTitle {
    text: String,
    /// Whether the user or a model gave it, as opposed to a phrase from the first prompts.
    pub is_given: bool,
}

impl SessionTitle {
    /// Finds the title of a session: the user's, else a model's, else a phrase of the first prompt that names a task, else the
    /// first command. Empty if there is none of these.
    pub fn find(session: &Session<'_>) -> SessionTitle {
        let texts = || {
            let logs = session.parts().iter().map(|part| &part.log);
            logs.flat_map(|log| {
                let own = log.titles.iter();
                own.filter(|title| log.string(title.session) == session.id && !title.text.is_empty())
            })
        };
        let of_source = |source: TitleSource| texts().filter(move |title: &&TitleText| title.source == source);
        let given = [TitleSource::Custom, TitleSource::Model, TitleSource::Summary];
        if let Some(title) = given.into_iter().find_map(|source| of_source(source).next_back()) {
            return SessionTitle {
                text: title.text.to_string(),
                is_given: true,
            };
        }
        let mut prompts = of_source(TitleSource::Prompt);
        let phrase = prompts.find_map(|title| task_phrase(&title.text));
        let command = || {
            of_source(TitleSource::Command)
                .next()
                .map(|title| command_name(&title.text))
        };
        SessionTitle {
            text: phrase.or_else(command).unwrap_or_default(),
            is_given: false,
        }
    }

    /// Returns the title to show: secrets are masked. Empty if there is none.
    pub fn masked(&self) -> String {
        match self.text.is_empty() {
            true => String::new(),
            // Before its lines are joined: a row of a table is known by the row above it.
            false => one_line(&secrets::mask(&self.text)),
        }
    }

    /// Returns the title to search in, never to show.
    pub fn unmasked(&self) -> &str {
        &self.text
    }
}

/// Returns the title of a session to show.
pub fn session_title(session: &Session<'_>) -> String {
    SessionTitle::find(session).masked()
}

/// The client looks for the title and the tag of a session in this many bytes at the end of its log.
const TAIL_BYTES: u64 = 16 << 10;

/// Returns what a resume of a session would miss, because it stands before the end of the log that is read for it: its title,
/// its tag, or both. The client writes them again at a compaction, and only there.
pub fn out_of_reach(session: &Session<'_>) -> Vec<TitleSource> {
    let is_in_tail = |source: TitleSource| {
        let found = session.parts().iter().filter_map(|part| {
            let of_session = |title: &&TitleText| part.log.string(title.session) == session.id;
            let title = part
                .log
                .titles
                .iter()
                .filter(of_session)
                .find(|title| title.source == source)?;
            Some((!title.text.is_empty()).then_some(part.log.bytes - title.offset.min(part.log.bytes) <= TAIL_BYTES))
        });
        found.last().flatten()
    };
    let title = is_in_tail(TitleSource::Custom).map(|reached| (TitleSource::Custom, reached));
    let title = title.or_else(|| is_in_tail(TitleSource::Model).map(|reached| (TitleSource::Model, reached)));
    let tag = is_in_tail(TitleSource::Tag).map(|reached| (TitleSource::Tag, reached));
    let missed = title.into_iter().chain(tag).filter(|(_, reached)| !reached);
    missed.map(|(source, _)| source).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a command as it was typed: `/review 12`.
fn command_name(text: &str) -> String {
    let element = |name: &str| language::markup::find_element(text, name).map(str::trim);
    match (element("command-name"), element("command-args")) {
        (Some(name), Some(args)) if !args.is_empty() => one_line(&format!("{name} {args}")),
        (Some(name), _) => one_line(name),
        (None, _) => element("bash-input")
            .map(|input| one_line(&format!("! {input}")))
            .unwrap_or_default(),
    }
}
