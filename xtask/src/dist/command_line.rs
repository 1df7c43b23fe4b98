//! Packs one build of `redeliver` as a Python wheel and an archive, with licenses and the bill of materials inside.
//!
//! This module writes the wheel itself instead of using maturin, which always compiles the program. The tests pack the
//! program that they have already built, which saves ten minutes of processor time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::{File, compress_gzip, pack_tarball, pack_wheel, pack_zip};
use super::bill_of_materials::render_cyclonedx;
use super::system::TargetSystem;
use super::{components, file_failure, licenses, read_file, write_with_bill_of_materials};
use crate::bundle::{LambdaArchitecture, prepend_to_path, reproducible_flags};
use crate::glibc::{self, Glibc, newest_version};
use crate::tools::{TaskFailure, cargo_command, command_output, run_command, target_dir, workspace_root};
use crate::venv;

/// The bill of materials inside the artifacts.
pub(super) const BILL: &str = "redeliver.cdx.json";
/// The package and its program.
pub(super) const COMMAND_LINE: &str = "redeliver";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The package's name, in the form that wheel file names require.
const WHEEL: &str = "redeliver_cli";

/// The oldest macOS version that the program supports. Rust supports it on both architectures.
const MACOS: &str = "11.0";

/// Shells, and the names of their completion scripts.
const SHELLS: [(&str, &str); 4] = [
    ("bash", "redeliver.bash"),
    ("fish", "redeliver.fish"),
    ("powershell", "redeliver.ps1"),
    ("zsh", "_redeliver"),
];

/// Builds the release binary for this machine's system and architecture.
///
/// # Errors
/// Python is missing, or the build fails.
pub(super) fn build_program() -> Result<PathBuf, TaskFailure> {
    match TargetSystem::HOST {
        TargetSystem::Linux => build_for_glibc(),
        TargetSystem::Macos | TargetSystem::Windows => build_natively(),
    }
}

fn build_natively() -> Result<PathBuf, TaskFailure> {
    let target = TargetSystem::HOST.rust_target();
    let mut flags = reproducible_flags();
    if TargetSystem::HOST == TargetSystem::Windows {
        // The program must run without a separate installation of the C runtime.
        flags.push_str(" -Ctarget-feature=+crt-static");
    }
    let mut build =
        cargo_command(&["build", "--release", "--locked", "--package", COMMAND_LINE, "--target", &target]);
    build.env("CARGO_TARGET_DIR", target_dir()).env("RUSTFLAGS", flags);
    // aws-lc-sys: avoids the NASM assembler, which no runner has.
    build.env("MACOSX_DEPLOYMENT_TARGET", MACOS).env("AWS_LC_SYS_PREBUILT_NASM", "1");
    run_command(&mut build)?;
    Ok(target_dir().join(target).join("release").join(TargetSystem::HOST.program_file()))
}

fn build_for_glibc() -> Result<PathBuf, TaskFailure> {
    let venv = venv::set_up(&venv::BUNDLE)?.require_environment()?;
    let target = TargetSystem::HOST.rust_target();
    let mut build = Command::new(venv.join("bin/cargo-zigbuild"));
    build
        .args(["zigbuild", "--release", "--locked", "--package", COMMAND_LINE])
        .current_dir(workspace_root());
    build
        .args(["--target", &format!("{target}.{}", glibc::FOR_COMMAND_LINE)])
        .env("CARGO_TARGET_DIR", target_dir());
    build.env("RUSTFLAGS", reproducible_flags()).env("PATH", prepend_to_path(&venv.join("bin"))?);
    run_command(&mut build)?;
    let program = target_dir().join(&target).join("release").join(COMMAND_LINE);
    glibc::check_glibc(&program, glibc::FOR_COMMAND_LINE)?;
    Ok(program)
}

/// Returns a stripped copy of the program that was built for the tests.
///
/// # Errors
/// The program has not been built, or binutils is missing.
pub(super) fn strip_test_build() -> Result<PathBuf, TaskFailure> {
    let stripped = staged_path(COMMAND_LINE)?;
    run_command(
        Command::new("strip")
            .arg("--strip-all")
            .arg("-o")
            .arg(&stripped)
            .arg(target_dir().join("debug").join(COMMAND_LINE)),
    )?;
    Ok(stripped)
}

/// Packs a program. Runs it to generate its completions and manual pages.
///
/// # Errors
/// The program does not run, a crate has no license text, or a file cannot be written.
pub(super) fn pack_program(folder: &Path, program: &Path) -> Result<(), TaskFailure> {
    println!("{}", command_output(Command::new(program).arg("--version"))?.trim());
    let bytes = read_file(program)?;
    let papers = collect_accompanying_files()?;
    let bill = find_bill_of_materials(&papers)?.to_owned();
    let tag = wheel_tag(&bytes);
    let packed = pack_wheel(wheel_files(bytes.clone(), &papers, &tag), &dist_info_folder())?;
    write_with_bill_of_materials(&folder.join(format!("{WHEEL}-{VERSION}-{tag}.whl")), &packed, &bill)?;

    let top = TargetSystem::HOST.archive_folder(LambdaArchitecture::HOST);
    let mut files = vec![File::program(format!("{top}/{}", TargetSystem::HOST.program_file()), bytes)];
    for (shell, file) in SHELLS {
        let script = command_output(Command::new(program).args(["completions", shell]))?;
        files.push(File::text(format!("{top}/completions/{file}"), script));
    }
    files.extend(manual_files(program, &top)?);
    files.extend(papers.into_iter().map(|(name, text)| File::text(format!("{top}/{name}"), text)));
    let packed = match TargetSystem::HOST {
        TargetSystem::Windows => pack_zip(&files)?,
        TargetSystem::Linux | TargetSystem::Macos => compress_gzip(&pack_tarball(&files)?)?,
    };
    write_with_bill_of_materials(
        &folder.join(TargetSystem::HOST.archive_name(LambdaArchitecture::HOST)),
        &packed,
        &bill,
    )
}

