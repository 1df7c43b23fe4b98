//! examples/README.md: the commands in each section run as written and print the output shown on the page.

use std::collections::BTreeSet;
use std::fs;

use redeliver_tests::runtimes::runtimes_folder;
use redeliver_tests::settings::{assert_exists, target_dir};
use redeliver_tests::strangers::{code_blocks, copy_files, new_folder};

use super::*;
use crate::pages::run_commands;

const FOLDER: &str = "examples";

/// The folders into which the page's commands install packages.
const PACKAGES: [&str; 2] = [".venv", "node_modules"];

/// Sections that need only the command line.
const PLAIN: [&str; 2] = ["Handler in Rust", "Messages of SNS and S3"];
const PYTHON: [&str; 3] = ["Python", "Ordered queue", "Signed calls"];
const NODE: &str = "Node.js";

/// This command would take minutes to compile, and the tests' build has already built the same program.
const CARGO: &str = "cargo run --quiet --example custom_handler --";

fn gallery_page() -> String {
    fs::read_to_string(workspace_root().join(FOLDER).join("README.md")).expect("the page exists")
}

/// Returns the introduction, and the sections with their titles.
fn page_sections(page: &str) -> (&str, Vec<(&str, &str)>) {
    let mut parts = page.split("\n## ");
    let introduction = parts.next().expect("a split has a first part");
    (introduction, parts.map(|section| section.split_once('\n').expect("a section has text")).collect())
}

fn handler_path() -> String {
    assert_exists(target_dir().join("debug/examples/custom_handler")).display().to_string()
}

/// Runs a section in a copy of the examples.
fn run_section(title: &str, packages: &[(&str, PathBuf)]) {
    let page = gallery_page();
    let (_, sections) = page_sections(&page);
    let (_, section) =
        sections.into_iter().find(|(its_title, _)| *its_title == title).expect("the section exists");
    let folder = new_folder("gallery");
    for entry in fs::read_dir(workspace_root().join(FOLDER)).expect("the folder of examples exists").flatten()
    {
        if !PACKAGES.iter().any(|name| entry.file_name() == *name) {
            copy_files(&entry.path(), &folder.path().join(entry.file_name()));
        }
    }
    for (name, installed) in packages {
        std::os::unix::fs::symlink(installed, folder.path().join(name)).expect("the folder is writable");
    }
    let section =
        if section.contains(CARGO) { section.replace(CARGO, &handler_path()) } else { section.to_owned() };
    let (run, compared) = run_commands(&section, folder.path());
    assert!(run > 0 && run == compared, "{title}: {run} commands, and {compared} outputs");
}

#[test]
fn cli_examples_print_the_output_shown_on_their_page() {
    for title in PLAIN {
        run_section(title, &[]);
    }
}

#[test]
#[ignore = "needs Python: cargo xtask test"]
fn python_examples_print_the_output_shown_on_their_page() {
    let venv = venv_file("bin").parent().expect("a folder in it").to_owned();
    for title in PYTHON {
        run_section(title, &[(".venv", venv.clone())]);
    }
}

mod node {
    use super::*;

    #[test]
    #[ignore = "needs Node.js: cargo xtask test"]
    fn examples_print_the_output_shown_on_their_page() {
        run_section(NODE, &[("node_modules", runtimes_folder().join("node_modules"))]);
    }
}

#[test]
fn each_section_of_the_page_is_run() {
    let page = gallery_page();
    let (introduction, sections) = page_sections(&page);
    let titles: BTreeSet<_> = sections.into_iter().map(|(title, _)| title).collect();
    assert_eq!(titles, [&PLAIN[..], &PYTHON, &[NODE]].concat().into_iter().collect());
    assert!(page.contains(CARGO));
    // The only code block installs the packages, which `cargo xtask test` installs from its own lists.
    assert_eq!(code_blocks(introduction).map(|(language, _)| language).collect::<Vec<_>>(), ["sh"]);
}

#[test]
fn each_example_file_is_in_the_index() {
    let page = gallery_page();
    let output = Command::new("git")
        .args(["ls-files", FOLDER])
        .current_dir(workspace_root())
        .output()
        .expect("git runs");
    let files = String::from_utf8(output.stdout).expect("UTF-8");
    let files: Vec<_> = files.lines().filter_map(|file| file.strip_prefix("examples/")).collect();
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        assert!(
            file == "README.md" || page.contains(&format!("]({file})")),
            "{FOLDER}/README.md has no {file}"
        );
    }
}
