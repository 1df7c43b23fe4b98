//! The fuzz targets.

mod annotation;
mod decision;
mod documents;
mod edit;
mod envelope;
mod event;
mod failure;
mod policy;
mod retry_after;

/// A fuzz target: a parser of untrusted bytes, and its properties.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// The name of the target and of its corpus.
    pub name: &'static str,
    /// Panics if a property is violated.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [FuzzTarget; 9] = [
    FuzzTarget { name: "envelope", check: |bytes| check_text(bytes, envelope::check) },
    FuzzTarget { name: "edit", check: |bytes| check_text(bytes, edit::check) },
    FuzzTarget { name: "event", check: |bytes| check_text(bytes, event::check) },
    FuzzTarget { name: "policy", check: |bytes| check_text(bytes, policy::check) },
    FuzzTarget { name: "documents", check: |bytes| check_text(bytes, documents::check) },
    FuzzTarget { name: "decision", check: |bytes| check_text(bytes, decision::check) },
    FuzzTarget { name: "annotation", check: annotation::check },
    FuzzTarget { name: "failure", check: failure::check },
    FuzzTarget { name: "retry_after", check: |bytes| check_text(bytes, retry_after::check) },
];

/// Checks an input if it is UTF-8, as all data from SQS, the environment and headers is.
fn check_text(bytes: &[u8], check: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text);
    }
}

/// Splits an input into its parts, separated as in a JSON text sequence (RFC 7464).
fn split_parts<const COUNT: usize>(input: &str) -> [&str; COUNT] {
    let mut parts = input.splitn(COUNT, '\u{1e}');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
