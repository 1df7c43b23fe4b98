//! Connects to an account and region, chosen as in the AWS CLI, and finds queues there.

use std::collections::{BTreeMap, HashMap};

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_sqs::types::QueueAttributeName;
use clap::Args;
use redeliver_aws::sqs::{POLL_TIMEOUT, SqsQueue, client_config};
use redeliver_core::ports::Queue as _;
use redeliver_core::strategy::Role;

use super::aws_error::is_missing_queue;
use super::credentials::SharedCredentials;
use super::queue_args::OneQueue;
use super::request_log::RequestLog;
use super::{QueueAddress, is_local_endpoint, profile};
use crate::CommandFailure;
use crate::next_command::option_words;
use crate::terminal::help::CONNECT;

/// The options that choose the AWS account, region and endpoint.
#[derive(Clone, Debug, Default, Args)]
pub struct AwsConnection {
    /// A profile from the AWS configuration files
    ///
    /// It takes precedence over credentials in the environment.
    #[arg(long, help_heading = CONNECT, value_name = "NAME")]
    profile: Option<String>,
    /// The AWS region [default: the profile's, or `AWS_REGION`]
    #[arg(long, help_heading = CONNECT, value_name = "REGION")]
    region: Option<String>,
    /// An endpoint other than AWS [default: `AWS_ENDPOINT_URL`]
    ///
    /// For example, the endpoint of an AWS emulator.
    #[arg(long, help_heading = CONNECT, value_name = "URL")]
    endpoint_url: Option<String>,
    /// Not an option: the credentials loaded with these options.
    #[arg(skip)]
    credentials: SharedCredentials,
}

/// The options that name a DLQ.
#[derive(Clone, Debug, Args)]
pub struct DeadLetterQueue {
    #[command(flatten)]
    selection: OneQueue,
    /// Read the queue even if it has a redrive policy
    ///
    /// Each read counts as a receive, so SQS may move messages to another queue.
    #[arg(long, help_heading = CONNECT)]
    force: bool,
    #[command(flatten)]
    pub connection: AwsConnection,
}

/// An existing queue, with its attributes.
#[derive(Clone, Debug)]
pub struct KnownQueue {
    pub queue: SqsQueue,
    pub attributes: BTreeMap<String, String>,
}

impl DeadLetterQueue {
    /// Creates the options for a DLQ, without `--force`.
    pub fn new(selection: OneQueue, connection: AwsConnection) -> Self {
        Self { selection, force: false, connection }
    }

    /// Finds the DLQ and reads its attributes.
    ///
    /// # Errors
    /// If it does not exist or cannot be read, or if it has a redrive policy, unless `--force` is given.
    pub async fn open(&self) -> Result<KnownQueue, CommandFailure> {
        let queue = self
            .connection
            .find_queue(&self.selection.find_address(&self.connection, Role::FinalDlq).await?)
            .await?;
        if queue.attributes.contains_key("RedrivePolicy") && !self.force {
            return Err(format!(
                "{} has a redrive policy: each read counts as a receive, and after enough receives SQS moves the \
                 messages on; name a queue without one, or add --force",
                queue.queue.url()
            )
            .into());
        }
        Ok(queue)
    }

    /// Returns the given options, as command-line arguments.
    pub fn to_arguments(&self) -> Vec<String> {
        let force = self.force.then(|| "--force".to_owned());
        self.selection.to_arguments().into_iter().chain(force).chain(self.connection.to_arguments()).collect()
    }

    /// Returns the options that select the queue's deployment and account, for a command about the deployment; `None`
    /// if a queue is named.
    pub fn deployment_arguments(&self) -> Option<Vec<String>> {
        let arguments = self.selection.to_arguments();
        self.belongs_to_deployment()
            .then(|| arguments.into_iter().chain(self.connection.to_arguments()).collect())
    }

    /// Returns true if the DLQ is selected by its deployment, so that its messages come from the deployment's own
    /// queues.
    pub fn belongs_to_deployment(&self) -> bool {
        self.selection.deployment_name().is_some()
    }

    /// Finds the source queue of this DLQ's deployment.
    pub async fn find_source_address(&self) -> Result<QueueAddress, CommandFailure> {
        self.selection.find_address(&self.connection, Role::Source).await
    }
}

impl AwsConnection {
    /// Creates the options for one profile and region, for a command that reads several of them.
    pub fn from_parts(profile: Option<String>, region: Option<String>, endpoint_url: Option<String>) -> Self {
        Self { profile, region, endpoint_url, credentials: SharedCredentials::default() }
    }

    /// Returns the options for the same account in a different region. The credentials are loaded once for both.
    pub fn in_region(&self, region: Option<String>) -> Self {
        Self { region, ..self.clone() }
    }

    /// Returns the given options with their names, for a command that should use the same account.
    pub fn given_options(&self) -> Vec<(&'static str, &str)> {
        let Self { profile, region, endpoint_url, credentials: _ } = self;
        let options = [("profile", profile), ("region", region), ("endpoint-url", endpoint_url)];
        options.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    /// Returns the given options, as command-line arguments.
    pub fn to_arguments(&self) -> Vec<String> {
        option_words(self.given_options())
    }

    /// Returns the profile, if it was given.
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// Returns the region, if it was given and is not empty.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref().filter(|region| !region.is_empty())
    }

