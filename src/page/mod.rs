//! One HTML page that shows what other commands found out.
//!
//! Pure: takes values, gives the page as text. What comes from logs goes into data blocks that are no scripts, with `<`, `>`
//! and `&` escaped; the page's own script puts it on the screen as text, never as markup. The page's policy lets nothing run
//! and nothing load but what carries its nonce, which is made from the data itself.

pub mod overview;
pub mod pack;
#[cfg(test)]
mod palette;
pub mod private;
pub mod rounds;

use language::visible::shown;
use memory::topic::to_one_line;
use replay::tokens::ledger::CATEGORIES;
use rounds::PageRounds;
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use table::Sheet;

/// The page around its data.
const PAGE: &str = include_str!("assets/page.html");

/// How it looks.
const STYLE: &str = include_str!("assets/style.css");

/// How it works, in the order in which it is put together.
const SCRIPTS: [&str; 16] = [
    include_str!("assets/dom.js"),
    include_str!("assets/data.js"),
    include_str!("assets/filter.js"),
    include_str!("assets/table.js"),
    include_str!("assets/plot.js"),
    include_str!("assets/overview.js"),
    include_str!("assets/tree.js"),
    include_str!("assets/sessions.js"),
    include_str!("assets/sawtooth.js"),
    include_str!("assets/session.js"),
    include_str!("assets/audit.js"),
    include_str!("assets/tune.js"),
    include_str!("assets/compare.js"),
    include_str!("assets/prose.js"),
    include_str!("assets/memories.js"),
    include_str!("assets/main.js"),
];

/// Texts under these keys are ids, hashes and packed numbers: they look like chance, and are no secrets.
const UNMASKED_KEYS: [&str; 8] = [
    "packed",
    "session",
    "uuid",
    "agent",
    "run",
    "day",
    "version",
    "first_time",
];

/// A replay: what `replay --out` writes.
#[derive(Debug, Default)]
pub struct PageReplay {
    /// Where it comes from.
    pub name: String,
    /// What `summary.json` holds.
    pub summary: Json,
    /// Rows of the sessions.
    pub sessions: PageSessions,
    /// Their calls.
    pub rounds: PageRounds,
    /// Simulated boundaries.
    pub boundaries: Vec<Json>,
    /// Uses of what was no longer in the window.
    pub misses: Vec<Json>,
    /// The document of a comparison with a second policy.
    pub compare: Option<Json>,
}

/// The sessions of a replay, column by column: rows as objects would take ten times the memory.
#[derive(Debug, Default)]
pub struct PageSessions {
    pub ids: Vec<String>,
    /// Calls and cost by project.
    pub projects: BTreeMap<String, (u64, i64)>,
    /// As [`pack::rows_to_columns`] gives them; `null` if there are none.
    pub columns: Json,
}

impl PageSessions {
    /// Of rows that were read from a file.
    pub fn from_rows(rows: &[Json]) -> PageSessions {
        let mut sessions = PageSessions {
            columns: pack::rows_to_columns(rows, &["schema_version"]),
            ..PageSessions::default()
        };
        let cells = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
        let [ids, projects, calls, costs] = PageSessions::SUMMED.map(cells);
        sessions.sum_up(&ids, &projects, &calls, &costs);
        sessions
    }

    /// Of the rows of a replay that just ended.
    pub fn from_sheet<R>(sheet: &Sheet<'_, R>) -> PageSessions {
        let mut summed = [const { Vec::new() }; 4];
        let columns = pack::sheet_to_columns(sheet, |name, cells| {
            if let Some(at) = PageSessions::SUMMED.iter().position(|known| *known == name) {
                summed[at] = cells.to_vec();
            }
        });
        let mut sessions = PageSessions {
            columns,
            ..PageSessions::default()
        };
        let [ids, projects, calls, costs] = summed;
        sessions.sum_up(&ids, &projects, &calls, &costs);
        sessions
    }

