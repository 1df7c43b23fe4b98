//! Archived dead letters: saved to a file, and sent from it.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use redeliver_core::archive::{ArchiveLayout, ArchivedMessage, Death, Prefix, compress_line};
use redeliver_core::message::Timestamp;
use redeliver_testing::dead_letters;
use redeliver_tests::archive_stub::{ArchiveStub, CALLER};

use super::*;

const DEAD_LETTERS: u32 = 30;
const FINGERPRINT: &str = "0123456789abcdef";

/// Returns the objects in a deployment's archive.
fn archived_objects(
    deployment: &str,
    lines: impl Iterator<Item = ArchivedMessage>,
) -> BTreeMap<String, Vec<u8>> {
    let layout = ArchiveLayout {
        prefix: Prefix::new("prod").expect("the prefix is valid"),
        deployment: deployment.to_owned(),
    };
    let object = |(hour, line): (i64, ArchivedMessage)| {
        let death =
            Death::new(Timestamp::UNIX_EPOCH + TimeDelta::hours(hour), FINGERPRINT, &line.sqs_message_id);
        (layout.object_key(&death), compress_line(&line))
    };
    (1..).zip(lines).map(object).collect()
}

fn archived_message(number: u32) -> ArchivedMessage {
    ArchivedMessage::new(&dead_letters::retried_record("RETRY_ATTEMPT_EXCEEDED", "down", number))
}

/// Returns a command that runs the program in a folder, against the stub.
fn command_against_stub(stub: &ArchiveStub, folder: &Path, arguments: &[&str]) -> tokio::process::Command {
    let mut program = tokio::process::Command::new(debug_binary("redeliver"));
    program.args(arguments).current_dir(folder).env("AWS_REGION", REGION).kill_on_drop(true);
    program.env("AWS_ENDPOINT_URL", stub.endpoint_url());
    program.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    program
}

async fn run_against_stub(stub: &ArchiveStub, folder: &Path, arguments: &[&str]) -> Output {
    command_against_stub(stub, folder, arguments).output().await.expect("the program starts")
}

