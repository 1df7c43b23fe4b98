//! `--profile`: as in the AWS CLI, a profile that is named must exist, and counts more than credentials in the environment.

use aws_config::Region;
use aws_config::profile::{ProfileFileCredentialsProvider, load};
use aws_config::provider_config::ProviderConfig;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_types::os_shim_internal::{Env, Fs};
use thiserror::Error;

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// No file has it.
    #[error("--profile {name}: there is no such profile in the AWS configuration files; {}", .there)]
    Missing {
        /// As it was given.
        name: String,
        /// The others, in words.
        there: String,
    },
    /// The files.
    #[error("--profile {name}: {reason}")]
    Files {
        /// As it was given.
        name: String,
        /// What is wrong with them.
        reason: String,
    },
}

/// Whether a profile is there.
///
/// # Errors
/// If it is not, or the files cannot be read.
pub(super) async fn check(name: &str, files: &EnvConfigFiles) -> Result<(), ProfileError> {
    let name = name.to_owned();
    let profiles = match load(&Fs::real(), &Env::real(), files, None).await {
        Ok(profiles) => profiles,
        Err(error) => return Err(ProfileError::Files { name, reason: error.to_string() }),
    };
    if profiles.get_profile(&name).is_some() {
        return Ok(());
    }
    let mut others: Vec<_> = profiles.profiles().collect();
    others.sort_unstable();
    let there = match others.as_slice() {
        [] => "they have none (~/.aws/config, ~/.aws/credentials)".to_owned(),
        others => format!("they have {}", others.join(", ")),
    };
    Err(ProfileError::Missing { name, there })
}

/// The credentials of a profile, whatever the environment has.
pub(super) fn credentials(name: &str, region: Option<Region>) -> ProfileFileCredentialsProvider {
    let config = ProviderConfig::without_region().with_region(region);
    ProfileFileCredentialsProvider::builder().configure(&config).profile_name(name).build()
}

#[cfg(test)]
mod tests {
    use aws_runtime::env_config::file::EnvConfigFileKind;

    use super::*;

    fn files(config: &str, credentials: &str) -> EnvConfigFiles {
        EnvConfigFiles::builder()
            .with_contents(EnvConfigFileKind::Config, config)
            .with_contents(EnvConfigFileKind::Credentials, credentials)
            .build()
    }

    #[tokio::test]
    async fn a_profile_is_in_one_of_the_two_files_or_is_refused_with_those_that_are() {
        let files = files("[profile prod]\nregion = eu-central-1\n", "[dev]\naws_access_key_id = a\n");
        assert_eq!(check("prod", &files).await, Ok(()));
        assert_eq!(check("dev", &files).await, Ok(()));
        assert_eq!(
            check("nope", &files).await.unwrap_err().to_string(),
            "--profile nope: there is no such profile in the AWS configuration files; they have dev, prod"
        );
    }

    #[tokio::test]
    async fn where_there_are_no_profiles_none_is_found() {
        let error = check("prod", &files("", "")).await.unwrap_err().to_string();
        assert!(error.ends_with("they have none (~/.aws/config, ~/.aws/credentials)"), "{error}");
    }
}
