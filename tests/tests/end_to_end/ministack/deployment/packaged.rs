//! The construct's packages, used without this repository, in an empty folder outside it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use redeliver_tests::deployment::Cloud;
use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::settings::{debug_binary, target_dir, workspace_root};
use redeliver_tests::strangers::{code_blocks, new_folder, packed_file};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::super::{id, test_message};
use super::{queue_url, run_boto3, summarize_record};

/// The policy that the apps of `tests/strangers` set with the construct's properties.
const POLICY: &str = r#"{"max_attempts":2,"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"none"}}"#;

/// The architecture of this machine and of the packages.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" };
const OTHER: &str = if cfg!(target_arch = "aarch64") { "x86-64" } else { "arm64" };

/// An app in a separate folder.
struct App {
    folder: TempDir,
    program: PathBuf,
    arguments: Vec<String>,
}

/// The result of synthesizing an app.
struct SynthesisResult {
    succeeded: bool,
    errors: String,
    assembly: PathBuf,
}

impl App {
    /// Creates an app with the npm package; peer dependencies are linked from this repository's pinned versions.
    async fn in_typescript() -> Self {
        let folder = new_folder("app-in-typescript");
        fs::write(folder.path().join("package.json"), r#"{"name":"app","private":true}"#).unwrap();
        let package = packed_file("redeliver-cdk-", ".tgz").display().to_string();
        let install =
            ["install", "--offline", "--legacy-peer-deps", "--ignore-scripts", "--no-audit", "--no-fund"];
        run_command(
            Command::new("npm")
                .args(install)
                .arg(package)
                .current_dir(folder.path())
                .env("npm_config_cache", folder.path().join("cache")),
        )
        .await;
        let pinned = workspace_root().join("infra/node_modules");
        for peer in ["aws-cdk-lib", "constructs", "cdk-nag", "@types"] {
            symlink(pinned.join(peer), folder.path().join("node_modules").join(peer)).unwrap();
        }
        fs::copy(workspace_root().join("tests/strangers/app.ts"), folder.path().join("app.ts")).unwrap();
        let tsc = pinned.join("typescript/bin/tsc");
        let options = [
            "--module",
            "node20",
            "--target",
            "es2022",
            "--strict",
            "--skipLibCheck",
            "--types",
            "node",
            "app.ts",
        ];
        run_command(Command::new("node").arg(tsc).args(options).current_dir(folder.path())).await;
        Self { folder, program: "node".into(), arguments: vec!["app.js".to_owned()] }
    }

    /// Creates an app with the wheel; its dependencies are in a virtual environment, at this repository's pinned
    /// versions.
    async fn in_python() -> Self {
        let folder = new_folder("app-in-python");
        let python = target_dir().join("construct-venv/bin/python");
        let install =
            ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"];
        run_command(
            Command::new(&python)
                .args(install)
                .arg("--target")
                .arg(folder.path())
                .arg(packed_file("redeliver_cdk-", ".whl")),
        )
        .await;
        fs::copy(workspace_root().join("tests/strangers/app.py"), folder.path().join("app.py")).unwrap();
        Self { folder, program: python, arguments: vec!["-B".to_owned(), "app.py".to_owned()] }
    }

    async fn synthesize(&self, context: &Value) -> SynthesisResult {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(self.folder.path());
        // The bridge to Node.js caches unpacked packages by hash; the CDK alone is 200 MB.
        command.env("JSII_RUNTIME_PACKAGE_CACHE_ROOT", target_dir().join("jsii-cache"));
        synthesize(&mut command, context, self.folder.path().join("cdk.out")).await
    }
}

async fn run_command(command: &mut Command) {
    let output = command.kill_on_drop(true).output().await.unwrap();
    let reported =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {reported}");
}

/// Runs an app as the CDK's command line does.
async fn synthesize(command: &mut Command, context: &Value, assembly: PathBuf) -> SynthesisResult {
    command.env("CDK_CONTEXT_JSON", context.to_string()).env("CDK_OUTDIR", &assembly);
    let output = command.kill_on_drop(true).output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    SynthesisResult { succeeded: output.status.success(), errors, assembly }
}

/// Returns the context in `infra/cdk.json`, which is that of a new app, with these values.
fn context(prefix: &str, target: &str, architecture: &str) -> Value {
    let file = fs::read_to_string(workspace_root().join("infra/cdk.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let mut context = file["context"].clone();
    for (name, value) in [("prefix", prefix), ("target", target), ("architecture", architecture)] {
        context[name] = json!(value);
    }
    context
}

fn read_template(assembly: &Path) -> Value {
    let text = fs::read_to_string(assembly.join("Redeliver.template.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the template that this repository's app generates from the same values.
async fn synthesize_repository_app(folder: &Path, mut context: Value) -> Value {
    let policy = folder.join("policy.json");
    fs::write(&policy, POLICY).unwrap();
    context["policy"] = json!(policy);
    context["removalPolicy"] = json!("destroy");
    let mut command = Command::new("node");
    command.args(["--import", "tsx", "bin/app.ts"]).current_dir(workspace_root().join("infra"));
    let made = synthesize(&mut command, &context, folder.join("cdk.out")).await;
    assert!(made.succeeded, "{}", made.errors);
    read_template(&made.assembly)
}

/// Returns the file modes of the programs that Lambda starts.
fn bootstrap_modes(assembly: &Path) -> Vec<u32> {
    let assets = fs::read_dir(assembly).unwrap().map(|entry| entry.unwrap().path().join("bootstrap"));
    assets.filter_map(|file| fs::metadata(file).ok()).map(|file| file.permissions().mode() & 0o777).collect()
}

async fn assert_package_deploys(prefix: &str, app: App) {
    let target = HttpTargetServer::start().await;
    let context = context(prefix, target.url(), ARCHITECTURE);
    let made = app.synthesize(&context).await;
    // A cdk-nag finding would fail the synthesis.
    assert!(made.succeeded, "{}", made.errors);
    assert_eq!(
        read_template(&made.assembly),
        synthesize_repository_app(new_folder(&format!("own-{prefix}")).path(), context).await
    );
    assert_eq!(bootstrap_modes(&made.assembly), [0o755; 3]);

    let cloud = Cloud::start().await.unwrap();
    let outputs = cloud.deploy_assembly(&made.assembly).await.unwrap();
    target.script_replies(&id(1), [Reply::Status(500); 10]);
    let sent = [test_message(1, &json!({})), test_message(2, &json!({}))];
    run_boto3(&cloud, &["send", queue_url(&outputs, "SourceQueueUrl")], &sent).await;
    let records = run_boto3(&cloud, &["receive", queue_url(&outputs, "FinalDlqUrl"), "1"], &[]).await;
    let (message_id, error, _, attempts) = summarize_record(&records[0]);
    assert_eq!((message_id, error.as_str(), attempts), (id(1), "RETRY_ATTEMPT_EXCEEDED", json!(2)));
    assert_eq!([1, 2].map(|n| target.requests_for(&id(n)).len()), [3, 1], "calls to the target");
    assert_found_by_stack(&cloud, &format!("{prefix}-prod")).await;
    cloud.destroy_assembly(&made.assembly).await.unwrap();
    assert_eq!(run_boto3(&cloud, &["list"], &[]).await, Vec::<String>::new(), "queues left behind");
}

/// Finds the deployment by the outputs that the construct adds.
async fn assert_found_by_stack(cloud: &Cloud, stack: &str) {
    let mut status = Command::new(debug_binary("redeliver"));
    status.args(["status", "--stack", stack, "--format", "json"]).env_clear().envs(cloud.client_variables());
    run_command(&mut status).await;
}

/// Checks the template for an existing queue. The setter's code is a file in the package.
async fn assert_existing_queue_setter(app: &App) {
    let mut context = context("existing", "https://orders.example.com/hook", ARCHITECTURE);
    context["existingSourceQueueArn"] = json!("arn:aws:sqs:eu-west-1:111122223333:orders");
    let made = app.synthesize(&context).await;
    assert!(made.succeeded, "{}", made.errors);
    assert_eq!(
        read_template(&made.assembly),
        synthesize_repository_app(new_folder("own-existing").path(), context).await
    );
}

async fn assert_errors_name_the_remedy(app: &App) {
    let made = app.synthesize(&context("orders", "https://orders.example.com/hook", OTHER)).await;
    assert!(!made.succeeded);
    let sentence = format!(
        "architecture is {}{}, but the functions in this package are built for {} only; set architecture to \
         lambda.Architecture.{}, or use a package with both.",
        OTHER.replace('-', "_"),
        if OTHER == "arm64" { " (the default)" } else { "" },
        ARCHITECTURE.replace('-', "_"),
        architecture_constant(ARCHITECTURE),
    );
    assert!(made.errors.contains(&sentence), "{}", made.errors);
    let made = app.synthesize(&context("orders", "http://orders.example.com/", ARCHITECTURE)).await;
    let sentence =
        "target.url is http://, which is not encrypted; use https://, or set target.allowHttp: true.";
    assert!(made.errors.contains(sentence), "{}", made.errors);
}

/// Synthesizes the app in docs/start/cdk.md, with the package's architecture.
async fn assert_documented_app_synthesizes(app: &App) {
    let page = fs::read_to_string(workspace_root().join("docs/start/cdk.md")).unwrap();
    let (_, code) = code_blocks(&page).find(|(language, _)| *language == "ts").expect("the page has an app");
    let here = format!(
        "new Redeliver(stack, 'Retries', {{ architecture: lambda.Architecture.{},",
        architecture_constant(ARCHITECTURE)
    );
    let on_this_machine = code.replace("new Redeliver(stack, 'Retries', {", &here);
    assert_ne!(on_this_machine, code);
    fs::write(app.folder.path().join("page.mjs"), on_this_machine).unwrap();
    fs::create_dir(app.folder.path().join("src")).unwrap();
    fs::write(app.folder.path().join("src/app.py"), "").unwrap();
    let mut command = Command::new("node");
    command.arg("page.mjs").current_dir(app.folder.path());
    let made = synthesize(&mut command, &json!({}), app.folder.path().join("page.out")).await;
    assert!(made.succeeded, "{}", made.errors);
    let template = fs::read_to_string(made.assembly.join("Charge.template.json")).unwrap();
    assert!(template.contains("Custom::RedeliverSourceQueue"));
}

/// Returns the CDK's constant for an architecture.
fn architecture_constant(architecture: &str) -> &str {
    if architecture == "arm64" { "ARM_64" } else { "X86_64" }
}

#[tokio::test]
async fn a_typescript_app_deploys_the_construct_from_npm() {
    let app = App::in_typescript().await;
    // As if the package had been installed under a restrictive umask.
    let functions = app.folder.path().join("node_modules/@redeliver/cdk/functions");
    let bootstrap = functions.join(ARCHITECTURE.replace('-', "_")).join("message-processor/bootstrap");
    fs::set_permissions(&bootstrap, fs::Permissions::from_mode(0o600)).unwrap();
    assert_errors_name_the_remedy(&app).await;
    assert_existing_queue_setter(&app).await;
    assert_documented_app_synthesizes(&app).await;
    assert_package_deploys("npm", app).await;
}

#[tokio::test]
async fn a_python_app_deploys_the_construct_from_pip() {
    let app = App::in_python().await;
    assert_errors_name_the_remedy(&app).await;
    assert_package_deploys("pip", app).await;
}
