//! Explains why the credentials of a profile cannot be loaded, and how to fix it.

use std::error::Error;

use aws_config::profile::{Profile, ProfileSet};
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sso::operation::get_role_credentials::GetRoleCredentialsError;
use aws_sdk_sts::operation::assume_role::AssumeRoleError;

use super::aws_error::describe_error;
use super::profile::{CredentialsOrigin, CredentialsSource, explain_missing_mfa_code};
use crate::terminal::escape::{escape_line, shorten_text};

/// Maximum number of characters to show from the message of a `credential_process`.
const MESSAGE_CHARACTERS_MAX: usize = 500;
/// Minimum length of a word to mask because its characters look like those of a secret. AWS secret keys have 40.
const SECRET_CHARACTERS_MIN: usize = 32;
const HIDDEN: &str = "[hidden]";

/// Returns the reason and the remedy in one sentence; `None` if the selected profile is not the cause, or if it
/// contains only keys. `why` is the last cause of the error.
pub(super) fn explain_credential_failure(
    profiles: &ProfileSet,
    error: &(dyn Error + 'static),
    why: &str,
) -> Option<String> {
    let selected = profiles.selected_profile();
    let origin = CredentialsOrigin::for_selected_profile(profiles)?;
    if let Some(refused) = find_cause::<SdkError<AssumeRoleError, HttpResponse>>(error) {
        return Some(match origin.mfa_profile {
            Some(mfa_profile) => explain_missing_mfa_code(mfa_profile, selected),
            None => {
                let refused = escape_line(&describe_error(refused));
                format!("the role of profile {} cannot be assumed: {refused}", escape_line(selected))
            }
        });
    }
    let name = escape_line(origin.profile.name());
    match origin.source {
        CredentialsSource::SingleSignOn => Some(explain_single_sign_on_failure(&name, error, why)),
        CredentialsSource::LoginSession => Some(format!(
            "the login session of profile {name} has expired or does not exist ({}): run `aws login --profile {name}`",
            escape_line(why)
        )),
        CredentialsSource::CredentialProcess => Some(explain_credential_process_failure(origin.profile, why)),
        CredentialsSource::Keys | CredentialsSource::Other => None,
    }
}

fn explain_single_sign_on_failure(name: &str, error: &(dyn Error + 'static), why: &str) -> String {
    // Missing settings in the files are reported in the SDK's own words.
    if let Some(wrong) = why.strip_prefix("ProfileFile provider could not be built: ") {
        return format!("profile {name} cannot be used: {}", escape_line(wrong));
    }
    match find_cause::<SdkError<GetRoleCredentialsError, HttpResponse>>(error) {
        Some(refused @ SdkError::ServiceError(answer))
            if !matches!(answer.err(), GetRoleCredentialsError::UnauthorizedException(_)) =>
        {
            format!(
                "single sign-on refused credentials for profile {name} ({}): check its sso_account_id and \
                 sso_role_name",
                escape_line(&describe_error(refused))
            )
        }
        Some(unanswered @ (SdkError::DispatchFailure(_) | SdkError::TimeoutError(_))) => format!(
            "no connection to the single sign-on of profile {name} ({}): check the network and its sso_region",
            escape_line(&root_cause(unanswered))
        ),
        _ => format!(
            "the single sign-on session of profile {name} has expired or does not exist ({}): run `aws sso login \
             --profile {name}`",
            escape_line(why)
        ),
    }
}

fn explain_credential_process_failure(profile: &Profile, why: &str) -> String {
    let name = escape_line(profile.name());
    let failure = why.strip_prefix("Error retrieving credentials: external process exited with code ");
    let (status, message) = match failure.and_then(|failure| failure.split_once(". Stderr:")) {
        Some((status, stderr)) => (format!(" ({})", escape_line(status)), stderr),
        None => (String::new(), why),
    };
    let command = profile.get("credential_process").unwrap_or_default();
    let message = mask_secrets(message, command);
    let message =
        message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let message = match message.as_str() {
        "" => "it wrote nothing to standard error".to_owned(),
        message => shorten_text(&escape_line(message), MESSAGE_CHARACTERS_MAX),
    };
    format!("the credential_process of profile {name} failed{status}: {message}")
}

/// Masks possible secrets in a message: command arguments and values whose names suggest a secret, and long words that
/// look like keys or tokens.
fn mask_secrets(message: &str, command: &str) -> String {
    let mut shown = message.to_owned();
    for secret in secret_arguments(command) {
        shown = shown.replace(secret, HIDDEN);
    }
    let lines = shown.split_inclusive('\n').map(|line| {
        let mut follows_name = false;
        let words = line.split_inclusive(char::is_whitespace).map(|word| {
            let value = word.trim_end();
            let hidden = mask_word(value, follows_name);
            follows_name = suggests_secret(value) && value.ends_with([':', '=']);
            format!("{hidden}{}", &word[value.len()..])
        });
        words.collect::<String>()
    });
    lines.collect()
}

/// Masks the value after `=` or `:` if the name before it suggests a secret, or the entire word if it follows such a
/// name or looks like a secret.
fn mask_word(word: &str, follows_name: bool) -> String {
    let is_token = |character: char| character.is_ascii_alphanumeric() || "+/=_-.".contains(character);
    let longest = word.split(|character| !is_token(character)).map(str::len).max().unwrap_or_default();
    let has = |is: fn(&char) -> bool| word.chars().any(|character| is(&character));
    let is_long = longest >= SECRET_CHARACTERS_MIN
        && has(char::is_ascii_digit)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase);
    let mut separators = word.match_indices([':', '=']).map(|(at, _)| at);
    match separators.find(|at| suggests_secret(&word[..*at]) && at + 1 < word.len()) {
        Some(at) => format!("{}{HIDDEN}", &word[..=at]),
        None if (follows_name || is_long) && !word.is_empty() => HIDDEN.to_owned(),
        None => word.to_owned(),
    }
}

/// Returns the values of options such as `--password`.
fn secret_arguments(command: &str) -> Vec<&str> {
    let mut secrets = Vec::new();
    let mut follows_name = false;
    for word in command.split_whitespace() {
        let value = match word.split_once('=') {
            Some((name, value)) if suggests_secret(name) => value,
            _ if follows_name && !word.starts_with('-') => word,
            _ => "",
        };
        secrets.push(value.trim_matches(['"', '\'']));
        follows_name = word.starts_with('-') && suggests_secret(word) && !word.contains('=');
    }
    // The longest is masked first, since a secret may be part of another.
    secrets.retain(|secret| !secret.is_empty());
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
}

fn suggests_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["secret", "token", "passw", "passphrase", "apikey", "api-key", "api_key", "assertion", "cookie"]
        .iter()
        .any(|part| name.contains(part))
        || name.trim_end_matches([':', '=']).ends_with("pin")
}

