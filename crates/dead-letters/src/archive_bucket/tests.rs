use std::time::Duration;

use chrono::TimeDelta;
use redeliver_core::archive::compress_line;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::ports::{Fault, ListingPage, ObjectStore};
use redeliver_embedded::{BucketRequest, Injection, MemoryBucket, VirtualClock};
use redeliver_testing::dead_letters::{foreign_message, retried_record};

use super::*;
use crate::purge::BackupWriter as _;
use crate::{ArchivedMessage, DeadLetterRecord};

const DLQ: &str = "orders-final-dlq";

fn at(text: &str) -> Timestamp {
    parse_rfc3339(text).unwrap()
}

fn archive(store: &MemoryBucket, clock: &VirtualClock) -> ArchiveBucket<MemoryBucket, VirtualClock> {
    let prefix = Prefix::new("kept").unwrap();
    ArchiveBucket { store: store.clone(), clock: clock.clone(), prefix, deployment: None }
}

fn layout(deployment: &str) -> ArchiveLayout {
    ArchiveLayout { prefix: Prefix::new("kept").unwrap(), deployment: deployment.to_owned() }
}

fn clock() -> VirtualClock {
    VirtualClock::new(at("2026-11-28T00:00:00Z"))
}

/// Returns an archived dead letter with this number.
fn archived_message(number: u32) -> ArchivedMessage {
    ArchivedMessage::new(&retried_record("NON_RETRYABLE_ERROR", "x", number))
}

fn put_object(clock: &VirtualClock, store: &MemoryBucket, key: &str, content: Vec<u8>) {
    assert_eq!(clock.block_on(store.create_object(key, content)), Ok(true), "{key}");
}

/// Archives a dead letter with this timestamp.
fn record_death(clock: &VirtualClock, store: &MemoryBucket, deployment: &str, moment: &str, number: u32) {
    let death = Death::new(at(moment), "0123456789abcdef", &format!("id-{number}"));
    let key = layout(deployment).object_key(&death);
    put_object(clock, store, &key, compress_line(&archived_message(number)));
}

