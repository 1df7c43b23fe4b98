use proptest::prelude::*;
use redeliver_core::message::{Attribute, Attributes};
use redeliver_testing::dead_letters::{foreign_message, received_message};

use super::*;

const JOB: &str = r#"{"retry":true,"queue":"default","class":"ChargeJob","args":[7],"jid":"b4a577edbccf1d805744efa9",
    "error_message":"card 4711 declined","error_class":"CardError","failed_at":1780000000.5,"retry_count":3}"#;

/// Returns dead letters from every framework, in the documented formats.
fn framework_dead_letters() -> Vec<(&'static str, ReceivedMessage)> {
    let attributes = |pairs: &[(&str, &str)]| -> Attributes {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), Attribute::string(*text))).collect()
    };
    let celery = r#"{"body":"W10=","content-type":"application/json","headers":{"lang":"py","task":"orders.charge",
        "id":"3","retries":3},"properties":{"correlation_id":"3"}}"#;
    let dramatiq = r#"{"queue_name":"default","actor_name":"charge","args":[7],"kwargs":{},"message_id":"1","options":
        {"retries":2,"traceback":"Traceback (most recent call last):\n  File \"a.py\", line 3\nValueError: no card 7\n"}}"#;
    let fault = [
        ("MT-Fault-ExceptionType", "System.InvalidOperationException"),
        ("MT-Fault-Message", "order 19 is closed"),
        ("MT-Fault-ConsumerType", "Shop.ChargeConsumer"),
        ("MT-Fault-Timestamp", "2026-11-14T00:38:06.0210000Z"),
        ("MT-Fault-RetryCount", "5"),
    ];
    vec![
        ("MASSTRANSIT_FAULT", received_message(r#"{"messageId":"1","message":{}}"#, attributes(&fault), 1)),
        (
            "NSERVICEBUS_FAULT",
            foreign_message(
                r#"{"Headers":{"NServiceBus.ExceptionInfo.ExceptionType":"System.Exception",
                "NServiceBus.ExceptionInfo.Message":"order 20 is closed","NServiceBus.FailedQ":"orders"},"Body":"e30="}"#,
                2,
            ),
        ),
        (
            "MASSTRANSIT_FAULT",
            foreign_message(
                r#"{"message":{},"headers":{"MT-Fault-ExceptionType":"E","MT-Fault-Message":"no order"}}"#,
                12,
            ),
        ),
        (
            "NSERVICEBUS_FAULT",
            received_message(
                "<order/>",
                attributes(&[(
                    "NServiceBus.AmazonSQS.Headers",
                    r#"{"NServiceBus.ExceptionInfo.ExceptionType":"E","NServiceBus.ExceptionInfo.Message":"no order"}"#,
                )]),
                13,
            ),
        ),
        (
            "REBUS_FAULT",
            foreign_message(
                r#"{"Headers":{"rbs2-source-queue":"orders","rbs2-error-details":"System.Exception: order 21 is closed\n   at X"},
                "Body":"e30="}"#,
                3,
            ),
        ),
        ("CELERY_TASK", foreign_message(celery, 4)),
        ("CELERY_TASK", foreign_message(&BASE64.encode(celery), 5)),
        ("DRAMATIQ_MESSAGE", foreign_message(&BASE64.encode(dramatiq), 6)),
        (
            "ACTIVE_JOB",
            foreign_message(
                r#"{"job_class":"ChargeJob","job_id":"1","queue_name":"default","arguments":[7],"executions":4}"#,
                7,
            ),
        ),
        ("SIDEKIQ_JOB", foreign_message(JOB, 8)),
        (
            "FAKTORY_JOB",
            foreign_message(
                r#"{"jid":"1","jobtype":"Charge","args":[7],"failure":{"retry_count":2,"failed_at":"2026-11-14T00:38:06.021Z",
                "message":"no card 7","errtype":"CardError"}}"#,
                9,
            ),
        ),
        (
            "RESQUE_JOB",
            foreign_message(
                r#"{"failed_at":"2026/11/14 00:38:06 UTC","payload":{"class":"Charge","args":[7]},"exception":"CardError",
                "error":"no card 7","queue":"default"}"#,
                10,
            ),
        ),
        (
            "LARAVEL_JOB",
            foreign_message(
                r#"{"uuid":"1","displayName":"App\\Jobs\\Charge","job":"Illuminate\\Queue\\CallQueuedHandler@call","attempts":2,
                "data":{"commandName":"App\\Jobs\\Charge","command":"O:15"}}"#,
                11,
            ),
        ),
    ]
}

