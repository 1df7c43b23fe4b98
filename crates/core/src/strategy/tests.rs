use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::decide::QueueTimes;
use crate::limits::VisibilitySeconds;
use crate::policy::PolicyError;

/// Lists the queues from the source onwards, each as `NAME -RECEIVES-> NEXT`.
fn queue_path(definition: &StrategyDefinition, max_attempts: u32) -> String {
    let queues = definition.queues(max_attempts);
    let name =
        |role| queues.iter().find(|queue| queue.role == role).expect("the strategy needs the queue").name;
    let steps = queues.iter().rev().map(|queue| match queue.redrive {
        Some(RedriveEdge { to, receives }) => format!("{} -{receives}-> {}", queue.name, name(to)),
        None => queue.name.to_owned(),
    });
    steps.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_moved_message_has_receives_left_in_the_next_queue() {
    let strategy_path = |strategy: Strategy| queue_path(strategy.definition(), 5);
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        assert_eq!(
            strategy_path(strategy),
            "source -1-> intermediate-dlq, intermediate-dlq -100-> annotation, annotation -110-> final-dlq, final-dlq"
        );
    }
    assert_eq!(
        strategy_path(Strategy::Visibility),
        "source -15-> annotation, annotation -25-> final-dlq, final-dlq"
    );
    assert_eq!(
        strategy_path(Strategy::Ordered),
        "source.fifo -1000-> source-dlq.fifo, source-dlq.fifo, annotation -110-> final-dlq, final-dlq"
    );
    assert_eq!(
        queue_path(&ASYNC_RETRY, 5),
        "retry -100-> annotation, annotation -110-> final-dlq, final-dlq"
    );
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    strategy: String,
    policy: Value,
    refused: Vec<String>,
}

#[test]
fn each_strategy_accepts_or_refuses_policies_as_listed() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../../schemas/vectors/strategies.json")).unwrap();
    for Vector { name, strategy, policy, refused } in vectors {
        let found =
            match RetryLoop::from_name(&strategy).unwrap().definition().parse_policy(&policy.to_string()) {
                Ok(_) => Vec::new(),
                Err(PolicyError::NotForStrategy(members)) => {
                    members.into_iter().map(|Violation { pointer, .. }| pointer).collect()
                }
                Err(wrong) => panic!("{name}: {wrong}"),
            };
        assert_eq!(found, refused, "{name}");
    }
}

#[test]
fn a_refused_policy_member_is_reported_with_a_fix() {
    let refusal_text =
        |definition: &StrategyDefinition, text| definition.parse_policy(text).unwrap_err().to_string();
    let redriven =
        "has /max_redrives, which only the strategies delayed-resend and direct-resend support: remove it";
    assert_eq!(
        refusal_text(&visibility::DEFINITION, r#"{"max_attempts":981,"max_redrives":5}"#),
        format!(
            "has /max_attempts, which is 981: use at most 980 with the strategy visibility, since each retry is a \
             receive, the source queue and the annotation queue need ten spare ones each, and the SQS limit is \
             1000; {redriven}"
        )
    );
    assert_eq!(
        refusal_text(&ASYNC_RETRY, r#"{"immediate":{"max_attempts":1,"delay_ms":5},"max_redrives":5}"#),
        format!(
            "has /immediate, but an asynchronous invocation has no outcome yet when it is made: remove \
             it; {redriven}"
        )
    );
}

#[test]
fn no_queue_exceeds_the_sqs_receive_limit() {
    for max_attempts in [980, 981, 1000, 100_000, u32::MAX] {
        assert_eq!(
            queue_path(&visibility::DEFINITION, max_attempts),
            "source -990-> annotation, annotation -1000-> final-dlq, final-dlq",
            "{max_attempts}"
        );
    }
}

#[test]
fn the_source_queue_retains_messages_for_a_week_and_the_others_for_two() {
    for retry_loop in RetryLoop::all() {
        for NeededQueue { role, name, retention, .. } in retry_loop.definition().queues(5) {
            let days = if role == Role::Source && name == "source" { 7 } else { 14 };
            assert_eq!(retention, Duration::from_secs(days * 24 * 3600), "{retry_loop} {name}");
        }
    }
}

/// Provides every queue and setting that a strategy may need.
struct CompleteWiring;

impl Wiring for CompleteWiring {
    type Queue = Role;

    fn queue(&mut self, role: Role) -> Option<Role> {
        Some(role)
    }

    fn queue_times(&mut self) -> Option<QueueTimes> {
        Some(QueueTimes { visibility_timeout: VisibilitySeconds::MAX, retention: SOURCE_RETENTION })
    }

    fn batch_size(&mut self) -> Option<u16> {
        Some(1)
    }
}

#[test]
fn each_strategy_is_wired_to_its_queues() {
    for &strategy in Strategy::ALL {
        assert_eq!(
            OnFailure::from_wiring(strategy, CompleteWiring).map(|wire_queues| wire_queues.strategy()),
            Some(strategy)
        );
    }
}

#[test]
fn map_queues_converts_every_queue() {
    let wire_queues =
        |strategy| OnFailure::from_wiring(strategy, CompleteWiring).unwrap().map_queues(Role::setting_name);
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        let (OnFailure::DelayedResend(DelayedResend(redelivery)) | OnFailure::DirectResend(redelivery)) =
            wire_queues(strategy)
        else {
            panic!()
        };
        let both = (redelivery.source_queue, redelivery.intermediate_dlq);
        assert_eq!(both, ("SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL"));
    }
    let OnFailure::Visibility(Visibility { source_queue, .. }) = wire_queues(Strategy::Visibility) else {
        panic!()
    };
    assert_eq!(source_queue, "SOURCE_QUEUE_URL");
}

#[test]
fn a_strategy_is_found_only_by_its_exact_name() {
    for retry_loop in RetryLoop::all() {
        assert_eq!(RetryLoop::from_name(retry_loop.definition().name), Some(retry_loop));
        assert_eq!(Strategy::from_name(retry_loop.definition().name), retry_loop.strategy());
    }
    assert_eq!(RetryLoop::from_name("Visibility"), None);
    assert_eq!(RetryLoop::default().to_string(), "delayed-resend");
}