fn find_cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    error.downcast_ref().or_else(|| find_cause(error.source()?))
}

fn root_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_a_credential_process_message_are_hidden() {
        for (message, command, shown) in [
            (
                "cannot reach https://idp.example.com/saml",
                "helper",
                "cannot reach https://idp.example.com/saml",
            ),
            ("no such user: ana", "helper --user ana", "no such user: ana"),
            ("bad login: ana/hunter2", "helper --user ana --password hunter2", "bad login: ana/[hidden]"),
            ("bad login: hunter2", "helper --password='hunter2' --mfa", "bad login: [hidden]"),
            ("wrong pin 123456", "helper --pin 123456", "wrong pin [hidden]"),
            ("AWS_SECRET_ACCESS_KEY=abc refused", "helper", "AWS_SECRET_ACCESS_KEY=[hidden] refused"),
            (
                "{\"SessionToken\": \"abc\", \"Version\": 1}",
                "helper",
                "{\"SessionToken\": [hidden] \"Version\": 1}",
            ),
            (
                "GET https://idp.example.com/a?token=abc failed",
                "helper",
                "GET https://idp.example.com/a?token=[hidden] failed",
            ),
            ("token: abc\nnext: line", "helper", "token: [hidden]\nnext: line"),
            (
                "refused wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY by the server",
                "helper",
                "refused [hidden] by the server",
            ),
            (
                "/usr/local/share/company-tools/bin/aws-login-helper: not found",
                "x",
                "/usr/local/share/company-tools/bin/aws-login-helper: not found",
            ),
        ] {
            assert_eq!(mask_secrets(message, command), shown, "{message}");
        }
    }
}
