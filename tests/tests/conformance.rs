//! The conformance suite on the embedded SQS in virtual time, on ministack in real time and, for FIFO queues, on moto;
//! the suite for buckets on the embedded bucket and on moto's S3.

use redeliver_aws::SystemClock;
use redeliver_aws::archive::S3Bucket;
use redeliver_aws::sqs::SqsService;
use redeliver_core::message::Timestamp;
use redeliver_embedded::{EmbeddedSqs, MemoryBucket, VirtualClock};
use redeliver_tests::conformance::{
    ConformanceBench, OBJECT_RULES, RULES, run_all, run_all_object_rules, run_fifo,
};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::moto::MotoAccount;
use redeliver_tests::{skips, sqs};
use serde_json::json;

const ON_MINISTACK: &str = "conformance on ministack: ";
const ON_MOTO: &str = "conformance on moto: ";

#[test]
fn the_embedded_sqs_keeps_every_rule() {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let service = EmbeddedSqs::new(clock.clone(), 1);
    let bench = ConformanceBench::new(&service, &clock, "conformance");
    let report = clock.block_on(run_all(&bench, |_| false));
    assert!(report.has_passed(), "\n{report}");
    assert_eq!(report.outcomes.len(), RULES.len());
    assert_eq!(service.next_due_at(), None, "all queues are deleted");
}

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn ministack_keeps_every_rule_except_known_departures() {
    let service = SqsService::new(sqs::emulator_client(&Ministack::shared().endpoint_url()));
    let bench = ConformanceBench::new(&service, &SystemClock, "conformance");
    let known = skips::known_names();
    let report = run_all(&bench, |rule| known.contains(&format!("{ON_MINISTACK}{rule}"))).await;
    assert!(report.has_passed(), "\n{report}");
    for rule in report.known_departures() {
        skips::record_skip(&format!("{ON_MINISTACK}{rule}"));
    }
}

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn moto_keeps_every_fifo_rule_except_known_departures() {
    let account = MotoAccount::new();
    let key = account.create_user("Conformance", "/").await;
    account
        .set_user_policy("Conformance", &[json!({ "Effect": "Allow", "Action": "sqs:*", "Resource": "*" })])
        .await;
    let service = SqsService::new(account.signed_client(key));
    let bench = ConformanceBench::new(&service, &SystemClock, "conformance");
    let known = skips::known_names();
    let report = run_fifo(&bench, |rule| known.contains(&format!("{ON_MOTO}{rule}"))).await;
    assert!(report.has_passed(), "\n{report}");
    for rule in report.known_departures() {
        skips::record_skip(&format!("{ON_MOTO}{rule}"));
    }
}

#[tokio::test]
async fn the_bucket_in_memory_keeps_every_rule() {
    let report = run_all_object_rules(&MemoryBucket::default(), |_| false).await;
    assert!(report.has_passed(), "\n{report}");
    assert_eq!(report.outcomes.len(), OBJECT_RULES.len());
}

/// moto checks the signatures and allows exactly these permissions.
#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn s3_on_moto_keeps_every_rule() {
    let account = MotoAccount::new();
    account.create_bucket("letters").await;
    let key = account.create_user("Archive", "/").await;
    let allow = |actions: &[&str], on: &str| json!({ "Effect": "Allow", "Action": actions, "Resource": on });
    let objects = allow(&["s3:PutObject", "s3:GetObject"], "arn:aws:s3:::letters/*");
    account.set_user_policy("Archive", &[objects, allow(&["s3:ListBucket"], "arn:aws:s3:::letters")]).await;
    let bucket = S3Bucket::new(&account.sdk_config(key), "letters", account.id.parse().ok());
    let report = run_all_object_rules(&bucket, |_| false).await;
    assert!(report.has_passed(), "\n{report}");
}

#[test]
fn every_known_departure_names_a_rule() {
    for name in skips::known_names() {
        let rule = name.split_once(": ").filter(|(place, _)| place.starts_with("conformance on "));
        assert!(rule.is_none_or(|(_, rule)| RULES.contains(&rule)), "{name}");
    }
}
