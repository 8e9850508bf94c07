//! Names and paths inside a memory directory: what a file may be called, and which paths are refused. Pure: the text of a
//! path only; links are resolved where files are touched, in [`super::memdir`].

/// Longest name of a file without its type and ending. The index has a line for title, name and hook together.
const MAX_NAME_CHARS: usize = 40;

/// Name of the index.
pub const INDEX_FILE: &str = "MEMORY.md";

/// Folder of the memories a team shares.
pub const TEAM_FOLDER: &str = "team/";

/// Folder of the daily logs.
pub const LOG_FOLDER: &str = "logs/";

/// A file name for a memory, from its type and title: lower-case letters, digits and `_`. A title with too little of
/// these (another script, only signs) is named by its hash.
pub fn file_name(kind: &str, title: &str) -> String {
    let mut name = String::new();
    for character in title.chars() {
        if character.is_ascii_alphanumeric() {
            name.push(character.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        if name.len() > MAX_NAME_CHARS {
            // Whole words, where the last one is no monster.
            let end = name.rfind('_').filter(|end| *end > MAX_NAME_CHARS / 2);
            name.truncate(end.unwrap_or(MAX_NAME_CHARS));
            break;
        }
    }
    let lost = title
        .chars()
        .filter(|character| !character.is_ascii() && character.is_alphanumeric());
    let name = name.trim_end_matches('_');
    if name.len() < 3 || lost.count() > name.len() / 2 {
        return format!("{kind}_{}.md", hash(title));
    }
    format!("{kind}_{name}.md")
}

/// A slug for any text that becomes part of a path: itself if it is harmless, else its hash behind what is harmless of it.
pub fn safe_part(text: &str) -> String {
    let harmless = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    if !text.is_empty() && text.len() <= 100 && text.chars().all(harmless) {
        return text.to_owned();
    }
    let kept = text.chars().filter(|&character| harmless(character)).take(40);
    format!("{}-{}", kept.collect::<String>(), hash(text))
        .trim_start_matches('-')
        .to_owned()
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}

/// The folder of a project in the client's home: every character that is no ASCII letter or digit becomes `-`, as the
/// client does it.
pub fn project_slug(path: &str) -> String {
    path.chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() {
                character
            } else {
                '-'
            }
        })
        .collect()
}

/// The folder of an agent's memory: `:` of plugin agents becomes `-`, everything odd a hash.
pub fn agent_part(agent: &str) -> String {
    safe_part(&agent.replace(':', "-"))
}

/// Whether a path stays inside the directory it is relative to, as text: no root, no drive, no `..`, no empty or hidden
/// part, no backslash, no control character.
pub fn is_inside(path: &str) -> bool {
    let bad = |character: char| character.is_control() || matches!(character, '\\' | ':');
    !path.is_empty()
        && path.len() <= 1_000
        && !path.contains(bad)
        && path
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && part.len() <= 255)
}

/// Whether a path names a topic file: inside, Markdown, not an index, not a daily log.
pub fn is_topic(path: &str) -> bool {
    is_inside(path)
        && path.ends_with(".md")
        && !path.starts_with(LOG_FOLDER)
        && !path
            .rsplit('/')
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(INDEX_FILE))
}

/// Why a path may not be a memory directory.
pub fn refusal_reason(path: &str) -> Option<&'static str> {
    if path.contains('\0') {
        return Some("has a NUL byte");
    }
    if path.starts_with("\\\\") || path.starts_with("//") {
        return Some("is a network path");
    }
    let drive = |path: &str| path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    let (parts, is_absolute) = if drive(path) {
        (&path[2..], path[2..].starts_with(['/', '\\']))
    } else {
        (path, path.starts_with('/'))
    };
    if !is_absolute {
        return Some("is relative");
    }
    let mut depth = 0_usize;
    for part in parts.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    match depth {
        0 => Some("is a root"),
        1 => Some("lies directly below a root"),
        _ => None,
    }
}

/// Path of the daily log of a date (`2026-11-16`).
pub fn daily_log_path(date: &str) -> Option<String> {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = digits(year, 4) && digits(month, 2) && digits(day, 2) && parts.next().is_none();
    is_date.then(|| format!("{LOG_FOLDER}{year}/{month}/{date}.md"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_readable_or_hashes() {
        assert_eq!(
            file_name("feedback", "Small commits, please!"),
            "feedback_small_commits_please.md"
        );
        assert_eq!(
            file_name("project", "We freeze merges on 2026-09-01 because the mobile team asks"),
            "project_we_freeze_merges_on_2026_09_01_because.md"
        );
        assert_eq!(
            file_name("user", &"x".repeat(90)),
            format!("user_{}.md", "x".repeat(40))
        );
        assert!(file_name("user", "偏好简短的回答").starts_with("user_"));
        assert_ne!(file_name("user", "偏好简短的回答"), file_name("user", "偏好中文回答"));
        assert_eq!(project_slug("/home/me/a.b"), "-home-me-a-b");
        assert_eq!(agent_part("plugin:reviewer"), "plugin-reviewer");
    }

    #[test]
    fn refused_paths() {
        for path in [
            "memory",
            "",
            "/",
            "/memory",
            "C:\\",
            "C:\\memory",
            "C:memory\\a",
            "\\\\host\\a\\b",
            "//host/a/b",
            "/a/b\0",
            "/a/..",
            "/a/../b",
        ] {
            assert!(refusal_reason(path).is_some(), "{path:?}");
        }
        for path in ["/home/me/memory", "C:\\users\\me"] {
            assert_eq!(refusal_reason(path), None, "{path:?}");
        }
    }

    #[test]
    fn daily_logs_lie_by_month() {
        assert_eq!(
            daily_log_path("2026-11-16").as_deref(),
            Some("logs/2026/11/2026-11-16.md")
        );
        assert_eq!(daily_log_path("2026-11-../x"), None);
    }

    proptest! {
        #[test]
        fn made_names_are_topics(kind in "user|feedback", title in any::<String>()) {
            prop_assert!(is_topic(&file_name(&kind, &title)));
            prop_assert!(is_inside(&safe_part(&title)));
        }
    }
}
