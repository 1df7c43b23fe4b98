//! docs/tutorial.md: a newcomer's first ten minutes, word by word.

use std::fs;

use redeliver_tests::strangers::code_blocks;

use super::*;

/// What cannot be done again here: it compiles for minutes, and `cargo xtask test` has built the same program.
const INSTALL: &str = "cargo install --locked --path crates/cli";

#[test]
fn each_command_of_the_tutorial_runs_as_written_and_prints_what_the_page_shows() {
    let page = fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();

    let (mut installed, mut run, mut compared, mut printed) = (0, 0, 0, String::new());
    for (language, text) in code_blocks(&page) {
        match language {
            "sh" if text.trim() == INSTALL => installed += 1,
            "sh" => {
                printed = shell(text, folder.path());
                run += 1;
            }
            "text" => {
                assert!(
                    trimmed(&printed).contains(&trimmed(text)),
                    "the page shows\n{text}\nbut here it is\n{printed}"
                );
                compared += 1;
            }
            other => panic!("a block of {other}: nobody runs it"),
        }
    }
    assert_eq!((installed, run, compared), (1, 7, 5));
}

/// Runs it as a reader would, in the folder, with `redeliver` installed.
fn shell(script: &str, folder: &Path) -> String {
    let programs = tested_program("redeliver");
    let folder_of_programs = programs.parent().expect("a program is in a folder");
    let path = format!("{}:/usr/bin:/bin", folder_of_programs.display());
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .expect("there is a shell");
    // As the page says: there are dead letters.
    let code = if script.starts_with("redeliver audit") { 3 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{script}\n{}", stderr(&output));
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Without what a table has at the ends of its lines.
fn trimmed(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
