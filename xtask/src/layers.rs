//! Tests that only the allowed crates depend on the model (SQS in memory, virtual time, shared test code) and on crates
//! for interactive sign-in.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bundle::{FUNCTIONS, package_name};
use crate::tools::{cargo_command, command_output, workspace_root};

/// Crates that implement the model or run on it.
const MODEL: [&str; 4] = ["redeliver-embedded", "redeliver-local", "redeliver-sim", "redeliver-testing"];
/// The program that contains `local` and `simulate` in addition to the production commands.
const PROGRAM: &str = "redeliver";
/// The sources of `local` and `simulate`.
const COMMANDS: [&str; 4] = ["local", "local.rs", "simulate", "simulate.rs"];

#[test]
fn no_production_crate_depends_on_the_model() {
    let mut checked = 0;
    for folder in list_folders(&workspace_root().join("crates")) {
        let manifest: toml::Table =
            toml::from_str(&fs::read_to_string(folder.join("Cargo.toml")).unwrap()).unwrap();
        let name = manifest["package"]["name"].as_str().unwrap();
        if MODEL.contains(&name) || name == PROGRAM {
            continue;
        }
        checked += 1;
        let dependencies = manifest["dependencies"].as_table().unwrap();
        let of_model: Vec<_> = MODEL.iter().filter(|model| dependencies.contains_key(**model)).collect();
        assert_eq!(of_model, [&""; 0], "{name}: only [dev-dependencies] may name them");
    }
    assert!(checked > 10, "{checked}");
}

#[test]
fn the_command_line_uses_the_model_only_for_local_and_simulate() {
    let commands = workspace_root().join("crates/cli/src/commands");
    let mut sources = vec![workspace_root().join("crates/cli/src/main.rs")];
    for path in list_entries(&commands) {
        if !COMMANDS.iter().any(|name| path.ends_with(name)) {
            collect_sources(&path, &mut sources);
        }
    }
    assert!(sources.len() > 30, "{}", sources.len());
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for model in MODEL {
            assert!(!code.contains(&model.replace('-', "_")), "{} uses {model}", path.display());
        }
    }
}

/// The crates for interactive sign-in in the command line's dependency tree, and the corresponding features of
/// `aws-config`.
const SIGN_IN: [&str; 6] = [
    "aws-sdk-signin ",
    "aws-sdk-sso ",
    "aws-sdk-ssooidc ",
    "credentials-login",
    "credentials-process",
    "sso",
];

/// A function has its role's credentials, so sign-in would only make it larger and slower to start.
#[test]
fn no_function_includes_sign_in_features() {
    let of_functions = sign_in_features(&FUNCTIONS.map(package_name));
    assert_eq!(of_functions, [""; 0], "give the feature of aws-config to redeliver-operator alone");
    assert_eq!(sign_in_features(&[PROGRAM.to_owned()]), SIGN_IN, "the crates or features have been renamed");
}

/// Returns the members of [`SIGN_IN`] that a build of these packages selects.
fn sign_in_features(packages: &[String]) -> Vec<&'static str> {
    let mut tree = cargo_command(&[
        "tree",
        "--locked",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p} [{f}]",
    ]);
    let tree = command_output(tree.args(packages.iter().map(|name| format!("--package={name}")))).unwrap();
    let features = tree.lines().find(|line| line.starts_with("aws-config ")).unwrap();
    let features: Vec<_> = features.split(['[', ',', ']']).collect();
    let is_selected = |name: &&str| match name.strip_suffix(' ') {
        Some(_) => tree.lines().any(|line| line.starts_with(name)),
        None => features.contains(name),
    };
    SIGN_IN.into_iter().filter(is_selected).collect()
}

/// Collects the sources below a path, except tests.
fn collect_sources(path: &Path, sources: &mut Vec<PathBuf>) {
    if path.is_dir() && !path.ends_with("tests") {
        list_entries(path).iter().for_each(|entry| collect_sources(entry, sources));
    } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
        sources.push(path.to_owned());
    }
}

fn list_folders(path: &Path) -> Vec<PathBuf> {
    list_entries(path).into_iter().filter(|path| path.join("Cargo.toml").exists()).collect()
}

fn list_entries(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
}
