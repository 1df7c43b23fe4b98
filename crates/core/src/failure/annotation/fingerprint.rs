//! The fingerprint of an error, which groups dead letters with the same cause.

use sha2::{Digest, Sha256};

/// Computes 16 hexadecimal digits: the first 64 bits of a SHA-256 hash of the code, the error type, and the error
/// message without ids and numbers.
#[must_use]
pub fn compute_fingerprint(reason: &str, error_type: &str, message: &str) -> String {
    let digest = Sha256::digest(format!("{reason}\n{error_type}\n{}", without_ids_and_numbers(message)));
    let start = digest.iter().take(8).fold(0, |start: u64, byte| (start << 8) | u64::from(*byte));
    format!("{start:016x}")
}

/// Replaces every word that contains a digit with `#`. A word consists of letters, digits and `-`, so a UUID is one
/// word.
fn without_ids_and_numbers(message: &str) -> String {
    let mut normal = String::with_capacity(message.len());
    for word in message.split_inclusive(|character: char| !(character.is_alphanumeric() || character == '-'))
    {
        let end =
            word.trim_end_matches(|character: char| !(character.is_alphanumeric() || character == '-')).len();
        let (word, separator) = word.split_at(end);
        normal.push_str(if word.contains(|character: char| character.is_ascii_digit()) { "#" } else { word });
        normal.push_str(separator);
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_numbers_do_not_change_the_fingerprint() {
        let first = "order 0191f3a2-7b1c-7d3e-8f00-0123456789ab of user u42 not found after 12.5 s";
        let second = "order 7c9e6679-7425-40de-944b-e07fc1f90ae7 of user u7 not found after 3.25 s";
        assert_eq!(without_ids_and_numbers(first), "order # of user # not found after #.# s");
        assert_eq!(compute_fingerprint("A", "B", first), compute_fingerprint("A", "B", second));
        assert_eq!(compute_fingerprint("A", "B", first).len(), 16);
    }

    #[test]
    fn different_errors_have_different_fingerprints() {
        assert_ne!(compute_fingerprint("A", "B", "not found"), compute_fingerprint("A", "B", "not allowed"));
        assert_ne!(
            compute_fingerprint("A", "HttpStatus.503", ""),
            compute_fingerprint("A", "HttpStatus.504", "")
        );
    }
}
