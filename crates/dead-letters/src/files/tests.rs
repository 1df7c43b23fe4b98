use tempfile::TempDir;

use super::*;

/// A file in a folder that goes with it.
pub(super) fn file(content: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    replace_file(&path, content.as_bytes()).unwrap();
    (folder, path)
}

#[test]
fn a_file_that_is_too_large_to_be_read_back_is_neither_written_nor_read() {
    let (_folder, path) = file("old");
    let large = vec![b'x'; usize::try_from(BYTES_MAX).unwrap() + 1];
    assert!(replace_file(&path, &large).unwrap_err().to_string().ends_with(TOO_LARGE));
    assert_eq!(read_own(&path).unwrap(), "old");
    File::options().write(true).open(&path).unwrap().set_len(BYTES_MAX + 1).unwrap();
    assert_eq!(read_own(&path).unwrap_err().to_string(), TOO_LARGE);
}

#[test]
fn where_a_file_of_ones_own_is_gone_on_with_what_is_there_stays() {
    let (_folder, path) = file("old");
    open_own(&path, true).unwrap();
    assert_eq!(read_own(&path).unwrap(), "old");
    fs::remove_file(&path).unwrap();
    assert_eq!(open_own(&path, false).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(!path.exists());
}

/// The next command would take the file for standard input.
#[test]
fn a_file_named_as_standard_input_is_not_made() {
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
