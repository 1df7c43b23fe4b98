//! `--profile`: as in the AWS CLI, a profile that is named must exist, and counts more than credentials in the
//! environment.

use aws_config::Region;
use aws_config::profile::{ProfileFileCredentialsProvider, load};
use aws_config::provider_config::ProviderConfig;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_types::os_shim_internal::{Env, Fs};

/// Returns an error if the profile does not exist.
pub(super) async fn check(name: &str, files: &EnvConfigFiles) -> Result<(), String> {
    let profiles = load(&Fs::real(), &Env::real(), files, None).await;
    let profiles = profiles.map_err(|error| format!("--profile {name}: {error}"))?;
    if profiles.get_profile(name).is_some() {
        return Ok(());
    }
    let mut others: Vec<_> = profiles.profiles().collect();
    others.sort_unstable();
    let there = match others.as_slice() {
        [] => "they have none (~/.aws/config, ~/.aws/credentials)".to_owned(),
        others => format!("they have {}", others.join(", ")),
    };
    Err(format!("--profile {name}: there is no such profile in the AWS configuration files; {there}"))
}

/// The credentials of a profile, even if the environment has others.
pub(super) fn credentials(name: &str, region: Option<Region>) -> ProfileFileCredentialsProvider {
    let config =
        ProviderConfig::without_region().with_region(region).with_http_client(redeliver_aws::http_client());
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
            check("nope", &files).await.unwrap_err(),
            "--profile nope: there is no such profile in the AWS configuration files; they have dev, prod"
        );
    }

    #[tokio::test]
    async fn where_there_are_no_profiles_none_is_found() {
        let error = check("prod", &files("", "")).await.unwrap_err();
        assert!(error.ends_with("they have none (~/.aws/config, ~/.aws/credentials)"), "{error}");
    }
}
