//! `--endpoint-url`.

use redeliver_aws::targets::{TargetAddress, TargetError, is_loopback};
use thiserror::Error;

/// Why an endpoint is refused. Never holds the URL, which may have a secret inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// Something else.
    #[error("--endpoint-url is no http:// or https:// URL, such as http://127.0.0.1:4566")]
    NoUrl,
    /// `user:password@`.
    #[error("--endpoint-url has credentials inside; give them in the environment or by --profile")]
    Credentials,
    /// `#…`.
    #[error("--endpoint-url has a fragment (#…), which is never sent; remove it")]
    Fragment,
}

/// Whether an endpoint is on this machine.
///
/// # Errors
/// If it is no URL.
pub(crate) fn is_on_this_machine(text: &str) -> Result<bool, EndpointError> {
    match TargetAddress::parse(text, true) {
        Ok(TargetAddress::Url(url)) => Ok(is_loopback(&url)),
        Err(TargetError::Credentials) => Err(EndpointError::Credentials),
        Err(TargetError::Fragment) => Err(EndpointError::Fragment),
        Ok(TargetAddress::LambdaArn(_)) | Err(TargetError::Neither | TargetError::PlainHttp) => {
            Err(EndpointError::NoUrl)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_url_and_nothing_that_a_target_may_be_besides() {
        assert_eq!(is_on_this_machine("http://127.0.0.1:4566"), Ok(true));
        assert_eq!(is_on_this_machine("http://localstack:4566"), Ok(false));
        let arn = "arn:aws:lambda:eu-central-1:123456789012:function:orders";
        for wrong in ["nonsense", "localhost:4566", arn] {
            assert_eq!(is_on_this_machine(wrong), Err(EndpointError::NoUrl), "{wrong}");
        }
        assert!(!EndpointError::NoUrl.to_string().contains("Lambda"));
        assert_eq!(is_on_this_machine("http://u:secret@localhost"), Err(EndpointError::Credentials));
    }
}
