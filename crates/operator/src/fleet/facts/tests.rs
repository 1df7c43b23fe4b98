use super::*;

fn id(account: &str, name: &str) -> QueueId {
    QueueId { account: account.to_owned(), region: "eu-central-1".to_owned(), name: name.to_owned() }
}

#[test]
fn a_queue_is_identified_by_arn_or_url() {
    let arn = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq";
    assert_eq!(QueueId::from_arn(arn), Some(id("123456789012", "orders-dlq")));
    for other in ["arn:aws:sns:eu-central-1:123456789012:failures", "orders-dlq", ""] {
        assert_eq!(QueueId::from_arn(other), None, "{other}");
    }
    for url in [
        "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dlq",
        "https://eu-central-1.queue.amazonaws.com/123456789012/orders-dlq",
        "http://127.0.0.1:4566/123456789012/orders-dlq",
    ] {
        assert_eq!(QueueId::from_url(url, "eu-central-1"), Some(id("123456789012", "orders-dlq")), "{url}");
    }
    assert_eq!(QueueId::from_url("orders-dlq", "eu-central-1"), None);
}

#[test]
fn queue_attributes_are_parsed_and_invalid_ones_are_unknown() {
    let parse = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        QueueAttributes::new(&pairs.collect())
    };
    let policy =
        r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:123456789012:orders-dlq","maxReceiveCount":3}"#;
    let attributes = parse(&[
        ("ApproximateNumberOfMessages", "12"),
        ("ApproximateNumberOfMessagesNotVisible", "3"),
        ("ApproximateNumberOfMessagesDelayed", "4"),
        ("MessageRetentionPeriod", "345600"),
        ("VisibilityTimeout", "30"),
        ("RedrivePolicy", policy),
    ]);
    let expected = QueueAttributes {
        counts: QueueCounts {
            visible: Some(12),
            in_flight: Some(3),
            delayed: Some(4),
            retention_seconds: Some(345_600),
        },
        visibility_seconds: Some(30),
        redrives_to: Some(id("123456789012", "orders-dlq")),
    };
    assert_eq!((attributes.counts.total_messages(), attributes), (19, expected));
    assert_eq!(parse(&[]), QueueAttributes::default());
    let without_a_count = r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-central-1:123456789012:orders-dlq"}"#;
    let redrives_to = parse(&[("RedrivePolicy", without_a_count)]).redrives_to;
    assert_eq!(redrives_to, Some(id("123456789012", "orders-dlq")));
    assert_eq!(
        parse(&[("RedrivePolicy", "{}"), ("MessageRetentionPeriod", "long")]),
        QueueAttributes::default()
    );
}

#[test]
fn a_query_watches_only_queues_it_is_certain_to_select() {
    const FROM: &str = r#"SELECT MAX(ApproximateNumberOfMessagesVisible) FROM SCHEMA("AWS/SQS", QueueName)"#;
    let selects = |condition: &str| {
        AlarmWatch { account: None, queues: WatchedQueues::SelectedBy(format!("{FROM}{condition}")) }
            .includes_queue("orders-dlq")
    };
    assert!(selects("") && selects(" GROUP BY QueueName"));
    assert!(
        selects(" WHERE QueueName = 'orders-dlq'")
            && selects(" where QueueName = 'orders-dlq' OR QueueName = 'b'")
    );
    assert!(!selects(" WHERE QueueName = 'orders-dlq-2'") && !selects(" WHERE QueueName != 'orders-dlq'"));
    let by_name = AlarmWatch { account: None, queues: WatchedQueues::Named("orders-dlq".to_owned()) };
    assert!(by_name.includes_queue("orders-dlq") && !by_name.includes_queue("orders"));
}
