//! Types of policy values, and how they are read from and written to TOML.

use toml::Value;

/// A type of policy values.
pub trait PolicyValue: Clone + PartialEq {
    /// Converts from TOML; the error says what is allowed.
    fn read(value: &Value) -> Result<Self, String>;
    /// Converts to TOML.
    fn write(&self) -> Value;
    /// Describes the allowed values.
    fn expects() -> String;
}

impl PolicyValue for bool {
    fn read(value: &Value) -> Result<bool, String> {
        value.as_bool().ok_or_else(|| mismatch_message::<bool>(value))
    }

    fn write(&self) -> Value {
        Value::Boolean(*self)
    }

    fn expects() -> String {
        "true or false".to_owned()
    }
}

impl PolicyValue for u64 {
    fn read(value: &Value) -> Result<u64, String> {
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        // Larger sizes are typing errors, and sums of them could overflow.
        number
            .filter(|number| *number <= 1 << 40)
            .ok_or_else(|| mismatch_message::<u64>(value))
    }

    fn write(&self) -> Value {
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }

    fn expects() -> String {
        "a whole number from 0".to_owned()
    }
}

impl PolicyValue for f64 {
    fn read(value: &Value) -> Result<f64, String> {
        let number = value
            .as_float()
            .or_else(|| value.as_integer().map(|number| number as f64));
        number
            .filter(|number| number.is_finite() && *number >= 0.0)
            .ok_or_else(|| mismatch_message::<f64>(value))
    }

    fn write(&self) -> Value {
        Value::Float(*self)
    }

    fn expects() -> String {
        "a number from 0".to_owned()
    }
}

impl PolicyValue for String {
    fn read(value: &Value) -> Result<String, String> {
        let text = value.as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned).ok_or_else(|| mismatch_message::<String>(value))
    }

    fn write(&self) -> Value {
        Value::String(self.clone())
    }

    fn expects() -> String {
        "a text".to_owned()
    }
}

/// `None` is written as `"none"`, because TOML has no null.
impl<T: PolicyValue> PolicyValue for Option<T> {
    fn read(value: &Value) -> Result<Option<T>, String> {
        if value.as_str() == Some("none") {
            return Ok(None);
        }
        T::read(value)
            .map(Some)
            .map_err(|_| mismatch_message::<Option<T>>(value))
    }

    fn write(&self) -> Value {
        self.as_ref().map_or_else(|| Value::String("none".into()), T::write)
    }

    fn expects() -> String {
        format!("\"none\" or {}", T::expects())
    }
}

impl PolicyValue for Vec<String> {
    fn read(value: &Value) -> Result<Vec<String>, String> {
        let texts = value
            .as_array()
            .map(|list| list.iter().map(|text| text.as_str().map(str::to_owned)));
        texts
            .and_then(|texts| texts.collect::<Option<Vec<_>>>())
            .ok_or_else(|| mismatch_message::<Vec<String>>(value))
    }

    fn write(&self) -> Value {
        Value::Array(self.iter().cloned().map(Value::String).collect())
    }

    fn expects() -> String {
        "a list of texts".to_owned()
    }
}

/// Context windows for single models, each written as `model=tokens`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelWindows(Vec<(String, u64)>);

impl ModelWindows {
    /// Returns the window of a model, if there is one. The date at the end of a model's name does not matter.
    pub fn find(&self, model: &str) -> Option<u64> {
        let family = model_family(model);
        let found = self.0.iter().find(|(name, _)| model_family(name) == family);
        found.map(|(_, tokens)| *tokens)
    }
}

impl PolicyValue for ModelWindows {
    fn read(value: &Value) -> Result<ModelWindows, String> {
        let parse = |text: &str| {
            let (model, tokens) = text.rsplit_once('=')?;
            let tokens = tokens.trim().parse::<u64>().ok()?;
            (!model.is_empty() && tokens > 0).then(|| (model.trim().to_owned(), tokens))
        };
        let list = value
            .as_array()
            .map(|list| list.iter().map(|text| parse(text.as_str()?)));
        list.and_then(Iterator::collect::<Option<Vec<_>>>)
            .map(ModelWindows)
            .ok_or_else(|| mismatch_message::<ModelWindows>(value))
    }

    fn write(&self) -> Value {
        let texts = self.0.iter().map(|(model, tokens)| format!("{model}={tokens}"));
        Value::Array(texts.map(Value::String).collect())
    }

    fn expects() -> String {
        "a list of texts of the form \"model=tokens\"".to_owned()
    }
}

