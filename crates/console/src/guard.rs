//! Decides from a request's headers and URL whether it may read a page or change something, before it is processed.
//!
//! The console is only for the user who started it. No other web page that this user opens, and no other user's server
//! on this machine, may read or change anything here. Therefore, requests require a cookie with a token, and their
//! headers `Host` (DNS rebinding), `Origin` (forms on other sites) and `Sec-Fetch-Site` (requests from other sites and
//! ports) are checked. Browsers send a cookie to every port on its host (RFC 6265, section 8.5), so the cookie has a
//! secret path: a server on another port does not know the URLs to which browsers send it.

use std::net::SocketAddr;

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// 244 random bits, as 64 hexadecimal digits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretToken(String);

impl SecretToken {
    pub(crate) fn new() -> Self {
        let [one, two] = [(); 2].map(|()| Uuid::new_v4().simple().to_string());
        Self(one + &two)
    }

    #[cfg(test)]
    pub(crate) fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares digests, so that the duration does not reveal how much of a guess is correct.
    pub(crate) fn matches_guess(&self, guess: &str) -> bool {
        Sha256::digest(&self.0) == Sha256::digest(guess)
    }
}

/// Decides which requests a site admits.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) address: SocketAddr,
    /// The first part of every path.
    pub(crate) path: SecretToken,
    /// The secret that a request's cookie must carry.
    pub(crate) token: SecretToken,
    /// Rejects every request that could change something.
    pub(crate) read_only: bool,
}

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    /// The URL contains the link's token: move it to the cookie.
    Enters,
    /// Like `Enters`, but requested by the page that redirects to the link. Browsers send the new cookie only with
    /// requests from a page of this site.
    EntersFromPage,
    Refused(GuardRefusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardRefusal {
    Host,
    Site,
    Origin,
    Token,
    ReadOnly,
}

impl GuardRefusal {
    pub(crate) const fn status_code(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Site | Self::Origin | Self::ReadOnly => StatusCode::FORBIDDEN,
            Self::Token => StatusCode::UNAUTHORIZED,
        }
    }

    /// Explains the refusal and its remedy.
    pub(crate) const fn explain_refusal(self) -> &'static str {
        match self {
            Self::Host => {
                "This page responds only at the address that `redeliver console` printed. Open that link."
            }
            Self::Site => {
                "Another page requested this address. Copy the link that `redeliver console` printed into the \
                 browser's address bar."
            }
            Self::Origin => {
                "Another site requested this change, so nothing was changed. Open the link that `redeliver console` \
                 printed, and make the change there."
            }
            Self::Token => {
                "This page is only for the user who started the console. Open the link with its token, which \
                 `redeliver console` printed."
            }
            Self::ReadOnly => {
                "The console was started with --read-only, so nothing was changed. Start it without that option to \
                 make changes."
            }
        }
    }
}

impl Guard {
    /// Returns the only origin whose pages may change something.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the path of the start page. All other paths start with it.
    pub(crate) fn base_path(&self) -> String {
        format!("/{}/", self.path.as_str())
    }

    /// Returns the link to open.
    pub(crate) fn entry_link(&self) -> String {
        format!("{}{}?token={}", self.origin(), self.base_path(), self.token.as_str())
    }

    /// Returns the value of `Set-Cookie`. It lacks `Secure`, since the connection is HTTP and never leaves this
    /// machine.
    pub(crate) fn cookie_header(&self) -> String {
        format!("{COOKIE}={}; Path={}; HttpOnly; SameSite=Strict", self.token.as_str(), self.base_path())
    }

    pub(crate) fn admit_request(&self, method: &Method, headers: &HeaderMap, uri: &Uri) -> Admission {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        if text(header::HOST) != Some(self.address.to_string().as_str()) {
            return Admission::Refused(GuardRefusal::Host);
        }
        // All current browsers send this header; other programs do not.
        let is_from_elsewhere =
            headers.get_all("sec-fetch-site").iter().any(|site| site != "same-origin" && site != "none");
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let has_token =
            || uri.query().and_then(find_token).is_some_and(|guess| self.token.matches_guess(guess));
        // Checked before the cookie, since the link can be opened again. Any page may request it, since only the user's
        // page has the token.
        if reads && uri.path().starts_with(&self.base_path()) && has_token() {
            return if is_from_elsewhere { Admission::EntersFromPage } else { Admission::Enters };
        }
        if is_from_elsewhere {
            return Admission::Refused(GuardRefusal::Site);
        }
        // Every browser sends this header with a form.
        if !reads && text(header::ORIGIN) != Some(self.origin().as_str()) {
            return Admission::Refused(GuardRefusal::Origin);
        }
        // `/alive` shows and changes nothing. A page requests it before it trusts the program on this port with its
        // cookie.
        if uri.path() == ALIVE && matches!(*method, Method::GET | Method::POST) {
            return Admission::Admitted;
        }
        if !uri.path().starts_with(&self.base_path()) {
            return Admission::Refused(GuardRefusal::Token);
        }
        if !self.has_cookie(headers) {
            return Admission::Refused(GuardRefusal::Token);
        }
        if !reads && self.read_only {
            return Admission::Refused(GuardRefusal::ReadOnly);
        }
        Admission::Admitted
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == COOKIE && self.token.matches_guess(value))
    }
}

