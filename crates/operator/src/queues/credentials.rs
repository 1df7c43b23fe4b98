//! The credentials of a connection, shared by all its clients: a `credential_process` runs once, not once per client.
//! They are reloaded shortly before they expire, from the current AWS configuration files, so that a console keeps
//! working after a new login.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::identity::IdentityCache;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileSet};
use aws_config::provider_config::ProviderConfig;
use aws_config::{Region, SdkConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_sdk_sqs::config::{Credentials, SharedIdentityCache};
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use tokio::sync::{Mutex, OnceCell};

use super::profile::{self, CredentialsOrigin};

/// The time limit for loading credentials. A `credential_process` may wait for a person to touch a key, enter a
/// password or use a browser, and the AWS CLI has no limit.
const LOAD_TIMEOUT: Duration = Duration::from_secs(300);

/// Keys in the files do not expire, but a login tool may replace them at any time, so they are reread at this interval.
/// The SDK rereads them 10 s earlier.
const KEYS_LIFETIME: Duration = Duration::from_secs(60);

/// The credentials of a connection, with a cache.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedCredentials(Arc<OnceCell<(SharedCredentialsProvider, SharedIdentityCache)>>);

impl SharedCredentials {
    /// Adds the credentials to a client's configuration: those of the profile or, without a profile, the credentials
    /// that the AWS CLI would use.
    pub(super) async fn add_to(&self, config: SdkConfig, profile: Option<&str>) -> SdkConfig {
        let region = config.region().cloned();
        let load = async || {
            let provider = match profile {
                Some(name) => SharedCredentialsProvider::new(ProfileCredentials::new(Some(name), region)),
                None => SharedCredentialsProvider::new(default_chain(region).await),
            };
            (provider, IdentityCache::lazy().load_timeout(LOAD_TIMEOUT).build())
        };
        let (provider, cache) = self.0.get_or_init(load).await.clone();
        config.into_builder().credentials_provider(provider).identity_cache(cache).build()
    }
}

/// Returns the SDK's default chain, but with profiles that are reread.
async fn default_chain(region: Option<Region>) -> CredentialsProviderChain {
    let config = provider_config(region.clone());
    let others = DefaultCredentialsChain::builder().configure(config).region(region.clone()).build().await;
    CredentialsProviderChain::first_try("Environment", EnvironmentVariableCredentialsProvider::new())
        .or_else("Profile", ProfileCredentials::new(None, region))
        .or_else("Default", others)
}

fn provider_config(region: Option<Region>) -> ProviderConfig {
    ProviderConfig::without_region().with_region(region).with_http_client(redeliver_aws::http_client())
}

/// The credentials of a profile. The SDK's own provider reads the files once; here they are checked for changes on each
/// load.
#[derive(Debug)]
struct ProfileCredentials {
    /// The profile's name; `None` selects `AWS_PROFILE` or else `default`.
    name: Option<String>,
    /// The STS region, for roles.
    region: Option<Region>,
    files: EnvConfigFiles,
    /// The provider holds the state needed to refresh a session, so it is kept while the files are unchanged.
    last: Mutex<Option<(ProfileSet, Arc<ProfileFileCredentialsProvider>)>>,
}

impl ProfileCredentials {
    fn new(name: Option<&str>, region: Option<Region>) -> Self {
        Self {
            name: name.map(str::to_owned),
            region,
            files: EnvConfigFiles::default(),
            last: Mutex::default(),
        }
    }

    async fn load(&self) -> Result<Credentials, CredentialsError> {
        let files = profile::read_profiles(&self.files, self.name.as_deref()).await;
        let files = files.map_err(CredentialsError::invalid_configuration)?;
        let has_keys =
            CredentialsOrigin::for_selected_profile(&files).is_some_and(CredentialsOrigin::has_only_keys);
        let provider = self.current_provider(files).await;
        let loaded = provider.provide_credentials().await;
        match &loaded {
            // After an error other than `ProviderError`, the provider has no state worth keeping, and cannot load
            // again.
            Err(error) if !matches!(error, CredentialsError::ProviderError(_)) => {
                *self.last.lock().await = None
            }
            _ => {}
        }
        let mut credentials = loaded?;
        if has_keys && credentials.expiry().is_none() {
            *credentials.expiry_mut() = Some(SystemTime::from(SystemClock.now()) + KEYS_LIFETIME);
        }
        Ok(credentials)
    }

    async fn current_provider(&self, files: ProfileSet) -> Arc<ProfileFileCredentialsProvider> {
        let mut last = self.last.lock().await;
        if let Some((known, provider)) = &*last
            && *known == files
        {
            return Arc::clone(provider);
        }
        let mut provider = ProfileFileCredentialsProvider::builder()
            .configure(&provider_config(self.region.clone()))
            .profile_files(self.files.clone());
        if let Some(name) = &self.name {
            provider = provider.profile_name(name);
        }
        let provider = Arc::new(provider.build());
        *last = Some((files, Arc::clone(&provider)));
        provider
    }
}

impl ProvideCredentials for ProfileCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.load())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use aws_runtime::env_config::file::EnvConfigFileKind;
    use redeliver_dead_letters::files;

    use super::*;

    #[tokio::test]
    async fn keys_replaced_by_a_login_tool_are_reread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let write = |key: &str| {
            let text = format!("[ops]\naws_access_key_id = {key}\naws_secret_access_key = s\n");
            files::replace_file(&path, text.as_bytes()).unwrap();
        };
        let files = EnvConfigFiles::builder().with_file(EnvConfigFileKind::Credentials, &path).build();
        let credentials = ProfileCredentials { files, ..ProfileCredentials::new(Some("ops"), None) };
        let before = SystemTime::from(SystemClock.now());
        for key in ["FIRST", "SECOND"] {
            write(key);
            let loaded = credentials.load().await.unwrap();
            assert_eq!(loaded.access_key_id(), key);
            // The SDK would cache keys without an expiry for 15 minutes.
            let after = SystemTime::from(SystemClock.now());
            assert!((before + KEYS_LIFETIME..=after + KEYS_LIFETIME).contains(&loaded.expiry().unwrap()));
        }
        // Loading recovers from a temporarily missing file.
        fs::remove_file(&path).unwrap();
        credentials.load().await.unwrap_err();
        credentials.load().await.unwrap_err();
        write("THIRD");
        assert_eq!(credentials.load().await.unwrap().access_key_id(), "THIRD");
    }
}
