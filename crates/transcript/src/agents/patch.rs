//! The patch format of Codex: one text that adds, updates and deletes files.

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    pub path: String,
    pub change: PatchChange,
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatchChange {
    /// The file is written anew, with this content.
    Add(String),
    /// Pieces of the file are replaced: old and new text of each, context lines in both.
    Update(Vec<(String, String)>),
    /// The file is deleted.
    Delete,
}

/// Reads a patch. Returns no files if the text is not one.
pub(super) fn parse_patch(text: &str) -> Vec<FilePatch> {
    let mut files = Vec::new();
    let mut lines = text.lines().skip_while(|line| line.trim() != "*** Begin Patch").skip(1);
    for line in &mut lines {
        if line.trim_end() == "*** End Patch" {
            break;
        }
        if let Some((path, change)) = parse_file_head(line) {
            files.push(FilePatch {
                path: path.trim().to_owned(),
                change,
            });
            continue;
        }
        match files.last_mut() {
            Some(FilePatch {
                change: PatchChange::Add(content),
                ..
            }) => {
                content.push_str(line.strip_prefix('+').unwrap_or(line));
                content.push('\n');
            }
            // A move keeps the old path: that is where the model saw the lines.
            Some(FilePatch {
                change: PatchChange::Update(hunks),
                ..
            }) if !line.starts_with("*** ") => add_hunk_line(hunks, line),
            _ => {}
        }
    }
    files
}

fn parse_file_head(line: &str) -> Option<(&str, PatchChange)> {
    if let Some(path) = line.strip_prefix("*** Add File: ") {
        return Some((path, PatchChange::Add(String::new())));
    }
    if let Some(path) = line.strip_prefix("*** Update File: ") {
        return Some((path, PatchChange::Update(Vec::new())));
    }
    line.strip_prefix("*** Delete File: ")
        .map(|path| (path, PatchChange::Delete))
}

fn add_hunk_line(hunks: &mut Vec<(String, String)>, line: &str) {
    if line.starts_with("@@") || hunks.is_empty() {
        hunks.push(Default::default());
        if line.starts_with("@@") {
            return;
        }
    }
    let Some((old, new)) = hunks.last_mut() else { return };
    let (into_old, into_new, text) = match line.as_bytes().first() {
        Some(b'-') => (true, false, &line[1..]),
        Some(b'+') => (false, true, &line[1..]),
        Some(b' ') => (true, true, &line[1..]),
        _ => (true, true, line),
    };
    for (wanted, side) in [(into_old, old), (into_new, new)] {
        if wanted {
            side.push_str(text);
            side.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_split_by_file() {
        let text = "*** Begin Patch\n*** Update File: a.rs\n@@ fn x\n context\n-old\n+new\n@@\n-two\n*** Add File: b.rs\n\
                    +first\n+second\n*** Delete File: c.rs\n*** End Patch\nrest";
        let hunks = vec![
            ("context\nold\n".into(), "context\nnew\n".into()),
            ("two\n".into(), String::new()),
        ];
        let file = |path: &str, change| FilePatch {
            path: path.into(),
            change,
        };
        assert_eq!(
            parse_patch(text),
            [
                file("a.rs", PatchChange::Update(hunks)),
                file("b.rs", PatchChange::Add("first\nsecond\n".into())),
                file("c.rs", PatchChange::Delete),
            ]
        );
        assert!(parse_patch("no patch").is_empty());
    }
}
