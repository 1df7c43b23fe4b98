//! All code that differs between Unix and Windows. No other crate has platform-specific code.
//!
//! | | Unix | Windows |
//! | --- | --- | --- |
//! | a stop is requested by | SIGTERM, SIGINT | Ctrl-C, Ctrl-Break, the console's end, a shutdown |
//! | a new file is private | by its mode | by the access list of its folder, as in the user's profile |
//! | a trusted file is checked for | its owner, its mode, links | links |
//! | a file's name is on the disk | once its folder is synced | by NTFS's own journal |
//! | a user's own function | ends with all that it has started | is refused |
//!
//! Locks and temporary files need no such code: [`std::fs::File::try_lock`] and the crate `tempfile` behave the same
//! everywhere.

pub mod files;
pub mod process;
pub mod signals;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Platform-specific code in another crate would be compiled for the first time in a release.
    #[test]
    fn no_other_crate_has_code_for_one_system_alone() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut sources = Vec::new();
        for folder in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
            let is_product = !folder.ends_with("platform") && !folder.ends_with("testing");
            if is_product && folder.is_dir() {
                collect(&folder.join("src"), &mut sources);
            }
        }
        assert!(sources.len() > 300, "{}", sources.len());
        let found: Vec<_> = sources.iter().filter(|path| is_for_one_system(&product_code(path))).collect();
        assert_eq!(
            found,
            [""; 0].map(PathBuf::from).iter().collect::<Vec<_>>(),
            "move it to crates/platform"
        );
    }

    #[test]
    fn code_for_one_system_is_found() {
        for code in [
            "use std::os::unix::fs::symlink;",
            "tokio::signal::unix::signal",
            "#[cfg(windows)]",
            "libc::kill",
        ] {
            assert!(is_for_one_system(code), "{code}");
        }
        assert!(!is_for_one_system("use std::fs::File;"));
    }

    fn is_for_one_system(code: &str) -> bool {
        [
            "std::os::",
            "signal::unix",
            "signal::windows",
            "rustix::",
            "libc::",
            "cfg(unix",
            "cfg(windows",
            "target_os",
        ]
        .iter()
        .any(|words| code.contains(words))
    }

    /// A source without its tests; empty for a file of tests.
    fn product_code(path: &Path) -> String {
        let is_of_tests =
            path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        let source = if is_of_tests { String::new() } else { fs::read_to_string(path).unwrap() };
        let source = source.replace("#[cfg(test)]\n#[cfg(unix)]\n", "#[cfg(test)]\n");
        source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
    }

    fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.extension() {
                _ if path.is_dir() => collect(&path, sources),
                Some(extension) if extension == "rs" => sources.push(path),
                _ => {}
            }
        }
    }
}
