//! Profiles as teams use them: single sign-on, login sessions, credential processes and roles. It is enough to sign in
//! with the AWS CLI, and after a session has expired, the error shows how to sign in again.

mod console;
mod stub;

use std::process::{Command, Output};

use stub::{FUTURE_MILLISECONDS, PortalStub};
use tempfile::TempDir;

/// Session files are named after the SHA-1 of the session's name or start URL, or the SHA-256 of the login session.
const CORP: &str = ".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json";
const LEGACY: &str = ".aws/sso/cache/b343494cf15ba6b81449840ea93161cf3b27e5e3.json";
const LOGIN: &str = ".aws/login/cache/b2b5a3795600f77a089fcfb9343ad775fd5212cd31b1bbdc2bb1397fd1b68abf.json";

const CONFIG: &str = "\
[sso-session corp]
sso_region = eu-central-1
sso_start_url = https://example.com/start
[profile corp]
sso_session = corp
sso_account_id = 123456789012
sso_role_name = ops
region = eu-central-1
[profile other]
sso_session = corp
sso_account_id = 210987654321
sso_role_name = audit
region = eu-central-1
[profile forbidden]
sso_session = corp
sso_account_id = 123456789012
sso_role_name = forbidden
region = eu-central-1
[profile legacy]
sso_start_url = https://example.com/start
sso_region = eu-central-1
sso_account_id = 123456789012
sso_role_name = ops
region = eu-central-1
[profile misspelt]
sso_session = crop
sso_account_id = 123456789012
sso_role_name = ops
region = eu-central-1
[profile login]
login_session = arn:aws:iam::123456789012:user/ana
region = eu-central-1
[profile process]
credential_process = sh ~/helper --user ana --password hunter2
region = eu-central-1
[profile role]
role_arn = arn:aws:iam::123456789012:role/deploy
source_profile = corp
region = eu-central-1
[profile forbidden-role]
role_arn = arn:aws:iam::123456789012:role/forbidden
source_profile = corp
region = eu-central-1
[profile machine]
role_arn = arn:aws:iam::123456789012:role/deploy
credential_source = Environment
region = eu-central-1
[profile mfa]
role_arn = arn:aws:iam::123456789012:role/admin
source_profile = corp
mfa_serial = arn:aws:iam::123456789012:mfa/ana
region = eu-central-1
[profile mfa-demanded]
role_arn = arn:aws:iam::123456789012:role/forbidden
source_profile = corp
mfa_serial = arn:aws:iam::123456789012:mfa/ana
region = eu-central-1
";

/// A home directory with the configuration above.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("the temporary folder is writable"));
        home.write(".aws/config", CONFIG);
        home
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
        redeliver_dead_letters::files::replace_file(&path, text.as_bytes()).expect("it is ours");
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.path().join(path)).expect("it was written")
    }

    /// Creates the file that `aws sso login` would.
    pub(crate) fn sign_in(&self, file: &str, token: &str, expires_at: &str) {
        self.write(
            file,
            &format!(r#"{{"accessToken":"{token}","expiresAt":"{expires_at}","region":"eu-central-1"}}"#),
        );
    }

    /// Returns the program with only the credentials of this home directory. Its requests are sent to the stub.
    pub(crate) fn command(&self, stub: &PortalStub, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redeliver"));
        command.args(arguments).args(["--endpoint-url", &stub.url]).env_clear();
        command
            .env("HOME", self.0.path())
            .env("PATH", "/usr/bin:/bin")
            .env("AWS_EC2_METADATA_DISABLED", "true");
        for service in ["SSO", "SSO_OIDC", "STS", "SIGNIN"] {
            command.env(format!("AWS_ENDPOINT_URL_{service}"), &stub.url);
        }
        command
    }

    fn run(&self, stub: &PortalStub, arguments: &[&str]) -> Output {
        self.command(stub, arguments).output().expect("the program starts")
    }

    /// Runs `send` with this profile, without `--apply`.
    fn send(&self, stub: &PortalStub, profile: &str) -> Output {
        self.run(stub, &[&SEND[..], &["--profile", profile]].concat())
    }

    /// Returns the error reported before any request to SQS.
    fn expect_error(&self, stub: &PortalStub, profile: &str) -> String {
        let output = self.send(stub, profile);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(stub.take_requests().iter().find(|action| action.starts_with("GetQueueAttributes")), None);
        stderr(&output)
    }
}

const SEND: [&str; 4] =
    ["send", "tests/one-message.jsonl", "--queue", "http://127.0.0.1:9/123456789012/orders"];

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const IN_2099: &str = "2099-01-01T00:00:00Z";
const IN_2020: &str = "2020-01-01T00:00:00Z";

