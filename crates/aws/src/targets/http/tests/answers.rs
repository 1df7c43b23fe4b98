//! The response head determines the outcome. The body is drained in the background, within limits.

use super::*;

/// Makes a call whose response body does not end. Returns its outcome, the server and the clock.
async fn call_with_unfinished_body(answer: Answer) -> (Result<(), HandlerError>, Loopback, ManualClock) {
    let (server, clock) = (Loopback::start([answer]).await, ManualClock::default());
    let target = target_at(server.url(), &clock);
    let message = message("{}");
    let outcome = complete_soon(target.handle(&message)).await;
    (outcome, server, clock)
}

/// The outcome is known once the head arrives, without waiting for a timer or the body.
#[tokio::test]
async fn an_http_outcome_needs_only_the_head() {
    for (answer, expected) in [
        (Answer::dripping(200), Ok(())),
        (Answer::unfinished(201, 10), Ok(())),
        (Answer::cut_off(200), Ok(())),
        (Answer::dripping(400), Err((ErrorType::HttpStatus(400), FailureKind::Permanent))),
        (Answer::dripping(503), Err((ErrorType::HttpStatus(503), FailureKind::Transient))),
    ] {
        let (outcome, _server, _clock) = call_with_unfinished_body(answer).await;
        assert_eq!(outcome.map_err(|error| (error.error_type, error.kind)), expected);
    }
}

#[tokio::test]
async fn a_dripping_or_hanging_body_is_abandoned_after_a_second() {
    for answer in [Answer::dripping(200), Answer::unfinished(200, 10)] {
        let (outcome, server, clock) = call_with_unfinished_body(answer).await;
        assert_eq!(outcome, Ok(()));
        while clock.sleeps().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!((clock.sleeps(), server.left()), (vec![Duration::from_secs(1)], 0));
        clock.end_sleeps();
        server.until(|server| server.left() == 1).await;
    }
}

#[tokio::test]
async fn a_response_over_64_kib_is_not_waited_for() {
    for body_bytes in [ANSWER_BYTES_MAX + 1, 16 * 1024 * 1024] {
        let (outcome, server, _stopped_clock) =
            call_with_unfinished_body(Answer::unfinished(200, body_bytes)).await;
        assert_eq!(outcome, Ok(()));
        server.until(|server| server.left() == 1).await;
    }
}

#[tokio::test]
async fn unread_response_bodies_hold_at_most_64_connections() {
    let server = Loopback::start((0..65).map(|_| Answer::unfinished(200, 10))).await;
    let clock = ManualClock::default();
    let target = target_at(server.url(), &clock);
    for left in 0..65 {
        assert_eq!(server.left(), 0, "{left}");
        assert_eq!(target.handle(&message("{}")).await, Ok(()));
    }
    server.until(|server| server.left() == 1).await;
    assert_eq!(clock.sleeps(), [drain::TIMEOUT; 64]);
}

#[tokio::test]
async fn a_connection_is_reused_by_the_next_call() {
    let server = Loopback::start((0..5).map(|_| Answer::kept(200, &[], r#"{"done":true}"#))).await;
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
    server.close_unseen();
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    server.end();
}
