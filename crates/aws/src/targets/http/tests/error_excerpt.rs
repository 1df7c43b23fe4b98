//! `TARGET_ERROR_EXCERPT`: the selected values are read from the body of an error response, within the call's limits.

use super::*;
use crate::targets::ErrorExcerpt;

const PROBLEM: &str = r#"{"type":"currency_missing","title":"currency is missing","secret":"CANARY"}"#;

fn excerpt() -> Option<ErrorExcerpt> {
    Some(ErrorExcerpt::parse("/type,/title").unwrap())
}

#[tokio::test]
async fn an_error_response_is_recorded_with_the_selected_values() {
    let server = Loopback::start([
        ScriptedResponse::keep_alive(422, &[], PROBLEM),
        ScriptedResponse::keep_alive(200, &[], PROBLEM),
    ])
    .await;
    let target = target(server.url(), LONG).with_error_excerpt(excerpt());
    let error = target.handle(&message("{}")).await.unwrap_err();
    let details =
        r#"HTTP 422 Unprocessable Entity; /type: "currency_missing"; /title: "currency is missing""#;
    let error_type = ErrorType::HttpProblem(422, "currency_missing".to_owned());
    assert_eq!(error, HandlerError::permanent(error_type, details));
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    assert_eq!(server.connections(), 1, "the connection is reused");
}

#[tokio::test]
async fn nothing_from_a_body_is_recorded_without_the_setting() {
    let server = Loopback::start([ScriptedResponse::new(422, &[], PROBLEM)]).await;
    let error = target(server.url(), LONG).handle(&message("{}")).await.unwrap_err();
    assert_eq!(error, HandlerError::permanent(ErrorType::HttpStatus(422), "HTTP 422 Unprocessable Entity"));
}

/// A manual clock ends the wait for the body.
#[tokio::test]
async fn an_endless_error_body_is_abandoned_after_a_second_and_the_status_counts() {
    for (answer, sleeps) in [
        (ScriptedResponse::dripping(503), 1),
        (ScriptedResponse::unfinished(503, 10), 1),
        (ScriptedResponse::cut_off(503), 0),
        (ScriptedResponse::unfinished(503, ANSWER_BYTES_MAX + 1), 0),
    ] {
        let (server, clock) = (Loopback::start([answer]).await, ManualClock::default());
        let target = target_at(server.url(), &clock).with_error_excerpt(excerpt());
        let call = async { target.handle(&message("{}")).await };
        let time_is_up = async {
            while sleeps > 0 && clock.sleeps().is_empty() {
                tokio::task::yield_now().await;
            }
            if sleeps > 0 {
                assert_eq!(clock.sleeps(), [drain::TIMEOUT]);
                clock.end_sleeps();
            }
        };
        let (outcome, ()) = complete_soon(async { tokio::join!(call, time_is_up) }).await;
        let details = "HTTP 503 Service Unavailable";
        assert_eq!(outcome, Err(HandlerError::transient(ErrorType::HttpStatus(503), details)));
    }
}

#[tokio::test]
async fn values_are_extracted_only_from_a_complete_document() {
    for (cut, error_type) in [
        (0, ErrorType::HttpProblem(422, "currency_missing".to_owned())),
        (1, ErrorType::HttpStatus(422)),
        (40, ErrorType::HttpStatus(422)),
    ] {
        let body = &PROBLEM[..PROBLEM.len() - cut];
        let answer =
            ScriptedResponse::raw(&format!("HTTP/1.1 422 Scripted\r\ncontent-length: 5000\r\n\r\n{body}"));
        let server = Loopback::start([answer.then_closed()]).await;
        let target = target(server.url(), LONG).with_error_excerpt(excerpt());
        assert_eq!(
            complete_soon(target.handle(&message("{}"))).await.unwrap_err().error_type,
            error_type,
            "{cut}"
        );
    }
}

/// If the wait went on past the deadline, the known status would be lost.
#[tokio::test]
async fn the_wait_for_a_body_ends_at_the_calls_deadline() {
    let (server, clock) =
        (Loopback::start([ScriptedResponse::unfinished(422, 10)]).await, ManualClock::default());
    let target = target_at(server.url(), &clock).with_error_excerpt(excerpt());
    let end = clock.now() + Duration::from_millis(200);
    let message = message("{}");
    let call = target.call_until(HttpCall { message: &message, trace: None, end });
    let time_is_up = async {
        while clock.sleeps().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(clock.sleeps(), [Duration::from_millis(200)]);
        clock.end_sleeps();
    };
    let (outcome, ()) = complete_soon(async { tokio::join!(call, time_is_up) }).await;
    assert_eq!(outcome.unwrap_err().error_type, ErrorType::HttpStatus(422));
}
