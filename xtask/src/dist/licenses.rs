//! The license texts for all components of a program or a package.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::components::Component;
use super::{file_failure, read_file};
use crate::tools::{TaskFailure, command_output, env_variable, workspace_root};

/// Prefixes of license file names.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Returns a single text with each component, its license, and the license files that it ships. For a component that
/// ships none, the standard text of its license is included.
///
/// # Errors
/// A component ships no license file, and its license has no standard text here.
pub(super) fn license_texts(components: &[Component]) -> Result<String, TaskFailure> {
    let mut all = "The included components and their licenses.\n".to_owned();
    all.push_str(&standard_library_entry()?);
    for component in components {
        let Component { name, version, license, .. } = component;
        let license = license.as_deref().unwrap_or("see below");
        all.push_str(&format!("\n{:=<100}\n{name} {version} ({license})\n", ""));
        let shipped = shipped_license_files(component)?;
        if shipped.is_empty() {
            all.push_str(&format!("\n{}\n", standard_text(component)?.trim()));
        }
        for file in shipped {
            let text = String::from_utf8_lossy(&read_file(&file)?).replace('\r', "");
            let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            all.push_str(&format!("\n--- {file}\n\n{}\n", text.trim()));
        }
    }
    Ok(all)
}

/// Returns the entry for Rust's standard library, which is in no list of crates.
fn standard_library_entry() -> Result<String, TaskFailure> {
    let rustc = env_variable("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = command_output(Command::new(rustc).arg("--version"))?;
    let apache = read_file(&workspace_root().join("LICENSE-APACHE"))?;
    Ok(format!(
        "\n{:=<100}\nstandard library of {} (MIT OR Apache-2.0)\n\
         Copyright (c) The Rust Project contributors; its parts: share/doc/rust/COPYRIGHT-library.html of that Rust\n\n{}\n",
        "",
        version.trim(),
        String::from_utf8_lossy(&apache).trim()
    ))
}

/// Returns the license files in the component's folder, sorted by name.
fn shipped_license_files(component: &Component) -> Result<Vec<PathBuf>, TaskFailure> {
    let folder = component.manifest_path.parent().unwrap_or(&component.manifest_path);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| file_failure(folder, &error))? {
        let path = entry.map_err(|error| file_failure(folder, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the standard license text for a component that ships none. If there is a choice of licenses, prefers
/// Apache's, which has no name to fill in.
fn standard_text(component: &Component) -> Result<String, TaskFailure> {
    let Component { name, version, license, authors, .. } = component;
    let license = license.as_deref().unwrap_or_default();
    let alternatives: Vec<&str> =
        license.split(" OR ").flat_map(|part| part.split('/')).map(str::trim).collect();
    let text = |file: &str| {
        let path = workspace_root().join(file);
        read_file(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    if alternatives.contains(&"Apache-2.0") {
        return text("LICENSE-APACHE");
    }
    if alternatives.contains(&"MIT") {
        let mit = text("LICENSE-MIT")?;
        let granted = mit.find("Permission is hereby granted").map_or(mit.as_str(), |start| &mit[start..]);
        return Ok(format!("Copyright (c) {}\n\n{granted}", authors.join(", ")));
    }
    if alternatives.contains(&"BlueOak-1.0.0") {
        // Its section "Notices" accepts a link instead of the text.
        return Ok("Blue Oak Model License 1.0.0: https://blueoakcouncil.org/license/1.0.0".to_owned());
    }
    Err(TaskFailure(format!(
        "{name} {version} ({license}) ships no license text: add one to xtask/src/dist/licenses.rs"
    )))
}

#[cfg(test)]
mod tests {
    use super::super::components::{self, component};
    use super::*;
    use crate::bundle::{FUNCTIONS, LambdaArchitecture, package_name};
    use crate::dist::command_line::COMMAND_LINE;

    #[test]
    fn a_crate_without_a_license_file_gets_the_standard_text_or_an_error() {
        let apache = standard_text(&component("a", "1.0.0", "MIT/Apache-2.0")).unwrap();
        assert_eq!(apache, fs::read_to_string(workspace_root().join("LICENSE-APACHE")).unwrap());
        let mit = standard_text(&component("a", "1.0.0", "MIT")).unwrap();
        assert!(
            mit.starts_with("Copyright (c) A. Writer <a@example.com>\n\nPermission is hereby granted"),
            "{mit}"
        );
        let TaskFailure(message) = standard_text(&component("a", "1.0.0", "ISC")).unwrap_err();
        assert_eq!(message, "a 1.0.0 (ISC) ships no license text: add one to xtask/src/dist/licenses.rs");
    }

    #[test]
    fn each_crate_in_the_programs_has_a_license_text() {
        for package in FUNCTIONS.map(package_name).into_iter().chain([COMMAND_LINE.to_owned()]) {
            let inside =
                components::collect_components(&[&package], LambdaArchitecture::HOST.rust_target()).unwrap();
            let texts = license_texts(&inside).unwrap();
            assert!(texts.contains("\nstandard library of rustc 1."), "{package}");
            for Component { name, version, .. } in inside {
                assert!(texts.contains(&format!("\n{name} {version} (")), "{package}: {name}");
            }
        }
    }
}
