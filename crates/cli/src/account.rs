//! Whose account it is: told before anything is changed, so that nobody changes another one than they mean.

use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sts::Client;

use crate::connection::{Connection, Requests, region_in};
use crate::tell;

/// An emulator may have no STS, or never answer: what is to be done is done all the same.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who the credentials are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account(Option<Caller>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Caller {
    account: String,
    arn: String,
}

impl Account {
    /// Asks STS, which answers to any credentials (`GetCallerIdentity` needs no permission).
    pub async fn of(config: &SdkConfig) -> Self {
        let config = aws_sdk_sts::config::Builder::from(config)
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().operation_timeout(PATIENCE).build())
            .interceptor(Requests)
            .build();
        let Ok(answer) = Client::from_conf(config).get_caller_identity().send().await else {
            return Self(None);
        };
        Self(answer.account.map(|account| Caller { account, arn: answer.arn.unwrap_or_default() }))
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(Caller { account, arn }) if arn.is_empty() => write!(f, "account {account}"),
            Some(Caller { account, arn }) => write!(f, "account {account} ({arn})"),
            None => f.write_str("account unknown"),
        }
    }
}

/// Says what is about to be changed, and whose it is; STS is asked in the queue's region, since none may be set.
pub(crate) async fn announce(connection: &Connection, queue_arn: &str, what: impl fmt::Display) {
    let account = match connection.sdk_config_in(region_in(queue_arn)).await {
        Ok(config) => Account::of(&config).await,
        Err(_) => Account(None),
    };
    tell::remark(format_args!("{account}: {what}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback::Loopback;

    #[tokio::test]
    async fn an_endpoint_without_sts_stops_nothing() {
        let endpoint = Loopback::start([(404, serde_json::json!({ "message": "no such service" }))]);
        assert_eq!(Account::of(&endpoint.sdk_config()).await.to_string(), "account unknown");
        let silent = Loopback::start([]);
        assert_eq!(Account::of(&silent.sdk_config()).await.to_string(), "account unknown");
    }

    #[test]
    fn an_account_is_told_with_who_is_at_work() {
        let arn = "arn:aws:sts::123456789012:assumed-role/ops/ana".to_owned();
        let account = Account(Some(Caller { account: "123456789012".to_owned(), arn }));
        assert_eq!(
            account.to_string(),
            "account 123456789012 (arn:aws:sts::123456789012:assumed-role/ops/ana)"
        );
    }
}
