//! Parses untrusted JSON: exact values, and documents from later versions.

pub mod forward_compatible;
pub mod members;
pub mod pointer;
pub mod value;
