//! The `TARGET` setting: an https:// URL or a Lambda function's ARN.

use std::fmt;

use redeliver_core::function_arn::is_function_arn;
use reqwest::Url;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAddress {
    Url(TargetUrl),
    /// The ARN of a Lambda function, with an optional version or alias.
    LambdaArn(String),
}

/// A URL whose debug output omits the path and query, which may contain a key.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetUrl(pub(crate) Url);

/// Names of query parameters that usually contain a secret. Case, hyphens and underscores are ignored. The CDK stack
/// has the same list (`infra/lib/secret-parameter.ts`).
const SECRET_PARAMETERS: [&str; 20] = [
    "access_key",
    "access_token",
    "api_key",
    "api_token",
    "auth",
    "auth_token",
    "authorization",
    "client_secret",
    "code",
    "jwt",
    "key",
    "passwd",
    "password",
    "pwd",
    "secret",
    "sig",
    "signature",
    "subscription_key",
    "token",
    "x_amz_signature",
];

impl TargetUrl {
    /// Returns the complete URL, including its path and query.
    #[must_use]
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// Returns the name, as spelled in our list, of the first query parameter that looks like a secret.
    #[must_use]
    pub fn secret_parameter(&self) -> Option<&'static str> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
        let mut given = self.0.query_pairs().filter(|(_, value)| !value.is_empty());
        given.find_map(|(name, _)| SECRET_PARAMETERS.into_iter().find(|known| plain(known) == plain(&name)))
    }
}

impl fmt::Debug for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TargetUrl").field(&self.0.origin().ascii_serialization()).finish()
    }
}

/// The reason why a target is invalid, without the URL, which may contain a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    #[error(
        "is neither an https:// URL nor the ARN of a Lambda function (arn:aws:lambda:REGION:ACCOUNT:function:NAME)"
    )]
    Neither,
    #[error("is http:// to another machine; use https://, or set TARGET_ALLOW_HTTP=true")]
    PlainHttp,
    #[error(
        "contains credentials; put an Authorization header into the secret of TARGET_HEADERS_SECRET_ARN instead"
    )]
    Credentials,
    #[error("has a fragment (#…), which is never sent; remove it")]
    Fragment,
}

impl TargetAddress {
    /// Parses the setting. `http://` is only allowed for this machine unless `allow_http` is set.
    ///
    /// # Errors
    /// Returns the reason why the target is invalid.
    pub fn parse(text: &str, allow_http: bool) -> Result<Self, TargetError> {
        // Checked first, since an ARN also parses as a URL with the scheme `arn:`.
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
            "https" => Ok(Self::Url(TargetUrl(url))),
            "http" if allow_http || is_loopback(&url) => Ok(Self::Url(TargetUrl(url))),
            "http" => Err(TargetError::PlainHttp),
            _ => Err(TargetError::Neither),
        }
    }
}

