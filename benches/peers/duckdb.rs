//! The queries that DuckDB runs.

use crate::corpora::BenchCorpus;

/// Returns the arguments of `read_json`: the logs, and a line limit no larger than the corpus needs, because the buffers of
/// `DuckDB` grow with it.
fn duckdb_source(corpus: &BenchCorpus) -> String {
    let glob = corpus
        .logs()
        .join("**")
        .join("*.jsonl")
        .to_string_lossy()
        .replace('\'', "''");
    let limit = (corpus.longest_line + 1).next_power_of_two().max(16 << 20);
    format!("'{glob}', format = 'newline_delimited', ignore_errors = true, maximum_object_size = {limit}")
}

/// Sums the usage alone, counted once by message and request, by session and model. Declared columns spare `DuckDB` the
/// detection: the fastest form found. It reads less than `stats` does, see [`same_fields_query`].
pub fn duckdb_query(corpus: &BenchCorpus) -> String {
    let source = duckdb_source(corpus);
    format!(
        "SELECT count(*), sum(input), sum(output), sum(writes), sum(reads), min(first),
  session, model
FROM (
  SELECT sessionId AS session, message.model AS model, min(timestamp) AS first,
    max(message.usage.input_tokens) AS input,
    max(message.usage.output_tokens) AS output,
    max(message.usage.cache_creation_input_tokens) AS writes,
    max(message.usage.cache_read_input_tokens) AS reads
  FROM read_json({source},
    columns = {{'type': 'VARCHAR', 'sessionId': 'VARCHAR', 'requestId': 'VARCHAR',
      'timestamp': 'VARCHAR', 'message': 'STRUCT(id VARCHAR, model VARCHAR,
        usage STRUCT(input_tokens BIGINT, output_tokens BIGINT,
        cache_creation_input_tokens BIGINT, cache_read_input_tokens BIGINT))'}})
  WHERE type = 'assistant' AND message.usage IS NOT NULL
  GROUP BY sessionId, message.model, message.id, requestId)
GROUP BY session, model ORDER BY session, model"
    )
}

/// How a query reads the blocks of a message. Both give the same sums.
#[derive(Clone, Copy)]
pub enum Blocks {
    /// With the JSON operators, each of which parses the block again: how such queries are mostly written.
    Operators,
    /// Parsed once into rows of a declared type: the fastest form found.
    Typed,
}

impl Blocks {
    /// Returns the expression that makes a row of every block of a message.
    fn rows(self) -> String {
        match self {
            Self::Operators => "unnest(CASE json_type(message.content) WHEN 'ARRAY' THEN message.content->'$[*]'
        ELSE [json_object('text', message.content)] END)"
                .to_owned(),
            Self::Typed => {
                let texts = [
                    "type",
                    "text",
                    "thinking",
                    "signature",
                    "id",
                    "tool_use_id",
                    "name",
                    "content",
                ];
                let texts = texts.map(|name| format!("\"{name}\":\"VARCHAR\"")).join(",");
                let shape = format!("'[{{{texts},\"is_error\":\"BOOLEAN\",\"input\":\"JSON\"}}]'");
                format!(
                    "unnest(CASE json_type(message.content) WHEN 'ARRAY' THEN from_json(message.content, {shape})
        ELSE from_json(json_array(json_object('text', message.content)), {shape}) END)"
                )
            }
        }
    }

    fn field(self, name: &str) -> String {
        match self {
            Self::Operators => format!("block->>'{name}'"),
            Self::Typed => format!("block.\"{name}\""),
        }
    }

    /// Returns the expression for an argument of a tool call.
    fn argument(self, name: &str) -> String {
        match self {
            Self::Operators => format!("block->>'$.input.{name}'"),
            Self::Typed => format!("block.\"input\"->>'{name}'"),
        }
    }
}

