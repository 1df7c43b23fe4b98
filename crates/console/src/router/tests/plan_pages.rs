//! The pages for plans and edits, with dead letters that have already been read.

use redeliver_dead_letters::redrive::{JournalEntry, RedriveJournal};
use redeliver_dead_letters::{Coverage, DeadLetterRecord};
use redeliver_operator::redrive::RedrivePace;
use redeliver_testing::dead_letters::{annotated_record, at_seconds, nth_message_id};

use super::*;
use crate::dead_letters::snapshot::SnapshotBuilder;
use crate::dead_letters::spool::Spool;
use crate::plans::plan::{ConsolePlan, PlanAction, PlanOutcome, StartedPlan};

const FROM: &str = "arn:aws:sqs:eu-central-1:000000000000:orders-dlq";
const TO: &str = "arn:aws:sqs:eu-central-1:000000000000:orders";
const SOURCE: &str = "http://127.0.0.1:1/0/orders";
const HOSTILE: &str = "<b>\u{202e}";

/// Returns dead letters with the same cause: 1 to 104 in euros, 105 in dollars, 106 invalid JSON.
fn sample_snapshot(folder: &Path) -> (Snapshot, String) {
    let mut builder = SnapshotBuilder::new(Spool::new(folder).unwrap());
    let mut fingerprint = String::new();
    for number in 1..=106 {
        let currency = if number == 105 { "usd" } else { "eur" };
        let body = match number {
            106 => "no JSON".to_owned(),
            _ => format!(
                r#"{{"metadata":{{"message_id":"{}"}},"data":{{"currency":"{currency}","note":"{HOSTILE}"}}}}"#,
                nth_message_id(number)
            ),
        };
        let message =
            annotated_record(&body, "NON_RETRYABLE_ERROR", "HTTP 422 <i>no</i> such currency", number);
        let record = DeadLetterRecord::new(message);
        fingerprint.clone_from(&record.fingerprint);
        builder.add_record(&record).unwrap();
    }
    (builder.into_snapshot(Coverage::default(), at_seconds(86_400), None), fingerprint)
}

/// Returns the destination of a redirect, after the secret part.
fn redirect_target(headers: &str) -> String {
    let line = headers.lines().find_map(|line| line.strip_prefix("location: /path")).unwrap();
    line.to_owned()
}

fn assert_contains_all(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part}\n\n{page}");
    }
}

#[tokio::test]
async fn a_plan_page_shows_its_cause_messages_and_command() {
    let folder = tempfile::tempdir().unwrap();
    let (snapshot, fingerprint) = sample_snapshot(folder.path());
    let address = serve_site_with_snapshot(folder.path(), Some(SOURCE), Some(snapshot)).await;
    let form = format!("work=send_back&group={fingerprint}");
    let (status, headers, _) = send_request(address, "POST", "/0/plans", &form).await;
    assert_eq!(status, "HTTP/1.1 303 See Other");
    let path = redirect_target(&headers);
    let (_, _, page) = send_request(address, "GET", &path, "").await;
    let command =
        format!("redeliver redrive --queue {FROM} --to {TO} --max-generation 3 --region eu-central-1");
    assert_contains_all(
        &page,
        &[
            &format!("selected by the cause “HTTP 422 &lt;i&gt;no&lt;/i&gt; such currency” ({fingerprint})"),
            "would be sent back</th><td class=\"number\">105</td>",
            &format!("For example <a href=\"/path/0/letters/sqs-1\"><code>{}</code></a>", nth_message_id(1)),
            &format!("<li><a href=\"/path/0/letters/sqs-2\"><code>{}</code></a></li>", nth_message_id(2)),
            "and 5 more",
            &command,
            &format!("--group {fingerprint}</pre>"),
            "It selects from the messages in the queue when it runs",
        ],
    );
    assert_eq!(page.matches("<li><a href=\"/path/0/letters/").count(), 100);
    let (_, headers, _) = send_request(address, "POST", &format!("{path}/cancel"), "").await;
    assert_eq!(redirect_target(&headers), "/0/plans");
    let (_, _, gone) = send_request(address, "GET", &path, "").await;
    assert_contains_all(&gone, &["this plan no longer exists: create it again"]);
}