#[test]
fn a_single_sign_on_profile_signs_with_the_credentials_of_its_role() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.sign_in(CORP, "token", IN_2099);
    home.sign_in(LEGACY, "old", IN_2099);
    for (profile, token, key) in [
        ("corp", "token", "KEY-token-ops"),
        ("other", "token", "KEY-token-audit"),
        ("legacy", "old", "KEY-old-ops"),
    ] {
        let output = home.send(&stub, profile);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        // The portal receives one request, although several clients use the profile's credentials.
        let expected = [
            format!("/federation/credentials {token}"),
            format!("GetQueueAttributes {key}"),
            format!("GetCallerIdentity {key}"),
        ];
        assert_eq!(stub.take_requests(), expected, "{profile}");
    }
}

#[test]
fn the_profile_from_the_environment_can_use_single_sign_on() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.sign_in(CORP, "token", IN_2099);
    // With `--endpoint-url`, the command would use credentials for a local emulator instead.
    let send = |home: &Home, profile: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redeliver"));
        command.args(SEND).env_clear().env("HOME", home.0.path()).env("AWS_PROFILE", profile);
        command.env("AWS_ENDPOINT_URL", &stub.url).output().expect("the program starts")
    };
    assert_eq!(send(&home, "corp").status.code(), Some(0));
    assert_eq!(
        stub.take_requests(),
        [
            "/federation/credentials token",
            "GetQueueAttributes KEY-token-ops",
            "GetCallerIdentity KEY-token-ops"
        ]
    );
    let demanded = stderr(&send(&home, "mfa-demanded"));
    let start = "error: the role of profile mfa-demanded asks for MFA (mfa_serial), and redeliver cannot ask for a code: ";
    assert!(demanded.starts_with(start), "{demanded}");
    home.sign_in(CORP, "token", IN_2020);
    assert_eq!(stderr(&send(&home, "corp")), EXPIRED);
}

#[test]
fn a_refreshable_session_is_refreshed_once() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.write(
        CORP,
        &format!(
            r#"{{"accessToken":"token","expiresAt":"{IN_2020}","refreshToken":"r1","clientId":"c","clientSecret":"s","registrationExpiresAt":"{IN_2099}","startUrl":"https://example.com/start","region":"eu-central-1"}}"#
        ),
    );
    for refreshes in [&["/token "][..], &[]] {
        assert_eq!(home.send(&stub, "corp").status.code(), Some(0));
        let expected = [
            "/federation/credentials refreshed",
            "GetQueueAttributes KEY-refreshed-ops",
            "GetCallerIdentity KEY-refreshed-ops",
        ];
        assert_eq!(stub.take_requests(), [refreshes, &expected].concat());
    }
    assert!(home.read(CORP).contains(r#""refreshToken":"r2""#), "{}", home.read(CORP));
}

const EXPIRED: &str = "error: the single sign-on session of profile corp has expired or does not exist (the SSO token \
                       has expired and cannot be refreshed): run `aws sso login --profile corp`\n";

#[test]
fn an_expired_session_names_the_profile_to_sign_in_with() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.sign_in(CORP, "token", IN_2020);
    assert_eq!(home.expect_error(&stub, "corp"), EXPIRED);
    // A role based on this profile fails in the same way.
    assert_eq!(home.expect_error(&stub, "role"), EXPIRED);
    home.sign_in(CORP, "revoked", IN_2099);
    let revoked = "the SSO token has expired and cannot be refreshed";
    let why = "UnauthorizedException: Session token not found or invalid";
    assert_eq!(home.expect_error(&stub, "corp"), EXPIRED.replace(revoked, why));
    let never = Home::new();
    assert_eq!(
        never.expect_error(&stub, "corp"),
        EXPIRED.replace(revoked, "failed to load the cached SSO token")
    );
}

#[test]
fn a_failing_portal_is_not_reported_as_an_expired_session() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.sign_in(CORP, "token", IN_2099);
    assert_eq!(
        home.expect_error(&stub, "forbidden"),
        "error: single sign-on refused credentials for profile forbidden (ForbiddenException: No access): check its \
         sso_account_id and sso_role_name\n"
    );
    assert_eq!(
        home.expect_error(&stub, "misspelt"),
        "error: profile misspelt cannot be used: sso-session named `crop` (referenced by profile `misspelt`) was not \
         found\n"
    );
    // No other test uses this port.
    let arguments = [&SEND[..], &["--profile", "corp"]].concat();
    let output =
        home.command(&stub, &arguments).env("AWS_ENDPOINT_URL_SSO", "http://127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let printed = stderr(&output);
    let start = "error: no connection to the single sign-on of profile corp (";
    let is_expected =
        printed.starts_with(start) && printed.ends_with("): check the network and its sso_region\n");
    assert!(is_expected, "{printed}");
}

#[test]
fn a_credential_process_runs_once_per_command() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.write(
        "helper",
        r#"echo "$@" >> ~/calls; echo '{"Version":1,"AccessKeyId":"PROCESS","SecretAccessKey":"s","SessionToken":"t","Expiration":"2099-01-01T00:00:00Z"}'"#,
    );
    assert_eq!(home.send(&stub, "process").status.code(), Some(0));
    assert_eq!(stub.take_requests(), ["GetQueueAttributes PROCESS", "GetCallerIdentity PROCESS"]);
    assert_eq!(home.read("calls"), "--user ana --password hunter2\n");
    // Several regions share one account.
    let regions = ["fleet", "--profile", "process", "--region", "eu-central-1", "--region", "eu-west-1"];
    let output = home.run(&stub, &regions);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(home.read("calls"), "--user ana --password hunter2\n".repeat(2));
}