/// Returns a model's name without vendor, date and the mark of a large window.
pub fn model_family(model: &str) -> &str {
    let name = model.strip_prefix("claude-").unwrap_or(model);
    let name = name.strip_suffix("[1m]").unwrap_or(name);
    match name.rsplit_once('-') {
        Some((name, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

fn mismatch_message<T: PolicyValue>(value: &Value) -> String {
    format!("`{value}` is not {}", T::expects())
}

/// Declares an enum whose variants are words in TOML.
macro_rules! choice {
    ($(#[$about:meta])+ $name:ident { $($(#[$variant_about:meta])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_about])+ $variant,)+
        }

        impl PolicyValue for $name {
            fn read(value: &Value) -> Result<$name, String> {
                match value.as_str() {
                    $(Some($word) => Ok($name::$variant),)+
                    _ => Err(mismatch_message::<$name>(value)),
                }
            }

            fn write(&self) -> Value {
                let word = match self {
                    $($name::$variant => $word,)+
                };
                Value::String(word.to_owned())
            }

            fn expects() -> String {
                [$(concat!("\"", $word, "\"")),+].join(", ").replacen("\"", "one of \"", 1)
            }
        }
    };
}

choice! {
    /// How the reserve for the summary depends on the model's output limit.
    ReserveRule {
        /// It does not.
        Fixed = "fixed",
        /// The smaller of reserve and limit.
        Min = "min",
        /// The larger of reserve and limit.
        Max = "max",
        /// The limit is the reserve.
        Limit = "limit",
    }
}

choice! {
    /// Which output of the last response the client counts.
    OutputCount {
        /// The final count.
        Final = "final",
        /// The count on its first line, often from the middle of the stream.
        Recorded = "recorded",
    }
}

choice! {
    /// What the client estimates beyond the last usage.
    TrailEstimate {
        /// Nothing.
        None = "none",
        /// Blocks after the last response: results, prompts.
        User = "user",
        /// Those, and the text of later lines of the response itself.
        Text = "text",
        /// Those, all later lines of the response, and attachments as the model sees them.
        All = "all",
    }
}

choice! {
    /// Where the size of a summary comes from.
    SummarySize {
        /// The summary recorded at this place if there is one, else as `learned`.
        Recorded = "recorded",
        /// The median of all recorded summaries if there are any, else as `fixed`.
        Learned = "learned",
        /// `compact.summary_tokens`.
        Fixed = "fixed",
    }
}

choice! {
    /// What a compaction summarizes.
    SummaryRange {
        /// Everything.
        Whole = "whole",
        /// Messages from the pivot on; earlier ones stay.
        From = "from",
        /// Messages before the pivot; later ones stay.
        UpTo = "up_to",
    }
}

choice! {
    /// What a compaction by a model call keeps verbatim.
    KeptMessages {
        /// Nothing.
        None = "none",
        /// The newest messages.
        Tail = "tail",
        /// The newest prompts of the user.
        Prompts = "prompts",
    }
}

choice! {
    /// What happens to a file that is too large to be restored.
    LargeFile {
        /// A reference to it is restored.
        Reference = "reference",
        /// Its beginning is restored.
        Cut = "cut",
        /// It is not restored.
        Skip = "skip",
    }
}

choice! {
    /// What a compaction by notes restores.
    NotesRestore {
        /// The plan file.
        Plan = "plan",
        /// All that a full compaction restores.
        All = "all",
    }
}

choice! {
    /// The lifetime of the prompt cache.
    CacheLife {
        /// As the recorded usage of each call shows.
        Recorded = "recorded",
        /// Five minutes.
        FiveMinutes = "5m",
        /// One hour.
        OneHour = "1h",
    }
}

/// The size of the context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSize {
    /// Inferred from the model and the record.
    Auto,
    /// This many tokens.
    Tokens(u64),
}

impl PolicyValue for WindowSize {
    fn read(value: &Value) -> Result<WindowSize, String> {
        match value {
            Value::String(word) if word == "auto" => Ok(WindowSize::Auto),
            _ => u64::read(value)
                .ok()
                .filter(|tokens| *tokens > 0)
                .map(WindowSize::Tokens)
                .ok_or_else(|| mismatch_message::<WindowSize>(value)),
        }
    }

    fn write(&self) -> Value {
        match self {
            WindowSize::Auto => Value::String("auto".into()),
            WindowSize::Tokens(tokens) => tokens.write(),
        }
    }

    fn expects() -> String {
        "\"auto\" or a number of tokens".to_owned()
    }
}
