//! The file of `--plot`: a picture of the charts, or a page with the charts and the tables.

use std::path::{Path, PathBuf};

use redeliver_dead_letters::files::{check_directory, publish};
use redeliver_sim::planner::Forecast;

use super::page;
use super::plot::figures;
use redeliver_operator::files::FileError;
use redeliver_operator::markup::chart::picture;
use redeliver_operator::{Failure, UsageError};

/// The file of a picture, and its format.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    path: PathBuf,
    is_page: bool,
}

impl Picture {
    /// The format is that of the file's extension.
    pub(super) fn at(path: &Path) -> Result<Self, Failure> {
        let is_page = match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => false,
            Some("html") => true,
            _ => {
                let path = path.display();
                let sentence = format!("{path}: a picture's name ends in .svg or .html");
                return Err(UsageError::new(sentence).into());
            }
        };
        // Checked now, not after minutes of simulation.
        check_directory(path)?;
        Ok(Self { path: path.to_owned(), is_page })
    }

    pub(super) fn write(&self, forecast: &Forecast) -> Result<(), FileError> {
        let content = if self.is_page { page::of(forecast) } else { picture(&figures(forecast)) };
        publish(&self.path, content.as_bytes())
    }
}
