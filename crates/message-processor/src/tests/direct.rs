//! The strategy `direct-resend`: the message-processor re-sends failed messages itself, as the failed-message-processor
//! would.

use redeliver_core::failure::FAILURE;
use redeliver_core::handler::ErrorType;
use redeliver_core::limits::RetryDelay;
use redeliver_core::redelivery::Redelivery;
use redeliver_embedded::{FaultScope, FaultTrigger, Injection};
use redeliver_failed_message_processor::FailedMessageProcessor;
use serde_json::{Value, json};

use super::*;

const FIXED: &str = r#"{"backoff":{"kind":"fixed","delay_seconds":100,"jitter":"none"}}"#;
const LONG: &str = r#"{"long_delays":true,"max_attempts":3,"backoff":{"kind":"fixed","delay_seconds":2000,"jitter":"none"}}"#;

fn direct_setup(policy: &str) -> Setup {
    Setup { strategy: Strategy::DirectResend, ..Setup::with_policy(policy) }
}

impl Setup {
    /// Lets the failed-message-processor process all hand-offs in one batch.
    pub(super) fn run_failed_message_processor(self) -> Self {
        let records = self.intermediate.receive_all();
        let processor = FailedMessageProcessor {
            redelivery: Redelivery {
                source_queue: self.source.clone(),
                intermediate_dlq: self.intermediate.clone(),
            },
            annotation_queue: self.annotation.clone(),
            clock: self.world.clock.clone(),
            observer: self.world.seen.clone(),
            schema: self.schema.clone(),
            policy: self.policy.clone(),
            resenders: Resenders::parse(RESENDER).unwrap(),
        };
        let deadline = self.world.clock.now() + Duration::from_secs(30);
        let failed = self.world.clock.block_on(processor.batch_item_failures(records, deadline));
        assert_eq!(failed, [""; 0]);
        self
    }
}

