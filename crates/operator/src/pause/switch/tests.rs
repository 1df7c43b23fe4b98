use std::sync::Mutex;

use redeliver_core::message::Timestamp;
use redeliver_testing::loopback::Loopback;
use serde_json::{Value, json};

use super::*;
use crate::tests::sdk_config;

/// A clock that advances only while sleeping.
struct SleepClock(Mutex<Timestamp>);

impl Clock for SleepClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        *self.0.lock().unwrap() += duration;
    }
}

fn mapping(state: &str) -> LambdaMapping {
    LambdaMapping {
        uuid: "one".to_owned(),
        function: "orders-processor".to_owned(),
        source: String::new(),
        reports_failures: true,
        state: state.to_owned(),
        batch_size: Some(10),
        maximum_concurrency: None,
        last_modified: None,
    }
}

fn state(state: &str) -> (u16, Value) {
    (200, json!({ "UUID": "one", "State": state }))
}

fn error_response(status: u16, code: &str) -> (u16, Value) {
    (status, json!({ "__type": code, "Message": "no" }))
}

/// Returns the outcome, the request methods, and the time taken.
async fn run_switch(
    from: &str,
    wanted: MappingState,
    answers: impl IntoIterator<Item = (u16, Value)>,
) -> (Result<(), String>, String, i64) {
    let server = Loopback::start_scripted(answers);
    let clock = SleepClock(Mutex::new(Timestamp::UNIX_EPOCH));
    let outcome =
        switch_mapping(&EventSources::new(&sdk_config(server.url())), &clock, &mapping(from), wanted).await;
    let methods = server.requests().iter().map(|(line, _)| &line[..1]).collect();
    (outcome, methods, clock.now().timestamp())
}

#[tokio::test]
async fn a_mapping_in_the_requested_state_is_not_changed() {
    assert_eq!(run_switch("Disabled", MappingState::Disabled, []).await, (Ok(()), String::new(), 0));
}

#[tokio::test]
async fn a_switch_is_requested_once_and_awaited() {
    let answers = [state("Disabling"), state("Disabling"), state("Disabled")];
    let expected = (Ok(()), "PGG".to_owned(), 4);
    assert_eq!(run_switch("Enabled", MappingState::Disabled, answers).await, expected);
    let answers = [state("Enabling"), state("Enabled")];
    let expected = (Ok(()), "PG".to_owned(), 2);
    assert_eq!(run_switch("Disabled", MappingState::Enabled, answers).await, expected);
}

#[tokio::test]
async fn a_mapping_in_transition_is_switched_after_the_transition() {
    let answers = [
        state("Enabled"),
        error_response(400, "ResourceInUseException"),
        state("Enabled"),
        state("Disabled"),
    ];
    let expected = (Ok(()), "GPGP".to_owned(), 4);
    assert_eq!(run_switch("Updating", MappingState::Disabled, answers).await, expected);
}

#[tokio::test]
async fn a_switch_without_effect_fails_after_three_minutes() {
    let answers = (0..200).map(|_| state("Disabling"));
    let (outcome, _, seconds) = run_switch("Enabled", MappingState::Disabled, answers).await;
    assert_eq!(outcome, Err("is Disabling, not Disabled, after 180 s".to_owned()));
    assert_eq!(seconds, 180);
}

#[tokio::test]
async fn a_rejected_switch_returns_the_lambda_error() {
    let answers = [error_response(403, "AccessDeniedException")];
    let (outcome, methods, _) = run_switch("Enabled", MappingState::Disabled, answers).await;
    let word = "lambda:UpdateEventSourceMapping: AccessDeniedException: no";
    assert_eq!((outcome, methods.as_str()), (Err(word.to_owned()), "P"));
}
