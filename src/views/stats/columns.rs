//! Rows of `backcast stats` that are not in [`crate::usage`], and the columns of all of them.

use crate::usage::period::GroupBy;
use crate::usage::quality::QualityRow;
use crate::usage::tally::{UsageRow, WindowFacts};
use crate::views::{folder_name, short_id};
use replay::prices::micro_usd;
use replay::tokens::ledger::{Amount, CATEGORIES, Category, TokenLedger};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use table::{Column, columns, sparkline};
use transcript::agents::Agent;

// Lists of one or a few columns, which the functions below put together.
columns! {
    SESSION_KEY: UsageRow;
    "session" "Session" Text Always "Session id." |r| &r.key;
    PROJECT_KEY: UsageRow;
    "project" "Project" Text Always "Working directory." |r| &r.key;
    CODING_AGENT_KEY: UsageRow;
    "agent" "Agent" Text Always "Coding agent: `claude`, `codex`, `opencode` or `pi`." |r| &r.key;
    MODEL_KEY: UsageRow;
    "model" "Model" Text Always "Model." |r| &r.key;
    DAY_KEY: UsageRow;
    "day" "Day" Text Always "Day of the call in the chosen time zone." |r| &r.key;
    WEEK_KEY: UsageRow;
    "week" "Week of" Text Always "Monday of the week of the call in the chosen time zone." |r| &r.key;
    MONTH_KEY: UsageRow;
    "month" "Month" Text Always "Month of the call in the chosen time zone." |r| &r.key;
    BRANCH_KEY: UsageRow;
    "branch" "Branch" Text Always "Git branch." |r| &r.key;
    PULL_KEY: UsageRow;
    "pr" "Pull request" Text Always "Pull request that the session was linked to last, before the call." |r| &r.key;
    USER_KEY: UsageRow;
    "user" "User" Text Always "User whose home folder the session worked in." |r| &r.key;
    MODEL: UsageRow;
    "model" "Model" Text Always "Model." |r| r.models.names().next();
    AGENT: UsageRow;
    "agent" "Agent" Text Always "Sub-agent; empty for the main agent." |r| &r.agent;
    SUBAGENT: UsageRow;
    "subagent" "Sub-agent" Text Always "Sub-agent; empty for the main agent." |r| &r.agent;
    SESSION_PROJECT: UsageRow;
    "project" "Project" Text IfRoom "Working directory of the session's first record." |r| &r.project;
    "coding_agent" "Agent" Text IfRoom "Coding agent that wrote the session's log: `claude`, `codex`, `opencode` or `pi`." |r| r.coding_agent.map(Agent::name);
    SESSION_COUNT: UsageRow;
    "sessions" "Sessions" Count Always "Sessions with calls in the row." |r| (!r.is_part).then_some(r.sessions.len());
    SESSION_TITLE: UsageRow;
    "title" "Title" Text Never "Title of the session, else a phrase from its first prompt; secrets are masked." |r| some_text(&r.title);
}

// Columns of the table for people.
columns! {
    TITLE_AND_PLACE: UsageRow;
    "title" "Session" Text Always "Title of the session, or its id." |r| shown_title(r);
    "project" "Project" Text IfRoom "Last folder of the project's path." |r| r.project.as_deref().map(folder_name);
    "start" "Start" Drawing IfRoom "Day of the first record." |r| some_text(&r.start_day);
    CODING_AGENT: UsageRow;
    "coding_agent" "Agent" Text IfRoom "Coding agent." |r| r.coding_agent.map(Agent::name);
    COST: UsageRow;
    "cost_micro_usd" "Cost" MicroUsd Always "Cost." |r| r.sums.cost_micro_usd();
    CALLS: UsageRow;
    "responses" "Calls" Count IfRoom "API calls." |r| r.sums.responses;
    PEAK_AND_COMPACTIONS: UsageRow;
    "context_peak" "Peak" Tokens IfRoom "Largest window." |r| r.known_window().map(|window| window.peak);
    "compactions" "Compacted" Count IfRoom "Compactions, automatic and by hand." |r| r.window.map(|window| window.boundaries[0] + window.boundaries[1]);
    "window" "Window" Drawing IfRoom "Its course." |r| sparkline(&r.course, 10);
    SHORT_ID: UsageRow;
    "session" "Id" Id IfRoom "Beginning of the session id." |r| (r.title != r.key).then_some(&r.key);
    TABLE_TOKENS: UsageRow;
    "output_tokens" "Output" Tokens IfRoom "Output tokens." |r| r.sums.output;
    "cache_read_tokens" "Read" Tokens IfRoom "Input tokens read from the prompt cache." |r| r.sums.cache_read;
    "cache_write_tokens" "Written" Tokens IfRoom "Input tokens written to the prompt cache." |r| r.sums.write_5m + r.sums.write_1h;
    "input_tokens" "Uncached" Tokens IfRoom "Input tokens neither read from nor written to the prompt cache." |r| r.sums.input;
    BREAKDOWN_MODEL: UsageRow;
    "model" "Model" Text Always "Model; empty for all together." |r| short_models(r);
}

