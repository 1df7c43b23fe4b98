//! Determines whether the source queue has a consumer.

use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

use crate::CommandFailure;
use crate::queues::AwsConnection;
use crate::queues::event_sources::{EventSources, LambdaError, LambdaMapping};
use crate::status::readers::Readers;

/// The consumer of the source queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumer {
    /// A mapping is enabled, or receives indicate a poller. A queue outside the stack also counts as consumed if it has
    /// no mapping or Lambda returns an error.
    Present,
    /// The reason for finding no consumer: all mappings are disabled, and no receives indicate a poller.
    Absent(String),
    /// The reason the consumer is unknown: Lambda's error, or neither a mapping nor a steady reader.
    Unknown(String),
}

impl Consumer {
    /// Queries Lambda, and CloudWatch if no event source mapping is enabled.
    ///
    /// # Errors
    /// If the AWS configuration cannot be loaded. A request rejected by Lambda or CloudWatch is not an error.
    pub async fn query_consumer(
        connection: &AwsConnection,
        source_arn: &str,
        is_stack: bool,
    ) -> Result<Self, CommandFailure> {
        let mappings =
            EventSources::for_queue_region(connection, source_arn).await?.list_for_queue(source_arn).await;
        let readers = match &mappings {
            Ok(mappings) if is_stack || !mappings.is_empty() => Some(
                Readers::query_readers(connection, source_arn, Some(mappings), None, SystemClock.now()).await,
            ),
            // A queue outside the stack may have any reader.
            _ => None,
        };
        Ok(Self::from_readers(mappings, readers.as_ref(), is_stack))
    }

    /// Evaluates the queue's event source mappings, or Lambda's error, and its other readers.
    fn from_readers(
        mappings: Result<Vec<LambdaMapping>, LambdaError>,
        readers: Option<&Readers>,
        is_stack: bool,
    ) -> Self {
        match (mappings, readers) {
            (Err(_), _) if !is_stack => Self::Present,
            (Err(error), _) => Self::Unknown(error.to_string()),
            (_, None) => Self::Present,
            // A single read does not make a consumer.
            (_, Some(readers)) if readers.is_steady() => Self::Present,
            (Ok(mappings), Some(readers)) if mappings.is_empty() => {
                Self::Unknown(format!("no event source mapping reads it; {}", readers.describe()))
            }
            (Ok(mappings), Some(_)) => {
                let functions: Vec<_> = mappings
                    .iter()
                    .map(|mapping| format!("the mapping of {} is {}", mapping.function, mapping.state))
                    .collect();
                let functions = functions.join(", ");
                Self::Absent(format!("the source queue's event source mapping is off: {functions}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::status::access_denied;
    use redeliver_testing::loopback::{Loopback, LoopbackBody};

    const ORDERS: &str = "arn:aws:sqs:eu-central-1:000000000000:orders";

    fn mapping_list(mappings: &Value) -> (u16, LoopbackBody) {
        (200, json!({ "EventSourceMappings": mappings }).into())
    }

    /// Messages sent to the queue would wait, regardless of its owner.
    #[tokio::test]
    async fn a_named_queue_with_a_disabled_mapping_has_no_consumer() {
        let function = "arn:aws:lambda:eu-central-1:000000000000:function:reader";
        let off = json!([{ "UUID": "u", "State": "Disabled", "FunctionArn": function }]);
        for is_stack in [true, false] {
            let endpoint = Loopback::start_scripted([mapping_list(&off), access_denied()]);
            let consumer = Consumer::query_consumer(
                &AwsConnection::from_parts(
                    None,
                    Some("eu-central-1".to_owned()),
                    Some(endpoint.url().to_owned()),
                ),
                ORDERS,
                is_stack,
            )
            .await;
            let why = "the source queue's event source mapping is off: the mapping of reader is Disabled";
            assert_eq!(consumer.unwrap(), Consumer::Absent(why.to_owned()), "{is_stack}");
        }
        let endpoint = Loopback::start_scripted([mapping_list(&json!([]))]);
        let consumer = Consumer::query_consumer(
            &AwsConnection::from_parts(
                None,
                Some("eu-central-1".to_owned()),
                Some(endpoint.url().to_owned()),
            ),
            ORDERS,
            false,
        )
        .await;
        assert_eq!(
            (consumer.unwrap(), endpoint.requests().len()),
            (Consumer::Present, 1),
            "CloudWatch is not queried"
        );
    }

    fn mapping(state: &str) -> LambdaMapping {
        LambdaMapping {
            uuid: "u".to_owned(),
            function: "prod-message-processor".to_owned(),
            source: String::new(),
            reports_failures: true,
            state: state.to_owned(),
            batch_size: None,
            maximum_concurrency: None,
            last_modified: None,
        }
    }

    #[test]
    fn a_paused_stack_has_no_consumer_unless_a_container_polls_the_queue() {
        let off = "the source queue's event source mapping is off: the mapping of prod-message-processor is Disabled";
        let unseen_readers = Readers::NobodySeen { minutes: 15 };
        let unseen = "no event source mapping reads it; no reader seen in the last 15 minutes".to_owned();
        let container = Readers::SomethingElse {
            mappings_known: true,
            messages_received: 7,
            empty_receives: 0,
            minutes: 15,
            minutes_with_receives: 7,
        };
        let once = Readers::SomethingElse {
            mappings_known: true,
            messages_received: 1,
            empty_receives: 0,
            minutes: 15,
            minutes_with_receives: 1,
        };
        let on = Readers::EventSourceMapping;
        for (mappings, readers, is_stack, expected) in [
            (vec![mapping("Disabled"), mapping("Enabled")], Some(&on), true, Consumer::Present),
            (vec![mapping("Disabled")], Some(&unseen_readers), true, Consumer::Absent(off.to_owned())),
            (vec![mapping("Disabled")], Some(&unseen_readers), false, Consumer::Absent(off.to_owned())),
            (vec![mapping("Disabled")], Some(&container), true, Consumer::Present),
            (vec![mapping("Disabled")], Some(&once), true, Consumer::Absent(off.to_owned())),
            (vec![], Some(&container), true, Consumer::Present),
            (vec![], Some(&unseen_readers), true, Consumer::Unknown(unseen)),
            (vec![], None, false, Consumer::Present),
        ] {
            let consumer = Consumer::from_readers(Ok(mappings.clone()), readers, is_stack);
            assert_eq!(consumer, expected, "{mappings:?} {readers:?} {is_stack}");
        }
    }

    #[test]
    fn a_mapping_that_is_being_enabled_counts_as_on() {
        let states = ["Enabled", "Enabling", "Creating", "Updating", "Disabling", "Disabled", "Deleting"];
        assert_eq!(states.map(|state| mapping(state).is_on()), [true, true, true, true, false, false, false]);
    }
}