#[test]
fn a_failed_credential_process_is_reported_without_its_password() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.write("helper", "echo first >&2; echo \"wrong password $4 for $2\" >&2; exit 3");
    assert_eq!(
        home.expect_error(&stub, "process"),
        "error: the credential_process of profile process failed (exit status: 3): first; wrong password [hidden] for \
         ana\n"
    );
    home.write("helper", "exit 1");
    assert_eq!(
        home.expect_error(&stub, "process"),
        "error: the credential_process of profile process failed (exit status: 1): it wrote nothing to standard error\n"
    );
    home.write("helper", "echo '{\"Version\":1,\"AccessKeyId\":\"K\"}'");
    assert_eq!(
        home.expect_error(&stub, "process"),
        "error: the credential_process of profile process failed: Error retrieving credentials from external process, \
         could not parse response: Expected field `SecretAccessKey` in response but it was missing\n"
    );
}

#[test]
fn a_login_session_signs_requests_and_a_missing_one_names_the_remedy() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    assert_eq!(
        home.expect_error(&stub, "login"),
        "error: the login session of profile login has expired or does not exist (No such file or directory (os error \
         2)): run `aws login --profile login`\n"
    );
    home.write(
        LOGIN,
        &format!(
            r#"{{"accessToken":{{"accessKeyId":"LOGIN","secretAccessKey":"s","sessionToken":"t","accountId":"123456789012","expiresAt":"{IN_2099}"}},"tokenType":"aws_sigv4","refreshToken":"r","clientId":"c","dpopKey":"k"}}"#
        ),
    );
    assert_eq!(home.send(&stub, "login").status.code(), Some(0));
    assert_eq!(stub.take_requests(), ["GetQueueAttributes LOGIN", "GetCallerIdentity LOGIN"]);
}

#[test]
fn a_role_is_assumed_with_its_source_credentials() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.sign_in(CORP, "token", IN_2099);
    assert_eq!(home.send(&stub, "role").status.code(), Some(0));
    assert_eq!(
        stub.take_requests(),
        [
            "/federation/credentials token",
            "AssumeRole KEY-token-ops",
            "GetQueueAttributes ROLE-OF-KEY-token-ops",
            "GetCallerIdentity ROLE-OF-KEY-token-ops"
        ]
    );
    let mut command = home.command(&stub, &[&SEND[..], &["--profile", "machine"]].concat());
    let output =
        command.env("AWS_ACCESS_KEY_ID", "MACHINE").env("AWS_SECRET_ACCESS_KEY", "s").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stub.take_requests(),
        ["AssumeRole MACHINE", "GetQueueAttributes ROLE-OF-MACHINE", "GetCallerIdentity ROLE-OF-MACHINE"]
    );
    assert_eq!(
        home.expect_error(&stub, "forbidden-role"),
        "error: the role of profile forbidden-role cannot be assumed: AccessDenied: not authorized\n"
    );
}

#[test]
fn a_role_that_requires_mfa_is_rejected_before_any_request() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.sign_in(CORP, "token", IN_2099);
    let output = home.send(&stub, "mfa");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "error: --profile mfa: the role of profile mfa asks for MFA (mfa_serial), and redeliver cannot ask for a code: \
         run `eval \"$(aws configure export-credentials --profile mfa --format env)\"` and leave the profile out, or \
         use a profile with `credential_process = aws configure export-credentials --profile mfa`\n"
    );
    assert_eq!(stub.take_requests(), [""; 0]);
}

#[test]
fn fleet_names_the_profile_whose_session_has_expired() {
    let (home, stub) = (Home::new(), PortalStub::start(FUTURE_MILLISECONDS));
    home.sign_in(CORP, "token", IN_2099);
    home.sign_in(LEGACY, "revoked", IN_2099);
    let queues = |stub: &PortalStub| {
        let mut actions = stub.take_distinct_requests();
        actions.retain(|action| action.starts_with("ListQueues"));
        actions
    };
    let output = home.run(&stub, &["fleet", "--profile", "corp", "--profile", "other"]);
    // The stub implements no other service.
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(queues(&stub), ["ListQueues KEY-token-audit", "ListQueues KEY-token-ops"]);
    assert!(!stderr(&output).contains("single sign-on"), "{}", stderr(&output));

    let output = home.run(&stub, &["fleet", "--profile", "corp", "--profile", "legacy"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(queues(&stub), ["ListQueues KEY-token-ops"]);
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    let expired = "eu-central-1, profile legacy: the single sign-on session of profile legacy has expired or does not \
                   exist (UnauthorizedException: Session token not found or invalid): run `aws sso login --profile \
                   legacy`";
    assert_eq!(printed.matches(expired).count(), 1, "{printed}");
}
