//! Records around the conversation: modes, titles, snapshots, local commands.

use crate::json::{Uuid, hex_id, quoted, timestamp};
use crate::session::{SynthSession, string_value};
use crate::tools::ProjectFile;
use crate::words::{SynthText, fill};
use std::io::{self, Write};

/// Writes the records at the end of a turn: hooks, duration, last prompt, modes, titles.
pub(super) fn write_turn_end<W: Write>(session: &mut SynthSession<W>) -> io::Result<()> {
    if session.client.has_subtypes() {
        if session.rng.permille(300) {
            let id = Uuid::new(&mut session.rng);
            session.system(
                ",\"subtype\":\"stop_hook_summary\",\"hookCount\":1,\"hookInfos\":[{\"command\":\"sh tools/after.sh\"}],\
                 \"hookErrors\":[],\"preventedContinuation\":false,\"stopReason\":\"\",\"hasOutput\":false,\"level\":\"suggestion\"",
                &format!(",\"toolUseID\":\"{}\"", id.as_str()),
            )?;
        }
        let millis = session.rng.range(4_000, 400_000);
        session.system(
            &format!(",\"subtype\":\"turn_duration\",\"durationMs\":{millis}"),
            ",\"isMeta\":false",
        )?;
    } else if session.rng.permille(200) {
        session.system(
            ",\"content\":\"Running \\u001b[1mPostToolUse:Edit\\u001b[22m...\",\"isMeta\":false",
            ",\"level\":\"info\"",
        )?;
    }
    if session.client.has_attachments() {
        let id = session.identity.session_id.clone();
        let leaf = session.leaf.map(|leaf| leaf.as_str().to_owned()).unwrap_or_default();
        session.write_plain(
            "last-prompt",
            &format!("{{\"type\":\"last-prompt\",\"leafUuid\":\"{leaf}\",\"sessionId\":\"{id}\"}}"),
        )?;
        let repeats = session.client.repeats_modes();
        if repeats {
            write_modes(session)?;
        }
        if repeats || session.rng.permille(300) {
            let title = fill(&mut session.rng, "$V the $a $n");
            session.write_plain(
                "ai-title",
                &format!("{{\"type\":\"ai-title\",\"aiTitle\":\"{title}\",\"sessionId\":\"{id}\"}}"),
            )?;
        }
    }
    if session.client.has_attachments() && session.rng.permille(100) {
        write_metadata_record(session)?;
    }
    Ok(())
}

/// Writes the records of the current modes.
pub(super) fn write_modes<W: Write>(session: &mut SynthSession<W>) -> io::Result<()> {
    let id = session.identity.session_id.clone();
    for (kind, key, value) in [
        ("mode", "mode", "normal"),
        ("permission-mode", "permissionMode", "default"),
    ] {
        session.write_plain(
            kind,
            &format!("{{\"type\":\"{kind}\",\"{key}\":\"{value}\",\"sessionId\":\"{id}\"}}"),
        )?;
    }
    Ok(())
}

/// Writes one of the small records that describe a session and are not part of its thread.
fn write_metadata_record<W: Write>(session: &mut SynthSession<W>) -> io::Result<()> {
    let id = session.identity.session_id.clone();
    let now = timestamp(session.now);
    let message = Uuid::new(&mut session.rng);
    let name = fill(&mut session.rng, "$v-$n");
    let number = session.rng.range(1, 400);
    let choices = if session.client.has_file_deltas() { 5 } else { 4 };
    let (kind, fields) = match session.rng.below(choices) {
        0 => (
            "custom-title",
            format!("\"customTitle\":\"{name}\",\"sessionId\":\"{id}\""),
        ),
        1 => ("agent-name", format!("\"agentName\":\"{name}\",\"sessionId\":\"{id}\"")),
        2 => ("tag", format!("\"tag\":\"{name}\",\"sessionId\":\"{id}\"")),
        3 => (
            "pr-link",
            format!(
                "\"sessionId\":\"{id}\",\"prNumber\":{number},\"prUrl\":\"https://git.example.test/orchard/pull/{number}\",\
                 \"prRepository\":\"dev/orchard\",\"timestamp\":\"{now}\""
            ),
        ),
        _ => (
            "file-history-delta",
            format!(
                "\"messageId\":\"{0}\",\"snapshotMessageId\":\"{0}\",\"trackingPath\":\"{1}/{name}.go\",\
                 \"backup\":{{\"backupFileName\":\"{number:016x}@v1\",\"version\":1,\"backupTime\":\"{now}\"}},\"timestamp\":\"{now}\"",
                message.as_str(),
                session.identity.cwd
            ),
        ),
    };
    session.write_plain(kind, &format!("{{\"type\":\"{kind}\",{fields}}}"))?;
    Ok(())
}

/// Writes the snapshot of the tracked files that belongs to a prompt.
pub(super) fn write_snapshot<W: Write>(
    session: &mut SynthSession<W>,
    files: &[ProjectFile],
    prompt: Uuid,
) -> io::Result<()> {
    let now = timestamp(session.now);
    let backups: Vec<String> = files
        .iter()
        .map(|file| {
            let name = hex_id(&mut session.rng, 16);
            format!(
                "{}:{{\"backupFileName\":\"{name}@v1\",\"version\":1,\"backupTime\":\"{now}\"}}",
                quoted(&file.path)
            )
        })
        .collect();
    let json = format!(
        "{{\"type\":\"file-history-snapshot\",\"messageId\":\"{0}\",\"snapshot\":{{\"messageId\":\"{0}\",\
         \"trackedFileBackups\":{{{1}}},\"timestamp\":\"{now}\"}},\"isSnapshotUpdate\":false}}",
        prompt.as_str(),
        unique_keys(backups).join(",")
    );
    session.write_plain("file-history-snapshot", &json)?;
    Ok(())
}

/// Removes later entries with an equal key: two edits of one file give one backup.
fn unique_keys(entries: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = entry.split(":{").next().unwrap_or_default();
        if !kept.iter().any(|other| other.split(":{").next() == Some(key)) {
            kept.push(entry);
        }
    }
    kept
}

/// Writes a slash command and its output.
pub fn local_command<W: Write>(session: &mut SynthSession<W>) -> io::Result<()> {
    local_command_output(session, "/status", "All \u{1b}[1mquiet\u{1b}[22m in the orchard")
}

/// Writes a given slash command and its output.
pub fn local_command_output<W: Write>(session: &mut SynthSession<W>, name: &str, output: &str) -> io::Result<()> {
    let bare = name.trim_start_matches('/');
    let lines = [
        (
            "<local-command-caveat>What follows was printed by a local command.</local-command-caveat>".to_owned(),
            ",\"isMeta\":true",
        ),
        (
            format!(
                "<command-name>{name}</command-name>\n            <command-message>{bare}</command-message>\n            <command-args></command-args>"
            ),
            "",
        ),
        (format!("<local-command-stdout>{output}</local-command-stdout>"), ""),
    ];
    for (text, before) in lines {
        let text = SynthText::of(&text);
        let content = string_value(&text);
        session.user(session.leaf, &content, before, b"")?;
        session.add_to_context(text.units, text.tokens(session.density()) + 6);
    }
    Ok(())
}
