//! Runs the commands on a page as a reader would type them.

use redeliver_tests::settings::env_variable;
use redeliver_tests::strangers::code_blocks;

use super::*;

/// Runs the `sh` blocks of a page one after the other, in a folder and with `redeliver` installed. Each `text` block
/// must be in the output of the block before it. Returns the number of blocks of each kind.
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
            other => panic!("unsupported block of {other}"),
        }
    }
    (run, compared)
}

/// Returns the output of the commands.
fn run_shell(script: &str, folder: &Path) -> String {
    let programs = debug_binary("redeliver");
    let folder_of_programs = programs.parent().expect("the program's path has a folder");
    let path = format!("{}:{}", folder_of_programs.display(), env_variable("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .expect("the shell runs");
    // The exit code for dead letters, as documented on the pages.
    let code = if script.starts_with("redeliver audit") { 3 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{script}\n{}", stderr_text(&output));
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}

/// Removes a table's trailing spaces.
fn trim_lines(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
