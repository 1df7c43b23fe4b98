//! The response head determines the outcome. The body is drained in the background, within limits.

use super::*;

/// Makes a call whose response body does not end. Returns its outcome, the server and the clock.
async fn call_with_unfinished_body(
    answer: ScriptedResponse,
) -> (Result<(), HandlerError>, Loopback, ManualClock) {
    let (server, clock) = (Loopback::start([answer]).await, ManualClock::default());
    let target = target_at(server.url(), &clock);
    let message = message("{}");
    let outcome = complete_soon(target.handle(&message)).await;
    (outcome, server, clock)
}

/// The outcome is known once the head arrives, without waiting for a timer or the body.
#[tokio::test]
async fn an_http_outcome_is_known_from_the_response_head() {
    for (answer, expected) in [
        (ScriptedResponse::dripping(200), Ok(())),
        (ScriptedResponse::unfinished(201, 10), Ok(())),
        (ScriptedResponse::cut_off(200), Ok(())),
        (ScriptedResponse::dripping(400), Err((ErrorType::HttpStatus(400), FailureKind::Permanent))),
        (ScriptedResponse::dripping(503), Err((ErrorType::HttpStatus(503), FailureKind::Transient))),
    ] {
        let (outcome, _server, _clock) = call_with_unfinished_body(answer).await;
        assert_eq!(outcome.map_err(|error| (error.error_type, error.kind)), expected);
    }
}

#[tokio::test]
async fn a_dripping_or_hanging_body_is_abandoned_after_a_second() {
    for answer in [ScriptedResponse::dripping(200), ScriptedResponse::unfinished(200, 10)] {
        let (outcome, server, clock) = call_with_unfinished_body(answer).await;
        assert_eq!(outcome, Ok(()));
        while clock.sleeps().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!((clock.sleeps(), server.hangups()), (vec![Duration::from_secs(1)], 0));
        clock.end_sleeps();
        server.wait_until(|server| server.hangups() == 1).await;
    }
}

#[tokio::test]
async fn a_response_over_64_kib_is_abandoned_at_once() {
    for body_bytes in [ANSWER_BYTES_MAX + 1, 16 * 1024 * 1024] {
        let (outcome, server, _stopped_clock) =
            call_with_unfinished_body(ScriptedResponse::unfinished(200, body_bytes)).await;
        assert_eq!(outcome, Ok(()));
        server.wait_until(|server| server.hangups() == 1).await;
    }
}

#[tokio::test]
async fn unread_response_bodies_hold_at_most_64_connections() {
    let server = Loopback::start((0..65).map(|_| ScriptedResponse::unfinished(200, 10))).await;
    let clock = ManualClock::default();
    let target = target_at(server.url(), &clock);
    for left in 0..65 {
        assert_eq!(server.hangups(), 0, "{left}");
        assert_eq!(target.handle(&message("{}")).await, Ok(()));
    }
    server.wait_until(|server| server.hangups() == 1).await;
    assert_eq!(clock.sleeps(), [drain::TIMEOUT; 64]);
}

#[tokio::test]
async fn a_connection_is_reused_by_the_next_call() {
    let server =
        Loopback::start((0..5).map(|_| ScriptedResponse::keep_alive(200, &[], r#"{"done":true}"#))).await;
    let target = target(server.url(), LONG);
    for _ in 0..5 {
        assert_eq!(target.handle(&message("{}")).await, Ok(()));
    }
    assert_eq!((server.requests().len(), server.connections()), (5, 1));
}

#[tokio::test]
async fn a_connection_closed_during_a_freeze_gets_no_request() {
    let server = ClosingServer::start(200);
    let target = target(server.url(), LONG);
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    tokio::task::yield_now().await;
    server.close_unnoticed();
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    server.join();
}
