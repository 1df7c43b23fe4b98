//! The archive's bucket in S3, and notices by SNS and EventBridge.
//!
//! The SDK's crate for S3 would add 1.1 MB to the annotator's gzipped bundle of 2.8 MB. Four S3 operations and one each of SNS and
//! EventBridge are requests that the SDK's signer signs and the SDK's HTTP client sends.

mod client;
mod notifier;
mod s3;

pub use notifier::{AwsNotifier, NotifyArn, NotifyArnError};
pub use s3::{S3Bucket, bucket_of_uri};

#[cfg(test)]
mod tests;
