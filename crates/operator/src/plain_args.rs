//! The option `--plain` for messages without an envelope, which the functions accept if `ENVELOPE=optional` is set.

use std::path::PathBuf;

use clap::Args;
use redeliver_core::json::pointer::{Pointer, PointerError};

use crate::terminal::help::VALIDATE;

/// The options for messages without an envelope.
#[derive(Debug, Default, Args)]
pub struct PlainArguments {
    /// Accept messages without an envelope
    ///
    /// The functions accept them if ENVELOPE=optional is set.
    #[arg(long, help_heading = VALIDATE)]
    pub plain: bool,
    /// JSON Pointer to the id of a plain message
    ///
    /// It points into the body, as in /detail/id.
    #[arg(long, help_heading = VALIDATE, value_name = "POINTER", requires = "plain", value_parser = parse_pointer)]
    pub message_id_pointer: Option<Pointer>,
    /// JSON Schema for the bodies of plain messages
    ///
    /// With this option, the bodies must be JSON.
    #[arg(long, help_heading = VALIDATE, value_name = "FILE", requires = "plain")]
    pub body_schema: Option<PathBuf>,
}

/// Parses a JSON Pointer (RFC 6901), such as `/detail/id`.
///
/// # Errors
/// Returns the errors of [`Pointer::new`].
pub fn parse_pointer(text: &str) -> Result<Pointer, PointerError> {
    Pointer::new(text)
}
