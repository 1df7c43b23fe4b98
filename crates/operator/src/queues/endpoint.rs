//! Validates `--endpoint-url`.

use redeliver_aws::targets::{TargetAddress, TargetError, is_loopback};

use crate::UsageError;

const NO_URL: &str = "--endpoint-url is not an http:// or https:// URL, such as http://127.0.0.1:4566";
const CREDENTIALS: &str =
    "--endpoint-url contains credentials; pass them in the environment or with --profile";
const FRAGMENT: &str = "--endpoint-url has a fragment (#…), which is never sent; remove it";

/// Returns true if the endpoint is local. Errors do not repeat the endpoint, which may contain a secret.
pub fn is_local_endpoint(text: &str) -> Result<bool, UsageError> {
    match TargetAddress::parse(text, true) {
        Ok(TargetAddress::Url(url)) => Ok(is_loopback(url.as_url())),
        Err(TargetError::Credentials) => Err(UsageError::new(CREDENTIALS)),
        Err(TargetError::Fragment) => Err(UsageError::new(FRAGMENT)),
        Ok(TargetAddress::LambdaArn(_)) | Err(TargetError::Neither | TargetError::PlainHttp) => {
            Err(UsageError::new(NO_URL))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_must_be_an_http_url_without_credentials() {
        assert_eq!(is_local_endpoint("http://127.0.0.1:4566"), Ok(true));
        assert_eq!(is_local_endpoint("http://localstack:4566"), Ok(false));
        let arn = "arn:aws:lambda:eu-central-1:123456789012:function:orders";
        for wrong in ["nonsense", "localhost:4566", arn] {
            assert_eq!(is_local_endpoint(wrong), Err(UsageError::new(NO_URL)), "{wrong}");
        }
        assert!(!NO_URL.contains("Lambda"));
        assert_eq!(is_local_endpoint("http://u:secret@localhost"), Err(UsageError::new(CREDENTIALS)));
    }
}
