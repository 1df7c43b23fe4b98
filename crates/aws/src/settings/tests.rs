use super::*;

const SQS: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012";

fn reader<'a>(variables: &'a [(&'a str, &'a str)]) -> Reader<'a> {
    Reader::new(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

fn queue(name: &str) -> String {
    format!("{SQS}/{name}")
}

#[test]
fn all_that_is_missing_is_named_in_one_message() {
    let error = MessageProcessorSettings::with_target(reader(&[])).unwrap_err().to_string();
    for name in ["INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL", "TARGET"] {
        assert!(error.contains(&format!("- {name} is missing: ")), "{error}");
    }
    let error = FailedMessageProcessorSettings::read(reader(&[])).unwrap_err().to_string();
    for name in ["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL"] {
        assert!(error.contains(&format!("- {name} is missing: ")), "{error}");
    }
}

#[test]
fn all_that_is_wrong_is_named_in_one_message_without_secrets() {
    let fifo = queue("annotation.fifo");
    let variables = [
        ("INTERMEDIATE_DLQ_URL", "intermediate"),
        ("ANNOTATION_QUEUE_URL", fifo.as_str()),
        ("TARGET", "https://user:CANARY@example.com/"),
        ("MAX_CONCURRENCY", "0"),
        ("TARGET_TIMEOUT_SECONDS", "901"),
        ("TARGET_ALLOW_HTTP", "yes"),
        ("DATA_SCHEMA_PATH", "no-such-schema.json"),
    ];
    let error = MessageProcessorSettings::with_target(reader(&variables)).unwrap_err().to_string();
    for line in [
        "- INTERMEDIATE_DLQ_URL is not a queue's URL",
        "- ANNOTATION_QUEUE_URL is a FIFO queue's URL: FIFO queues cannot delay single messages",
        "- TARGET has credentials inside",
        "- MAX_CONCURRENCY is not a whole number from 1 to 10000",
        "- TARGET_TIMEOUT_SECONDS is not a whole number from 1 to 900",
        "- TARGET_ALLOW_HTTP is neither true nor false",
        "- DATA_SCHEMA_PATH names the file no-such-schema.json, which cannot be read",
    ] {
        assert!(error.contains(line), "{line} in {error}");
    }
    assert!(!error.contains("CANARY"), "{error}");
}

#[test]
fn a_policy_is_refused_with_its_pointer() {
    let (source, intermediate, annotation) = (queue("source"), queue("intermediate"), queue("annotation"));
    let variables = [
        ("SOURCE_QUEUE_URL", source.as_str()),
        ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
        ("ANNOTATION_QUEUE_URL", annotation.as_str()),
        ("RETRY_POLICY", r#"{"max_retries":3}"#),
    ];
    let error = FailedMessageProcessorSettings::read(reader(&variables)).unwrap_err().to_string();
    assert!(
        error.contains("- RETRY_POLICY the retry policy is refused: /max_retries is not a known member"),
        "{error}"
    );
}

#[test]
fn headers_are_for_a_url_only() {
    let (intermediate, annotation) = (queue("intermediate"), queue("annotation"));
    let target = |target| {
        let variables = [
            ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
            ("ANNOTATION_QUEUE_URL", annotation.as_str()),
            ("TARGET", target),
            ("TARGET_HEADERS_SECRET_ARN", "arn:of-a-secret"),
        ];
        MessageProcessorSettings::with_target(reader(&variables)).map(|(_, target)| target)
    };
    let with_url = target("https://example.com/orders").unwrap();
    assert_eq!(with_url.headers_secret_arn.as_deref(), Some("arn:of-a-secret"));
    let error = target("arn:aws:lambda:eu-central-1:123456789012:function:orders").unwrap_err().to_string();
    assert!(
        error.ends_with(
            "\n- TARGET_HEADERS_SECRET_ARN is set, but TARGET is a Lambda function, which takes no headers; \
             remove it, or set TARGET to an https:// URL"
        ),
        "{error}"
    );
}

#[test]
fn what_is_not_set_has_its_default() {
    let (intermediate, annotation) = (queue("intermediate"), queue("annotation"));
    let variables = [
        ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
        ("ANNOTATION_QUEUE_URL", annotation.as_str()),
        ("TARGET", "https://example.com/orders"),
        ("TARGET_HEADERS_SECRET_ARN", ""),
    ];
    let (settings, target) = MessageProcessorSettings::with_target(reader(&variables)).unwrap();
    assert_eq!(settings.max_concurrency.get(), 10);
    assert_eq!(target.timeout, Duration::from_secs(30));
    assert_eq!(target.headers_secret_arn, None);
}
