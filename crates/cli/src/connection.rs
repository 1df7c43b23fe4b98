//! Which account, region and queue: as in the AWS CLI, or by the stack's name.

mod deployment;
mod endpoint;
mod profile;
mod queue_address;
mod requests;
mod stack;
mod which;

use std::collections::BTreeMap;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::QueueAttributeName;
use clap::Args;
use redeliver_aws::sqs::{POLL_TIMEOUT, SqsQueue, client_config};
use redeliver_core::ports::Queue as _;
use thiserror::Error;

pub use endpoint::EndpointError;
pub(crate) use endpoint::is_on_this_machine;
pub use profile::ProfileError;
pub use queue_address::QueueAddress;
pub(crate) use requests::Requests;
pub use stack::Stack;
pub use which::{OneQueue, OpenQueue, Queues};

/// Where AWS is.
#[derive(Clone, Debug, Default, Args)]
pub struct Connection {
    /// A profile of the AWS configuration files: it counts more than credentials in the environment. For single sign-on,
    /// export its credentials and leave this out
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
    #[command(flatten)]
    which: OneQueue,
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
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The profile is not there.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Nobody says which region is meant, and names are the same in all of them.
    #[error("no region is set: add --region, or set AWS_REGION")]
    NoRegion,
    /// SQS refuses or does not answer.
    #[error("{queue}: {reason}; check the queue, the region, the account and your permission for {action}")]
    Queue {
        /// The queue, as it was named.
        queue: String,
        action: &'static str,
        /// What SQS says.
        reason: String,
    },
    /// There is no queue of this name.
    #[error(
        "there is no queue {name} in this account and region ({region}); check the name, --region and --profile"
    )]
    NoQueue { name: String, region: String },
    /// An ARN and `--region` say two things.
    #[error("{arn} is not in the region {region}: leave --region out")]
    Region {
        arn: String,
        /// `--region`.
        region: String,
    },
    /// No queue has the names of such a deployment.
    #[error(
        "there is no queue {name}-annotation or {name}-final-dlq; check --prefix, --stage, the region and the account, or name \
         the queues with --queue"
    )]
    Deployment {
        /// Prefix and stage.
        name: String,
    },
    /// It is not where messages end.
    #[error(
        "{url} has a redrive policy: each read counts as a receive, and after enough of them SQS moves its messages on; \
         name a queue without one, or read it all the same with --force"
    )]
    WouldMove { url: String },
    /// It cannot be a source queue.
    #[error(
        "{url} is a FIFO queue, which cannot delay single messages; the source queue is a standard queue"
    )]
    Fifo { url: String },
    /// CloudFormation refuses or does not answer.
    #[error(
        "stack {name}: {reason}; check the name, the region and your permission for cloudformation:DescribeStacks"
    )]
    Stack {
        name: String,
        /// What CloudFormation says.
        reason: String,
    },
    /// The stack is another one than ours.
    #[error(
        "{name} has no {output}: is it a redeliver stack? A construct in an app of your own is found by --prefix and --stage, any \
         queue by --queue"
    )]
    Output {
        name: String,
        /// The output that is missing.
        output: &'static str,
    },
}

