//! Size limits of the bundles. Lambda fetches a bundle for each new execution environment, and reads all of it at
//! startup.

use std::fs;

use crate::bundle::program_path;
use crate::tools::TaskFailure;

/// For each function, the maximum size of its `bootstrap` in bytes, and the crates that must not be linked into it
/// although they are compiled for other functions. The layer contains the message-processor's program.
const LIMITS: [(&str, usize, &[&str]); 4] = [
    ("message-processor", 11_920_000, &[]),
    ("failed-message-processor", 10_470_000, &["reqwest"]),
    ("final-dlq-annotator", 8_640_000, &["jsonschema", "reqwest"]),
    ("async-retry-handler", 10_220_000, &["reqwest"]),
];

/// Checks each function's bundle.
///
/// # Errors
/// A bundle exceeds its limit or contains an excluded crate.
pub(crate) fn check_sizes() -> Result<(), TaskFailure> {
    let mut wrong = Vec::new();
    for (function, limit, without) in LIMITS {
        let path = program_path(function);
        let bytes = fs::read(&path).map_err(|error| TaskFailure(format!("{}: {error}", path.display())))?;
        println!("{}: {} bytes", path.display(), bytes.len());
        if bytes.len() > limit {
            wrong.push(format!(
                "the bundle of the {function} has {} bytes, more than {limit}: see what a new dependency or feature brings \
                 (`cargo tree --edges features`), or raise the limit in xtask/src/sizes.rs",
                bytes.len()
            ));
        }
        let held = without.iter().filter(|name| contains_crate(&bytes, name));
        wrong.extend(
            held.map(|name| format!("the bundle of the {function} contains {name}: find what calls it")),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(TaskFailure(wrong.join("\n"))) }
}

/// Returns true if a program contains code from a crate. Panic messages contain the paths of their source files.
fn contains_crate(program: &[u8], name: &str) -> bool {
    let folder = format!("/{name}-");
    let follows = |at: usize| program.get(at + folder.len()).is_some_and(u8::is_ascii_digit);
    let mut places = program.windows(folder.len()).enumerate();
    places.any(|(at, window)| window == folder.as_bytes() && follows(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::FUNCTIONS;

    #[test]
    fn a_crate_is_detected_by_its_name_and_version() {
        assert!(contains_crate(b"/index/reqwest-0.13.5/src/lib.rs", "reqwest"));
        assert!(!contains_crate(b"/index/reqwest-retry-0.1/src/lib.rs", "reqwest"));
    }

    #[test]
    fn each_function_has_a_size_limit() {
        assert_eq!(LIMITS.map(|(function, ..)| function), FUNCTIONS);
    }
}
