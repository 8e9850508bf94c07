//! The section of a summary with every message of the user, word for word as far as the budget allows.

use crate::offline::compose::line_tokens;
use crate::offline::digest::{Digest, PromptChannel, UserPrompt};
use language::markdown::{escape_markdown, fence_for, is_plain_markdown};
use language::shorten::{first_chars, last_chars, to_one_line};

/// Lengths in characters to which long messages are cut, in turn.
const MESSAGE_CUTS: [usize; 8] = [8_000, 4_000, 2_000, 1_000, 600, 350, 200, 100];

/// Returns every message of the user, oldest first, in at most `room` tokens. The longest are cut first, from the oldest on.
pub fn user_messages_section(digest: &Digest, room: u64) -> String {
    let prompts = digest
        .prompts
        .iter()
        .filter(|prompt| prompt.channel != PromptChannel::Shell)
        .collect::<Vec<_>>();
    let mut entries = Vec::<(String, Option<&UserPrompt>)>::new();
    if let Some(earlier) = &digest.earlier_summary {
        let points = earlier.points(6);
        if !points.is_empty() {
            entries.push((String::from("Before that, by an earlier summary:"), None));
            let points = points
                .iter()
                .map(|point| format!("- {}", escape_markdown(&to_one_line(point, 1_000))));
            entries.extend(points.map(|point| (point, None)));
            if !prompts.is_empty() {
                entries.push((String::from("Since then:"), None));
            }
        }
    }
    entries.extend(
        prompts
            .iter()
            .map(|prompt| (message_entry(prompt, usize::MAX), Some(*prompt))),
    );
    let mut costs = entries.iter().map(|(text, _)| line_tokens(text)).collect::<Vec<_>>();
    let mut total = costs.iter().sum::<u64>();
    for most in MESSAGE_CUTS {
        for at in 0..entries.len() {
            if total <= room {
                break;
            }
            let Some(prompt) = entries[at].1 else {
                if most <= 600 && entries[at].0.chars().count() > most {
                    entries[at].0 = to_one_line(&entries[at].0, most);
                    let now = line_tokens(&entries[at].0);
                    total = total - costs[at] + now;
                    costs[at] = now;
                }
                continue;
            };
            if prompt.text.chars().count() > most {
                entries[at].0 = message_entry(prompt, most);
                let now = line_tokens(&entries[at].0);
                total = total - costs[at] + now;
                costs[at] = now;
            }
        }
    }
    // Too many messages to fit even when cut: the oldest are only counted.
    let mut gone = 0;
    while total > room && gone + 1 < entries.len() {
        total -= costs[gone];
        gone += 1;
    }
    let mut lines = Vec::new();
    if gone > 0 {
        lines.push(format!(
            "- [{gone} older messages left out: the budget is too small for them]"
        ));
    }
    lines.extend(entries.into_iter().skip(gone).map(|(text, _)| text));
    lines.join("\n")
}

/// Formats a message of the user in at most `most` characters, in a code fence if Markdown would change it.
fn message_entry(prompt: &UserPrompt, most: usize) -> String {
    let label = match prompt.channel {
        PromptChannel::Refusal => "(when refusing a tool call) ",
        PromptChannel::Shell => "(ran in the shell) ",
        PromptChannel::Message | PromptChannel::Queued | PromptChannel::Command => "",
    };
    let count = prompt.text.chars().count();
    let text = if count > most {
        let head = first_chars(&prompt.text, most * 2 / 3);
        let tail = last_chars(&prompt.text, most / 3);
        format!(
            "{head}\n[… {} characters cut …]\n{tail}",
            count - most * 2 / 3 - most / 3
        )
    } else {
        prompt.text.clone()
    };
    if is_plain_markdown(&text) {
        return format!("- {label}{text}");
    }
    let fence = fence_for(&text);
    format!("- {label}\n\n{fence}text\n{text}\n{fence}\n").replacen("- \n\n", "\n", 1)
}
