//! The archive's bucket in S3.

mod s3;

pub use s3::{AccountId, AccountIdError, S3Bucket, parse_s3_uri};
