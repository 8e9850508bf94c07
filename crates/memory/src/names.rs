//! Names and paths in a memory directory: how files are named, and which paths are refused. Pure: only the text of a path;
//! [`super::memdir`] checks links.

use language::secrets;
use language::words::is_stop_word;
use std::borrow::Cow;

/// Longest part of a file name that comes from the title. The index has one line for title, file name and hook.
const MAX_NAME_CHARS: usize = 36;

/// Stop words that stay in a file name: without them it would say something else.
const KEPT_WORDS: [&str; 9] = [
    "not", "no", "dont", "cant", "never", "only", "before", "after", "without",
];

pub const INDEX_FILE: &str = "MEMORY.md";

/// The entries of an index that do not fit there.
pub const MORE_INDEX_FILE: &str = "MEMORY-more.md";

/// Folder of the memories that a team shares.
pub const TEAM_FOLDER: &str = "team/";

/// Folder of the daily logs.
pub const LOG_FOLDER: &str = "logs/";

/// Returns the file name of a memory, from its type and title: lowercase ASCII letters, digits and `_`. Words without a topic
/// are left out, so that whole words fit. If hardly anything of the title is left, its hash is used.
pub fn file_name(kind: &str, title: &str) -> String {
    let mut name = String::new();
    let joined = title.replace(['\'', '’'], "");
    let words = joined.split(|sign: char| !sign.is_ascii_alphanumeric());
    for word in words.map(str::to_ascii_lowercase).filter(|word| !word.is_empty()) {
        let has_topic = !is_stop_word(&word) || KEPT_WORDS.contains(&word.as_str());
        if !has_topic || word.len() == 1 && !word.as_bytes()[0].is_ascii_digit() {
            continue;
        }
        let is_full = !name.is_empty() && name.len() + 1 + word.len() > MAX_NAME_CHARS;
        if is_full {
            break;
        }
        if !name.is_empty() {
            name.push('_');
        }
        name.push_str(&word[..word.len().min(MAX_NAME_CHARS)]);
    }
    let lost = title
        .chars()
        .filter(|character| !character.is_ascii() && character.is_alphanumeric());
    if name.len() < 3 || lost.count() > name.len() / 2 {
        return format!("{kind}_{}.md", hash(title));
    }
    format!("{kind}_{name}.md")
}

/// Returns a text as part of a path: the text itself if it is safe, otherwise its safe characters and its hash.
pub fn safe_part(text: &str) -> String {
    let is_safe = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    if !text.is_empty() && text.len() <= 100 && text.chars().all(is_safe) {
        return text.to_owned();
    }
    let kept = text.chars().filter(|&character| is_safe(character)).take(40);
    format!("{}-{}", kept.collect::<String>(), hash(text))
        .trim_start_matches('-')
        .to_owned()
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}

/// Returns the name of a project's folder in the client's home: like the client, replaces everything but ASCII letters and
/// digits by `-`.
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

/// Returns the name of a folder of ours for a project: its slug without the secrets that its path holds. A hash tells apart
/// projects that look alike then.
pub fn project_part(path: &str) -> String {
    match secrets::mask_text(path) {
        Cow::Borrowed(path) => safe_part(&project_slug(path)),
        Cow::Owned(masked) => {
            let shown = project_slug(&masked.replace(secrets::MASK, "secret"));
            safe_part(&format!("{shown}-{}", hash(path)))
        }
    }
}

/// Returns the name of a project without the secrets that it holds. A hash tells apart those that look alike then.
pub fn shown_name(name: &str) -> String {
    match secrets::mask_text(name) {
        Cow::Borrowed(name) => name.to_owned(),
        Cow::Owned(masked) => format!("{}-{}", masked.replace(secrets::MASK, "secret"), hash(name)),
    }
}

/// Returns the name of the folder of an agent's memory. The `:` of plugin agents becomes `-`.
pub fn agent_part(agent: &str) -> String {
    safe_part(&agent.replace(':', "-"))
}

/// Returns whether the text of a relative path stays inside its directory: no root, drive or `..`, no empty or hidden part, no
/// backslash or control character.
pub fn is_inside(path: &str) -> bool {
    let bad = |character: char| character.is_control() || matches!(character, '\\' | ':');
    !path.is_empty()
        && path.len() <= 1_000
        && !path.contains(bad)
        && path
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && part.len() <= 255)
}

/// Returns whether a path names a topic file: inside, Markdown, neither an index nor a daily log.
pub fn is_topic(path: &str) -> bool {
    is_inside(path)
        && path.ends_with(".md")
        && !path.starts_with(LOG_FOLDER)
        && !path.rsplit('/').next().is_some_and(is_index)
}

/// Returns whether a file name is that of an index.
fn is_index(name: &str) -> bool {
    [INDEX_FILE, MORE_INDEX_FILE]
        .iter()
        .any(|index| name.eq_ignore_ascii_case(index))
}

/// Returns why a path may not be a memory directory; `None` if it may.
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

/// Returns the path of the daily log of a date (`2026-11-16`); `None` if it is not a date.
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
            "project_freeze_merges_2026_09_01_mobile_team.md"
        );
        assert_eq!(
            file_name("user", &"x".repeat(90)),
            format!("user_{}.md", "x".repeat(36))
        );
        assert!(file_name("user", "偏好简短的回答").starts_with("user_"));
        assert_ne!(file_name("user", "偏好简短的回答"), file_name("user", "偏好中文回答"));
        assert_eq!(project_slug("/home/me/a.b"), "-home-me-a-b");
        assert_eq!(agent_part("plugin:reviewer"), "plugin-reviewer");
        assert_eq!(project_part("/home/me/shop"), "-home-me-shop");
        assert_eq!(shown_name("shop"), "shop");
    }

    #[test]
    fn folders_for_projects_show_no_secret() {
        let token = ["ghp_", "Zx9Qw3Er7Ty1Ui5Op2As8Df4Gh6Jk0LmVbab"].concat();
        let [one, other] = ["a", "b"].map(|folder| format!("/w/{folder}-{token}/shop"));
        for part in [project_part(&one), shown_name(&one)] {
            assert!(part.contains("secret") && !part.contains(&token[8..]), "{part}");
        }
        assert_ne!(project_part(&one), project_part(&other));
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
