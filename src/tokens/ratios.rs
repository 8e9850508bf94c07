//! Fitted sizes: how many tokens a block takes, by the family of its model.
//!
//! The ratios are data (`ratios.json`), fitted on real logs by `cargo run --release --example fit`; adding a model family
//! means running it on logs of that model. Sizes here are *estimates* and are marked as such wherever they are used.

use crate::session::log::{Block, BlockKind, Log};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// Ratios of one family of models that share a tokenizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratios {
    /// What the family is called in reports.
    pub name: String,
    /// First model version it covers, e.g. `[4, 7]`.
    pub from: (u32, u32),
    /// Tokens per UTF-16 unit of results that are code: files read, edits.
    pub code: f64,
    /// The same for terminal output and searches.
    pub terminal: f64,
    /// The same for prose: web pages, sub-agents, everything else.
    pub prose: f64,
    /// The same for acknowledgements of task lists.
    pub tasks: f64,
    /// The same for what users type and what the client puts in.
    pub user: f64,
    /// The same for assistant text.
    pub text: f64,
    /// The same for the serialised input of tool calls.
    pub call: f64,
    /// Tokens per character that JSON escapes (line breaks, quotes, tabs).
    pub escape: f64,
    /// The same inside tool calls.
    pub call_escape: f64,
    /// Tokens per UTF-8 byte beyond one per unit, up to 0.3 per unit.
    pub wide: f64,
    /// Tokens per such byte beyond that: other scripts than Latin. Assumed; the logs that were fitted hold none.
    pub script: f64,
    /// Tokens added per tool result.
    pub per_result: f64,
    /// Tokens added per user text.
    pub per_text: f64,
    /// Tokens added per tool call.
    pub per_call: f64,
    /// Tokens added per response.
    pub per_response: f64,
    /// Tokens per unit of a thinking signature.
    pub signature: f64,
    /// Tokens added per thinking block that has one.
    pub per_signature: f64,
    /// Tokens per unit of thinking without a signature.
    pub thinking: f64,
    /// Tokens per image or document.
    pub image: f64,
    /// How attachment sizes, which are given for the newest family, scale to this one.
    pub attachments: f64,
    /// Tokens per round that no record shows (reminders the client does not write down).
    pub drift: f64,
}

/// Size of a kind of attachment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachmentSize {
    /// `attachment.type`.
    pub kind: String,
    /// Tokens each.
    pub each: f64,
    /// Tokens per unit of its text.
    pub per_unit: f64,
    /// Nothing at all if it has no text.
    #[serde(default)]
    pub only_with_text: bool,
}

/// The whole data file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioTable {
    /// What the figures were fitted on.
    pub note: String,
    /// Families by first version, ascending.
    pub families: Vec<Ratios>,
    /// Attachments; a kind that is not listed takes nothing.
    pub attachments: Vec<AttachmentSize>,
}

static BUILT_IN: LazyLock<RatioTable> = LazyLock::new(|| {
    let text = include_str!("ratios.json");
    // A unit test reads the same file, so this cannot fail in a released binary.
    serde_json::from_str(text).unwrap_or_else(|error| unreachable!("ratios.json: {error}"))
});