#[tokio::test]
async fn editing_a_cause_shows_examples_and_counts_and_creates_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let (snapshot, fingerprint) = sample_snapshot(folder.path());
    let address = serve_site_with_snapshot(folder.path(), Some(SOURCE), Some(snapshot)).await;
    let (_, _, page) = send_request(address, "GET", &format!("/0/edit?group={fingerprint}"), "").await;
    assert_contains_all(&page, &["106 messages, the cause “HTTP 422", "data-check=\"/path/0/edit/check\""]);

    let edit = format!("work=edit&group={fingerprint}&field=data.currency&old=eur&new=EUR");
    let (_, _, verdict) = send_request(address, "POST", "/0/edit/check", &edit).await;
    assert_contains_all(
        &verdict,
        &[
            "if (try (.body[&quot;data&quot;][&quot;currency&quot;] == &quot;eur&quot;) catch false) then ",
            "changed, and can be sent back</th><td class=\"number\">104</td>",
            "stays: the edit does not change it</th><td class=\"number\">1</td><td>e.g. <a href=\"/path/0/letters/sqs-105\">",
            "stays: would be dead-lettered again immediately: ",
            "<del>-     &quot;currency&quot;: &quot;eur&quot;,\n</del><ins>+     &quot;currency&quot;: &quot;EUR&quot;,\n</ins>",
            r"&lt;b&gt;\u202e",
        ],
    );
    assert_eq!(verdict.matches("<pre class=\"diff\"").count(), 3);
    assert!(!verdict.contains('\u{202e}') && !verdict.contains("redrive_generation"), "{verdict}");
    let (_, _, wrong) = send_request(address, "POST", "/0/edit/check", "work=edit&program=.body+%3D").await;
    assert_contains_all(&wrong, &["class=\"warning\""]);

    let (_, headers, _) = send_request(address, "POST", "/0/plans", &edit).await;
    let (_, _, plan) = send_request(address, "GET", &redirect_target(&headers), "").await;
    assert_contains_all(
        &plan,
        &[
            "Each message is edited by <code>if (try (.body[",
            "would be sent back</th><td class=\"number\">104</td>",
            "Send back 104 messages",
            "It names these messages.",
        ],
    );
    let nothing = format!("work=edit&group={fingerprint}&field=data.currency&old=gbp&new=EUR");
    let (_, _, refused) = send_request(address, "POST", "/0/plans", &nothing).await;
    assert_contains_all(&refused, &["nothing would be sent: go back; the reasons are listed below the edit"]);
}

