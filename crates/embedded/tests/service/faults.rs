//! Injected faults.

use redeliver_core::ports::{
    EntryError, Fault, Queue, QueueDepth as _, QueueService, QueueSettings, ReceiveOptions,
};
use redeliver_embedded::{FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction};

use crate::support::{message, receive, send, service};

fn rule(action: SqsAction, scope: FaultScope, when: FaultTrigger, injection: Injection) -> FaultRule {
    FaultRule { action, queue: None, scope, when, injection }
}

fn error(fault: Fault, code: &str) -> EntryError {
    EntryError::new(fault, code)
}

#[test]
fn a_fault_on_the_second_request_fails_all_its_entries() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        let second = FaultTrigger::Numbers(vec![2]);
        sqs.set_faults(FaultPlan::new(1).with_rule(rule(
            SqsAction::SendMessageBatch,
            FaultScope::Request,
            second,
            Injection::Throttled,
        )));
        let two = [message("a", 0), message("b", 0)];
        assert!(send(&queue, &two).await.iter().all(Result::is_ok));
        let throttled = Err(error(Fault::Throttled, "RequestThrottled"));
        assert_eq!(send(&queue, &two).await, [throttled.clone(), throttled]);
        assert!(send(&queue, &two).await.iter().all(Result::is_ok));
        assert_eq!(queue.depth().await.unwrap().visible, 4);
    });
    assert_eq!(sqs.request_counts()["SendMessageBatch"], 3, "a refused request also counts");
}

#[test]
fn single_entries_fail_while_the_others_succeed() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        let plan = FaultPlan::new(1)
            .with_rule(rule(
                SqsAction::SendMessageBatch,
                FaultScope::Entry,
                FaultTrigger::Numbers(vec![2]),
                Injection::Service,
            ))
            .with_rule(rule(
                SqsAction::SendMessageBatch,
                FaultScope::Entry,
                FaultTrigger::Numbers(vec![3]),
                Injection::Sender,
            ));
        sqs.set_faults(plan);
        let outcomes =
            send(&queue, &[message("a", 0), message("b", 0), message("c", 0), message("d", 0)]).await;
        assert!(outcomes[0].is_ok() && outcomes[3].is_ok());
        assert_eq!(outcomes[1], Err(error(Fault::Service, "InternalError")));
        assert_eq!(outcomes[2], Err(error(Fault::Sender, "InvalidParameterValue")));
        let bodies: Vec<_> = receive(&queue, 0).await.into_iter().map(|message| message.body).collect();
        assert_eq!(bodies, ["a", "d"]);
    });
}

#[test]
fn a_request_takes_effect_if_only_its_response_is_lost() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        for (injection, depth) in [(Injection::LostRequest, 0), (Injection::LostResponse, 1)] {
            sqs.set_faults(FaultPlan::new(1).with_rule(rule(
                SqsAction::SendMessageBatch,
                FaultScope::Request,
                FaultTrigger::Chance(1.0),
                injection,
            )));
            let outcome = send(&queue, &[message("a", 0)]).await;
            assert_eq!(outcome, [Err(error(Fault::NoAnswer, "RequestTimeout"))]);
            assert_eq!(queue.depth().await.unwrap().visible, depth);
        }
        sqs.set_faults(FaultPlan::new(1).with_rule(rule(
            SqsAction::ReceiveMessage,
            FaultScope::Request,
            FaultTrigger::Numbers(vec![1]),
            Injection::LostResponse,
        )));
        let request = ReceiveOptions { max_messages: 10, wait: std::time::Duration::ZERO, visibility: None };
        assert_eq!(queue.receive(request).await, Err(error(Fault::NoAnswer, "RequestTimeout")));
        assert_eq!(
            queue.depth().await.unwrap().in_flight,
            1,
            "not received by the caller, visible again after the visibility timeout"
        );
    });
}

#[test]
fn random_faults_depend_on_the_seed_and_rules_can_be_limited_to_a_queue() {
    let (clock, sqs) = service();
    let run = |seed: u64| {
        clock.block_on(async {
            let target = sqs.create_queue("target", &QueueSettings::default()).await.unwrap();
            let other = sqs.create_queue("other", &QueueSettings::default()).await.unwrap();
            let half = FaultRule {
                queue: Some(target.arn().to_owned()),
                ..rule(
                    SqsAction::SendMessageBatch,
                    FaultScope::Entry,
                    FaultTrigger::Chance(0.5),
                    Injection::Throttled,
                )
            };
            sqs.set_faults(FaultPlan::new(seed).with_rule(half));
            let messages: Vec<_> = (0..200).map(|number| message(&number.to_string(), 0)).collect();
            assert!(send(&other, &messages).await.iter().all(Result::is_ok));
            let failed: Vec<bool> = send(&target, &messages).await.iter().map(Result::is_err).collect();
            sqs.set_faults(FaultPlan::default());
            failed
        })
    };
    let first = run(1);
    let failures = first.iter().filter(|failed| **failed).count();
    assert!((60..140).contains(&failures), "{failures} of 200");
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}