fn some_text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the title of a session, or the beginning of its id.
fn shown_title(row: &UsageRow) -> String {
    match row.title.as_str() {
        "" => short_id(&row.key),
        title => title.to_owned(),
    }
}

columns! {
    TIMES_AND_INPUT: UsageRow;
    "first_time" "From" Time Never "First record or call." |r| r.times.map(|times| times.0);
    "last_time" "To" Time Never "Last record or call." |r| r.times.map(|times| times.1);
    "responses" "Calls" Count Always "API calls, each counted once over all logs." |r| r.sums.responses;
    "input_tokens" "Input" Tokens IfRoom "Input tokens neither read from nor written to the prompt cache." |r| r.sums.input;
    "cache_read_tokens" "Read" Tokens Always "Input tokens read from the prompt cache." |r| r.sums.cache_read;
}

columns! {
    CACHE_WRITES: UsageRow;
    "cache_write_5m_tokens" "Wr. 5m" Tokens Always "Input tokens written to the prompt cache for five minutes." |r| r.sums.write_5m;
    "cache_write_1h_tokens" "Wr. 1h" Tokens Always "Input tokens written to the prompt cache for one hour." |r| r.sums.write_1h;
}

columns! {
    OUTPUT_AND_COST: UsageRow;
    "output_tokens" "Output" Tokens Always "Output tokens, as the most complete line of each response has them." |r| r.sums.output;
    "cost_micro_usd" "Cost" MicroUsd Always "Cost of the calls whose model has a price; empty if none has." |r| r.sums.cost_micro_usd();
    "unpriced_responses" "Unpriced" Count Never "Calls whose model is not in the price table." |r| r.sums.unpriced;
    "subagent_responses" "Sub calls" Count Never "Of the calls, those of sub-agents." |r| r.sums.subagent_responses;
    "subagent_cost_micro_usd" "Sub cost" MicroUsd Never "Of the cost, that of sub-agents." |r| micro_usd(r.sums.subagent_cost);
    "rewound_responses" "Rewound" Count Never "Of the calls, those on branches that were rewound." |r| r.sums.rewound_responses;
    "models" "Models" Text Never "Models, without the prefix `claude-`." |r| short_models(r);
}

columns! {
    TOKENS: UsageRow;
    "responses" "Calls" Count Always "API calls, each counted once over all logs." |r| r.sums.responses;
    "input_tokens" "Input" Tokens IfRoom "Input tokens neither read from nor written to the prompt cache." |r| r.sums.input;
    "cache_read_tokens" "Read" Tokens Always "Input tokens read from the prompt cache." |r| r.sums.cache_read;
    "cache_write_5m_tokens" "Wr. 5m" Tokens Always "Input tokens written to the prompt cache for five minutes." |r| r.sums.write_5m;
    "cache_write_1h_tokens" "Wr. 1h" Tokens Always "Input tokens written to the prompt cache for one hour." |r| r.sums.write_1h;
    "output_tokens" "Output" Tokens Always "Output tokens, as the most complete line of each response has them." |r| r.sums.output;
    "cost_micro_usd" "Cost" MicroUsd Always "Cost of the calls whose model has a price; empty if none has." |r| r.sums.cost_micro_usd();
}

columns! {
    SESSION_WINDOW: UsageRow;
    "rounds" "Rounds" Count Never "Calls of the main chain with a known window." |r| r.window.map(|window| window.rounds);
    "prompts" "Prompts" Count Never "Prompts that a person typed or ran." |r| r.window.map(|window| window.prompts);
    "context_peak" "Peak" Tokens Always "Largest window of the main chain." |r| r.known_window().map(|window| window.peak);
    "context_mean" "Mean" Tokens Never "Mean window of the main chain over its rounds." |r| r.window.and_then(|window| window.mean);
    "context_last" "Last" Tokens Never "Window after the last round." |r| r.known_window().map(|window| window.last);
    "compactions_auto" "Auto" Count IfRoom "Automatic compactions." |r| r.window.map(|window| window.boundaries[0]);
    "compactions_manual" "Manual" Count Never "Compactions that a person asked for." |r| r.window.map(|window| window.boundaries[1]);
    "compactions_micro" "Micro" Count Never "Recorded micro-compactions." |r| r.window.map(|window| window.boundaries[2]);
    "rewound_branches" "Rewinds" Count Never "Branches that were rewound." |r| r.window.map(|window| window.branches);
    "subagents" "Agents" Count Never "Sub-agents with records of their own." |r| r.window.map(|window| window.subagents);
}

