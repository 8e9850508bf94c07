//! `docs/schema`: every JSON output of the bundled logs fits the schema of its kind, and figures that occur in more than one
//! output are the same. Which figures are compared is written in the schemas, as `x-figure`: an output says there what its
//! numbers are.

use crate::fixture::{Fixture, Run, case, corpus};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The schemas by file name, without its end.
struct Schemas(BTreeMap<String, Value>);

/// A value with its schema, as a walk over both meets them.
type Visit<'v> = dyn FnMut(&Value, &Value, &[(String, String)]) + 'v;

impl Schemas {
    fn read() -> Schemas {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
        let files = std::fs::read_dir(folder).expect("docs/schema");
        let schemas = files.map(|file| {
            let path = file.expect("a file").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            let text = std::fs::read(&path).expect("a schema");
            let schema = serde_json::from_slice::<Value>(&text).expect("JSON");
            assert_eq!(schema["$id"], *name, "a schema is named like its file");
            (name.trim_end_matches(".schema.json").to_owned(), schema)
        });
        Schemas(schemas.collect())
    }

    /// Follows a reference to another file.
    fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let Some(reference) = schema["$ref"].as_str() else {
            return schema;
        };
        let (file, name) = reference.split_once(".schema.json#/$defs/").expect("a reference");
        let found = &self.0[file]["$defs"][name];
        assert!(found.is_object(), "{reference}");
        found
    }

    /// Returns what is wrong with a value; empty if it fits. `seen` gets every value that fits, with its schema and the rows
    /// that it is in.
    fn check(
        &self,
        value: &Value,
        schema: &Value,
        place: &str,
        rows: &[(String, String)],
        seen: &mut Visit<'_>,
    ) -> Vec<String> {
        let schema = self.resolve(schema);
        if let Some(choices) = schema["anyOf"].as_array() {
            let fits = |choice: &&Value| self.check(value, choice, place, rows, &mut |_, _, _| {}).is_empty();
            return match choices.iter().find(fits) {
                Some(choice) => self.check(value, choice, place, rows, seen),
                None => vec![format!("{place}: fits none of {} schemas: {value}", choices.len())],
            };
        }
        if let Some(expected) = schema.get("const") {
            return match value == expected {
                true => Vec::new(),
                false => vec![format!("{place}: {value} is not {expected}")],
            };
        }
        if !has_type(value, &schema["type"]) {
            return vec![format!("{place}: {value} is not of type {}", schema["type"])];
        }
        let is_other_row = schema["x-where"]
            .as_object()
            .is_some_and(|wanted| wanted.iter().any(|(name, wanted)| value[name] != *wanted));
        let mut silent = |_: &Value, _: &Value, _: &[(String, String)]| {};
        let seen: &mut Visit<'_> = if is_other_row { &mut silent } else { seen };
        seen(value, schema, rows);
        let mut wrong = Vec::new();
        if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
            for (at, item) in list.iter().enumerate() {
                wrong.extend(self.check(item, items, &format!("{place}[{at}]"), rows, seen));
            }
        }
        let Some(object) = value.as_object() else { return wrong };
        let mut rows = rows.to_vec();
        if let Some(key) = schema["x-key"].as_str() {
            rows.push((
                key.to_owned(),
                object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned(),
            ));
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(name.as_str().expect("a name")) {
                wrong.push(format!("{place}: {name} is missing"));
            }
        }
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        for (name, value) in object {
            let place = format!("{place}/{name}");
            match (properties.get(name), &schema["additionalProperties"]) {
                (Some(schema), _) => wrong.extend(self.check(value, schema, &place, &rows, seen)),
                (None, Value::Bool(false)) => wrong.push(format!("{place} is in no schema")),
                (None, schema @ Value::Object(_)) => wrong.extend(self.check(value, schema, &place, &rows, seen)),
                (None, _) => {}
            }
        }
        wrong
    }

    /// Checks a document by its kind; returns its figures: name and row, with the value.
    fn figures(&self, name: &str, document: &Value) -> Vec<(String, Value)> {
        let kind = document["kind"].as_str().unwrap_or_default();
        let schema = self
            .0
            .get(kind)
            .unwrap_or_else(|| panic!("{name}: no schema of {kind}"));
        assert_eq!(schema["properties"]["kind"]["const"], kind);
        assert_eq!(
            schema["properties"]["schema_version"]["const"],
            document["schema_version"]
        );
        let mut figures = Vec::new();
        let wrong = self.check(document, schema, name, &[], &mut |value, schema, rows| {
            push_figure(value, schema, rows, &mut figures)
        });
        assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(12)].join("\n"));
        figures
    }
}

