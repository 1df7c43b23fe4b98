//! The `redeliver` program as people and pipelines use it: output, files, exit codes.

mod archive;
mod check;
mod check_messages;
mod dead_letter_files;
mod interrupt;
mod ministack;
mod own_function;
mod pages;
mod simulate;
mod strategies;
mod terminal;
mod tutorial;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use redeliver_tests::settings::{PATIENCE, debug_binary, workspace_root};
use redeliver_tests::sqs::REGION;
use serde_json::Value;
use tempfile::TempDir;

const EXAMPLE: &str = "examples/messages.jsonl";

/// Returns a command that runs the program in the repository root, with the region of the tests' queues.
fn program_command(arguments: &[&str]) -> Command {
    let mut program = Command::new(debug_binary("redeliver"));
    program.args(arguments).current_dir(workspace_root()).env("AWS_REGION", REGION);
    program
}

fn run_redeliver(arguments: &[&str]) -> Output {
    program_command(arguments).output().expect("the program starts")
}

fn run_with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = program_command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that exits early does not read its input; only its output matters.
    let _ = child.stdin.take().expect("the stream is piped").write_all(input);
    child.wait_with_output().expect("the program ends")
}

/// A file that belongs to one test and is removed at its end.
struct ScratchFile {
    _folder: TempDir,
    path: PathBuf,
}

impl ScratchFile {
    fn new(name: &str, content: &[u8]) -> Self {
        let file = Self::absent(name);
        std::fs::write(&file.path, content).expect("the temporary folder is writable");
        file
    }

    /// Returns a path at which no file exists yet.
    fn absent(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        let path = folder.path().join(name);
        Self { _folder: folder, path }
    }

    fn name(&self) -> &str {
        self.path.to_str().expect("UTF-8")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.path).expect("the file exists")
    }
}

fn json_report(output: &Output) -> Value {
    checked_report(0, output)
}

/// Returns the report of a run that exits with this code.
fn checked_report(code: i32, output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", stderr_text(output));
    serde_json::from_slice(&output.stdout).expect("the report is one JSON object")
}

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_kind_of_invalid_message_in_the_example_is_dead_lettered() {
    let report = json_report(&run_redeliver(&["local", EXAMPLE, "--format", "json"]));
    assert_eq!(
        (&report["sent"], &report["processed"], &report["retries"]),
        (&22.into(), &13.into(), &0.into())
    );
    let by_type: BTreeMap<String, u64> = serde_json::from_value(report["dead_lettered"].clone()).unwrap();
    let expected = [("INVALID_MESSAGE_FORMAT", 5), ("INVALID_MESSAGE_SCHEMA", 4)];
    assert_eq!(by_type, expected.map(|(code, count)| (code.to_owned(), count)).into());
    assert_eq!((&report["waiting"], &report["unaccounted"]), (&0.into(), &0.into()));
}

#[test]
fn fail_first_fails_each_message_before_its_third_retry() {
    let report = json_report(&run_redeliver(&["local", EXAMPLE, "--fail-first", "3", "--format", "json"]));
    // Twelve first deliveries need three retries each; the one that was already retried twice needs one. One of the
    // twelve expires after twenty minutes, before its third retry.
    assert_eq!(report["processed"], 12, "{report}");
    assert_eq!(report["dead_lettered"]["MESSAGE_EXPIRED"], 1, "{report}");
}