#[tokio::test]
async fn an_interrupted_plan_shows_its_progress_and_new_deaths() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (snapshot, fingerprint) = sample_snapshot(folder);
    let action = PlanAction::SendBack {
        to: TO.to_owned(),
        edit: None,
        program: None,
        new_id: false,
        max_generation: 3,
    };
    let messages = (1..=4).map(|n| format!("old-{n}")).collect();
    let plan = ConsolePlan::new(
        "2026-01-01T00:00:00Z".to_owned(),
        FROM,
        action,
        "all".to_owned(),
        Vec::new(),
        messages,
    );
    let journal = plan.journal_path(folder);
    {
        let mut journal = RedriveJournal::open(&journal, &plan.id, FROM, TO).unwrap();
        let intent = |n: u32, generation| JournalEntry::Intent {
            sqs_message_id: format!("old-{n}"),
            message_id: nth_message_id(n),
            old_message_id: None,
            generation,
            original_body: None,
        };
        let sent = |n: u32| JournalEntry::Sent {
            sqs_message_id: format!("old-{n}"),
            sent_as: "t".to_owned(),
            sends: 1,
        };
        let run = JournalEntry::Run { at: "1970-01-01T00:00:00Z".to_owned() };
        // 1 and 2 are in the DLQ again; 3 was sent in a later generation than the one in the DLQ.
        let entries =
            [run, intent(1, 0), intent(2, 0), intent(3, 1), sent(1), sent(2), sent(3), intent(4, 1)];
        journal.write_entries(&entries).unwrap();
    }
    let mut started = StartedPlan::new(plan, RedrivePace::default());
    started.write_file(folder).unwrap();
    let id = started.plan.id.clone();
    let address = serve_site_with_snapshot(folder, Some(SOURCE), Some(snapshot)).await;
    let path = format!("/0/plans/{id}");
    let (_, _, page) = send_request(address, "GET", &path, "").await;
    assert_contains_all(
        &page,
        &[
            "<strong>interrupted</strong>",
            "sent back</th><td class=\"number\">3</td>",
            "sent, not deleted from the DLQ</th><td class=\"number\">3</td>",
            "possibly sent: the next run sends them again</th><td class=\"number\">1</td>",
            "in the plan</th><td class=\"number\">4</td>",
        ],
    );
    assert!(!page.contains("Cancel this plan"), "{page}");

    let (_, headers, _) = send_request(address, "POST", "/0/plans", "work=send_back&id=sqs-7").await;
    let other = redirect_target(&headers);
    let (status, _, refused) = send_request(address, "POST", &format!("{other}/start"), "").await;
    assert_eq!(status, "HTTP/1.1 409 Conflict");
    assert_contains_all(
        &refused,
        &["has messages in both queues, or was killed", &format!("<a href=\"/path{path}\">")],
    );
    let (_, _, refused) = send_request(address, "POST", &format!("{path}/cancel"), "").await;
    assert_contains_all(&refused, &["so it cannot be cancelled", &format!("<a href=\"/path{path}\">")]);

    started.outcome = Some(PlanOutcome {
        ended_at: "1970-01-01T12:00:00Z".to_owned(),
        finished: true,
        ..PlanOutcome::default()
    });
    started.write_file(folder).unwrap();
    let (_, _, page) = send_request(address, "GET", &path, "").await;
    assert_contains_all(
        &page,
        &[
            "2 messages died again",
            &format!("2: <a href=\"/path/0/causes/{fingerprint}\"><bdi>HTTP 422 "),
            "<a href=\"/path/0/letters/sqs-2\"><code>sqs-2</code></a>",
        ],
    );
}

#[tokio::test]
async fn only_a_finished_deletion_can_be_restored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let messages = vec!["sqs-1".to_owned()];
    let deletion =
        ConsolePlan::new(String::new(), FROM, PlanAction::Delete, "all".to_owned(), Vec::new(), messages);
    let mut backup = redeliver_dead_letters::ArchiveFile::create(&deletion.next_backup_path(folder)).unwrap();
    let message = annotated_record("{}", "NON_RETRYABLE_ERROR", "x", 1);
    backup.write_messages([&message]).unwrap();
    let (id, backup) = (deletion.id.clone(), deletion.backup_paths(folder)[0].display().to_string());
    let mut started = StartedPlan::new(deletion, RedrivePace::default());
    started.outcome = Some(PlanOutcome { ending: "paused".to_owned(), ..PlanOutcome::default() });
    started.write_file(folder).unwrap();
    let address = serve_site_with_snapshot(folder, Some(SOURCE), None).await;
    let path = format!("/0/plans/{id}");
    let (_, _, page) = send_request(address, "GET", &path, "").await;
    assert_contains_all(&page, &[&backup, "Once the deletion is finished, it can be restored here."]);
    let (_, _, refused) = send_request(address, "POST", &format!("{path}/restore"), "").await;
    assert_contains_all(&refused, &["Only a finished deletion can be restored: finish it first."]);

    started.outcome = Some(PlanOutcome { finished: true, ..PlanOutcome::default() });
    started.write_file(folder).unwrap();
    let (_, _, page) = send_request(address, "GET", &path, "").await;
    assert_contains_all(&page, &["Restore to the source queue"]);
    let (_, headers, _) = send_request(address, "POST", &format!("{path}/restore"), "").await;
    let restore = redirect_target(&headers);
    let (_, _, page) = send_request(address, "GET", &restore, "").await;
    assert_contains_all(&page, &["<strong>1</strong> would be sent again", &backup, "Restore 1 message", TO]);
    let (_, headers, _) = send_request(address, "POST", &format!("{path}/restore"), "").await;
    assert_eq!(redirect_target(&headers), restore, "the same plan");
}
