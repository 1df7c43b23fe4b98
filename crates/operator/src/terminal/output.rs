//! The destination of a report, and the first member of each JSON document.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::files::check_output;
use serde::Serialize;

use crate::files::{FileError, create_output, unwritable_file_error};
use crate::terminal::escape::{escape_json, escape_lines};
use crate::terminal::help::SHOW;
use crate::terminal::layout::TextLayout;

/// The destination of a report.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// Write to this new file instead of standard output
    ///
    /// An existing file is not overwritten.
    #[arg(short, long, help_heading = SHOW, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}

/// The format and the destination of a report.
#[derive(Clone, Debug, Args)]
pub struct PrintArgs {
    /// The format
    #[arg(long, help_heading = SHOW, value_enum, default_value_t = ReportFormat::Table)]
    format: ReportFormat,
    #[command(flatten)]
    output: OutputArgs,
}

impl PrintArgs {
    /// Returns the output file, if one is named.
    pub fn file(&self) -> Option<&Path> {
        self.output.file()
    }

    /// Returns the same format with standard output as the destination, for a command that uses the file for something
    /// else.
    pub fn with_stdout(&self) -> Self {
        Self { format: self.format, output: OutputArgs::default() }
    }

    /// Returns true if the report is printed as text on standard output.
    pub fn is_for_people(&self) -> bool {
        self.format == ReportFormat::Table && self.file().is_none()
    }

    /// Returns the layout; see [`OutputArgs::layout`].
    pub fn layout(&self, now: Timestamp) -> TextLayout {
        self.output.layout(now)
    }

    /// Checks the output file; see [`OutputArgs::check_destination`].
    pub fn check_destination(&self) -> Result<(), FileError> {
        self.output.check_destination()
    }

    /// Writes the report as a table, or as the command's JSON document.
    pub fn print_report(
        &self,
        command: &str,
        report: &impl Serialize,
        table: impl FnOnce() -> String,
    ) -> Result<(), FileError> {
        self.output.write_text(&match self.format {
            // Cells may contain untrusted text; no table has colors.
            ReportFormat::Table => escape_lines(&table()),
            ReportFormat::Json => json_document(command, report),
        })
    }
}

impl OutputArgs {
    /// Returns the output file; `None` for standard output.
    pub fn file(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Returns the layout of a report for this destination.
    pub fn layout(&self, now: Timestamp) -> TextLayout {
        if self.file().is_some() { TextLayout::Whole } else { TextLayout::for_stdout(now) }
    }

    /// Checks that the file can be created. Call this before doing the work, since its report would otherwise be lost.
    ///
    /// # Errors
    /// If the file already exists, or its directory does not.
    pub fn check_destination(&self) -> Result<(), FileError> {
        match self.file() {
            Some(path) => check_output(path),
            None => Ok(()),
        }
    }

    /// Writes the text. It is not an error if the reader of standard output closes it early, as `head` does.
    pub fn write_text(&self, text: &str) -> Result<(), FileError> {
        let (written, name) = match self.file() {
            Some(path) => (create_file(path)?.write_all(text.as_bytes()), path),
            None => (io::stdout().write_all(text.as_bytes()), Path::new("standard output")),
        };
        match written {
            Err(error) if self.output.is_some() || error.kind() != io::ErrorKind::BrokenPipe => {
                Err(unwritable_file_error(name, &error))
            }
            _ => Ok(()),
        }
    }
}

/// Creates a file, or opens a pipe or device for writing.
pub fn create_file(path: &Path) -> Result<File, FileError> {
    create_output(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => FileError::new(path, error),
        _ => unwritable_file_error(path, &error),
    })
}

/// Formats a report as a line of JSON. Its first member contains the document's name and version, so that programs
/// notice a change.
pub fn json_document(command: &str, report: &impl Serialize) -> String {
    let document = VersionedReport { schema: format!("redeliver.{command}/1"), report };
    let json = serde_json::to_string(&document);
    escape_json(&json.expect("numbers, strings and maps with plain keys always serialize")) + "\n"
}

#[derive(Serialize)]
struct VersionedReport<'a, T> {
    schema: String,
    #[serde(flatten)]
    report: &'a T,
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::files::{ALREADY_EXISTS, replace_file};

    use super::*;

    #[test]
    fn a_json_document_begins_with_its_schema() {
        let report = serde_json::json!({ "a": 1, "b": { "7": [] } });
        assert_eq!(
            json_document("audit", &report),
            "{\"schema\":\"redeliver.audit/1\",\"a\":1,\"b\":{\"7\":[]}}\n"
        );
    }

    #[test]
    fn an_existing_output_file_is_rejected_before_any_work_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        replace_file(&path, b"precious").unwrap();
        let output = OutputArgs { output: Some(path.clone()) };
        let expected = format!("{}: {ALREADY_EXISTS}", path.display());
        assert_eq!(output.check_destination().unwrap_err().to_string(), expected);
        assert_eq!(output.write_text("report").unwrap_err().to_string(), expected);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
        assert!(output.check_destination().is_ok() && output.write_text("report").is_ok());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "report");
    }

    #[test]
    fn an_unwritable_output_file_is_rejected_before_any_work_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let refused =
            |path: PathBuf| OutputArgs { output: Some(path) }.check_destination().unwrap_err().to_string();
        assert!(refused(folder.path().to_owned()).ends_with("it is a directory; name a file in it"));
        assert!(
            refused(folder.path().join("nowhere/report.json"))
                .ends_with("create it first, or name another file")
        );
        assert!(
            OutputArgs { output: Some("report-that-is-not-there.json".into()) }.check_destination().is_ok()
        );
    }
}
