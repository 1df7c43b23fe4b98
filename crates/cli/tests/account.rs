//! The account that a command uses: a named profile takes precedence over the environment and must exist, and the
//! account is printed before anything is changed.

mod endpoint;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::mpsc::channel;

use endpoint::start_endpoint;
use tempfile::TempDir;

/// Runs the program with credentials in its environment and a profile `prod` in a file.
fn redeliver(arguments: &[&str]) -> Output {
    redeliver_with_variables(&[], arguments)
}

/// Like [`redeliver`], with these environment variables.
fn redeliver_with_variables(variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let folder = folder();
    let config = folder.path().join("config");
    let profile = "[profile prod]\naws_access_key_id = KEYOFPROFILE\naws_secret_access_key = s\nregion = eu-central-1\n";
    redeliver_dead_letters::files::replace_file(&config, profile.as_bytes()).expect("the file is writable");
    Command::new(env!("CARGO_BIN_EXE_redeliver"))
        .args(arguments)
        .env_clear()
        .env("AWS_CONFIG_FILE", &config)
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_ACCESS_KEY_ID", "KEYOFENVIRONMENT")
        .env("AWS_SECRET_ACCESS_KEY", "s")
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("the temporary folder is writable")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const SEND: [&str; 4] =
    ["send", "tests/one-message.jsonl", "--queue", "http://127.0.0.1:9/123456789012/orders"];

#[test]
fn a_named_profile_wins_over_credentials_in_the_environment() {
    for (profile, key) in [(&["--profile", "prod"][..], "KEYOFPROFILE"), (&[], "KEYOFENVIRONMENT")] {
        let (url, authorizations) = start_endpoint(true);
        let output = redeliver(&[&SEND[..], &["--endpoint-url", &url], profile].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let signed = authorizations.try_iter().collect::<Vec<_>>();
        assert!(
            !signed.is_empty() && signed.iter().all(|by| by.contains(&format!("Credential={key}/"))),
            "{signed:?}"
        );
    }
}

/// Without the proxy, no command could reach AWS from a network that has no other way out.
#[test]
fn aws_requests_use_the_proxy_from_the_environment() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", proxy.local_addr().expect("it is bound"));
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in proxy.incoming() {
            let mut line = String::new();
            let _ignored = BufReader::new(stream.expect("a connection")).read_line(&mut line);
            let _ignored = sender.send(line);
        }
    });
    let queue = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
    let status = ["status", "--queue", queue, "--region", "eu-central-1"];
    let output = redeliver_with_variables(&[("HTTPS_PROXY", &url)], &status);
    assert_eq!(output.status.code(), Some(1), "the proxy blocks all requests");
    let requests: BTreeSet<_> = requests.try_iter().collect();
    assert!(requests.contains("CONNECT sqs.eu-central-1.amazonaws.com:443 HTTP/1.1\r\n"), "{requests:?}");
}

#[test]
fn a_missing_profile_ends_the_command_before_any_request() {
    let (url, authorizations) = start_endpoint(true);
    let output = redeliver(&[&SEND[..], &["--endpoint-url", &url, "--profile", "nope"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let expected =
        "error: --profile nope: no such profile in the AWS configuration files; existing profiles: prod\n";
    assert_eq!(stderr(&output), expected);
    assert_eq!(authorizations.try_iter().count(), 0);
}

#[test]
fn mutating_commands_announce_the_account_without_needing_sts() {
    let send = |has_sts, more: &[&str]| {
        let (url, _authorizations) = start_endpoint(has_sts);
        stderr(&redeliver(&[&SEND[..], &["--endpoint-url", &url], more].concat()))
    };
    let queue = "sending tests/one-message.jsonl to arn:aws:sqs:eu-central-1:123456789012:orders";
    let known = send(true, &["--apply", "--journal", "target/none/none"]);
    assert!(!known.contains("account"), "nothing is changed without a journal: {known}");
    let planned = send(true, &[]);
    let plan = queue.replace("sending", "would send");
    let account = "account 123456789012 (arn:aws:iam::123456789012:user/ana)";
    assert!(planned.starts_with(&format!("{account}: {plan}\n")), "{planned}");
    let folder = folder();
    let journal = folder.path().join("input.sent");
    let apply = ["--apply", "--journal", journal.to_str().expect("UTF-8")];
    let send = |has_sts, more: &[&str]| {
        let reported = send(has_sts, more);
        std::fs::remove_file(&journal).expect("it was written");
        reported
    };
    let known = send(true, &apply);
    assert!(
        known.starts_with(&format!("account 123456789012 (arn:aws:iam::123456789012:user/ana): {queue}\n")),
        "{known}"
    );
    let unknown = send(false, &apply);
    assert!(unknown.starts_with(&format!("account unknown: {queue}\n")), "{unknown}");
    let quiet = send(true, &[&apply[..], &["-q"]].concat());
    assert!(!quiet.contains("account"), "{quiet}");
    let verbose = send(true, &[&apply[..], &["--verbose"]].concat());
    assert!(verbose.contains("AmazonSQS.GetQueueAttributes\n  200 (request id none)\n"), "{verbose}");
}

/// The first errors a new user sees.
#[test]
fn errors_about_credentials_and_connections_name_a_remedy() {
    let without_credentials = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_redeliver"))
            .args(arguments)
            .env_clear()
            .env("AWS_REGION", "eu-central-1")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(1));
        stderr(&output)
    };
    let expected = "error: no AWS credentials found: set AWS_PROFILE or --profile, or set AWS_ACCESS_KEY_ID and \
                    AWS_SECRET_ACCESS_KEY; for single sign-on run `aws sso login --profile NAME` first\n";
    assert_eq!(without_credentials(&["status", "--stack", "redeliver-prod"]), expected);
    assert_eq!(without_credentials(&["status", "--queue", "orders"]), expected);

    // No other test uses this port.
    let url = "http://127.0.0.1:1";
    for which in [["--stack", "redeliver-prod"], ["--queue", "orders"], ["--prefix", "orders"]] {
        let printed = without_credentials(&["status", which[0], which[1], "--endpoint-url", url]);
        let start = format!("error: no connection to {url} (");
        let is_expected =
            printed.starts_with(&start) && printed.ends_with("): is it running? check --endpoint-url\n");
        assert!(is_expected, "{printed}");
    }
}
