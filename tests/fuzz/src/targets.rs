//! The targets.

mod annotation;
mod decision;
mod documents;
mod edit;
mod envelope;
mod event;
mod failure;
mod policy;
mod retry_after;

/// A parser of untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Also the name of its corpus.
    pub name: &'static str,
    /// Panics if a property does not hold.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target { name: "envelope", check: |bytes| text(bytes, envelope::check) },
    Target { name: "edit", check: |bytes| text(bytes, edit::check) },
    Target { name: "event", check: |bytes| text(bytes, event::check) },
    Target { name: "policy", check: |bytes| text(bytes, policy::check) },
    Target { name: "documents", check: |bytes| text(bytes, documents::check) },
    Target { name: "decision", check: |bytes| text(bytes, decision::check) },
    Target { name: "annotation", check: annotation::check },
    Target { name: "failure", check: failure::check },
    Target { name: "retry_after", check: |bytes| text(bytes, retry_after::check) },
];

/// The input as text: data from SQS, the environment and headers is always UTF-8.
fn text(bytes: &[u8], check: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text);
    }
}

/// The texts of an input, separated as in a JSON text sequence (RFC 7464).
fn parts<const COUNT: usize>(input: &str) -> [&str; COUNT] {
    let mut parts = input.splitn(COUNT, '\u{1e}');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