/// Returns the lines of a file.
fn parse_lines(output: &[u8]) -> Vec<ArchivedMessage> {
    let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

fn death_ids(found: &ArchiveListing) -> Vec<&str> {
    found.deaths.iter().map(|death| death.death.id.as_str()).collect()
}

#[test]
fn only_days_in_the_period_are_listed() {
    let (clock, store) = (clock(), MemoryBucket::default());
    record_death(&clock, &store, DLQ, "2026-11-25T23:59:59.999999Z", 1);
    record_death(&clock, &store, DLQ, "2026-11-26T07:59:59Z", 2);
    record_death(&clock, &store, DLQ, "2026-11-27T09:00:00Z", 4);
    record_death(&clock, &store, "another-dlq", "2026-11-26T08:00:00Z", 3);
    record_death(&clock, &store, DLQ, "2026-11-27T10:00:00Z", 5);
    record_death(&clock, &store, DLQ, "2026-11-28T00:00:00Z", 6);
    let before = store.requests().len();
    let archive = archive(&store, &clock);
    let period = Period { since: Some(at("2026-11-26T08:00:00Z")), until: Some(at("2026-11-27T10:00:00Z")) };
    let found = clock.block_on(archive.find_deaths(period)).unwrap();
    assert_eq!(death_ids(&found), ["id-3", "id-4"]);
    let mut output = Vec::new();
    let skipped = clock.block_on(archive.export_lines(found.deaths, &mut output, &|_| {})).unwrap();
    assert_eq!((parse_lines(&output), skipped), (vec![archived_message(3), archived_message(4)], Vec::new()));
    let requests: Vec<_> = store.requests().split_off(before);
    let is_excluded = |request: &BucketRequest| {
        let text = format!("{request:?}");
        ["2026-11-25", "2026-11-28", "id-2", "id-5"].iter().any(|excluded| text.contains(excluded))
    };
    assert_eq!(requests.iter().find(|request| is_excluded(request)), None, "{requests:?}");
    let reads = requests.iter().filter(|request| matches!(request, BucketRequest::Read(_)));
    assert_eq!(reads.count(), 2);
    let only = ArchiveBucket { deployment: Some("another-dlq".to_owned()), ..archive };
    assert_eq!(death_ids(&clock.block_on(only.find_deaths(Period::default())).unwrap()), ["id-3"]);
    let absent = ArchiveBucket { deployment: Some("another".to_owned()), ..only };
    assert_eq!(clock.block_on(absent.list_deployments()).unwrap(), []);
}

#[test]
fn thousands_of_archive_keys_are_listed_page_by_page() {
    let (clock, store) = (clock(), MemoryBucket::default());
    for number in 0..2500 {
        let death = Death::new(
            at("2026-11-27T00:00:00Z") + TimeDelta::seconds(number),
            "0123456789abcdef",
            &format!("id-{number:04}"),
        );
        put_object(&clock, &store, &layout(DLQ).object_key(&death), Vec::new());
    }
    let found = clock.block_on(archive(&store, &clock).find_deaths(Period::default())).unwrap();
    assert_eq!(found.deaths.len(), 2500);
    assert_eq!(death_ids(&found)[..2], ["id-0000", "id-0001"]);
}

#[test]
fn objects_that_are_not_dead_letters_are_reported_and_the_rest_is_read() {
    let (clock, store) = (clock(), MemoryBucket::default());
    record_death(&clock, &store, DLQ, "2026-11-27T00:00:00Z", 1);
    let layout = layout(DLQ);
    let key = |second: i64| {
        let death = Death::new(at("2026-11-27T00:00:10Z") + TimeDelta::seconds(second), "c", "bad");
        layout.object_key(&death)
    };
    // Two concatenated objects: data after the first gzip member must not be dropped silently.
    let two_members = [compress_line(&archived_message(2)), compress_line(&archived_message(3))].concat();
    let foreign_json = {
        use flate2::{Compression, write::GzEncoder};
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(br#"{"card":"CANARY"}"#).unwrap();
        encoder.finish().unwrap()
    };
    let empty_member =
        flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()).finish().unwrap();
    let mut empty_members = empty_member.repeat(LINE_BYTES_MAX / empty_member.len());
    empty_members.extend(compress_line(&archived_message(4)));
    put_object(&clock, &store, &key(0), b"CANARY".to_vec());
    put_object(&clock, &store, &key(1), compress_line(&archived_message(2))[..40].to_vec());
    put_object(&clock, &store, &key(2), foreign_json);
    put_object(&clock, &store, &key(3), two_members);
    put_object(&clock, &store, &key(4), empty_members);
    let other = format!("{}date=2026-11-27/README.txt", layout.days_folder());
    put_object(&clock, &store, &other, b"CANARY".to_vec());
    let archive = archive(&store, &clock);
    let found = clock.block_on(archive.find_deaths(Period::default())).unwrap();
    assert_eq!(found.unrelated_keys, [other]);
    let mut output = Vec::new();
    let skipped = clock.block_on(archive.export_lines(found.deaths, &mut output, &|_| {})).unwrap();
    assert_eq!(parse_lines(&output), [archived_message(1)]);
    let not_gzip = "it is not gzip, or is truncated";
    let expected = [
        (key(0), not_gzip),
        (key(1), not_gzip),
        (key(2), "it is JSON, but not a dead letter"),
        (key(3), "it has more than one line"),
        (key(4), "it has more than 4194304 bytes, the limit for a dead letter"),
    ];
    assert_eq!(skipped, expected.map(|(key, why)| SkippedObject { key, why: why.to_owned() }));
}

/// A bucket with one object in Glacier, and another that was deleted after the listing.
#[derive(Clone, Default)]
struct PartlyFrozenBucket(MemoryBucket);

impl ObjectStore for PartlyFrozenBucket {
    async fn create_object(&self, key: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        self.0.create_object(key, content).await
    }
}

impl ReadableStore for PartlyFrozenBucket {
    async fn read_object(&self, key: &str) -> Result<Option<Vec<u8>>, EntryError> {
        match key {
            _ if key.contains("id-1") => Err(EntryError::new(Fault::Sender, "InvalidObjectState")),
            _ if key.contains("id-2") => Ok(None),
            _ => self.0.read_object(key).await,
        }
    }

    async fn list_keys(&self, listing: Listing<'_>) -> Result<ListingPage, EntryError> {
        self.0.list_keys(listing).await
    }
}

/// A single object under a lifecycle rule must not prevent all others from being read.
#[test]
fn archived_or_deleted_objects_are_skipped_and_the_rest_is_read() {
    let (clock, store) = (clock(), PartlyFrozenBucket::default());
    for number in 1..=3 {
        record_death(&clock, &store.0, DLQ, &format!("2026-11-27T00:00:0{number}Z"), number);
    }
    let prefix = Prefix::new("kept").unwrap();
    let archive = ArchiveBucket { store, clock: clock.clone(), prefix, deployment: None };
    let found = clock.block_on(archive.find_deaths(Period::default())).unwrap();
    let keys: Vec<_> = found.deaths.iter().map(ArchivedDeath::object_key).collect();
    let mut output = Vec::new();
    let skipped = clock.block_on(archive.export_lines(found.deaths, &mut output, &|_| {})).unwrap();
    assert_eq!(parse_lines(&output), [archived_message(3)]);
    let frozen = "it is in a storage class that cannot be read; restore it first";
    let expected = [(&keys[0], frozen), (&keys[1], "it was deleted after it was listed")];
    assert_eq!(skipped, expected.map(|(key, why)| SkippedObject { key: key.clone(), why: why.to_owned() }));
}

#[test]
fn a_denied_archive_request_names_the_missing_permission() {
    let clock = clock();
    let error = |is_refused: fn(&BucketRequest) -> bool| {
        let store =
            MemoryBucket::with_faults(move |request| is_refused(request).then_some(Injection::Sender));
        let store = {
            record_death(&clock, &store, DLQ, "2026-11-27T00:00:00Z", 1);
            store
        };
        let archive = archive(&store, &clock);
        clock.block_on(async {
            let found = archive.find_deaths(Period::default()).await.map_err(|error| error.to_string())?;
            archive
                .export_lines(found.deaths, &mut Vec::new(), &|_| {})
                .await
                .map_err(|error| error.to_string())
        })
    };
    assert_eq!(
        error(|request| matches!(request, BucketRequest::List(_))),
        Err("kept/dead-letters/: refused (InvalidParameterValue)".to_owned())
    );
    let refused = error(|request| matches!(request, BucketRequest::Read(_))).unwrap_err();
    assert!(refused.ends_with("-id-1.jsonl.gz: refused (InvalidParameterValue)"), "{refused}");
    let denied_text = |permission| {
        let error = EntryError::new(redeliver_core::ports::Fault::Sender, "AccessDenied");
        ArchiveError { key: "k".to_owned(), error, permission }.to_string()
    };
    assert_eq!(denied_text("s3:ListBucket"), "k: refused (AccessDenied): you need s3:ListBucket there");
    assert_eq!(
        denied_text("s3:GetObject"),
        "k: refused (AccessDenied): you need s3:GetObject there, and kms:Decrypt on the bucket's own key if it has one"
    );
    assert_eq!(
        denied_text("s3:PutObject"),
        "k: refused (AccessDenied): you need s3:PutObject there, and kms:GenerateDataKey on the bucket's own key if it has \
         one; if the bucket belongs to another account, name that account with --bucket-owner"
    );

    let mut requests = 0;
    let store = MemoryBucket::with_faults(move |_| {
        requests += 1;
        (requests > 1 && requests % 2 == 0).then_some(Injection::LostResponse)
    });
    record_death(&clock, &store, DLQ, "2026-11-27T00:00:00Z", 1);
    let archive = archive(&store, &clock);
    let found = clock.block_on(archive.find_deaths(Period::default())).unwrap();
    let mut output = Vec::new();
    let skipped = clock.block_on(archive.export_lines(found.deaths, &mut output, &|_| {})).unwrap();
    assert_eq!((parse_lines(&output).len(), skipped.len()), (1, 0));
    assert!(clock.now() - at("2026-11-28T00:00:00Z") < TimeDelta::from_std(Duration::from_secs(60)).unwrap());
}

#[test]
fn a_purge_keeps_the_annotators_object_and_writes_no_duplicates() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let ours = DeadLetterRecord::new(retried_record("NON_RETRYABLE_ERROR", "x", 1));
    let key = layout(DLQ).object_key(&ours.death());
    put_object(&clock, &store, &key, compress_line(&archived_message(1)));
    let foreign = DeadLetterRecord::new(foreign_message("text", 2));
    let new = DeadLetterRecord::new(retried_record("NON_RETRYABLE_ERROR", "x", 3));
    let mut backup = BucketBackup::new(archive(&store, &clock), DLQ.to_owned());
    let records = [ours, foreign.clone(), new];
    for _again in 0..2 {
        clock.block_on(backup.store_records(&records)).unwrap();
    }
    let keys: Vec<_> = store.objects().into_keys().collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    let foreign_death =
        Death::new(foreign.message.sent_at, &foreign.fingerprint, &foreign.message.sqs_message_id);
    assert!(keys.contains(&key) && keys.contains(&layout(DLQ).object_key(&foreign_death)));
}

