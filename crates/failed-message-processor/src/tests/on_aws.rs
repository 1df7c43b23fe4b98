//! The function on AWS applies all of its settings.

use redeliver_aws::settings::{FailedMessageProcessorSettings, Logging};
use redeliver_aws::start::sdk_config;
use redeliver_core::message::plain::PlainMessages;
use redeliver_core::ports::Queue as _;

use super::*;

#[tokio::test]
async fn all_settings_are_applied() {
    let url = |name: &str| format!("https://sqs.eu-central-1.amazonaws.com/000000000000/{name}");
    let settings = FailedMessageProcessorSettings {
        source_queue_url: url("source"),
        intermediate_dlq_url: url("intermediate"),
        annotation_queue_url: url("annotation"),
        policy: Policy::from_json(r#"{"max_attempts":7}"#).unwrap(),
        schema: MessageSchema::default().with_plain(PlainMessages::default()),
        resenders: Resenders::parse(RESENDER).unwrap(),
        logging: Logging::default(),
    };
    let function = FailedMessageProcessor::on_aws(settings, &sdk_config().await, FunctionWorld::new().seen);
    assert_eq!(function.annotation_queue.url(), url("annotation"));
    assert_eq!(function.policy.max_attempts, 7);
    // Without `resenders`, a re-send would turn a producer's claims about holds into trusted ones.
    assert_eq!(function.resenders, Resenders::parse(RESENDER).unwrap());
    assert!(function.schema.read_message("no envelope", &Attributes::new(), &nth_id(1)).is_ok());
}
