use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::decide::QueueTimes;
use crate::limits::VisibilitySeconds;
use crate::policy::PolicyError;

/// `NAME → NAME of the next queue after this many receives`, from the source on.
fn way(definition: &StrategyDefinition, max_attempts: u32) -> String {
    let queues = definition.queues(max_attempts);
    let name = |role| queues.iter().find(|queue| queue.role == role).expect("it is needed").name;
    let steps = queues.iter().rev().map(|queue| match queue.redrive {
        Some(RedriveEdge { to, receives }) => format!("{} -{receives}-> {}", queue.name, name(to)),
        None => queue.name.to_owned(),
    });
    steps.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_moved_message_has_receives_left_in_the_next_queue() {
    let way_of = |strategy: Strategy| way(strategy.definition(), 5);
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        assert_eq!(
            way_of(strategy),
            "source -1-> intermediate-dlq, intermediate-dlq -100-> annotation, annotation -110-> final-dlq, final-dlq"
        );
    }
    assert_eq!(
        way_of(Strategy::Visibility),
        "source -15-> annotation, annotation -25-> final-dlq, final-dlq"
    );
    assert_eq!(
        way_of(Strategy::Ordered),
        "source.fifo -1000-> source-dlq.fifo, source-dlq.fifo, annotation -110-> final-dlq, final-dlq"
    );
    assert_eq!(way(&ASYNC_RETRY, 5), "retry -100-> annotation, annotation -110-> final-dlq, final-dlq");
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    strategy: String,
    policy: Value,
    refused: Vec<String>,
}

#[test]
fn each_strategy_accepts_and_refuses_the_policies_of_the_vectors() {
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
fn a_refused_policy_member_is_explained_with_its_fix() {
    let refused =
        |definition: &StrategyDefinition, text| definition.parse_policy(text).unwrap_err().to_string();
    let redriven =
        "has /max_redrives, which only the strategies delayed-resend and direct-resend support: remove it";
    assert_eq!(
        refused(&visibility::DEFINITION, r#"{"max_attempts":981,"max_redrives":5}"#),
        format!(
            "has /max_attempts, which is 981: use at most 980 with the strategy visibility, since each retry is a \
             receive, the source queue and the annotation queue need ten spare ones each, and the SQS limit is \
             1000; {redriven}"
        )
    );
    assert_eq!(
        refused(&ASYNC_RETRY, r#"{"immediate":{"max_attempts":1,"delay_ms":5},"max_redrives":5}"#),
        format!(
            "has /immediate, but an asynchronous invocation has no outcome yet when it is made: remove \
             it; {redriven}"
        )
    );
}

#[test]
fn no_queue_counts_further_than_sqs_does() {
    for max_attempts in [980, 981, 1000, 100_000, u32::MAX] {
        assert_eq!(
            way(&visibility::DEFINITION, max_attempts),
            "source -990-> annotation, annotation -1000-> final-dlq, final-dlq",
            "{max_attempts}"
        );
    }
}

#[test]
fn the_source_queue_keeps_a_week_and_the_others_two() {
    for retry_loop in RetryLoop::all() {
        for NeededQueue { role, name, retention, .. } in retry_loop.definition().queues(5) {
            let days = if role == Role::Source && name == "source" { 7 } else { 14 };
            assert_eq!(retention, Duration::from_secs(days * 24 * 3600), "{retry_loop} {name}");
        }
    }
}

/// Provides everything that a strategy may need.
struct Everything;

impl Wiring for Everything {
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
            OnFailure::from_wiring(strategy, Everything).map(|wired| wired.strategy()),
            Some(strategy)
        );
    }
}

#[test]
fn other_queues_take_the_places_of_those_that_were_wired() {
    let wired =
        |strategy| OnFailure::from_wiring(strategy, Everything).unwrap().map_queues(Role::setting_name);
    for strategy in [Strategy::DelayedResend, Strategy::DirectResend] {
        let (OnFailure::DelayedResend(DelayedResend(redelivery)) | OnFailure::DirectResend(redelivery)) =
            wired(strategy)
        else {
            panic!()
        };
        let both = (redelivery.source_queue, redelivery.intermediate_dlq);
        assert_eq!(both, ("SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL"));
    }
    let OnFailure::Visibility(Visibility { source_queue, .. }) = wired(Strategy::Visibility) else {
        panic!()
    };
    assert_eq!(source_queue, "SOURCE_QUEUE_URL");
}

#[test]
fn a_strategy_is_found_by_its_exact_name_only() {
    for retry_loop in RetryLoop::all() {
        assert_eq!(RetryLoop::from_name(retry_loop.definition().name), Some(retry_loop));
        assert_eq!(Strategy::from_name(retry_loop.definition().name), retry_loop.strategy());
    }
    assert_eq!(RetryLoop::from_name("Visibility"), None);
    assert_eq!(RetryLoop::default().to_string(), "delayed-resend");
}
