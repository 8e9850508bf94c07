//! Opens a page in the browser.

#![allow(clippy::disallowed_methods, reason = "starts the browser that the user asked for")]

use crate::commands::terminal::notice;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that open a file with whatever shows it, by platform, each with the arguments before the file.
const OPENERS: &[(&str, &[&str])] = if cfg!(windows) {
    &[("explorer", &[])]
} else if cfg!(target_os = "macos") {
    &[("open", &[])]
} else {
    &[
        ("xdg-open", &[]),
        ("gio", &["open"]),
        ("wslview", &[]),
        ("sensible-browser", &[]),
    ]
};

/// Opens a page in the browser of `$BROWSER`, or in the usual one. The page is there in any case, so a failure is only named.
pub fn open_page(path: &Path) {
    let page = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let named = std::env::var_os("BROWSER").filter(|browser| !browser.is_empty());
    let named = named.map(|browser| first_browser(&browser));
    let is_open = match &named {
        Some(browser) => start(browser, &[], &page),
        None => OPENERS
            .iter()
            .any(|(program, args)| start(OsStr::new(program), args, &page)),
    };
    if !is_open {
        notice!("no browser could be started; open {} yourself", page.display());
    }
}

/// `$BROWSER` may be a list, the best first.
fn first_browser(list: &OsStr) -> OsString {
    match (list.to_str(), cfg!(windows)) {
        (Some(text), false) => OsString::from(text.split(':').next().unwrap_or(text)),
        _ => list.to_os_string(),
    }
}

/// Starts a program and leaves it to itself. Returns whether it could be started.
fn start(program: &OsStr, args: &[&str], page: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(args).arg(page);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_browsers_starts_with_the_best() {
        if !cfg!(windows) {
            assert_eq!(first_browser(OsStr::new("firefox:chromium")), "firefox");
        }
        assert_eq!(first_browser(OsStr::new("firefox")), "firefox");
    }
}
