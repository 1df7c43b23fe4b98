//! Profiles in the AWS configuration files, selected by `--profile` or `AWS_PROFILE`, and the source of their
//! credentials. As in the AWS CLI, the profile given with `--profile` must exist and takes precedence over credentials
//! in the environment.

use aws_config::profile::{Profile, ProfileFileLoadError, ProfileSet, load};
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_types::os_shim_internal::{Env, Fs};

use crate::terminal::escape::escape_line;

/// The source of a profile's credentials, possibly through other profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CredentialsOrigin<'a> {
    /// The profile that contains the source: the last `source_profile`.
    pub(super) profile: &'a Profile,
    pub(super) source: CredentialsSource,
    /// The first role profile with `mfa_serial`, if any.
    pub(super) mfa_profile: Option<&'a str>,
    pub(super) assumes_role: bool,
}

/// The source of a profile's initial credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialsSource {
    SingleSignOn,
    LoginSession,
    CredentialProcess,
    /// `aws_access_key_id`.
    Keys,
    /// `credential_source`, `web_identity_token_file`, or none.
    Other,
}

/// Reads the profiles in the files and selects `name`, otherwise `AWS_PROFILE` or `default`.
pub(super) async fn read_profiles(
    files: &EnvConfigFiles,
    name: Option<&str>,
) -> Result<ProfileSet, ProfileFileLoadError> {
    load(&Fs::real(), &Env::real(), files, name.map(|name| name.to_owned().into())).await
}

/// Returns an error if the profile does not exist, or if its role requires MFA: the SDK would call STS without a code.
pub(super) async fn check_profile(name: &str, files: &EnvConfigFiles) -> Result<(), String> {
    let profiles = read_profiles(files, Some(name)).await;
    let profiles = profiles.map_err(|error| format!("--profile {name}: {error}"))?;
    if profiles.get_profile(name).is_some() {
        let mfa_profile =
            CredentialsOrigin::for_selected_profile(&profiles).and_then(|origin| origin.mfa_profile);
        return mfa_profile.map_or(Ok(()), |mfa_profile| {
            Err(format!("--profile {name}: {}", explain_missing_mfa_code(mfa_profile, name)))
        });
    }
    let mut others: Vec<_> = profiles.profiles().collect();
    others.sort_unstable();
    let existing = match others.as_slice() {
        [] => "they have no profiles (~/.aws/config, ~/.aws/credentials)".to_owned(),
        others => format!("existing profiles: {}", others.join(", ")),
    };
    Err(format!("--profile {name}: no such profile in the AWS configuration files; {existing}"))
}

/// Explains that a role requires MFA, and suggests remedies.
pub(super) fn explain_missing_mfa_code(mfa_profile: &str, selected: &str) -> String {
    let (mfa_profile, selected) = (escape_line(mfa_profile), escape_line(selected));
    format!(
        "the role of profile {mfa_profile} asks for MFA (mfa_serial), and redeliver cannot ask for a code: run `eval \
         \"$(aws configure export-credentials --profile {selected} --format env)\"` and leave the profile out, or use a \
         profile with `credential_process = aws configure export-credentials --profile {selected}`"
    )
}

impl<'a> CredentialsOrigin<'a> {
    /// Determines the origin of the selected profile's credentials; `None` if a profile is missing or refers to itself
    /// through others.
    pub(super) fn for_selected_profile(profiles: &'a ProfileSet) -> Option<Self> {
        let (mut mfa_profile, mut visited) = (None, Vec::new());
        let mut profile = profiles.get_profile(profiles.selected_profile())?;
        loop {
            if visited.contains(&profile.name()) {
                return None;
            }
            // As in the SDK, the keys in a source profile take precedence over its role.
            let has_keys_of_source = !visited.is_empty() && profile.get("aws_access_key_id").is_some();
            let is_role = is_role(profile) && !has_keys_of_source;
            if is_role && profile.get("mfa_serial").is_some() {
                mfa_profile = mfa_profile.or(Some(profile.name()));
            }
            let next = profile.get("source_profile").filter(|next| is_role && *next != profile.name());
            let Some(next) = next else {
                let source = if has_keys_of_source {
                    CredentialsSource::Keys
                } else {
                    CredentialsSource::from_profile(profile)
                };
                let assumes_role = is_role || !visited.is_empty();
                return Some(Self { profile, source, mfa_profile, assumes_role });
            };
            visited.push(profile.name());
            profile = profiles.get_profile(next)?;
        }
    }

    /// Returns true if the credentials are used exactly as stored in the files.
    pub(super) fn has_only_keys(self) -> bool {
        self.source == CredentialsSource::Keys && !self.assumes_role
    }
}

/// Returns true for a role. A web identity is a source of credentials, although it has a role.
fn is_role(profile: &Profile) -> bool {
    profile.get("role_arn").is_some() && profile.get("web_identity_token_file").is_none()
}

