//! An HTTP endpoint.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use redeliver_core::deliver::until;
use redeliver_core::events::Event;
use redeliver_core::handler::{ErrorType, FailureKind, Form, Handler, HandlerError, Invocation, Message};
use redeliver_core::json::value;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode, Url, tls};

use super::drain::{Drains, settle_connections};
use super::{CONNECT_TIMEOUT, Headers, IDLE_TIMEOUT, SecretHeaders, retry_after};
use crate::SystemClock;

/// Bytes of an answer's body that are taken at most, so that its connection can be used again.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// An HTTP endpoint: POST of the body's bytes; the status is the outcome.
pub struct HttpTarget<C = SystemClock> {
    client: Client,
    url: Url,
    headers: HeaderSource<C>,
    clock: C,
    drains: Drains<C>,
}

/// Where the headers of a target's own come from.
#[derive(Debug)]
pub enum HeaderSource<C = SystemClock> {
    /// They are always the same.
    Fixed(Headers),
    /// A secret, which may be rotated.
    Secret(SecretHeaders<C>),
}

impl HttpTarget {
    /// `timeout` is for a whole call, the connection included.
    ///
    /// # Errors
    /// If the machine's certificates cannot be loaded.
    pub fn new(url: Url, headers: HeaderSource, timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = careful(Client::builder(), timeout).build()?;
        Ok(Self::with_clock(client, url, headers, SystemClock))
    }
}

impl<C: Clock + Clone + 'static> HttpTarget<C> {
    fn with_clock(client: Client, url: Url, headers: HeaderSource<C>, clock: C) -> Self {
        let drains = Drains::new(clock.clone());
        Self { client, url, headers, clock, drains }
    }

    /// One request. Its outcome is there with the answer's head.
    async fn call(&self, message: &Message<'_>, headers: &Headers) -> Result<(), HandlerError> {
        settle_connections().await;
        let response = self
            .client
            .post(self.url.clone())
            .headers(headers.0.clone())
            .header(CONTENT_TYPE, content_type(message))
            .header("Idempotency-Key", message.idempotency_key())
            .header("X-Redeliver-Attempt", message.retry_attempt)
            .body(message.body.to_owned())
            .send()
            .await
            .map_err(|error| no_response(&error))?;
        // The status is the answer. To wait for the body could turn a success into a timeout, and so into a copy.
        let outcome = outcome(response.status(), response.headers(), self.clock.now());
        self.drains.drain(read_to_end(response));
        outcome
    }

    /// The call again, if the secret has other headers than those that were refused. The target has refused the request
    /// and not handled it, so this is no copy, and a rotation spends no attempt. What `end` cuts off is not known; the
    /// refusal is, and stays.
    async fn call_again(
        &self,
        message: &Message<'_>,
        secret: &SecretHeaders<C>,
        refused: &Headers,
        error: &HandlerError,
        end: Timestamp,
    ) -> Option<Result<(), HandlerError>> {
        // Without this a call that may take its own whole timeout would be begun at the very end.
        let time = until(self.clock.now(), end);
        if time.is_zero() {
            return None;
        }
        let again = pin!(async {
            let headers = secret.other_than(refused).await?;
            secret.observer().observe(&Event::RetriedImmediately {
                message_id: message.message_id.to_owned(),
                retry_attempt: message.retry_attempt,
                error_type: error.error_type.loggable().into_owned(),
            });
            Some(self.call(message, &headers).await)
        });
        match select(again, pin!(self.clock.sleep(time))).await {
            Either::Left((newer, _)) => newer,
            Either::Right(_) => None,
        }
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

/// `localhost` may be plain HTTP, so it is this machine whatever a name server says (RFC 6761, section 6.3). The port
/// is the URL's.
const LOOPBACK: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
];

/// Without the path and the query, which may hold a key.
impl<C> fmt::Debug for HttpTarget<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.url.origin().ascii_serialization();
        f.debug_struct("HttpTarget").field("origin", &origin).finish_non_exhaustive()
    }
}

impl<C: Clock + Clone + 'static> Handler for HttpTarget<C> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        self.call_until(message, Timestamp::MAX_UTC).await
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        self.call_until(invocation.message, invocation.end).await
    }
}

impl<C: Clock + Clone + 'static> HttpTarget<C> {
    async fn call_until(&self, message: &Message<'_>, end: Timestamp) -> Result<(), HandlerError> {
        let secret = match &self.headers {
            HeaderSource::Fixed(headers) => return self.call(message, headers).await,
            HeaderSource::Secret(secret) => secret,
        };
        let headers = secret.current();
        let error = match self.call(message, &headers).await {
            Err(error) if is_refusal(&error) => error,
            outcome => return outcome,
        };
        self.call_again(message, secret, &headers, &error, end).await.unwrap_or(Err(error))
    }
}

/// The answer of a target whose key is another one by now. One that asks for a delay is not called again at once: a
/// client that calls too often gets a 403 of some gateways.
fn is_refusal(error: &HandlerError) -> bool {
    matches!(error.error_type, ErrorType::HttpStatus(401 | 403)) && error.kind == FailureKind::Transient
}

/// What a producer sends plain may be anything.
fn content_type(message: &Message<'_>) -> &'static str {
    match message.form {
        Form::Plain { .. } if !value::is_json(message.body) => "text/plain; charset=utf-8",
        Form::Plain { .. } | Form::Envelope => "application/json",
    }
}

fn outcome(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Result<(), HandlerError> {
    if status.is_success() {
        return Ok(());
    }
    let error_type = ErrorType::HttpStatus(status.as_u16());
    let details = format!("HTTP {status}");
    let error = if is_permanent(status) {
        HandlerError::permanent(error_type, details)
    } else {
        HandlerError::transient(error_type, details)
    };
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    // A target that says when to call again wants another call, whatever its status (413: RFC 9110, section 15.5.14).
    match header.and_then(|value| retry_after::parse(value, now)) {
        Some(delay) => Err(error.retry_after(delay)),
        None => Err(error),
    }
}

/// Only a status that blames the message itself, which no retry can change. All other failures may pass, and to give a
/// message up for one of them would empty the queue into the final DLQ: a redirect to a maintenance page, a rotated
/// key. docs/handlers.md has the reason for each status.
fn is_permanent(status: StatusCode) -> bool {
    let may_pass = matches!(status.as_u16(), 401 | 403 | 407 | 408 | 409 | 421 | 423 | 424 | 425 | 429);
    status.is_client_error() && !may_pass
}

/// A long answer costs its connection.
async fn read_to_end(mut response: Response) {
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
