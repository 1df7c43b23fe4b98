//! Compares queue names, to check whether two of them may identify the same queue.

/// A queue's name, and its account if known: the parts common to its URL and its ARN. The host of a URL does not
/// identify a queue (VPC endpoint, legacy endpoint, emulator).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueName<'a> {
    account: Option<&'a str>,
    name: &'a str,
}

impl<'a> QueueName<'a> {
    /// Parses a URL such as `https://sqs.REGION.amazonaws.com/ACCOUNT/NAME`.
    pub(crate) fn from_url(url: &'a str) -> Self {
        let mut segments = url.trim_end_matches('/').rsplit('/');
        let name = segments.next().unwrap_or(url);
        let is_account = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        Self { account: segments.next().filter(is_account), name }
    }

    /// Parses an ARN such as `arn:aws:sqs:REGION:ACCOUNT:NAME`.
    pub(crate) fn from_arn(arn: &'a str) -> Option<Self> {
        match arn.split(':').collect::<Vec<_>>()[..] {
            ["arn", _, _, _, account, name] => Some(Self { account: Some(account), name }),
            _ => None,
        }
    }

    /// Returns true if both may identify the same queue.
    pub(crate) fn may_be_same(&self, other: &Self) -> bool {
        let accounts = self.account.zip(other.account);
        self.name == other.name && accounts.is_none_or(|(one, other)| one == other)
    }
}
