//! A test's four queues and its three running functions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, SendMessageBatchRequestEntry};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::esm::EventSourceMapping;
use crate::runtime_api::LambdaFunction;
use crate::runtimes::{LambdaProgram, Language};
use crate::settings::{PATIENCE, bundle_path};
use crate::sqs::{TestQueue, emulator_client, unique_name};

/// The source queue, intermediate DLQ, annotation queue and final DLQ, with the stack's `maxReceiveCount` values.
pub struct TestTopology {
    /// The harness's own client.
    pub client: Client,
    /// The producers' queue.
    pub source: TestQueue,
    /// The queue for failed messages.
    pub intermediate: TestQueue,
    /// The queue for verdicts.
    pub annotation: TestQueue,
    /// The queue for messages that were given up.
    pub final_dlq: TestQueue,
    endpoint_url: String,
}

/// The setup of the three functions.
#[derive(Clone)]
pub struct TopologySetup {
    /// The message-processor's program.
    pub processor: PathBuf,
    /// The message-processor's variables; they add to its queue variables or override them.
    pub processor_variables: FunctionVariables,
    /// Variables for all three functions.
    pub variables: FunctionVariables,
    /// `RETRY_POLICY`.
    pub policy: &'static str,
    /// The timeout of the three functions.
    pub timeout: Duration,
    /// The functions' SQS endpoint, if not the harness's own.
    pub endpoint_url: Option<String>,
}

/// The running functions; they stop when dropped.
pub struct RunningTopology {
    /// Source queue → message-processor.
    pub processor: Arc<EventSourceMapping>,
    /// Intermediate DLQ → failed-message-processor.
    pub retrier: Arc<EventSourceMapping>,
    /// Annotation queue → final-dlq-annotator.
    pub annotator: Arc<EventSourceMapping>,
    pollers: JoinSet<()>,
}

