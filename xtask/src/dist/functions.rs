//! Packs the functions as zips for Lambda, each with only `bootstrap`, and the layer with the message-processor as
//! `redeliver`. Licenses and bills of materials are written next to the zips.

use std::path::Path;

use super::archive::{File, pack_zip};
use super::bill_of_materials::render_cyclonedx;
use super::{components, licenses, read_file, write_file, write_with_bill_of_materials};
use crate::bundle::{FUNCTIONS, LambdaArchitecture, package_name, program_path};
use crate::tools::TaskFailure;

/// Packs the functions and the layer for one architecture. The functions must have been built already.
///
/// # Errors
/// A crate has no license text, or a file cannot be written.
pub(super) fn pack_functions(folder: &Path, architecture: LambdaArchitecture) -> Result<(), TaskFailure> {
    FUNCTIONS.iter().try_for_each(|function| {
        pack_function_zip(folder, architecture, function, &package_name(function), "bootstrap")
    })?;
    // Lambda unpacks the layer to /opt.
    pack_function_zip(folder, architecture, "message-processor", "redeliver-layer", "redeliver")
}

/// Packs a zip that contains only a function's program, named `file`.
fn pack_function_zip(
    folder: &Path,
    architecture: LambdaArchitecture,
    function: &str,
    artifact: &str,
    file: &str,
) -> Result<(), TaskFailure> {
    let name = format!("{artifact}-{}", architecture.lambda_name());
    let inside = components::collect_components(&[&package_name(function)], architecture.rust_target())?;
    let bill = render_cyclonedx(artifact, env!("CARGO_PKG_VERSION"), &inside);
    let program = File::program(file, read_file(&program_path(function))?);
    write_with_bill_of_materials(&folder.join(format!("{name}.zip")), &pack_zip(&[program])?, &bill)?;
    write_file(
        &folder.join(format!("{name}.THIRD-PARTY-LICENSES")),
        licenses::license_texts(&inside)?.as_bytes(),
    )
}
