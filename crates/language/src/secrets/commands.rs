//! Passwords on command lines whose flags do not say so: `mysql -pX`, `curl -u user:X`, `echo X | sudo -S`.

use super::{Secret, push};

/// How a command takes a password.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taking {
    /// `-p X` and `-pX`.
    Either(&'static str),
    /// `-pX` only.
    Attached(&'static str),
    /// `-a X` only.
    Apart(&'static str),
    /// `-u user:X` and `-uuser:X`.
    Pair(&'static str, char),
    /// `user/X@host`.
    Slash,
    /// The last word.
    Last,
    /// The word that is no place and no option: `net use Z: \\\\host\\share X /user:bob`.
    Plain,
    /// `-passin pass:X`.
    Prefixed(&'static str),
}

/// The commands, in lower case.
pub(super) const COMMANDS: &[&str] = &[
    "mysql",
    "mysqldump",
    "mysqladmin",
    "mariadb",
    "sshpass",
    "docker login",
    "podman login",
    "helm registry login",
    "mongo",
    "mongosh",
    "mongodump",
    "redis-cli",
    "curl",
    "wget",
    "smbclient",
    "htpasswd",
    "ldapsearch",
    "ldapadd",
    "7z",
    "unzip",
    "zip",
    "unrar",
    "rar",
    "sqlcmd",
    "sqlplus",
    "cqlsh",
    "lftp",
    "az login",
    "openssl",
    "ssh-keygen",
    "net use",
    "rclone obscure",
    "gh secret set",
    "az keyvault secret set",
    "snyk auth",
    "security add-generic-password",
    "mosquitto_pub",
    "mosquitto_sub",
    "xfreerdp",
    "signtool",
];

/// Words after which a pipe brought a password: `echo X | sudo -S`.
pub(super) const PIPES: &[&str] = &[
    "sudo -s",
    "chpasswd",
    "passwd --stdin",
    "--password-stdin",
    "--with-token",
    "--passphrase-fd",
    "kinit ",
];

fn takings(command: &str) -> &'static [Taking] {
    use Taking::*;
    match command {
        "mysql" | "mysqldump" | "mysqladmin" | "mariadb" => &[Attached("-p")],
        "sshpass"
        | "docker login"
        | "podman login"
        | "helm registry login"
        | "mongo"
        | "mongosh"
        | "mongodump"
        | "cqlsh"
        | "az login" => &[Either("-p")],
        "redis-cli" => &[Apart("-a")],
        "openssl" => &[
            Apart("-k"),
            Apart("-K"),
            Prefixed("-passin"),
            Prefixed("-passout"),
            Prefixed("-pass"),
        ],
        "ssh-keygen" => &[Apart("-N"), Apart("-P")],
        "curl" | "wget" => &[Pair("-u", ':'), Pair("--user", ':'), Pair("--proxy-user", ':')],
        "lftp" => &[Pair("-u", ',')],
        "smbclient" => &[Pair("-U", '%')],
        "htpasswd" => &[Last],
        "ldapsearch" | "ldapadd" => &[Either("-w")],
        "7z" => &[Attached("-p")],
        "zip" | "unzip" => &[Apart("-P"), Apart("--password")],
        "rar" | "unrar" => &[Attached("-p"), Attached("-hp")],
        "sqlplus" => &[Slash],
        "mosquitto_pub" | "mosquitto_sub" => &[Apart("-P")],
        "xfreerdp" => &[Attached("/p:")],
        "signtool" => &[Apart("/p")],
        "gh secret set" => &[Apart("--body"), Apart("-b")],
        "az keyvault secret set" => &[Apart("--value")],
        "security add-generic-password" => &[Apart("-w")],
        "net use" | "rclone obscure" | "snyk auth" => &[Plain],
        "sqlcmd" => &[Either("-P")],
        _ => &[],
    }
}

/// Adds the passwords of the command that is at `start..end`.
pub(super) fn find(text: &str, start: usize, end: usize, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_".contains(byte));
    if start > 0 && is_word(bytes.get(start - 1)) || bytes.get(end) != Some(&b' ') {
        return;
    }
    let name = text[start..end].to_ascii_lowercase();
    let line = &text[end..text.floor_char_boundary((end + 600).min(text.len()))];
    let words = shell_words(line, end);
    let accept = |found: &mut Vec<Secret>, from: usize, to: usize| {
        let value = &text[from..to];
        let is_number_only = value.len() < 3;
        let is_stand_in = value.starts_with(['$', '<', '{', '/', '~'])
            || value.contains("xxx")
            || value.contains("...")
            || value.contains("${");
        if !is_number_only && !is_stand_in {
            push(found, from..to, "command-line-password");
        }
    };
    for (at, &(from, to)) in words.iter().enumerate() {
        let word = &text[from..to];
        for taking in takings(&name) {
            let next = words.get(at + 1).copied();
            match *taking {
                Taking::Either(flag) | Taking::Apart(flag) if word == flag => {
                    if let Some((from, to)) = next.filter(|(from, _)| !text[*from..].starts_with('-')) {
                        accept(found, from, to);
                    }
                }
                Taking::Either(flag) | Taking::Attached(flag) if word.starts_with(flag) && word.len() > flag.len() => {
                    accept(found, from + flag.len(), to);
                }
                // `-p'X'` is read as two words without a blank between.
                Taking::Attached(flag)
                    if word == flag && next.is_some_and(|(from, _)| from == to + 1 && b"\"'".contains(&bytes[to])) =>
                {
                    if let Some((from, to)) = next {
                        accept(found, from, to);
                    }
                }
                Taking::Pair(flag, joint) => {
                    let attached = word
                        .strip_prefix(flag)
                        .filter(|rest| !rest.is_empty() && !flag.starts_with("--"));
                    let long = word.strip_prefix(flag).and_then(|rest| rest.strip_prefix('='));
                    let place = match (word == flag, long, attached) {
                        (true, ..) => next,
                        (_, Some(rest), _) | (_, None, Some(rest)) => Some((to - rest.len(), to)),
                        _ => None,
                    };
                    if let Some((from, to)) = place
                        && let Some(colon) = text[from..to].find(joint)
                    {
                        accept(found, from + colon + 1, to);
                    }
                }
                Taking::Prefixed(flag) if word == flag => {
                    if let Some((from, to)) = next
                        && let Some(value) = text[from..to].strip_prefix("pass:")
                    {
                        accept(found, to - value.len(), to);
                    }
                }
                Taking::Slash => {
                    if let Some((user, rest)) = word
                        .split_once('/')
                        .filter(|(user, _)| !user.is_empty() && !user.starts_with('-'))
                    {
                        let length = rest.rfind("@//").or_else(|| rest.rfind('@')).unwrap_or(rest.len());
                        accept(found, from + user.len() + 1, from + user.len() + 1 + length);
                    }
                }
                Taking::Last
                    if at + 1 == words.len()
                        && at >= 2
                        && text[end..from].contains(" -")
                        && text[end..from].contains('b') =>
                {
                    accept(found, from, to);
                }
                Taking::Plain if !word.starts_with(['\\', '/', '-', '*']) && !word.ends_with(':') => {
                    accept(found, from, to);
                }
                _ => {}
            }
        }
    }
}

/// Adds the password that was piped to the command at `start`.
pub(super) fn find_piped(text: &str, start: usize, found: &mut Vec<Secret>) {
    find_here_string(text, start, found);
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line_start.max(text.ceil_char_boundary(start.saturating_sub(200)))..start];
    let Some(pipe) = before.rfind('|') else {
        return;
    };
    let Some(echo) = before[..pipe]
        .rfind("echo ")
        .or_else(|| before[..pipe].rfind("printf "))
    else {
        return;
    };
    let from = start - before.len() + echo;
    let words = shell_words(&text[from..start - before.len() + pipe], from);
    let Some(&(from, to)) = words.iter().skip(1).find(|(from, _)| !text[*from..].starts_with('-')) else {
        return;
    };
    let value = &text[from..to];
    let joint = value
        .find(':')
        .filter(|_| text[start..].to_ascii_lowercase().starts_with("chpasswd"));
    let from = from + joint.map_or(0, |joint| joint + 1);
    if !value.starts_with('$') && to > from {
        push(found, from..to, "command-line-password");
    }
}

/// Adds the password that a command gets as a here-string: `sudo -S <<< "X"`.
fn find_here_string(text: &str, start: usize, found: &mut Vec<Secret>) {
    let end = text.floor_char_boundary((start + 200).min(text.len()));
    let line = text[start..end].split('\n').next().unwrap_or_default();
    if let Some(at) = line.find("<<<")
        && let Some(&(from, to)) = shell_words(&line[at + 3..], start + at + 3).first()
        && !text[from..to].starts_with('$')
    {
        push(found, from..to, "command-line-password");
    }
}

/// Returns the places of the words of a command line, without quotes, up to the end of the command.
fn shell_words(line: &str, offset: usize) -> Vec<(usize, usize)> {
    let mut words = Vec::new();
    let mut start = None;
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => {
                if let Some(start) = start.take() {
                    words.push((offset + start, offset + at));
                }
                quote = None;
            }
            (Some(_), '\n') => break,
            (Some(_), _) => {}
            (None, '"' | '\'') if start.is_none() => {
                quote = Some(c);
                start = Some(at + 1);
            }
            // `-p'X'`: the flag is a word, and what is quoted the next one.
            (None, '"' | '\'') => {
                if let Some(start) = start.take() {
                    words.push((offset + start, offset + at));
                }
                quote = Some(c);
                start = Some(at + 1);
            }
            (None, '\n' | '|' | '`' | ';') | (None, ')') if c != ')' || start.is_none() => {
                if let Some(start) = start.take() {
                    words.push((offset + start, offset + at));
                }
                return words;
            }
            (None, c) if c.is_whitespace() => {
                if let Some(start) = start.take() {
                    words.push((offset + start, offset + at));
                }
            }
            (None, _) => start = start.or(Some(at)),
        }
    }
    if let Some(start) = start.filter(|_| quote.is_none()) {
        words.push((offset + start, offset + line.len()));
    }
    words
}
