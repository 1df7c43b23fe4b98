//! Prints the AWS account with each plan and before each change, to prevent changes in the wrong account.

use std::fmt::Display;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sts::Client;
use aws_sdk_sts::operation::get_caller_identity::GetCallerIdentityOutput;
use redeliver_aws::archive::AccountId;

use crate::queues::{AwsConnection, RequestLog, region_from_arn};
use crate::terminal::stderr;

/// The time limit for STS, which an emulator might not implement. If STS does not respond in time, the command
/// continues without the account.
const STS_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the account that the credentials belong to; `None` if STS does not return it.
pub(crate) async fn caller_account(connection: &AwsConnection) -> Option<AccountId> {
    let config = connection.sdk_config(None).await.ok()?;
    caller_identity(&config).await?.account?.parse().ok()
}

/// Queries STS for the caller's identity. `GetCallerIdentity` needs no permission.
async fn caller_identity(config: &SdkConfig) -> Option<GetCallerIdentityOutput> {
    let config = aws_sdk_sts::config::Builder::from(config)
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().operation_timeout(STS_TIMEOUT).build())
        .interceptor(RequestLog::default())
        .build();
    Client::from_conf(config).get_caller_identity().send().await.ok()
}

async fn describe_account(config: &SdkConfig) -> String {
    match caller_identity(config).await {
        Some(caller) => format_account(caller.account, caller.arn),
        None => format_account(None, None),
    }
}

fn format_account(account: Option<String>, arn: Option<String>) -> String {
    match (account, arn) {
        (Some(account), Some(arn)) => format!("account {account} ({arn})"),
        (Some(account), None) => format!("account {account}"),
        (None, _) => "account unknown".to_owned(),
    }
}

/// Prints the account and the upcoming or planned change, with `account unknown` if STS does not respond within 5 s.
/// The request is sent to the queue's region, since no other region may be configured.
pub async fn announce_change(connection: &AwsConnection, queue_arn: &str, what: impl Display) {
    let account = match connection.sdk_config(region_from_arn(queue_arn)).await {
        Ok(config) => describe_account(&config).await,
        Err(_) => format_account(None, None),
    };
    stderr::remark(format_args!("{account}: {what}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sdk_config;
    use redeliver_testing::loopback::Loopback;

    #[tokio::test]
    async fn an_endpoint_without_sts_leaves_the_account_unknown() {
        let endpoint = Loopback::start_scripted([(404, serde_json::json!({ "message": "no such service" }))]);
        assert_eq!(describe_account(&sdk_config(endpoint.url())).await, "account unknown");
        let silent = Loopback::start_scripted::<serde_json::Value>([]);
        assert_eq!(describe_account(&sdk_config(silent.url())).await, "account unknown");
    }

    #[test]
    fn an_account_is_shown_with_the_arn_of_the_caller() {
        let arn = "arn:aws:sts::123456789012:assumed-role/ops/ana".to_owned();
        assert_eq!(
            format_account(Some("123456789012".to_owned()), Some(arn)),
            "account 123456789012 (arn:aws:sts::123456789012:assumed-role/ops/ana)"
        );
    }
}