fn push_figure(value: &Value, schema: &Value, rows: &[(String, String)], figures: &mut Vec<(String, Value)>) {
    if let Some(figure) = schema["x-figure"].as_str() {
        let row = rows.iter().map(|(key, value)| format!(" of {key} {value}"));
        figures.push((format!("{figure}{}", row.collect::<String>()), value.clone()));
    }
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    };
    match wanted {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().any(|name| is(name.as_str().expect("a name"))),
        _ => true,
    }
}

/// Commands that print a document about logs. `replay --with-text` is not among them: with summaries of another size one call of
/// these logs is refused, and so not made.
const DOCUMENTS: &[&str] = &[
    "stats",
    "stats --by project --breakdown",
    "stats --by agent",
    "stats --by model --quality --problems",
    "stats --by day --subagents",
    "stats --by week",
    "stats --by month",
    "stats --by branch",
    "stats --by pr",
    "stats --by user",
    "stats --by tool",
    "overview",
    "audit",
    "audit --set window.percent=70 --problems",
    "validate",
    "validate --working-set",
    "replay",
    "replay --compare never",
    "tune",
    "check --max-cost 1000 --max-unpriced 100",
    "check --all",
    "doctor",
    "memory extract --dry-run",
    "memory extract --harvest",
    "search tests",
];

/// Logs with everything that makes counts differ: the bundled cases, and a session that was opened and left.
fn logs(fixture: &Fixture) -> PathBuf {
    let opened = json!({
        "type": "user", "uuid": "o1", "parentUuid": null, "sessionId": "opened-and-left", "version": "2.1.31", "cwd": "/p",
        "timestamp": "2026-01-01T00:00:00.000Z", "message": {"role": "user", "content": "hello there"},
    });
    fixture.write("more/opened.jsonl", format!("{opened}\n"));
    fixture.path("more")
}

