//! The hash of the sources that cached values depend on.

#[allow(dead_code, reason = "cargo runs the script itself")]
#[path = "../../build.rs"]
mod build;

use crate::fixture::Fixture;

#[test]
fn the_hash_depends_on_paths_and_contents_and_not_on_line_endings() {
    let fixture = Fixture::new();
    let hash = |name: &str| build::hash_sources(&fixture.path(name), &["src", "one.rs"]).expect("a hash");
    let write = |name: &str, files: [(&str, &str); 3]| {
        for (file, content) in files {
            fixture.write(&format!("{name}/{file}"), content);
        }
        hash(name)
    };
    let plain = write(
        "plain",
        [("src/a.rs", "one\ntwo\n"), ("src/b/c.json", "{}"), ("one.rs", "")],
    );
    for (name, files) in [
        (
            "order",
            [("one.rs", ""), ("src/b/c.json", "{}"), ("src/a.rs", "one\ntwo\n")],
        ),
        (
            "windows",
            [("src/a.rs", "one\r\ntwo\r\n"), ("src/b/c.json", "{}"), ("one.rs", "")],
        ),
    ] {
        assert_eq!(write(name, files), plain, "{name}");
    }
    for (name, files) in [
        (
            "content",
            [("src/a.rs", "one\nTwo\n"), ("src/b/c.json", "{}"), ("one.rs", "")],
        ),
        (
            "lines",
            [("src/a.rs", "one\ntwo"), ("src/b/c.json", "{}"), ("one.rs", "")],
        ),
        (
            "path",
            [("src/a.rs", "one\ntwo\n"), ("src/b/d.json", "{}"), ("one.rs", "")],
        ),
        (
            "moved",
            [("src/a.rs", "one\ntwo\n"), ("src/b/c.json", ""), ("one.rs", "{}")],
        ),
    ] {
        assert_ne!(write(name, files), plain, "{name}");
    }
    fixture.write("plain/src/.a.rs.swp", "an editor is open");
    fixture.write("plain/src/a.rs~", "a backup");
    assert_eq!(hash("plain"), plain);
}

#[test]
fn the_program_was_built_from_these_sources() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let hash = build::hash_sources(root, &build::SOURCES).expect("a hash");
    let id = format!("{}-{hash:016x}", env!("CARGO_PKG_VERSION"));
    assert_eq!(backcast::run::cache::BUILD_ID, id);
}
