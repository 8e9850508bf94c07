//! Shell commands that may change files.

use aho_corasick::{AhoCorasick, packed};
use std::sync::LazyLock;

/// Parts of command lines after which the contents of a file may differ from what was read.
const CHANGING_COMMANDS: [&str; 34] = [
    "git checkout",
    "git switch",
    "git restore",
    "git reset",
    "git stash",
    "git pull",
    "git merge",
    "git rebase",
    "git cherry-pick",
    "git revert",
    "git apply",
    "git am",
    "git clean",
    "gofmt -w",
    "goimports -w",
    "go fmt",
    "--write",
    "--fix",
    "cargo fmt",
    "rustfmt",
    "clang-format -i",
    "ruff format",
    "black ",
    "isort",
    "sed -i",
    "perl -i",
    "perl -pi",
    "dart format",
    "terraform fmt",
    "patch ",
    "npm run format",
    "yarn format",
    "make fmt",
    "make format",
];

pub(super) fn may_change_files(command: &[u8]) -> bool {
    // The packed (SIMD) searcher is several times faster but exists only on some processors.
    static PACKED: LazyLock<Option<packed::Searcher>> = LazyLock::new(|| packed::Searcher::new(CHANGING_COMMANDS));
    static SEARCH: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(CHANGING_COMMANDS).ok());
    match &*PACKED {
        Some(search) => search.find(command).is_some(),
        None => SEARCH.as_ref().is_some_and(|search| search.is_match(command)),
    }
}
