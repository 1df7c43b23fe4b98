//! The construct as packages: `infra/lib`, compiled by jsii, with the functions inside.

use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_dir as symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::bill_of_materials::cyclonedx;
use super::components::Component;
use super::{EPOCH, bill_of, components, each_bundle, licences};
use crate::bundle::{self, Architecture, FUNCTIONS, program};
use crate::npm::{self, STACK};
use crate::tools::{Failure, read, root, run, target_dir, write};
use crate::venv;

/// Only the app of this repository uses them.
const OF_THE_APP: [&str; 2] = ["stack.ts", "context.ts"];
/// jsii knows licences by single identifiers. The packages say both.
const LICENCE_FOR_JSII: &str = "Apache-2.0";
const LICENCES: &str = "THIRD-PARTY-LICENSES";
/// Its bill of materials.
const BILL: &str = "redeliver-cdk.cdx.json";

/// `cargo xtask dist construct`: builds the functions for each architecture that Rust can build for here, and then
/// [`pack`]s.
///
/// # Errors
/// See [`pack`]; a build fails.
pub(super) fn build(folder: &Path) -> Result<(), Failure> {
    let staged = Staged::new()?;
    each_bundle(|architecture| staged.add_functions(architecture))?;
    staged.compile()?;
    staged.write_reference(&reference())?;
    staged.pack(folder)
}

/// Packs with the functions for this machine alone, which are built already.
///
/// # Errors
/// Node.js or Python is missing, `infra/lib` is nothing that jsii takes, or a file cannot be written.
pub(super) fn pack(folder: &Path) -> Result<(), Failure> {
    let staged = Staged::new()?;
    staged.add_functions(Architecture::HOST)?;
    staged.compile()?;
    let written = stage().join("api.md");
    staged.write_reference(&written)?;
    if read(&written)? != read(&reference())? {
        let page = reference();
        return Err(Failure(format!("{} is out of date: run `cargo xtask dist construct`", page.display())));
    }
    staged.pack(folder)
}

/// The page on the construct's API.
fn reference() -> PathBuf {
    root().join("docs/api.md")
}

/// Where they are made.
fn stage() -> PathBuf {
    target_dir().join("construct")
}

/// The package's files in a folder of their own: jsii compiles in place.
struct Staged {
    package: PathBuf,
}

