//! The conformance suite on the embedded SQS, in virtual time.

use redeliver_core::message::Timestamp;
use redeliver_embedded::{EmbeddedSqs, VirtualClock};
use redeliver_tests::conformance::{Bench, RULES, run_all};

#[test]
fn the_embedded_sqs_keeps_every_rule() {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 1);
    let bench = Bench::new(&sqs, &clock, "conformance");
    let report = clock.block_on(run_all(&bench, |_| false));
    assert!(report.is_good(), "\n{report}");
    assert_eq!(report.outcomes.len(), RULES.len());
    assert_eq!(sqs.next_due(), None, "all queues are deleted");
}
