//! The configuration of AWS clients in Lambda, from environment variables.

use aws_config::default_provider::endpoint_url::endpoint_url_provider;
use aws_config::default_provider::use_dual_stack::use_dual_stack_provider;
use aws_config::default_provider::use_fips::use_fips_provider;
use aws_config::default_provider::{retry_config, timeout_config};
use aws_config::environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider};
use aws_config::meta::region::ProvideRegion as _;
use aws_config::provider_config::ProviderConfig;
use aws_config::{AppName, BehaviorVersion, SdkConfig};
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_types::service_config::{LoadServiceConfig, ServiceConfigKey};

use crate::http_client;
use crate::settings::aws_variable;

/// Reads credentials, region, endpoints, FIPS and the other settings from the environment variables that all AWS SDKs
/// share.
///
/// Lambda sets and reserves the variables for credentials and region ("Defined runtime environment variables", AWS
/// Lambda Developer Guide), which the SDK's default chain also reads first. The rest of that chain (profiles, STS, ECS,
/// instance metadata) is never used in Lambda and would add 0.7 MB to the binary.
pub async fn sdk_config() -> SdkConfig {
    let environment = ProviderConfig::without_region();
    let mut config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(http_client())
        .credentials_provider(SharedCredentialsProvider::new(EnvironmentVariableCredentialsProvider::new()))
        .region(EnvironmentVariableRegionProvider::new().region().await)
        .service_config(ServiceEndpoints)
        .retry_config(retry_config::default_provider().configure(&environment).retry_config().await)
        .timeout_config(timeout_config::default_provider().configure(&environment).timeout_config().await);
    config.set_endpoint_url(endpoint_url_provider(&environment).await);
    config.set_use_fips(use_fips_provider(&environment).await);
    config.set_use_dual_stack(use_dual_stack_provider(&environment).await);
    // The SDK's provider would read the configuration file again.
    config.set_app_name(aws_variable("AWS_SDK_UA_APP_ID").and_then(|name| AppName::new(name).ok()));
    config.build()
}

/// Variables such as `AWS_ENDPOINT_URL_SQS`, which take precedence over `AWS_ENDPOINT_URL`.
#[derive(Debug)]
struct ServiceEndpoints;

impl LoadServiceConfig for ServiceEndpoints {
    fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
        aws_variable(&endpoint_variable(&key))
    }
}

/// Returns the variable that sets a service's endpoint ("Service-specific endpoints", AWS SDKs and Tools Reference
/// Guide).
fn endpoint_variable(key: &ServiceConfigKey<'_>) -> String {
    format!("{}_{}", key.env(), key.service_id().to_uppercase().replace(' ', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_variable_for_a_service_contains_its_id() {
        for (service_id, name) in
            [("SQS", "AWS_ENDPOINT_URL_SQS"), ("Secrets Manager", "AWS_ENDPOINT_URL_SECRETS_MANAGER")]
        {
            let key = ServiceConfigKey::builder().service_id(service_id).env("AWS_ENDPOINT_URL");
            assert_eq!(endpoint_variable(&key.profile("endpoint_url").build().unwrap()), name);
        }
    }
}
