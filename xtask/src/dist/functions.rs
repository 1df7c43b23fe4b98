//! The functions' zips, as Lambda takes them: `bootstrap` alone. Licences and the bill of materials lie beside them.

use std::path::Path;

use super::archive::{File, zip};
use super::bill_of_materials::cyclonedx;
use super::{components, licences, read, write};
use crate::bundle::{Architecture, FUNCTIONS, program};
use crate::tools::Failure;

/// For one architecture, whose functions are built already.
///
/// # Errors
/// A crate has no licence text, or a file cannot be written.
pub(super) fn pack(folder: &Path, architecture: Architecture) -> Result<(), Failure> {
    let name = format!("{FUNCTIONS}-{}", architecture.name());
    let inside = components::of(FUNCTIONS, architecture)?;
    let bill = cyclonedx(FUNCTIONS, env!("CARGO_PKG_VERSION"), &inside);
    let bootstrap = File::program("bootstrap", read(&program(FUNCTIONS))?);
    write(&folder.join(format!("{name}.zip")), &zip(&[bootstrap])?)?;
    write(&folder.join(format!("{name}.cdx.json")), bill.as_bytes())?;
    write(&folder.join(format!("{name}.THIRD-PARTY-LICENSES")), licences::texts(&inside)?.as_bytes())
}
