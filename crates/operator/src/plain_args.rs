//! `--plain`: messages without an envelope, as the functions take them with `ENVELOPE=optional`.

use std::path::PathBuf;

use clap::Args;
use redeliver_core::json::pointer::{Pointer, PointerError};

/// The options about messages without an envelope.
#[derive(Debug, Default, Args)]
pub struct PlainArguments {
    /// Accept messages without an envelope, as the functions do with ENVELOPE=optional
    #[arg(long)]
    pub plain: bool,
    /// A JSON Pointer to the id in the body of a plain message, such as /detail/id
    #[arg(long, value_name = "POINTER", requires = "plain", value_parser = pointer)]
    pub message_id_pointer: Option<Pointer>,
    /// A JSON Schema for the bodies of plain messages, which must then be JSON
    #[arg(long, value_name = "FILE", requires = "plain")]
    pub body_schema: Option<PathBuf>,
}

/// Parses a JSON Pointer.
///
/// # Errors
/// As [`Pointer::new`].
pub fn pointer(text: &str) -> Result<Pointer, PointerError> {
    Pointer::new(text)
}