/// Returns the message ids of all messages received by the queue, including duplicates.
fn sent_message_ids(stub: &ArchiveStub) -> Vec<String> {
    let id = |body: &String| {
        let message: Value = serde_json::from_str(body).expect("a message is JSON");
        message["metadata"]["message_id"].as_str().expect("the message has an id").to_owned()
    };
    let mut ids: Vec<_> = stub.queued_bodies().iter().map(id).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn saved_messages_are_sent_once_across_killed_runs() {
    let omitted =
        ArchivedMessage { omitted: vec!["/data/email".to_owned()], ..archived_message(DEAD_LETTERS + 1) };
    let lines = (1..=DEAD_LETTERS).map(archived_message).chain([omitted]);
    let stub = ArchiveStub::start(archived_objects("orders-final-dlq", lines)).await;
    let archive = stub.archive_address("prod");
    let [here, elsewhere] = [(); 2].map(|()| tempfile::tempdir().expect("the temporary folder is writable"));
    let saved = here.path().join("saved.jsonl");
    let file = saved.to_str().expect("UTF-8");

    let audit = ["audit", &archive, "--save", file, "--format", "json"];
    let audited = checked_report(3, &run_against_stub(&stub, here.path(), &audit).await);
    assert_eq!(audited["total"], DEAD_LETTERS + 1);
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &saved.metadata().expect("the file exists").permissions(),
        );
        assert_eq!(mode & 0o777, 0o600, "it contains messages");
    }
    let again = run_against_stub(&stub, here.path(), &audit).await;
    assert_eq!(again.status.code(), Some(1), "{}", stderr_text(&again));
    assert!(stderr_text(&again).contains("it already exists"), "{}", stderr_text(&again));

    // One batch is confirmed and in the journal; the others are in flight when the program is killed.
    let redrive =
        ["redrive", file, "--to", &stub.queue_url(), "--allow-paused", "--apply", "--format", "json"];
    stub.set_batch_limit(Some(1));
    let mut killed = command_against_stub(&stub, here.path(), &redrive)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let journal = here.path().join("saved.jsonl.redriven");
    let confirmed = || std::fs::read_to_string(&journal).unwrap_or_default().matches("\"sent_as\"").count();
    let until_confirmed = async {
        while confirmed() < 10 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, until_confirmed).await.expect("a batch is confirmed");
    killed.kill().await.expect("the program was running");
    assert_eq!(sent_message_ids(&stub).len(), 10);

    // The journal belongs to the file, regardless of where the next run starts and what it selects.
    stub.set_batch_limit(None);
    let finished = checked_report(5, &run_against_stub(&stub, elsewhere.path(), &redrive).await);
    assert_eq!((&finished["sent"], &finished["deleted_only"]), (&20.into(), &10.into()), "{finished}");
    let stays = "its /data/email was omitted from the archive: it cannot be sent again";
    assert_eq!(finished["staying"][0]["reason"], stays, "{finished}");
    let all: BTreeSet<_> = (1..=DEAD_LETTERS).map(dead_letters::nth_message_id).collect();
    assert_eq!(sent_message_ids(&stub), all.iter().cloned().collect::<Vec<_>>(), "each once");
    let first = dead_letters::nth_message_id(1);
    let selecting = [&redrive[..], &["--ids", &first]].concat();
    let third = checked_report(0, &run_against_stub(&stub, here.path(), &selecting).await);
    assert_eq!((&third["sent"], &third["deleted_only"]), (&0.into(), &DEAD_LETTERS.into()), "{third}");
    let other = ["send", "--backup", file, "--queue", &stub.queue_url(), "--apply"];
    let other = run_against_stub(&stub, here.path(), &other).await;
    assert_eq!(other.status.code(), Some(1), "{}", stderr_text(&other));
    assert!(
        stderr_text(&other).contains("`redeliver redrive` has begun to send this file"),
        "{}",
        stderr_text(&other)
    );
    assert_eq!(sent_message_ids(&stub).len(), 30);
}

#[tokio::test]
async fn letters_from_several_deployments_are_not_saved_to_one_file() {
    let both = ["orders-final-dlq", "payments-final-dlq"]
        .map(|name| archived_objects(name, [archived_message(1)].into_iter()));
    let stub = ArchiveStub::start(both.into_iter().flatten().collect()).await;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let (archive, file) = (stub.archive_address("prod"), folder.path().join("saved.jsonl"));
    let save = ["--save", file.to_str().expect("UTF-8")];
    let refused = run_against_stub(&stub, folder.path(), &[&["audit", &archive], &save[..]].concat()).await;
    assert_eq!(refused.status.code(), Some(1), "{}", stderr_text(&refused));
    let payments = format!("{archive}/dead-letters/deployment=payments-final-dlq");
    assert!(stderr_text(&refused).contains(&payments), "{}", stderr_text(&refused));
    let audit = ["audit", &payments, "--format", "json"];
    let audited =
        checked_report(3, &run_against_stub(&stub, folder.path(), &[&audit[..], &save].concat()).await);
    assert_eq!(audited["total"], 1);
}

