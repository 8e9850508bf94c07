//! Attachments of every kind that newer clients write.

use crate::json::api_id;
use crate::rng::band;
use crate::session::SynthSession;
use crate::words::{SynthText, fill, prose_flavor};
use std::io::{self, Write};

/// All kinds of attachments.
pub const ATTACHMENTS: &[&str] = &[
    "hook_success",
    "hook_additional_context",
    "hook_system_message",
    "async_hook_response",
    "skill_listing",
    "deferred_tools_delta",
    "agent_listing_delta",
    "mcp_instructions_delta",
    "task_reminder",
    "total_tokens_reminder",
    "edited_text_file",
    "file",
    "already_read_file",
    "compact_file_reference",
    "directory",
    "nested_memory",
    "invoked_skills",
    "command_permissions",
    "date_change",
    "auto_mode",
    "plan_mode",
    "plan_mode_exit",
    "queued_command",
    "workflow_keyword_request",
];

/// The contents that attachments are made of, JSON-escaped.
struct AttachmentParts {
    /// A text.
    body: String,
    /// A tool call id.
    tool: String,
    /// A relative file name.
    name: String,
    /// The absolute path of that file.
    path: String,
    /// The file with the text as its contents.
    file: String,
}

/// JSON fields of an attachment, and whether the next call sends its text.
type AttachmentFields = (String, bool);

/// Writes an attachment of the given kind.
pub fn attachment<W: Write>(session: &mut SynthSession<W>, kind: &str) -> io::Result<()> {
    let rng = &mut session.rng;
    let mut text = SynthText::default();
    let units = rng.size(&[band(8, 80, 900), band(2, 900, 6_000)]);
    let flavor = prose_flavor(rng);
    session.pools.write(rng, flavor, units, &mut text);
    let body = String::from_utf8_lossy(&text.escaped).into_owned();
    let tool = api_id(rng, "toolu_01");
    let name = fill(rng, "$n/$v_$n.py");
    let path = format!("{}/{name}", session.identity.cwd);
    let file = format!(
        "{{\"type\":\"text\",\"file\":{{\"filePath\":\"{path}\",\"content\":\"{body}\",\"numLines\":9,\"startLine\":1,\"totalLines\":9}}}}"
    );
    let parts = AttachmentParts {
        body,
        tool,
        name,
        path,
        file,
    };
    let fields = parts.hook_fields(kind);
    let fields = fields.or_else(|| parts.listing_fields(kind));
    let fields = fields.or_else(|| parts.file_fields(kind));
    let (fields, counted) = fields.unwrap_or_else(|| parts.mode_fields(kind));
    let comma = if fields.is_empty() { "" } else { "," };
    let tokens = if counted {
        text.tokens(session.density()) + 10
    } else {
        20
    };
    session.attachment(&format!("{{\"type\":\"{kind}\"{comma}{fields}}}"), tokens)?;
    Ok(())
}

impl AttachmentParts {
    /// Returns the fields of a hook attachment; `None` for other kinds.
    fn hook_fields(&self, kind: &str) -> Option<AttachmentFields> {
        let AttachmentParts { body, tool, .. } = self;
        Some(match kind {
            "hook_success" => (
                format!(
                    "\"hookName\":\"SessionStart:startup\",\"toolUseID\":\"{tool}\",\"hookEvent\":\"SessionStart\",\"content\":\"{body}\",\
                     \"stdout\":\"{body}\",\"stderr\":\"\",\"exitCode\":0,\"command\":\"sh tools/greet.sh\",\"durationMs\":157"
                ),
                true,
            ),
            "hook_additional_context" => (
                format!(
                    "\"content\":[\"{body}\"],\"hookName\":\"PreToolUse:Bash\",\"toolUseID\":\"{tool}\",\"hookEvent\":\"PreToolUse\""
                ),
                true,
            ),
            "hook_system_message" => (
                format!(
                    "\"content\":\"{body}\",\"hookName\":\"SessionStart:startup\",\"toolUseID\":\"{tool}\",\"hookEvent\":\"SessionStart\""
                ),
                false,
            ),
            "async_hook_response" => (
                format!(
                    "\"processId\":\"async_hook_7\",\"hookName\":\"Stop\",\"hookEvent\":\"Stop\",\"response\":{{}},\"stdout\":\"{body}\",\"stderr\":\"\",\"exitCode\":0"
                ),
                false,
            ),
            _ => return None,
        })
    }

