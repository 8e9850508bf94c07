//! Made-up logs, by size and number.

use std::path::PathBuf;

/// A generated corpus below `target`, made if it is not there yet.
pub fn generated(bytes: u64, files: u32) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{bytes}-{files}"));
    if !folder.join("expected.json").exists() {
        let options = synth::BulkOptions {
            seed: 1,
            bytes,
            files,
            corruption: 0.0,
        };
        std::fs::create_dir_all(&folder).expect("a folder below target");
        let truth = synth::write_bulk(&folder, &options, &|_| ()).expect("a corpus");
        std::fs::write(folder.join("expected.json"), truth.to_json()).expect("its truth");
    }
    folder
}
