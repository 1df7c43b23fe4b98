//! `redeliver` as a Python wheel and as a tarball: one build, with licences and the bill of materials inside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::{File, tarball};
use super::bill_of_materials::cyclonedx;
use super::{EPOCH, components, failed, licences, read, write};
use crate::bundle::{Architecture, path_with, reproducible_flags};
use crate::tools::{Failure, output, root, run, target_dir};
use crate::venv;

/// The package and its program.
pub(super) const COMMAND_LINE: &str = "redeliver";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Cargo's profile.
const PROFILE: &str = "dist";
/// The C library of Debian 10, RHEL 8 and everything since; maturin refuses a program that asks for a newer one.
const MANYLINUX: &str = "manylinux_2_28";

/// Both, for this machine: the program is asked for its completions and manual pages.
///
/// # Errors
/// The build fails, a crate has no licence text, or a file cannot be written.
pub(super) fn pack(folder: &Path) -> Result<(), Failure> {
    let papers = papers(Architecture::HOST)?;
    let program = build_wheel(folder, &papers)?;
    println!("{}", output(Command::new(&program).arg("--version"))?.trim());

    let top = format!("redeliver-{VERSION}-{}-linux", Architecture::HOST.machine());
    let mut files = vec![File::program(format!("{top}/redeliver"), read(&program)?)];
    for (shell, file) in [("bash", "redeliver.bash"), ("fish", "redeliver.fish"), ("zsh", "_redeliver")] {
        let script = output(Command::new(&program).args(["completions", shell]))?;
        files.push(File::text(format!("{top}/completions/{file}"), script));
    }
    files.extend(manual(&program, &top)?);
    files.extend(papers.into_iter().map(|(name, text)| File::text(format!("{top}/{name}"), text)));
    write(&folder.join(format!("{top}.tar.gz")), &tarball(&files)?)
}

/// What goes with the program wherever it goes.
fn papers(architecture: Architecture) -> Result<Vec<(String, String)>, Failure> {
    let inside = components::of(COMMAND_LINE, architecture)?;
    let own = |name: &str| {
        let text = read(&root().join(name))?;
        Ok((name.to_owned(), String::from_utf8_lossy(&text).into_owned()))
    };
    Ok(vec![
        own("LICENSE-APACHE")?,
        own("LICENSE-MIT")?,
        ("THIRD-PARTY-LICENSES".to_owned(), licences::texts(&inside)?),
        ("redeliver.cdx.json".to_owned(), cyclonedx(COMMAND_LINE, VERSION, &inside)),
    ])
}

/// By maturin, in a folder where the papers lie beside its settings; gives the program that is in the wheel.
fn build_wheel(folder: &Path, papers: &[(String, String)]) -> Result<PathBuf, Failure> {
    let stage = target_dir().join("command-line");
    fs::create_dir_all(&stage).map_err(|error| failed(&stage, &error))?;
    let package = root().join("crates/cli");
    for (name, text) in papers {
        write(&stage.join(name), text.as_bytes())?;
    }
    write(&stage.join("README.md"), &read(&package.join("README.md"))?)?;
    let settings = read(&package.join("pyproject.toml"))?;
    let manifest = package.join("Cargo.toml");
    let at = format!("manifest-path = {:?}\n", manifest.display().to_string());
    write(&stage.join("pyproject.toml"), &[settings, at.into_bytes()].concat())?;

    let venv = venv::set_up(&venv::BUNDLE)?.required()?;
    let target = Architecture::HOST.target();
    let mut maturin = Command::new(venv.join("bin/maturin"));
    maturin.args(["build", "--locked", "--zig", "--auditwheel", "check", "--compatibility", MANYLINUX]);
    maturin.args(["--profile", PROFILE, "--target", target, "--out"]).arg(folder).current_dir(&stage);
    maturin.env("CARGO_TARGET_DIR", target_dir()).env("SOURCE_DATE_EPOCH", EPOCH);
    maturin.env("RUSTFLAGS", reproducible_flags()).env("PATH", path_with(&venv.join("bin"))?);
    run(&mut maturin)?;
    Ok(target_dir().join(target).join(PROFILE).join(COMMAND_LINE))
}

fn manual(program: &Path, top: &str) -> Result<Vec<File>, Failure> {
    let folder = target_dir().join("command-line/man");
    let _there_was_none = fs::remove_dir_all(&folder);
    output(Command::new(program).arg("man").arg(&folder))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| failed(&folder, &error))? {
        let path = entry.map_err(|error| failed(&folder, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        pages.push(File::text(format!("{top}/man/man1/{name}"), read(&path)?));
    }
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pages)
}
