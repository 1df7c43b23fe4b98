//! The target of a run: an AWS account, or an emulator.

use std::collections::BTreeMap;
use std::process::Stdio;

use aws_config::{BehaviorVersion, Region};
use redeliver_tests::deployment::{Cdk, Cloud};
use redeliver_tests::settings::{debug_binary, venv_file, workspace_root};
use redeliver_tests::sqs;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::process::Command;

pub(crate) struct SmokeAccount {
    pub(crate) sqs: aws_sdk_sqs::Client,
    /// The environment variables that give other programs access to the account.
    pub(crate) variables: Vec<(&'static str, String)>,
    pub(crate) is_emulated: bool,
}

/// The account, the caller and the region.
#[derive(Deserialize)]
pub(crate) struct AccountIdentity {
    pub(crate) account: String,
    pub(crate) user: String,
    pub(crate) region: String,
}

impl SmokeAccount {
    pub(crate) fn for_emulator(cloud: &Cloud) -> Self {
        let sqs = sqs::emulator_client(&cloud.endpoint_url());
        Self { sqs, variables: cloud.client_variables().into(), is_emulated: true }
    }

    pub(crate) async fn from_profile(profile: Option<&str>, region: Option<&str>) -> Result<Self, String> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(profile) = profile {
            loader = loader.profile_name(profile);
        }
        if let Some(region) = region {
            loader = loader.region(Region::new(region.to_owned()));
        }
        let config = loader.load().await;
        let region = config.region().ok_or("the profile has no region: add --region")?.to_string();
        let mut variables = vec![("AWS_REGION", region.clone()), ("AWS_DEFAULT_REGION", region)];
        variables.extend(profile.map(|profile| ("AWS_PROFILE", profile.to_owned())));
        Ok(Self { sqs: aws_sdk_sqs::Client::new(&config), variables, is_emulated: false })
    }

    pub(crate) async fn query_identity(&self) -> Result<AccountIdentity, String> {
        self.query_json(&["identity"]).await
    }

    /// Returns the status of a stack, if it exists.
    pub(crate) async fn stack_status(&self, name: &str) -> Result<Option<String>, String> {
        self.query_json(&["stack", name]).await
    }

    /// Deletes a stack and waits until it is gone.
    pub(crate) async fn delete_stack(&self, name: &str) -> Result<(), String> {
        self.query_json(&["delete", name]).await
    }

    /// Returns the states of the alarms with this prefix.
    pub(crate) async fn alarm_states(&self, prefix: &str) -> Result<BTreeMap<String, String>, String> {
        self.query_json(&["alarms", &format!("{prefix}-")]).await
    }

    /// Returns the quota increase to request if the stack needs more concurrency than the account has, or the reasons
    /// why this could not be determined.
    pub(crate) async fn concurrency_shortage(
        &self,
        cdk: &Cdk,
        stack: &str,
        app: &str,
        context: &[String],
    ) -> Result<Option<String>, String> {
        let template = cdk.synthesize_template(app, context).await.map_err(|error| error.to_string())?;
        let mut preflight = self.aws_command(&debug_binary("redeliver"));
        preflight.args(["preflight", "--format", "json", "--stack", stack, "--template"]).arg(template);
        let printed = preflight.output().await.map_err(|error| format!("redeliver preflight: {error}"))?;
        let found: Value = serde_json::from_slice(&printed.stdout)
            .map_err(|_| String::from_utf8_lossy(&printed.stderr).into_owned())?;
        let problems = found["problems"].as_array().into_iter().flatten();
        let advice = [&found["concurrency"]["advice"]].into_iter().chain(problems).filter_map(Value::as_str);
        Ok(advice.map(str::to_owned).reduce(|one, other| format!("{one}\n{other}")))
    }

    async fn query_json<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<T, String> {
        let mut command = self.aws_command(&venv_file("bin/python"));
        command.arg(workspace_root().join("tests/support/boto3_smoke.py")).args(arguments);
        let answer = command.output().await.map_err(|error| format!("boto3: {error}"))?;
        let reported = String::from_utf8_lossy(&answer.stderr);
        let reason = reported.lines().last().unwrap_or_default();
        serde_json::from_slice(&answer.stdout).map_err(|_| format!("{}: {reason}", arguments.join(" ")))
    }

    /// Returns a command that runs a program with access to the account.
    pub(crate) fn aws_command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Ctrl-C must not stop the program before everything is destroyed.
        command.process_group(0).kill_on_drop(true).stdin(Stdio::null());
        command
    }
}
