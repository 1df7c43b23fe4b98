use aws_sdk_lambda::types::{DeadLetterConfig, DestinationConfig, FunctionResponseType, OnFailure};

use super::*;

const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:dead";
const FUNCTION: &str = "arn:aws:lambda:eu-central-1:123456789012:function:mailer";

fn mapping(source: &str, state: &str, destination: Option<&str>) -> EventSourceMappingConfiguration {
    let destination = destination.map(|arn| {
        DestinationConfig::builder().on_failure(OnFailure::builder().destination(arn).build()).build()
    });
    let mapping = EventSourceMappingConfiguration::builder().function_arn(format!("{FUNCTION}:live"));
    mapping.event_source_arn(source).state(state).set_destination_config(destination).build()
}

#[test]
fn a_function_with_a_queue_as_its_dlq_is_a_sender() {
    let with = |target: Option<&str>| {
        let dlq = target.map(|arn| DeadLetterConfig::builder().target_arn(arn).build());
        let function = FunctionConfiguration::builder().function_name("mailer").function_arn(FUNCTION);
        function.set_dead_letter_config(dlq).build()
    };
    let to = QueueId::from_arn(DLQ).unwrap();
    let sender = FailureSender { name: "mailer".to_owned(), to };
    assert_eq!(dlq_sender(&with(Some(DLQ))), Some(sender));
    assert_eq!(dlq_sender(&with(Some("arn:aws:sns:eu-central-1:123456789012:failures"))), None);
    assert_eq!(dlq_sender(&with(None)), None);
    assert_eq!(function_account(&with(None)).as_deref(), Some("123456789012"));
}

#[test]
fn stream_mappings_are_senders_and_active_queue_mappings_are_readers() {
    let stream = mapping("arn:aws:kinesis:eu-central-1:123456789012:stream/clicks", "Enabled", Some(DLQ));
    let to = QueueId::from_arn(DLQ).unwrap();
    let sender = FailureSender { name: "mailer:live".to_owned(), to: to.clone() };
    assert_eq!((destination_sender(&stream), parse_reader(&stream)), (Some(sender), None));
    let reads =
        Some(FunctionReader { function: "mailer:live".to_owned(), queue: to, ..FunctionReader::default() });
    assert_eq!(destination_sender(&mapping(DLQ, "Enabled", None)), None);
    for (state, expected) in
        [("Enabled", &reads), ("Enabling", &reads), ("Disabled", &None), ("Disabling", &None)]
    {
        assert_eq!(parse_reader(&mapping(DLQ, state, None)), *expected, "{state}");
    }
}

#[test]
fn a_reader_has_the_settings_needed_to_check_its_queue() {
    let reads = |types: Option<Vec<FunctionResponseType>>, window| {
        let mapping = EventSourceMappingConfiguration::builder().function_arn(FUNCTION).event_source_arn(DLQ);
        let mapping = mapping.uuid("one").set_function_response_types(types);
        let reader = parse_reader(&mapping.set_maximum_batching_window_in_seconds(window).build()).unwrap();
        (reader.mapping_uuid, reader.reports_failures, reader.batching_window_seconds)
    };
    let reports = vec![FunctionResponseType::ReportBatchItemFailures];
    assert_eq!(reads(Some(reports), Some(20)), ("one".to_owned(), true, 20));
    assert_eq!(reads(None, None), ("one".to_owned(), false, 0));
    let function = FunctionConfiguration::builder().function_name("mailer").timeout(60).build();
    assert_eq!(function_timeout(&function), Some(("mailer".to_owned(), 60)));
}