    /// The columns that are summed up by project.
    const SUMMED: [&str; 4] = ["session", "project", "calls", "cost_micro_usd"];

    fn sum_up(&mut self, ids: &[Json], projects: &[Json], calls: &[Json], costs: &[Json]) {
        self.ids = ids
            .iter()
            .map(|id| id.as_str().unwrap_or_default().to_owned())
            .collect();
        for (project, (calls, cost)) in projects.iter().zip(calls.iter().zip(costs)) {
            let name = project.as_str().unwrap_or_default();
            if !self.projects.contains_key(name) {
                self.projects.insert(name.to_owned(), (0, 0));
            }
            if let Some(sum) = self.projects.get_mut(name) {
                sum.0 += calls.as_u64().unwrap_or(0);
                sum.1 += cost.as_i64().unwrap_or(0);
            }
        }
    }
}

/// The notes of a session.
#[derive(Debug, Default)]
pub struct PageNotes {
    /// Session id, or the folder they lie in.
    pub session: String,
    /// Path of the file; empty if the notes were written for the page.
    pub file: String,
    pub title: String,
    /// Whether the user or a model gave the title.
    pub is_titled: bool,
    /// Working directory, where it is known.
    pub project: String,
    /// When the session ended, where that is known.
    pub last_time: Option<String>,
    /// Messages of a person.
    pub prompts: Option<u64>,
    /// Messages of the conversation.
    pub messages: Option<u64>,
    /// Size in tokens.
    pub tokens: u64,
    /// Markdown.
    pub text: String,
}

impl PageNotes {
    fn to_json(&self) -> Json {
        json!({
            "session": self.session,
            "file": self.file,
            "title": self.title,
            "project": self.project,
            "last_time": self.last_time,
            "prompts": self.prompts,
            "messages": self.messages,
            "tokens": self.tokens,
            "text": self.text,
        })
    }
}

/// A view that a page could have, and why it has not.
#[derive(Debug)]
pub struct AbsentView {
    /// Its name in addresses.
    pub view: &'static str,
    pub why: String,
}

/// Everything that a page can show. What is empty has no place on it.
#[derive(Debug, Default)]
pub struct PageContent {
    /// What to look for.
    pub name: String,
    /// Recorded usage, see [`overview`].
    pub overview: Option<Json>,
    /// Replays.
    pub runs: Vec<PageReplay>,
    /// Documents of `audit`, with a `name`.
    pub audits: Vec<Json>,
    /// Recommendations of `tune` with `points` and a `name`.
    pub tunes: Vec<Json>,
    /// Memories: `name`, `memories`, and what was turned down (`rejected`) or left (`left`).
    pub memories: Vec<Json>,
    /// Notes.
    pub notes: Vec<PageNotes>,
    /// Views that are named, and why they are not there.
    pub absent: Vec<AbsentView>,
    /// Whether the page holds texts: of memories and notes, and titles that are taken from what was said.
    pub with_text: bool,
}

impl PageContent {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.overview.is_none()
            && self.runs.is_empty()
            && self.audits.is_empty()
            && self.tunes.is_empty()
            && self.memories.is_empty()
            && self.notes.is_empty()
    }
}

