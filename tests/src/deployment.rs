//! The stack of `infra/`, deployed by the real CDK to an emulator that runs the real bundles.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::ministack::Ministack;
use crate::settings::{root, target_dir, variable};
use crate::sqs::REGION;

/// An emulator with the CDK's own resources, ready for stacks.
pub struct Cloud {
    emulator: Ministack,
    /// Of this cloud alone: the CDK's output and outputs.
    directory: PathBuf,
}

/// A command of the CDK that failed: what it printed.
#[derive(Debug)]
pub struct CdkFailed(pub String);

impl fmt::Display for CdkFailed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The outputs of a stack, by name.
pub type Outputs = BTreeMap<String, String>;

const ACCOUNT: &str = "000000000000";

impl Cloud {
    /// Starts an emulator and bootstraps it.
    ///
    /// # Errors
    /// What `cdk bootstrap` printed.
    ///
    /// # Panics
    /// If the emulator does not start.
    pub async fn start() -> Result<Self, CdkFailed> {
        let emulator = Ministack::with_all_services();
        let directory = target_dir().join("deployments").join(emulator.port().to_string());
        std::fs::create_dir_all(&directory).expect("the target directory is writable");
        let cloud = Self { emulator, directory };
        cloud.cdk(&["bootstrap", &format!("aws://{ACCOUNT}/{REGION}"), "--app", ""], &[]).await?;
        Ok(cloud)
    }

    /// The endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        self.emulator.endpoint_url()
    }

    /// What every AWS client needs to get here.
    #[must_use]
    pub fn client_variables(&self) -> [(&'static str, String); 6] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint_url()),
            ("AWS_ENDPOINT_URL_S3", self.endpoint_url()), // the CDK asks for S3's alone
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_DEFAULT_REGION", REGION.to_owned()), // Python's name for it
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ]
    }

    /// Deploys the stack with these context values.
    ///
    /// # Errors
    /// What `cdk deploy` printed.
    ///
    /// # Panics
    /// If the CDK does not write its outputs.
    pub async fn deploy(&self, context: &[String]) -> Result<Outputs, CdkFailed> {
        self.deploy_app(&[], context).await
    }

    /// Deploys the only stack of another app in `infra/`.
    ///
    /// # Errors
    /// What `cdk deploy` printed.
    ///
    /// # Panics
    /// If the CDK does not write its outputs.
    pub async fn deploy_of(&self, app: &str, context: &[String]) -> Result<Outputs, CdkFailed> {
        self.deploy_app(&["--app", &program(app)], context).await
    }

    async fn deploy_app(&self, app: &[&str], context: &[String]) -> Result<Outputs, CdkFailed> {
        let outputs = self.directory.join("outputs.json");
        let file = outputs.display().to_string();
        let deploy = ["deploy", "--require-approval", "never", "--outputs-file", &file];
        self.cdk(&[deploy.as_slice(), app].concat(), context).await?;
        let text = std::fs::read_to_string(&outputs).expect("the CDK has written the outputs");
        let stacks: BTreeMap<String, BTreeMap<String, Value>> =
            serde_json::from_str(&text).expect("outputs are a JSON object");
        let values = stacks.into_values().flatten();
        Ok(values.map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned())).collect())
    }

    /// Takes down what was deployed last.
    ///
    /// # Errors
    /// What `cdk destroy` printed.
    pub async fn destroy(&self) -> Result<(), CdkFailed> {
        // As it was synthesized for the deployment: the app need not run again.
        let assembly = self.assembly().display().to_string();
        self.cdk(&["destroy", "--force", "--app", &assembly], &[]).await.map(drop)
    }

    fn assembly(&self) -> PathBuf {
        self.directory.join("cdk.out")
    }

    async fn cdk(&self, arguments: &[&str], context: &[String]) -> Result<String, CdkFailed> {
        let infra = root().join("infra");
        let mut command = Command::new("node");
        command.current_dir(&infra).arg(infra.join("node_modules/aws-cdk/bin/cdk")).args(arguments);
        command.arg("--output").arg(self.assembly()).args(["--no-notices", "--no-color"]);
        command.args(context.iter().flat_map(|value| ["--context", value]));
        command.env_clear().envs(self.client_variables());
        command.env("PATH", variable("PATH").unwrap_or_default());
        command.env("HOME", &self.directory).env("TMPDIR", &self.directory);
        command.env("INIT_CWD", current_directory());
        command.env("CDK_DISABLE_VERSION_CHECK", "true").env("CDK_DISABLE_CLI_TELEMETRY", "true");
        // An interrupt from the keyboard must not break off what is to be taken down.
        command.process_group(0).kill_on_drop(true).stdin(Stdio::null());
        let output = command.output().await.map_err(|error| CdkFailed(format!("node: {error}")))?;
        let printed =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        if output.status.success() { Ok(printed) } else { Err(CdkFailed(printed)) }
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _left_for_the_next_build_clean = std::fs::remove_dir_all(&self.directory);
    }
}

/// What runs an app of `infra/`.
fn program(app: &str) -> String {
    format!("node --import tsx {app}")
}

/// `policy=...` and the like for a stack that leaves nothing behind and runs what this machine can run.
#[must_use]
pub fn local_context() -> Vec<String> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" };
    vec![format!("architecture={architecture}"), "removalPolicy=destroy".to_owned()]
}

fn current_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| Path::new(".").to_owned())
}
