//! Runs every command of the program: help, completions, manual page, and wrong usage.

use std::io;
use std::process::{Command, Output, Stdio};

/// The commands with examples and exit codes in their help.
const COMMANDS: [&str; 18] = [
    "local",
    "simulate",
    "check",
    "audit",
    "redrive",
    "purge",
    "unblock",
    "send",
    "status",
    "fleet",
    "console",
    "pause",
    "permissions",
    "preflight",
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
fn every_help_text_has_examples_and_exit_codes() {
    let all = stdout(&redeliver(&["--help"]));
    for command in COMMANDS {
        assert!(all.contains(&format!("\n  {command} ")), "{command} in {all}");
        let help = stdout(&redeliver(&[command, "--help"]));
        assert!(help.contains(&format!("\n  redeliver {command} ")), "{help}");
        assert!(help.contains("\nExit codes:\n  0 "), "{help}");
    }
}

/// Scripts depend on the exit codes.
#[test]
fn the_docs_list_the_exit_codes_of_each_command() {
    let page = include_str!("../../../docs/exit-codes.md");
    for command in COMMANDS {
        let help = stdout(&redeliver(&[command, "--help"]));
        let (_, list) = help.split_once("\nExit codes:\n").expect("the help ends with the exit codes");
        let codes = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let codes: Vec<_> = codes.filter(|code| !code.is_empty()).collect();
        let name = format!("`{command}`");
        let row = page.lines().find(|line| {
            line.strip_prefix("| ")
                .and_then(|line| line.split(" |").next())
                .is_some_and(|commands| commands.contains(&name))
        });
        let row = row.unwrap_or_else(|| panic!("{command} is not in docs/exit-codes.md"));
        assert_eq!(row.split('|').nth(2).map(str::trim), Some(&*codes.join(", ")), "{command}");
    }
}

/// A name or an AWS response must not look like a line of the program's own output.
#[test]
fn a_multi_line_error_cannot_be_mistaken_for_another_error() {
    let printed = redeliver(&["check", "nothing\nwarning: 2,000 messages are deleted\n\n"]).stderr;
    let printed = String::from_utf8(printed).expect("UTF-8");
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(
        (lines[0], lines[1]),
        ("error: nothing", "  warning: 2,000 messages are deleted"),
        "{printed}"
    );
    assert!(lines[2..].iter().all(|line| line.starts_with("  ")), "{printed}");
}

#[test]
fn examples_fit_a_terminal_of_80_columns() {
    for command in COMMANDS {
        let narrow = Command::new(env!("CARGO_BIN_EXE_redeliver"))
            .args([command, "--help"])
            .env("COLUMNS", "80")
            .output()
            .expect("the program starts");
        let narrow = stdout(&narrow);
        let (_, closing) = narrow.split_once("\nExamples:\n").expect("it has examples");
        let (examples, _) = closing.split_once("\n\n").expect("more follows");
        for line in examples.lines() {
            let is_continuation = line.starts_with("    ");
            assert!(line.len() <= 80, "{command}: {line}");
            assert!(is_continuation || line.starts_with("  redeliver "), "{line:?}");
        }
    }
}

#[test]
fn the_version_names_the_commit() {
    let version = stdout(&redeliver(&["--version"]));
    let commit = version.strip_prefix("redeliver 0.1.0 (commit ").and_then(|rest| rest.strip_suffix(")\n"));
    let commit = commit.unwrap_or_else(|| panic!("{version}"));
    let hash = commit.strip_suffix("-modified").unwrap_or(commit);
    let is_hash = hash.len() >= 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || commit == "unknown", "{version}");
}

#[test]
fn color_options_and_no_color_are_honored() {
    let wrong =
        |more: &[&str]| redeliver(&[&["status", "--stack", "s", "--endpoint-url", "x"], more].concat());
    let escapes = |output: &Output| output.stderr.contains(&0x1b);
    assert!(!escapes(&wrong(&[])), "no terminal");
    assert!(escapes(&wrong(&["--color", "always"])));
    assert!(!escapes(&wrong(&["--color=never"])));
    assert!(escapes(&redeliver(&["adit", "--color", "always"])));
}

