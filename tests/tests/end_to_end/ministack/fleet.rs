//! `redeliver fleet` with an emulator's accounts, filled by boto3.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::{debug_binary, venv_file, workspace_root};
use serde_json::{Value, json};
use tokio::process::Command;

const PROBLEM_REGION: &str = "eu-west-1";
const HEALTHY_REGION: &str = "us-east-1";
/// ministack interprets a twelve-digit access key as the account id.
const ACCOUNTS: [&str; 2] = ["111111111111", "222222222222"];

/// Writes the profiles `shop` and `billing` for the two accounts.
fn write_profiles() -> PathBuf {
    let file =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fleet-profiles-{}", std::process::id()));
    let profile = |name: &str, account: &str| {
        format!("[profile {name}]\naws_access_key_id = {account}\naws_secret_access_key = test\n")
    };
    std::fs::write(&file, profile("shop", ACCOUNTS[0]) + &profile("billing", ACCOUNTS[1])).unwrap();
    file
}

async fn create_queues(emulator: &Ministack, account: &str, regions: &[&str]) {
    let mut command = Command::new(venv_file("bin/python"));
    command.arg(workspace_root().join("tests/support/boto3_fleet.py")).args(regions).env_clear();
    command.env("AWS_ENDPOINT_URL", emulator.endpoint_url());
    command.env("AWS_ACCESS_KEY_ID", account).env("AWS_SECRET_ACCESS_KEY", "test");
    let ended = command.stdin(Stdio::null()).kill_on_drop(true).status().await.unwrap();
    assert!(ended.success(), "{account}");
}

async fn run_fleet(emulator: &Ministack, profiles: &PathBuf, arguments: &[&str]) -> Output {
    let mut command = Command::new(debug_binary("redeliver"));
    command.arg("fleet").args(arguments).args(["--endpoint-url", &emulator.endpoint_url()]);
    command.env_clear().env("AWS_CONFIG_FILE", profiles).env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
    command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap()
}

/// Returns the name, the sources, the number of messages and the problems of each DLQ in a region.
fn fleet_rows(fleet: &Value, account: &str, region: &str) -> Vec<Value> {
    let dlqs = fleet["dlqs"].as_array().unwrap().iter();
    let here = dlqs.filter(|dlq| dlq["account"] == account && dlq["region"] == region);
    let all = |list: &Value, member: &str| {
        list.as_array().unwrap().iter().map(|one| one[member].clone()).collect::<Vec<_>>()
    };
    let row = |dlq: &Value| {
        json!([dlq["name"], all(&dlq["fed_by"], "name"), dlq["visible"], all(&dlq["findings"], "code")])
    };
    here.map(row).collect()
}

#[tokio::test]
async fn fleet_reports_every_dlq_in_two_accounts_with_its_problems() {
    let emulator = Ministack::with_all_services();
    for account in ACCOUNTS {
        create_queues(&emulator, account, &[PROBLEM_REGION, HEALTHY_REGION]).await;
    }
    let profiles = write_profiles();
    let regions = ["--region", PROBLEM_REGION, "--region", HEALTHY_REGION];
    let both = ["--profile", "shop", "--profile", "billing", "--format", "json"];
    let seen = run_fleet(&emulator, &profiles, &[&regions[..], &both].concat()).await;
    assert_eq!(seen.status.code(), Some(3), "{}", String::from_utf8_lossy(&seen.stderr));
    assert_eq!(String::from_utf8_lossy(&seen.stderr), "");
    let seen: Value = serde_json::from_slice(&seen.stdout).unwrap();
    for account in ACCOUNTS {
        assert_eq!(
            fleet_rows(&seen, account, PROBLEM_REGION),
            [
                json!(["unwatched-dlq", ["unwatched"], 3, ["no_alarm", "deleted_soon"]]),
                json!(["bills-dlq", ["bills"], null, ["missing"]]),
                json!(["orders-dlq", ["orders"], 0, ["short_retention"]]),
                json!(["healthy-dlq", ["healthy"], 2, []]),
                json!(["failed-mails", ["mailer"], 0, []]),
                json!(["forgotten-dlq", [], 0, ["orphan"]]),
            ]
        );
        assert_eq!(fleet_rows(&seen, account, HEALTHY_REGION), [json!(["healthy-dlq", ["healthy"], 0, []])]);
    }
    let other = |queue: &Value| {
        let codes: Vec<_> =
            queue["findings"].as_array().unwrap().iter().map(|one| one["code"].clone()).collect();
        json!([queue["account"], queue["region"], queue["name"], codes])
    };
    let others: Vec<_> = seen["queues"].as_array().unwrap().iter().map(other).collect();
    let codes = ["no_dlq", "short_visibility", "unreported_failures"];
    assert_eq!(others, ACCOUNTS.map(|account| json!([account, PROBLEM_REGION, "unprotected", codes])));
    // The message's age was set to 324 hours in the emulator, three minutes ago.
    let oldest = seen["dlqs"][0]["oldest_seconds"].as_i64().unwrap();
    assert!((324 * 3600 + 180..324 * 3600 + 180 + 900).contains(&oldest), "{oldest}");

    let well = run_fleet(&emulator, &profiles, &["--profile", "shop", "--region", HEALTHY_REGION]).await;
    assert_eq!(well.status.code(), Some(0), "{well:?}");
    let table = String::from_utf8(well.stdout).unwrap();
    assert!(table.contains("\nus-east-1, account 111111111111, profile shop: 2 queues\n"), "{table}");

    let partly = ["--profile", "shop", "--profile", "missing", "--region", PROBLEM_REGION];
    let partly = run_fleet(&emulator, &profiles, &partly).await;
    let stderr = String::from_utf8(partly.stderr).unwrap();
    assert_eq!(partly.status.code(), Some(4), "{stderr}");
    assert!(stderr.starts_with("error: eu-west-1, profile missing: no such profile"), "{stderr}");
    assert!(String::from_utf8(partly.stdout).unwrap().starts_with(
        "6 DLQs, 2 with messages, 3 with something wrong; 1 other queue with something wrong ("
    ));
    std::fs::remove_file(profiles).unwrap();
}
