//! The secret with the headers, which is read at the start and again when it may have changed.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata as _;
use futures_util::future::{Either, select};
use redeliver_core::deliver::until;
use redeliver_core::events::Event;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};
use tokio::sync::OwnedMutexGuard;

use super::{Headers, HeadersError};
use crate::SystemClock;

/// The age after which headers are refreshed in the background.
const AGE_MAX: Duration = Duration::from_secs(300);
/// The pause between two readings after refusals, and between two refreshes: Secrets Manager bills each request.
const PAUSE: Duration = Duration::from_secs(30);
/// The timeout of a refresh, whose connection may be dead after a freeze.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Headers from a secret, which may be rotated while in use. Clones share their state.
#[derive(Clone)]
pub struct SecretHeaders<C = SystemClock> {
    client: Client,
    arn: Arc<str>,
    clock: C,
    observer: Arc<dyn Observer>,
    known: Arc<Mutex<Known>>,
    /// Locked during a reading.
    reading: Arc<tokio::sync::Mutex<()>>,
}

/// The current headers. All times are when a reading began, since a response may come late.
struct Known {
    headers: Headers,
    read_at: Timestamp,
    tried_at: Timestamp,
    tried_after_refusal_at: Option<Timestamp>,
}

impl<C: Clock + Clone + 'static> SecretHeaders<C> {
    /// Reads the secret. `observer` gets an event if it cannot be refreshed later.
    ///
    /// # Errors
    /// If it cannot be read or is invalid.
    pub async fn read(
        config: &SdkConfig,
        arn: &str,
        clock: C,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, HeadersError> {
        let client = Client::new(config);
        let now = clock.now();
        let headers = get(&client, arn).await?;
        let known = Known { headers, read_at: now, tried_at: now, tried_after_refusal_at: None };
        let known = Arc::new(Mutex::new(known));
        Ok(Self { client, arn: arn.into(), clock, observer, known, reading: Arc::default() })
    }

    /// The current headers, at once. Old ones are also refreshed in the background, for later calls.
    pub(crate) fn current(&self) -> Headers {
        let (headers, is_old) = {
            let (known, now) = (self.known(), self.clock.now());
            (known.headers.clone(), passed(known.read_at, now, AGE_MAX) && passed(known.tried_at, now, PAUSE))
        };
        if is_old && let Ok(turn) = Arc::clone(&self.reading).try_lock_owned() {
            tokio::spawn(self.clone().read_again(turn));
        }
        headers
    }

    /// Headers other than the refused ones; `None` if there are none yet.
    pub(crate) async fn other_than(&self, refused: &Headers) -> Option<Headers> {
        let other = || Some(self.known().headers.clone()).filter(|headers| headers != refused);
        if let Some(other) = other() {
            return Some(other);
        }
        // After a rotation many calls are refused at once: the first one reads, and the others use its result.
        let turn = Arc::clone(&self.reading).lock_owned().await;
        if let Some(other) = other() {
            return Some(other);
        }
        // Checked after the lock is taken: the previous holder may have tried.
        let now = self.clock.now();
        if self.known().tried_after_refusal_at.is_some_and(|tried_at| !passed(tried_at, now, PAUSE)) {
            return None;
        }
        self.known().tried_after_refusal_at = Some(now);
        // In a task, since the call may be cut off, but later calls need the result, too.
        let _panicked = tokio::spawn(self.clone().read_again(turn)).await;
        other()
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    async fn read_again(self, _turn: OwnedMutexGuard<()>) {
        let began_at = self.clock.now();
        self.known().tried_at = began_at;
        let (answer, time_is_up) = (pin!(get(&self.client, &self.arn)), pin!(self.clock.sleep(TIMEOUT)));
        let answer = match select(answer, time_is_up).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(HeadersError::Unreadable("Timeout".to_owned())),
        };
        match answer {
            Ok(headers) => {
                let mut known = self.known();
                known.headers = headers;
                known.read_at = began_at;
            }
            // Interrupted by a freeze, which says nothing about the secret; the next call tries again.
            Err(_) if until(began_at, self.clock.now()) >= 2 * TIMEOUT => {}
            Err(error) => {
                let code = error.code().to_owned();
                self.observer.observe(&Event::HeadersNotRefreshed { code });
            }
        }
    }
}

impl<C> SecretHeaders<C> {
    /// Waits until no reading is in progress.
    #[cfg(test)]
    pub(crate) async fn settled(&self) {
        drop(self.reading.lock().await);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

/// Shows no headers: even their names may be secret.
impl<C> fmt::Debug for SecretHeaders<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretHeaders").field("arn", &self.arn).finish_non_exhaustive()
    }
}

/// True if `time` has passed, or if the clock was set back.
fn passed(since: Timestamp, now: Timestamp, time: Duration) -> bool {
    (now - since).to_std().map_or(true, |passed| passed >= time)
}

async fn get(client: &Client, arn: &str) -> Result<Headers, HeadersError> {
    let secret = client
        .get_secret_value()
        .secret_id(arn)
        .send()
        .await
        .map_err(|error| HeadersError::Unreadable(error.code().unwrap_or("no answer").to_owned()))?;
    Headers::parse(secret.secret_string.as_deref().ok_or(HeadersError::NotAnObject)?)
}