    /// Returns the fields of a listing or a reminder; `None` for other kinds.
    fn listing_fields(&self, kind: &str) -> Option<AttachmentFields> {
        let body = &self.body;
        Some(match kind {
            "skill_listing" => (
                format!("\"content\":\"{body}\",\"skillCount\":3,\"isInitial\":true,\"names\":[\"prune\",\"gather\",\"stack\"]"),
                true,
            ),
            "deferred_tools_delta" => (
                "\"addedNames\":[\"WebFetch\",\"WebSearch\"],\"addedLines\":[\"WebFetch\",\"WebSearch\"],\"removedNames\":[],\
                 \"readdedNames\":[],\"pendingMcpServers\":[]"
                    .to_owned(),
                false,
            ),
            "agent_listing_delta" => (
                format!("\"addedTypes\":[\"gardener\"],\"addedLines\":[\"{body}\"],\"removedTypes\":[],\"isInitial\":true,\"showConcurrencyNote\":true"),
                true,
            ),
            "mcp_instructions_delta" => {
                (format!("\"addedNames\":[\"weather\"],\"addedBlocks\":[\"{body}\"],\"removedNames\":[]"), true)
            }
            "task_reminder" => ("\"content\":[],\"itemCount\":0".to_owned(), false),
            "total_tokens_reminder" => {
                ("\"text\":\"<total_tokens>1493378 tokens left</total_tokens>\"".to_owned(), false)
            }
            "invoked_skills" => {
                (format!("\"skills\":[{{\"name\":\"prune\",\"path\":\"projectSettings:prune\",\"content\":\"{body}\"}}]"), true)
            }
            _ => return None,
        })
    }

    /// Returns the fields of a file or folder attachment; `None` for other kinds.
    fn file_fields(&self, kind: &str) -> Option<AttachmentFields> {
        let AttachmentParts {
            body, name, path, file, ..
        } = self;
        Some(match kind {
            "edited_text_file" => (format!("\"filename\":\"{path}\",\"snippet\":\"{body}\""), true),
            "file" => (
                format!("\"filename\":\"{path}\",\"content\":{file},\"displayPath\":\"{name}\""),
                true,
            ),
            "already_read_file" => (
                format!("\"filename\":\"{path}\",\"displayPath\":\"{name}\",\"content\":{file}"),
                false,
            ),
            "compact_file_reference" => (format!("\"filename\":\"{path}\",\"displayPath\":\"{name}\""), false),
            "directory" => (
                format!("\"path\":\"{path}\",\"content\":\"{body}\",\"displayPath\":\"{name}\""),
                true,
            ),
            "nested_memory" => (
                format!(
                    "\"path\":\"{path}\",\"content\":{{\"path\":\"{path}\",\"type\":\"Project\",\"content\":\"{body}\",\"contentDiffersFromDisk\":false}},\"displayPath\":\"{name}\""
                ),
                true,
            ),
            _ => return None,
        })
    }

    /// Returns the fields of a mode or command attachment; empty for kinds without fields.
    fn mode_fields(&self, kind: &str) -> AttachmentFields {
        let AttachmentParts { body, path, .. } = self;
        match kind {
            "command_permissions" => ("\"allowedTools\":[]".to_owned(), false),
            "date_change" => ("\"newDate\":\"2026-07-30\"".to_owned(), false),
            "auto_mode" => ("\"autoModeConsentFlow\":false".to_owned(), false),
            "plan_mode" => (
                format!(
                    "\"reminderType\":\"full\",\"isSubAgent\":false,\"planFilePath\":\"{path}\",\"planExists\":false"
                ),
                false,
            ),
            "plan_mode_exit" => (format!("\"planFilePath\":\"{path}\",\"planExists\":false"), false),
            "queued_command" => (
                format!("\"prompt\":\"{body}\",\"commandMode\":\"prompt\",\"origin\":{{\"kind\":\"human\"}}"),
                true,
            ),
            _ => (String::new(), false),
        }
    }
}
