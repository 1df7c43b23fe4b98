//! Credentials for signing requests without an SDK client.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use tokio::sync::Mutex;

/// The role's credentials, cached until they expire: providers do not cache them, and some query a server.
pub(crate) struct RoleCredentials {
    provider: Option<SharedCredentialsProvider>,
    /// The cached credentials, and the time at which they are replaced.
    known: Mutex<Option<(Credentials, SystemTime)>>,
}

/// The time before expiry at which credentials are replaced, as in the SDK's own cache (`IdentityCache`).
const EXPIRY_BUFFER: Duration = Duration::from_secs(10);
/// The lifetime of credentials without an expiry, as in the SDK's own cache (`IdentityCache`).
const DEFAULT_LIFETIME: Duration = Duration::from_secs(15 * 60);

impl RoleCredentials {
    pub(crate) fn new(provider: Option<SharedCredentialsProvider>) -> Self {
        Self { provider, known: Mutex::default() }
    }

    pub(crate) async fn load_at(&self, now: SystemTime) -> Result<Credentials, CredentialsError> {
        let mut known = self.known.lock().await;
        if let Some((credentials, until)) = &*known
            && now < *until
        {
            return Ok(credentials.clone());
        }
        let Some(provider) = &self.provider else {
            return Err(CredentialsError::not_loaded("no credentials provider is configured"));
        };
        let credentials = provider.provide_credentials().await?;
        let end = credentials.expiry().unwrap_or(now + DEFAULT_LIFETIME);
        *known = Some((credentials.clone(), end - EXPIRY_BUFFER));
        Ok(credentials)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use aws_credential_types::provider::{ProvideCredentials, future};

    use super::*;

    /// A provider of numbered credentials that expire at `end`.
    #[derive(Debug)]
    struct NumberedProvider {
        requests: Arc<AtomicUsize>,
        end: Option<SystemTime>,
    }

    impl ProvideCredentials for NumberedProvider {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let number = self.requests.fetch_add(1, SeqCst) + 1;
            future::ProvideCredentials::ready(Ok(Credentials::new(
                format!("key {number}"),
                "secret",
                None,
                self.end,
                "numbered",
            )))
        }
    }

    #[tokio::test]
    async fn credentials_are_reloaded_just_before_they_expire() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        for (end, last) in [(Some(at(3600)), 3589), (None, 889)] {
            let requests = Arc::new(AtomicUsize::new(0));
            let provider =
                SharedCredentialsProvider::new(NumberedProvider { requests: Arc::clone(&requests), end });
            let credentials = RoleCredentials::new(Some(provider));
            let mut keys = Vec::new();
            for now in [0, last, last + 1] {
                keys.push(credentials.load_at(at(now)).await.unwrap().access_key_id().to_owned());
            }
            assert_eq!(keys, ["key 1", "key 1", "key 2"], "{end:?}");
        }
    }
}