#[test]
fn every_document_fits_its_schema_and_one_figure_is_one_number() {
    let fixture = Fixture::new();
    let schemas = Schemas::read();
    let more = logs(&fixture);
    let mut known = BTreeMap::<String, (Value, String)>::new();
    let mut shared = BTreeSet::new();
    let mut compare = |source: &str, figures: Vec<(String, Value)>| {
        for (figure, value) in figures {
            let (expected, first) = known
                .entry(figure.clone())
                .or_insert_with(|| (value.clone(), source.to_owned()));
            assert_eq!(value, *expected, "{figure} in `{source}`, and in `{first}`");
            if first != source {
                shared.insert(figure.split(" of ").next().expect("a name").to_owned());
            }
        }
    };
    for words in DOCUMENTS {
        let mut command = fixture.command(words.split(' '));
        command.arg(corpus()).arg(&more).arg("--format=json");
        let run = Run::of(command);
        assert!(matches!(run.status, Some(0 | 1 | 3)), "{words}: {}", run.stderr);
        compare(words, schemas.figures(words, &run.json()));
    }
    // The document of a replay has no rows; its lines are checked as such.
    let mut command = fixture.command(["replay", "--format=jsonl", "--quiet"]);
    command.arg(corpus()).arg(&more);
    let mut figures = Vec::new();
    for line in Run::of(command).success().text().lines() {
        let mut row = serde_json::from_str::<Map<String, Value>>(line).expect("JSON");
        row.remove("schema_version");
        let schema = &schemas.0["rows"]["$defs"]["replay-session"];
        let wrong = schemas.check(
            &Value::Object(row),
            schema,
            "replay",
            &[],
            &mut |value, schema, rows| push_figure(value, schema, rows, &mut figures),
        );
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    compare("replay -f jsonl", figures);
    // The page holds the same figures.
    let mut command = fixture.command(["report", "--output=page.html", "--quiet"]);
    command.arg(corpus()).arg(&more);
    Run::of(command).success();
    let page = std::fs::read_to_string(fixture.path("page.html")).expect("a page");
    let (_, data) = page.split_once("id=\"data\">").expect("data");
    let (data, _) = data.split_once("</script>").expect("an end");
    let overview = &serde_json::from_str::<Value>(data).expect("JSON")["overview"];
    let mut figures = Vec::new();
    for part in ["totals", "input", "recorded"] {
        let schema = &schemas.0["stats"]["properties"][part];
        let wrong = schemas.check(&overview[part], schema, part, &[], &mut |value, schema, rows| {
            push_figure(value, schema, rows, &mut figures)
        });
        assert!(wrong.is_empty(), "{wrong:?}");
    }
    compare("report", figures);
    for figure in [
        "sessions",
        "calls",
        "cost",
        "replayable_calls",
        "replayable_cost",
        "replayable_cost_with_rest",
        "automatic_compactions",
        "automatic_chain_compactions",
        "micro_chain_compactions",
        "session_cost",
        "session_simulated_cost",
    ] {
        assert!(shared.contains(figure), "{figure} is compared");
    }
    // What makes them differ if they are counted carelessly is in these logs.
    let stats = fixture.stats(&more, &[corpus().to_str().expect("a path")]);
    let recorded = &stats["recorded"];
    for amount in [
        &stats["input"]["copied_records"],
        &stats["totals"]["subagent_responses"],
        &recorded["left_out"]["without_calls"],
        &recorded["output_rest"]["responses"],
        &recorded["rewound"]["responses"],
        &recorded["of_client"]["responses"],
        &recorded["compactions"]["off_chain"],
    ] {
        assert!(amount.as_u64().is_some_and(|amount| amount > 0), "{recorded}");
    }
}

#[test]
fn files_of_a_replay_and_of_a_sweep_fit_their_schemas() {
    let fixture = Fixture::new();
    let schemas = Schemas::read();
    let run = |words: &str| {
        let mut command = fixture.command(words.split(' '));
        command.arg(corpus()).arg("--quiet");
        Run::of(command).success();
    };
    run("replay --out replayed --compare never --events");
    run("replay --out told --with-text --events");
    run("tune --out swept");
    for file in [
        "replayed/summary.json",
        "replayed/manifest.json",
        "replayed/compare.json",
        "told/summary.json",
        "swept/recommendation.json",
    ] {
        let text = std::fs::read(fixture.path(file)).expect(file);
        schemas.figures(file, &serde_json::from_slice(&text).expect("JSON"));
    }
    for (file, kind) in [("boundaries", "boundary"), ("misses", "miss"), ("events", "event")] {
        for folder in ["replayed", "told"] {
            let text = std::fs::read_to_string(fixture.path(format!("{folder}/{file}.jsonl"))).unwrap_or_default();
            for (number, line) in text.lines().enumerate() {
                let value = serde_json::from_str(line).expect("JSON");
                let place = format!("{file}:{}", number + 1);
                let wrong = schemas.check(&value, &schemas.0[kind], &place, &[], &mut |_, _, _| {});
                assert!(wrong.is_empty(), "{wrong:?}");
            }
        }
    }
}

#[test]
fn documents_of_memories_and_notes_fit_their_schemas() {
    let fixture = Fixture::new();
    let schemas = Schemas::read();
    let mut extract = fixture.command(["memory", "extract", "--dir=memory", "--quiet"]);
    extract.arg(corpus());
    Run::of(extract).success();
    for words in [
        "memory list --dir=memory",
        "memory check --dir=memory",
        "memory recall tests --dir=memory",
    ] {
        let mut command = fixture.command(words.split(' '));
        command.arg("--format=json");
        schemas.figures(words, &Run::of(command).success().json());
    }
    let mut notes = fixture.command(["notes", "--out=notes", "--format=json", "--quiet"]);
    notes.arg(case("long-session"));
    schemas.figures("notes", &Run::of(notes).success().json());
}
