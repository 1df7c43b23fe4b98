//! An HTTP endpoint.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use redeliver_core::handler::{ErrorType, Handler, HandlerError, Message};
use redeliver_core::ports::Clock;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode, Url, tls};

use super::{ANSWER_BYTES_MAX, CONNECT_TIMEOUT, Headers, retry_after};
use crate::SystemClock;

/// Time for an answer's body, which nobody reads: longer would hold a record whose outcome is known.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Shorter than any usual load balancer's own (60 s): a connection that it has closed meanwhile would cost an attempt.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// An HTTP endpoint: POST of the body's bytes; the status is the outcome.
pub struct HttpTarget {
    client: Client,
    url: Url,
    headers: Headers,
}

impl HttpTarget {
    /// `timeout` is for a whole call, from the connection to the end of the answer.
    ///
    /// # Errors
    /// If the machine's certificates cannot be loaded.
    pub fn new(url: Url, headers: Headers, timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = careful(Client::builder(), timeout).build()?;
        Ok(Self { client, url, headers })
    }
}

/// A client that goes where the URL says and nowhere else, and waits for nothing for long.
fn careful(client: ClientBuilder, timeout: Duration) -> ClientBuilder {
    client
        .redirect(Policy::none())
        .no_proxy()
        .retry(reqwest::retry::never()) // the policy retries, with what it has learnt
        .resolve_to_addrs("localhost", &LOOPBACK)
        .tls_version_min(tls::Version::TLS_1_2)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        .timeout(timeout)
        .user_agent(concat!("redeliver/", env!("CARGO_PKG_VERSION")))
}

/// `localhost` may be plain HTTP, so it is this machine whatever a name server says (RFC 6761, section 6.3). The port is the
/// URL's.
const LOOPBACK: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
];

/// Without the path and the query, which may hold a key.
impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.url.origin().ascii_serialization();
        f.debug_struct("HttpTarget").field("origin", &origin).finish_non_exhaustive()
    }
}

impl Handler for HttpTarget {
    async fn handle(&self, message: &Message) -> Result<(), HandlerError> {
        let response = self
            .client
            .post(self.url.clone())
            .headers(self.headers.0.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", &message.message_id)
            .header("X-Redeliver-Attempt", message.retry_attempt)
            .body(message.body.clone())
            .send()
            .await
            .map_err(|error| no_response(&error))?;
        let outcome = outcome(&response);
        let _unfinished = tokio::time::timeout(BODY_TIMEOUT, drain(response)).await;
        outcome
    }
}

fn outcome(response: &Response) -> Result<(), HandlerError> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let error_type = ErrorType::HttpStatus(status.as_u16());
    let details = format!("HTTP {status}");
    if !is_transient(status) {
        return Err(HandlerError::permanent(error_type, details));
    }
    let error = HandlerError::transient(error_type, details);
    let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    match header.and_then(|value| retry_after::parse(value, SystemClock.now())) {
        Some(delay) => Err(error.retry_after(delay)),
        None => Err(error),
    }
}

/// 401 and 403 too: a rotated key must not dead-letter all traffic.
fn is_transient(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 408 | 425 | 429 | 500..=599)
}

/// Reads the answer's end, so that the connection can be used again; a long or slow answer costs the connection instead.
/// The status has decided: nothing that happens here changes the outcome.
async fn drain(mut response: Response) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > ANSWER_BYTES_MAX {
            break;
        }
    }
}

/// The error's own text may hold the URL, whose query may hold a key: it is not used.
fn no_response(error: &reqwest::Error) -> HandlerError {
    if error.is_timeout() {
        HandlerError::transient("Http.Timeout", "the target did not answer in time")
    } else if error.is_connect() {
        HandlerError::transient("Http.Connect", "no connection to the target")
    } else {
        HandlerError::transient("Http.Connect", "the connection to the target broke before its answer")
    }
}

#[cfg(test)]
mod tests;