#[test]
fn each_shell_has_completions_for_every_command() {
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
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let directory = folder.path().join("man1");
    let written = redeliver(&["man", directory.to_str().expect("UTF-8")]);
    assert_eq!(stdout(&written), "");
    for command in COMMANDS {
        let page = directory.join(format!("redeliver-{command}.1"));
        let page = std::fs::read_to_string(page).expect("the page was written");
        assert!(page.contains(".SH EXAMPLES") && page.contains(".SH \"EXIT STATUS\""), "{page}");
    }
    assert!(directory.join("redeliver.1").exists());
    let redrive =
        std::fs::read_to_string(directory.join("redeliver-redrive.1")).expect("the page was written");
    assert!(
        redrive.contains("SQS\\*(Aqs counts are up to a minute old"),
        "the manual contains details that --help omits: {redrive}"
    );
}

#[test]
fn wrong_usage_exits_with_2_and_names_the_error() {
    for (arguments, word) in [
        (&["send"][..], "FILE"),
        (&["send", "orders.jsonl"], "<--queue <QUEUE>|--stack <NAME>|--prefix <NAME>|--stage <NAME>>"),
        (&["audit"], "<--queue <QUEUE>|--stack <NAME>|--prefix <NAME>|--stage <NAME>|FILE>"),
        (&["send", "orders.jsonl", "--queue", "http://q", "--stack", "s"], "cannot be used with"),
        (&["send", "Cargo.toml", "--queue", "q", "--journal", "Cargo.toml"], "the input file"),
        (&["send", "-", "--queue", "q", "--journal", "j"], "--journal needs a regular file"),
        (&["send", "Cargo.toml", "--queue", "q", "--rate", "0"], "--rate"),
        (&["status"], "--stack"),
        (&["fleet", "--format", "csv"], "[possible values: table, json, html]"),
        (&["pause"], "--stack"),
        (&["resume"], "--prefix"),
        (
            &["status", "--stack", "s", "--endpoint-url", "nonsense"],
            "error: --endpoint-url is not an http:// or https:// URL, such as http://127.0.0.1:4566",
        ),
        (
            &["local", "Cargo.toml", "--endpoint-url", "nonsense"],
            "--endpoint-url is not an http:// or https:// URL",
        ),
        (
            &["local", "Cargo.toml", "--target", "http://example.com"],
            "use https://, or http:// to this machine",
        ),
        (
            &["local", "Cargo.toml", "--target", "http://user:secret@127.0.0.1:8000"],
            "--target: contains credentials, which `redeliver local` does not send; remove them",
        ),
        (&["audit", "--queue", "two words"], "is not a queue's URL, name or ARN"),
        (&["audit", "--queue", "q", "--stage", "test"], "cannot be used with"),
        (&["purge", "--queue", "q", "--backup", "b"], "`--where true` selects all of them"),
        (&["adit"], "a similar subcommand exists: 'audit'"),
        (&["local", "--fail-rat", "1"], "a similar argument exists: '--fail-rate'"),
        (&["status", "--stack", "s", "-v", "-q"], "cannot be used with"),
        (&["work"], "FUNCTION"),
        (&["work", "annotator"], "final-dlq-annotator"),
        (&["work", "message-processor", "--concurrency", "0"], "--concurrency"),
        (&["work", "message-processor", "--wait", "21s"], "whole seconds from 1s to 20s"),
        (
            &["work", "message-processor", "--health", "8080"],
            "an IP address with a port, such as 127.0.0.1:8080",
        ),
        (&["simulate", "--messages", "10,000"], "a whole number from 1 to 1000000, without commas"),
        (&["simulate", "--capacity", "0"], "a whole number from 1, without commas"),
        (
            &["audit", "--queue", "q", "--reveal"],
            "--reveal works only with --show, and with --format html or csv",
        ),
        (
            &["local", "Cargo.toml", "--strategy", "async-retry", "--data-schema", "examples/policy.json"],
            "examples/policy.json: --strategy async-retry does not check a data schema: leave it out",
        ),
        (&["completions", "csh"], "powershell"),
        (&["man", "Cargo.toml"], "Cargo.toml"),
    ] {
        let output = redeliver(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(word), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_failure_exits_with_1_and_names_the_error() {
    for (arguments, word) in [
        (&["send", "no-such-file", "--queue", "http://q"][..], "no-such-file: cannot be read"),
        (&["send", "Cargo.toml", "--queue", "http://127.0.0.1:9/0/q.fifo"], "FIFO"),
        (&["send", "src", "--queue", "http://127.0.0.1:9/0/q"], "directory"),
        (&["send", "Cargo.toml", "--queue", "q", "--data-schema", "Cargo.toml"], "Cargo.toml"),
        (&["fleet", "-o", "Cargo.toml"], "Cargo.toml: it already exists"),
        (
            &["fleet", "--endpoint-url", "nonsense"],
            "error: --endpoint-url is not an http:// or https:// URL, such as http://127.0.0.1:4566",
        ),
        (
            &["fleet", "--profile", "no-such-profile", "--region", "eu-central-1"],
            "eu-central-1, profile no-such-profile: no such profile in the AWS configuration files",
        ),
        (&["audit", "--queue", "q", "-o", "Cargo.toml"], "Cargo.toml: it already exists"),
        (&["work", "message-processor"], "{\"error\":\"the function cannot start"),
        (&["work", "message-processor"], "- SOURCE_QUEUE_URL is missing: "),
        (&["work", "failed-message-processor", "message-processor"], "- TARGET is missing: "),
        (&["console", "no-such-file"], "no-such-file: cannot be read: No such file"),
        (&["console", "src"], "src: cannot be read: Is a directory"),
        (&["console", "-"], "-: can be read only once"),
    ] {
        let output = redeliver(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(word), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_closed_standard_error_changes_neither_exit_code_nor_report() {
    for (arguments, code) in [
        (&["local", "Cargo.toml"][..], 5),
        (&["audit", "no-such-file"], 1),
        (&["simulate", "--policy", "no-such-file"], 1),
        (&["audit", "--non\u{202e}sense"], 2),
    ] {
        let (reader, closed) = io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_redeliver"));
        let output = command.args(arguments).stderr(closed).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert_eq!(output.stdout, redeliver(arguments).stdout, "{arguments:?}");
    }
}

#[test]
fn a_filter_with_thousands_of_brackets_is_rejected() {
    for filter in ["[".repeat(1000), "[".repeat(5000)] {
        let output = redeliver(&["audit", "/dev/null", "--where", &filter]);
        let reported = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{reported:.200}");
        assert!(reported.contains("more than 200 brackets are open"), "{reported:.200}");
    }
}

/// The program's memory contains credentials and payloads.
#[test]
#[cfg(target_os = "linux")]
fn a_crashed_command_leaves_no_core_file() {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::ExitStatusExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let script = "ulimit -c unlimited; exec \"$0\" console --fleet --read-only --region eu-central-1";
    let mut console = Command::new("sh");
    console.args(["-ec", script, env!("CARGO_BIN_EXE_redeliver")]).current_dir(folder.path());
    let mut console = console.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut link = String::new();
    let stdout = console.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut link).expect("the console prints its link");
    let pid = console.id().to_string();
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    // Simulates a crash.
    assert!(Command::new("kill").args(["-ABRT", &pid]).status().expect("kill").success());
    let ended = console.wait().expect("it ends");
    assert_eq!((ended.signal(), ended.core_dumped()), (Some(6), false));
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).expect("a limit");
    assert_eq!(core.split_whitespace().collect::<Vec<_>>(), ["0", "0", "bytes"]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}