fn key_columns(by: GroupBy) -> &'static [Column<UsageRow>] {
    match by {
        GroupBy::Session => SESSION_KEY,
        GroupBy::Agent => CODING_AGENT_KEY,
        GroupBy::Project => PROJECT_KEY,
        GroupBy::Model | GroupBy::Tool => MODEL_KEY,
        GroupBy::Day => DAY_KEY,
        GroupBy::Week => WEEK_KEY,
        GroupBy::Month => MONTH_KEY,
        GroupBy::Branch => BRANCH_KEY,
        GroupBy::Pr => PULL_KEY,
        GroupBy::User => USER_KEY,
    }
}

/// Returns the column of sub-agents. Grouped by coding agent, `agent` is the name of the first column.
fn subagent_columns(by: GroupBy, with_agents: bool) -> &'static [Column<UsageRow>] {
    match (with_agents, by) {
        (false, _) => &[],
        (true, GroupBy::Agent) => SUBAGENT,
        (true, _) => AGENT,
    }
}

/// Returns the columns of usage rows. The first one has the name of the grouping.
pub fn usage_columns(by: GroupBy, with_agents: bool) -> Vec<Column<UsageRow>> {
    let is_session = by == GroupBy::Session;
    let lists = [
        key_columns(by),
        subagent_columns(by, with_agents),
        if is_session { SESSION_PROJECT } else { SESSION_COUNT },
        TIMES_AND_INPUT,
        CACHE_WRITES,
        OUTPUT_AND_COST,
        if is_session { SESSION_WINDOW } else { &[] },
        if is_session { SESSION_TITLE } else { &[] },
    ];
    lists.concat()
}

/// Returns the columns of rows that are split by model.
pub fn breakdown_columns(by: GroupBy, with_agents: bool) -> Vec<Column<UsageRow>> {
    let lists = [
        key_columns(by),
        subagent_columns(by, with_agents),
        if by == GroupBy::Model { &[] } else { MODEL },
        TOKENS,
    ];
    lists.concat()
}

/// Returns the columns of usage rows in the table: what a row is and what it cost comes first and is never dropped.
pub fn usage_table_columns(
    by: GroupBy,
    with_agents: bool,
    with_models: bool,
    rows: &[UsageRow],
) -> Vec<Column<UsageRow>> {
    let agent = subagent_columns(by, with_agents);
    let model = if with_models { BREAKDOWN_MODEL } else { &[] };
    if by == GroupBy::Session {
        // Where one agent wrote all sessions, the column says nothing.
        let agents = rows.iter().filter_map(|row| row.coding_agent).collect::<BTreeSet<_>>();
        let lists = [
            TITLE_AND_PLACE,
            if agents.len() > 1 { CODING_AGENT } else { &[] },
            agent,
            model,
            COST,
            CALLS,
            PEAK_AND_COMPACTIONS,
            SHORT_ID,
            TABLE_TOKENS,
        ];
        return lists.concat();
    }
    let lists = [key_columns(by), agent, model, COST, CALLS, SESSION_COUNT, TABLE_TOKENS];
    lists.concat()
}

impl UsageRow {
    /// Returns the window of a session; `None` if no round has a known one.
    fn known_window(&self) -> Option<WindowFacts> {
        self.window.filter(|window| window.rounds > 0)
    }
}

/// Returns the models without the common prefix.
fn short_models(row: &UsageRow) -> String {
    let short = row
        .models
        .names()
        .map(|model| model.strip_prefix("claude-").unwrap_or(model));
    short.collect::<Vec<_>>().join(" ")
}

columns! {
    /// Quality of the sizes, by family of models.
    pub QUALITY_COLUMNS: QualityRow;
    "family" "Family" Text Always "Family of models that share ratios." |r| &r.family;
    "rounds" "Rounds" Count Always "Rounds predicted from the one before." |r| r.rounds();
    "median_error" "Median" Tokens Always "Median absolute error in tokens." |r| r.median().map(|value| value.round() as i64);
    "p95_relative_error" "p95" Share Always "95th percentile of the absolute error as a share of the window." |r| r.p95();
    "bias" "Bias" Tokens Always
        "Mean signed error in tokens; negative means predicted too small." |r| r.bias().map(|value| value.round() as i64);
    "chars4_median_error" "Ch/4 median" Tokens Always
        "Median absolute error with characters / 4." |r| r.naive_median().map(|value| value.round() as i64);
    "chars4_p95_relative_error" "Ch/4 p95" Share Always "95th percentile of the relative error with characters / 4." |r| r.naive_p95();
}

