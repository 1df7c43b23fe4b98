//! The secret of the headers: read when the function starts, and again when it may have changed.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::error::ProvideErrorMetadata as _;
use futures_util::future::{Either, select};
use redeliver_core::deliver::until;
use redeliver_core::events::Event;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};
use tokio::sync::OwnedMutexGuard;

use super::{Headers, HeadersError};
use crate::SystemClock;

/// Headers that are older are read again, while calls go on.
const AGE_MAX: Duration = Duration::from_secs(300);
/// Between two readings after refusals, and between two tries to renew what is old: Secrets Manager is paid by the
/// request.
const PAUSE: Duration = Duration::from_secs(30);
/// For a reading of headers that are known already. It may have begun before a freeze, and its connection be dead.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The headers of a secret, which may be rotated while they are in use. Clones are one.
#[derive(Clone)]
pub struct SecretHeaders<C = SystemClock> {
    client: Client,
    arn: Arc<str>,
    clock: C,
    observer: Arc<dyn Observer>,
    known: Arc<Mutex<Known>>,
    /// Held by the one reading at a time.
    reading: Arc<tokio::sync::Mutex<()>>,
}

/// All times are those at which a reading began: an answer may come late, and says nothing of the time since.
struct Known {
    headers: Headers,
    read_at: Timestamp,
    tried_at: Timestamp,
    tried_after_refusal_at: Option<Timestamp>,
}

impl<C: Clock + Clone + 'static> SecretHeaders<C> {
    /// Reads the secret. `observer` learns it if it cannot be read again later.
    ///
    /// # Errors
    /// If it cannot be read, or is not what it should be.
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

    /// The headers as they are known, at once. Old ones are also read again, while this call goes on, for those after
    /// it.
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

    /// Other headers than those that the target has refused; `None` if there are no others yet.
    pub(crate) async fn other_than(&self, refused: &Headers) -> Option<Headers> {
        let other = || Some(self.known().headers.clone()).filter(|headers| headers != refused);
        if let Some(other) = other() {
            return Some(other);
        }
        // Many calls are refused at once after a rotation: the first one reads, and the others find here what it has
        // read.
        let turn = Arc::clone(&self.reading).lock_owned().await;
        if let Some(other) = other() {
            return Some(other);
        }
        // Looked at once the turn has come, not before: the reading before it may have been the try.
        let now = self.clock.now();
        if self.known().tried_after_refusal_at.is_some_and(|tried_at| !passed(tried_at, now, PAUSE)) {
            return None;
        }
        self.known().tried_after_refusal_at = Some(now);
        // In a task: the call may be cut off, but what is read is for the calls after it, too.
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
            // A freeze has broken it off, which says nothing of the secret; the next call tries again.
            Err(_) if until(began_at, self.clock.now()) >= 2 * TIMEOUT => {}
            Err(error) => {
                let code = error.code().to_owned();
                self.observer.observe(&Event::HeadersNotRefreshed { code });
            }
        }
    }
}

impl<C> SecretHeaders<C> {
    /// Until nothing is being read.
    #[cfg(test)]
    pub(crate) async fn settled(&self) {
        drop(self.reading.lock().await);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without the headers: their names may be telling, too.
impl<C> fmt::Debug for SecretHeaders<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretHeaders").field("arn", &self.arn).finish_non_exhaustive()
    }
}

/// Whether so much time has passed. A clock that was set back does not stop what is due.
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
