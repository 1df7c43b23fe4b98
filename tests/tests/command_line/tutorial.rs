//! docs/tutorial.md: a newcomer's first ten minutes, word by word.

use std::fs;

use super::*;

/// The command to skip here: it compiles for minutes, and `cargo xtask test` has built the same program.
const INSTALL: &str = "\n```sh\ncargo install --locked --path crates/cli\n```\n";

#[test]
fn each_command_of_the_tutorial_runs_as_written_and_prints_what_the_page_shows() {
    let page = fs::read_to_string(workspace_root().join("docs/tutorial.md")).unwrap();
    assert_eq!(page.matches(INSTALL).count(), 1);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(pages::run_commands(&page.replace(INSTALL, "\n"), folder.path()), (7, 5));
}
