//! `backcast search`: hits as JSON and as text.

use serde::Serialize;
use serde_json::{Value as Json, json};
use std::fmt::Write;
use table::OutputSchema;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("search", 1);

/// A memory that matches.
#[derive(Debug, Serialize)]
pub struct MemoryHit {
    pub found: &'static str,
    pub file: String,
    pub name: String,
    pub description: String,
    #[serde(rename = "type")]
    pub kind: Option<&'static str>,
    pub score: f64,
    pub snippet: String,
    pub words: Vec<String>,
}

/// A message that matches.
#[derive(Debug, Serialize)]
pub struct MessageHit {
    pub found: &'static str,
    pub session: String,
    pub uuid: String,
    pub time: Option<String>,
    pub role: &'static str,
    pub log: String,
    pub line: u64,
    pub score: f64,
    pub snippet: String,
    pub words: Vec<String>,
}

/// Returns all hits as one document.
pub fn document(query: &str, memories: &[MemoryHit], messages: &[MessageHit]) -> Json {
    SCHEMA.document(json!({"query": query, "memories": memories, "transcripts": messages}))
}

/// Returns one object per hit and line.
pub fn to_json_lines(memories: &[MemoryHit], messages: &[MessageHit]) -> serde_json::Result<String> {
    let memories = memories.iter().map(json_line);
    memories.chain(messages.iter().map(json_line)).collect()
}

/// Returns a hit as a line with the version of its fields.
fn json_line(row: &impl Serialize) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct VersionedRow<'a, R> {
        schema_version: u32,
        #[serde(flatten)]
        row: &'a R,
    }
    let line = VersionedRow {
        schema_version: SCHEMA.version,
        row,
    };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Returns the hits as text: the place, then the snippet.
pub fn to_table(memories: &[MemoryHit], messages: &[MessageHit]) -> String {
    let mut text = String::new();
    for hit in memories {
        let kind = hit.kind.unwrap_or("untyped");
        let _ = writeln!(text, "memory {} [{kind}] {}", hit.file, hit.name);
        let _ = writeln!(text, "    {}", hit.snippet);
    }
    for hit in messages {
        let time = hit.time.as_deref().unwrap_or("no time");
        let _ = writeln!(text, "{time} {} {} {}", hit.role, hit.session, hit.uuid);
        let _ = writeln!(text, "    {}", hit.snippet);
    }
    text
}
