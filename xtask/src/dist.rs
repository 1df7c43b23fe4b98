//! `cargo xtask dist`: what others install.

pub(crate) mod construct;

use clap::ValueEnum;

use crate::tools::Failure;

/// Something to be packed.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Artefact {
    /// The CDK construct: npm package and Python wheel.
    Construct,
}

/// Packs it into `target/dist/`.
///
/// # Errors
/// What is missing, or the error of the tool that packs.
pub(crate) fn dist(artefact: Artefact) -> Result<(), Failure> {
    match artefact {
        Artefact::Construct => construct::build(),
    }
}
