//! An entry that grows: a header, then frames that are appended one at a time. A process that dies while it writes leaves a
//! torn frame at the end, which the next one drops.
//!
//! A frame is the length of what follows, a body, and a checksum of the body.

use super::{CHECKSUM_BYTES, EntryKind, EntryName, checksum_of, header_of};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;

/// A file of frames, open for appending.
#[derive(Debug)]
pub struct FrameFile(File);

/// What [`FrameFile::open`] found.
#[derive(Debug)]
pub struct OpenedFrames {
    pub file: FrameFile,
    /// Bodies of the intact frames, in the order in which they were written.
    pub frames: Vec<Vec<u8>>,
    /// Whether the file held something under another name, which is gone now.
    pub is_restarted: bool,
}

impl FrameFile {
    /// Opens the file at `path`, or starts it. Frames of another name are discarded, and so is a torn frame at the end.
    pub fn open(path: &Path, kind: EntryKind, name: &EntryName) -> io::Result<OpenedFrames> {
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other("not a regular file"));
        }
        let old = match fs::read(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            read => read.unwrap_or_default(),
        };
        let header = header_of(kind, name);
        let (frames, intact) = match old.strip_prefix(&header) {
            Some(rest) => {
                let (frames, intact) = split_frames(rest);
                (frames.into_iter().map(<[u8]>::to_vec).collect(), header.len() + intact)
            }
            None => (Vec::new(), 0),
        };
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        file.set_len(intact as u64)?;
        file.seek(SeekFrom::End(0))?;
        if intact == 0 {
            file.write_all(&header)?;
        }
        Ok(OpenedFrames {
            file: FrameFile(file),
            frames,
            is_restarted: intact == 0 && !old.is_empty(),
        })
    }

    /// Returns the bytes of a file with these frames.
    pub fn encode(kind: EntryKind, name: &EntryName, bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = header_of(kind, name).to_vec();
        for body in bodies {
            bytes.extend(encode_frame(body));
        }
        bytes
    }

    /// Appends a frame.
    pub fn append(&mut self, body: &[u8]) -> io::Result<()> {
        self.0.write_all(&encode_frame(body))
    }
}

fn encode_frame(body: &[u8]) -> Vec<u8> {
    let length = (body.len() + CHECKSUM_BYTES) as u64;
    [&length.to_le_bytes(), body, &checksum_of(&[body])].concat()
}

/// Returns the bodies of all intact frames up to the first that is not, and how many bytes these frames take.
fn split_frames(bytes: &[u8]) -> (Vec<&[u8]>, usize) {
    let mut frames = Vec::new();
    let mut rest = bytes;
    while let Some((body, after)) = split_frame(rest) {
        frames.push(body);
        rest = after;
    }
    (frames, bytes.len() - rest.len())
}

fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, bytes) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (frame, after) = bytes.split_at_checked(length)?;
    let (body, checksum) = frame.split_last_chunk::<CHECKSUM_BYTES>()?;
    (checksum_of(&[body]) == *checksum).then_some((body, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, name: u8) -> OpenedFrames {
        FrameFile::open(path, EntryKind::Scores, &EntryName([name; 32])).unwrap()
    }

    #[test]
    fn intact_frames_survive_a_torn_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames");
        let mut opened = open(&path, 1);
        assert!(opened.frames.is_empty() && !opened.is_restarted);
        for body in [&b"first"[..], b"", b"third"] {
            opened.file.append(body).unwrap();
        }
        let whole = fs::read(&path).unwrap();
        let third = whole.len() - (8 + 5 + CHECKSUM_BYTES);
        for end in third..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            let mut opened = open(&path, 1);
            assert_eq!(opened.frames, [&b"first"[..], b""], "cut at {end}");
            opened.file.append(b"again").unwrap();
            assert_eq!(open(&path, 1).frames.len(), 3);
        }
        for at in third..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).unwrap();
            assert_eq!(open(&path, 1).frames.len(), 2, "flipped at {at}");
        }
    }

    #[test]
    fn another_name_starts_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames");
        open(&path, 1).file.append(b"one").unwrap();
        let opened = open(&path, 2);
        assert!(opened.frames.is_empty() && opened.is_restarted);
        assert!(!open(&path, 2).is_restarted);
        fs::write(&path, "").unwrap();
        assert!(!open(&path, 2).is_restarted, "an empty file held nothing");
    }
}
