//! `cargo xtask dist`: builds the release artifacts in `target/dist/`.

mod archive;
mod bill_of_materials;
mod command_line;
mod components;
mod construct;
mod functions;
mod image;
mod installers;
mod licenses;
mod system;
mod template;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use sha2::{Digest as _, Sha256};

use crate::bundle::{LambdaArchitecture, bundle_functions};
use crate::containers;
use crate::tools::{TaskFailure, target_dir};
pub(crate) use installers::write_installers as installers;
pub(crate) use trial::try_out_packages;

const SUMS: &str = "SHA256SUMS";
/// The earliest time that a zip can store. A fixed time makes builds reproducible.
const EPOCH: &str = "315532800";

/// An artifact of a release.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Artifact {
    /// The functions and the layer as zips for Lambda, with license texts and bills of materials.
    Functions,
    /// `redeliver` as a Python wheel and an archive, for this machine's system.
    CommandLine,
    /// `redeliver` as a container image.
    Image,
    /// The CDK construct as an npm package and a Python wheel.
    Construct,
    /// The CloudFormation template with parameters, for the functions' zips next to it.
    Template,
}

/// Builds and packs these artifacts, or all of them if the list is empty, and prints the files.
///
/// # Errors
/// A tool is missing or fails.
pub(crate) fn build_artifacts(artifacts: &[Artifact]) -> Result<(), TaskFailure> {
    let folder = target_dir().join("dist");
    if artifacts.is_empty() {
        // Files from an earlier run would be included in the checksums.
        let _might_not_exist = fs::remove_dir_all(&folder);
    }
    fs::create_dir_all(&folder).map_err(|error| file_failure(&folder, &error))?;
    let all = Artifact::value_variants();
    for artifact in if artifacts.is_empty() { all } else { artifacts } {
        match artifact {
            Artifact::Functions => {
                pack_each_bundle(|architecture| functions::pack_functions(&folder, architecture))?
            }
            Artifact::CommandLine => command_line::pack_program(&folder, &command_line::build_program()?)?,
            Artifact::Image => image::pack_image(&folder, &command_line::build_program()?)?,
            Artifact::Construct => construct::build_construct(&folder)?,
            Artifact::Template => {
                pack_each_bundle(|architecture| template::pack_template(&folder, architecture))?
            }
        }
    }
    write_checksums(&folder)
}

/// Packs the artifacts that the tests install, in a separate folder: with the functions only for this machine's
/// architecture, and with the tests' build of the command line. Both must have been built already.
///
/// # Errors
/// See [`build_artifacts`].
pub(crate) fn pack_for_tests() -> Result<(), TaskFailure> {
    let folder = target_dir().join("dist-for-tests");
    let _might_not_exist = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| file_failure(&folder, &error))?;
    functions::pack_functions(&folder, LambdaArchitecture::HOST)?;
    let command_line = command_line::strip_test_build()?;
    command_line::pack_program(&folder, &command_line)?;
    if containers::require_tools().is_ok() {
        image::pack_image(&folder, &command_line)?;
    }
    construct::pack_construct(&folder)?;
    template::pack_template(&folder, LambdaArchitecture::HOST)?;
    write_checksums(&folder)?;
    try_out_packages(&folder)
}

/// Builds and packs the functions for each architecture that Rust can build for on this machine, one after the other in
/// the same folder. This machine's architecture comes last, because the tests use its functions.
fn pack_each_bundle(
    mut pack: impl FnMut(LambdaArchitecture) -> Result<(), TaskFailure>,
) -> Result<(), TaskFailure> {
    for architecture in [LambdaArchitecture::HOST.other(), LambdaArchitecture::HOST] {
        match architecture.require_target() {
            Ok(()) => {
                bundle_functions(architecture)?;
                pack(architecture)?;
            }
            Err(TaskFailure(remedy)) => println!("without {}: {remedy}", architecture.lambda_name()),
        }
    }
    Ok(())
}

/// Writes SHA256SUMS for `sha256sum --check`, sorted by file name, and prints a table of the files.
fn write_checksums(folder: &Path) -> Result<(), TaskFailure> {
    let entries = fs::read_dir(folder).map_err(|error| file_failure(folder, &error))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(|error| file_failure(folder, &error))?;
    paths.retain(|path| path.is_file() && !path.ends_with(SUMS));
    paths.sort();
    let mut sums = String::new();
    println!("{:<56} {:>11}  sha256", "file", "bytes");
    for path in paths {
        let bytes = read_file(&path)?;
        let sum = sha256_hex(&bytes);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{name:<56} {:>11}  {sum}", bytes.len());
        sums.push_str(&format!("{sum}  {name}\n"));
    }
    write_file(&folder.join(SUMS), sums.as_bytes())
}

fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_file(path: &Path) -> Result<Vec<u8>, TaskFailure> {
    fs::read(path).map_err(|error| file_failure(path, &error))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), TaskFailure> {
    fs::write(path, bytes).map_err(|error| file_failure(path, &error))
}

/// Writes an artifact and, next to it, its bill of materials as `FILE.cdx.json`. The release attests both.
fn write_with_bill_of_materials(path: &Path, bytes: &[u8], bill: &str) -> Result<(), TaskFailure> {
    write_file(path, bytes)?;
    write_file(&bill_of_materials_path(path), bill.as_bytes())
}

/// Returns the path of an artifact's bill of materials.
fn bill_of_materials_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".cdx.json");
    name.into()
}

fn file_failure(path: &Path, error: &dyn std::fmt::Display) -> TaskFailure {
    TaskFailure(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_the_sha256sum_format() {
        let folder = target_dir().join("tmp/dist-sums");
        let _might_not_exist = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("a folder")).unwrap();
        fs::write(folder.join("b"), "").unwrap();
        fs::write(folder.join("a"), "abc").unwrap();
        for _repeat in 0..2 {
            write_checksums(&folder).unwrap();
            assert_eq!(
                fs::read_to_string(folder.join(SUMS)).unwrap(),
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
                 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