/// Anyone can create a bucket with the name of a deleted one, and the messages in it would be sent.
#[tokio::test]
async fn saving_from_a_foreign_bucket_is_refused_unless_its_owner_is_named() {
    const OTHER: &str = "444455556666";
    let stub =
        ArchiveStub::start(archived_objects("orders-final-dlq", [archived_message(1)].into_iter())).await;
    let (archive, folder) =
        (stub.archive_address("prod"), tempfile::tempdir().expect("the folder is writable"));
    let file = folder.path().join("saved.jsonl");
    let save = ["audit", &archive, "--format", "json", "--save", file.to_str().expect("UTF-8")];
    stub.set_accounts(OTHER, Some(CALLER));
    for command in [&save[..], &save[..4]] {
        let refused = run_against_stub(&stub, folder.path(), command).await;
        assert_eq!(refused.status.code(), Some(1), "{}", stderr_text(&refused));
        let hint = "(AccessDenied): you need s3:ListBucket there; if the bucket belongs to another account, name that \
                    account with --bucket-owner";
        assert!(stderr_text(&refused).contains(hint), "{}", stderr_text(&refused));
    }
    assert!(!file.exists());

    stub.set_accounts(OTHER, None);
    let unknown = run_against_stub(&stub, folder.path(), &save).await;
    assert_eq!(unknown.status.code(), Some(1), "{}", stderr_text(&unknown));
    let sentence = "could not determine your account from STS, and --save needs the bucket's owner: name it with \
                    --bucket-owner";
    assert!(stderr_text(&unknown).contains(sentence), "{}", stderr_text(&unknown));

    let named =
        run_against_stub(&stub, folder.path(), &[&save[..], &["--bucket-owner", OTHER]].concat()).await;
    assert_eq!(checked_report(3, &named)["total"], 1);
}

/// Saves three dead letters in a folder and returns the file.
async fn save_letters(stub: &ArchiveStub, folder: &Path) -> String {
    let file = folder.join("old.jsonl").to_str().expect("UTF-8").to_owned();
    let audit = ["audit", &stub.archive_address("prod"), "--save", &file, "--format", "json"];
    assert_eq!(checked_report(3, &run_against_stub(stub, folder, &audit).await)["total"], 3);
    file
}

#[tokio::test]
async fn a_file_that_was_moved_with_its_journal_is_not_sent_again() {
    let stub = ArchiveStub::start(archived_objects("orders-final-dlq", (1..=3).map(archived_message))).await;
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().expect("the temporary folder is writable"));
    let file = save_letters(&stub, here.path()).await;
    let queue = stub.queue_url();
    let redrive = |file: &str, queue: &str| {
        ["redrive", file, "--to", queue, "--allow-paused", "--apply", "--format", "json"].map(str::to_owned)
    };
    let run = async |arguments: [String; 8]| {
        run_against_stub(&stub, here.path(), &arguments.each_ref().map(String::as_str)).await
    };
    assert_eq!(checked_report(0, &run(redrive(&file, &queue)).await)["sent"], 3);

    for name in ["old.jsonl", "old.jsonl.redriven"] {
        std::fs::rename(here.path().join(name), there.path().join(name)).expect("the file exists");
    }
    let moved = there.path().join("old.jsonl").to_str().expect("UTF-8").to_owned();
    let again = checked_report(0, &run(redrive(&moved, &queue)).await);
    assert_eq!((&again["sent"], &again["deleted_only"]), (&0.into(), &3.into()), "{again}");

    let elsewhere = run(redrive(&moved, &queue.replace("/orders", "/payments"))).await;
    assert_eq!(elsewhere.status.code(), Some(1), "{}", stderr_text(&elsewhere));
    let first = format!("belongs to another redrive, to arn:aws:sqs:{REGION}:000000000000:orders, ");
    assert!(stderr_text(&elsewhere).contains(&first), "{}", stderr_text(&elsewhere));
    assert!(
        !stderr_text(&elsewhere).contains("--journal"),
        "another journal would send everything twice: {}",
        stderr_text(&elsewhere)
    );
    assert_eq!(sent_message_ids(&stub).len(), 3);
}

