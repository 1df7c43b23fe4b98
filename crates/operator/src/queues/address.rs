//! `--queue`: a queue's URL, name or ARN.

use std::fmt;
use std::str::FromStr;

use redeliver_core::ports::is_fifo;
use thiserror::Error;

/// A queue's URL, name or ARN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueAddress {
    /// `https://sqs.eu-central-1.amazonaws.com/123456789012/orders`
    Url(String),
    /// `orders`: a queue in the account and region of the connection.
    Name(String),
    /// `arn:aws:sqs:eu-central-1:123456789012:orders`
    Arn { arn: String, region: String, account: String, name: String },
}

/// The error for text that is not a queue's URL, name or ARN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QueueAddressError {
    /// An ARN that names something other than a queue, or is truncated.
    #[error("is not the ARN of a queue (arn:aws:sqs:REGION:ACCOUNT:NAME)")]
    Arn,
    /// An invalid queue name.
    #[error(
        "is not a queue's URL, name or ARN; a name has at most 80 letters, digits, hyphens and underscores, such as \
         orders-final-dlq"
    )]
    Name,
}

impl QueueAddress {
    /// Returns the region in the address, if any.
    pub fn region(&self) -> Option<&str> {
        match self {
            Self::Arn { region, .. } => Some(region),
            Self::Url(url) => url_region(url),
            Self::Name(_) => None,
        }
    }

    /// Returns true for a FIFO queue, whose name ends in `.fifo`.
    pub fn is_fifo(&self) -> bool {
        is_fifo(&self.to_string())
    }
}

impl FromStr for QueueAddress {
    type Err = QueueAddressError;

    fn from_str(text: &str) -> Result<Self, QueueAddressError> {
        if text.starts_with("https://") || text.starts_with("http://") {
            return Ok(Self::Url(text.to_owned()));
        }
        if text.starts_with("arn:") {
            let ["arn", _partition, "sqs", region, account, name] = text.split(':').collect::<Vec<_>>()[..]
            else {
                return Err(QueueAddressError::Arn);
            };
            let is_complete = !region.is_empty() && is_account_id(account) && is_queue_name(name);
            return if is_complete {
                Ok(arn_address(text, region, account, name))
            } else {
                Err(QueueAddressError::Arn)
            };
        }
        if is_queue_name(text) { Ok(Self::Name(text.to_owned())) } else { Err(QueueAddressError::Name) }
    }
}

impl fmt::Display for QueueAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Url(text) | Self::Name(text) | Self::Arn { arn: text, .. }) = self;
        f.write_str(text)
    }
}

/// Returns the region in an ARN.
pub fn region_from_arn(arn: &str) -> Option<&str> {
    arn.split(':').nth(3)
}

/// Returns the queue name in an ARN.
pub fn queue_name_from_arn(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

fn arn_address(arn: &str, region: &str, account: &str, name: &str) -> QueueAddress {
    let [arn, region, account, name] = [arn, region, account, name].map(str::to_owned);
    QueueAddress::Arn { arn, region, account, name }
}

fn is_account_id(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true for a valid queue name: at most 80 characters, including the suffix of FIFO queues ("Amazon SQS queue
/// quotas").
fn is_queue_name(text: &str) -> bool {
    let stem = text.strip_suffix(".fifo").unwrap_or(text);
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !stem.is_empty() && text.len() <= 80 && stem.bytes().all(is_legal)
}

/// Extracts the region from `https://sqs.REGION.amazonaws.com/…` ("Amazon SQS endpoints and quotas").
fn url_region(url: &str) -> Option<&str> {
    let host = url.split("://").nth(1)?.split('/').next()?;
    let region = host.strip_prefix("sqs.").or_else(|| host.strip_prefix("sqs-fips."))?;
    let (region, domain) = region.split_once('.')?;
    matches!(domain, "amazonaws.com" | "amazonaws.com.cn" | "api.aws").then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_addressed_by_url_name_or_arn() {
        let parse = |text: &str| text.parse::<QueueAddress>();
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
        assert_eq!(parse(url), Ok(QueueAddress::Url(url.to_owned())));
        assert_eq!(parse("orders-final_dlq"), Ok(QueueAddress::Name("orders-final_dlq".to_owned())));
        let text = "arn:aws-cn:sqs:cn-north-1:123456789012:orders";
        assert_eq!(parse(text), Ok(arn_address(text, "cn-north-1", "123456789012", "orders")));
        assert!(parse("orders.fifo").unwrap().is_fifo() && !parse("orders").unwrap().is_fifo());
        for (wrong, why) in [
            ("", QueueAddressError::Name),
            ("sqs.eu-central-1.amazonaws.com/123456789012/orders", QueueAddressError::Name),
            ("two words", QueueAddressError::Name),
            (&"x".repeat(81), QueueAddressError::Name),
            ("arn:aws:lambda:eu-central-1:123456789012:function:orders", QueueAddressError::Arn),
            ("arn:aws:sqs:eu-central-1:1234:orders", QueueAddressError::Arn),
            ("arn:aws:sqs::123456789012:orders", QueueAddressError::Arn),
        ] {
            assert_eq!(parse(wrong), Err(why), "{wrong}");
        }
    }

    #[test]
    fn a_region_is_parsed_from_an_arn_or_an_aws_url() {
        let region = |text: &str| text.parse::<QueueAddress>().unwrap().region().map(str::to_owned);
        for there in [
            "arn:aws:sqs:eu-central-1:123456789012:orders",
            "https://sqs.eu-central-1.amazonaws.com/123456789012/orders",
            "https://sqs-fips.eu-central-1.api.aws/123456789012/orders",
        ] {
            assert_eq!(region(there).as_deref(), Some("eu-central-1"), "{there}");
        }
        for not_there in
            ["orders", "http://127.0.0.1:4566/000000000000/orders", "https://sqs.example.com/1/orders"]
        {
            assert_eq!(region(not_there), None, "{not_there}");
        }
    }
}