/// If the purge continued, it would delete the only copy.
#[test]
fn a_purge_fails_if_the_existing_object_is_not_a_dead_letter() {
    let clock = clock();
    let record = DeadLetterRecord::new(foreign_message("text", 1));
    let key = layout(DLQ).object_key(&record.death());
    let cut_off = compress_line(&ArchivedMessage::new(&record.message))[..40].to_vec();
    for content in [b"CANARY".to_vec(), Vec::new(), cut_off] {
        let store = MemoryBucket::default();
        put_object(&clock, &store, &key, content.clone());
        let mut backup = BucketBackup::new(archive(&store, &clock), DLQ.to_owned());
        let refused = clock.block_on(backup.store_records(std::slice::from_ref(&record))).unwrap_err();
        let why = format!("{key} exists and is not a dead letter: name a file with --backup");
        assert_eq!(refused.to_string(), why, "{content:?}");
        assert_eq!(store.objects()[&key], content, "it is unchanged");
    }
}

#[test]
fn a_purge_fails_if_its_object_is_refused_or_omits_values() {
    let clock = clock();
    let message = foreign_message("text", 1);
    let record = DeadLetterRecord::new(message.clone());
    let keep_record = |store: &MemoryBucket| {
        let mut backup = BucketBackup::new(archive(store, &clock), DLQ.to_owned());
        clock.block_on(backup.store_records(std::slice::from_ref(&record))).map_err(|error| error.to_string())
    };
    let store = MemoryBucket::with_faults(|_| Some(Injection::Sender));
    assert!(keep_record(&store).unwrap_err().ends_with(".jsonl.gz: refused (InvalidParameterValue)"));
    let store = MemoryBucket::default();
    let death = Death::new(message.sent_at, &record.fingerprint, &message.sqs_message_id);
    let omitted =
        ArchivedMessage { omitted: vec!["/data/email".to_owned()], ..ArchivedMessage::new(&message) };
    put_object(&clock, &store, &layout(DLQ).object_key(&death), compress_line(&omitted));
    assert!(
        keep_record(&store)
            .unwrap_err()
            .ends_with("could not be sent again from there: name a file with --backup")
    );
}

/// An operator paged at night needs advice, not just "refused (NoCredentials)".
#[test]
fn a_missing_credentials_error_says_how_to_fix_it() {
    let error_text = |fault, code: &str| {
        let error = EntryError::new(fault, code);
        ArchiveError { key: "k".to_owned(), error, permission: "s3:ListBucket" }.to_string()
    };
    assert_eq!(
        error_text(Fault::Sender, "NoCredentials"),
        "k: no AWS credentials found, or they cannot be loaded: set AWS_PROFILE or --profile, or set AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY; for single sign-on run `aws sso login --profile NAME` first"
    );
    assert_eq!(
        error_text(Fault::NotSent, "Connect"),
        "k: no connection to S3: check the network, the region and --endpoint-url"
    );
}
