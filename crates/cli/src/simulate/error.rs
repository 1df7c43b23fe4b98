//! Why a simulation cannot be made. The command ends with exit code 2.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::RunError;
use crate::cost::PricesError;
use crate::files::FileError;

#[derive(Debug, Error)]
pub(super) enum SimulateError {
    /// A file that cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Run(#[from] RunError),
    /// They could not be told apart.
    #[error("--compare: at most {} policies beside the first", .0)]
    TooManyPolicies(usize),
    /// A name that says no kind of picture.
    #[error("{}: a picture's name ends in .svg or .html", .0.display())]
    PictureName(PathBuf),
}

impl SimulateError {
    pub(super) fn prices(path: &Path, error: PricesError) -> Self {
        Self::File(FileError::new(path, error))
    }
}
