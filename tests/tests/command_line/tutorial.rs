//! docs/tutorial.md: a newcomer's first ten minutes, exactly as written.

use std::fs;

use super::*;

/// Skipped: it takes minutes to compile, and `cargo xtask test` has already built the same program.
const INSTALL: &str = "\n```sh\ncargo install --locked --path crates/cli\n```\n";

#[test]
fn tutorial_commands_print_the_output_shown_on_the_page() {
    let page = fs::read_to_string(workspace_root().join("docs/tutorial.md")).unwrap();
    assert_eq!(page.matches(INSTALL).count(), 1);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(pages::run_commands(&page.replace(INSTALL, "\n"), folder.path()), (7, 5));
}
