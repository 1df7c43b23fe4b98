//! The output of `--plot`: a picture of the charts, or a page with charts and tables.

use std::path::{Path, PathBuf};

use redeliver_dead_letters::files::{check_directory, publish_file};
use redeliver_sim::planner::Forecast;

use super::page;
use super::plot::forecast_figures;
use redeliver_operator::files::FileError;
use redeliver_operator::markup::chart::render_picture;
use redeliver_operator::{CommandFailure, UsageError};

/// The output file of a picture, and its format.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    path: PathBuf,
    is_page: bool,
}

impl Picture {
    /// Derives the format from the file's extension.
    pub(super) fn for_path(path: &Path) -> Result<Self, CommandFailure> {
        let is_page = match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => false,
            Some("html") => true,
            _ => {
                let path = path.display();
                let sentence = format!("{path}: a picture's name must end in .svg or .html");
                return Err(UsageError::new(sentence).into());
            }
        };
        // Checked now rather than after minutes of simulation.
        check_directory(path)?;
        Ok(Self { path: path.to_owned(), is_page })
    }

    pub(super) fn write(&self, forecast: &Forecast) -> Result<(), FileError> {
        let content = if self.is_page {
            page::render_forecast(forecast)
        } else {
            render_picture(&forecast_figures(forecast))
        };
        publish_file(&self.path, content.as_bytes())
    }
}
