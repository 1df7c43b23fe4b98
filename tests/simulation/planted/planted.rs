//! The active planted bug. Used only in the copy of the sources in which `cargo xtask faults --planted` plants bugs.

use std::sync::OnceLock;

/// Returns true if the bug with this name is active.
#[must_use]
pub fn is(name: &str) -> bool {
    static ACTIVE: OnceLock<Option<String>> = OnceLock::new();
    ACTIVE.get_or_init(|| std::env::var("PLANTED_BUG").ok()).as_deref() == Some(name)
}
