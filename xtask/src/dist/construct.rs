//! The construct's packages: `infra/lib`, compiled by jsii, with the functions included.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_dir as symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::bill_of_materials::render_cyclonedx;
use super::components::Component;
use super::{EPOCH, bill_of_materials_path, components, licenses, pack_each_bundle};
use crate::bundle::{self, FUNCTIONS, LambdaArchitecture, program_path};
use crate::npm::{self, STACK};
use crate::tools::{TaskFailure, read_file, run_command, target_dir, workspace_root, write_file};
use crate::venv;

/// Files that only this repository's app uses.
const APP_FILES: [&str; 2] = ["stack.ts", "context.ts"];
/// The license for jsii, which accepts only a single identifier. The packages state both licenses.
const LICENSE_FOR_JSII: &str = "Apache-2.0";
const LICENSES: &str = "THIRD-PARTY-LICENSES";
/// The bill of materials in the packages.
const BILL: &str = "redeliver-cdk.cdx.json";

/// Runs `cargo xtask dist construct`: builds the functions for each architecture that Rust can build for on this
/// machine, writes the reference page, and packs the construct.
///
/// # Errors
/// A build fails. See also [`pack_construct`].
pub(super) fn build_construct(folder: &Path) -> Result<(), TaskFailure> {
    let staged = StagedPackage::new()?;
    pack_each_bundle(|architecture| staged.add_functions(architecture))?;
    staged.compile_sources()?;
    staged.write_reference(&reference_page())?;
    staged.pack_packages(folder)
}

/// Packs the construct with the functions only for this machine's architecture, which must have been built already.
///
/// # Errors
/// Node.js or Python is missing, jsii rejects `infra/lib`, a file cannot be written, or the reference page is out of
/// date.
pub(super) fn pack_construct(folder: &Path) -> Result<(), TaskFailure> {
    let staged = StagedPackage::new()?;
    staged.add_functions(LambdaArchitecture::HOST)?;
    staged.compile_sources()?;
    let written = staging_folder().join("api.md");
    staged.write_reference(&written)?;
    if read_file(&written)? != read_file(&reference_page())? {
        let page = reference_page();
        return Err(TaskFailure(format!(
            "{} is out of date: run `cargo xtask dist construct`",
            page.display()
        )));
    }
    staged.pack_packages(folder)
}

/// Returns the path of the construct's reference page.
fn reference_page() -> PathBuf {
    workspace_root().join("docs/api.md")
}

/// Returns the folder in which the packages are built.
fn staging_folder() -> PathBuf {
    target_dir().join("construct")
}

/// The package's files in a separate folder, because jsii compiles in place.
struct StagedPackage {
    package: PathBuf,
}