#[tokio::test]
async fn a_dry_run_of_a_file_counts_earlier_sends() {
    let stub = ArchiveStub::start(archived_objects("orders-final-dlq", (1..=3).map(archived_message))).await;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let file = save_letters(&stub, folder.path()).await;
    let queue = stub.queue_url();
    let dry_run = ["redrive", &file, "--to", &queue, "--allow-paused", "--format", "json"];
    let counts = async || {
        let planned = checked_report(0, &run_against_stub(&stub, folder.path(), &dry_run).await);
        (planned["planned"].clone(), planned["deleted_only"].clone())
    };
    assert_eq!(counts().await, (3.into(), 0.into()));
    assert!(!folder.path().join("old.jsonl.redriven").exists(), "a dry run starts no journal");
    let two = [&dry_run[..], &["--apply", "--max", "2"]].concat();
    assert_eq!(checked_report(0, &run_against_stub(&stub, folder.path(), &two).await)["sent"], 2);
    assert_eq!(counts().await, (1.into(), 2.into()));
}

/// In a second file, they would be sent twice: by the earlier command, and from that file.
#[tokio::test]
async fn letters_sent_from_a_file_are_not_written_to_another_file() {
    let stub = ArchiveStub::start(archived_objects("orders-final-dlq", (1..=3).map(archived_message))).await;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let file = save_letters(&stub, folder.path()).await;
    let queue = stub.queue_url();
    let two =
        ["redrive", &file, "--to", &queue, "--allow-paused", "--apply", "--max", "2", "--format", "json"];
    assert_eq!(checked_report(0, &run_against_stub(&stub, folder.path(), &two).await)["sent"], 2);

    let write = ["redrive", &file, "-o", "rest.jsonl", "--format", "json"];
    let planned = checked_report(0, &run_against_stub(&stub, folder.path(), &write).await);
    assert_eq!((&planned["planned"], &planned["deleted_only"]), (&1.into(), &2.into()), "{planned}");
    let apply = [&write[..], &["--apply"]].concat();
    let written = checked_report(0, &run_against_stub(&stub, folder.path(), &apply).await);
    assert_eq!((&written["sent"], &written["deleted_only"]), (&1.into(), &2.into()), "{written}");
    let rest = std::fs::read_to_string(folder.path().join("rest.jsonl")).expect("the file is written");
    assert_eq!(rest.lines().count(), 1);
    let message: Value = serde_json::from_str(&rest).expect("a message is JSON");
    let id = message["metadata"]["message_id"].as_str().expect("the message has an id").to_owned();
    assert!(!sent_message_ids(&stub).contains(&id), "{id} was sent");
}

