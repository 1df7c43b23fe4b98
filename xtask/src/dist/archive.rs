//! Reproducible zips and tarballs: the same files produce the same bytes.

use std::io::{Cursor, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::tools::TaskFailure;

/// A file to pack. Archives contain the files in the given order.
pub(super) struct File {
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    /// True if the file is a program.
    pub(super) executable: bool,
}

impl File {
    pub(super) fn program(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), bytes, executable: true }
    }

    pub(super) fn text(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into(), executable: false }
    }

    fn mode(&self) -> u32 {
        if self.executable { 0o755 } else { 0o644 }
    }
}

/// Packs files into a zip. All files have the earliest timestamp that a zip can store.
///
/// # Errors
/// A file exceeds the format's limits.
pub(super) fn pack_zip(files: &[File]) -> Result<Vec<u8>, TaskFailure> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let packed = (|| {
        for file in files {
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Deflated)
                .compression_level(Some(9))
                .last_modified_time(DateTime::default())
                .unix_permissions(file.mode());
            zip.start_file(file.path.as_str(), options)?;
            zip.write_all(&file.bytes)?;
        }
        zip.finish()
    })();
    packed.map(Cursor::into_inner).map_err(|error| TaskFailure(format!("zip: {error}")))
}

/// Packs files into a tarball, without owners or timestamps.
///
/// # Errors
/// A path is too long for the format.
pub(super) fn pack_tarball(files: &[File]) -> Result<Vec<u8>, TaskFailure> {
    let mut tar = tar::Builder::new(Vec::new());
    let packed = (|| {
        for file in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(file.bytes.len() as u64);
            header.set_mode(file.mode());
            header.set_mtime(0);
            header.set_uid(0);
            header.set_gid(0);
            tar.append_data(&mut header, &file.path, file.bytes.as_slice())?;
        }
        tar.into_inner()
    })();
    packed.map_err(|error: std::io::Error| TaskFailure(format!("tarball: {error}")))
}

/// Compresses bytes with gzip, without a file name or a timestamp.
///
/// # Errors
/// None are expected, because the output is written to memory.
pub(super) fn compress_gzip(bytes: &[u8]) -> Result<Vec<u8>, TaskFailure> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let packed = gzip.write_all(bytes).and_then(|()| gzip.finish());
    packed.map_err(|error| TaskFailure(format!("gzip: {error}")))
}

/// Packs files into a wheel: a zip whose last file lists its contents.
///
/// # Errors
/// See [`pack_zip()`].
pub(super) fn pack_wheel(mut files: Vec<File>, information: &str) -> Result<Vec<u8>, TaskFailure> {
    let record = format!("{information}/RECORD");
    let mut lines: String = files
        .iter()
        .map(|File { path, bytes, .. }| {
            format!("{path},sha256={},{}\n", URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)), bytes.len())
        })
        .collect();
    lines.push_str(&format!("{record},,\n"));
    files.push(File::text(record, lines));
    pack_zip(&files)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    fn files() -> Vec<File> {
        vec![File::program("bootstrap", b"\x7fELF".to_vec()), File::text("notes/a", "text")]
    }

    #[test]
    fn zip_archives_are_reproducible_and_mark_programs_as_executable() {
        let packed = pack_zip(&files()).unwrap();
        assert_eq!(packed, pack_zip(&files()).unwrap());
        let mut read = zip::ZipArchive::new(Cursor::new(packed)).unwrap();
        let mut entries = Vec::new();
        for index in 0..read.len() {
            let mut entry = read.by_index(index).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            let time = entry.last_modified().unwrap().to_string();
            entries.push((entry.name().unwrap().into_owned(), entry.unix_mode().unwrap(), time, bytes));
        }
        let beginning = "1980-01-01 00:00:00".to_owned();
        assert_eq!(
            entries,
            [
                ("bootstrap".to_owned(), 0o100_755, beginning.clone(), b"\x7fELF".to_vec()),
                ("notes/a".to_owned(), 0o100_644, beginning, b"text".to_vec())
            ]
        );
    }

    #[test]
    fn tarballs_are_reproducible_and_mark_programs_as_executable() {
        let packed = compress_gzip(&pack_tarball(&files()).unwrap()).unwrap();
        assert_eq!(packed, compress_gzip(&pack_tarball(&files()).unwrap()).unwrap());
        let mut read = tar::Archive::new(GzDecoder::new(packed.as_slice()));
        let entry = |entry: Result<tar::Entry<'_, _>, std::io::Error>| {
            let entry = entry.unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().display().to_string();
            (path, header.mode().unwrap(), header.mtime().unwrap(), header.uid().unwrap())
        };
        let entries: Vec<_> = read.entries().unwrap().map(entry).collect();
        assert_eq!(entries, [("bootstrap".to_owned(), 0o755, 0, 0), ("notes/a".to_owned(), 0o644, 0, 0)]);
    }

    #[test]
    fn a_wheel_lists_its_files_for_pip() {
        let packed = pack_wheel(vec![File::text("a", "abc")], "x.dist-info").unwrap();
        let mut read = zip::ZipArchive::new(Cursor::new(packed)).unwrap();
        let mut record = String::new();
        read.by_name("x.dist-info/RECORD").unwrap().read_to_string(&mut record).unwrap();
        assert_eq!(record, "a,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\nx.dist-info/RECORD,,\n");
    }
}