/// Returns the files that are packed with the program in all artifacts.
///
/// # Errors
/// See [`pack_program`].
pub(super) fn collect_accompanying_files() -> Result<Vec<(String, String)>, TaskFailure> {
    let inside = components::collect_components(&[COMMAND_LINE], &TargetSystem::HOST.rust_target())?;
    let own = |name: &str| {
        let text = read_file(&workspace_root().join(name))?;
        Ok((name.to_owned(), String::from_utf8_lossy(&text).into_owned()))
    };
    Ok(vec![
        own("LICENSE-APACHE")?,
        own("LICENSE-MIT")?,
        ("THIRD-PARTY-LICENSES".to_owned(), licenses::license_texts(&inside)?),
        (BILL.to_owned(), render_cyclonedx(COMMAND_LINE, VERSION, &inside)),
    ])
}

/// Returns the bill of materials in `papers`.
pub(super) fn find_bill_of_materials(papers: &[(String, String)]) -> Result<&str, TaskFailure> {
    let bill = papers.iter().find(|(name, _)| name == BILL).map(|(_, text)| text.as_str());
    bill.ok_or_else(|| TaskFailure(format!("there is no {BILL} among the papers of the command line")))
}

/// Returns the tag for the platforms that a wheel supports ("Platform compatibility tags"). On Linux, it contains the
/// newest C library version that the program requires.
fn wheel_tag(program: &[u8]) -> String {
    let platform = match (TargetSystem::HOST, LambdaArchitecture::HOST) {
        (TargetSystem::Linux, architecture) => {
            let Glibc { major, minor } = newest_version(program);
            format!("manylinux_{major}_{minor}_{}", architecture.machine_name())
        }
        (TargetSystem::Macos, LambdaArchitecture::Arm64) => {
            format!("macosx_{}_arm64", MACOS.replace('.', "_"))
        }
        (TargetSystem::Macos, LambdaArchitecture::X86_64) => {
            format!("macosx_{}_x86_64", MACOS.replace('.', "_"))
        }
        (TargetSystem::Windows, LambdaArchitecture::Arm64) => "win_arm64".to_owned(),
        (TargetSystem::Windows, LambdaArchitecture::X86_64) => "win_amd64".to_owned(),
    };
    format!("py3-none-{platform}")
}

fn manual_files(program: &Path, top: &str) -> Result<Vec<File>, TaskFailure> {
    let folder = staged_path("man")?;
    let _might_not_exist = fs::remove_dir_all(&folder);
    command_output(Command::new(program).arg("man").arg(&folder))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| file_failure(&folder, &error))? {
        let path = entry.map_err(|error| file_failure(&folder, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        pages.push(File::text(format!("{top}/man/man1/{name}"), read_file(&path)?));
    }
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pages)
}

/// Returns a path for a temporary file to pack.
fn staged_path(name: &str) -> Result<PathBuf, TaskFailure> {
    let folder = target_dir().join("command-line");
    fs::create_dir_all(&folder).map_err(|error| file_failure(&folder, &error))?;
    Ok(folder.join(name))
}

fn dist_info_folder() -> String {
    format!("{WHEEL}-{VERSION}.dist-info")
}

/// Returns the wheel's files ("Binary distribution format"): the program under `scripts`, all others in `dist-info`.
fn wheel_files(program: Vec<u8>, papers: &[(String, String)], tag: &str) -> Vec<File> {
    let information = dist_info_folder();
    let metadata = format!(
        "Metadata-Version: 2.4\nName: redeliver-cli\nVersion: {VERSION}\n\
         Summary: Delayed, jittered retries for SQS and Lambda: plan them, run them, audit and redrive dead letters.\n\
         License-Expression: Apache-2.0 OR MIT\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\n\
         License-File: THIRD-PARTY-LICENSES\nRequires-Python: >=3.10\n\
         Description-Content-Type: text/markdown\n\n{}",
        include_str!("../../../crates/cli/README.md")
    );
    let about =
        format!("Wheel-Version: 1.0\nGenerator: redeliver {VERSION}\nRoot-Is-Purelib: false\nTag: {tag}\n");
    let mut files = vec![File::program(
        format!("{WHEEL}-{VERSION}.data/scripts/{}", TargetSystem::HOST.program_file()),
        program,
    )];
    for (name, text) in papers {
        let place = if name == BILL { "sboms" } else { "licenses" };
        files.push(File::text(format!("{information}/{place}/{name}"), text.as_str()));
    }
    files.push(File::text(format!("{information}/METADATA"), metadata));
    files.push(File::text(format!("{information}/WHEEL"), about));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_tag_names_the_newest_required_glibc() {
        let tag = wheel_tag(b"GLIBC_2.34\0");
        assert_eq!(tag, format!("py3-none-manylinux_2_34_{}", LambdaArchitecture::HOST.machine_name()));
    }
}