/// A queue that exists, and what SQS says of it.
#[derive(Clone, Debug)]
pub struct KnownQueue {
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
        let queue = match (&self.which.queue, self.stack().await?) {
            (Some(address), _) => self.connection.find(address).await?,
            (None, Some(stack)) => self.connection.queue(stack.final_dlq_url()?).await?,
            (None, None) => unreachable!("clap asks for one of them"),
        };
        if queue.attributes.contains_key("RedrivePolicy") && !self.force {
            return Err(ConnectionError::WouldMove { url: queue.queue.url().to_owned() });
        }
        Ok(queue)
    }

    /// The stack, if one is named.
    ///
    /// # Errors
    /// If CloudFormation does not know it.
    pub async fn stack(&self) -> Result<Option<Stack>, ConnectionError> {
        self.which.stack(&self.connection).await
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
    /// If the endpoint is no URL, or the profile is not there.
    pub async fn sdk_config(&self) -> Result<SdkConfig, ConnectionError> {
        self.sdk_config_in(None).await
    }

    /// The same in the region of a queue, unless `--region` names one.
    ///
    /// # Errors
    /// See [`Connection::sdk_config`].
    pub async fn sdk_config_in(&self, region: Option<&str>) -> Result<SdkConfig, ConnectionError> {
        let region = self.region.clone().or_else(|| region.map(str::to_owned)).map(Region::new);
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(region) = &region {
            loader = loader.region(region.clone());
        }
        if let Some(url) = &self.endpoint_url {
            loader = loader.endpoint_url(url);
            if is_on_this_machine(url)? {
                loader = loader.credentials_provider(emulator_credentials());
            }
        }
        if let Some(profile) = &self.profile {
            profile::check(profile, &EnvConfigFiles::default()).await?;
            // The SDK's own chain would ask the environment first.
            let config = loader.profile_name(profile).load().await;
            let provider =
                SharedCredentialsProvider::new(profile::credentials(profile, config.region().cloned()));
            return in_some_region(config.into_builder().credentials_provider(provider).build());
        }
        in_some_region(loader.load().await)
    }

    /// A client of SQS, in this region unless `--region` names one.
    pub(crate) async fn sqs_client(
        &self,
        region: Option<&str>,
    ) -> Result<aws_sdk_sqs::Client, ConnectionError> {
        let config = self.sdk_config_in(region).await?;
        let config = client_config(&config, Some(POLL_TIMEOUT)).interceptor(Requests).build();
        Ok(aws_sdk_sqs::Client::from_conf(config))
    }

    /// A queue by its URL, name or ARN.
    ///
    /// # Errors
    /// If SQS does not know it, or does not answer.
    pub async fn find(&self, address: &QueueAddress) -> Result<KnownQueue, ConnectionError> {
        if let (QueueAddress::Arn { arn, region: there, .. }, Some(region)) = (address, &self.region)
            && there != region
        {
            return Err(ConnectionError::Region { arn: arn.clone(), region: region.clone() });
        }
        let client = self.sqs_client(address.region()).await?;
        let (name, account) = match address {
            QueueAddress::Url(url) => return known(client, url).await,
            QueueAddress::Name(name) => (name, None),
            QueueAddress::Arn { name, account, .. } => (name, Some(account.clone())),
        };
        let request = client.get_queue_url().queue_name(name).set_queue_owner_aws_account_id(account);
        let answer = request.send().await.map_err(|error| match deployment::is_missing(&error) {
            true => ConnectionError::NoQueue {
                name: address.to_string(),
                region: client.config().region().map(ToString::to_string).unwrap_or_default(),
            },
            false => ConnectionError::Queue {
                queue: address.to_string(),
                action: "sqs:GetQueueUrl",
                reason: said(&error),
            },
        })?;
        known(client, &answer.queue_url.unwrap_or_default()).await
    }

    /// A queue by its URL.
    ///
    /// # Errors
    /// If SQS does not know it, or does not answer.
    pub async fn queue(&self, url: &str) -> Result<KnownQueue, ConnectionError> {
        self.find(&QueueAddress::Url(url.to_owned())).await
    }

    /// A queue to send messages to.
    ///
    /// # Errors
    /// If it is a FIFO queue, or SQS does not know it, or does not answer.
    pub async fn source_queue(&self, address: &QueueAddress) -> Result<KnownQueue, ConnectionError> {
        if address.is_fifo() {
            return Err(ConnectionError::Fifo { url: address.to_string() });
        }
        self.find(address).await
    }

    #[cfg(test)]
    pub(crate) fn to_endpoint(url: &str) -> Self {
        let region = Some("eu-central-1".to_owned());
        Self { profile: None, region, endpoint_url: Some(url.to_owned()) }
    }

    /// The outputs of a stack.
    ///
    /// # Errors
    /// If CloudFormation does not know it, or does not answer.
    pub async fn stack(&self, name: &str) -> Result<Stack, ConnectionError> {
        let config = aws_sdk_cloudformation::config::Builder::from(&self.sdk_config().await?);
        let client = aws_sdk_cloudformation::Client::from_conf(config.interceptor(Requests).build());
        let failed = |reason: String| ConnectionError::Stack { name: name.to_owned(), reason };
        let answer = client.describe_stacks().stack_name(name).send().await;
        let stacks = answer.map_err(|error| failed(said(&error)))?.stacks.unwrap_or_default();
        let stack = stacks.into_iter().next().ok_or_else(|| failed("there is no such stack".to_owned()))?;
        let outputs = stack.outputs.unwrap_or_default().into_iter();
        let outputs = outputs.filter_map(|output| Some((output.output_key?, output.output_value?))).collect();
        Ok(Stack { name: name.to_owned(), outputs })
    }
}

/// AWS is asked in the region that somebody means; an endpoint of one's own is wherever it is.
fn in_some_region(config: SdkConfig) -> Result<SdkConfig, ConnectionError> {
    match (config.region(), config.endpoint_url()) {
        (Some(_), _) => Ok(config),
        (None, Some(_)) => Ok(config.into_builder().region(Region::from_static("us-east-1")).build()),
        (None, None) => Err(ConnectionError::NoRegion),
    }
}

async fn known(client: aws_sdk_sqs::Client, url: &str) -> Result<KnownQueue, ConnectionError> {
    let failed = |reason: String| ConnectionError::Queue {
        queue: url.to_owned(),
        action: "sqs:GetQueueAttributes",
        reason,
    };
    let request = client.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
    let attributes = request.send().await.map_err(|error| failed(said(&error)))?.attributes;
    let attributes: BTreeMap<_, _> = attributes
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| (name.as_str().to_owned(), value))
        .collect();
    let arn = attributes.get("QueueArn").ok_or_else(|| failed("the answer has no ARN".to_owned()))?;
    Ok(KnownQueue { queue: SqsQueue::new(client, url, arn.as_str()), attributes })
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
