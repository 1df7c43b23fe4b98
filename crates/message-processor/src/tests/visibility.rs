//! The strategy `visibility`: a failed message stays on its queue.

mod jittered;

use redeliver_core::failure::FAILURE;
use redeliver_core::limits::RetryDelay;
use redeliver_core::message::Attribute;
use redeliver_core::ports::{Queue as _, ReceiveOptions};
use redeliver_embedded::{FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction};
use serde_json::json;

use super::*;

const POLICY: &str =
    r#"{"max_attempts":2,"backoff":{"kind":"schedule","delays_seconds":[40,600],"jitter":"none"}}"#;

fn setup() -> Setup {
    Setup { strategy: Strategy::Visibility, ..Setup::with_policy(POLICY) }
}

impl Setup {
    /// Sends the n-th message to the source queue.
    fn send_nth_message(&self, n: usize, attributes: Attributes) {
        let content = Content { body: nth_body(n), attributes, ..Content::default() };
        let outgoing = redeliver_core::message::OutgoingMessage::new(content).unwrap();
        let sent = async {
            for batch in redeliver_core::message::packing::pack_batches(&[outgoing]) {
                for outcome in self.source.queue.send_batch(batch).await {
                    outcome.unwrap();
                }
            }
        };
        self.world.clock.block_on(sent);
    }

    fn receive(&self) -> Vec<ReceivedMessage> {
        let visibility = VisibilitySeconds::new(180);
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility };
        self.world.clock.block_on(self.source.queue.receive(request)).unwrap()
    }

    /// Returns the seconds until the message is visible again, and the record received then.
    fn wait_until_visible(&self) -> (u64, ReceivedMessage) {
        for seconds in 0.. {
            if let Some(record) = self.receive().pop() {
                return (seconds, record);
            }
            self.sleep(1);
        }
        unreachable!()
    }
}

#[test]
fn a_message_is_hidden_for_its_delays_and_then_given_up() {
    let setup = setup().failing(1, busy_error());
    setup.send_nth_message(1, producer_attributes());
    let first = setup.receive();
    assert_eq!(
        setup.process(first.clone(), 30),
        [first[0].sqs_message_id.clone()],
        "the record is reported as failed"
    );
    let (seconds, second) = setup.wait_until_visible();
    assert_eq!((seconds, second.receive_count), (40, 2));
    assert_eq!(setup.process(vec![second.clone()], 30), [second.sqs_message_id]);
    let (seconds, third) = setup.wait_until_visible();
    assert_eq!((seconds, third.receive_count), (600, 3));
    assert!(
        setup.process(vec![third.clone()], 30).is_empty(),
        "the verdict is confirmed, so the record is done"
    );

    let attempts: Vec<_> = setup.handler.calls().iter().map(|call| call.retry_attempt).collect();
    assert_eq!(attempts, [0, 1, 2]);
    assert!(setup.intermediate.sent_contents().is_empty());
    let verdict = setup.annotation.only_sent_content();
    assert_eq!(verdict.body, nth_body(1), "not a single byte is changed");
    assert_eq!(
        attribute_document(&verdict.attributes, FAILURE),
        json!({
            "type": "Db.Busy",
            "details": "come later",
            "kind": "transient",
            "failed_at": format_time_at(640),
            "source_message_id": third.sqs_message_id,
            "source_queue_arn": setup.source.queue.arn(),
            "first_sent_time": format_time_at(0),
            "from_producer": true,
            "verdict": "RETRY_ATTEMPT_EXCEEDED",
            "stage": "message-processor",
            "explanation": "Max retry attempts 2 exceeded",
            "attempts": 2,
        })
    );
    let mut attributes = verdict.attributes;
    attributes.remove(FAILURE);
    assert_eq!(attributes, producer_attributes());
}

#[test]
fn a_hidden_message_is_reported_with_its_error_and_delay() {
    let setup = setup().failing(1, busy_error());
    setup.send_nth_message(1, Attributes::new());
    setup.process(setup.receive(), 30);
    let scheduled = Event::RetryScheduled {
        message_id: nth_id(1),
        retry_attempt: 1,
        spends_attempt: true,
        delay_seconds: RetryDelay::new(40).unwrap(),
        age_seconds: 0.0,
        error_type: Some("Db.Busy".to_owned()),
        request_id: None,
    };
    assert_eq!(setup.world.seen.events(), [scheduled]);
}

#[test]
fn success_and_failure_in_one_batch_are_independent() {
    let setup = setup().failing(2, busy_error()).failing(3, HandlerError::permanent("Gone", "for good"));
    for n in 1..=3 {
        setup.send_nth_message(n, Attributes::new());
    }
    let records = setup.receive();
    let failing: Vec<_> = records
        .iter()
        .filter(|record| record.body == nth_body(2))
        .map(|record| record.sqs_message_id.clone())
        .collect();
    assert_eq!(setup.process(records, 30), failing);
    let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!((&verdict["verdict"], &verdict["attempts"]), (&json!("NON_RETRYABLE_ERROR"), &json!(0)));
}

