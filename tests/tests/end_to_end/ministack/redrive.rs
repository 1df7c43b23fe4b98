//! `redeliver redrive` with the real program on a real endpoint: interrupted runs are finished, and nothing is lost.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use aws_sdk_sqs::types::{Message, MessageAttributeValue, SendMessageBatchRequestEntry};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::debug_binary;
use redeliver_tests::sqs::{REGION, unique_name};
use redeliver_tests::topology::TestTopology;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::{id, new_topology};

/// Fills the final DLQ with dead letters like the annotator's.
async fn put_dead_letters(topology: &TestTopology, count: u32) {
    let text = |value: &str| {
        MessageAttributeValue::builder().data_type("String").string_value(value).build().unwrap()
    };
    let numbers: Vec<_> = (0..count).collect();
    for batch in numbers.chunks(10) {
        let entries = batch.iter().map(|n| {
            let body = json!({"metadata": {"message_id": id(*n), "retry_attempt": 2}, "data": {"n": n}});
            SendMessageBatchRequestEntry::builder()
                .id(n.to_string())
                .message_body(body.to_string())
                .message_attributes("ErrorType", text("RETRY_ATTEMPT_EXCEEDED"))
                .message_attributes("ErrorDetails", text("Max retry attempts 2 exceeded"))
                .message_attributes("tenant", text("t1"))
                .build()
                .unwrap()
        });
        let request = topology.client.send_message_batch().queue_url(&topology.final_dlq.url);
        let sent = request.set_entries(Some(entries.collect())).send().await.unwrap();
        assert!(sent.failed.is_empty());
    }
}

pub(super) fn redrive_command(topology: &TestTopology, journal: &PathBuf, more: &[&str]) -> Command {
    redrive_command_between(&topology.final_dlq.url, &topology.source.url, journal, more)
}

fn redrive_command_between(from: &str, to: &str, journal: &PathBuf, more: &[&str]) -> Command {
    redrive_command_from(&["--queue", from], to, journal, more)
}

/// Returns the command for a redrive of the dead letters from a queue or a file.
pub(super) fn redrive_command_from(from: &[&str], to: &str, journal: &PathBuf, more: &[&str]) -> Command {
    let mut command = Command::new(debug_binary("redeliver"));
    command.args(["redrive", "--format", "json"]);
    command.args(from).args(["--to", to]);
    command.args(["--endpoint-url", &Ministack::shared().endpoint_url(), "--region", REGION]);
    command.arg("--journal").arg(journal).args(more);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

pub(super) async fn run_and_parse_report(mut command: Command) -> (Option<i32>, Value) {
    let output = command.output().await.unwrap();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

pub(super) fn new_journal_path() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique_name("redrive-journal"));
    let _of_an_earlier_run = std::fs::remove_file(&path);
    path
}

/// Returns the number of entries of each kind in a journal.
fn entry_counts(journal: &PathBuf) -> BTreeMap<String, u32> {
    let mut kinds = BTreeMap::new();
    for line in std::fs::read_to_string(journal).unwrap_or_default().lines() {
        let Ok(Value::Object(entry)) = serde_json::from_str(line) else { continue };
        *kinds.entry(entry.keys().next().unwrap().clone()).or_default() += 1;
    }
    kinds
}