type FunctionVariables = Vec<(&'static str, String)>;

/// Two quick retries, a second apart.
pub const QUICK_POLICY: &str =
    r#"{"max_attempts":2,"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"none"}}"#;
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(20);

impl TopologySetup {
    /// Returns a setup whose message-processor has an HTTP target.
    #[must_use]
    pub fn for_http_target(target: &str) -> Self {
        Self {
            processor: bundle_path("message-processor"),
            processor_variables: vec![("TARGET", target.to_owned())],
            policy: QUICK_POLICY,
            // Tests look up each message's fate in the log, and search the log for secrets.
            variables: vec![("LOG_DETAIL", "messages".to_owned())],
            timeout: FUNCTION_TIMEOUT,
            endpoint_url: None,
        }
    }

    /// Returns a setup whose handler, in this language, follows each message's `data.script` and writes its calls to
    /// the file `journal`.
    #[must_use]
    pub fn for_script(language: Language, journal: &Path) -> Self {
        let LambdaProgram { path: processor, variables } = language.scripted_program();
        let journal = ("SCRIPT_JOURNAL", journal.display().to_string());
        let processor_variables = variables.into_iter().chain([journal]).collect();
        Self { processor, processor_variables, ..Self::for_http_target("") }
    }
}

impl TestTopology {
    /// Creates the queues.
    pub async fn create(endpoint_url: &str, label: &str) -> Self {
        let client = emulator_client(endpoint_url);
        let name = unique_name(label);
        let final_dlq = TestQueue::create(&client, &format!("{name}-final-dlq"), None).await;
        let annotation =
            TestQueue::create(&client, &format!("{name}-annotation"), Some((&final_dlq, 110))).await;
        let intermediate =
            TestQueue::create(&client, &format!("{name}-intermediate-dlq"), Some((&annotation, 100))).await;
        let source = TestQueue::create(&client, &format!("{name}-source"), Some((&intermediate, 1))).await;
        Self { client, source, intermediate, annotation, final_dlq, endpoint_url: endpoint_url.to_owned() }
    }

    /// Sends bodies to the source queue as one batch of at most 10, and returns their SQS message ids.
    ///
    /// # Panics
    /// If the emulator refuses a message.
    pub async fn send_batch<const N: usize>(&self, bodies: [String; N]) -> [String; N] {
        self.send_all(&bodies).await.try_into().expect("one id for each body")
    }

    /// Sends any number of bodies up to 10, like [`Self::send_batch`].
    ///
    /// # Panics
    /// If the emulator refuses a message.
    pub async fn send_all(&self, bodies: &[String]) -> Vec<String> {
        let entries = bodies.iter().enumerate().map(|(index, body)| {
            let entry = SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(body);
            entry.build().expect("id and body are set")
        });
        let request = self.client.send_message_batch().queue_url(&self.source.url);
        let sent = request.set_entries(Some(entries.collect())).send().await.expect("the queue answers");
        assert!(sent.failed.is_empty(), "not sent: {:?}", sent.failed);
        sent.successful.into_iter().map(|entry| entry.message_id).collect()
    }

    /// Starts the three functions behind their event source mappings.
    #[must_use]
    pub fn start_functions(&self, setup: &TopologySetup) -> RunningTopology {
        let source = ("SOURCE_QUEUE_URL", self.source.url.clone());
        let intermediate = ("INTERMEDIATE_DLQ_URL", self.intermediate.url.clone());
        let annotation = ("ANNOTATION_QUEUE_URL", self.annotation.url.clone());
        let policy = ("RETRY_POLICY", setup.policy.to_owned());
        let processor = [source.clone(), intermediate.clone(), annotation.clone(), policy.clone()]
            .into_iter()
            .chain(setup.processor_variables.clone());
        let retrier = [source, intermediate, annotation, policy];
        let annotator = [("FINAL_DLQ_URL", self.final_dlq.url.clone())];
        RunningTopology::start(
            self.start_mapping(
                setup,
                &self.source,
                "message-processor",
                setup.processor.clone(),
                processor.collect(),
            ),
            self.start_bundle_mapping(setup, &self.intermediate, "failed-message-processor", retrier.into()),
            self.start_bundle_mapping(setup, &self.annotation, "final-dlq-annotator", annotator.into()),
        )
    }

    /// Waits until the three inner queues are empty.
    ///
    /// # Panics
    /// After 15 minutes; the message contains the depths of the queues and the log.
    pub async fn wait_until_settled(&self, running: &RunningTopology) {
        let give_up = Instant::now() + PATIENCE;
        let mut quiet = 0;
        // A message stays in its queue until its copy is confirmed in the next, but the three queues are not counted at
        // the same instant.
        while quiet < 3 {
            let depths = self.queue_depths().await;
            quiet = if depths.values().flatten().sum::<u64>() == 0 { quiet + 1 } else { 0 };
            assert!(Instant::now() < give_up, "not settled: {depths:?}\n{}", running.full_log());
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Receives the messages in the final DLQ; they stay in flight there.
    ///
    /// # Panics
    /// If the emulator does not answer.
    pub async fn final_records(&self) -> Vec<Message> {
        let mut records = Vec::new();
        loop {
            let request =
                self.client.receive_message().queue_url(&self.final_dlq.url).max_number_of_messages(10);
            let request = request.message_attribute_names("All").visibility_timeout(3600);
            let request = request.message_system_attribute_names(MessageSystemAttributeName::All);
            let messages = request.send().await.expect("the queue answers").messages.unwrap_or_default();
            if messages.is_empty() {
                return records;
            }
            records.extend(messages);
        }
    }

    fn start_bundle_mapping(
        &self,
        setup: &TopologySetup,
        queue: &TestQueue,
        name: &str,
        variables: FunctionVariables,
    ) -> Arc<EventSourceMapping> {
        self.start_mapping(setup, queue, name, bundle_path(name), variables)
    }

    fn start_mapping(
        &self,
        setup: &TopologySetup,
        queue: &TestQueue,
        name: &str,
        program: PathBuf,
        variables: FunctionVariables,
    ) -> Arc<EventSourceMapping> {
        let endpoint = setup.endpoint_url.as_ref().unwrap_or(&self.endpoint_url);
        let variables = variables.into_iter().chain([("AWS_ENDPOINT_URL", endpoint.clone())]);
        let variables =
            variables.chain(setup.variables.clone()).map(|(name, value)| (name.to_owned(), value));
        let function = LambdaFunction::new(name, program, variables);
        Arc::new(EventSourceMapping::new(self.client.clone(), queue.clone(), function, setup.timeout))
    }

    async fn queue_depths(&self) -> BTreeMap<&'static str, [u64; 3]> {
        let queues = [
            ("source", &self.source),
            ("intermediate", &self.intermediate),
            ("annotation", &self.annotation),
        ];
        let mut depths = BTreeMap::new();
        for (name, queue) in queues {
            depths.insert(name, queue.message_counts(&self.client).await);
        }
        depths
    }
}

impl RunningTopology {
    fn start(
        processor: Arc<EventSourceMapping>,
        retrier: Arc<EventSourceMapping>,
        annotator: Arc<EventSourceMapping>,
    ) -> Self {
        let mut pollers = JoinSet::new();
        for mapping in [&processor, &retrier, &annotator] {
            let mapping = Arc::clone(mapping);
            pollers.spawn(async move { mapping.poll_forever().await });
        }
        Self { processor, retrier, annotator, pollers }
    }

    /// Stops polling and aborts running invocations.
    pub async fn stop_polling(&mut self) {
        self.pollers.shutdown().await;
    }

    /// Returns the three event source mappings.
    #[must_use]
    pub fn mappings(&self) -> [&EventSourceMapping; 3] {
        [&self.processor, &self.retrier, &self.annotator]
    }

    /// Returns all output and outcomes, for failure messages.
    #[must_use]
    pub fn full_log(&self) -> String {
        let mut log = String::new();
        for mapping in self.mappings() {
            let name = mapping.function().name();
            for invocation in mapping.invocations() {
                log += &format!("{name}: {} records: {:?}\n", invocation.records.len(), invocation.outcome);
            }
            for line in mapping.function().output_lines() {
                log += &format!("{name}: {}\n", line.text);
            }
        }
        log
    }
}