/// The page.
pub fn render_page(mut content: PageContent) -> String {
    if !content.with_text {
        private::hide_texts(&mut content);
    }
    let name = to_one_line(&shown(&content.name));
    let mut blocks = String::new();
    let mut runs = Vec::new();
    for (number, run) in content.runs.into_iter().enumerate() {
        let overview = overview::overview_from_replay(&run, &run.rounds.tally);
        let packed = run
            .rounds
            .sessions
            .iter()
            .map(|rounds| (rounds.session.as_str(), rounds));
        let packed = packed.collect::<BTreeMap<_, _>>();
        let mut drawn = Vec::new();
        for (at, id) in run.sessions.ids.iter().enumerate() {
            let Some(rounds) = packed.get(id.as_str()) else {
                continue;
            };
            drawn.push(at);
            let data = &rounds.chains;
            let _ = writeln!(
                blocks,
                "<script type=\"application/json\" id=\"run{number}-{at}\">{data}</script>"
            );
        }
        const IN_BOUNDARIES: [&str; 3] = ["schema_version", "tools_known", "last_message"];
        runs.push(mask_secrets(json!({
            "name": run.name,
            "overview": overview,
            "drawn": drawn,
            "summary": run.summary,
            "sessions": match run.sessions.columns {
                Json::Null => pack::rows_to_columns(&[], &[]),
                columns => columns,
            },
            "boundaries": pack::rows_to_columns(&run.boundaries, &IN_BOUNDARIES),
            "misses": pack::rows_to_columns(&run.misses, &["schema_version"]),
            "compare": run.compare.map(|compare| with_columns(compare, "sessions")),
        })));
    }
    let absent = content.absent.iter();
    let absent = absent.map(|absent| (absent.view.to_owned(), json!(absent.why)));
    let data = json!({
        "backcast": env!("CARGO_PKG_VERSION"),
        "name": name,
        "categories": CATEGORIES.map(|category| category.name()),
        "columns": rounds::column_names(),
        "with_text": content.with_text,
        "absent": absent.collect::<Map<_, _>>(),
        "overview": content.overview.map(mask_secrets),
        "runs": runs,
        "audits": lists_to_columns(content.audits, "boundaries"),
        "tunes": lists_to_columns(split_by_window(content.tunes), "points"),
        "memories": content.memories.into_iter().map(mask_secrets).collect::<Vec<_>>(),
        "notes": content.notes.iter().map(|notes| mask_secrets(notes.to_json())).collect::<Vec<_>>(),
    });
    let data = embed_json(data);
    let nonce = blake3::Hasher::new()
        .update(data.as_bytes())
        .update(blocks.as_bytes())
        .finalize()
        .to_hex();
    let script = SCRIPTS.join("\n");
    fill_template(
        PAGE,
        &[
            ("nonce", &nonce[..32]),
            ("title", &escape_html(&name)),
            ("style", STYLE),
            ("data", &data),
            ("blocks", &blocks),
            ("script", &script),
        ],
    )
}

