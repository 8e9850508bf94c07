//! Names in text: identifiers, definitions and paths.

/// Calls `each` with every identifier in a text: words joined by `_` or with capitals inside. Plain words of prose are not
/// identifiers.
pub fn for_each_identifier<'t>(text: &'t str, mut each: impl FnMut(&'t str)) {
    let bytes = text.as_bytes();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut at = 0;
    while at < bytes.len() {
        if !is_part(bytes[at]) {
            at += 1;
            continue;
        }
        // The letter after a backslash is part of an escape, not of a name.
        at += usize::from(at > 0 && bytes[at - 1] == b'\\');
        let length = bytes[at..].iter().take_while(|byte| is_part(**byte)).count();
        let word = &text[at..at + length];
        if is_identifier(word) {
            each(word);
        }
        at += length;
    }
}

/// Returns whether a word is an identifier rather than a word of prose.
pub fn is_identifier(word: &str) -> bool {
    let bytes = word.as_bytes();
    if !(4..=60).contains(&bytes.len()) || bytes[0].is_ascii_digit() {
        return false;
    }
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    if letters * 2 < bytes.len() {
        return false;
    }
    let inner_joint = bytes[1..bytes.len() - 1].contains(&b'_');
    let is_hump = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
    // A word after an acronym: the `Server` of `HTTPServer`.
    let is_word =
        |run: &[u8]| run[..2].iter().all(u8::is_ascii_uppercase) && run[2..].iter().all(u8::is_ascii_lowercase);
    let has_humps = || bytes.windows(2).any(is_hump) || bytes.windows(4).any(is_word);
    inner_joint && letters >= 4 || has_humps() && !is_hash(bytes)
}

/// Returns whether a word is a random id: it changes often between digits, lower and upper case.
fn is_hash(bytes: &[u8]) -> bool {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        _ => 2,
    };
    let changes = bytes.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    bytes.iter().any(u8::is_ascii_digit) && changes * 2 > bytes.len()
}

/// Keywords before the name of a definition, in common languages.
const DEFINITION_KEYWORDS: [&str; 18] = [
    "fn",
    "func",
    "function",
    "def",
    "class",
    "struct",
    "enum",
    "trait",
    "interface",
    "type",
    "impl",
    "mod",
    "module",
    "macro_rules",
    "record",
    "object",
    "namespace",
    "protocol",
];

/// Returns the names that a piece of code defines, in order, each once.
pub fn definitions(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for name in code.lines().filter_map(line_definition) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Returns the name that a line of code defines, which stands near its start.
fn line_definition(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if line.starts_with("//") || line.starts_with('#') && !line.starts_with("#[") || line.starts_with('*') {
        return None;
    }
    let words = line
        .split(|sign: char| !(sign.is_alphanumeric() || sign == '_'))
        .filter(|word| !word.is_empty());
    let mut before = "";
    for word in words.take(6) {
        if DEFINITION_KEYWORDS.contains(&before) {
            let name = receiver_method(line, before).unwrap_or(word);
            // `type: "name"` and `class="name"` define nothing.
            let end = before.as_ptr() as usize - line.as_ptr() as usize + before.len();
            let gap = &line[end..word.as_ptr() as usize - line.as_ptr() as usize];
            let is_near = gap.trim().is_empty() || gap == "! " || before == "func" && gap == " (";
            let is_name = is_near
                && name.len() > 2
                && !DEFINITION_KEYWORDS.contains(&name)
                && name.starts_with(|sign: char| sign.is_alphabetic() || sign == '_');
            return is_name.then_some(name);
        }
        before = word;
    }
    None
}

/// Returns the method of `func (r *Receiver) Method(`; `None` for any other line.
fn receiver_method<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let after = line.strip_prefix("func (").filter(|_| keyword == "func")?;
    let (_, after) = after.split_once(") ")?;
    after
        .split(|sign: char| !(sign.is_alphanumeric() || sign == '_'))
        .next()
}

/// Returns at most `most` definitions that an edit adds or changes: those with a line that the old text does not have.
pub fn touched_symbols<'t>(old: &str, new: &'t str, most: usize) -> Vec<&'t str> {
    let before = old.lines().collect::<std::collections::HashSet<_>>();
    let mut names = Vec::new();
    let mut current = None;
    for line in new.lines() {
        current = line_definition(line).or(current);
        let is_new = !before.contains(line) && !line.trim().is_empty();
        if let Some(name) = current.filter(|name| is_new && !names.contains(name)) {
            names.push(name);
        }
    }
    names.truncate(most);
    names
}

