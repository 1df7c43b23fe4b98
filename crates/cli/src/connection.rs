//! Which account, region and queue: as in the AWS CLI, or by the stack's name.

use std::collections::BTreeMap;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::Credentials;
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::QueueAttributeName;
use clap::Args;
use redeliver_aws::sqs::{POLL_TIMEOUT, SqsQueue, client_config};
use redeliver_aws::targets::{TargetAddress, is_loopback};
use thiserror::Error;

/// Where AWS is.
#[derive(Clone, Debug, Default, Args)]
pub struct Connection {
    /// A profile of the AWS configuration files; for single sign-on, export its credentials first
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The AWS region; by default the profile's, or `AWS_REGION`
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Another endpoint than AWS's, e.g. an emulator's; by default `AWS_ENDPOINT_URL`
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,
}

/// Which DLQ.
#[derive(Clone, Debug, Args)]
pub struct DeadLetterQueue {
    /// The URL of a DLQ, of this project or not
    #[arg(long, value_name = "URL", required_unless_present = "stack", conflicts_with = "stack")]
    queue_url: Option<String>,
    /// The name of a redeliver stack: its final DLQ
    #[arg(long, value_name = "NAME")]
    stack: Option<String>,
    /// Read the queue although it has a redrive policy: reading counts as receiving, and may move its messages on
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Why a queue cannot be used. The command ends with exit code 2.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// The endpoint is no URL.
    #[error("--endpoint-url {0}")]
    Endpoint(String),
    /// SQS refuses or does not answer.
    #[error("{url}: {reason}; check the URL, the region and your permission for sqs:GetQueueAttributes")]
    Queue {
        /// The queue's URL.
        url: String,
        /// What SQS says.
        reason: String,
    },
    /// It is not where messages end.
    #[error(
        "{url} has a redrive policy: each read counts as a receive, and after enough of them SQS moves its messages on; \
         name a queue without one, or read it all the same with --force"
    )]
    WouldMove {
        /// The queue's URL.
        url: String,
    },
    /// It cannot be a source queue.
    #[error(
        "{url} is a FIFO queue, which cannot delay single messages; the source queue is a standard queue"
    )]
    Fifo {
        /// The queue's URL.
        url: String,
    },
    /// CloudFormation refuses or does not answer.
    #[error(
        "stack {name}: {reason}; check the name, the region and your permission for cloudformation:DescribeStacks"
    )]
    Stack {
        /// The stack's name.
        name: String,
        /// What CloudFormation says.
        reason: String,
    },
    /// The stack is another one than ours.
    #[error(
        "stack {name} has no output {output}: is it a redeliver stack? Otherwise give the queues' URLs themselves"
    )]
    Output {
        /// The stack's name.
        name: String,
        /// The output that is missing.
        output: &'static str,
    },
}

/// A queue that exists, and what SQS says of it.
#[derive(Clone, Debug)]
pub struct KnownQueue {
    /// The queue.
    pub queue: SqsQueue,
    /// All its attributes.
    pub attributes: BTreeMap<String, String>,
}

impl DeadLetterQueue {
    /// Finds the queue.
    ///
    /// # Errors
    /// If there is none, or it may not be read.
    pub async fn open(&self) -> Result<KnownQueue, ConnectionError> {
        let url = match (&self.queue_url, self.stack().await?) {
            (_, Some(stack)) => stack.final_dlq_url()?.to_owned(),
            (url, None) => url.clone().unwrap_or_default(),
        };
        let queue = self.connection.queue(&url).await?;
        if queue.attributes.contains_key("RedrivePolicy") && !self.force {
            return Err(ConnectionError::WouldMove { url });
        }
        Ok(queue)
    }

    /// The stack, if one is named.
    ///
    /// # Errors
    /// If CloudFormation does not know it.
    pub async fn stack(&self) -> Result<Option<Stack>, ConnectionError> {
        match &self.stack {
            Some(name) => self.connection.stack(name).await.map(Some),
            None => Ok(None),
        }
    }