#[test]
fn after_a_failed_visibility_change_the_queues_own_timeout_applies() {
    let rule = |when, injection| FaultRule {
        action: SqsAction::ChangeMessageVisibilityBatch,
        queue: None,
        scope: FaultScope::Request,
        when,
        injection,
    };
    let fails = |when| {
        let setup = setup().failing(1, busy_error());
        setup.send_nth_message(1, Attributes::new());
        let records = setup.receive();
        let plan = FaultPlan::new(1).with_rule(rule(when, Injection::Throttled));
        setup.world.sqs.set_faults(plan);
        assert_eq!(setup.process(records, 30).len(), 1);
        setup
    };
    let once = fails(FaultTrigger::Numbers(vec![1, 2]));
    let scheduled = |setup: &Setup| {
        setup.world.seen.events().iter().any(|event| matches!(event, Event::RetryScheduled { .. }))
    };
    assert!(scheduled(&once));
    let always = fails(FaultTrigger::Chance(1.0));
    assert!(!scheduled(&always));
    let not_confirmed = always
        .world
        .seen
        .events()
        .into_iter()
        .any(|event| matches!(event, Event::NotConfirmed { send: "visibility", .. }));
    assert!(not_confirmed);
    always.world.sqs.set_faults(FaultPlan::new(1));
    let (_, again) = always.wait_until_visible();
    assert_eq!(always.world.elapsed_seconds(), 180, "the visibility timeout of the receive");
    assert_eq!(again.receive_count, 2);
}

#[test]
fn a_verdict_that_is_not_confirmed_leaves_the_message_on_its_queue() {
    let setup = setup().failing(1, HandlerError::permanent("Gone", ""));
    setup.send_nth_message(1, Attributes::new());
    let records = setup.receive();
    let id = records[0].sqs_message_id.clone();
    setup.world.fail_sends(
        &setup.annotation,
        FaultScope::Request,
        FaultTrigger::Chance(1.0),
        Injection::Throttled,
    );
    assert_eq!(setup.process(records, 30), [id]);
}

#[test]
fn a_verdict_folds_one_of_ten_attributes() {
    let setup = setup().failing(1, HandlerError::permanent("Gone", ""));
    setup.send_nth_message(1, ten_attributes());
    assert!(setup.process(setup.receive(), 30).is_empty());
    let verdict = setup.annotation.only_sent_content();
    assert_eq!(verdict.attributes.len(), 10);
    let failure = attribute_document(&verdict.attributes, FAILURE);
    assert_eq!(failure["folded_attributes"].as_object().unwrap().len(), 1);
    let producer = split_producer_attributes(verdict.attributes).attributes;
    assert_eq!(producer, ten_attributes(), "no attribute is lost");
    assert!(producer.values().all(|attribute| *attribute != Attribute::string("")));
}

#[test]
fn a_message_whose_last_call_had_no_outcome_is_given_up() {
    let setup = setup();
    setup.send_nth_message(1, Attributes::new());
    let mut record = setup.receive().remove(0);
    record.receive_count = 4; // two retries are three receives
    assert!(setup.process(vec![record], 30).is_empty());
    assert!(setup.handler.calls().is_empty());
    let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!(
        (&verdict["verdict"], &verdict["type"], &verdict["attempts"]),
        (&json!("RETRY_ATTEMPT_EXCEEDED"), &json!("Redrive"), &json!(3))
    );
}

#[test]
fn a_redriven_message_without_an_outcome_counts_as_a_new_generation() {
    let setup = setup();
    let record = json!({
        "stage": "message-processor",
        "cause": { "type": "Redrive", "message": "m" },
        "redrive_generation": 2,
        "dead_lettered_at": format_time_at(-7000),
        "sqs_message_id": "sqs-0",
        "fingerprint": "0123456789abcdef",
    });
    setup.send_nth_message(
        1,
        Attributes::from([("DeadLetter".to_owned(), Attribute::string(record.to_string()))]),
    );
    let mut record = setup.receive().remove(0);
    record.receive_count = 4; // two retries are three receives
    assert!(setup.process(vec![record], 30).is_empty());
    let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!((&verdict["new_generation"], &verdict["generation_before"]), (&json!(true), &json!(2)));
}

#[test]
fn a_probe_during_an_outage_keeps_its_own_error_and_the_others_are_held() {
    let down = HandlerError::transient(ErrorType::HttpStatus(503), "");
    let new = Setup { strategy: Strategy::Visibility, ..Setup::with_policy(r#"{"circuit_breaker":{}}"#) };
    let setup = (0..13).fold(new, |setup, n| setup.failing(n, down.clone()));
    (0..13).for_each(|n| setup.send_nth_message(n, Attributes::new()));
    setup.process(setup.receive(), 30);
    setup.sleep(15);
    setup.process(setup.receive(), 30);
    let error_types = setup.world.seen.events().into_iter().filter_map(|event| match event {
        Event::RetryScheduled { error_type, .. } => error_type,
        _ => None,
    });
    let error_types: Vec<_> = error_types.collect();
    assert_eq!(error_types[..10], ["HttpStatus.503"; 10]);
    assert_eq!(error_types[10..], ["HttpStatus.503", "CircuitOpen", "CircuitOpen"]);
}
