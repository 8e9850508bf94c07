//! Installing a release: the archive is verified before anything of it is used.

use crate::fixture::{Fixture, Run};

/// Writes a release with a program that prints `version`, and its checksum. Returns the address of all releases.
fn release(fixture: &Fixture, version: &str) -> String {
    let name = "backcast-x86_64-unknown-linux-musl";
    let program = fixture.write(
        &format!("build/{name}/backcast"),
        format!("#!/bin/sh\necho backcast {version}\n"),
    );
    let script = format!(
        "chmod +x {program} && mkdir -p releases/v{version} && tar -czf releases/v{version}/{name}.tar.gz -C build {name} &&
         cd releases/v{version} && sha256sum {name}.tar.gz > {name}.tar.gz.sha256",
        program = program.display()
    );
    Run::of(fixture.hermetic("bash", ["-c", &script])).success();
    format!("file://{}", fixture.path("releases").display())
}

/// Runs the script that installs a release.
fn install(fixture: &Fixture, version: &str, releases: &str, platform: &str) -> Run {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/install-release");
    let mut command = fixture.hermetic("bash", [script.as_os_str(), "installed".as_ref()]);
    let (os, arch) = platform.split_once('-').expect("a platform");
    command
        .env("VERSION", version)
        .env("RELEASES", releases)
        .env("REPOSITORY", "")
        .env("RUNNER_OS", os)
        .env("RUNNER_ARCH", arch);
    Run::of(command)
}

#[test]
#[ignore = "needs curl"]
fn a_release_is_installed_only_if_its_checksum_fits() {
    let fixture = Fixture::new();
    let releases = release(&fixture, "9.8.7");
    install(&fixture, "9.8.7", &releases, "Linux-X64").success();
    let installed = fixture.path("installed/bin/backcast");
    let version = Run::of(fixture.hermetic("sh", [installed.as_os_str()])).success();
    assert_eq!(version.text(), "backcast 9.8.7\n");

    let none = install(&fixture, "9.8.8", &releases, "Linux-X64").ended(3);
    assert!(none.text().contains("is not available"), "{}", none.text());
    let other = install(&fixture, "9.8.7", &releases, "Plan9-MIPS").ended(3);
    assert!(other.text().contains("No release is built"), "{}", other.text());

    std::fs::remove_file(&installed).expect("the program");
    let archive = fixture.path("releases/v9.8.7/backcast-x86_64-unknown-linux-musl.tar.gz");
    let mut bytes = std::fs::read(&archive).expect("the archive");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&archive, bytes).expect("the archive");
    let damaged = install(&fixture, "9.8.7", &releases, "Linux-X64").ended(1);
    assert!(damaged.text().contains("has the SHA-256"), "{}", damaged.text());
    assert!(!installed.exists());

    let checksum = fixture.path("releases/v9.8.7/backcast-x86_64-unknown-linux-musl.tar.gz.sha256");
    std::fs::remove_file(checksum).expect("the checksum");
    let unchecked = install(&fixture, "9.8.7", &releases, "Linux-X64").ended(1);
    assert!(unchecked.text().contains("has no checksum"), "{}", unchecked.text());
}
