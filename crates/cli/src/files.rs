//! Files named on the command line: read whole, with the file's name in every error.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use redeliver_core::policy::Policy;
use redeliver_core::schema::{DataSchema, MessageSchema};
use thiserror::Error;

/// A file that cannot be used. The command ends with exit code 2.
#[derive(Debug, Error)]
#[error("{}: {reason}", .path.display())]
pub struct FileError {
    path: PathBuf,
    reason: String,
}

impl FileError {
    pub(crate) fn new(path: &Path, reason: impl Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path)
        .map_err(|error| FileError::new(path, format_args!("cannot be read: {error}")))
}

/// A policy file; what is absent from it, or all of it, is as in the document `defaults`.
pub(crate) fn read_policy(path: Option<&Path>, defaults: &str) -> Result<Policy, FileError> {
    let text = path.map_or(Ok("{}".to_owned()), read_text)?;
    let policy = Policy::from_json_over(defaults, &text);
    policy.map_err(|error| FileError::new(path.unwrap_or(Path::new("the default policy")), error))
}

pub(crate) fn read_schema(path: Option<&Path>) -> Result<MessageSchema, FileError> {
    let Some(path) = path else {
        return Ok(MessageSchema::default());
    };
    let data = DataSchema::new(&read_text(path)?).map_err(|error| FileError::new(path, error))?;
    Ok(MessageSchema::new(Some(data)))
}