impl CredentialsSource {
    /// Determines the source, in the SDK's order.
    fn from_profile(profile: &Profile) -> Self {
        let has = |names: &[&str]| names.iter().any(|name| profile.get(name).is_some());
        if has(&["credential_source", "web_identity_token_file"]) {
            Self::Other
        } else if has(&["sso_session", "sso_start_url", "sso_account_id", "sso_role_name", "sso_region"]) {
            Self::SingleSignOn
        } else if has(&["login_session"]) {
            Self::LoginSession
        } else if has(&["credential_process"]) {
            Self::CredentialProcess
        } else if has(&["aws_access_key_id"]) {
            Self::Keys
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_runtime::env_config::file::EnvConfigFileKind;

    use super::*;

    fn config_files(config: &str, credentials: &str) -> EnvConfigFiles {
        EnvConfigFiles::builder()
            .with_contents(EnvConfigFileKind::Config, config)
            .with_contents(EnvConfigFileKind::Credentials, credentials)
            .build()
    }

    #[tokio::test]
    async fn the_error_for_an_unknown_profile_lists_the_existing_profiles() {
        let files = config_files("[profile prod]\nregion = eu-central-1\n", "[dev]\naws_access_key_id = a\n");
        assert_eq!(check_profile("prod", &files).await, Ok(()));
        assert_eq!(check_profile("dev", &files).await, Ok(()));
        assert_eq!(
            check_profile("nope", &files).await.unwrap_err(),
            "--profile nope: no such profile in the AWS configuration files; existing profiles: dev, prod"
        );
    }

    #[tokio::test]
    async fn the_error_for_a_profile_names_the_files_if_they_are_empty() {
        let error = check_profile("prod", &config_files("", "")).await.unwrap_err();
        assert!(error.ends_with("they have no profiles (~/.aws/config, ~/.aws/credentials)"), "{error}");
    }

    /// Returns the origin's profile and source, the profile that requires MFA, and true if a role is assumed.
    async fn find_origin(
        config: &str,
        name: &str,
    ) -> Option<(String, CredentialsSource, Option<String>, bool)> {
        let profiles = read_profiles(&config_files(config, ""), Some(name)).await.unwrap();
        let origin = CredentialsOrigin::for_selected_profile(&profiles)?;
        let name = origin.profile.name().to_owned();
        Some((name, origin.source, origin.mfa_profile.map(str::to_owned), origin.assumes_role))
    }

    #[tokio::test]
    async fn the_origin_of_credentials_is_the_last_source_profile() {
        let config = "[profile sso]\nsso_session = corp\n[profile legacy]\nsso_start_url = https://example.com\n\
                      [profile login]\nlogin_session = arn\n[profile process]\ncredential_process = helper\n\
                      [profile keys]\naws_access_key_id = a\naws_secret_access_key = s\n\
                      [profile role]\nrole_arn = r\nsource_profile = sso\n\
                      [profile second]\nrole_arn = r\nsource_profile = role\n\
                      [profile machine]\nrole_arn = r\ncredential_source = Environment\n\
                      [profile itself]\nrole_arn = r\nsource_profile = itself\naws_access_key_id = a\n\
                      [profile both]\nrole_arn = r\nsource_profile = sso\naws_access_key_id = a\n\
                      [profile of-both]\nrole_arn = r\nsource_profile = both\n\
                      [profile token]\nrole_arn = r\nweb_identity_token_file = f\n\
                      [profile one]\nrole_arn = r\nsource_profile = two\n\
                      [profile two]\nrole_arn = r\nsource_profile = one\n\
                      [profile nowhere]\nrole_arn = r\nsource_profile = none\n";
        for (name, expected) in [
            ("sso", Some(("sso", CredentialsSource::SingleSignOn, false))),
            ("legacy", Some(("legacy", CredentialsSource::SingleSignOn, false))),
            ("login", Some(("login", CredentialsSource::LoginSession, false))),
            ("process", Some(("process", CredentialsSource::CredentialProcess, false))),
            ("keys", Some(("keys", CredentialsSource::Keys, false))),
            ("role", Some(("sso", CredentialsSource::SingleSignOn, true))),
            ("second", Some(("sso", CredentialsSource::SingleSignOn, true))),
            ("machine", Some(("machine", CredentialsSource::Other, true))),
            ("itself", Some(("itself", CredentialsSource::Keys, true))),
            ("both", Some(("sso", CredentialsSource::SingleSignOn, true))),
            ("of-both", Some(("both", CredentialsSource::Keys, true))),
            ("token", Some(("token", CredentialsSource::Other, false))),
            ("one", None),
            ("nowhere", None),
        ] {
            let expected = expected.map(|(base, source, is_role)| (base.to_owned(), source, None, is_role));
            assert_eq!(find_origin(config, name).await, expected, "{name}");
        }
    }

    #[tokio::test]
    async fn the_error_for_a_role_that_requires_mfa_suggests_two_workarounds() {
        let config = "[profile keys]\naws_access_key_id = a\naws_secret_access_key = s\nmfa_serial = unused\n\
                      [profile admin]\nrole_arn = r\nsource_profile = keys\nmfa_serial = m\n\
                      [profile ops]\nrole_arn = r\nsource_profile = admin\n";
        let files = config_files(config, "");
        assert_eq!(check_profile("keys", &files).await, Ok(()));
        assert_eq!(
            check_profile("ops", &files).await.unwrap_err(),
            "--profile ops: the role of profile admin asks for MFA (mfa_serial), and redeliver cannot ask for a code: run \
             `eval \"$(aws configure export-credentials --profile ops --format env)\"` and leave the profile out, or use \
             a profile with `credential_process = aws configure export-credentials --profile ops`"
        );
    }
}
