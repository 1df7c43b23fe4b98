//! Final records in the archive: written once, before they are sent. A record that cannot be archived is not sent.

use std::io::Read as _;

use redeliver_core::archive::{ArchiveLayout, ArchivedMessage, OmitList, Prefix};
use redeliver_core::ports::Fault;
use redeliver_embedded::{BucketRequest, FaultScope, FaultTrigger, Injection, MemoryBucket};

use super::*;

type ArchivingAnnotator =
    FinalDlqAnnotator<SpyQueue, redeliver_embedded::VirtualClock, EventRecorder, MemoryBucket>;

pub(super) fn archive(store: MemoryBucket) -> Archive<MemoryBucket> {
    let layout = ArchiveLayout { prefix: Prefix::default(), deployment: "final-dlq".to_owned() };
    Archive { store, layout, omit: OmitList::default() }
}

impl Setup {
    fn archiving_annotator(&self, bucket: &MemoryBucket) -> ArchivingAnnotator {
        FinalDlqAnnotator {
            final_dlq: self.final_dlq.clone(),
            archive: Some(archive(bucket.clone())),
            notices: None,
            clock: self.world.clock.clone(),
            observer: self.world.seen.clone(),
        }
    }

    fn process_and_archive(&self, bucket: &MemoryBucket, records: Vec<ReceivedMessage>) -> Vec<String> {
        self.world.invoke_function(&self.archiving_annotator(bucket), records, Duration::from_secs(30))
    }

    fn archive_failures(&self) -> Vec<(String, String)> {
        let refused = self.world.seen.events().into_iter().filter_map(|event| match event {
            Event::ArchiveRefused { sqs_message_id, code } => Some((sqs_message_id, code)),
            _ => None,
        });
        refused.collect()
    }
}

/// Returns the n-th record, given up after five retries.
pub(super) fn dead_message(n: usize) -> ReceivedMessage {
    let failure = failure("RETRY_ATTEMPT_EXCEEDED", json!({ "source_message_id": format!("source-{n}") }));
    given_up_message(n, spent_body(n), &failure)
}

fn key(n: usize) -> String {
    let fingerprint = compute_fingerprint("RETRY_ATTEMPT_EXCEEDED", "HttpStatus.503", "HTTP 503");
    let day = "dead-letters/deployment=final-dlq/date=2026-07-25";
    format!("{day}/cause={fingerprint}/171958.000000Z-source-{n}.jsonl.gz")
}

fn parse_line(object: &[u8]) -> ArchivedMessage {
    let mut text = String::new();
    flate2::read::GzDecoder::new(object).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_final_record_is_archived_exactly_as_sent() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    assert_eq!(setup.process_and_archive(&bucket, vec![dead_message(1)]), [""; 0]);
    let sent = setup.final_dlq.only_sent_content();
    let objects = bucket.objects();
    assert_eq!(objects.keys().collect::<Vec<_>>(), [&key(1)]);
    let line = parse_line(&objects[&key(1)]);
    assert_eq!((&*line.sqs_message_id, &*line.queue_arn), ("sqs-1", ANNOTATION_ARN));
    assert_eq!(
        (&*line.sent_at, line.receive_count),
        (&*format_time_at(-2), 1),
        "the time of the last failure"
    );
    let kept = line.into_message().unwrap();
    assert_eq!((kept.body, kept.attributes), (sent.body, sent.attributes));
}

#[test]
fn a_record_refused_by_the_archive_is_reported_and_the_others_are_sent() {
    let refuse_second = |request: &BucketRequest| match request {
        BucketRequest::Create(key) if key.contains("source-2") => Some(Injection::Sender),
        _ => None,
    };
    let (setup, bucket) = (Setup::new(), MemoryBucket::with_faults(refuse_second));
    assert_eq!(
        setup.process_and_archive(&bucket, vec![dead_message(1), dead_message(2), dead_message(3)]),
        ["sqs-2"]
    );
    assert_eq!(setup.final_dlq.sent_contents().len(), 2);
    assert_eq!(bucket.objects().keys().collect::<Vec<_>>(), [&key(1), &key(3)]);
    let code = Injection::Sender.to_error().code;
    assert_eq!(setup.archive_failures(), [("sqs-2".to_owned(), code)]);
    assert_eq!(
        setup.world.elapsed_seconds(),
        0,
        "a permanently refused write is not retried in this invocation"
    );
}

