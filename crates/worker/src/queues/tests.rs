use std::time::Duration;

use redeliver_core::limits::VisibilitySeconds;

use super::*;

fn url(name: &str) -> String {
    format!("https://sqs.eu-central-1.amazonaws.com/123456789012/{name}")
}

fn arn(name: &str) -> String {
    format!("arn:aws:sqs:eu-central-1:123456789012:{name}")
}

const HANDED_OFF: Option<RetrySetup> = Some(ASSUMED_RETRIES);
const ELSEWHERE: Option<RetrySetup> = None;

fn named_queues(retrying: Option<RetrySetup>) -> NamedQueues {
    let names = ["source", "intermediate", "annotation", "final"];
    let roles = [Role::Source, Role::IntermediateDlq, Role::Annotation, Role::FinalDlq];
    let urls = roles.into_iter().zip(names.map(url)).collect();
    NamedQueues { urls, retrying, invocation: 30 }
}

fn visibility_setup(max_attempts: u32) -> Option<RetrySetup> {
    let queue_times = QueueTimes {
        visibility_timeout: VisibilitySeconds::new(180).unwrap(),
        retention: Duration::from_secs(604_800),
    };
    Some(RetrySetup { strategy: Strategy::Visibility, max_attempts, queue_times: Some(queue_times) })
}

/// Returns the attributes of a queue with this DLQ and `maxReceiveCount`.
fn redrive_attributes(arn: &str, receives: u64) -> BTreeMap<String, String> {
    let policy = serde_json::json!({ "deadLetterTargetArn": arn, "maxReceiveCount": receives });
    queue_attributes(&[
        ("VisibilityTimeout", "180"),
        ("MessageRetentionPeriod", "604800"),
        ("RedrivePolicy", &policy.to_string()),
    ])
}