/// Returns the definitions that an edit removes.
pub fn removed_definitions<'t>(old: &'t str, new: &str) -> Vec<&'t str> {
    let kept = definitions(new);
    let mut names = definitions(old);
    names.retain(|name| !kept.contains(name));
    names
}

/// Returns whether a file holds text or data, which define nothing.
pub fn is_text_file(path: &str) -> bool {
    const ENDINGS: [&str; 12] = [
        "md", "mdx", "txt", "json", "jsonl", "yaml", "yml", "toml", "html", "css", "scss", "lock",
    ];
    path.rsplit_once('.')
        .is_some_and(|(_, ending)| ENDINGS.contains(&ending))
}

/// Returns whether a file holds prose.
pub fn is_prose_file(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    matches!(ending, "md" | "mdx" | "txt" | "rst")
}

/// Returns the last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Returns a path relative to the working directory, or the path itself if it is not below it.
pub fn relative_path<'p>(path: &'p str, root: &str) -> &'p str {
    let root = root.trim_end_matches(['/', '\\']);
    if root.is_empty() {
        return path;
    }
    let rest = path.strip_prefix(root).and_then(|rest| rest.strip_prefix(['/', '\\']));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(path)
}

/// Extensions of files that people work on.
const FILE_EXTENSIONS: [&str; 47] = [
    "rs", "go", "py", "ts", "tsx", "js", "jsx", "mjs", "cjs", "java", "kt", "swift", "c", "h", "cc", "cpp", "hpp",
    "cs", "rb", "php", "scala", "sh", "bash", "zsh", "ps1", "sql", "html", "css", "scss", "vue", "svelte", "json",
    "jsonl", "yaml", "yml", "toml", "xml", "md", "txt", "proto", "tf", "lock", "mod", "cfg", "ini", "dart", "lua",
];

/// Calls `each` with every path or file name in a text.
pub fn for_each_path<'t>(text: &'t str, mut each: impl FnMut(&'t str)) {
    let is_part = |sign: char| sign.is_alphanumeric() || matches!(sign, '/' | '.' | '_' | '-' | '~' | '@' | '+');
    for word in text.split(|sign: char| !is_part(sign)) {
        let word = word.trim_end_matches(['.', '-']);
        let name = file_name(word);
        let Some((stem, ending)) = name.rsplit_once('.') else {
            continue;
        };
        if !stem.is_empty() && FILE_EXTENSIONS.contains(&ending) {
            each(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_not_words() {
        for name in [
            "read_line",
            "readLine",
            "ReadLine",
            "HTTPServer2Config",
            "MAX_SIZE",
            "useState",
        ] {
            assert!(is_identifier(name), "{name}");
        }
        for word in [
            "line",
            "Reader",
            "NASA",
            "the",
            "x1",
            "_",
            "__",
            "2026_01",
            "aB1cD2eF3g",
        ] {
            assert!(!is_identifier(word), "{word}");
        }
    }

    #[test]
    fn definitions_of_several_languages() {
        let code = "pub fn open(a: u8) {}\nfunc (s *Store) SaveAll(x int) error {\nclass Parser(Base):\n// fn comment\nexport async function loadUser() {\nlet x = 1;\nimpl Display for Thing {";
        assert!(definitions("type: \"email\"\n<div class=\"main\">").is_empty());
        assert_eq!(definitions(code), ["open", "SaveAll", "Parser", "loadUser", "Display"]);
    }

    #[test]
    fn an_edit_touches_the_definitions_whose_lines_it_changes() {
        let old = "fn anchor() {\n    one();\n}\nfn gone() {}\n";
        let new = "fn anchor() {\n    one();\n}\nfn added() {\n    two();\n}\n";
        assert_eq!(touched_symbols(old, new, 4), ["added"]);
        assert_eq!(removed_definitions(old, new), ["gone"]);
        assert_eq!(
            touched_symbols("fn a_b() {\n    one();", "fn a_b() {\n    two();", 4),
            ["a_b"]
        );
        assert!(touched_symbols("a = old_call(1)", "a = new_call(1)", 4).is_empty());
    }

    #[test]
    fn paths_in_text() {
        let mut found = Vec::new();
        for_each_path("see src/a/b.rs, `main.go:12` and https://x.org/page or v1.2.", |path| {
            found.push(path)
        });
        assert_eq!(found, ["src/a/b.rs", "main.go"]);
        assert_eq!(relative_path("/w/p/src/a.rs", "/w/p"), "src/a.rs");
        assert_eq!(relative_path("/w/pq/a.rs", "/w/p"), "/w/pq/a.rs");
    }
}
