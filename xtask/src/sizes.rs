//! What a bundle may weigh and hold: Lambda fetches it for each new execution environment, and the start reads it.

use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::bundle::program;
use crate::tools::Failure;

/// A function's program, and what it is held to.
struct Limits {
    function: &'static str,
    /// Of its `bootstrap` as it is, and compressed, as it is uploaded and stored.
    bytes: usize,
    bytes_compressed: usize,
    /// Crates that it has no use for. They are compiled for the others, and must not be linked.
    without: &'static [&'static str],
}

/// The layer's program is the message-processor's.
const LIMITS: [Limits; 4] = [
    Limits { function: "message-processor", bytes: 11_640_000, bytes_compressed: 4_930_000, without: &[] },
    Limits {
        function: "failed-message-processor",
        bytes: 10_480_000,
        bytes_compressed: 4_410_000,
        without: &["reqwest"],
    },
    Limits {
        function: "final-dlq-annotator",
        bytes: 6_330_000,
        bytes_compressed: 2_830_000,
        without: &["jsonschema", "reqwest"],
    },
    Limits {
        function: "async-retry-handler",
        bytes: 10_210_000,
        bytes_compressed: 4_270_000,
        without: &["reqwest"],
    },
];

/// Checks each function's bundle.
///
/// # Errors
/// One weighs too much, or holds what it should not.
pub(crate) fn check() -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for limits in LIMITS {
        let path = program(limits.function);
        let failed = |error| Failure(format!("{}: {error}", path.display()));
        let bytes = fs::read(&path).map_err(failed)?;
        let compressed = compressed(&bytes).map_err(failed)?;
        println!("{}: {} bytes, {compressed} compressed", path.display(), bytes.len());
        wrong.extend(limits.broken(&bytes, compressed));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure(wrong.join("\n"))) }
}

fn compressed(bytes: &[u8]) -> std::io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

impl Limits {
    fn broken(&self, bytes: &[u8], compressed: usize) -> Vec<String> {
        let too_large =
            [(bytes.len(), self.bytes, "bytes"), (compressed, self.bytes_compressed, "bytes compressed")];
        let too_large = too_large.into_iter().filter(|(found, limit, _)| found > limit).map(|(found, limit, unit)| {
            format!(
                "the bundle of the {} has {found} {unit}, {} more than the limit of {limit}: see what a new dependency or \
                 feature brings (`cargo tree --edges features`), or raise the limit in xtask/src/sizes.rs",
                self.function,
                found - limit
            )
        });
        let held = self.without.iter().filter(|name| holds(bytes, name)).map(|name| {
            format!(
                "the bundle of the {} holds {name}, which it has no use for: find what calls it",
                self.function
            )
        });
        too_large.chain(held).collect()
    }
}

/// Whether something of a crate is linked: panics name the files that they come from.
fn holds(program: &[u8], name: &str) -> bool {
    let folder = format!("/{name}-");
    let follows = |at: usize| program.get(at + folder.len()).is_some_and(u8::is_ascii_digit);
    let mut places = program.windows(folder.len()).enumerate();
    places.any(|(at, window)| window == folder.as_bytes() && follows(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::FUNCTIONS;

    const LIMIT: Limits =
        Limits { function: "annotator", bytes: 40, bytes_compressed: 10, without: &["reqwest"] };

    #[test]
    fn a_bundle_may_weigh_its_limit_and_no_byte_more() {
        assert_eq!(LIMIT.broken(&[0; 40], 10), [""; 0]);
        let broken = LIMIT.broken(&[0; 42], 13);
        let [bytes, compressed] = &broken[..] else { panic!("{broken:?}") };
        let message = "the bundle of the annotator has 42 bytes, 2 more than the limit of 40";
        assert!(bytes.starts_with(message), "{bytes}");
        let message = "the bundle of the annotator has 13 bytes compressed, 3 more than the limit of 10";
        assert!(compressed.starts_with(message), "{compressed}");
    }

    #[test]
    fn a_bundle_that_holds_what_it_has_no_use_for_is_refused() {
        let refused =
            ["the bundle of the annotator holds reqwest, which it has no use for: find what calls it"];
        assert_eq!(LIMIT.broken(b"/index/reqwest-0.13.5/src/lib.rs", 10), refused);
        assert_eq!(LIMIT.broken(b"/index/reqwest-retry-0.1/src/lib.rs", 10), [""; 0]);
    }

    #[test]
    fn each_function_has_its_limits() {
        assert_eq!(LIMITS.map(|limits| limits.function), FUNCTIONS);
    }
}