impl StagedPackage {
    fn new() -> Result<Self, TaskFailure> {
        npm::set_up()?.require_node()?;
        let _might_not_exist = fs::remove_dir_all(staging_folder());
        let package = staging_folder().join("package");
        let infra = workspace_root().join("infra");
        copy_all(&infra.join("lib"), &package.join("lib"), &APP_FILES)?;
        copy_file(&infra.join("package/README.md"), &package.join("README.md"))?;
        let schema = "schemas/retry-policy.schema.json";
        copy_file(&workspace_root().join(schema), &package.join(schema))?;
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            copy_file(&workspace_root().join(license), &package.join(license))?;
        }
        let mut inside = components::collect_components(
            &FUNCTIONS.map(bundle::package_name),
            LambdaArchitecture::HOST.rust_target(),
        )?;
        let manifest = read_file(&infra.join("package/package.json"))?;
        let said = parse_json(&manifest)?;
        for bundled in said["bundledDependencies"].as_array().into_iter().flatten() {
            copy_with_dependencies(bundled.as_str().unwrap_or_default(), &infra, &package, &mut inside)?;
        }
        write_file(&package.join(LICENSES), &licenses::license_texts(&inside)?)?;
        write_file(
            &package.join(BILL),
            &render_cyclonedx("redeliver-cdk", env!("CARGO_PKG_VERSION"), &inside),
        )?;
        for peer in ["aws-cdk-lib", "constructs", "@types"] {
            let modules = "node_modules";
            symlink(infra.join(modules).join(peer), package.join(modules).join(peer))
                .map_err(|error| file_failure(&package, &error))?;
        }
        write_file(&package.join("package.json"), &manifest)?;
        Ok(Self { package })
    }

    fn add_functions(&self, architecture: LambdaArchitecture) -> Result<(), TaskFailure> {
        // The CDK's name for the architecture.
        let name = architecture.lambda_name().replace('-', "_");
        let functions = self.package.join("functions").join(name);
        FUNCTIONS.iter().try_for_each(|function| {
            copy_file(&program_path(function), &functions.join(function).join("bootstrap"))
        })
    }

    fn compile_sources(&self) -> Result<(), TaskFailure> {
        let manifest_path = self.package.join("package.json");
        let manifest = read_file(&manifest_path)?;
        let license = parse_json(&manifest)?["license"].as_str().unwrap_or_default().to_owned();
        write_file(&manifest_path, &manifest.replace(&license, LICENSE_FOR_JSII))?;
        run_command(self.tool_command("jsii").arg(&self.package))?;
        write_file(&manifest_path, &manifest)
    }

    fn write_reference(&self, page: &Path) -> Result<(), TaskFailure> {
        let mut script = STACK.command("node");
        script.args(["--import", "tsx", "package/api.ts"]).arg(self.package.join(".jsii")).arg(page);
        run_command(&mut script)
    }

    fn pack_packages(&self, folder: &Path) -> Result<(), TaskFailure> {
        let venv = venv::set_up(&venv::CONSTRUCT)?.require_environment()?;
        let made = staging_folder().join("made");
        let mut pacmak = self.tool_command("jsii-pacmak");
        pacmak.args(["--code-only", "--targets", "js", "python", "--outdir"]).arg(&made).arg(&self.package);
        run_command(&mut pacmak)?;
        let version = env!("CARGO_PKG_VERSION");
        let npm = folder.join(format!("redeliver-cdk-{version}.tgz"));
        copy_file(&made.join(format!("js/cdk@{version}.jsii.tgz")), &npm)?;
        for packed in [npm, folder.join(format!("redeliver_cdk-{version}-py3-none-any.whl"))] {
            copy_file(&self.package.join(BILL), &bill_of_materials_path(&packed))?;
        }
        self.write_licenses(&made.join("python"))?;
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--no-build-isolation", "--wheel-dir"]).arg(folder).arg(made.join("python"));
        run_command(pip.env("SOURCE_DATE_EPOCH", EPOCH))
    }

    /// Makes the wheel state both licenses, as the npm package does, and puts their texts where pip looks for them.
    fn write_licenses(&self, python: &Path) -> Result<(), TaskFailure> {
        let files = ["LICENSE-APACHE", "LICENSE-MIT", LICENSES];
        files.iter().try_for_each(|file| copy_file(&self.package.join(file), &python.join(file)))?;
        let setup = python.join("setup.py");
        let text = read_file(&setup)?;
        let said = format!(r#""license": "{LICENSE_FOR_JSII}","#);
        if !text.contains(&said) {
            return Err(TaskFailure(format!("{} does not contain {said}", setup.display())));
        }
        let license = parse_json(&read_file(&self.package.join("package.json"))?)?["license"].clone();
        let both = format!(r#""license": {license}, "license_files": {},"#, serde_json::json!(files));
        write_file(&setup, &text.replace(&said, &both))
    }

    fn tool_command(&self, name: &str) -> Command {
        let mut tool = STACK.command("node");
        tool.arg(format!("node_modules/{name}/bin/{name}"));
        // CI uses the oldest supported Node.js.
        tool.env("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20");
        tool
    }
}

/// Copies an installed npm package with its dependencies, and adds each to the components.
fn copy_with_dependencies(
    name: &str,
    from: &Path,
    to: &Path,
    inside: &mut Vec<Component>,
) -> Result<(), TaskFailure> {
    let installed = from.join("node_modules").join(name);
    let here = to.join("node_modules").join(name);
    if here.exists() {
        return Ok(());
    }
    copy_all(&installed, &here, &["test", "spec"])?;
    let path = installed.join("package.json");
    let manifest = parse_json(&read_file(&path)?)?;
    inside.push(Component::from_npm(&path, &manifest));
    let needed = manifest["dependencies"].as_object().into_iter().flatten();
    needed
        .map(|(dependency, _)| dependency)
        .try_for_each(|dependency| copy_with_dependencies(dependency, from, to, inside))
}

/// Copies a folder recursively, except entries with these names.
fn copy_all(from: &Path, to: &Path, except: &[&str]) -> Result<(), TaskFailure> {
    for entry in fs::read_dir(from).map_err(|error| file_failure(from, &error))? {
        let entry = entry.map_err(|error| file_failure(from, &error))?;
        let name = entry.file_name();
        if except.iter().any(|left_out| *left_out == name) {
            continue;
        }
        if entry.path().is_dir() {
            copy_all(&entry.path(), &to.join(name), except)?;
        } else {
            copy_file(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

/// Copies a file with its mode.
fn copy_file(from: &Path, to: &Path) -> Result<(), TaskFailure> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(|error| file_failure(parent, &error))?;
    fs::copy(from, to).map(drop).map_err(|error| file_failure(from, &error))
}

fn parse_json(text: &str) -> Result<Value, TaskFailure> {
    serde_json::from_str(text).map_err(|error| TaskFailure(format!("package.json: {error}")))
}

fn file_failure(path: &Path, error: &std::io::Error) -> TaskFailure {
    TaskFailure(format!("{}: {error}", path.display()))
}
