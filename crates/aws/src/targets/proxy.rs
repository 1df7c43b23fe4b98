//! The `TARGET_PROXY` setting: a proxy through which calls to an HTTP target are tunneled.

use reqwest::{Proxy, Url};
use thiserror::Error;

/// A proxy without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetProxy(Url);

/// The reason why a proxy setting is invalid, without the setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProxyError {
    #[error("is not the address of a proxy; set it to http://HOST:PORT or https://HOST:PORT")]
    NotAnAddress,
    #[error(
        "contains credentials, which are visible to everyone with access to the settings; authorize clients of the proxy by network instead"
    )]
    Credentials,
}

impl TargetProxy {
    /// Parses the setting.
    ///
    /// # Errors
    /// Returns the reason why the setting is invalid.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let url = Url::parse(text).map_err(|_| ProxyError::NotAnAddress)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ProxyError::Credentials);
        }
        let is_address = matches!(url.scheme(), "http" | "https")
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        if is_address { Ok(Self(url)) } else { Err(ProxyError::NotAnAddress) }
    }

    /// Returns the HTTP client's proxy rule. Calls over https:// use a tunnel (`CONNECT`; RFC 9110, section 9.3.6),
    /// whose content the proxy cannot read; other calls bypass the proxy.
    pub(super) fn proxy_rule(&self) -> reqwest::Result<Proxy> {
        Proxy::https(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_setting_has_only_a_scheme_a_host_and_a_port() {
        for text in
            ["http://proxy:3128", "https://proxy.example.com:443/", "http://10.0.0.1:8080", "http://[::1]:1"]
        {
            assert_eq!(
                TargetProxy::parse(text).map(|proxy| proxy.0.path().to_owned()),
                Ok("/".to_owned()),
                "{text}"
            );
        }
        for text in [
            "",
            "proxy",
            "proxy:3128",
            "socks5://proxy:1080",
            "http://proxy/path",
            "http://proxy/?a=CANARY",
            "http://proxy/#a",
        ] {
            assert_eq!(TargetProxy::parse(text), Err(ProxyError::NotAnAddress), "{text}");
        }
        for text in ["http://user@proxy:3128", "http://user:CANARY@proxy:3128", "http://:CANARY@proxy:3128"] {
            assert_eq!(TargetProxy::parse(text), Err(ProxyError::Credentials), "{text}");
        }
    }
}
