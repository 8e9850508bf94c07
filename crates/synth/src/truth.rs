//! The truth about generated logs: what a correct reader must find in them.
//!
//! Every number is counted while the logs are written and never read back from them, so a test that compares the two
//! compares independent results.

use crate::json::quoted;
use std::collections::BTreeMap;

/// Token counts of one or more responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TruthTally {
    pub responses: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_5m_tokens: u64,
    pub cache_write_1h_tokens: u64,
}

impl TruthTally {
    pub fn add(&mut self, other: &TruthTally) {
        self.responses += other.responses;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_5m_tokens += other.cache_write_5m_tokens;
        self.cache_write_1h_tokens += other.cache_write_1h_tokens;
    }

    /// Returns the counts with their JSON keys, in order.
    fn fields(&self) -> [(&'static str, u64); 6] {
        [
            ("responses", self.responses),
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
            ("cache_read_tokens", self.cache_read_tokens),
            ("cache_write_5m_tokens", self.cache_write_5m_tokens),
            ("cache_write_1h_tokens", self.cache_write_1h_tokens),
        ]
    }
}

/// What a correct reader must find in a tree of logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// Number of `.jsonl` files.
    pub files: u64,
    pub bytes: u64,
    /// Physical lines, including an unterminated last one.
    pub lines: u64,
    /// Damaged physical lines by kind. CR LF is listed although it parses.
    pub damaged_lines: BTreeMap<&'static str, u64>,
    /// Records that were written but cannot be read back.
    pub lost_records: u64,
    /// Unfinished last lines: records still being written, neither damaged nor lost.
    pub pending_tails: u64,
    /// Readable records by `type`, including repaired ones and copies.
    pub records: BTreeMap<String, u64>,
    /// Main session logs with at least one record.
    pub sessions: u64,
    /// Sub-agent logs.
    pub subagents: u64,
    /// Branches that the user abandoned by going back and asking again.
    pub rewound_branches: u64,
    pub boundaries_auto: u64,
    pub boundaries_manual: u64,
    pub boundaries_micro: u64,
    /// Records that repeat an earlier one: in resumed and forked sessions, and in sub-agent logs.
    pub copied_records: u64,
    /// Every response once, with the largest output recorded for it.
    pub totals: TruthTally,
    pub models: BTreeMap<String, TruthTally>,
    /// True output of the same responses: more than `totals.output_tokens` where only a count from the middle of the stream
    /// was recorded.
    pub produced_output_tokens: u64,
}

impl Truth {
    pub fn record(&mut self, kind: &str) {
        match self.records.get_mut(kind) {
            Some(count) => *count += 1,
            None => {
                self.records.insert(kind.to_owned(), 1);
            }
        }
    }

    pub fn damage(&mut self, kind: &'static str) {
        *self.damaged_lines.entry(kind).or_default() += 1;
    }

    pub fn response(&mut self, model: &str, tally: &TruthTally, produced: u64) {
        self.totals.add(tally);
        self.models.entry(model.to_owned()).or_default().add(tally);
        self.produced_output_tokens += produced;
    }

    pub fn merge(&mut self, other: &Truth) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.lines += other.lines;
        for (kind, count) in &other.damaged_lines {
            *self.damaged_lines.entry(kind).or_default() += count;
        }
        self.lost_records += other.lost_records;
        self.pending_tails += other.pending_tails;
        for (kind, count) in &other.records {
            *self.records.entry(kind.clone()).or_default() += count;
        }
        self.sessions += other.sessions;
        self.subagents += other.subagents;
        self.rewound_branches += other.rewound_branches;
        self.boundaries_auto += other.boundaries_auto;
        self.boundaries_manual += other.boundaries_manual;
        self.boundaries_micro += other.boundaries_micro;
        self.copied_records += other.copied_records;
        self.totals.add(&other.totals);
        for (model, tally) in &other.models {
            self.models.entry(model.clone()).or_default().add(tally);
        }
        self.produced_output_tokens += other.produced_output_tokens;
    }

    /// Returns indented JSON with keys in a fixed order, ending with a newline.
    pub fn to_json(&self) -> String {
        self.to_json_with(&[])
    }

    /// Returns the same JSON with some strings of the caller's at the start, such as the name of a case.
    pub fn to_json_with(&self, lead: &[(&str, &str)]) -> String {
        let mut out = String::from("{\n  \"schema_version\": 1");
        for (key, value) in lead {
            out.push_str(&format!(",\n  {}: {}", quoted(key), quoted(value)));
        }
        let mut number = |key: &str, value: u64| out.push_str(&format!(",\n  \"{key}\": {value}"));
        number("files", self.files);
        number("bytes", self.bytes);
        number("lines", self.lines);
        number("lost_records", self.lost_records);
        number("pending_tails", self.pending_tails);
        number("sessions", self.sessions);
        number("subagents", self.subagents);
        number("rewound_branches", self.rewound_branches);
        number("boundaries_auto", self.boundaries_auto);
        number("boundaries_manual", self.boundaries_manual);
        number("boundaries_micro", self.boundaries_micro);
        number("copied_records", self.copied_records);
        number("produced_output_tokens", self.produced_output_tokens);
        let counts = |map: &mut dyn Iterator<Item = (&str, u64)>, indent: &str| {
            let rows: Vec<String> = map
                .map(|(key, value)| format!("{indent}  {}: {value}", quoted(key)))
                .collect();
            if rows.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{\n{}\n{indent}}}", rows.join(",\n"))
            }
        };
        let damaged = counts(
            &mut self.damaged_lines.iter().map(|(kind, count)| (*kind, *count)),
            "  ",
        );
        let records = counts(
            &mut self.records.iter().map(|(kind, count)| (kind.as_str(), *count)),
            "  ",
        );
        let totals = counts(&mut self.totals.fields().into_iter(), "  ");
        out.push_str(&format!(
            ",\n  \"damaged_lines\": {damaged},\n  \"records\": {records},\n  \"totals\": {totals}"
        ));
        let models: Vec<String> = self
            .models
            .iter()
            .map(|(model, tally)| {
                format!(
                    "    {}: {}",
                    quoted(model),
                    counts(&mut tally.fields().into_iter(), "    ")
                )
            })
            .collect();
        let models = if models.is_empty() {
            "{}".to_owned()
        } else {
            format!("{{\n{}\n  }}", models.join(",\n"))
        };
        out.push_str(&format!(",\n  \"models\": {models}\n}}\n"));
        out
    }
}
