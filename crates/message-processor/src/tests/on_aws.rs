//! The function on AWS applies all of its settings.

use redeliver_aws::settings::{Logging, MessageProcessorSettings};
use redeliver_aws::start::sdk_config;
use redeliver_core::message::plain::PlainMessages;
use redeliver_core::ports::Queue as _;
use redeliver_core::redelivery::Redelivery;
use redeliver_core::strategy::DelayedResend;

use super::*;

#[tokio::test]
async fn all_settings_are_applied() {
    let url = |name: &str| format!("https://sqs.eu-central-1.amazonaws.com/000000000000/{name}");
    let settings = MessageProcessorSettings {
        on_failure: OnFailure::DelayedResend(DelayedResend(Redelivery {
            source_queue: url("source"),
            intermediate_dlq: url("intermediate"),
        })),
        policy: Policy::from_json(r#"{"max_attempts":7}"#).unwrap(),
        annotation_queue_url: url("annotation"),
        max_concurrency: NonZeroUsize::new(3).unwrap(),
        schema: MessageSchema::default().with_plain(PlainMessages::default()),
        resenders: Resenders::parse(RESENDER).unwrap(),
        logging: Logging::default(),
    };
    let Setup { handler, world, .. } = Setup::new();
    let function = MessageProcessor::on_aws(handler, settings, &sdk_config().await, world.seen);
    let OnFailure::DelayedResend(DelayedResend(queues)) = &function.on_failure else { panic!("hand-offs") };
    assert_eq!(queues.source_queue.url(), url("source"));
    assert_eq!(queues.intermediate_dlq.url(), url("intermediate"));
    assert_eq!(function.annotation_queue.url(), url("annotation"));
    assert_eq!((function.policy.max_attempts, function.max_concurrency.get()), (7, 3));
    // Without `resenders`, no outage report would be trusted, and each new environment would have to detect the outage
    // through its own calls.
    assert_eq!(function.resenders, Resenders::parse(RESENDER).unwrap());
    assert!(function.schema.read_message("no envelope", &Attributes::new(), &nth_id(1)).is_ok());
}