    /// Loads credentials, endpoint and region. The region is `--region`, otherwise `region`, otherwise the
    /// environment's or the profile's; with an endpoint and none of these, it is us-east-1. A local endpoint accepts
    /// any credentials, so without a profile or environment variables they are `test`.
    ///
    /// # Errors
    /// If AWS is used without a region, the endpoint is not a URL, or the profile does not exist or requires MFA.
    pub async fn sdk_config(&self, region: Option<&str>) -> Result<SdkConfig, CommandFailure> {
        let region = self.region().or(region).map(|region| Region::new(region.to_owned()));
        let mut loader =
            aws_config::defaults(BehaviorVersion::latest()).http_client(redeliver_aws::http_client());
        if let Some(region) = &region {
            loader = loader.region(region.clone());
        }
        let mut is_emulator = false;
        if let Some(url) = &self.endpoint_url {
            is_emulator = is_local_endpoint(url)?;
            loader = loader.endpoint_url(url);
        }
        if let Some(profile) = &self.profile {
            profile::check_profile(profile, &EnvConfigFiles::default()).await?;
            loader = loader.profile_name(profile);
        }
        let mut config = loader.no_credentials().load().await;
        // Several regions may have a queue with the same name, so one must be chosen. An endpoint needs no region.
        if config.region().is_none_or(|region| region.as_ref().is_empty()) {
            if config.endpoint_url().is_none() {
                return Err("no region is set: add --region, or set AWS_REGION".into());
            }
            config = config.into_builder().region(Region::from_static("us-east-1")).build();
        }
        if is_emulator && self.profile.is_none() {
            let credentials = SharedCredentialsProvider::new(emulator_credentials());
            return Ok(config.into_builder().credentials_provider(credentials).build());
        }
        Ok(self.credentials.add_to(config, self.profile.as_deref()).await)
    }

    /// Creates an SQS client for this region; `--region` takes precedence.
    pub(super) async fn sqs_client(&self, region: Option<&str>) -> Result<Client, CommandFailure> {
        let config = self.sdk_config(region).await?;
        Ok(Client::from_conf(
            client_config(&config, Some(POLL_TIMEOUT)).interceptor(RequestLog::default()).build(),
        ))
    }

    /// Finds a queue by its URL, name or ARN, and reads its attributes.
    ///
    /// # Errors
    /// If it does not exist, SQS rejects the request, or its ARN is in a different region than `--region`.
    pub async fn find_queue(&self, address: &QueueAddress) -> Result<KnownQueue, CommandFailure> {
        if let (QueueAddress::Arn { arn, region: arn_region, .. }, Some(region)) = (address, &self.region)
            && arn_region != region
        {
            return Err(format!("{arn} is not in the region {region}: leave --region out").into());
        }
        let client = self.sqs_client(address.region()).await?;
        let (name, account) = match address {
            QueueAddress::Url(url) => return self.read_queue(client, url).await,
            QueueAddress::Name(name) => (name, None),
            QueueAddress::Arn { name, account, .. } => (name, Some(account.clone())),
        };
        match self.fetch_url(&client, name, account).await? {
            Some(url) => self.read_queue(client, &url).await,
            None => Err(format!(
                "there is no queue {address} in this account and region ({}); check the name, --region and --profile",
                client.config().region().map(ToString::to_string).unwrap_or_default()
            )
            .into()),
        }
    }

    /// Returns true if the account has a queue with this name in the region.
    pub async fn has_queue(&self, name: &str) -> Result<bool, CommandFailure> {
        Ok(self.fetch_url(&self.sqs_client(None).await?, name, None).await?.is_some())
    }

    /// Fetches the URL of a queue; `None` if the queue does not exist.
    pub(super) async fn fetch_url(
        &self,
        client: &Client,
        name: &str,
        account: Option<String>,
    ) -> Result<Option<String>, CommandFailure> {
        let request = client.get_queue_url().queue_name(name).set_queue_owner_aws_account_id(account);
        match request.send().await {
            Ok(answer) => Ok(answer.queue_url),
            Err(error) if is_missing_queue(&error) => Ok(None),
            Err(error) => Err(self
                .explain_failure(&error, |reason| format_refusal(name, "sqs:GetQueueUrl", reason))
                .await),
        }
    }

    async fn read_queue(&self, client: Client, url: &str) -> Result<KnownQueue, CommandFailure> {
        let failed = |reason: &str| format_refusal(url, "sqs:GetQueueAttributes", reason);
        let request = client.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        let attributes = match request.send().await {
            Ok(answer) => attributes_by_name(answer.attributes),
            Err(error) => return Err(self.explain_failure(&error, failed).await),
        };
        let arn = attributes.get("QueueArn").ok_or_else(|| failed("the response has no ARN"))?;
        Ok(KnownQueue { queue: SqsQueue::new(client, url, arn.as_str()), attributes })
    }
}

/// Returns a queue's attributes by name.
pub fn attributes_by_name(
    attributes: impl IntoIterator<Item = HashMap<QueueAttributeName, String>>,
) -> BTreeMap<String, String> {
    attributes.into_iter().flatten().map(|(name, value)| (name.as_str().to_owned(), value)).collect()
}

fn format_refusal(queue: &str, action: &str, reason: &str) -> String {
    format!("{queue}: {reason}; check the queue, the region, the account and your permission for {action}")
}

/// Returns the environment's credentials, otherwise test credentials, for a local emulator, which accepts any.
pub fn emulator_credentials() -> CredentialsProviderChain {
    let test_credentials = Credentials::new("test", "test", None, None, "emulator");
    CredentialsProviderChain::first_try("Environment", EnvironmentVariableCredentialsProvider::new())
        .or_else("Emulator", test_credentials)
}
