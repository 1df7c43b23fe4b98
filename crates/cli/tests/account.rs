//! Whose account it is: a profile that is named counts more than the environment, must be there, and is told before anything is
//! changed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, channel};

use tempfile::TempDir;

const QUEUE: &str = r#"{"Attributes":{"QueueArn":"arn:aws:sqs:eu-central-1:123456789012:orders"}}"#;
const SENT: &str = r#"{"Successful":[{"Id":"0","MessageId":"m","MD5OfMessageBody":"x"}],"Failed":[]}"#;
const CALLER: &str = "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>\
    <Arn>arn:aws:iam::123456789012:user/ana</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>";

/// An endpoint that knows one queue and, if it `has_sts`, one caller. It hands on each request's `Authorization`.
fn endpoint(has_sts: bool) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (sender, authorizations) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let (authorization, action) = read(&stream);
            let _the_test_is_over = sender.send(authorization);
            let (status, body) = match (action.as_str(), has_sts) {
                ("GetQueueAttributes", _) => ("200 OK", QUEUE),
                ("SendMessageBatch", _) => ("200 OK", SENT),
                (_, true) => ("200 OK", CALLER),
                (_, false) => ("404 Not Found", "no such service"),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _the_program_is_gone = write!(&stream, "{head}{body}");
        }
    });
    (url, authorizations)
}

/// Who has signed, and the action; of STS nothing.
fn read(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut authorization, mut action, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            match line.trim_end() {
                "" => break,
                _ => continue,
            }
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.clone_into(&mut authorization),
            "x-amz-target" => value.trim_start_matches("AmazonSQS.").clone_into(&mut action),
            "content-length" => length = value.parse().expect("a number"),
            _ => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).expect("a body");
    (authorization, action)
}

/// The program with credentials in its environment and a profile `prod` in a file.
fn redeliver(arguments: &[&str]) -> Output {
    let folder = folder();
    let config = folder.path().join("config");
    let profile = "[profile prod]\naws_access_key_id = KEYOFPROFILE\naws_secret_access_key = s\nregion = eu-central-1\n\
                   [profile sso]\nregion = eu-central-1\nsso_account_id = 123456789012\n\
                   sso_role_name = r\nsso_region = eu-central-1\nsso_start_url = https://example.com\n";
    std::fs::write(&config, profile).expect("it is ours");
    Command::new(env!("CARGO_BIN_EXE_redeliver"))
        .args(arguments)
        .env_clear()
        .env("AWS_CONFIG_FILE", &config)
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_ACCESS_KEY_ID", "KEYOFENVIRONMENT")
        .env("AWS_SECRET_ACCESS_KEY", "s")
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
fn a_profile_that_is_named_counts_more_than_credentials_in_the_environment() {
    for (profile, key) in [(&["--profile", "prod"][..], "KEYOFPROFILE"), (&[], "KEYOFENVIRONMENT")] {
        let (url, authorizations) = endpoint(true);
        let output = redeliver(&[&SEND[..], &["--endpoint-url", &url], profile].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let signed = authorizations.try_iter().collect::<Vec<_>>();
        assert!(
            !signed.is_empty() && signed.iter().all(|by| by.contains(&format!("Credential={key}/"))),
            "{signed:?}"
        );
    }
}

#[test]
fn a_profile_that_is_not_there_ends_the_command_before_any_request() {
    let (url, authorizations) = endpoint(true);
    let output = redeliver(&[&SEND[..], &["--endpoint-url", &url, "--profile", "nope"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let expected = "error: --profile nope: there is no such profile in the AWS configuration files; they have prod, sso\n";
    assert_eq!(stderr(&output), expected);
    assert_eq!(authorizations.try_iter().count(), 0);
}

#[test]
fn what_changes_something_says_first_whose_account_it_is_and_an_endpoint_without_sts_stops_nothing() {
    let of = |has_sts, more: &[&str]| {
        let (url, _authorizations) = endpoint(has_sts);
        stderr(&redeliver(&[&SEND[..], &["--endpoint-url", &url], more].concat()))
    };
    let queue = "sending tests/one-message.jsonl to arn:aws:sqs:eu-central-1:123456789012:orders";
    let known = of(true, &["--apply", "--journal", "target/none/none"]);
    assert!(!known.contains("account"), "nothing is changed without a journal: {known}");
    let planned = of(true, &["--dry-run"]);
    let plan = queue.replace("sending", "would send");
    let account = "account 123456789012 (arn:aws:iam::123456789012:user/ana)";
    assert!(planned.starts_with(&format!("{account}: {plan}\n")), "{planned}");
    let folder = folder();
    let journal = folder.path().join("input.sent");
    let apply = ["--apply", "--journal", journal.to_str().expect("UTF-8")];
    let of = |has_sts, more: &[&str]| {
        let told = of(has_sts, more);
        std::fs::remove_file(&journal).expect("it was written");
        told
    };
    let known = of(true, &apply);
    assert!(
        known.starts_with(&format!("account 123456789012 (arn:aws:iam::123456789012:user/ana): {queue}\n")),
        "{known}"
    );
    let unknown = of(false, &apply);
    assert!(unknown.starts_with(&format!("account unknown: {queue}\n")), "{unknown}");
    let quiet = of(true, &[&apply[..], &["-q"]].concat());
    assert!(!quiet.contains("account"), "{quiet}");
    let verbose = of(true, &[&apply[..], &["--verbose"]].concat());
    assert!(verbose.contains("AmazonSQS.GetQueueAttributes\n  200 (request id none)\n"), "{verbose}");
}

/// What a new user sees first.
#[test]
fn without_credentials_or_a_connection_it_says_what_to_do_and_nothing_of_permissions() {
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
        assert_eq!(output.status.code(), Some(2));
        stderr(&output)
    };
    let expected = "error: no AWS credentials found: set AWS_PROFILE or --profile, or set AWS_ACCESS_KEY_ID and \
                    AWS_SECRET_ACCESS_KEY; with single sign-on run `aws sso login`, then \
                    `eval \"$(aws configure export-credentials --format env)\"`\n";
    assert_eq!(without_credentials(&["status", "--stack", "redeliver-prod"]), expected);
    assert_eq!(without_credentials(&["status", "--queue", "orders"]), expected);

    let sso = redeliver(&["status", "--queue", "orders", "--profile", "sso"]);
    let why = "the AWS credentials cannot be loaded (ProfileFile provider could not be built: This behavior \
               requires following cargo feature(s) enabled: sso)";
    assert_eq!(stderr(&sso), expected.replace("no AWS credentials found", why));

    // No other test is given this port.
    let url = "http://127.0.0.1:1";
    for which in [["--stack", "redeliver-prod"], ["--queue", "orders"], ["--prefix", "orders"]] {
        let said = without_credentials(&["status", which[0], which[1], "--endpoint-url", url]);
        let start = format!("error: no connection to {url} (");
        let is_it = said.starts_with(&start) && said.ends_with("): is it running? check --endpoint-url\n");
        assert!(is_it, "{said}");
    }
}
