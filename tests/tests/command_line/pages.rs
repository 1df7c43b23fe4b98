//! Pages whose commands run as a reader types them.

use redeliver_tests::settings::env_variable;
use redeliver_tests::strangers::code_blocks;

use super::*;

/// Runs the `sh` blocks of a page one after the other, in a folder and with `redeliver` installed. Each `text` block must
/// be in the output of the one before it. Returns the number of blocks of each kind.
pub(super) fn run_commands(page: &str, folder: &Path) -> (usize, usize) {
    let (mut run, mut compared, mut printed) = (0, 0, String::new());
    for (language, text) in code_blocks(page) {
        match language {
            "sh" => {
                printed = run_shell(text, folder);
                run += 1;
            }
            "text" => {
                assert!(
                    trim_lines(&printed).contains(&trim_lines(text)),
                    "the page shows\n{text}\nbut here it is\n{printed}"
                );
                compared += 1;
            }
            other => panic!("a block of {other}, which is not run"),
        }
    }
    (run, compared)
}

/// Returns what the commands print.
fn run_shell(script: &str, folder: &Path) -> String {
    let programs = tested_program("redeliver");
    let folder_of_programs = programs.parent().expect("a program is in a folder");
    let path = format!("{}:{}", folder_of_programs.display(), env_variable("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .expect("there is a shell");
    // The exit code of dead letters, as the pages say.
    let code = if script.starts_with("redeliver audit") { 3 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{script}\n{}", stderr_text(&output));
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Removes what a table has at the ends of its lines.
fn trim_lines(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
