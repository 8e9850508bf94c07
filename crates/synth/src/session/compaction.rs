//! Compaction as the client does it: the checks before a call, micro-compaction, boundaries, summaries, and the segments
//! that newer clients preserve.

use crate::json::{Uuid, quoted, timestamp};
use crate::session::{AssistantLine, SynthBlock, SynthCall, SynthContext, SynthSession, client_estimate, string_value};
use crate::words::{SynthText, TextFlavor};
use std::io::{self, Write};

/// Tokens below the threshold at which micro-compaction starts.
const MICRO_MARGIN: u64 = 20_000;
/// Estimated tokens of results that stay.
const MICRO_KEEP: u64 = 40_000;
/// Estimated tokens that micro-compaction has to save.
const MICRO_LEAST: u64 = 20_000;

/// A tool result that may still be cleared by micro-compaction.
pub(super) struct UnclearedResult {
    pub(super) id: String,
    /// The client's estimate: characters / 4.
    pub(super) estimate: u64,
    pub(super) tokens: u64,
}

impl<W: Write> SynthSession<'_, W> {
    /// Returns the context as the client's automatic check counts it.
    pub fn checked_size(&self) -> u64 {
        let trail = if self.client.checks_trailing_blocks() {
            self.context.trail
        } else {
            0
        };
        self.context.last_input + self.context.last_output + trail
    }

    /// Runs the client's checks before a call: micro-compaction, then the automatic boundary. Returns whether a boundary was
    /// written.
    pub fn compact_if_due(&mut self) -> io::Result<bool> {
        if self.context.last_input == 0 {
            return Ok(false);
        }
        // The automatic check still counts what micro-compaction has just cleared.
        let checked = self.checked_size();
        if self.client.has_micro_compaction()
            && self.context.last_input + self.context.last_recorded >= self.threshold - MICRO_MARGIN
        {
            self.micro_compact()?;
        }
        if checked < self.threshold {
            return Ok(false);
        }
        self.compact("auto", checked)?;
        Ok(true)
    }

    /// Clears the oldest results down to the budget, if that saves enough.
    fn micro_compact(&mut self) -> io::Result<()> {
        let before: u64 = self.context.clearable.iter().map(|result| result.estimate).sum();
        let mut remaining = before;
        let mut count = 0;
        for result in &self.context.clearable {
            if remaining <= MICRO_KEEP {
                break;
            }
            remaining -= result.estimate;
            count += 1;
        }
        let saved = before - remaining;
        if saved < MICRO_LEAST {
            return Ok(());
        }
        let cleared: Vec<UnclearedResult> = self.context.clearable.drain(..count).collect();
        let ids: Vec<String> = cleared.iter().map(|result| format!("\"{}\"", result.id)).collect();
        let uuid = Uuid::new(&mut self.rng);
        self.open(self.leaf);
        self.put(
            ",\"type\":\"system\",\"subtype\":\"microcompact_boundary\",\"content\":\"Context microcompacted\",\"isMeta\":false",
        );
        let now = timestamp(self.now);
        self.put(&format!(
            ",\"timestamp\":\"{now}\",\"uuid\":\"{}\",\"level\":\"info\",\"microcompactMetadata\":{{\"trigger\":\"auto\",\
             \"preTokens\":{before},\"tokensSaved\":{saved},\"compactedToolIds\":[{}],\"clearedAttachmentUUIDs\":[]}}",
            uuid.as_str(),
            ids.join(",")
        ));
        self.close_prefix();
        if self.close("system")? {
            self.truth.boundaries_micro += 1;
        }
        self.leaf = Some(uuid);
        let freed: u64 = cleared.iter().map(|result| result.tokens.saturating_sub(12)).sum();
        self.context.size = self.context.size.saturating_sub(freed).max(self.context.base);
        // The prefix changed after the system prompt, so only that much is still cached.
        self.context.cached = self.context.base;
        Ok(())
    }

    /// Writes a boundary and the summary that continues the session.
    pub fn compact(&mut self, trigger: &str, before: u64) -> io::Result<Uuid> {
        let logical = self.leaf;
        let summary = Uuid::new(&mut self.rng);
        if !self.client.has_subtypes() {
            // The first clients wrote no boundary: only the summary shows that the session started over.
            self.leaf = None;
            self.close_prefix();
            return self.summary(summary);
        }
        self.boundary(trigger, before, logical, summary, &[])?;
        self.summary(summary)
    }

    /// Lets the time of a compaction pass and returns its `compactMetadata`.
    fn boundary_metadata(&mut self, trigger: &str, before: u64, summary: Uuid, kept: &[Uuid]) -> String {
        let started = self.now;
        self.wait(20_000, 150_000);
        let mut metadata = format!("{{\"trigger\":\"{trigger}\",\"preTokens\":{before}");
        if self.client.has_iterations() {
            let after = self.rng.range(9_000, 18_000).min(before / 2);
            self.context.dropped += before - after;
            metadata.push_str(&format!(
                ",\"postTokens\":{after},\"cumulativeDroppedTokens\":{},\"durationMs\":{},\"preCompactDiscoveredTools\":[\"WebFetch\"]",
                self.context.dropped,
                self.now - started
            ));
        }
        if let (Some(head), Some(tail)) = (kept.first(), kept.last()) {
            let list: Vec<String> = kept.iter().map(|uuid| quoted(uuid.as_str())).collect();
            let list = list.join(",");
            metadata.push_str(&format!(
                ",\"preservedSegment\":{{\"headUuid\":\"{}\",\"anchorUuid\":\"{}\",\"tailUuid\":\"{}\"}},\
                 \"preservedMessages\":{{\"anchorUuid\":\"{}\",\"uuids\":[{list}],\"allUuids\":[{list}]}}",
                head.as_str(),
                summary.as_str(),
                tail.as_str(),
                summary.as_str()
            ));
        }
        metadata.push('}');
        metadata
    }

    /// Writes a boundary record. `logical` is the record that it follows, `kept` are the preserved records that are written
    /// after it.
    pub fn boundary(
        &mut self,
        trigger: &str,
        before: u64,
        logical: Option<Uuid>,
        summary: Uuid,
        kept: &[Uuid],
    ) -> io::Result<Uuid> {
        let uuid = Uuid::new(&mut self.rng);
        let metadata = self.boundary_metadata(trigger, before, summary, kept);
        let now = timestamp(self.now);
        self.open(None);
        // The logical parent follows the parent, which is null for a boundary.
        let logical = logical
            .map(|leaf| quoted(leaf.as_str()))
            .unwrap_or_else(|| "null".to_owned());
        let head = b"{\"parentUuid\":null".len();
        self.record
            .line
            .splice(head..head, format!(",\"logicalParentUuid\":{logical}").into_bytes());
        self.put(",\"type\":\"system\",\"subtype\":\"compact_boundary\",\"content\":\"Conversation compacted\"");
        if self.client.has_late_envelope() {
            self.put(&format!(",\"level\":\"info\",\"compactMetadata\":{metadata}"));
            self.stamp(uuid);
        } else {
            self.put(&format!(
                ",\"isMeta\":false,\"timestamp\":\"{now}\",\"uuid\":\"{}\",\"level\":\"info\",\"compactMetadata\":{metadata}",
                uuid.as_str()
            ));
        }
        self.close_prefix();
        if self.close("system")? {
            match trigger {
                "auto" => self.truth.boundaries_auto += 1,
                _ => self.truth.boundaries_manual += 1,
            }
        }
        self.leaf = Some(uuid);
        Ok(uuid)
    }

    /// Writes the summary after a boundary. The context starts over from it.
    pub fn summary(&mut self, uuid: Uuid) -> io::Result<Uuid> {
        let mut text = SynthText::of("The conversation before this point was condensed. What matters of it:\n\n");
        let units = self.rng.range(6_000, 16_000);
        self.pools.write(&mut self.rng, TextFlavor::English, units, &mut text);
        let content = string_value(&text);
        self.open_user(self.leaf);
        self.put(",\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":");
        self.put_bytes(&content);
        self.put("},\"isVisibleInTranscriptOnly\":true,\"isCompactSummary\":true");
        self.stamp(uuid);
        self.close("user")?;
        self.leaf = Some(uuid);
        let rest = self.rng.range(8_000, 12_000);
        let base = self.context.base;
        self.context = SynthContext {
            base,
            size: base + rest + text.tokens(self.density()),
            // Only the system prompt stays in the cache.
            cached: base * 4 / 5,
            cached_at: self.now,
            dropped: self.context.dropped,
            ..SynthContext::default()
        };
        Ok(uuid)
    }

    /// Returns the context that the automatic check would count after a response of these blocks and its results.
    pub fn size_after(&self, blocks: &[SynthBlock]) -> u64 {
        let output: u64 = blocks.iter().map(|block| block.tokens).sum();
        let calls = blocks.iter().filter_map(|block| block.call.as_ref());
        self.context.size + output + calls.map(|call| client_estimate(call.outcome.units)).sum::<u64>()
    }

    /// Writes a boundary that preserves the newest response. The response and its results are written after the boundary,
    /// with their earlier timestamps and zeroed usage; only the iterations show what was billed.
    pub fn compact_preserving(&mut self, blocks: &[SynthBlock]) -> io::Result<()> {
        let output = blocks.iter().map(|block| block.tokens).sum::<u64>().max(4);
        let mut response = self.begin_response(output);
        response.zeroed = true;
        response.iterations = vec![response.usage.clone()];
        self.wait(2_000, 9_000);
        let answered = self.now;
        let calls: Vec<&SynthCall> = blocks.iter().filter_map(|block| block.call.as_ref()).collect();
        let line_ids: Vec<Uuid> = blocks.iter().map(|_| Uuid::new(&mut self.rng)).collect();
        let summary = Uuid::new(&mut self.rng);
        let trail: u64 = calls.iter().map(|call| client_estimate(call.outcome.units)).sum();
        let before = response.usage.input_side() + output + trail;
        self.wait(2_000, 20_000);
        let result_ids: Vec<Uuid> = calls.iter().map(|_| Uuid::new(&mut self.rng)).collect();
        let kept: Vec<Uuid> = line_ids.iter().chain(&result_ids).copied().collect();
        self.boundary("auto", before, kept.last().copied(), summary, &kept)?;
        self.summary(summary)?;
        let resumed = self.now;
        self.now = answered;
        let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
        for (block, uuid) in blocks.iter().zip(&line_ids) {
            let line = AssistantLine {
                parent: self.leaf,
                block: &block.json,
                output: 0,
                stop: Some(stop),
            };
            self.assistant_as(*uuid, &mut response, line)?;
            self.now += 700;
        }
        let sources = blocks.iter().zip(&line_ids).filter(|(block, _)| block.call.is_some());
        let tokens: u64 = calls.iter().map(|call| call.outcome.tokens).sum();
        for ((call, (_, source)), uuid) in calls.iter().zip(sources).zip(&result_ids) {
            let (content, after) = self.result_record(call, *source);
            self.now += 900;
            self.open_user(Some(*source));
            self.put(",\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":");
            self.put_bytes(&content);
            self.put("}");
            self.stamp(*uuid);
            self.put_bytes(&after);
            self.close("user")?;
            self.leaf = Some(*uuid);
        }
        self.now = resumed;
        let fresh = self.context.size;
        self.end_response(&response, 0);
        // The preserved response is part of the new window; the prompt that it answered is not.
        self.context.size = fresh + output + tokens;
        self.context.cached = self.context.base * 4 / 5;
        self.context.last_input = 0;
        Ok(())
    }
}
