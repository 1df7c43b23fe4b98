//! What the bundle may weigh: Lambda fetches it for each new execution environment, and the start reads it.

use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::bundle::{FUNCTIONS, program};
use crate::tools::Failure;

/// Bytes of a `bootstrap`, as it is and compressed, as it is uploaded and stored.
const LIMITS: (usize, usize) = (11_280_000, 4_780_000);

/// Checks the functions' bundle.
///
/// # Errors
/// It weighs too much.
pub(crate) fn check() -> Result<(), Failure> {
    let path = program(FUNCTIONS);
    let failed = |error| Failure(format!("{}: {error}", path.display()));
    let bytes = fs::read(&path).map_err(failed)?;
    let compressed = compressed(&bytes).map_err(failed)?;
    println!("{}: {} bytes, {compressed} compressed", path.display(), bytes.len());
    let wrong: Vec<_> =
        [too_large(bytes.len(), LIMITS.0, "bytes"), too_large(compressed, LIMITS.1, "bytes compressed")]
            .into_iter()
            .flatten()
            .collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure(wrong.join("\n"))) }
}

fn compressed(bytes: &[u8]) -> std::io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

fn too_large(found: usize, limit: usize, unit: &str) -> Option<String> {
    (found > limit).then(|| {
        format!(
            "the bundle has {found} {unit}, {} more than the limit of {limit}: see what a new dependency or feature brings \
             (`cargo tree --edges features`), or raise the limit in xtask/src/sizes.rs",
            found - limit
        )
    })
}

#[cfg(test)]
mod tests {
    use super::too_large;

    #[test]
    fn a_bundle_may_weigh_its_limit_and_no_byte_more() {
        assert_eq!(too_large(10, 10, "bytes"), None);
        let message = too_large(12, 10, "bytes").unwrap();
        assert!(message.starts_with("the bundle has 12 bytes, 2 more than the limit of 10"), "{message}");
    }
}
