//! `--plain`: messages without an envelope, as the functions take them with `ENVELOPE=optional`.

use std::path::PathBuf;

use clap::Args;
use redeliver_core::message::plain::{IdPointer, IdPointerError};

/// Which messages without an envelope are taken.
#[derive(Debug, Default, Args)]
pub struct PlainArguments {
    /// Accept messages without an envelope, as the functions do with ENVELOPE=optional
    #[arg(long)]
    pub plain: bool,
    /// Where the id of a plain message stands in its body: a JSON Pointer, such as /detail/id
    #[arg(long, value_name = "POINTER", requires = "plain", value_parser = pointer)]
    pub message_id_pointer: Option<IdPointer>,
    /// A JSON Schema for the bodies of plain messages, which are JSON then
    #[arg(long, value_name = "FILE", requires = "plain")]
    pub body_schema: Option<PathBuf>,
}

fn pointer(text: &str) -> Result<IdPointer, IdPointerError> {
    IdPointer::new(text)
}
