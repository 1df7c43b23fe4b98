//! The SDK's delays, observed from outside: its own handler loop is called as the durable execution service calls it,
//! with a stub of the checkpoint API. Each step always fails; the delay before its next attempt is in its RETRY
//! checkpoint.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, Mutex};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_durable_execution_sdk::builders::RetryStrategyConfig;
use aws_durable_execution_sdk::lambda_runtime::{Context, LambdaEvent};
use aws_durable_execution_sdk::{BoxError, DurableContext, OperationError, Options, wrap};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use serde_json::{Value, json};

/// Returns, for each strategy, the delay in seconds before each retry until the step gives up.
///
/// All strategies are concurrent steps of one execution, with one invocation per attempt.
pub(crate) async fn durable_delays(
    strategies: impl IntoIterator<Item = RetryStrategyConfig>,
) -> Vec<Vec<u32>> {
    let strategies: Arc<[_]> = strategies.into_iter().collect();
    let mut delays = vec![Vec::new(); strategies.len()];
    let service = CheckpointService::default();
    let handler = {
        let strategies = Arc::clone(&strategies);
        move |(): (), context| run_failing_steps(Arc::clone(&strategies), context)
    };
    let function = wrap(
        handler,
        Options::builder().sdk_config(service.config()).checkpoint_batching(true).build().unwrap(),
    );
    let mut steps = BTreeMap::new();
    loop {
        let event =
            LambdaEvent::new(serde_json::from_value(invocation_input(&steps)).unwrap(), Context::default());
        let answer = serde_json::to_value(function(event).await.unwrap()).unwrap();
        for update in service.take_updates() {
            let name = update["Name"].as_str().unwrap().to_owned();
            let index: Option<usize> = name.parse().ok();
            let status = match update["Action"].as_str().unwrap() {
                "START" => continue,
                "RETRY" if name == CAUSE => "FAILED", // permanently
                "RETRY" => {
                    let delay = update["StepOptions"]["NextAttemptDelaySeconds"].as_u64().unwrap();
                    delays[index.unwrap()].push(u32::try_from(delay).unwrap());
                    "READY" // due immediately
                }
                "FAIL" => "FAILED",
                other => panic!("{other}"),
            };
            let retries = index.map_or(0, |index| delays[index].len());
            steps.insert(name, checkpointed_step(&update, status, retries));
        }
        match answer["Status"].as_str().unwrap() {
            "PENDING" => {}
            "SUCCEEDED" => break delays,
            other => panic!("{other}: {answer}"),
        }
    }
}

/// Acts as the user's handler, with one step per strategy. It succeeds although all steps fail.
async fn run_failing_steps(
    strategies: Arc<[RetryStrategyConfig]>,
    context: DurableContext,
) -> Result<(), BoxError> {
    let cause = context.step(|_| async { Err::<(), BoxError>("down".into()) }).name(CAUSE).await;
    let down = FailingOperation(Arc::new(cause.unwrap_err()));
    let mut steps = Vec::new();
    for (index, strategy) in strategies.iter().enumerate() {
        let down = down.clone();
        let step = context.step(|_| async { Err::<(), BoxError>(down.into()) });
        steps.push(step.name(index.to_string()).retry_strategy_config(strategy.clone()).spawn());
    }
    for step in steps {
        step.await.unwrap_err();
    }
    Ok(())
}

/// The step whose failure is the cause of all other failures. The SDK captures a stack trace of 64 lines for each
/// error, which takes most of the time, unless one of its causes has a trace. This step's cause has one, a single line
/// from the service.
const CAUSE: &str = "cause";

#[derive(Clone, Debug)]
struct FailingOperation(Arc<OperationError>);

impl Display for FailingOperation {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("down")
    }
}

impl Error for FailingOperation {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// Returns the event with which the service invokes the function.
fn invocation_input(steps: &BTreeMap<String, Value>) -> Value {
    let execution = json!({
        "Id": "execution", "Type": "EXECUTION", "Status": "STARTED",
        "ExecutionDetails": {"InputPayload": "null"},
    });
    let operations: Vec<_> = [&execution].into_iter().chain(steps.values()).collect();
    json!({
        "DurableExecutionArn": "arn:aws:lambda:eu-central-1:000000000000:function:f:1/durable-execution/e/1",
        "CheckpointToken": "token",
        "InitialExecutionState": {"Operations": operations},
    })
}

/// Returns the service's record of a step after an update.
fn checkpointed_step(update: &Value, status: &str, retries: usize) -> Value {
    json!({
        "Id": update["Id"], "Type": update["Type"], "SubType": update["SubType"], "Name": update["Name"],
        "Status": status,
        "StepDetails": {"Attempt": retries, "Error": {"ErrorMessage": "down", "StackTrace": ["down"]}},
    })
}

/// The checkpoint API. It records every update.
#[derive(Clone, Debug, Default)]
struct CheckpointService {
    updates: Arc<Mutex<Vec<Value>>>,
}

impl CheckpointService {
    fn config(&self) -> SdkConfig {
        let connector = SharedHttpConnector::new(self.clone());
        let credentials = Credentials::new("test", "test", None, None, "tests");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build()
    }

    fn take_updates(&self) -> Vec<Value> {
        std::mem::take(&mut self.updates.lock().unwrap())
    }
}

impl HttpConnector for CheckpointService {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let checkpoint: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        self.updates.lock().unwrap().extend(checkpoint["Updates"].as_array().unwrap().iter().cloned());
        let answer = r#"{"CheckpointToken":"token"}"#;
        HttpConnectorFuture::ready(Ok(HttpResponse::new(200.try_into().unwrap(), answer.into())))
    }
}
