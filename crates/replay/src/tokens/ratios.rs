//! Estimated sizes: how many tokens a block takes, by model family.
//!
//! A size is a sum of coefficient times amount. [`RatioTable::input_amounts`] and [`RatioTable::output_amounts`] list the
//! coefficients and amounts of a block; [`Ratios`] holds the values of the coefficients. Estimating and fitting use the
//! same amounts, so they cannot disagree about the meaning of a coefficient.
//!
//! The ratios are data (`ratios.json`), fitted on real logs by `cargo run --release --example fit`. To add a model family,
//! run that on logs of the model. Sizes from here are *estimates* and are marked as such wherever they are used.

use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};
use std::sync::LazyLock;
use transcript::log::{Block, BlockKind, Log};
use transcript::tools::tool_role;

/// Declares every coefficient once: as a field of [`Ratios`] (and so of `ratios.json`) and as a [`Coefficient`].
macro_rules! coefficients {
    ($($(#[$about:meta])+ $field:ident: $name:ident,)+) => {
        /// Ratios of one family of models that share a tokenizer.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Ratios {
            /// The name of the family in reports.
            pub name: String,
            /// First model version it covers, e.g. `[4, 7]`.
            pub from: (u32, u32),
            /// The logs that the ratios were fitted on.
            pub note: String,
            $($(#[$about])+ pub $field: f64,)+
            /// Tokens per round that no record shows: reminders that the client does not write to the log. Not part of
            /// any block's size; only a simulation over many rounds adds it.
            pub drift: f64,
        }

        /// A coefficient of [`Ratios`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Coefficient {
            $($(#[$about])+ $name,)+
        }

        impl Coefficient {
            /// All coefficients, in the order of the data file.
            pub const ALL: [Coefficient; [$(Coefficient::$name),+].len()] = [$(Coefficient::$name),+];

            /// Returns the name in the data file.
            pub fn name(self) -> &'static str {
                match self {
                    $(Coefficient::$name => stringify!($field),)+
                }
            }
        }

        impl Index<Coefficient> for Ratios {
            type Output = f64;

            #[inline]
            fn index(&self, coefficient: Coefficient) -> &f64 {
                match coefficient {
                    $(Coefficient::$name => &self.$field,)+
                }
            }
        }

        impl IndexMut<Coefficient> for Ratios {
            fn index_mut(&mut self, coefficient: Coefficient) -> &mut f64 {
                match coefficient {
                    $(Coefficient::$name => &mut self.$field,)+
                }
            }
        }
    };
}

coefficients! {
    /// Tokens per UTF-16 unit of results that are code: files read, edits.
    code: Code,
    /// Tokens per UTF-16 unit of terminal output and searches.
    terminal: Terminal,
    /// Tokens per UTF-16 unit of prose: web pages, sub-agent reports, everything else.
    prose: Prose,
    /// Tokens per UTF-16 unit of task list acknowledgements.
    tasks: Tasks,
    /// Tokens per UTF-16 unit of text by the user or inserted by the client.
    user: User,
    /// Tokens per UTF-16 unit of text by the model.
    text: Text,
    /// Tokens per UTF-16 unit of the serialized input of tool calls.
    call: Call,
    /// Tokens per character that JSON escapes (line breaks, quotes, tabs).
    escape: Escape,
    /// Tokens per escaped character inside tool calls.
    call_escape: CallEscape,
    /// Tokens per UTF-8 byte beyond one per unit, up to [`LATIN_MAX_WIDE`] per unit.
    wide: Wide,
    /// Tokens per such byte above that limit: scripts other than Latin. Assumed; the fitted logs contain none.
    script: Script,
    /// Tokens added per tool result.
    per_result: PerResult,
    /// Tokens added per user text.
    per_text: PerText,
    /// Tokens added per tool call.
    per_call: PerCall,
    /// Tokens added per response.
    per_response: PerResponse,
    /// Tokens per unit of a thinking signature.
    signature: Signature,
    /// Tokens added per thinking block with a signature.
    per_signature: PerSignature,
    /// Tokens per unit of thinking without a signature.
    thinking: Thinking,
    /// Tokens per image or document.
    image: Image,
    /// Factor from the attachment sizes of the claude-5 family, which the data file lists, to this family.
    attachments: Attachments,
}

/// Most bytes beyond one per UTF-16 unit of text in Latin script.
pub const LATIN_MAX_WIDE: f64 = 0.3;

/// The size of a kind of attachment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttachmentSize {
    /// `attachment.type`.
    pub kind: String,
    /// Tokens per attachment.
    pub each: f64,
    /// Tokens per UTF-16 unit of its text.
    pub per_unit: f64,
    /// Whether an attachment without text takes no tokens at all.
    #[serde(default)]
    pub only_with_text: bool,
    /// Length of the usual text that the client puts around it; `None` if the model does not see it as text, or if that is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered: Option<u32>,
}

/// The data file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioTable {
    /// How the ratios were obtained.
    pub note: String,
    /// Families by first model version, ascending.
    pub families: Vec<Ratios>,
    /// Attachments; a kind that is not listed takes no tokens.
    pub attachments: Vec<AttachmentSize>,
}

static BUILT_IN: LazyLock<RatioTable> = LazyLock::new(|| {
    let text = RatioTable::built_in_text();
    // A unit test reads the same file, so this cannot fail in a released binary.
    serde_json::from_str(text).unwrap_or_else(|error| unreachable!("ratios.json: {error}"))
});

impl RatioTable {
    /// Returns the text of the built-in table. Caches hash it, because another table gives other sizes.
    pub fn built_in_text() -> &'static str {
        include_str!("ratios.json")
    }

    /// Returns the built-in table.
    pub fn built_in() -> &'static RatioTable {
        &BUILT_IN
    }

    /// Returns the family of a model. Unknown models count as the newest family.
    pub fn for_model(&self, model: &str) -> &Ratios {
        let version = model_version(model);
        let covering = self
            .families
            .iter()
            .rev()
            .find(|family| version.is_none_or(|version| family.from <= version));
        covering.unwrap_or(&self.families[0])
    }

    /// Estimates the tokens of a block that is not part of a response.
    pub fn input(&self, ratios: &Ratios, block: &Block, log: &Log) -> f64 {
        let mut tokens = 0.0;
        self.input_amounts(block, log, &mut |coefficient, amount| {
            tokens += ratios[coefficient] * amount
        });
        tokens
    }

    /// Estimates the tokens of a block of a response.
    pub fn output(&self, ratios: &Ratios, block: &Block, log: &Log) -> f64 {
        let mut tokens = 0.0;
        self.output_amounts(block, log, &mut |coefficient, amount| {
            tokens += ratios[coefficient] * amount
        });
        // The per-signature coefficient is negative, so a very short signature would get a negative size.
        f64::max(tokens, 0.0)
    }

    /// Lists the coefficients and amounts of a block that is not part of a response.
    #[inline]
    pub fn input_amounts(&self, block: &Block, log: &Log, add: &mut impl FnMut(Coefficient, f64)) {
        match block.kind {
            BlockKind::Image | BlockKind::Document => return add(Coefficient::Image, 1.0),
            BlockKind::Attachment => return add(Coefficient::Attachments, self.attachment(block, log)),
            BlockKind::ToolResult => {
                text_amounts(block, result_rate(log.string(block.name)), Coefficient::Escape, add);
                add(Coefficient::PerResult, 1.0);
            }
            _ => {
                text_amounts(block, Coefficient::User, Coefficient::Escape, add);
                add(Coefficient::PerText, 1.0);
            }
        }
        add(Coefficient::Image, f64::from(block.images));
    }

    /// Lists the coefficients and amounts of a block of a response.
    #[inline]
    pub fn output_amounts(&self, block: &Block, log: &Log, add: &mut impl FnMut(Coefficient, f64)) {
        match block.kind {
            BlockKind::Thinking if block.extra > 0 => {
                add(Coefficient::Signature, f64::from(block.extra));
                add(Coefficient::PerSignature, 1.0);
            }
            BlockKind::Thinking => add(Coefficient::Thinking, f64::from(block.units)),
            BlockKind::ToolCall => {
                // The client inserts the plan into this call; the model did not write it.
                if log.string(block.name) != "ExitPlanMode" {
                    text_amounts(block, Coefficient::Call, Coefficient::CallEscape, add);
                }
                add(Coefficient::PerCall, 1.0);
            }
            _ => text_amounts(block, Coefficient::Text, Coefficient::Escape, add),
        }
    }

    /// Returns the length of the usual text around an attachment in the client's estimate; `None` for a kind that the model
    /// does not see as text.
    pub fn rendered_units(&self, kind: &str) -> Option<u32> {
        self.attachments.iter().find(|size| size.kind == kind)?.rendered
    }

    /// Returns the size of an attachment in the family that the data file gives sizes for.
    fn attachment(&self, block: &Block, log: &Log) -> f64 {
        let kind = log.string(block.name);
        let size = self.attachments.iter().find(|size| size.kind == kind);
        match size {
            Some(size) if block.units > 0 || !size.only_with_text => size.each + size.per_unit * f64::from(block.units),
            _ => 0.0,
        }
    }
}