#[test]
fn an_unresponsive_archive_leaves_time_to_send_the_other_records() {
    let hangs = |request: &BucketRequest| match request {
        BucketRequest::Create(key) if key.contains("source-2") => Some(Injection::LostRequest),
        _ => None,
    };
    let (setup, bucket) = (Setup::new(), MemoryBucket::with_faults(hangs));
    assert_eq!(setup.process_and_archive(&bucket, vec![dead_message(1), dead_message(2)]), ["sqs-2"]);
    assert_eq!(setup.final_dlq.sent_contents().len(), 1);
    assert_eq!(setup.world.elapsed_seconds(), 24, "5 s are left for the sends");
    assert_eq!(setup.archive_failures().len(), 1);
    assert!(bucket.requests().len() > 2, "the write was retried");
    assert_eq!(Injection::LostRequest.to_error().fault, Fault::NoAnswer);
}

#[test]
fn a_retry_finds_a_write_whose_response_was_lost() {
    let mut answers = [Some(Injection::LostResponse)].into_iter();
    let (setup, bucket) = (Setup::new(), MemoryBucket::with_faults(move |_| answers.next().flatten()));
    assert_eq!(setup.process_and_archive(&bucket, vec![dead_message(1)]), [""; 0]);
    assert_eq!(bucket.requests().len(), 2);
    assert_eq!((bucket.objects().len(), setup.final_dlq.sent_contents().len()), (1, 1));
}

/// The process died before it responded: the same record, received again, is the same death.
#[test]
fn a_record_received_again_keeps_its_archive_object() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    let first = dead_message(1);
    let again = ReceivedMessage { receipt_handle: "another".to_owned(), receive_count: 2, ..first.clone() };
    assert_eq!(setup.process_and_archive(&bucket, vec![first]), [""; 0]);
    let object = bucket.objects();
    setup.sleep(3600);
    assert_eq!(setup.process_and_archive(&bucket, vec![again]), [""; 0]);
    assert_eq!(bucket.objects(), object, "the first object remains");
    assert_eq!(setup.final_dlq.sent_contents().len(), 2, "at-least-once delivery");
}

#[test]
fn an_archived_record_that_cannot_be_sent_is_reported_and_archived_once() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    setup.world.fail_sends(
        &setup.final_dlq,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Sender,
    );
    assert_eq!(setup.process_and_archive(&bucket, vec![dead_message(1)]), ["sqs-1"]);
    assert_eq!((bucket.objects().len(), setup.final_dlq.sent_contents().len()), (1, 1), "refused");
    setup.world.sqs.set_faults(redeliver_embedded::FaultPlan::new(1));
    assert_eq!(setup.process_and_archive(&bucket, vec![dead_message(1)]), [""; 0]);
    assert_eq!((bucket.objects().len(), setup.final_dlq.sent_contents().len()), (1, 2), "accepted");
}

#[test]
fn a_moved_message_is_archived_under_its_own_send_time() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    assert_eq!(setup.process_and_archive(&bucket, vec![redriven_message(1, "not json")]), [""; 0]);
    let objects = bucket.objects();
    let death = archive(bucket).layout.parse_key(objects.keys().next().unwrap()).unwrap();
    assert_eq!((death.at, &*death.id), (start_time() - chrono::TimeDelta::seconds(10), "sqs-1"));
    assert_eq!(
        parse_line(&objects.into_values().next().unwrap()).redriven_from.as_deref(),
        Some(INTERMEDIATE_ARN)
    );
}

#[test]
fn omitted_values_are_sent_to_the_queue_but_not_archived() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    let mut annotator = setup.archiving_annotator(&bucket);
    annotator.archive.as_mut().unwrap().omit = OmitList::parse("/data/é").unwrap();
    assert_eq!(
        setup.world.invoke_function(&annotator, vec![dead_message(1)], Duration::from_secs(30)),
        [""; 0]
    );
    assert_eq!(setup.final_dlq.only_sent_content().body, spent_body(1));
    let line = parse_line(&bucket.objects()[&key(1)]);
    assert_eq!(line.body, spent_body(1).replace("1e400", "\"omitted\""));
    assert_eq!(line.omitted, ["/data/é"]);
}
