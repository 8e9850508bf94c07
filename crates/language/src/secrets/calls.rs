//! Passwords and keys that a program hands to a function: `ftp_login($ftp, "www", "X")`. The name of the function says which
//! argument it is.

use super::shape::{Shape, shape};
use super::{Secret, names, push};
use std::ops::Range;

/// Functions in lower case, up to the opening bracket, each with the place of the secret among the arguments.
const FUNCTIONS: &[(&str, usize)] = &[
    ("jwt.sign(", 1),
    ("jwt.verify(", 1),
    ("jwt.encode(", 1),
    ("jwt.decode(", 1),
    ("createhmac(", 1),
    ("createcipheriv(", 1),
    ("createdecipheriv(", 1),
    ("hmac.new(", 0),
    ("getconnection(", 2),
    ("mysqli_connect(", 2),
    ("mysqli(", 2),
    ("mysql_connect(", 2),
    ("new pdo(", 2),
    ("oci_connect(", 1),
    ("ftp_login(", 2),
    ("ssh2_auth_password(", 2),
    ("smtp.login(", 1),
    ("imap.login(", 1),
    ("server.login(", 1),
    ("ftp.login(", 1),
    ("networkcredential(", 1),
    ("httpbasicauth(", 1),
    ("usernamepasswordcredentials(", 1),
    ("passwordauthentication(", 1),
    ("basicauth(", 1),
    ("basic_auth(", 1),
    ("wifi.begin(", 1),
    ("plaintextauthprovider(", 1),
    ("hmac256(", 0),
    ("hmac384(", 0),
    ("hmac512(", 0),
    ("dbi->connect(", 2),
    ("clientbuilder().build(", 2),
    ("redis->auth(", 0),
    ("redis.auth(", 0),
    ("environ.get(", 1),
    ("getenv(", 1),
    ("env.fetch(", 1),
];

/// Returns what the functions are found by, in the order of their list.
pub(super) fn function_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

/// Adds the secret among the arguments of the function with this index, whose bracket ends at `open`.
pub(super) fn find(text: &str, function: usize, open: usize, found: &mut Vec<Secret>) {
    let Some((name, place)) = FUNCTIONS.get(function) else {
        return;
    };
    // The default of a variable is a secret if the name of the variable says so.
    let is_variable = name.contains("env");
    if is_variable && !literal_argument(text, open, 0).is_some_and(|name| names_secret(&text[name])) {
        return;
    }
    if let Some(range) = literal_argument(text, open, *place)
        && shape(&text[range.clone()]) > Shape::Prose
    {
        push(found, range, "secret-in-call");
    }
}

/// Returns whether the name of a variable names a secret.
fn names_secret(name: &str) -> bool {
    let low = name.to_ascii_lowercase();
    names::contains_keyword(name) || low.contains("salt") || low.contains("pepper")
}

/// Returns the argument at a place, without its quotes; `None` if it is no text in quotes.
fn literal_argument(text: &str, open: usize, place: usize) -> Option<Range<usize>> {
    const LONGEST: usize = 400;
    let near = &text[open..text.floor_char_boundary((open + LONGEST).min(text.len()))];
    let (mut depth, mut at_argument, mut quote, mut begin) = (0usize, 0, None, 0);
    let mut before = ' ';
    for (at, c) in near.char_indices() {
        match (quote, c) {
            (Some(sign), c) if c == sign && before != '\\' => {
                if at_argument == place && depth == 0 {
                    return Some(open + begin..open + at);
                }
                quote = None;
            }
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => {
                quote = Some(c);
                begin = at + 1;
            }
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => at_argument += 1,
            (None, c) if at_argument == place && depth == 0 && c.is_alphanumeric() && !"bfru".contains(c) => {
                return None;
            }
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::secrets::mask;

    #[test]
    fn literal_secrets_in_calls_are_found_and_variables_are_not() {
        for (text, value) in [
            (
                "jwt.sign({ id: user.id }, 'shhh-tell-no-one', { expiresIn: '1d' })",
                "shhh-tell-no-one",
            ),
            ("ftp_login($ftp, \"www\", \"swordfish-tango\");", "swordfish-tango"),
            (
                "DriverManager.getConnection(\"jdbc:x:thin\", \"hr\", \"tigerlily7\")",
                "tigerlily7",
            ),
            ("os.environ.get(\"PEPPER\", \"a81Tz-fallback\")", "a81Tz-fallback"),
            ("hmac.new(b\"moonlit-otter\", body, sha256)", "moonlit-otter"),
        ] {
            assert!(!mask(text).contains(value), "{text}");
        }
        for text in [
            "jwt.sign(payload, process.env.JWT_SECRET)",
            "jwt.sign(payload, secretKey, 'HS256')",
            "DriverManager.getConnection(url, user, password)",
            "createHmac('sha256', key)",
            "os.environ.get(\"REGION\", \"x81Tz-fallback\")",
        ] {
            assert_eq!(mask(text), text);
        }
    }
}