/// Whether a file is a page of that name that was made here, by how it begins.
pub fn is_page_of(file: &str, name: &str) -> bool {
    let title = format!("<title>{}</title>", escape_html(name));
    let head = file.split_once("<style").map_or("", |(head, _)| head);
    head.contains(r#"<meta name="generator" content="backcast">"#) && head.contains(&title)
}

/// Returns one sweep per window, each with its own points. The points of a sweep that was read from files stand in one list;
/// a document without windows stays as it is.
fn split_by_window(tunes: Vec<Json>) -> Vec<Json> {
    let split = |mut tune: Json| {
        let windows = match tune.get_mut("windows").map(Json::take) {
            Some(Json::Array(windows)) if !windows.is_empty() => windows,
            _ => return vec![tune],
        };
        let of_window = |mut window: Json| {
            window["name"] = tune["name"].clone();
            if window.get("points").is_none() {
                let points = tune["points"].as_array().into_iter().flatten();
                let own = points.filter(|point| point["window_tokens"] == window["window_tokens"]);
                window["points"] = own.cloned().collect();
            }
            window
        };
        windows.into_iter().map(of_window).collect()
    };
    tunes.into_iter().flat_map(split).collect()
}

/// Documents whose one long list becomes columns.
fn lists_to_columns(documents: Vec<Json>, rows: &str) -> Vec<Json> {
    let documents = documents.into_iter();
    documents
        .map(|document| mask_secrets(with_columns(document, rows)))
        .collect()
}

fn with_columns(mut document: Json, rows: &str) -> Json {
    if let Some(Json::Array(list)) = document.get(rows) {
        document[rows] = pack::rows_to_columns(list, &["schema_version"]);
    }
    document
}

/// The value with every secret in its texts masked.
fn mask_secrets(value: Json) -> Json {
    match value {
        Json::String(text) => Json::String(shown(&text).into_owned()),
        Json::Array(list) => list.into_iter().map(mask_secrets).collect(),
        Json::Object(fields) => {
            let one = |(key, value): (String, Json)| {
                let value = if UNMASKED_KEYS.contains(&key.as_str()) {
                    value
                } else {
                    mask_secrets(value)
                };
                (key, value)
            };
            Json::Object(fields.into_iter().map(one).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// JSON that can stand inside a script element: nothing in it ends the element or starts a comment.
fn embed_json(value: Json) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            other => out.push(other),
        }
    }
    out
}

/// Text for a place between tags.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Puts values in the places `{{name}}` of the template, each looked at once: what a value holds is never a place.
fn fill_template(template: &str, values: &[(&str, &str)]) -> String {
    let size = values.iter().map(|(_, value)| value.len()).sum::<usize>();
    let mut out = String::with_capacity(template.len() + size);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        out.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A path as a page names it: its last two parts.
pub fn short_name(path: &str) -> Cow<'_, str> {
    let parts = path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".");
    let parts = parts.collect::<Vec<_>>();
    match parts.len() {
        0 => Cow::Borrowed(path),
        1 | 2 => Cow::Owned(parts.join("/")),
        count => Cow::Owned(parts[count - 2..].join("/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rounds::SessionRounds;

    const HOSTILE: &str = "</script><script>alert(1)</script><!-- \u{2028} <img src=x onerror=alert(1)> {{script}}";

    fn hostile_content() -> PageContent {
        let hostile = table::CellValue::Text(HOSTILE.to_owned());
        let mut rounds = PageRounds::default();
        rounds.push(SessionRounds::new(
            HOSTILE,
            &[rounds::test_round(
                &["session", "agent", "events"].map(|name| (name, hostile.clone())),
            )],
        ));
        PageContent {
            name: HOSTILE.to_owned(),
            runs: vec![PageReplay {
                name: HOSTILE.to_owned(),
                sessions: PageSessions::from_rows(&[json!({"session": HOSTILE, "project": HOSTILE})]),
                rounds,
                ..PageReplay::default()
            }],
            memories: vec![json!({"name": HOSTILE, "memories": [{"title": HOSTILE}]})],
            ..PageContent::default()
        }
    }

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let page = render_page(hostile_content());
        let plain = super::render_page(PageContent::default());
        let count = |page: &str, text: &str| page.matches(text).count();
        assert_eq!(count(&page, "<script"), count(&plain, "<script") + 1);
        for text in ["</script", "<img", "<!--"] {
            let blocks = usize::from(text == "</script");
            assert_eq!(count(&page, text), count(&plain, text) + blocks, "{text}");
        }
        assert!(!page.contains('\u{2028}'));
    }

    #[test]
    fn the_nonce_follows_from_the_data() {
        let nonce = |page: &str| page.split("nonce-").nth(1).unwrap()[..32].to_owned();
        let (one, other) = (render_page(PageContent::default()), render_page(hostile_content()));
        assert_eq!(nonce(&one), nonce(&render_page(PageContent::default())));
        assert_ne!(nonce(&one), nonce(&other));
    }

    #[test]
    fn secrets_are_masked_and_ids_are_not() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let id = "0d9f6c1e-52aa-4c7e-9b1d-7f0a2f6f3b10";
        let value = mask_secrets(json!({"text": format!("token {secret}"), "session": id, "list": [secret.clone()]}));
        assert!(!value.to_string().contains(&secret), "{value}");
        assert_eq!(value["session"], id);
    }

    #[test]
    fn places_are_filled_once() {
        assert_eq!(
            fill_template("a{{x}}b{{y}}c{{z}}", &[("x", "{{y}}"), ("y", "2")]),
            "a{{y}}b2c"
        );
    }

    #[test]
    fn names_are_short() {
        assert_eq!(short_name("/a/b/c/"), "b/c");
        assert_eq!(short_name("./run"), "run");
    }
}