/// Waits until a running redrive has sent some messages, but not all.
async fn wait_until_under_way(child: &mut Child, journal: &PathBuf) {
    while entry_counts(journal).get("sent").is_none_or(|sent| *sent < 20) {
        assert!(child.try_wait().unwrap().is_none(), "it ended too early");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the number of copies of each message in the source queue; they stay in flight there.
async fn messages_sent_back(topology: &TestTopology) -> BTreeMap<String, (u32, Message)> {
    let mut found: BTreeMap<String, (u32, Message)> = BTreeMap::new();
    loop {
        let request = topology.client.receive_message().queue_url(&topology.source.url);
        let request =
            request.max_number_of_messages(10).message_attribute_names("All").visibility_timeout(3600);
        let messages = request.send().await.unwrap().messages.unwrap_or_default();
        if messages.is_empty() {
            return found;
        }
        for message in messages {
            let body: Value = serde_json::from_str(message.body().unwrap()).unwrap();
            let id = body["metadata"]["message_id"].as_str().unwrap().to_owned();
            found.entry(id).or_insert((0, message)).0 += 1;
        }
    }
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_an_apply_sends_everything_back_once() {
    let topology = new_topology().await;
    put_dead_letters(&topology, 120).await;
    let journal = new_journal_path();

    let (code, planned) = run_and_parse_report(redrive_command(&topology, &journal, &[])).await;
    assert_eq!((code, &planned["planned"], &planned["complete"]), (Some(0), &json!(120), &json!(true)));
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [120, 0, 0], "given back");
    assert!(!journal.exists());

    let selected = ["--where", ".body.data.n < 100", "--watch", "0s", "--apply"];
    let (code, done) = run_and_parse_report(redrive_command(&topology, &journal, &selected)).await;
    assert_eq!((code, &done["sent"], &done["not_selected"]), (Some(0), &json!(100), &json!(20)), "{done}");
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [20, 0, 0]);
    let sent = messages_sent_back(&topology).await;
    assert_eq!((sent.len(), sent.values().map(|(count, _)| count).sum::<u32>()), (100, 100));
    let (_, message) = &sent[&id(7)];
    let body =
        format!(r#"{{"data":{{"n":7}},"metadata":{{"message_id":"{}","redrive_generation":1}}}}"#, id(7));
    assert_eq!(message.body(), Some(body.as_str()));
    assert_eq!(message.message_attributes().unwrap().keys().collect::<Vec<_>>(), ["tenant"]);
}

#[tokio::test]
async fn the_next_redrive_finishes_a_killed_one() {
    const COUNT: u32 = 600;
    let topology = new_topology().await;
    put_dead_letters(&topology, COUNT).await;
    let journal = new_journal_path();

    let mut child = redrive_command(&topology, &journal, &["--apply", "--rate", "200"]).spawn().unwrap();
    wait_until_under_way(&mut child, &journal).await;
    child.kill().await.unwrap();
    let left = entry_counts(&journal);
    let unsure = left["intent"] - left["sent"];
    let [visible, held, _] = topology.final_dlq.message_counts(&topology.client).await;
    assert!(visible > 0 && left["sent"] < COUNT, "killed in the middle: {visible} {left:?}");

    // Messages held by the killed run come back in two minutes; all others are sent now.
    let (code, done) =
        run_and_parse_report(redrive_command(&topology, &journal, &["--apply", "--watch", "0s"])).await;
    assert_eq!(code, Some(4), "the report says that the queue was not read completely: {done}");
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [0, held, 0]);
    let sent = messages_sent_back(&topology).await;
    let copies = sent.values().map(|(count, _)| count - 1).sum::<u32>();
    assert_eq!(u64::from(copies), done["possible_copies"].as_u64().unwrap().min(copies.into()), "{done}");
    let not_deleted = left["sent"] - left.get("deleted").copied().unwrap_or(0);
    assert!(
        u64::from(COUNT) - sent.len() as u64 <= held
            && held <= u64::from(COUNT) - sent.len() as u64 + u64::from(unsure + not_deleted),
        "every message is in the source queue, or held by the killed run: {} sent, {held} held, {unsure} unsure",
        sent.len()
    );
}

#[tokio::test]
async fn ctrl_c_ends_a_redrive_between_rounds_and_returns_messages() {
    const COUNT: u32 = 400;
    let topology = new_topology().await;
    put_dead_letters(&topology, COUNT).await;
    let journal = new_journal_path();

    let mut child = redrive_command(&topology, &journal, &["--apply", "--rate", "100"]).spawn().unwrap();
    wait_until_under_way(&mut child, &journal).await;
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().await.unwrap().success());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let sent = entry_counts(&journal)["sent"];
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [u64::from(COUNT - sent), 0, 0]);

    let (code, done) =
        run_and_parse_report(redrive_command(&topology, &journal, &["--apply", "--watch", "0s"])).await;
    assert_eq!((code, &done["possible_copies"]), (Some(0), &json!(0)), "{done}");
    let back = messages_sent_back(&topology).await;
    assert_eq!((back.len(), back.values().map(|(count, _)| count).sum::<u32>()), (400, COUNT));
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [0, 0, 0]);
}

#[tokio::test]
async fn wrong_redrive_arguments_are_reported_and_change_nothing() {
    let topology = new_topology().await;
    put_dead_letters(&topology, 10).await;
    let journal = new_journal_path();
    let (dlq, source) = (topology.final_dlq.url.as_str(), topology.source.url.as_str());
    for (from, to, more, code, sentence) in [
        (
            dlq,
            source,
            &["--where", ".a |"][..],
            2,
            "error: the filter `.a |` is wrong at byte 4 (``): expected term",
        ),
        (dlq, source, &["--where", ".body + 1"], 1, "fails on message "),
        (dlq, source, &["--edit", "env"], 2, "there is no filter of this name"),
        (dlq, dlq, &[], 2, "--to names the DLQ itself; name the source queue"),
        (&topology.intermediate.url, source, &[], 1, "has a redrive policy: each read counts as a receive"),
        (
            "http://127.0.0.1:1/0/nowhere",
            source,
            &[],
            1,
            "check the queue, the region, the account and your permission",
        ),
    ] {
        let mut command = redrive_command_between(from, to, &journal, more);
        command.arg("--apply");
        let output = command.output().await.unwrap();
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{more:?}: {reported}");
        assert!(reported.contains(sentence), "{more:?}: {reported}");
    }
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [10, 0, 0]);
    assert_eq!(entry_counts(&journal).get("sent"), None);
}

#[tokio::test]
async fn an_untrusted_journal_stops_a_redrive_before_any_send_or_delete() {
    use std::os::unix::fs::PermissionsExt as _;
    let topology = new_topology().await;
    let journal = new_journal_path();
    let (code, _) = run_and_parse_report(redrive_command(&topology, &journal, &["--apply"])).await;
    assert_eq!(code, Some(0), "the queue was empty; the journal has its first lines");
    put_dead_letters(&topology, 4).await;
    let request = topology.client.receive_message().queue_url(&topology.final_dlq.url);
    let received = request.max_number_of_messages(10).visibility_timeout(0).send().await.unwrap();
    let mut forged = std::fs::read_to_string(&journal).unwrap();
    for message in received.messages() {
        let sent = json!({"sent": {"sqs_message_id": message.message_id(), "sent_as": "x", "sends": 1}});
        forged += &format!("{sent}\n");
    }
    std::fs::write(&journal, &forged).unwrap();
    std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(0o666)).unwrap();
    let output = redrive_command(&topology, &journal, &["--apply"]).output().await.unwrap();
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{reported}");
    assert!(
        reported.contains("other users can write to it (mode 666), so its content is not trusted: name"),
        "{reported}"
    );
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [4, 0, 0]);
    assert_eq!(topology.source.message_counts(&topology.client).await, [0, 0, 0]);
    assert_eq!(std::fs::read_to_string(&journal).unwrap(), forged);
}