fn record_with_metadata(n: usize, members: &str) -> ReceivedMessage {
    nth_record(n, format!(r#"{{"metadata":{{"message_id":"{}",{members}}},"data":{{}}}}"#, nth_id(n)))
}

/// Returns ten records of different kinds.
fn records_of_all_kinds() -> Vec<ReceivedMessage> {
    let attributed = |n, attributes| ReceivedMessage { attributes, ..nth_record(n, nth_body(n)) };
    vec![
        nth_record(0, nth_body(0)),
        attributed(1, producer_attributes()),
        record_with_metadata(
            2,
            r#""retry_attempt":2,"first_sent_time":"2026-07-25T17:00:00Z","redrive_generation":1"#,
        ),
        record_with_metadata(3, r#""retry_attempt":5"#),
        record_with_metadata(4, r#""snooze_count":100"#),
        record_with_metadata(5, r#""expires_at":"2026-07-25T17:20:30Z""#),
        record_with_metadata(6, r#""max_attempts":2,"retry_attempt":1"#),
        produced_record(record_with_metadata(7, r#""held_since":"2026-07-25T17:00:00Z","held_seconds":700"#)),
        ReceivedMessage {
            message_group_id: Some("tenant".to_owned()),
            trace_header: Some("Root=1".to_owned()),
            ..nth_record(8, nth_body(8))
        },
        came_back::redriven_record(&producer_attributes()),
    ]
}

fn sort_contents(mut contents: Vec<Content>) -> Vec<Content> {
    contents.sort_by_key(|content| content.body.clone());
    contents
}

/// The strategy's main rule.
#[test]
fn direct_resend_sends_what_the_failed_message_processor_would() {
    let errors = [
        busy_error(),
        HandlerError::permanent("Db.Gone", "for good"),
        HandlerError::transient("HttpStatus.429", "slowly").retry_after(Duration::from_secs(7)),
        HandlerError::snooze("Db.Later", "not yet", Duration::from_secs(70)),
        HandlerError::unavailable("Db.Down", "not now"),
        HandlerError::transient(ErrorType::FromTarget("Theirs".to_owned()), "come later"),
    ];
    let jittered = r#"{"max_attempts":4,"max_age_seconds":4000,"non_retryable":["Theirs"]}"#;
    for policy in [FIXED, LONG, jittered] {
        for error in &errors {
            let failing = |mut setup: Setup| {
                for n in 0..10 {
                    setup = setup.failing(n, error.clone());
                }
                let failed = setup.process(records_of_all_kinds(), 30);
                assert_eq!(failed, [""; 0]);
                setup
            };
            let delegated = failing(Setup::with_policy(policy)).run_failed_message_processor();
            let direct = failing(direct_setup(policy));
            assert_eq!(
                sort_contents(direct.source.sent_contents()),
                sort_contents(delegated.source.sent_contents()),
                "{policy} {error:?}"
            );
            let hops = |setup: &Setup| {
                let mut hops = setup.intermediate.sent_contents();
                hops.retain(|content| content.delay == DelaySeconds::MAX);
                sort_contents(hops)
            };
            assert_eq!(hops(&direct), hops(&delegated), "{policy} {error:?}");
            assert_eq!(
                hops(&direct).len(),
                direct.intermediate.sent_contents().len(),
                "no message is handed off"
            );
            let verdicts = |setup: &Setup| {
                let verdict = |Content { attributes, body, .. }: Content| {
                    let mut verdict = attribute_document(&attributes, FAILURE);
                    (verdict.as_object_mut().unwrap().remove("stage"), verdict, body)
                };
                sort_contents(setup.annotation.sent_contents()).into_iter().map(verdict).collect::<Vec<_>>()
            };
            let own = verdicts(&direct);
            assert!(own.iter().all(|(stage, ..)| *stage == Some(json!("message-processor"))));
            let without_stage = |verdicts: Vec<(_, Value, String)>| {
                verdicts.into_iter().map(|(_, verdict, body)| (verdict, body)).collect::<Vec<_>>()
            };
            assert_eq!(without_stage(own), without_stage(verdicts(&delegated)), "{policy} {error:?}");
        }
    }
}

#[test]
fn a_failed_message_is_resent_with_its_delay_and_reported() {
    let setup = direct_setup(FIXED).failing(1, busy_error());
    assert_eq!(setup.process(vec![nth_record(1, nth_body(1)), nth_record(2, nth_body(2))], 30), [""; 0]);
    let sent = setup.source.only_sent_content();
    assert_eq!(sent.delay.get(), 100);
    assert_eq!(
        serde_json::from_str::<Value>(&sent.body).unwrap(),
        json!({
            "metadata": {
                "message_id": nth_id(1),
                "retry_attempt": 1,
                "next_retry_time": format_time_at(100),
                "first_sent_time": format_time_at(-10),
                "retry_history": [
                    {"attempt": 0, "failed_at": format_time_at(0), "error_type": "Db.Busy", "error_details": "come later"},
                ],
            },
            "data": {"n": 1},
        })
    );
    assert!(setup.intermediate.sent_contents().is_empty() && setup.annotation.sent_contents().is_empty());
    let processed =
        Event::Processed { message_id: nth_id(2), retry_attempt: 0, age_seconds: 10.0, target_seconds: 0.0 };
    let scheduled = Event::RetryScheduled {
        message_id: nth_id(1),
        retry_attempt: 1,
        spends_attempt: true,
        delay_seconds: RetryDelay::saturating(100),
        age_seconds: 10.0,
        error_type: Some("Db.Busy".to_owned()),
        request_id: None,
    };
    assert_eq!(setup.world.seen.events(), [processed, scheduled]);
}

#[test]
fn a_message_with_ten_attributes_keeps_them_and_its_error() {
    let setup = direct_setup(FIXED).failing(1, busy_error());
    let arrived = ReceivedMessage { attributes: ten_attributes(), ..nth_record(1, nth_body(1)) };
    assert_eq!(setup.process(vec![arrived], 30), [""; 0]);
    let sent = setup.source.only_sent_content();
    assert_eq!(sent.attributes, ten_attributes());
    assert!(sent.body.contains(r#""error_type":"Db.Busy""#), "{}", sent.body);
}

#[test]
fn direct_resend_holds_messages_without_the_intermediate_dlq() {
    let down = HandlerError::unavailable("Db.Down", "not now");
    let setup = (0..10).fold(direct_setup("{}"), |setup, n| setup.failing(n, down.clone()));
    assert_eq!(setup.process(ten_records(), 30), [""; 0]);
    let sent = setup.source.sent_contents();
    assert!(sent.len() == 10 && sent.iter().all(|content| content.body.contains("held_since")), "{sent:?}");
    assert!(setup.intermediate.sent_contents().is_empty());
}

#[test]
fn a_failed_resend_fails_only_its_own_record_and_reports_no_retry() {
    for scope in [FaultScope::Request, FaultScope::Entry] {
        let setup = direct_setup(FIXED).failing(1, busy_error());
        setup.world.fail_sends(&setup.source, scope, FaultTrigger::Chance(1.0), Injection::Sender);
        assert_eq!(
            setup.process(vec![nth_record(1, nth_body(1)), nth_record(2, nth_body(2))], 30),
            ["sqs-1"]
        );
        let events = setup.world.seen.events();
        assert!(matches!(
            &events[..],
            [Event::Processed { .. }, Event::NotConfirmed { send: "re-send", .. }]
        ));
    }
}

#[test]
fn a_failed_hop_fails_only_its_own_record() {
    let setup = direct_setup(LONG).failing(1, busy_error());
    setup.world.fail_sends(
        &setup.intermediate,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Sender,
    );
    assert_eq!(setup.process(vec![nth_record(1, nth_body(1)), nth_record(2, nth_body(2))], 30), ["sqs-1"]);
}

#[test]
fn a_lost_response_causes_at_most_one_copy() {
    let setup = direct_setup(FIXED).failing(1, busy_error());
    setup.world.fail_sends(
        &setup.source,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::LostResponse,
    );
    assert_eq!(
        setup.process(vec![nth_record(1, nth_body(1))], 30),
        ["sqs-1"],
        "SQS moves the message: no message is lost"
    );
    let sent = setup.source.sent_contents();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0], sent[1], "both copies are the same retry");
}