/// The only path without a secret part: open pages query it to check that the console is running.
pub(crate) const ALIVE: &str = "/alive";

/// The cookie's name. Its path distinguishes one console from another.
const COOKIE: &str = "redeliver_console";

fn find_token(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(read_only: bool) -> Guard {
        let [path, token] = ["path", "secret"].map(SecretToken::from_text);
        Guard { address: "127.0.0.1:4711".parse().unwrap(), path, token, read_only }
    }

    /// Decides on a request with `Host` and these headers.
    fn decide_admission(
        guard: &Guard,
        method: &Method,
        headers: &[(&str, &str)],
        query: Option<&str>,
    ) -> Admission {
        let mut map = HeaderMap::new();
        for (name, value) in [("host", "127.0.0.1:4711")].iter().chain(headers) {
            let name: header::HeaderName = name.parse().unwrap();
            map.insert(name, value.parse().unwrap());
        }
        let uri = format!("/path/{}", query.map(|query| format!("?{query}")).unwrap_or_default());
        guard.admit_request(method, &map, &uri.parse().unwrap())
    }

    const COOKIE: (&str, &str) = ("cookie", "other=1; redeliver_console=secret");
    const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:4711");

    #[test]
    fn the_link_admits_the_user_and_its_token_moves_to_the_cookie() {
        let guard = guard(false);
        assert_eq!(decide_admission(&guard, &Method::GET, &[], Some("a=b&token=secret")), Admission::Enters);
        assert_eq!(
            decide_admission(&guard, &Method::GET, &[COOKIE], Some("token=secret")),
            Admission::Enters
        );
        assert_eq!(decide_admission(&guard, &Method::GET, &[COOKIE], None), Admission::Admitted);
        assert_eq!(decide_admission(&guard, &Method::POST, &[COOKIE, ORIGIN], None), Admission::Admitted);
        assert_eq!(guard.cookie_header(), "redeliver_console=secret; Path=/path/; HttpOnly; SameSite=Strict");
        assert_eq!(guard.entry_link(), "http://127.0.0.1:4711/path/?token=secret");
    }

    #[test]
    fn a_request_without_the_token_is_refused() {
        let guard = guard(false);
        let refused = Admission::Refused(GuardRefusal::Token);
        for query in [None, Some("token="), Some("token=secre"), Some("token=secret2"), Some("tokens=secret")]
        {
            assert_eq!(decide_admission(&guard, &Method::GET, &[], query), refused, "{query:?}");
        }
        for cookie in
            ["redeliver_console=", "redeliver_consoles=secret", "secret", "redeliver_console=Secret"]
        {
            assert_eq!(
                decide_admission(&guard, &Method::GET, &[("cookie", cookie)], None),
                refused,
                "{cookie}"
            );
        }
        assert_eq!(
            decide_admission(&guard, &Method::POST, &[ORIGIN], Some("token=secret")),
            refused,
            "a link changes nothing"
        );
    }

    #[test]
    fn a_host_name_that_resolves_to_this_machine_is_refused() {
        let guard = guard(false);
        for host in ["localhost:4711", "rebound.example.com:4711", "127.0.0.1", "127.0.0.1:4712"] {
            assert_eq!(
                decide_admission(&guard, &Method::GET, &[COOKIE, ("host", host)], None),
                Admission::Refused(GuardRefusal::Host),
                "{host}"
            );
        }
        let start_page = Uri::from_static("/path/");
        assert_eq!(
            guard.admit_request(&Method::GET, &HeaderMap::new(), &start_page),
            Admission::Refused(GuardRefusal::Host)
        );
    }

    #[test]
    fn the_token_without_the_path_is_refused() {
        let guard = guard(false);
        let headers = HeaderMap::from_iter([
            (header::HOST, "127.0.0.1:4711".parse().unwrap()),
            (header::COOKIE, COOKIE.1.parse().unwrap()),
        ]);
        let decide_admission = |uri: &str| guard.admit_request(&Method::GET, &headers, &uri.parse().unwrap());
        assert_eq!(decide_admission("/path/0/letters"), Admission::Admitted);
        for uri in ["/", "/?token=secret", "/0/letters", "/path", "/paths/", "//path/", "/%70ath/"] {
            assert_eq!(decide_admission(uri), Admission::Refused(GuardRefusal::Token), "{uri}");
        }
    }

    #[test]
    fn a_request_from_another_site_or_port_is_refused_despite_the_cookie() {
        let guard = guard(false);
        for (site, admission) in [
            ("none", Admission::Admitted),
            ("same-origin", Admission::Admitted),
            ("same-site", Admission::Refused(GuardRefusal::Site)),
            ("cross-site", Admission::Refused(GuardRefusal::Site)),
            ("", Admission::Refused(GuardRefusal::Site)),
        ] {
            let site = ("sec-fetch-site", site);
            assert_eq!(decide_admission(&guard, &Method::GET, &[COOKIE, site], None), admission, "{site:?}");
            assert_eq!(
                decide_admission(&guard, &Method::POST, &[COOKIE, ORIGIN, site], None),
                admission,
                "{site:?}"
            );
        }
    }

    /// The browser first opens a file that contains the link, and treats this file as another site.
    #[test]
    fn a_page_with_the_token_is_admitted_and_a_guess_is_refused() {
        let guard = guard(false);
        let from = |method: &Method, token| {
            decide_admission(&guard, method, &[ORIGIN, ("sec-fetch-site", "cross-site")], Some(token))
        };
        assert_eq!(from(&Method::GET, "token=secret"), Admission::EntersFromPage);
        let refused = Admission::Refused(GuardRefusal::Site);
        assert_eq!(from(&Method::GET, "token=guess"), refused);
        assert_eq!(from(&Method::POST, "token=secret"), refused);
    }

    #[test]
    fn a_form_from_another_site_is_refused_despite_the_cookie() {
        let guard = guard(false);
        for origin in [
            &[][..],
            &[("origin", "null")],
            &[("origin", "https://example.com")],
            &[("origin", "http://127.0.0.1:4712")],
        ] {
            let headers: Vec<_> = [COOKIE].into_iter().chain(origin.iter().copied()).collect();
            for method in [Method::POST, Method::DELETE] {
                let refused = Admission::Refused(GuardRefusal::Origin);
                assert_eq!(decide_admission(&guard, &method, &headers, None), refused, "{origin:?}");
            }
        }
    }

    #[test]
    fn a_read_only_console_refuses_changes() {
        let guard = guard(true);
        assert_eq!(decide_admission(&guard, &Method::GET, &[COOKIE], None), Admission::Admitted);
        assert_eq!(
            decide_admission(&guard, &Method::POST, &[COOKIE, ORIGIN], None),
            Admission::Refused(GuardRefusal::ReadOnly)
        );
    }

    #[test]
    fn the_alive_page_needs_no_cookie_and_refuses_other_sites() {
        let guard = guard(true);
        let decide_admission = |method: &Method, headers: &[(&str, &str)], uri: &str| {
            let mut map = HeaderMap::from_iter([(header::HOST, "127.0.0.1:4711".parse().unwrap())]);
            for (name, value) in headers {
                map.insert(name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap());
            }
            guard.admit_request(method, &map, &uri.parse().unwrap())
        };
        assert_eq!(decide_admission(&Method::GET, &[], "/alive"), Admission::Admitted);
        assert_eq!(decide_admission(&Method::POST, &[ORIGIN], "/alive"), Admission::Admitted);
        assert_eq!(decide_admission(&Method::POST, &[], "/alive"), Admission::Refused(GuardRefusal::Origin));
        let elsewhere = [("sec-fetch-site", "same-site")];
        assert_eq!(
            decide_admission(&Method::GET, &elsewhere, "/alive"),
            Admission::Refused(GuardRefusal::Site)
        );
        for (method, uri) in [(Method::DELETE, "/alive"), (Method::GET, "/alive/"), (Method::GET, "//alive")]
        {
            assert_eq!(
                decide_admission(&method, &[ORIGIN], uri),
                Admission::Refused(GuardRefusal::Token),
                "{method} {uri}"
            );
        }
    }

    #[test]
    fn tokens_are_unique_and_have_64_digits() {
        let [one, two] = [(); 2].map(|()| SecretToken::new());
        assert!(one.as_str().len() == 64 && one.as_str() != two.as_str());
    }
}