/// A line of the ledger: a category, or a tool or kind of attachment below it.
pub struct LedgerRow {
    name: String,
    amount: Amount,
    whole: u64,
}

impl LedgerRow {
    pub fn new(name: &str, amount: &Amount, whole: u64) -> LedgerRow {
        LedgerRow {
            name: name.to_owned(),
            amount: *amount,
            whole,
        }
    }
}

/// Returns the categories, with `with_details` also the largest tools or kinds of each.
pub fn ledger_rows(ledger: &TokenLedger, with_details: bool) -> Vec<LedgerRow> {
    const DETAILS: usize = 6;
    let whole = ledger.total().tokens();
    let mut rows = Vec::new();
    for category in CATEGORIES {
        let amount = ledger.category(category);
        if amount.count == 0 {
            continue;
        }
        rows.push(LedgerRow::new(&category.name().replace('_', " "), &amount, whole));
        let mut details = (ledger.entries.iter())
            .filter(|((of, name), _)| *of == category && !name.is_empty())
            .map(|((_, name), amount)| (name, amount))
            .collect::<Vec<_>>();
        if !with_details || details.is_empty() {
            continue;
        }
        details.sort_by_key(|(name, amount)| (Reverse(amount.tokens()), *name));
        let shown = details.iter().take(DETAILS);
        rows.extend(shown.map(|(name, amount)| LedgerRow::new(&format!("  {name}"), amount, whole)));
        if details.len() > DETAILS {
            let mut rest = TokenLedger::default();
            for (name, amount) in &details[DETAILS..] {
                rest.entries.insert((category, (*name).clone()), **amount);
            }
            rows.push(LedgerRow::new(
                &format!("  {} more", details.len() - DETAILS),
                &rest.total(),
                whole,
            ));
        }
    }
    rows
}

columns! {
    pub LEDGER_TABLE: LedgerRow;
    "category" "What filled the window" Text Always "Category, tool or kind of attachment." |r| &r.name;
    "blocks" "Blocks" Count Always "How many." |r| r.amount.count;
    "tokens" "Tokens" Tokens Always "Their size." |r| r.amount.tokens();
    "share" "Share" Share Always "Share of all tokens." |r| (r.whole > 0).then(|| r.amount.tokens() as f64 / r.whole as f64);
}

/// The calls and results of one tool.
pub struct ToolRow {
    tool: String,
    calls: Amount,
    results: Amount,
    whole: u64,
}

/// Returns the tools of a ledger, the largest first.
pub fn tool_rows(ledger: &TokenLedger) -> Vec<ToolRow> {
    let whole = ledger.total().tokens();
    let tools = (ledger.entries.keys())
        .filter(|(category, _)| matches!(category, Category::ToolCall | Category::ToolResult))
        .map(|(_, name)| name)
        .collect::<BTreeSet<_>>();
    let amount = |category: Category, tool: &str| {
        ledger
            .entries
            .get(&(category, tool.to_owned()))
            .copied()
            .unwrap_or_default()
    };
    let mut rows = tools
        .into_iter()
        .map(|tool| ToolRow {
            tool: tool.clone(),
            calls: amount(Category::ToolCall, tool),
            results: amount(Category::ToolResult, tool),
            whole,
        })
        .collect::<Vec<_>>();
    rows.sort_by_key(|row| (Reverse(row.calls.tokens() + row.results.tokens()), row.tool.clone()));
    rows
}

columns! {
    pub TOOL_COLUMNS: ToolRow;
    "tool" "Tool" Text Always "Name of the tool." |r| &r.tool;
    "calls" "Calls" Count Always "Calls." |r| r.calls.count;
    "call_tokens" "In calls" Tokens Always "Tokens of the calls." |r| r.calls.tokens();
    "results" "Results" Count Always "Results." |r| r.results.count;
    "result_tokens" "In results" Tokens Always "Tokens of the results." |r| r.results.tokens();
    "share" "Share" Share Always
        "Share of all tokens in the ledger." |r| (r.whole > 0).then(|| (r.calls.tokens() + r.results.tokens()) as f64 / r.whole as f64);
}
