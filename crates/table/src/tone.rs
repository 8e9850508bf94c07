//! The meaning of colors: one for failures, one for warnings, one for success. Nothing else is colored.

/// What a colored word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Bad,
    Doubtful,
    Good,
    /// A heading.
    Strong,
    /// Text that a reader can skip.
    Faint,
}

impl Tone {
    /// Returns the tone of a verdict by its first word; `None` for words that do not judge.
    pub(super) fn from_verdict(verdict: &str) -> Option<Tone> {
        let first = verdict.split([' ', ',']).next().unwrap_or_default();
        match first {
            "exceeded" | "grew" | "missed" | "spurious" => Some(Tone::Bad),
            "early" | "late" | "lower" | "high" | "higher" | "little" | "again" | "slow" | "unknown" => {
                Some(Tone::Doubtful)
            }
            // "as expected"
            "within" | "exact" | "as" => Some(Tone::Good),
            _ => None,
        }
    }

    pub(super) fn color(self) -> comfy_table::Color {
        match self {
            // The dark variants are readable on light and on dark backgrounds.
            Tone::Bad => comfy_table::Color::DarkRed,
            Tone::Doubtful => comfy_table::Color::DarkYellow,
            Tone::Good => comfy_table::Color::DarkGreen,
            Tone::Strong | Tone::Faint => comfy_table::Color::Reset,
        }
    }

    /// Returns the escape sequence that switches a terminal to it.
    pub(super) fn ansi_code(self) -> &'static str {
        match self {
            Tone::Bad => "\u{1b}[31m",
            Tone::Doubtful => "\u{1b}[33m",
            Tone::Good => "\u{1b}[32m",
            Tone::Strong => "\u{1b}[1m",
            Tone::Faint => "\u{1b}[2m",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_have_the_tone_of_their_first_word() {
        assert_eq!(Tone::from_verdict("grew, slow"), Some(Tone::Bad));
        assert_eq!(Tone::from_verdict("lower"), Some(Tone::Doubtful));
        assert_eq!(Tone::from_verdict("within"), Some(Tone::Good));
        assert_eq!(Tone::from_verdict("something else"), None);
    }
}
