//! The conformance suite on the embedded SQS, in virtual time, and on ministack, in real time.

use redeliver_aws::SystemClock;
use redeliver_aws::sqs::SqsService;
use redeliver_core::message::Timestamp;
use redeliver_embedded::{EmbeddedSqs, VirtualClock};
use redeliver_tests::conformance::{Bench, RULES, run_all};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::{skips, sqs};

const ON_MINISTACK: &str = "conformance on ministack: ";

#[test]
fn the_embedded_sqs_keeps_every_rule() {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let service = EmbeddedSqs::new(clock.clone(), 1);
    let bench = Bench::new(&service, &clock, "conformance");
    let report = clock.block_on(run_all(&bench, |_| false));
    assert!(report.is_good(), "\n{report}");
    assert_eq!(report.outcomes.len(), RULES.len());
    assert_eq!(service.next_due(), None, "all queues are deleted");
}

#[tokio::test]
#[ignore = "needs Python: cargo xtask test"]
async fn ministack_keeps_every_rule_but_those_it_is_known_to_break() {
    let service = SqsService::new(sqs::client(&Ministack::shared().endpoint_url()));
    let bench = Bench::new(&service, &SystemClock, "conformance");
    let known = skips::names();
    let report = run_all(&bench, |rule| known.contains(&format!("{ON_MINISTACK}{rule}"))).await;
    assert!(report.is_good(), "\n{report}");
    for rule in report.known_departures() {
        skips::skip(&format!("{ON_MINISTACK}{rule}"));
    }
}

#[test]
fn every_known_departure_names_a_rule() {
    for name in skips::names() {
        let rule = name.split_once(": ").filter(|(place, _)| place.starts_with("conformance on "));
        assert!(rule.is_none_or(|(_, rule)| RULES.contains(&rule)), "{name}");
    }
}
