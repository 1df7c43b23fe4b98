//! Every command of the program as it is started: its help, its completions, its manual page, and wrong usage.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Those that have examples and exit codes in their help.
const COMMANDS: [&str; 13] = [
    "local",
    "simulate",
    "check",
    "audit",
    "redrive",
    "purge",
    "send",
    "status",
    "pause",
    "resume",
    "work",
    "completions",
    "man",
];

fn redeliver(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_redeliver")).args(arguments).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn every_command_has_an_example_of_itself_and_its_exit_codes_in_its_help() {
    let all = stdout(&redeliver(&["--help"]));
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "{command} in {all}");
        let help = stdout(&redeliver(&[command, "--help"]));
        assert!(help.contains(&format!("\n  redeliver {command} ")), "{help}");
        assert!(help.contains("\nExit codes:\n  0 "), "{help}");
    }
}

#[test]
fn each_shell_has_completions_of_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = stdout(&redeliver(&["completions", shell]));
        for command in COMMANDS {
            assert!(script.contains(command), "{command} in {shell}");
        }
        assert!(script.contains("data-schema"), "{shell}");
    }
}

#[test]
fn each_command_has_a_manual_page_with_its_examples() {
    let directory: PathBuf = std::env::temp_dir().join(format!("redeliver-man-{}", std::process::id()));
    let written = redeliver(&["man", directory.join("man1").to_str().expect("UTF-8")]);
    assert_eq!(stdout(&written), "");
    for command in COMMANDS {
        let page = directory.join("man1").join(format!("redeliver-{command}.1"));
        let page = std::fs::read_to_string(page).expect("it was written");
        assert!(page.contains(".SH EXAMPLES") && page.contains(".SH \"EXIT STATUS\""), "{page}");
    }
    assert!(directory.join("man1/redeliver.1").exists());
    std::fs::remove_dir_all(directory).expect("it is ours");
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_wrong() {
    for (arguments, word) in [
        (&["send"][..], "FILE"),
        (&["send", "orders.jsonl"], "--queue-url"),
        (&["send", "orders.jsonl", "--queue-url", "http://q", "--stack", "s"], "cannot be used with"),
        (&["send", "no-such-file", "--queue-url", "http://q"], "no-such-file: cannot be read"),
        (&["send", "Cargo.toml", "--queue-url", "http://127.0.0.1:9/0/q.fifo"], "FIFO"),
        (&["send", "src", "--queue-url", "http://127.0.0.1:9/0/q"], "directory"),
        (&["send", "Cargo.toml", "--queue-url", "q", "--journal", "Cargo.toml"], "the input itself"),
        (&["send", "-", "--queue-url", "q", "--resume"], "only a file can be gone on with"),
        (&["send", "Cargo.toml", "--queue-url", "q", "--rate", "0"], "--rate"),
        (&["send", "Cargo.toml", "--queue-url", "q", "--data-schema", "Cargo.toml"], "Cargo.toml"),
        (&["status"], "--stack"),
        (&["pause"], "--stack"),
        (&["resume", "--all"], "--stack"),
        (&["status", "--stack", "s", "--endpoint-url", "nonsense"], "--endpoint-url"),
        (&["work"], "FUNCTION"),
        (&["work", "annotator"], "final-dlq-annotator"),
        (&["work", "message-processor", "--concurrency", "0"], "--concurrency"),
        (&["work", "message-processor", "--wait-seconds", "21"], "--wait-seconds"),
        (&["work", "message-processor", "--health", "8080"], "--health"),
        (&["work", "message-processor"], "{\"error\":\"the function cannot start"),
        (&["work", "message-processor"], "- SOURCE_QUEUE_URL is missing: "),
        (&["work", "failed-message-processor", "message-processor"], "- TARGET is missing: "),
        (&["completions", "csh"], "powershell"),
        (&["man", "Cargo.toml"], "Cargo.toml"),
    ] {
        let output = redeliver(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(word), "{arguments:?}: {stderr}");
    }
}