impl Staged {
    fn new() -> Result<Self, Failure> {
        npm::set_up()?.required()?;
        let _of_an_earlier_run = fs::remove_dir_all(stage());
        let package = stage().join("package");
        let infra = root().join("infra");
        copy_all(&infra.join("lib"), &package.join("lib"), &OF_THE_APP)?;
        copy(&infra.join("package/README.md"), &package.join("README.md"))?;
        let schema = "schemas/retry-policy.schema.json";
        copy(&root().join(schema), &package.join(schema))?;
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            copy(&root().join(licence), &package.join(licence))?;
        }
        let mut inside = components::of(&FUNCTIONS.map(bundle::package), Architecture::HOST.target())?;
        let manifest = read(&infra.join("package/package.json"))?;
        let said = json(&manifest)?;
        for bundled in said["bundledDependencies"].as_array().into_iter().flatten() {
            copy_with_dependencies(bundled.as_str().unwrap_or_default(), &infra, &package, &mut inside)?;
        }
        write(&package.join(LICENCES), &licences::texts(&inside)?)?;
        write(&package.join(BILL), &cyclonedx("redeliver-cdk", env!("CARGO_PKG_VERSION"), &inside))?;
        for peer in ["aws-cdk-lib", "constructs", "@types"] {
            let modules = "node_modules";
            symlink(infra.join(modules).join(peer), package.join(modules).join(peer))
                .map_err(|error| failed(&package, &error))?;
        }
        write(&package.join("package.json"), &manifest)?;
        Ok(Self { package })
    }

    fn add_functions(&self, architecture: Architecture) -> Result<(), Failure> {
        // As the CDK writes it.
        let name = architecture.name().replace('-', "_");
        let functions = self.package.join("functions").join(name);
        FUNCTIONS
            .iter()
            .try_for_each(|function| copy(&program(function), &functions.join(function).join("bootstrap")))
    }

    fn compile(&self) -> Result<(), Failure> {
        let manifest_path = self.package.join("package.json");
        let manifest = read(&manifest_path)?;
        let licence = json(&manifest)?["license"].as_str().unwrap_or_default().to_owned();
        write(&manifest_path, &manifest.replace(&licence, LICENCE_FOR_JSII))?;
        run(self.tool("jsii").arg(&self.package))?;
        write(&manifest_path, &manifest)
    }

    fn write_reference(&self, page: &Path) -> Result<(), Failure> {
        let mut script = STACK.command("node");
        script.args(["--import", "tsx", "package/api.ts"]).arg(self.package.join(".jsii")).arg(page);
        run(&mut script)
    }

    fn pack(&self, folder: &Path) -> Result<(), Failure> {
        let venv = venv::set_up(&venv::CONSTRUCT)?.required()?;
        let made = stage().join("made");
        let mut pacmak = self.tool("jsii-pacmak");
        pacmak.args(["--code-only", "--targets", "js", "python", "--outdir"]).arg(&made).arg(&self.package);
        run(&mut pacmak)?;
        let version = env!("CARGO_PKG_VERSION");
        let npm = folder.join(format!("redeliver-cdk-{version}.tgz"));
        copy(&made.join(format!("js/cdk@{version}.jsii.tgz")), &npm)?;
        for packed in [npm, folder.join(format!("redeliver_cdk-{version}-py3-none-any.whl"))] {
            copy(&self.package.join(BILL), &bill_of(&packed))?;
        }
        self.say_licences(&made.join("python"))?;
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--no-build-isolation", "--wheel-dir"]).arg(folder).arg(made.join("python"));
        run(pip.env("SOURCE_DATE_EPOCH", EPOCH))
    }

    /// The wheel says both licences, as npm's package does, and has their texts where pip looks for them.
    fn say_licences(&self, python: &Path) -> Result<(), Failure> {
        let files = ["LICENSE-APACHE", "LICENSE-MIT", LICENCES];
        files.iter().try_for_each(|file| copy(&self.package.join(file), &python.join(file)))?;
        let setup = python.join("setup.py");
        let text = read(&setup)?;
        let said = format!(r#""license": "{LICENCE_FOR_JSII}","#);
        if !text.contains(&said) {
            return Err(Failure(format!("{}: it does not say {said}", setup.display())));
        }
        let licence = json(&read(&self.package.join("package.json"))?)?["license"].clone();
        let both = format!(r#""license": {licence}, "license_files": {},"#, serde_json::json!(files));
        write(&setup, &text.replace(&said, &both))
    }

    fn tool(&self, name: &str) -> Command {
        let mut tool = STACK.command("node");
        tool.arg(format!("node_modules/{name}/bin/{name}"));
        // CI's Node.js is the oldest that is supported here.
        tool.env("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20");
        tool
    }
}

/// A package of npm as it is installed, and what it needs; each is noted as inside.
fn copy_with_dependencies(
    name: &str,
    from: &Path,
    to: &Path,
    inside: &mut Vec<Component>,
) -> Result<(), Failure> {
    let installed = from.join("node_modules").join(name);
    let here = to.join("node_modules").join(name);
    if here.exists() {
        return Ok(());
    }
    copy_all(&installed, &here, &["test", "spec"])?;
    let path = installed.join("package.json");
    let manifest = json(&read(&path)?)?;
    inside.push(Component::of_npm(&path, &manifest));
    let needed = manifest["dependencies"].as_object().into_iter().flatten();
    needed
        .map(|(dependency, _)| dependency)
        .try_for_each(|dependency| copy_with_dependencies(dependency, from, to, inside))
}

/// A folder with all in it, except what has one of these names.
fn copy_all(from: &Path, to: &Path, except: &[&str]) -> Result<(), Failure> {
    for entry in fs::read_dir(from).map_err(|error| failed(from, &error))? {
        let entry = entry.map_err(|error| failed(from, &error))?;
        let name = entry.file_name();
        if except.iter().any(|left_out| *left_out == name) {
            continue;
        }
        if entry.path().is_dir() {
            copy_all(&entry.path(), &to.join(name), except)?;
        } else {
            copy(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

/// A file with its mode.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
    fs::copy(from, to).map(drop).map_err(|error| failed(from, &error))
}

fn json(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure(format!("package.json: {error}")))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}