impl RatioTable {
    /// The table that comes with the program.
    pub fn built_in() -> &'static RatioTable {
        &BUILT_IN
    }

    /// The family of a model. Unknown models are taken to be new.
    pub fn of(&self, model: &str) -> &Ratios {
        let version = model_version(model);
        let covering = self.families.iter().rev().find(|family| version.is_none_or(|version| family.from <= version));
        covering.unwrap_or(&self.families[0])
    }

    /// Estimated tokens of a block that is not part of a response.
    pub fn input(&self, ratios: &Ratios, block: &Block, log: &Log) -> f64 {
        let images = f64::from(block.images) * ratios.image;
        match block.kind {
            BlockKind::ToolResult => {
                let rate = match result_class(log.string(block.name)) {
                    ResultClass::Code => ratios.code,
                    ResultClass::Terminal => ratios.terminal,
                    ResultClass::Tasks => ratios.tasks,
                    ResultClass::Prose => ratios.prose,
                };
                ratios.text_size(rate, ratios.escape, block) + ratios.per_result + images
            }
            BlockKind::Image | BlockKind::Document => ratios.image,
            BlockKind::Attachment => self.attachment(ratios, block, log),
            _ => ratios.text_size(ratios.user, ratios.escape, block) + ratios.per_text + images,
        }
    }

    fn attachment(&self, ratios: &Ratios, block: &Block, log: &Log) -> f64 {
        let kind = log.string(block.name);
        let Some(size) = self.attachments.iter().find(|size| size.kind == kind) else {
            return 0.0;
        };
        if size.only_with_text && block.units == 0 {
            return 0.0;
        }
        ratios.attachments * (size.each + size.per_unit * f64::from(block.units))
    }

    /// Estimated tokens of a block of a response.
    pub fn output(&self, ratios: &Ratios, block: &Block, log: &Log) -> f64 {
        match block.kind {
            BlockKind::Thinking if block.extra > 0 => {
                (ratios.signature * f64::from(block.extra) + ratios.per_signature).max(0.0)
            }
            BlockKind::Thinking => ratios.thinking * f64::from(block.units),
            BlockKind::ToolCall => {
                // The plan in such a call is put into the log by the client; the model did not write it.
                let is_plan = log.string(block.name) == "ExitPlanMode";
                let input = if is_plan { 0.0 } else { ratios.text_size(ratios.call, ratios.call_escape, block) };
                input + ratios.per_call
            }
            _ => ratios.text_size(ratios.text, ratios.escape, block),
        }
    }
}

impl Ratios {
    fn text_size(&self, rate: f64, escape: f64, block: &Block) -> f64 {
        let units = f64::from(block.units);
        let wide = f64::from(block.wide);
        let latin = wide.min(0.3 * units);
        rate * units + escape * f64::from(block.escapes) + self.wide * latin + self.script * (wide - latin)
    }
}

/// What sort of text a tool's results are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultClass {
    /// Files and edits.
    Code,
    /// Shell output and searches.
    Terminal,
    /// Acknowledgements of task lists.
    Tasks,
    /// Everything else.
    Prose,
}

/// The class of a tool.
pub fn result_class(tool: &str) -> ResultClass {
    match tool {
        "Read" | "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => ResultClass::Code,
        "Bash" | "BashOutput" | "TaskOutput" | "KillShell" | "Grep" | "Glob" | "LS" => ResultClass::Terminal,
        "TodoWrite" | "TaskCreate" | "TaskUpdate" | "TaskList" | "TaskGet" | "TaskStop" => ResultClass::Tasks,
        _ => ResultClass::Prose,
    }
}

/// Version in a model's name: `claude-opus-4-5-20251101` is 4.5, `claude-sonnet-5` is 5.0. Dates are no versions.
pub fn model_version(model: &str) -> Option<(u32, u32)> {
    let mut numbers = model.split('-').filter_map(|part| {
        (part.len() <= 2).then(|| part.parse::<u32>().ok()).flatten()
    });
    let major = numbers.next()?;
    // `claude-3-5-sonnet`: both numbers stand before the name.
    Some((major, numbers.next().unwrap_or(0)))
}

/// Whether the model forgets the thinking of a turn once the next prompt comes.
pub fn drops_thinking(model: &str) -> bool {
    match model_version(model) {
        Some((major, _)) if major < 4 => true,
        Some((4, minor)) if minor < 5 => true,
        Some((4, 5)) => !model.contains("opus"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_sound() {
        let table: RatioTable = serde_json::from_str(include_str!("ratios.json")).unwrap();
        assert!(table.families.windows(2).all(|pair| pair[0].from < pair[1].from));
        assert_eq!(table.families[0].from, (0, 0), "the first family covers everything old");
    }

    #[test]
    fn versions_of_models() {
        let check = |model: &str, version| assert_eq!(model_version(model), version, "{model}");
        check("claude-opus-4-5-20251101", Some((4, 5)));
        check("claude-sonnet-4-20250514", Some((4, 0)));
        check("claude-4-opus-20250514", Some((4, 0)));
        check("claude-3-5-haiku-latest", Some((3, 5)));
        check("claude-sonnet-5", Some((5, 0)));
        check("claude-opus-5-5", Some((5, 5)));
        check("gpt-oss", None);
    }

    #[test]
    fn unknown_models_count_as_new() {
        let table = RatioTable::built_in();
        let newest = &table.families[table.families.len() - 1].name;
        assert_eq!(&table.of("somebody-elses-model").name, newest);
        assert_eq!(table.of("claude-opus-4-5-20251101").from, (0, 0));
    }
}
