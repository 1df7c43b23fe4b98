use tempfile::TempDir;

use super::*;

/// Creates a file in a temporary folder.
pub(super) fn temp_file(content: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    replace_file(&path, content.as_bytes()).unwrap();
    (folder, path)
}

#[test]
fn a_file_over_the_size_limit_is_not_written_or_read() {
    let (_folder, path) = temp_file("old");
    let large = vec![b'x'; usize::try_from(BYTES_MAX).unwrap() + 1];
    assert!(replace_file(&path, &large).unwrap_err().to_string().ends_with(TOO_LARGE));
    assert_eq!(read_own_file(&path).unwrap(), "old");
    File::options().write(true).open(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
    assert_eq!(read_own_file(&path).unwrap_err().to_string(), TOO_LARGE);
}

#[test]
fn opening_a_trusted_file_keeps_its_content_and_creates_only_on_request() {
    let (_folder, path) = temp_file("old");
    open_own_file(&path, true).unwrap();
    assert_eq!(read_own_file(&path).unwrap(), "old");
    fs::remove_file(&path).unwrap();
    assert_eq!(open_own_file(&path, false).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(!path.exists());
}

/// The next command would read standard input instead of the file.
#[test]
fn a_file_named_like_standard_input_is_not_created() {
    let path = Path::new("-");
    assert_eq!(
        check_output(path).unwrap_err().to_string(),
        "-: is not supported as standard output; name a file"
    );
    for created in [create_new(path), create_output(path)] {
        assert_eq!(created.unwrap_err().to_string(), NOT_STDOUT);
    }
    assert!(!path.exists());
}
