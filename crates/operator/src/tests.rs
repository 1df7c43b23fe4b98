//! Helpers shared by several tests.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_lambda::config::{Credentials, SharedCredentialsProvider};

/// AWS client settings for a test server.
pub(crate) fn sdk_config(url: &str) -> SdkConfig {
    let credentials = Credentials::new("key", "secret", None, None, "loopback");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(redeliver_aws::http_client())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .endpoint_url(url)
        .build()
}
