//! `TARGET_ERROR_EXCERPT`: the selected values are read from the body of an error response, within the call's limits.

use super::*;
use crate::targets::ErrorExcerpt;

const PROBLEM: &str = r#"{"type":"currency_missing","title":"currency is missing","secret":"CANARY"}"#;

fn excerpt() -> Option<ErrorExcerpt> {
    Some(ErrorExcerpt::parse("/type,/title").unwrap())
}

#[tokio::test]
async fn a_failed_response_is_recorded_with_the_named_values() {
    let server = Loopback::start([Answer::kept(422, &[], PROBLEM), Answer::kept(200, &[], PROBLEM)]).await;
    let target = target(server.url(), LONG).with_error_excerpt(excerpt());
    let error = target.handle(&message("{}")).await.unwrap_err();
    let details =
        r#"HTTP 422 Unprocessable Entity; /type: "currency_missing"; /title: "currency is missing""#;
    let error_type = ErrorType::HttpProblem(422, "currency_missing".to_owned());
    assert_eq!(error, HandlerError::permanent(error_type, details));
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    assert_eq!(server.connections(), 1, "the connection is used again");
}

#[tokio::test]
async fn without_the_setting_nothing_of_a_body_is_recorded() {
    let server = Loopback::start([Answer::new(422, &[], PROBLEM)]).await;
    let error = target(server.url(), LONG).handle(&message("{}")).await.unwrap_err();
    assert_eq!(error, HandlerError::permanent(ErrorType::HttpStatus(422), "HTTP 422 Unprocessable Entity"));
}

/// The outcome with a manual clock, which ends the wait for the body.
#[tokio::test]
async fn a_body_that_does_not_end_is_left_after_a_second_and_the_status_counts() {
    for (answer, sleeps) in [
        (Answer::dripping(503), 1),
        (Answer::unfinished(503, 10), 1),
        (Answer::cut_off(503), 0),
        (Answer::unfinished(503, ANSWER_BYTES_MAX + 1), 0),
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
        let (outcome, ()) = soon(async { tokio::join!(call, time_is_up) }).await;
        let details = "HTTP 503 Service Unavailable";
        assert_eq!(outcome, Err(HandlerError::transient(ErrorType::HttpStatus(503), details)));
    }
}

#[tokio::test]
async fn values_are_read_from_a_whole_document_alone_though_its_body_does_not_end() {
    for (cut, error_type) in [
        (0, ErrorType::HttpProblem(422, "currency_missing".to_owned())),
        (1, ErrorType::HttpStatus(422)),
        (40, ErrorType::HttpStatus(422)),
    ] {
        let body = &PROBLEM[..PROBLEM.len() - cut];
        let answer = Answer::raw(&format!("HTTP/1.1 422 Scripted\r\ncontent-length: 5000\r\n\r\n{body}"));
        let server = Loopback::start([answer.and_closed()]).await;
        let target = target(server.url(), LONG).with_error_excerpt(excerpt());
        assert_eq!(soon(target.handle(&message("{}"))).await.unwrap_err().error_type, error_type, "{cut}");
    }
}

/// Otherwise a known status would be lost at the very end.
#[tokio::test]
async fn a_body_is_waited_for_until_the_end_of_the_call_at_most() {
    let (server, clock) = (Loopback::start([Answer::unfinished(422, 10)]).await, ManualClock::default());
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
    let (outcome, ()) = soon(async { tokio::join!(call, time_is_up) }).await;
    assert_eq!(outcome.unwrap_err().error_type, ErrorType::HttpStatus(422));
}