fn queue_attributes(attributes: &[(&str, &str)]) -> BTreeMap<String, String> {
    attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Returns the error or the warnings for a queue with these attributes.
fn check_queue(
    failed: Option<RetrySetup>,
    role: Role,
    attributes: BTreeMap<String, String>,
) -> Result<Vec<String>, String> {
    named_queues(failed).check_attributes(&[(role, attributes)].into()).map_err(|error| error.to_string())
}

#[test]
fn queues_wired_as_in_the_stack_pass_without_warnings() {
    for (role, next, receives) in [
        (Role::Source, "intermediate", 1),
        (Role::IntermediateDlq, "annotation", 100),
        (Role::IntermediateDlq, "annotation", 1000),
        (Role::Annotation, "final", 110),
    ] {
        assert_eq!(
            check_queue(HANDED_OFF, role, redrive_attributes(&arn(next), receives)),
            Ok(vec![]),
            "{role:?}"
        );
    }
    for (role, next, receives) in [(Role::Source, "annotation", 15), (Role::Annotation, "final", 25)] {
        assert_eq!(
            check_queue(visibility_setup(5), role, redrive_attributes(&arn(next), receives)),
            Ok(vec![]),
            "{role:?}"
        );
    }
    let ordered = RetrySetup { strategy: Strategy::Ordered, max_attempts: 980, queue_times: None };
    let urls = [(Role::Source, url("source.fifo")), (Role::SourceDlq, url("source-dlq.fifo"))].into();
    let ordered = NamedQueues { urls, retrying: Some(ordered), invocation: 30 };
    let attributes = [
        (Role::Source, redrive_attributes(&arn("source-dlq.fifo"), 1000)),
        (Role::SourceDlq, queue_attributes(&[("VisibilityTimeout", "180")])),
    ];
    assert_eq!(ordered.check_attributes(&attributes.into()), Ok(vec![]), "the source DLQ has no DLQ");
    let fewer = [(Role::Source, redrive_attributes(&arn("source-dlq.fifo"), 5))];
    assert_eq!(
        ordered.check_attributes(&fewer.into()).unwrap_err().to_string(),
        format!(
            "- {}: SQS moves a message out of it after 5 receives, and each retry and each hold is a receive; set the \
             maxReceiveCount of its redrive policy to 1000",
            url("source.fifo")
        )
    );
    for (role, next, receives) in [(Role::Source, "annotation", 990), (Role::Annotation, "final", 1000)] {
        assert_eq!(
            check_queue(visibility_setup(1000), role, redrive_attributes(&arn(next), receives)),
            Ok(vec![]),
            "the SQS limit is 1000"
        );
    }
}

#[test]
fn a_queue_named_twice_is_refused() {
    assert_eq!(named_queues(HANDED_OFF).check_distinct(), Ok(()));
    for again in
        [url("source"), "https://vpce-1.sqs.eu-central-1.vpce.amazonaws.com/123456789012/source".to_owned()]
    {
        let mut queues = named_queues(HANDED_OFF);
        queues.urls.insert(Role::FinalDlq, again.clone());
        assert_eq!(
            queues.check_distinct().unwrap_err().to_string(),
            format!(
                "- SOURCE_QUEUE_URL and FINAL_DLQ_URL name the same queue ({again}): set each to a queue of its own"
            )
        );
    }
    let mut queues = named_queues(HANDED_OFF);
    queues
        .urls
        .insert(Role::FinalDlq, "https://sqs.eu-central-1.amazonaws.com/210987654321/source".to_owned());
    assert_eq!(queues.check_distinct(), Ok(()), "the accounts differ");
}

#[test]
fn a_redrive_that_bypasses_the_annotator_is_refused() {
    assert_eq!(
        check_queue(HANDED_OFF, Role::Source, redrive_attributes(&arn("final"), 1)).unwrap_err(),
        format!(
            "- {}: SQS moves messages out of it to {}, which is not the queue of INTERMEDIATE_DLQ_URL ({}); name that queue in its \
             redrive policy, or set INTERMEDIATE_DLQ_URL to the queue that the policy names",
            url("source"),
            arn("final"),
            url("intermediate")
        )
    );
    for (failed, role, right) in [
        (visibility_setup(5), Role::Source, "ANNOTATION_QUEUE_URL"),
        (HANDED_OFF, Role::IntermediateDlq, "ANNOTATION_QUEUE_URL"),
        (ELSEWHERE, Role::Annotation, "FINAL_DLQ_URL"),
    ] {
        let error = check_queue(failed, role, redrive_attributes(&arn("another"), 1000)).unwrap_err();
        assert!(error.contains(&format!("is not the queue of {right} (")), "{error}");
    }
    let elsewhere = "arn:aws:sqs:eu-central-1:210987654321:intermediate";
    assert!(
        check_queue(HANDED_OFF, Role::Source, redrive_attributes(elsewhere, 1)).is_err(),
        "in another account"
    );
}

#[test]
fn an_emulator_url_without_an_account_is_accepted() {
    let mut queues = named_queues(HANDED_OFF);
    queues.urls.insert(Role::IntermediateDlq, "http://127.0.0.1:9324/queue/intermediate".to_owned());
    let polled =
        [(Role::Source, redrive_attributes("arn:aws:sqs:elasticmq:000000000000:intermediate", 1))].into();
    assert_eq!(queues.check_attributes(&polled), Ok(vec![]));
}

#[test]
fn a_low_max_receive_count_is_refused_with_the_required_minimum() {
    for (failed, role, next, count, said_of_it) in [
        (
            HANDED_OFF,
            Role::IntermediateDlq,
            "annotation",
            5,
            "after 5 receives, and a temporarily broken failed-message-processor would end its retries; set the \
             maxReceiveCount of its redrive policy to 100",
        ),
        (
            HANDED_OFF,
            Role::Annotation,
            "final",
            100,
            "after 100 receives, and a moved message keeps up to 100 receives, so it would reach the final DLQ without its reason; \
             set the maxReceiveCount of its redrive policy to 110",
        ),
        (
            visibility_setup(5),
            Role::Source,
            "annotation",
            1,
            "after 1 receives, and each retry is a receive, and ten more than the policy's max_attempts are reserved for failures; set the \
             maxReceiveCount of its redrive policy to 15",
        ),
        (
            visibility_setup(5),
            Role::Annotation,
            "final",
            24,
            "after 24 receives, and a moved message keeps up to 15 receives, so it would reach the final DLQ without its reason; set \
             the maxReceiveCount of its redrive policy to 25",
        ),
    ] {
        let error = check_queue(failed, role, redrive_attributes(&arn(next), count)).unwrap_err();
        assert!(error.ends_with(&format!("SQS moves a message out of it {said_of_it}")), "{error}");
    }
}

#[test]
fn a_costly_or_unknown_redrive_causes_a_warning() {
    let warning = |failed, role, attributes| {
        let [warning] = <[String; 1]>::try_from(check_queue(failed, role, attributes).unwrap()).unwrap();
        warning
    };
    let several = warning(HANDED_OFF, Role::Source, redrive_attributes(&arn("intermediate"), 5));
    assert!(several.contains("delivers a message 5 times before it moves it"), "{several}");
    assert!(several.ends_with("set the maxReceiveCount of its redrive policy to 1"), "{several}");
    let alone = warning(ELSEWHERE, Role::Annotation, redrive_attributes(&arn("final"), 25));
    assert!(
        alone.ends_with("or with STRATEGY=visibility to twenty more than the policy's max_attempts"),
        "{alone}"
    );
    let none = warning(HANDED_OFF, Role::Source, queue_attributes(&[("VisibilityTimeout", "180")]));
    assert!(none.contains("has no redrive policy"), "{none}");
}

#[test]
fn a_queue_that_does_not_match_the_settings_is_refused() {
    let refused = |changed: (&str, &str)| {
        let mut attributes = redrive_attributes(&arn("annotation"), 15);
        attributes.insert(changed.0.to_owned(), changed.1.to_owned());
        check_queue(visibility_setup(5), Role::Source, attributes).unwrap_err()
    };
    assert_eq!(
        refused(("VisibilityTimeout", "60")),
        format!("- {}: VisibilityTimeout is 60; set VISIBILITY_TIMEOUT_SECONDS to 60, too", url("source"))
    );
    assert_eq!(
        refused(("MessageRetentionPeriod", "345600")),
        format!(
            "- {}: MessageRetentionPeriod is 345600; set RETENTION_SECONDS to 345600, too",
            url("source")
        )
    );
}

#[test]
fn all_queue_errors_are_reported_together() {
    let polled = [
        (Role::Source, redrive_attributes(&arn("final"), 1)),
        (Role::IntermediateDlq, queue_attributes(&[("VisibilityTimeout", "29")])),
        (Role::Annotation, redrive_attributes(&arn("final"), 5)),
    ];
    let error = named_queues(HANDED_OFF).check_attributes(&polled.into()).unwrap_err().to_string();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[1].contains("its visibility timeout is 29 s, and a batch may take 30 s"), "{error}");
}