    /// Where AWS is.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Connection {
    /// Credentials, region and endpoint.
    ///
    /// # Errors
    /// If the endpoint is no URL.
    pub async fn sdk_config(&self) -> Result<SdkConfig, ConnectionError> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(profile) = &self.profile {
            loader = loader.profile_name(profile);
        }
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(url) = &self.endpoint_url {
            let address = TargetAddress::parse(url, true)
                .map_err(|reason| ConnectionError::Endpoint(reason.to_string()))?;
            loader = loader.endpoint_url(url);
            if matches!(&address, TargetAddress::Url(url) if is_loopback(url)) {
                loader = loader.credentials_provider(emulator_credentials());
            }
        }
        let config = loader.load().await;
        Ok(match config.region() {
            Some(_) => config,
            None => config.into_builder().region(Region::from_static("us-east-1")).build(),
        })
    }

    /// A queue by its URL.
    ///
    /// # Errors
    /// If SQS does not know it, or does not answer.
    pub async fn queue(&self, url: &str) -> Result<KnownQueue, ConnectionError> {
        let config = client_config(&self.sdk_config().await?, Some(POLL_TIMEOUT)).build();
        let client = aws_sdk_sqs::Client::from_conf(config);
        let failed = |reason: String| ConnectionError::Queue { url: url.to_owned(), reason };
        let answer = client
            .get_queue_attributes()
            .queue_url(url)
            .attribute_names(QueueAttributeName::All)
            .send()
            .await
            .map_err(|error| failed(said(&error)))?;
        let attributes: BTreeMap<_, _> = answer
            .attributes
            .unwrap_or_default()
            .into_iter()
            .map(|(name, value)| (name.as_str().to_owned(), value))
            .collect();
        let arn = attributes.get("QueueArn").ok_or_else(|| failed("the answer has no ARN".to_owned()))?;
        Ok(KnownQueue { queue: SqsQueue::new(client, url, arn.as_str()), attributes })
    }

    /// A queue to send messages to, by its URL.
    ///
    /// # Errors
    /// If it is a FIFO queue, or SQS does not know it, or does not answer.
    pub async fn source_queue(&self, url: &str) -> Result<KnownQueue, ConnectionError> {
        if url.ends_with(".fifo") {
            return Err(ConnectionError::Fifo { url: url.to_owned() });
        }
        self.queue(url).await
    }

    /// The outputs of a stack.
    ///
    /// # Errors
    /// If CloudFormation does not know it, or does not answer.
    pub async fn stack(&self, name: &str) -> Result<Stack, ConnectionError> {
        let client = aws_sdk_cloudformation::Client::new(&self.sdk_config().await?);
        let failed = |reason: String| ConnectionError::Stack { name: name.to_owned(), reason };
        let answer = client.describe_stacks().stack_name(name).send().await;
        let stacks = answer.map_err(|error| failed(said(&error)))?.stacks.unwrap_or_default();
        let stack = stacks.into_iter().next().ok_or_else(|| failed("there is no such stack".to_owned()))?;
        let outputs = stack.outputs.unwrap_or_default().into_iter();
        let outputs = outputs.filter_map(|output| Some((output.output_key?, output.output_value?))).collect();
        Ok(Stack { name: name.to_owned(), outputs })
    }
}

/// A stack of ours.
#[derive(Clone, Debug)]
pub struct Stack {
    name: String,
    outputs: BTreeMap<String, String>,
}

impl Stack {
    /// The URL of the queue that producers send to.
    ///
    /// # Errors
    /// If the stack has no such output.
    pub fn source_queue_url(&self) -> Result<&str, ConnectionError> {
        self.output("SourceQueueUrl")
    }

    /// The URL of the queue where failed messages wait for their retry to be scheduled; with the strategy `visibility` there
    /// is none.
    #[must_use]
    pub fn intermediate_dlq_url(&self) -> Option<&str> {
        self.output("IntermediateDlqUrl").ok()
    }

    /// The URL of the queue where given-up messages wait for their annotation.
    ///
    /// # Errors
    /// If the stack has no such output.
    pub fn annotation_queue_url(&self) -> Result<&str, ConnectionError> {
        self.output("AnnotationQueueUrl")
    }

    /// The URL of the queue of what was given up.
    ///
    /// # Errors
    /// If the stack has no such output.
    pub fn final_dlq_url(&self) -> Result<&str, ConnectionError> {
        self.output("FinalDlqUrl")
    }

    fn output(&self, output: &'static str) -> Result<&str, ConnectionError> {
        let missing = || ConnectionError::Output { name: self.name.clone(), output };
        self.outputs.get(output).map(String::as_str).ok_or_else(missing)
    }
}

/// An emulator on this machine believes anybody: nobody should have to look for credentials for it.
pub(crate) fn emulator_credentials() -> CredentialsProviderChain {
    let anybody = Credentials::new("test", "test", None, None, "emulator");
    CredentialsProviderChain::first_try("Environment", EnvironmentVariableCredentialsProvider::new())
        .or_else("Emulator", anybody)
}

/// An AWS error in words: the service's code and text where it answered, else the whole chain of causes.
pub(crate) fn said<E>(error: &E) -> String
where
    E: ProvideErrorMetadata + std::error::Error,
{
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => causes(error),
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
