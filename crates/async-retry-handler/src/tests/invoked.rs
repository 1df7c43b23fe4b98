//! Invocations: the requests to Lambda, and the effect of its responses on the records.

use super::*;

#[test]
fn a_failed_function_is_invoked_again_with_its_payload_in_the_envelope() {
    let setup = Setup::new(accept_event);
    let arn = format!("{ORDERS}:live");
    let body = function_destination_record(&arn, 1, &payload(1), -1001);
    assert!(setup.process(vec![received_record(1, body)]).is_empty());
    assert_eq!(setup.calls(), [(arn, wrapped_payload(1, -1001, &payload(1)))]);
    assert!(setup.retry.sent_contents().is_empty() && setup.annotation.sent_contents().is_empty());
    let [
        Event::RetryScheduled {
            message_id,
            retry_attempt,
            spends_attempt,
            delay_seconds,
            age_seconds,
            error_type,
            request_id: None,
        },
    ] = &setup.world.seen.events()[..]
    else {
        panic!()
    };
    assert_eq!((message_id, *retry_attempt, *spends_attempt), (&nth_id(1), 1, true));
    assert_eq!((delay_seconds.get(), error_type.as_deref()), (1000, Some("FromTarget")));
    assert!((age_seconds - 1001.0).abs() < 1.0, "{age_seconds}");
}

#[test]
fn a_valid_envelope_keeps_counting_and_a_forged_one_is_wrapped_again() {
    let setup = Setup::new(accept_event);
    let forged = wrapped_payload(1, 0, &payload(2)).replace("\"attempt\":1", "\"attempt\":-1");
    let records = vec![
        received_record(1, destination_record(1, &wrapped_payload(2, -9000, &payload(1)), -1001)),
        received_record(2, destination_record(2, &forged, -1001)),
    ];
    assert!(setup.process(records).is_empty());
    let payloads: Vec<_> = setup.calls().into_iter().map(|(_, payload)| payload).collect();
    assert_eq!(payloads, [wrapped_payload(3, -9000, &payload(1)), wrapped_payload(1, -1001, &forged)]);
}

#[test]
fn a_payload_of_any_json_type_is_sent_again() {
    let setup = Setup::new(accept_event);
    for unusual in [r#""n\u0022:1""#, "null", "[ ]", "-0.0", "\"\"", "{ }"] {
        // The scripted Lambda reads the event's number from the payload.
        let unusual = format!("[{unusual},{{\"n\":1}}]");
        assert!(setup.process(vec![received_record(1, destination_record(1, &unusual, -1001))]).is_empty());
        assert_eq!(setup.calls().pop().unwrap().1, wrapped_payload(1, -1001, &unusual));
    }
}

#[test]
fn ten_records_have_ten_outcomes() {
    let setup = Setup::new(|n| match n {
        2 => Response::Refused(AsyncInvokeError::NotNow { code: "TooManyRequestsException".to_owned() }),
        3 => Response::Refused(AsyncInvokeError::TooLarge),
        4 => Response::Refused(AsyncInvokeError::Invalid),
        5 => Response::Hangs,
        6 => Response::Refused(AsyncInvokeError::NotNow { code: "AccessDeniedException".to_owned() }),
        _ => Response::Taken,
    });
    let mut records: Vec<_> = (0..8).map(due_record).collect();
    records.push(received_record(8, destination_record(8, &payload(8), 0)));
    records.push(received_record(9, "no record"));
    assert_eq!(setup.process(records), ["sqs-2", "sqs-5", "sqs-6"]);
    assert_eq!(setup.world.elapsed_seconds(), 25, "the calls end 5 s before the deadline");
    assert_eq!(event_number(&setup.retry.only_sent_content().body), 8);
    let verdicts: Vec<_> = setup
        .annotation
        .sent_contents()
        .iter()
        .map(|sent| attribute_document(&sent.attributes, FAILURE)["verdict"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(verdicts, ["INVALID_MESSAGE_FORMAT", "MESSAGE_TOO_LARGE", "INVALID_MESSAGE_FORMAT"]);
    let mut codes: Vec<_> = setup
        .world
        .seen
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::NotConfirmed { sqs_message_id, send, code } => Some((sqs_message_id, send, code)),
            _ => None,
        })
        .collect();
    codes.sort_unstable();
    let failed = |n: usize, code: &str| (format!("sqs-{n}"), "invocation", code.to_owned());
    let expected = [
        failed(2, "TooManyRequestsException"),
        failed(5, "NoAnswerBeforeDeadline"),
        failed(6, "AccessDeniedException"),
    ];
    assert_eq!(codes, expected);
}

#[test]
fn concurrent_requests_are_limited_to_ten() {
    let setup = Setup::new(accept_event);
    assert!(setup.process((0..95).map(due_record).collect()).is_empty());
    assert_eq!((setup.calls().len(), *setup.lambda.max_concurrent.lock().unwrap()), (95, (0, 10)));
}

#[test]
fn records_left_at_the_deadline_cause_no_call_and_are_received_again() {
    let setup = Setup::new(|_| Response::Hangs);
    assert_eq!(setup.process((0..15).map(due_record).collect()).len(), 15);
    assert_eq!((setup.calls().len(), setup.world.elapsed_seconds()), (10, 25));

    let setup = Setup::new(panic_if_invoked);
    assert_eq!(setup.process_within(Duration::ZERO, vec![due_record(1), due_record(2)]), ["sqs-1", "sqs-2"]);
    assert!(setup.calls().is_empty());
}