#[tokio::test]
async fn letters_from_a_killed_run_are_written_with_a_warning() {
    let stub = ArchiveStub::start(archived_objects("orders-final-dlq", (1..=3).map(archived_message))).await;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let file = save_letters(&stub, folder.path()).await;
    let queue = stub.queue_url();
    let two =
        ["redrive", &file, "--to", &queue, "--allow-paused", "--apply", "--max", "2", "--format", "json"];
    assert_eq!(checked_report(0, &run_against_stub(&stub, folder.path(), &two).await)["sent"], 2);
    let journal = folder.path().join("old.jsonl.redriven");
    let journal_text = std::fs::read_to_string(&journal).expect("the journal exists");
    let (until_the_kill, _) = journal_text.split_once(r#"{"sent":"#).expect("two messages were sent");
    std::fs::write(&journal, until_the_kill).expect("the folder is writable");

    let write = ["redrive", &file, "-o", "all.jsonl", "--apply", "--format", "json"];
    let written = run_against_stub(&stub, folder.path(), &write).await;
    assert_eq!(checked_report(0, &written)["sent"], 3);
    let warning = "warning: 2 messages may have been sent by a run that was killed or received no response, so sending \
                   them again might duplicate them: first finish that redrive, to its queue";
    assert!(stderr_text(&written).contains(warning), "{}", stderr_text(&written));
}

/// `send --backup` and `redrive` apply the same rule and print the same sentence.
#[tokio::test]
async fn duplicate_letters_in_a_file_are_sent_once_by_either_command() {
    for command in ["send", "redrive"] {
        let stub =
            ArchiveStub::start(archived_objects("orders-final-dlq", (1..=3).map(archived_message))).await;
        let folder = tempfile::tempdir().expect("the temporary folder is writable");
        let once =
            std::fs::read_to_string(save_letters(&stub, folder.path()).await).expect("the file exists");
        std::fs::write(folder.path().join("twice.jsonl"), once.repeat(2)).expect("the folder is writable");
        let queue = stub.queue_url();
        let way = match command {
            "send" => ["send", "twice.jsonl", "--backup", "--queue", &queue, "--apply"],
            _ => ["redrive", "twice.jsonl", "--to", &queue, "--allow-paused", "--apply"],
        };
        let run = run_against_stub(&stub, folder.path(), &[&way[..], &["--format", "json"]].concat()).await;
        assert_eq!(checked_report(0, &run)["sent"], 3, "{command}");
        assert_eq!(sent_message_ids(&stub).len(), 3, "{command}");
        let sentence = "twice.jsonl: 3 lines left out: an earlier line has the same message";
        assert!(stderr_text(&run).contains(sentence), "{command}: {}", stderr_text(&run));
    }
}

#[tokio::test]
async fn redrive_refuses_a_file_begun_by_send_unless_the_journal_is_new() {
    let stub = ArchiveStub::start(archived_objects("orders-final-dlq", (1..=3).map(archived_message))).await;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let file = save_letters(&stub, folder.path()).await;
    let queue = stub.queue_url();
    let send = ["send", "--backup", &file, "--queue", &queue, "--apply", "--format", "json"];
    assert_eq!(checked_report(0, &run_against_stub(&stub, folder.path(), &send).await)["sent"], 3);

    let write = ["redrive", &file, "-o", "all.jsonl", "--apply", "--format", "json"];
    let refused = run_against_stub(&stub, folder.path(), &write).await;
    assert_eq!(refused.status.code(), Some(1), "{}", stderr_text(&refused));
    let why = "`redeliver send --backup` has begun to send this file, and its journal ";
    assert!(stderr_text(&refused).contains(why), "{}", stderr_text(&refused));
    let again = [&write[..], &["--journal", "new"]].concat();
    assert_eq!(checked_report(0, &run_against_stub(&stub, folder.path(), &again).await)["sent"], 3);
}

#[tokio::test]
#[cfg(unix)]
async fn the_same_file_under_another_path_is_not_sent_again() {
    use std::os::unix::fs::symlink;
    let stub = ArchiveStub::start(archived_objects("orders-final-dlq", (1..=3).map(archived_message))).await;
    let folder = tempfile::tempdir().expect("the temporary folder is writable");
    let [here, copied] = ["here", "copied"].map(|name| folder.path().join(name));
    for made in [&here, &copied] {
        std::fs::create_dir(made).expect("the temporary folder is writable");
    }
    drop(save_letters(&stub, &here).await);
    let queue = stub.queue_url();
    let counts = async |name: &str| {
        let redrive = ["redrive", name, "--to", &queue, "--allow-paused", "--apply", "--format", "json"];
        let report = checked_report(0, &run_against_stub(&stub, &here, &redrive).await);
        (report["sent"].clone(), report["deleted_only"].clone())
    };
    assert_eq!(counts("old.jsonl").await, (3.into(), 0.into()));

    symlink(&here, folder.path().join("linked")).expect("the file system has links");
    symlink(here.join("old.jsonl"), folder.path().join("link.jsonl")).expect("the file system has links");
    for name in ["old.jsonl", "old.jsonl.redriven"] {
        std::fs::copy(here.join(name), copied.join(name)).expect("the file exists");
    }
    for name in ["../here/old.jsonl", "../linked/old.jsonl", "../link.jsonl", "../copied/old.jsonl"] {
        assert_eq!(counts(name).await, (0.into(), 3.into()), "{name}");
    }
    assert_eq!(sent_message_ids(&stub).len(), 3);
}
