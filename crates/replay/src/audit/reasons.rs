//! Why `validate` cannot judge a boundary or a prediction.

named_enum! {
    /// Why a boundary cannot be judged.
    pub enum UndecidableReason {
        /// The record that it followed is missing from the log.
        LeafMissing = "leaf-missing",
        /// No call before it has usage.
        NoUsage = "no-usage",
        /// The size of the window is not known.
        WindowUnknown = "window-unknown",
        /// The client was too old to write boundary records.
        OldClient = "old-client",
        /// The client's own count was below the threshold, so a different threshold applied.
        OtherThreshold = "other-threshold",
        /// Prompts passed the threshold again and again: automatic compaction was off, or started later.
        NotInForce = "not-in-force",
        /// Images were cleared, which no policy models.
        Images = "images",
        /// Results in the log differ in size from what the client counted, because their text was masked.
        Masked = "masked",
        /// The agent clears results by a rule that no policy has.
        NotModeled = "not-modeled",
    }
}

impl UndecidableReason {
    /// Returns the reason as a sentence fragment for people.
    pub fn about(self) -> &'static str {
        match self {
            UndecidableReason::LeafMissing => "the message that it followed was never written",
            UndecidableReason::NoUsage => "no call before it has usage",
            UndecidableReason::WindowUnknown => "nothing tells how large the window was",
            UndecidableReason::OldClient => "the client wrote a summary and no boundary",
            UndecidableReason::OtherThreshold => "the record itself shows that another threshold was in force",
            UndecidableReason::NotInForce => {
                "prompts passed the threshold without a compaction: the user had it off or set it higher"
            }
            UndecidableReason::Images => "images were cleared, and no policy models that",
            UndecidableReason::NotModeled => "this agent clears results by a rule that no policy has",
            UndecidableReason::Masked => "texts in the log are not of the size that the client counted",
        }
    }
}
