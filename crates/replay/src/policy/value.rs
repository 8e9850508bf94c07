//! What a policy value can be, and how it is read from and written to TOML.

use toml::Value;

/// A type that a policy value can have.
pub trait PolicyValue: Clone + PartialEq {
    /// Reads it.
    fn read(value: &Value) -> Result<Self, String>;
    /// Writes it.
    fn write(&self) -> Value;
    /// What is allowed, in words.
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
        // Sizes beyond this cannot be meant, and sums of them must not overflow.
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

/// Nothing is written as `"none"`: TOML has no word for it.
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

fn mismatch_message<T: PolicyValue>(value: &Value) -> String {
    format!("`{value}` is not {}", T::expects())
}

/// A value that is one of a few words.
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
    /// How the model's output limit bears on the reserve for the summary.
    ReserveRule {
        /// Not at all.
        Fixed = "fixed",
        /// The smaller of both.
        Min = "min",
        /// The larger of both.
        Max = "max",
        /// The limit is the reserve.
        Limit = "limit",
    }
}

choice! {
    /// Which output of the last response the client counts.
    OutputCount {
        /// What it came to in the end.
        Final = "final",
        /// What its first line says, often a streaming partial.
        Recorded = "recorded",
    }
}

choice! {
    /// What the client estimates beyond the last usage.
    TrailEstimate {
        /// Nothing.
        None = "none",
        /// What came after the last response: results, prompts.
        User = "user",
        /// That, the later lines of the response itself, and what hooks printed.
        All = "all",
    }
}

choice! {
    /// Where the size of a summary comes from.
    SummarySize {
        /// The recorded one if one was recorded at this place, else as `learned`.
        Recorded = "recorded",
        /// The median of the recorded ones, else as `fixed`.
        Learned = "learned",
        /// `compact.summary_tokens`.
        Fixed = "fixed",
    }
}

choice! {
    /// What a compaction summarises.
    SummaryRange {
        /// Everything.
        Whole = "whole",
        /// What came from the pivot on; earlier messages stay.
        From = "from",
        /// What came before the pivot; later messages stay.
        UpTo = "up_to",
    }
}

choice! {
    /// What becomes of a file that is too large to be restored.
    LargeFile {
        /// Its beginning comes back.
        Cut = "cut",
        /// It does not come back.
        Skip = "skip",
    }
}

choice! {
    /// How long the prompt cache lives.
    CacheLife {
        /// As the recorded usage shows, call by call.
        Recorded = "recorded",
        /// Five minutes.
        FiveMinutes = "5m",
        /// One hour.
        OneHour = "1h",
    }
}

/// Size of the context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSize {
    /// Inferred from the model and what was recorded.
    Auto,
    /// Known.
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