/// Lists the amounts of a text: `rate` applies to its units, `escape` to its escaped characters.
#[inline]
fn text_amounts(block: &Block, rate: Coefficient, escape: Coefficient, add: &mut impl FnMut(Coefficient, f64)) {
    let units = f64::from(block.units);
    let wide = f64::from(block.wide);
    let latin = wide.min(LATIN_MAX_WIDE * units);
    add(rate, units);
    add(escape, f64::from(block.escapes));
    add(Coefficient::Wide, latin);
    add(Coefficient::Script, wide - latin);
}

/// Returns the coefficient for the units of a tool's results.
fn result_rate(tool: &str) -> Coefficient {
    match tool_role(tool, false) {
        "Read" | "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => Coefficient::Code,
        "Bash" | "BashOutput" | "TaskOutput" | "KillShell" | "Grep" | "Glob" | "LS" => Coefficient::Terminal,
        "TodoWrite" | "TaskCreate" | "TaskUpdate" | "TaskList" | "TaskGet" | "TaskStop" => Coefficient::Tasks,
        _ => Coefficient::Prose,
    }
}

/// Returns the version in a model's name: `claude-opus-4-5-20251101` is 4.5, `claude-sonnet-5` is 5.0. `None` if the name
/// has no number of at most two digits, so dates do not count.
pub fn model_version(model: &str) -> Option<(u32, u32)> {
    let mut numbers = model
        .split('-')
        .filter_map(|part| (part.len() <= 2).then(|| part.parse::<u32>().ok()).flatten());
    let major = numbers.next()?;
    // Also covers `claude-3-5-sonnet`, where both numbers precede the name.
    Some((major, numbers.next().unwrap_or(0)))
}

/// Returns whether the API drops the thinking of a turn once the next prompt comes.
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
        assert_eq!(&table.for_model("somebody-elses-model").name, newest);
        assert_eq!(table.for_model("claude-opus-4-5-20251101").from, (0, 0));
    }
}
