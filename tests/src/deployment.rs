//! The stack in `infra/`, deployed by the real CDK to an emulator that runs the real bundles.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::ministack::Ministack;
use crate::settings::{env_variable, target_dir, workspace_root};
use crate::sqs::REGION;

/// An emulator that is bootstrapped for the CDK.
pub struct Cloud {
    emulator: Ministack,
    cdk: Cdk,
}

/// The CDK with the apps in `infra/`.
pub struct Cdk {
    /// The folder for the CDK's output and the stack outputs. Not shared with any other instance.
    directory: PathBuf,
    /// The endpoint, the region and the credentials.
    variables: Vec<(&'static str, String)>,
    /// True if the CDK inherits the user's environment.
    inherits_environment: bool,
}

/// A failed CDK command, with its output.
#[derive(Debug)]
pub struct CdkFailure(pub String);

impl fmt::Display for CdkFailure {
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
    /// If `cdk bootstrap` fails; the error contains its output.
    ///
    /// # Panics
    /// If the emulator does not start.
    pub async fn start() -> Result<Self, CdkFailure> {
        let cloud = Self::start_empty();
        cloud.cdk.run_cdk(&["bootstrap", &format!("aws://{ACCOUNT}/{REGION}"), "--app", ""], &[]).await?;
        Ok(cloud)
    }

    /// Starts an empty emulator.
    ///
    /// # Panics
    /// If the emulator does not start.
    #[must_use]
    pub fn start_empty() -> Self {
        let emulator = Ministack::with_all_services();
        let variables = client_variables(&emulator.endpoint_url());
        let cdk = Cdk::new(&emulator.port().to_string(), variables.into(), false);
        Self { emulator, cdk }
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        self.emulator.endpoint_url()
    }

