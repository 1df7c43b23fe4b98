//! Parsing untrusted JSON: exact values, and documents of later versions.

pub mod tolerant;
pub mod value;
