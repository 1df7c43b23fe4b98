//! The start of the message-processor's target.

use std::sync::Arc;

use aws_config::SdkConfig;
use redeliver_core::ports::Observer;

use super::StartError;
use crate::SystemClock;
use crate::settings::TargetSettings;
use crate::targets::{
    DEFAULT_TIMEOUT, HeaderSource, Headers, HttpTarget, LambdaTarget, SecretHeaders, Target, TargetAddress,
};

/// The message-processor's target; a URL's headers are read from their secret. `observer` learns it if they cannot be
/// read again later.
///
/// # Errors
/// If the secret cannot be used.
pub async fn target(
    config: &SdkConfig,
    settings: TargetSettings,
    observer: Arc<dyn Observer>,
) -> Result<Target, StartError> {
    let timeout = settings.timeout.unwrap_or(DEFAULT_TIMEOUT);
    Ok(match settings.address {
        TargetAddress::Url(url) => {
            let headers = match &settings.headers_secret_arn {
                Some(arn) => {
                    HeaderSource::Secret(SecretHeaders::read(config, arn, SystemClock, observer).await?)
                }
                None => HeaderSource::Fixed(Headers::default()),
            };
            Target::Http(HttpTarget::new(url, headers, timeout)?)
        }
        TargetAddress::LambdaArn(arn) => Target::Lambda(LambdaTarget::new(config, arn, timeout)),
    })
}
