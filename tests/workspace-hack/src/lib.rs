//! No code: only the features in `Cargo.toml`.
