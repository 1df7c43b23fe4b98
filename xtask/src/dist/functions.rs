//! The functions' zips, as Lambda takes them: `bootstrap` alone. Licences and the bill of materials lie beside them.

use std::path::Path;

use super::archive::{File, zip};
use super::bill_of_materials::cyclonedx;
use super::{components, licences, read, write};
use crate::bundle::{Architecture, FUNCTIONS, package, program};
use crate::tools::Failure;

/// For one architecture, whose functions are built already.
///
/// # Errors
/// A crate has no licence text, or a file cannot be written.
pub(super) fn pack(folder: &Path, architecture: Architecture) -> Result<(), Failure> {
    FUNCTIONS.iter().try_for_each(|function| pack_one(folder, architecture, function))
}

fn pack_one(folder: &Path, architecture: Architecture, function: &str) -> Result<(), Failure> {
    let package = package(function);
    let name = format!("{package}-{}", architecture.name());
    let inside = components::of(&[&package], architecture)?;
    let bill = cyclonedx(&package, env!("CARGO_PKG_VERSION"), &inside);
    let bootstrap = File::program("bootstrap", read(&program(function))?);
    write(&folder.join(format!("{name}.zip")), &zip(&[bootstrap])?)?;
    write(&folder.join(format!("{name}.cdx.json")), bill.as_bytes())?;
    write(&folder.join(format!("{name}.THIRD-PARTY-LICENSES")), licences::texts(&inside)?.as_bytes())
}