#[test]
fn a_dead_letter_from_each_framework_shows_its_error_or_its_task() {
    let read: Vec<_> = framework_dead_letters()
        .into_iter()
        .map(|(code, message)| {
            let found = ForeignDeadLetter::from_message(&message).unwrap_or_else(|| panic!("{code}"));
            assert_eq!(found.writer.code(), code);
            (found.details(), found.attempts)
        })
        .collect();
    let without_reason = |task: &str| format!("{task}: {UNKNOWN_REASON}");
    let expected = [
        ("Shop.ChargeConsumer: System.InvalidOperationException: order 19 is closed".to_owned(), Some(5)),
        ("orders: System.Exception: order 20 is closed".to_owned(), None),
        ("E: no order".to_owned(), None),
        ("E: no order".to_owned(), None),
        ("orders: System.Exception: order 21 is closed".to_owned(), None),
        (without_reason("orders.charge"), Some(3)),
        (without_reason("orders.charge"), Some(3)),
        ("charge: ValueError: no card 7".to_owned(), Some(2)),
        (without_reason("ChargeJob"), Some(4)),
        ("ChargeJob: CardError: card 4711 declined".to_owned(), Some(3)),
        ("Charge: CardError: no card 7".to_owned(), Some(2)),
        ("Charge: CardError: no card 7".to_owned(), None),
        (without_reason("App\\Jobs\\Charge"), Some(2)),
    ];
    assert_eq!(read, expected);
    let mass_transit = ForeignDeadLetter::from_message(&framework_dead_letters()[0].1).unwrap();
    assert_eq!(mass_transit.failed_at, parse_time("2026-11-14T00:38:06.021Z"));
}

/// A single group per framework would hide a new cause.
#[test]
fn dead_letters_from_a_framework_are_grouped_by_error() {
    let fingerprint =
        |body: &str| ForeignDeadLetter::from_message(&foreign_message(body, 1)).unwrap().fingerprint();
    let group = fingerprint(JOB);
    assert_eq!(fingerprint(&JOB.replace("4711", "4712")), group);
    for (from, to) in [("CardError", "TimeoutError"), ("declined", "expired"), ("ChargeJob", "MailJob")] {
        assert_ne!(fingerprint(&JOB.replace(from, to)), group, "{to}");
    }
}

#[test]
fn a_framework_message_without_an_error_says_whether_sqs_moved_it() {
    let mut message = framework_dead_letters().pop().unwrap().1;
    message.redriven_from = Some("arn:aws:sqs:us-east-2:123456789012:jobs".to_owned());
    assert_eq!(
        ForeignDeadLetter::from_message(&message).unwrap().details(),
        format!("App\\Jobs\\Charge: {MOVED_BY_SQS}")
    );
}

/// The message was never delivered, so the framework has not seen it.
#[test]
fn an_undelivered_framework_message_shows_the_aws_services_error() {
    for (name, mut message) in framework_dead_letters() {
        for (attribute, value) in
            [("RULE_ARN", "arn:aws:events:us-east-2:1:rule/a"), ("ERROR_CODE", "NO_PERMISSIONS")]
        {
            message.attributes.insert(attribute.to_owned(), Attribute::string(value));
        }
        let found = ForeignDeadLetter::from_message(&message).unwrap();
        assert_eq!(
            (found.writer, found.error_type.as_str()),
            (ForeignWriter::EventBridge, "NO_PERMISSIONS"),
            "{name}"
        );
    }
}

#[test]
fn a_message_without_a_framework_mark_is_not_recognized() {
    for body in [
        r#"{"class":"ChargeJob"}"#,
        r#"{"class":"a","note":"jid"}"#,
        r#"{"headers":{"task":"a"},"body":"W10="}"#,
        r#"["class","jid"]"#,
        "class jid",
        r#"{"uuid":"1","data":{}}"#,
        "eyJjbGFzcyI6",
        r#"{"exception":"x","payload":"class"}"#,
    ] {
        assert_eq!(read_framework(&foreign_message(body, 1)), None, "{body}");
    }
}

proptest! {
    #[test]
    fn no_mutated_framework_message_makes_the_reader_panic(
        which in 0..13_usize,
        place in any::<prop::sample::Index>(),
        inserted in "\\PC{0,8}",
        cut in any::<bool>(),
    ) {
        let (_, message) = framework_dead_letters().swap_remove(which);
        let body = &message.body;
        let at = body.floor_char_boundary(place.index(body.len() + 1));
        let rest = if cut { "" } else { &body[at..] };
        let changed = ReceivedMessage { body: format!("{}{inserted}{rest}", &body[..at]), ..message };
        if let Some(read) = ForeignDeadLetter::from_message(&changed) {
            prop_assert_eq!(read.fingerprint().len(), 16);
            let _text = (read.details(), read.remarks());
        }
    }
}