/// Reads all the fields that `stats` reads: usage, links between records, working folder and branch, record kinds, boundaries,
/// attachments, and of every block its kind, ids, tool, arguments and length. It only sums them: no chains, no sizes, no
/// ledger.
pub fn same_fields_query(corpus: &BenchCorpus, blocks: Blocks) -> String {
    let source = duckdb_source(corpus);
    let rows = blocks.rows();
    let count = |names: &[&str]| {
        let counts = names.iter().map(|name| format!("count({})", blocks.field(name)));
        counts.collect::<Vec<_>>().join(" + ")
    };
    let length = |name: &str| format!("sum(length({}))", blocks.field(name));
    let [kinds, ids, names, errors] = [&["type"][..], &["id", "tool_use_id"], &["name"], &["is_error"]].map(count);
    let [text, thinking, signature, input, content] = ["text", "thinking", "signature", "input", "content"].map(length);
    let [file, path, notebook, command, offset, limit] =
        ["file_path", "path", "notebook_path", "command", "offset", "limit"].map(|name| blocks.argument(name));
    let counts = "input_tokens BIGINT, output_tokens BIGINT, cache_creation_input_tokens BIGINT,
          cache_read_input_tokens BIGINT, cache_creation STRUCT(ephemeral_1h_input_tokens BIGINT), iterations JSON";
    let answer = format!("id VARCHAR, model VARCHAR, stop_reason VARCHAR, usage STRUCT({counts})");
    format!(
        "SELECT count(*), sum(input), sum(output), sum(writes), sum(reads), sum(hour), min(first), max(last),
  sum(blocks), sum(text), sum(thinking), sum(signatures), sum(calls), sum(results), sum(errors), sum(links), sum(names),
  sum(files), sum(commands), sum(ranges), sum(marks), sum(attached), sum(boundaries), sum(relayed),
  session, model, cwd, branch, version
FROM (
  SELECT sessionId AS session, model, cwd, gitBranch AS branch, version,
    min(timestamp) AS first, max(timestamp) AS last,
    max(usage.input_tokens) AS input, max(usage.output_tokens) AS output,
    max(usage.cache_creation_input_tokens) AS writes, max(usage.cache_read_input_tokens) AS reads,
    max(usage.cache_creation.ephemeral_1h_input_tokens) AS hour,
    {kinds} AS blocks, {text} AS text, {thinking} AS thinking, {signature} AS signatures,
    {input} AS calls, {content} AS results, {errors} AS errors,
    count(uuid) + count(parentUuid) + count(logicalParentUuid) + {ids} AS links, {names} AS names,
    count(coalesce({file}, {path}, {notebook})) AS files, count({command}) AS commands,
    count({offset}) + count({limit}) AS ranges,
    count(type) + count(subtype) + count(agentId) + count(stop_reason) + count(usage.iterations)
      + count(isSidechain) + count(isMeta) + count(isCompactSummary) + count(isApiErrorMessage) AS marks,
    sum(length(attachment)) + sum(length(content)) AS attached,
    count(compactMetadata) + count(microcompactMetadata) AS boundaries, count(data) AS relayed
  FROM (
    SELECT * EXCLUDE (message), message.id AS id, message.model AS model, message.stop_reason AS stop_reason,
      message.usage AS usage, {rows} AS block
    FROM read_json({source},
      columns = {{'uuid': 'VARCHAR', 'parentUuid': 'VARCHAR', 'logicalParentUuid': 'VARCHAR', 'sessionId': 'VARCHAR',
        'agentId': 'VARCHAR', 'version': 'VARCHAR', 'cwd': 'VARCHAR', 'gitBranch': 'VARCHAR', 'timestamp': 'VARCHAR',
        'requestId': 'VARCHAR', 'type': 'VARCHAR', 'subtype': 'VARCHAR', 'isSidechain': 'BOOLEAN', 'isMeta': 'BOOLEAN',
        'isCompactSummary': 'BOOLEAN', 'isApiErrorMessage': 'BOOLEAN', 'content': 'VARCHAR', 'attachment': 'JSON',
        'compactMetadata': 'JSON', 'microcompactMetadata': 'JSON',
        'data': 'STRUCT(\"type\" VARCHAR, agentId VARCHAR, message STRUCT(requestId VARCHAR, message STRUCT({answer})))',
        'message': 'STRUCT({answer}, content JSON)'}}))
  GROUP BY sessionId, model, cwd, gitBranch, version, id, requestId)
GROUP BY session, model, cwd, branch, version ORDER BY session, model"
    )
}