/// True if a URL refers to this machine, by the name `localhost`, which HTTP targets never look up, or by a loopback
/// address in any notation (`0x7f.1`). IPv4-mapped IPv6 addresses and `localhost.` do not count.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    // The parser has normalized every notation of an address.
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target_error(text: &str) -> TargetError {
        TargetAddress::parse(text, false).unwrap_err()
    }

    #[test]
    fn https_to_anywhere_and_http_to_loopback_are_accepted() {
        for text in [
            "https://example.com/a?b=c",
            "http://127.0.0.1:8080/",
            "http://127.9.9.9/",
            "http://[::1]:1/",
            "http://localhost/",
        ] {
            assert!(matches!(TargetAddress::parse(text, false), Ok(TargetAddress::Url(_))), "{text}");
        }
        assert_eq!(target_error("http://example.com/"), TargetError::PlainHttp);
        assert_eq!(target_error("http://127.0.0.1.example.com/"), TargetError::PlainHttp);
        assert_eq!(target_error("http://localhost.example.com/"), TargetError::PlainHttp);
        assert!(TargetAddress::parse("http://example.com/", true).is_ok());
    }

    /// Notations that the URL Standard ("Host parsing") resolves to 127.0.0.1, ::1 or localhost.
    #[test]
    fn loopback_addresses_are_recognized_in_any_notation() {
        for (spelling, host) in [
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://0X7F.0x0.0.01/", "127.0.0.1"),
            ("http://2130706433/", "127.0.0.1"),
            ("http://017700000001/", "127.0.0.1"),
            ("http://127.1/", "127.0.0.1"),
            ("http://127.0.0.1./", "127.0.0.1"),
            ("http://127。0。0。1/", "127.0.0.1"),
            ("http://%31%32%37.0.0.1/", "127.0.0.1"),
            ("http://[0:0::0:1]/", "[::1]"),
            ("HTTP://LocalHost:80/", "localhost"),
            ("http://ⓛocalhost/", "localhost"),
            ("http:127.0.0.1", "127.0.0.1"),
            (r"http:\\localhost\@evil.example/", "localhost"),
            (" http://127.0.0.1/\t", "127.0.0.1"),
        ] {
            let Ok(TargetAddress::Url(TargetUrl(url))) = TargetAddress::parse(spelling, false) else {
                panic!("refused: {spelling}")
            };
            assert_eq!(url.host_str(), Some(host), "{spelling}");
        }
    }

    #[test]
    fn remote_addresses_that_resemble_loopback_are_not_loopback() {
        for text in [
            "http://localhost.evil.com/",
            "http://127.example.com/",
            "http://127.0.0.1.nip.io/",
            "http://127.0.0.1%2eevil.com/",
            "http://localhost%2eevil.com/",
            "http://localhost./",
            "http://localhost../",
            "http://lοcalhost/", // a Greek omicron
            "http://localhost\u{ad}.evil.com/",
            r"http://evil.com\@127.0.0.1/",
            "http:///evil.com/127.0.0.1",
            "http://evil.com/@127.0.0.1",
            "http://evil.com?@127.0.0.1/",
            "http://128.0.0.1/",
            "http://126.255.255.255/",
            "http://0/",
            "http://0.0.0.0/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::127.0.0.1]/",
            "http://[fe80::1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://3232235777/",
        ] {
            assert_eq!(target_error(text), TargetError::PlainHttp, "{text}");
        }
    }

    #[test]
    fn a_host_after_an_at_sign_and_an_invalid_host_are_refused() {
        for text in [
            "http://127.0.0.1@evil.com/",
            "http://localhost:80@evil.com/",
            "https://127.0.0.1%00@evil.com/",
            "https://:secret@evil.com/",
        ] {
            assert_eq!(target_error(text), TargetError::Credentials, "{text}");
        }
        for text in [
            "http://[::1%25eth0]/",
            "http://127.0.0.256/",
            "http://local host/",
            "http://127.0.0.1:65536/",
            "http://",
        ] {
            assert_eq!(target_error(text), TargetError::Neither, "{text}");
        }
    }

    /// The vectors in `schemas/vectors/secret-parameters.json` are shared with the stack's tests.
    #[test]
    fn a_secret_in_a_query_is_detected_by_its_parameter_name() {
        #[derive(serde::Deserialize)]
        struct Vector {
            url: String,
            parameter: Option<String>,
        }
        let vectors: Vec<Vector> =
            serde_json::from_str(include_str!("../../../../schemas/vectors/secret-parameters.json")).unwrap();
        for Vector { url, parameter } in &vectors {
            let found = TargetUrl(url.parse().unwrap()).secret_parameter();
            assert_eq!(found, parameter.as_deref(), "{url}");
        }
        for known in SECRET_PARAMETERS {
            assert!(vectors.iter().any(|vector| vector.parameter.as_deref() == Some(known)), "{known}");
        }
    }

    #[test]
    fn debug_output_shows_neither_path_nor_query() {
        let address =
            TargetAddress::parse("https://example.com:8443/hooks/CANARY?key=CANARY", false).unwrap();
        assert_eq!(format!("{address:?}"), r#"Url(TargetUrl("https://example.com:8443"))"#);
    }

    #[test]
    fn a_url_with_credentials_or_a_fragment_or_another_scheme_is_refused() {
        assert_eq!(target_error("https://user:secret@example.com/"), TargetError::Credentials);
        assert_eq!(target_error("https://user@example.com/"), TargetError::Credentials);
        assert_eq!(target_error("https://example.com/#top"), TargetError::Fragment);
        for text in ["ftp://example.com/", "file:///etc/passwd", "example.com", ""] {
            assert_eq!(target_error(text), TargetError::Neither, "{text}");
        }
    }

    #[test]
    fn function_arns_in_every_partition_are_accepted() {
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
            assert_eq!(target_error(arn), TargetError::Neither, "{arn}");
        }
    }
}
