//! Finds the account, region and queues that a command uses, chosen as in the AWS CLI or by the stack's name, and reads
//! their state from AWS.

pub mod account;
mod address;
mod aws_error;
pub mod cloudwatch;
mod connection;
mod counts;
mod credential_error;
mod credentials;
mod deployment;
mod endpoint;
pub mod event_sources;
mod profile;
mod queue_args;
mod redrive_policy;
mod request_log;

pub use address::{QueueAddress, queue_name_from_arn, region_from_arn};
pub use aws_error::{describe_error, is_missing_queue};
pub use connection::{AwsConnection, DeadLetterQueue, KnownQueue, attributes_by_name, emulator_credentials};
pub use counts::QueueCounts;
pub use deployment::find_stack;
pub use endpoint::is_local_endpoint;
pub use queue_args::{DeploymentArgs, NamedDeployment, OneQueue, OpenQueue, QueueSelection};
pub use redrive_policy::RedrivePolicy;
pub use request_log::RequestLog;
