//! Failed asynchronous invocations: the handler and the annotator behind their event source mappings.

use std::sync::Arc;
use std::time::Duration;

use redeliver_tests::async_lambda::{AsyncLambda, ERROR_CANARY, InvokedEvent};
use redeliver_tests::esm::EventSourceMapping;
use redeliver_tests::ministack::Ministack;
use redeliver_tests::runtime_api::LambdaFunction;
use redeliver_tests::settings::{PATIENCE, bundle_path};
use redeliver_tests::topology::TestTopology;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{AnnotatedRecord, final_records, new_topology};

const ORDERS: &str = "arn:aws:lambda:eu-west-1:000000000000:function:orders";
const TIMEOUT: Duration = Duration::from_secs(20);
/// Two retries, each after a delay of three seconds, which takes one hop.
const POLICY: &str = r#"{"long_delays":true,"max_attempts":2,"max_age_seconds":3600,"backoff":{"kind":"fixed","delay_seconds":3,"jitter":"none"}}"#;

/// The queues of a topology, with the intermediate DLQ as the retry queue, and the two functions.
struct AsyncSetup {
    topology: TestTopology,
    lambda: AsyncLambda,
    mappings: [Arc<EventSourceMapping>; 2],
    _pollers: JoinSet<()>,
}

impl AsyncSetup {
    async fn start(fails: fn(&Value) -> bool) -> Self {
        let topology = new_topology().await;
        let (client, retry) = (topology.client.clone(), topology.intermediate.clone());
        let lambda = AsyncLambda::start(client.clone(), retry.clone(), fails).await;
        let endpoint = ("AWS_ENDPOINT_URL", Ministack::shared().endpoint_url());
        let function = |name, variables: Vec<(&str, String)>| {
            // The most verbose log level: the log is searched for the payload and for the function's error message.
            let loud = ["RUST_LOG", "AWS_LAMBDA_LOG_LEVEL"].map(|name| (name, "TRACE".to_owned()));
            let loud = loud.into_iter().chain([("LOG_DETAIL", "messages".to_owned())]);
            let variables = variables.into_iter().chain(loud);
            let variables = variables.map(|(name, value)| (name.to_owned(), value));
            LambdaFunction::new(name, bundle_path(name), variables)
        };
        let handler = function(
            "async-retry-handler",
            vec![
                endpoint.clone(),
                ("AWS_ENDPOINT_URL_LAMBDA", lambda.endpoint_url().to_owned()),
                ("RETRY_QUEUE_URL", retry.url.clone()),
                ("ANNOTATION_QUEUE_URL", topology.annotation.url.clone()),
                ("FUNCTION_ARNS", ORDERS.to_owned()),
                ("RETRY_POLICY", POLICY.to_owned()),
            ],
        );
        let annotator = function(
            "final-dlq-annotator",
            vec![endpoint, ("FINAL_DLQ_URL", topology.final_dlq.url.clone())],
        );
        let mapping = |queue, function| EventSourceMapping::new(client.clone(), queue, function, TIMEOUT);
        let mappings =
            [mapping(retry, handler), mapping(topology.annotation.clone(), annotator)].map(Arc::new);
        let mut pollers = JoinSet::new();
        for mapping in &mappings {
            let mapping = Arc::clone(mapping);
            pollers.spawn(async move { mapping.poll_forever().await });
        }
        Self { topology, lambda, mappings, _pollers: pollers }
    }

    async fn wait_until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !condition().await {
            assert!(Instant::now() < give_up, "{what}\n{}", self.log());
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn final_record(&self) -> AnnotatedRecord {
        let client = &self.topology.client;
        self.wait_until("a final record", async || {
            self.topology.final_dlq.message_counts(client).await[0] == 1
        })
        .await;
        final_records(&self.topology).await.remove(0)
    }

    fn log(&self) -> String {
        let output = self.mappings.iter().flat_map(|mapping| mapping.function().output_lines());
        output.map(|line| line.text + "\n").collect()
    }

    fn payloads(&self) -> Vec<String> {
        self.lambda.invoked_events().into_iter().map(|InvokedEvent { payload, .. }| payload).collect()
    }
}

fn attempt_number(event: &Value) -> u64 {
    event["_retry_metadata"]["attempt"].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn a_function_that_fails_twice_is_reinvoked_after_the_delay() {
    let setup = AsyncSetup::start(|event| attempt_number(event) < 2).await;
    let arn = format!("{ORDERS}:$LATEST");
    let payload = r#"{ "id":"7", "n":1e400, "é":"\u00e9" }"#;
    setup.lambda.throttle_next(1);
    setup.lambda.invoke_async(&arn, payload).await;
    setup.wait_until("three invocations", async || setup.lambda.invoked_events().len() == 3).await;

    let invoked = setup.lambda.invoked_events();
    let initial = invoked[0].at_millis / 1000;
    let retry = |attempt: u32| {
        format!(
            r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial}}},"_original_payload":{payload}}}"#
        )
    };
    assert_eq!(setup.payloads(), [payload.to_owned(), retry(1), retry(2)], "{}", setup.log());
    assert!(invoked.iter().all(|invoked| invoked.function_arn == arn), "{invoked:?}");
    for pair in invoked.windows(2) {
        assert!(pair[1].at_millis - pair[0].at_millis >= 3000, "early: {invoked:?}");
    }
    assert!(final_records(&setup.topology).await.is_empty());
    let log = setup.log();
    for event in ["hopped", "retry_scheduled", "not_confirmed"] {
        assert!(log.contains(&format!("\"event\":\"{event}\"")), "{event} in {log}");
    }
    assert!(!log.contains(ERROR_CANARY) && !log.contains("1e400"), "{log}");
}

#[tokio::test]
async fn an_invocation_that_always_fails_is_given_up_and_explained() {
    let setup = AsyncSetup::start(|_| true).await;
    setup.lambda.invoke_async(&format!("{ORDERS}:$LATEST"), r#"{"id":"7"}"#).await;
    let record = setup.final_record().await;

    assert_eq!(setup.lambda.invoked_events().len(), 3, "the first call and two retries\n{}", setup.log());
    assert_eq!(record.error_type, "RETRY_ATTEMPT_EXCEEDED");
    let details = format!("Max retry attempts 2 exceeded; last error OrderLocked: {ERROR_CANARY}");
    assert_eq!(record.error_details, details);
    assert_eq!(record.dead_letter["stage"], "async-retry-handler");
    assert_eq!(record.dead_letter["attempts"], 2);
    assert_eq!(record.dead_letter["source_queue_arn"], setup.topology.intermediate.arn);
    assert_eq!(record.body["requestPayload"]["_original_payload"], json!({"id": "7"}));
    let initial = &record.body["requestPayload"]["_retry_metadata"]["initial_timestamp"];
    let first_sent = chrono::DateTime::from_timestamp(initial.as_i64().unwrap(), 0).unwrap();
    let expected = first_sent.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    assert_eq!(record.dead_letter["first_sent_time"], expected);
    assert!(!setup.log().contains(ERROR_CANARY), "{}", setup.log());
}

#[tokio::test]
async fn a_function_that_is_not_listed_is_not_invoked() {
    let setup = AsyncSetup::start(|_| true).await;
    setup.lambda.invoke_async(&ORDERS.replace("orders", "payments"), "[]").await;
    let record = setup.final_record().await;
    assert_eq!(record.error_type, "NON_RETRYABLE_ERROR");
    assert!(record.error_details.starts_with("/requestContext/functionArn is not in FUNCTION_ARNS"));
    assert_eq!(setup.lambda.invoked_events().len(), 1, "only the first call\n{}", setup.log());
}
