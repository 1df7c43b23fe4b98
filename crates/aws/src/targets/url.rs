//! The `TARGET` setting: an https:// URL or a Lambda function's ARN.

use reqwest::Url;
use thiserror::Error;

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAddress {
    /// An HTTP endpoint.
    Url(Url),
    /// The ARN of a Lambda function, with an optional version or alias.
    LambdaArn(String),
}

/// Why a target is refused. Never holds the URL, which may have a secret inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// Neither of the two.
    #[error(
        "is neither an https:// URL nor the ARN of a Lambda function (arn:aws:lambda:REGION:ACCOUNT:function:NAME)"
    )]
    Neither,
    /// Plain HTTP to another machine.
    #[error("is http:// to another machine; use https://, or set TARGET_ALLOW_HTTP=true")]
    PlainHttp,
    /// `user:password@`.
    #[error(
        "has credentials inside; put an Authorization header into the secret of TARGET_HEADERS_SECRET_ARN instead"
    )]
    Credentials,
    /// `#…`.
    #[error("has a fragment (#…), which is never sent; remove it")]
    Fragment,
}

impl TargetAddress {
    /// Reads the setting. `http://` is for this machine only, unless `allow_http`.
    ///
    /// # Errors
    /// Why the target is refused.
    pub fn parse(text: &str, allow_http: bool) -> Result<Self, TargetError> {
        if text.starts_with("arn:") {
            return if is_function_arn(text) {
                Ok(Self::LambdaArn(text.to_owned()))
            } else {
                Err(TargetError::Neither)
            };
        }
        let url = Url::parse(text).map_err(|_| TargetError::Neither)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::Credentials);
        }
        if url.fragment().is_some() {
            return Err(TargetError::Fragment);
        }
        match url.scheme() {
            "https" => Ok(Self::Url(url)),
            "http" if allow_http || is_loopback(&url) => Ok(Self::Url(url)),
            "http" => Err(TargetError::PlainHttp),
            _ => Err(TargetError::Neither),
        }
    }
}

/// Whether a URL leads to this machine.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `arn:PARTITION:lambda:REGION:ACCOUNT:function:NAME`, with `:QUALIFIER` or without.
fn is_function_arn(arn: &str) -> bool {
    let parts: Vec<_> = arn.split(':').collect();
    let [_, partition, "lambda", region, account, "function", name, qualifier @ ..] = parts.as_slice() else {
        return false;
    };
    partition.starts_with("aws")
        && !region.is_empty()
        && account.len() == 12
        && account.bytes().all(|byte| byte.is_ascii_digit())
        && !name.is_empty()
        && qualifier.len() <= 1
        && qualifier.iter().all(|qualifier| !qualifier.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> TargetError {
        TargetAddress::parse(text, false).unwrap_err()
    }

    #[test]
    fn https_anywhere_and_http_to_this_machine_are_taken() {
        for text in [
            "https://example.com/a?b=c",
            "http://127.0.0.1:8080/",
            "http://127.9.9.9/",
            "http://[::1]:1/",
            "http://localhost/",
        ] {
            assert!(matches!(TargetAddress::parse(text, false), Ok(TargetAddress::Url(_))), "{text}");
        }
        assert_eq!(refused("http://example.com/"), TargetError::PlainHttp);
        assert_eq!(refused("http://127.0.0.1.example.com/"), TargetError::PlainHttp);
        assert_eq!(refused("http://localhost.example.com/"), TargetError::PlainHttp);
        assert!(TargetAddress::parse("http://example.com/", true).is_ok());
    }

    #[test]
    fn credentials_fragments_and_other_schemes_are_refused() {
        assert_eq!(refused("https://user:secret@example.com/"), TargetError::Credentials);
        assert_eq!(refused("https://user@example.com/"), TargetError::Credentials);
        assert_eq!(refused("https://example.com/#top"), TargetError::Fragment);
        for text in ["ftp://example.com/", "file:///etc/passwd", "example.com", ""] {
            assert_eq!(refused(text), TargetError::Neither, "{text}");
        }
    }

    #[test]
    fn function_arns_of_every_partition_are_taken() {
        for arn in [
            "arn:aws:lambda:eu-central-1:123456789012:function:orders",
            "arn:aws-cn:lambda:cn-north-1:123456789012:function:orders:live",
            "arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:orders:7",
        ] {
            assert_eq!(TargetAddress::parse(arn, false), Ok(TargetAddress::LambdaArn(arn.to_owned())));
        }
        for arn in [
            "arn:aws:sqs:eu-central-1:123456789012:orders",
            "arn:aws:lambda:eu-central-1:1234:function:orders",
            "arn:aws:lambda:eu-central-1:123456789012:function:",
            "arn:aws:lambda:eu-central-1:123456789012:function:orders:live:more",
        ] {
            assert_eq!(refused(arn), TargetError::Neither, "{arn}");
        }
    }
}
