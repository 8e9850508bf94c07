//! Shell commands that do nothing but show a file, or a range of its lines.

/// The file that a command shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShellRead {
    pub path: String,
    /// First line; 0 for the whole file.
    pub first: u64,
    /// Number of lines; 0 if it is not limited.
    pub count: u64,
}

/// Lines that a command without a limit shows: all of them.
const ALL_LINES: u64 = 1_000_000;

/// Reads a command such as `cat F`, `sed -n '10,20p' F`, `nl -ba F | sed -n '10,20p'`, `head -n 40 F`. Returns `None`
/// for everything else: only then is the result known to be the file.
pub(super) fn parse_shell_read(command: &str) -> Option<ShellRead> {
    let mut stages = split_pipeline(command)?.into_iter();
    let mut read = parse_first_stage(&stages.next()?)?;
    for stage in stages {
        // A second stage may narrow the lines, but not a second time.
        if read.first != 0 {
            return None;
        }
        (read.first, read.count) = parse_filter(&stage)?;
    }
    if read.first == 0 {
        (read.first, read.count) = (1, ALL_LINES);
    }
    Some(read)
}

/// Splits a command into the words of its pipeline stages. Returns `None` if it uses more of the shell than quotes and
/// pipes.
fn split_pipeline(command: &str) -> Option<Vec<Vec<String>>> {
    let mut stages = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut letters = command.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let text = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        end if end == letter => break,
                        '$' | '`' | '\\' if letter == '"' => return None,
                        other => text.push(other),
                    }
                }
            }
            '|' if letters.peek() != Some(&'|') => {
                stages.last_mut()?.extend(word.take());
                stages.push(Vec::new());
            }
            ' ' | '\t' => stages.last_mut()?.extend(word.take()),
            '\\' | '$' | '`' | ';' | '&' | '|' | '<' | '>' | '\n' | '(' | ')' | '{' | '}' | '*' | '?' | '#' => {
                return None;
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    stages.last_mut()?.extend(word.take());
    Some(stages)
}

fn parse_first_stage(words: &[String]) -> Option<ShellRead> {
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    let whole = |path: &str| {
        (!path.starts_with('-')).then(|| ShellRead {
            path: path.to_owned(),
            first: 0,
            count: 0,
        })
    };
    match words.as_slice() {
        ["cat" | "bat", path] | ["cat" | "nl", "-n" | "-ba", path] | ["nl", "-b", "a", path] => whole(path),
        ["sed" | "head" | "tail", arguments @ .., path] => {
            let filter = std::iter::once(words[0]).chain(arguments.iter().copied());
            let filter = filter.map(str::to_owned).collect::<Vec<_>>();
            let (first, count) = parse_filter(&filter)?;
            whole(path).map(|read| ShellRead { first, count, ..read })
        }
        _ => None,
    }
}

/// Reads `sed -n '10,20p'` and `head -n 40`: the first line and the number of lines.
fn parse_filter(words: &[String]) -> Option<(u64, u64)> {
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    match words.as_slice() {
        ["sed", "-n", range] => {
            let range = range.strip_suffix('p')?;
            let (first, last) = range.split_once(',').unwrap_or((range, range));
            let first = first.parse::<u64>().ok().filter(|first| *first > 0)?;
            let count = match last {
                "$" => ALL_LINES,
                last => last.parse::<u64>().ok()?.checked_sub(first)? + 1,
            };
            Some((first, count))
        }
        ["head"] => Some((1, 10)),
        ["head", "-n", count] => Some((1, count.parse().ok()?)),
        ["head", count] => Some((1, count.strip_prefix('-')?.trim_start_matches('n').parse().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_show_a_file_are_reads() {
        for (command, expected) in [
            ("cat src/a.rs", Some(("src/a.rs", 1, ALL_LINES))),
            ("sed -n '10,20p' 'my file.rs'", Some(("my file.rs", 10, 11))),
            ("sed -n 7p a.rs", Some(("a.rs", 7, 1))),
            ("sed -n '5,$p' a.rs", Some(("a.rs", 5, ALL_LINES))),
            ("nl -ba a.rs | sed -n '1,260p'", Some(("a.rs", 1, 260))),
            ("head -n 40 a.rs", Some(("a.rs", 1, 40))),
            ("head -40 a.rs", Some(("a.rs", 1, 40))),
            ("cat a.rs | head", Some(("a.rs", 1, 10))),
            ("cat a.rs b.rs", None),
            ("cat a.rs && ls", None),
            ("cat $FILE", None),
            ("cat *.rs", None),
            ("sed -i 's/a/b/' a.rs", None),
            ("sed -n '/x/p' a.rs", None),
            ("head -n 5 a.rs | sed -n '1,2p'", None),
            ("rg -n x src", None),
            ("cat 'unclosed", None),
            ("", None),
        ] {
            let found = parse_shell_read(command);
            let found = found.as_ref().map(|read| (read.path.as_str(), read.first, read.count));
            assert_eq!(found, expected, "{command}");
        }
    }
}
