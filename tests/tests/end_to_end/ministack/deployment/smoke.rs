//! `cargo xtask smoke`, against an emulator.

use std::path::PathBuf;

use redeliver_tests::settings::{target_dir, tested_program};
use serde_json::{Value, json};
use tokio::process::Command;

#[tokio::test]
async fn the_smoke_test_passes_on_an_emulator_and_says_what_that_lacks() {
    let prefix = "smoke-in-tests";
    let mut smoke = Command::new(tested_program("smoke"));
    smoke.args(["--emulator", "--yes", "--prefix", prefix]).kill_on_drop(true);
    let run = smoke.output().await.unwrap();
    let told = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{told}");

    let page = target_dir().join("smoke").join(format!("{prefix}.md"));
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(page.with_extension("json")).unwrap()).unwrap();
    let checks: Vec<_> =
        report["checks"].as_array().unwrap().iter().map(|of| [&of["name"], &of["outcome"]]).collect();
    let expected = [
        ("a message is processed", "passed"),
        ("a message that fails twice is processed", "passed"),
        ("what fails for ever, for good, or is no message is explained in the final DLQ", "passed"),
        ("what fails for good is not called again", "not_checked_here"),
        ("a send to the final DLQ is refused", "not_checked_here"),
        ("the alarm final-dlq-not-empty goes off", "not_checked_here"),
        ("a dead letter that is sent back is processed", "passed"),
        ("a message that SQS moves keeps its receives, attributes and time of sending", "passed"),
        ("nothing is left", "passed"),
    ];
    assert_eq!(json!(checks), json!(expected.map(|(name, outcome)| [name, outcome])), "{told}");
    for retry in ["seconds_to_retry_1_of_2", "seconds_to_retry_2_of_2"] {
        assert!(report["figures"][retry].as_f64().unwrap() >= 2.0, "early: {report}");
    }
    assert!(std::fs::read_to_string(&page).unwrap().contains("| passed | nothing is left |"));
    let _of_no_use_any_more: [std::io::Result<()>; 2] =
        [page.clone(), page.with_extension("json")].map(|file: PathBuf| std::fs::remove_file(file));
}

#[tokio::test]
async fn the_smoke_test_creates_nothing_unless_it_is_told_yes() {
    let mut smoke = Command::new(tested_program("smoke"));
    smoke
        .args(["--emulator", "--prefix", "smoke-unasked"])
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    let run = smoke.output().await.unwrap();
    assert_eq!(run.status.code(), Some(1));
    let told = [run.stdout, run.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(
        told[0].contains("account 000000000000, region eu-west-1") && told[0].contains("costs about $0.04"),
        "{told:?}"
    );
    assert_eq!(told[1], "error: nothing was created\n");
}
