//! The pages for causes, and the marks set on them.

use redeliver_dead_letters::{Coverage, DeadLetterRecord, KnownCauses};
use redeliver_testing::dead_letters::{at_seconds, retried_record};

use super::*;
use crate::dead_letters::reading::causes_file_name;
use crate::dead_letters::snapshot::{CauseHistory, SnapshotBuilder};
use crate::dead_letters::spool::Spool;

const QUEUE: &str = "arn:aws:sqs:eu-central-1:000000000000:orders-dlq";

/// Returns a reading with one message, and the fingerprints of its cause and of another known cause.
fn sample_snapshot(folder: &Path) -> (Snapshot, [String; 2]) {
    let snapshot_of = |details: &str| {
        let mut builder = SnapshotBuilder::new(Spool::new(folder).unwrap());
        let mut message = retried_record("NON_RETRYABLE_ERROR", details, 1);
        message.sent_at = at_seconds(100);
        builder.add_record(&DeadLetterRecord::new(message)).unwrap();
        builder.into_snapshot(Coverage::default(), at_seconds(3000), None)
    };
    let [mut here, gone] = ["HTTP 422 no such currency", "KeyError: 'id'"].map(snapshot_of);
    let mut known = KnownCauses::without_causes(QUEUE);
    known.remember_groups(&here.groups, at_seconds(3000));
    known.remember_groups(&gone.groups, at_seconds(1000));
    known.merge_into_file(&folder.join(causes_file_name(QUEUE))).unwrap();
    let fingerprints = [&here, &gone].map(|snapshot| snapshot.groups[0].fingerprint.clone());
    here.causes = CauseHistory::new(known, Default::default(), None);
    (here, fingerprints)
}

#[tokio::test]
async fn a_cause_without_messages_can_be_resolved_and_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let (snapshot, fingerprints) = sample_snapshot(folder.path());
    let address = serve_site_with_snapshot(folder.path(), None, Some(snapshot)).await;
    let shown = async |fingerprint: &str| {
        send_request(address, "GET", &format!("/0/causes/{fingerprint}"), "").await.2
    };
    let post = async |fingerprint: &str, form: &str| {
        let path = format!("/0/causes/{fingerprint}/resolved");
        let (status, headers, _) = send_request(address, "POST", &path, form).await;
        assert_eq!(status, "HTTP/1.1 303 See Other");
        assert!(headers.contains(&format!("location: /path/0/causes/{fingerprint}\r\n")), "{headers}");
    };
    for (fingerprint, heading) in
        fingerprints.iter().zip(["HTTP 422 no such currency", "NON_RETRYABLE_ERROR"])
    {
        let page = shown(fingerprint).await;
        assert!(page.contains(&format!("<h1>{heading}</h1>")), "{page}");
        assert!(page.contains("Mark as resolved") && !page.contains("Reopen"), "{page}");
        post(fingerprint, "by=%20orders:42%3Cb%3E").await;
        let page = shown(fingerprint).await;
        assert!(page.contains("<p class=\"done\">Resolved <time"), "{page}");
        assert!(page.contains(" by <bdi>orders:42&lt;b&gt;</bdi>. It has not come back.</p>"), "{page}");
        post(fingerprint, "remove=1").await;
        assert!(!shown(fingerprint).await.contains("It has not come back"));
    }
    let [here, gone] = &fingerprints;
    assert!(shown(gone).await.contains("No message in the last refresh has this cause"));
    let resolved = redeliver_dead_letters::Resolution { at: at_seconds(99), by: None };
    let file = folder.path().join(causes_file_name(QUEUE));
    KnownCauses::mark_resolved(&file, QUEUE, here, resolved).unwrap();
    // Submitting any mark re-reads the file.
    post(gone, "").await;
    let page = shown(here).await;
    assert!(page.contains("<strong class=\"new\">came back</strong> after it was resolved <time"), "{page}");
    assert!(page.contains("value=\"1\">Reopen</button>"), "it can be reopened: {page}");
    let newer = format!("/path/0/causes/{here}?since=1970-01-01T00%3A01%3A39.000Z");
    assert!(page.contains(&newer), "{page}");
    let (_, _, list) = send_request(address, "GET", "/0/letters", "").await;
    assert!(
        list.contains(", <strong>1 came back</strong>. ") && list.contains("came back</strong><div"),
        "{list}"
    );
}

#[tokio::test]
async fn a_cause_is_compared_with_all_others_regardless_of_the_selection() {
    let folder = tempfile::tempdir().unwrap();
    let mut builder = SnapshotBuilder::new(Spool::new(folder.path()).unwrap());
    let mut fingerprint = String::new();
    for (number, tenant, hour) in [(1, "acme", 5), (2, "acme", 6), (3, "zeta", 0), (4, "acme", 6)] {
        let details = if number < 3 { "KeyError: 'id'" } else { "HTTP 503 Service Unavailable" };
        let mut message = retried_record("NON_RETRYABLE_ERROR", details, number);
        message.sent_at = at_seconds(hour * 3600);
        message.message_group_id = Some(tenant.to_owned());
        let record = DeadLetterRecord::new(message);
        if number < 3 {
            fingerprint.clone_from(&record.fingerprint);
        }
        builder.add_record(&record).unwrap();
    }
    let snapshot = builder.into_snapshot(Coverage::default(), at_seconds(86_400), None);
    let address = serve_site_with_snapshot(folder.path(), None, Some(snapshot)).await;
    for query in ["", "?since=1970-01-01T05:30Z"] {
        let (_, _, page) = send_request(address, "GET", &format!("/0/causes/{fingerprint}{query}"), "").await;
        let apart = "Unlike the others: <bdi>only tenant acme; since 1970-01-01 05:00</bdi>.";
        assert!(page.contains(apart), "{page}");
        let both = "tenant <bdi>acme</bdi></th><td class=\"number\">2</td><td class=\"number\">1</td>";
        assert!(page.contains(both), "{page}");
    }
}
