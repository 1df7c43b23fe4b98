//! An endpoint's secret, which is read at startup and again when it might have changed.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata as _;
use futures_util::future::{Either, select};
use redeliver_core::deliver::time_until;
use redeliver_core::events::Event;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};
use tokio::sync::OwnedMutexGuard;

use super::{Endpoint, EndpointSettings, SecretError};
use crate::SystemClock;

/// The age after which the endpoint is refreshed in the background.
const AGE_MAX: Duration = Duration::from_secs(300);
/// The minimum interval between reads after refusals, and between refreshes: Secrets Manager charges for each request.
const PAUSE: Duration = Duration::from_secs(30);
/// The timeout for a refresh: its connection may be dead after a freeze.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An endpoint from a secret, which may be rotated while in use. A call refreshes the endpoint in the background if it
/// is older than 5 minutes, and immediately after a 401 or 403, but at most once every 30 s. Clones share their state.
#[derive(Clone)]
pub struct SecretEndpoint<C = SystemClock> {
    client: Client,
    arn: Arc<str>,
    settings: EndpointSettings,
    clock: C,
    observer: Arc<dyn Observer>,
    known: Arc<Mutex<KnownEndpoint>>,
    /// Locked while the secret is being read.
    reading: Arc<tokio::sync::Mutex<()>>,
}

/// The current endpoint. All timestamps are from the start of a read, since the response may be late.
struct KnownEndpoint {
    endpoint: Endpoint,
    read_at: Timestamp,
    tried_at: Timestamp,
    tried_after_refusal_at: Option<Timestamp>,
}

impl<C: Clock + Clone + 'static> SecretEndpoint<C> {
    /// Reads the secret. `observer` receives an event if a later refresh fails.
    ///
    /// # Errors
    /// If the secret cannot be read or is invalid.
    pub async fn read_secret(
        config: &SdkConfig,
        arn: &str,
        settings: EndpointSettings,
        clock: C,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, SecretError> {
        let client = Client::new(config);
        let now = clock.now();
        let endpoint = fetch_endpoint(&client, arn, &settings).await?;
        let known = KnownEndpoint { endpoint, read_at: now, tried_at: now, tried_after_refusal_at: None };
        let known = Arc::new(Mutex::new(known));
        Ok(Self { client, arn: arn.into(), settings, clock, observer, known, reading: Arc::default() })
    }

    /// Returns the current endpoint immediately. If it is old, it is also refreshed in the background for later calls.
    pub(crate) fn current_endpoint(&self) -> Endpoint {
        let (endpoint, is_old) = {
            let (known, now) = (self.lock_known_endpoint(), self.clock.now());
            (
                known.endpoint.clone(),
                has_passed(known.read_at, now, AGE_MAX) && has_passed(known.tried_at, now, PAUSE),
            )
        };
        if is_old && let Ok(turn) = Arc::clone(&self.reading).try_lock_owned() {
            tokio::spawn(self.clone().read_again(turn));
        }
        endpoint
    }

    /// Returns an endpoint other than the refused one; `None` if the secret has not changed yet.
    pub(crate) async fn replacement_endpoint(&self, refused: &Endpoint) -> Option<Endpoint> {
        let other =
            || Some(self.lock_known_endpoint().endpoint.clone()).filter(|endpoint| endpoint != refused);
        if let Some(other) = other() {
            return Some(other);
        }
        // After a rotation, many calls are refused at the same time: the first call reads the secret, and the others
        // use its result.
        let turn = Arc::clone(&self.reading).lock_owned().await;
        if let Some(other) = other() {
            return Some(other);
        }
        // Checked after the lock was acquired, since its previous holder may just have tried.
        let now = self.clock.now();
        if self
            .lock_known_endpoint()
            .tried_after_refusal_at
            .is_some_and(|tried_at| !has_passed(tried_at, now, PAUSE))
        {
            return None;
        }
        self.lock_known_endpoint().tried_after_refusal_at = Some(now);
        // In a separate task: this call may be cut off, but later calls also need the result.
        let _panicked = tokio::spawn(self.clone().read_again(turn)).await;
        other()
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    async fn read_again(self, _turn: OwnedMutexGuard<()>) {
        let began_at = self.clock.now();
        self.lock_known_endpoint().tried_at = began_at;
        let (answer, time_is_up) =
            (pin!(fetch_endpoint(&self.client, &self.arn, &self.settings)), pin!(self.clock.sleep(TIMEOUT)));
        let answer = match select(answer, time_is_up).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(SecretError::Unreadable("Timeout".to_owned())),
        };
        match answer {
            Ok(endpoint) => {
                let mut known = self.lock_known_endpoint();
                known.endpoint = endpoint;
                known.read_at = began_at;
            }
            // The read was interrupted by a freeze, so the secret might be readable; the next call tries again.
            Err(_) if time_until(began_at, self.clock.now()) >= 2 * TIMEOUT => {}
            Err(error) => {
                let code = error.log_code().to_owned();
                self.observer.observe(&Event::HeadersNotRefreshed { code });
            }
        }
    }
}

impl<C> SecretEndpoint<C> {
    /// Waits until no read is in progress.
    #[cfg(test)]
    pub(crate) async fn wait_until_settled(&self) {
        drop(self.reading.lock().await);
    }

    fn lock_known_endpoint(&self) -> MutexGuard<'_, KnownEndpoint> {
        lock(&self.known)
    }
}

/// Shows nothing from the secret.
impl<C> fmt::Debug for SecretEndpoint<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretEndpoint").field("arn", &self.arn).finish_non_exhaustive()
    }
}

/// True if `time` has passed since `since`, or if the clock was set back.
fn has_passed(since: Timestamp, now: Timestamp, time: Duration) -> bool {
    (now - since).to_std().map_or(true, |passed| passed >= time)
}

async fn fetch_endpoint(
    client: &Client,
    arn: &str,
    settings: &EndpointSettings,
) -> Result<Endpoint, SecretError> {
    let secret = client
        .get_secret_value()
        .secret_id(arn)
        .send()
        .await
        .map_err(|error| SecretError::Unreadable(error.code().unwrap_or("no answer").to_owned()))?;
    Endpoint::parse(settings, secret.secret_string.as_deref().ok_or(SecretError::NotAnObject)?)
}
