//! The functions' zips, as Lambda takes them: `bootstrap` alone; and the layer's, with the message-processor as `redeliver`. Licences
//! and the bill of materials lie beside them.

use std::path::Path;

use super::archive::{File, zip};
use super::bill_of_materials::cyclonedx;
use super::{components, licences, read, write, write_with_bill};
use crate::bundle::{Architecture, FUNCTIONS, package, program};
use crate::tools::Failure;

/// For one architecture, whose functions are built already.
///
/// # Errors
/// A crate has no licence text, or a file cannot be written.
pub(super) fn pack(folder: &Path, architecture: Architecture) -> Result<(), Failure> {
    FUNCTIONS
        .iter()
        .try_for_each(|function| pack_one(folder, architecture, function, &package(function), "bootstrap"))?;
    // Lambda unpacks it to /opt.
    pack_one(folder, architecture, "message-processor", "redeliver-layer", "redeliver")
}

/// A zip with a function's program alone, under this name.
fn pack_one(
    folder: &Path,
    architecture: Architecture,
    function: &str,
    artefact: &str,
    file: &str,
) -> Result<(), Failure> {
    let name = format!("{artefact}-{}", architecture.name());
    let inside = components::of(&[&package(function)], architecture.target())?;
    let bill = cyclonedx(artefact, env!("CARGO_PKG_VERSION"), &inside);
    let program = File::program(file, read(&program(function))?);
    write_with_bill(&folder.join(format!("{name}.zip")), &zip(&[program])?, &bill)?;
    write(&folder.join(format!("{name}.THIRD-PARTY-LICENSES")), licences::texts(&inside)?.as_bytes())
}
