//! All code that differs between Unix and Windows. No other crate contains platform-specific code.
//!
//! | | Unix | Windows |
//! | --- | --- | --- |
//! | stop requests | SIGTERM, SIGINT | Ctrl-C, Ctrl-Break, closing the console, shutdown |
//! | a new file is private because of | its mode | its folder's access control list, e.g. in the user's profile |
//! | checks before a file is trusted | owner, mode, links | links |
//! | a file's name is on disk | once its folder is synced | because NTFS journals it |
//! | a user's own function | is killed with all processes that it has started | is refused |
//!
//! Locks and temporary files need no platform-specific code: [`std::fs::File::try_lock`] and the crate `tempfile`
//! behave the same everywhere.

pub mod files;
pub mod process;
pub mod signals;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Platform-specific code in another crate would not be compiled for all platforms before a release.
    #[test]
    fn no_other_crate_has_platform_specific_code() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut sources = Vec::new();
        for folder in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
            let is_product = !folder.ends_with("platform") && !folder.ends_with("testing");
            if is_product && folder.is_dir() {
                collect_sources(&folder.join("src"), &mut sources);
            }
        }
        assert!(sources.len() > 300, "{}", sources.len());
        let found: Vec<_> =
            sources.iter().filter(|path| is_platform_specific(&production_code(path))).collect();
        assert_eq!(
            found,
            [""; 0].map(PathBuf::from).iter().collect::<Vec<_>>(),
            "move it to crates/platform"
        );
    }

    #[test]
    fn platform_specific_code_is_found() {
        for code in [
            "use std::os::unix::fs::symlink;",
            "tokio::signal::unix::signal",
            "#[cfg(windows)]",
            "libc::kill",
        ] {
            assert!(is_platform_specific(code), "{code}");
        }
        assert!(!is_platform_specific("use std::fs::File;"));
    }

    fn is_platform_specific(code: &str) -> bool {
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
        .any(|token| code.contains(token))
    }

    /// Returns a source file without its tests; empty for a test file.
    fn production_code(path: &Path) -> String {
        let is_test_file =
            path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        let source = if is_test_file { String::new() } else { fs::read_to_string(path).unwrap() };
        let source = source.replace("#[cfg(test)]\n#[cfg(unix)]\n", "#[cfg(test)]\n");
        source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
    }

    fn collect_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.extension() {
                _ if path.is_dir() => collect_sources(&path, sources),
                Some(extension) if extension == "rs" => sources.push(path),
                _ => {}
            }
        }
    }
}