#[test]
fn a_message_that_always_fails_is_retried_to_the_limit_and_dead_lettered() {
    let policy = ScratchFile::new(
        "limit.json",
        br#"{"max_attempts":5,"backoff":{"kind":"fixed","delay_seconds":720,"jitter":"none"}}"#,
    );
    let dead = ScratchFile::absent("dead.jsonl");
    let line = br#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-0123456789ab"},"data":{"n":1e400}}"#;
    let arguments = [
        "local",
        "-",
        "--fail-rate",
        "1",
        "--policy",
        policy.name(),
        "--final-dlq",
        dead.name(),
        "--format",
        "json",
    ];
    let report = json_report(&run_with_input(&arguments, line));
    assert_eq!(report["dead_lettered"]["RETRY_ATTEMPT_EXCEEDED"], 1);
    assert_eq!(
        (&report["retries"], &report["seconds"]),
        (&5.into(), &3600.0.into()),
        "five retries over an hour"
    );
    assert_eq!(report["delays"].as_array().unwrap().last().unwrap()["count"], 5);
    let record: Value = serde_json::from_str(&dead.text()).unwrap();
    let details = record["attributes"]["ErrorDetails"].as_str().unwrap();
    assert_eq!(
        details,
        "Max retry attempts 5 exceeded; last error Simulated.Transient: the built-in target fails attempt 6"
    );
    let body = record["body"].as_str().unwrap();
    assert!(body.ends_with(r#""data":{"n":1e400}}"#), "{body}");
    assert!(body.contains(r#""retry_attempt":5"#), "{body}");
}

#[test]
fn the_same_seed_gives_the_same_run_byte_for_byte() {
    let run = |seed: &str, name: &str| {
        let dead = ScratchFile::absent(name);
        let arguments = [
            "local",
            EXAMPLE,
            "--fail-rate",
            "0.6",
            "--fail-permanently",
            "0.2",
            "--seed",
            seed,
            "--final-dlq",
            dead.name(),
        ];
        let output = run_redeliver(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr_text(&output));
        (output.stdout, dead.text())
    };
    assert_eq!(run("7", "seed-7.jsonl"), run("7", "seed-7-again.jsonl"));
    assert_ne!(run("7", "seed-7-b.jsonl"), run("8", "seed-8.jsonl"));
}

#[test]
fn a_line_can_contain_any_bytes() {
    let input = b"\xFF\n\n\x01\n{\"metadata\":[]}\n   \n\"\xC3\xA9\"\nnull\n";
    let output = run_with_input(&["local", "-", "--format", "json"], input);
    // The exit code alone would suggest that all seven were tried.
    let report = checked_report(5, &output);
    assert_eq!((&report["sent"], &report["refused"]), (&4.into(), &3.into()));
    let errors = stderr_text(&output);
    assert!(errors.ends_with("error: 3 lines refused, and not sent\n"), "{errors}");
    assert!(errors.contains("warning: standard input:1: not UTF-8 at byte 0"), "{errors}");
    assert!(errors.contains("warning: standard input:2: the body is empty"), "{errors}");
    assert!(errors.contains("warning: standard input:3: the character U+0001"), "{errors}");
}

#[test]
fn bodies_of_one_mebibyte_settle() {
    let message = |id: u32, size: usize| {
        let start =
            format!(r#"{{"metadata":{{"message_id":"0191f3a2-7b1c-7d3e-8f00-{id:012x}"}},"data":{{"pad":""#);
        format!("{start}{}\"}}}}\n", "x".repeat(size - start.len() - 3))
    };
    let input = [
        message(1, 1_048_576),
        message(2, 1_048_576 - 2000),
        "y".repeat(1_048_576) + "\n",
        message(3, 1_048_577),
    ];
    let arguments = ["local", "-", "--fail-first", "1", "--format", "json"];
    let report = checked_report(5, &run_with_input(&arguments, input.concat().as_bytes()));
    assert_eq!(
        (&report["sent"], &report["refused"], &report["processed"]),
        (&3.into(), &1.into(), &1.into()),
        "{report}"
    );
    let dead_lettered: u64 =
        report["dead_lettered"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(dead_lettered, 2, "one has no room for its retry metadata, one is not JSON: {report}");
}

#[test]
fn the_table_names_each_result_and_a_pipe_gets_no_progress_bar() {
    let output = run_redeliver(&["local", EXAMPLE, "--fail-rate", "0.5"]);
    let table = String::from_utf8(output.stdout.clone()).unwrap();
    for row in [
        "sent",
        "processed",
        "retries",
        "dead-lettered",
        "waiting",
        "virtual time",
        "SQS requests",
        "retries by delay",
    ] {
        assert!(table.contains(row), "{row} in {table}");
    }
    assert_eq!(stderr_text(&output), "");
}

#[test]
fn the_readme_shows_the_output_of_its_command() {
    let readme = std::fs::read_to_string(workspace_root().join("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.strip_prefix("cargo run --bin redeliver -- ")).unwrap();
    let dead = ScratchFile::absent("readme-dead.jsonl");
    let arguments: Vec<_> =
        command.split(' ').map(|word| if word == "dead.jsonl" { dead.name() } else { word }).collect();
    let printed = String::from_utf8(run_redeliver(&arguments).stdout).unwrap();
    let printed: String = printed.trim_end().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    assert!(readme.contains(&printed), "README.md does not show:\n{printed}");
}

#[test]
fn existing_final_records_are_not_overwritten() {
    let dead = ScratchFile::new("precious.jsonl", b"precious");
    for file in [EXAMPLE, dead.name()] {
        let output = run_redeliver(&["local", file, "--fail-rate", "1", "--final-dlq", dead.name()]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr_text(&output));
        let expected = format!(
            "error: {}: cannot be written: it already exists; name another file, so that nothing is overwritten\n",
            dead.name()
        );
        assert_eq!(stderr_text(&output), expected);
        assert_eq!(dead.text(), "precious");
    }
}

#[test]
fn bad_usage_exits_2_with_the_reason() {
    let cases: [(&[&str], &str); 8] = [
        (&["local", EXAMPLE, "--fail-rate", "1.5"], "a number from 0 to 1"),
        (&["local", "-1"], "unexpected argument '-1' found"),
        (&["local", EXAMPLE, "--fail-rate", "-0.5"], "a number from 0 to 1"),
        (&["local", EXAMPLE, "--fail-first", "-1"], "invalid value '-1' for '--fail-first <N>'"),
        (&["local", EXAMPLE, "--target", "http://127.0.0.1:1/", "--fail-first", "1"], "cannot be used with"),
        (&["local", EXAMPLE, "--target", "http://example.com/"], "https"),
        (&["local", EXAMPLE, "--target", "https://user:hunter2@example.com/"], "credentials"),
        (&["check"], "required"),
    ];
    for (arguments, reason) in cases {
        let output = run_redeliver(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr_text(&output));
        assert!(stderr_text(&output).contains(reason), "{arguments:?}: {}", stderr_text(&output));
        assert!(!stderr_text(&output).contains("hunter2"), "{}", stderr_text(&output));
    }
}

#[test]
fn a_file_that_cannot_be_used_exits_1_with_the_reason() {
    let policy = ScratchFile::new("bad-policy.json", br#"{"max_atempts":3}"#);
    for (arguments, reason) in [
        (&["local", "no-such-file.jsonl"][..], "no-such-file.jsonl: cannot be read"),
        (&["local", EXAMPLE, "--policy", policy.name()], "/max_atempts is not a known member"),
        (&["check", "no-such-file.jsonl"], "no-such-file.jsonl: cannot be read"),
    ] {
        let output = run_redeliver(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr_text(&output));
        assert!(stderr_text(&output).contains(reason), "{arguments:?}: {}", stderr_text(&output));
    }
}

#[test]
fn an_unreachable_endpoint_exits_1_with_the_reason() {
    let output = run_redeliver(&["local", EXAMPLE, "--endpoint-url", "http://127.0.0.1:9"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr_text(&output).contains(
            "creating the queues: not sent (Connect): no connection to http://127.0.0.1:9: is it running? check --endpoint-url"
        ),
        "{}",
        stderr_text(&output)
    );
}

#[test]
fn an_unreachable_target_is_reported_as_a_warning() {
    let output = run_redeliver(&["local", EXAMPLE, "--target", "http://127.0.0.1:9/"]);
    assert_eq!(output.status.code(), Some(0));
    let hint = "warning: no call succeeded; the last one failed with Http.Refused: the target refuses connections: check the target\n";
    assert_eq!(stderr_text(&output), hint);
}

/// The endpoint reports the problem itself, so it is evidently running.
#[test]
fn a_refusing_endpoint_is_not_reported_as_unreachable() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut call in server.incoming().flatten() {
            let _begun = std::io::Read::read(&mut call, &mut [0; 1]);
            let response = r#"{"__type":"com.amazonaws.sqs#AccessDeniedException","message":"no"}"#;
            let _ = write!(
                call,
                "HTTP/1.1 403 Forbidden\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{response}",
                response.len()
            );
            let _ = call.shutdown(std::net::Shutdown::Write);
            let _ = std::io::Read::read_to_end(&mut call, &mut Vec::new());
        }
    });
    let output = run_redeliver(&["local", EXAMPLE, "--endpoint-url", &url]);
    let reported = stderr_text(&output);
    assert_eq!(output.status.code(), Some(1), "{reported}");
    assert!(reported.contains("creating the queues") && reported.contains("AccessDenied"), "{reported}");
    assert!(!reported.contains("no connection"), "{reported}");
}