    /// Returns the environment variables for AWS clients that use this emulator.
    #[must_use]
    pub fn client_variables(&self) -> [(&'static str, String); 6] {
        client_variables(&self.endpoint_url())
    }

    /// Returns the CDK with this emulator as its target.
    #[must_use]
    pub fn cdk(&self) -> &Cdk {
        &self.cdk
    }

    /// Deploys the stack with these context values.
    ///
    /// # Errors
    /// If `cdk deploy` fails; the error contains its output.
    ///
    /// # Panics
    /// If the CDK does not write its outputs.
    pub async fn deploy_stack(&self, context: &[String]) -> Result<Outputs, CdkFailure> {
        self.cdk.deploy_app(&[], context).await
    }

    /// Deploys the only stack of another app in `infra/`.
    ///
    /// # Errors
    /// If `cdk deploy` fails; the error contains its output.
    ///
    /// # Panics
    /// If the CDK does not write its outputs.
    pub async fn deploy_app_stack(&self, app: &str, context: &[String]) -> Result<Outputs, CdkFailure> {
        self.cdk.deploy_app_stack(app, context).await
    }

    /// Deploys the only stack of an app that has already been synthesized.
    ///
    /// # Errors
    /// If `cdk deploy` fails; the error contains its output.
    ///
    /// # Panics
    /// If the CDK does not write its outputs.
    pub async fn deploy_assembly(&self, assembly: &Path) -> Result<Outputs, CdkFailure> {
        self.cdk.deploy_app(&["--app", &assembly.display().to_string()], &[]).await
    }

    /// Destroys the stack that [`Self::deploy_assembly`] deployed.
    ///
    /// # Errors
    /// If `cdk destroy` fails; the error contains its output.
    pub async fn destroy_assembly(&self, assembly: &Path) -> Result<(), CdkFailure> {
        self.cdk.destroy_assembly(assembly).await
    }

    /// Destroys the stack that was deployed last.
    ///
    /// # Errors
    /// If `cdk destroy` fails; the error contains its output.
    pub async fn destroy_stack(&self) -> Result<(), CdkFailure> {
        self.cdk.destroy_app().await
    }
}

/// Returns the environment variables for AWS clients that use an emulator.
fn client_variables(endpoint_url: &str) -> [(&'static str, String); 6] {
    [
        ("AWS_ENDPOINT_URL", endpoint_url.to_owned()),
        ("AWS_ENDPOINT_URL_S3", endpoint_url.to_owned()), // the CDK reads this variable for S3
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_DEFAULT_REGION", REGION.to_owned()), // boto3 reads this variable
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
    ]
}

impl Cdk {
    /// Returns the CDK with the user's own AWS configuration, overridden by these variables.
    #[must_use]
    pub fn for_user(name: &str, variables: Vec<(&'static str, String)>) -> Self {
        Self::new(name, variables, true)
    }

    fn new(name: &str, variables: Vec<(&'static str, String)>, inherits_environment: bool) -> Self {
        let directory = target_dir().join("deployments").join(name);
        std::fs::create_dir_all(&directory).expect("the target directory is writable");
        Self { directory, variables, inherits_environment }
    }

    /// Deploys the only stack of an app in `infra/`.
    ///
    /// # Errors
    /// If `cdk deploy` fails; the error contains its output.
    ///
    /// # Panics
    /// If the CDK does not write its outputs.
    pub async fn deploy_app_stack(&self, app: &str, context: &[String]) -> Result<Outputs, CdkFailure> {
        self.deploy_app(&["--app", &app_command(app)], context).await
    }

    /// Synthesizes the only stack of an app in `infra/` and returns its template's path.
    ///
    /// # Errors
    /// If `cdk synth` fails; the error contains its output.
    pub async fn synthesize_template(&self, app: &str, context: &[String]) -> Result<PathBuf, CdkFailure> {
        self.run_cdk(&["synth", "--quiet", "--app", &app_command(app)], context).await?;
        let files =
            std::fs::read_dir(self.assembly_folder()).into_iter().flatten().flatten().map(|file| file.path());
        let mut templates = files.filter(|file| file.to_string_lossy().ends_with(".template.json"));
        templates.next().ok_or_else(|| CdkFailure("cdk synth wrote no template".to_owned()))
    }

    async fn deploy_app(&self, app: &[&str], context: &[String]) -> Result<Outputs, CdkFailure> {
        let outputs = self.directory.join("outputs.json");
        let file = outputs.display().to_string();
        let deploy = ["deploy", "--require-approval", "never", "--outputs-file", &file];
        self.run_cdk(&[deploy.as_slice(), app].concat(), context).await?;
        let text = std::fs::read_to_string(&outputs).expect("the CDK has written the outputs");
        let stacks: BTreeMap<String, BTreeMap<String, Value>> =
            serde_json::from_str(&text).expect("outputs are a JSON object");
        let values = stacks.into_values().flatten();
        Ok(values.map(|(name, value)| (name, value.as_str().unwrap_or_default().to_owned())).collect())
    }

    /// Destroys the stack that was deployed last.
    ///
    /// # Errors
    /// If `cdk destroy` fails; the error contains its output.
    pub async fn destroy_app(&self) -> Result<(), CdkFailure> {
        // Uses the assembly from the deployment, so the app need not run again.
        self.destroy_assembly(&self.assembly_folder()).await
    }

    async fn destroy_assembly(&self, assembly: &Path) -> Result<(), CdkFailure> {
        self.run_cdk(&["destroy", "--force", "--app", &assembly.display().to_string()], &[]).await.map(drop)
    }

    fn assembly_folder(&self) -> PathBuf {
        self.directory.join("cdk.out")
    }

    async fn run_cdk(&self, arguments: &[&str], context: &[String]) -> Result<String, CdkFailure> {
        let infra = workspace_root().join("infra");
        let mut command = Command::new("node");
        command.current_dir(&infra).arg(infra.join("node_modules/aws-cdk/bin/cdk")).args(arguments);
        command.arg("--output").arg(self.assembly_folder()).args(["--no-notices", "--no-color"]);
        command.args(context.iter().flat_map(|value| ["--context", value]));
        if !self.inherits_environment {
            command.env_clear().env("PATH", env_variable("PATH").unwrap_or_default());
            command.env("HOME", &self.directory);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value))).env("TMPDIR", &self.directory);
        command.env("INIT_CWD", current_directory());
        command.env("CDK_DISABLE_VERSION_CHECK", "true").env("CDK_DISABLE_CLI_TELEMETRY", "true");
        // Ctrl-C must not stop the CDK before it has destroyed the stack.
        command.process_group(0).kill_on_drop(true).stdin(Stdio::null());
        let output = command.output().await.map_err(|error| CdkFailure(format!("node: {error}")))?;
        let printed =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        if output.status.success() { Ok(printed) } else { Err(CdkFailure(printed)) }
    }
}

impl Drop for Cdk {
    fn drop(&mut self) {
        let _left_for_the_next_build_clean = std::fs::remove_dir_all(&self.directory);
    }
}

/// Returns the command that runs an app in `infra/`.
fn app_command(app: &str) -> String {
    format!("node --import tsx {app}")
}

/// Returns the context values for a stack that leaves nothing behind and runs on this machine's architecture.
#[must_use]
pub fn local_context() -> Vec<String> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" };
    vec![format!("architecture={architecture}"), "removalPolicy=destroy".to_owned()]
}

fn current_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| Path::new(".").to_owned())
}
