//! Which of our crates may depend on the model: SQS in memory, virtual time, and what the tests share.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::root;

/// Crates that are the model, or run on it.
const MODEL: [&str; 4] = ["redeliver-embedded", "redeliver-local", "redeliver-sim", "redeliver-testing"];
/// The program that has `local` and `simulate` beside the commands of production.
const PROGRAM: &str = "redeliver";
/// Those two commands, and their options and progress bar.
const COMMANDS: [&str; 4] = ["local", "local.rs", "simulate", "simulate.rs"];

#[test]
fn no_production_crate_depends_on_the_model() {
    let mut checked = 0;
    for folder in folders(&root().join("crates")) {
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
fn the_command_line_uses_the_model_for_local_and_simulate_alone() {
    let commands = root().join("crates/cli/src/commands");
    let mut sources = vec![root().join("crates/cli/src/main.rs")];
    for path in entries(&commands) {
        if !COMMANDS.iter().any(|name| path.ends_with(name)) {
            collect(&path, &mut sources);
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

/// The sources below a path, without files of tests.
fn collect(path: &Path, sources: &mut Vec<PathBuf>) {
    if path.is_dir() && !path.ends_with("tests") {
        entries(path).iter().for_each(|entry| collect(entry, sources));
    } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
        sources.push(path.to_owned());
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    entries(path).into_iter().filter(|path| path.join("Cargo.toml").exists()).collect()
}

fn entries(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
}
