//! `moto`, an AWS emulator that enforces IAM, as a child process on loopback; see `tests/support/moto_iam.py`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread::sleep;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Config, Credentials, Region, SharedCredentialsProvider};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::sqs::{REGION, client_name};
use crate::{settings, validated_requests};

const START_POLLS: u32 = 600;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const PORT_TRIES: u32 = 5;

/// A running moto. It stops when its standard input closes, at the latest when this process ends.
pub struct Moto {
    process: Child,
    address: SocketAddr,
    output: Mutex<MotoOutput>,
}

/// The records written by moto. moto writes a record before it answers the request.
struct MotoOutput {
    file: BufReader<File>,
    /// An incomplete line.
    partial_line: Vec<u8>,
    reported: HashMap<String, Vec<MotoRecord>>,
}

/// A record in moto's output.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum MotoRecord {
    /// A decision on a request.
    Decided(AccessDecision),
    /// An invocation of a function.
    Invoked(MotoInvocation),
}

/// A decision on a user's request.
#[derive(Clone, Debug, Deserialize)]
pub struct AccessDecision {
    /// The role's name, with `@lambda` if Lambda itself acts with the role.
    pub user: String,
    /// For example `sqs:SendMessage`.
    pub action: String,
    /// An ARN, or `*`.
    pub resource: String,
    /// True if the request was allowed.
    pub allowed: bool,
}

/// An invocation of a function.
#[derive(Clone, Debug, Deserialize)]
pub struct MotoInvocation {
    /// The function's ARN.
    pub function: String,
    /// The event.
    pub payload: Value,
    /// True if the invocation failed.
    pub fails: bool,
}

#[derive(Deserialize)]
struct MotoLine {
    account: String,
    #[serde(flatten)]
    reported: MotoRecord,
}

/// A separate AWS account in a shared moto.
pub struct MotoAccount {
    moto: &'static Moto,
    /// Twelve digits.
    pub id: String,
    http: reqwest::Client,
}

impl Moto {
    /// Returns the instance that all tests in a test program share.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Moto> = LazyLock::new(Moto::start);
        &SHARED
    }

    fn start() -> Self {
        // Another process can take the port first. moto then exits, and another port is tried.
        (0..PORT_TRIES)
            .find_map(|_| Self::start_on(settings::free_address()))
            .expect("moto starts; its log is in the target directory")
    }

    fn start_on(address: SocketAddr) -> Option<Self> {
        let directory = settings::target_dir().join("moto");
        std::fs::create_dir_all(&directory).expect("the target directory is writable");
        let file = |end: &str| directory.join(format!("{}.{end}", address.port()));
        let created = |end: &str| File::create(file(end)).expect("the target directory is writable");
        let output = created("jsonl");
        let process = Command::new(settings::venv_file("bin/python"))
            .arg(settings::workspace_root().join("tests/support/moto_iam.py"))
            .args([address.ip().to_string(), address.port().to_string()])
            .env_clear()
            .env("INITIAL_NO_AUTH_ACTION_COUNT", "0")
            .env(validated_requests::VARIABLE, validated_requests::output_file("moto", address.port()))
            .process_group(0) // Ctrl-C must not stop it
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(created("log"))
            .spawn()
            .expect("the Python of the tests' environment runs");
        let file = BufReader::new(File::open(file("jsonl")).expect("the file was created"));
        let output = Mutex::new(MotoOutput { file, partial_line: Vec::new(), reported: HashMap::new() });
        let mut moto = Self { process, address, output };
        moto.wait_until_ready().then_some(moto)
    }

    fn wait_until_ready(&mut self) -> bool {
        for _ in 0..START_POLLS {
            if self.process.try_wait().is_ok_and(|exit| exit.is_some()) {
                return false;
            }
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            sleep(POLL_INTERVAL);
        }
        false
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _already_ended = self.process.kill();
        let _exit = self.process.wait();
    }
}

impl MotoOutput {
    fn read_new_lines(&mut self) {
        while self.file.read_until(b'\n', &mut self.partial_line).expect("the output is a file") > 0
            && self.partial_line.ends_with(b"\n")
        {
            // Flask's startup lines are not records.
            if let Ok(MotoLine { account, reported }) = serde_json::from_slice(&self.partial_line) {
                self.reported.entry(account).or_default().push(reported);
            }
            self.partial_line.clear();
        }
    }
}

/// Returns the standard output and the standard error of a program.
#[must_use]
pub fn printed_text(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl MotoAccount {
    /// Returns the command `redeliver` with this user's access key.
    pub fn redeliver_command(&self, key: &Credentials) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(settings::debug_binary("redeliver"));
        command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
        command.env("AWS_ENDPOINT_URL", self.endpoint_url()).env("AWS_REGION", REGION);
        command.env("AWS_ACCESS_KEY_ID", key.access_key_id());
        command.env("AWS_SECRET_ACCESS_KEY", key.secret_access_key());
        command
    }

    /// Creates an account that no other test uses.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let id = format!("1111{:08}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { moto: Moto::shared(), id, http: reqwest::Client::new() }
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        self.moto.endpoint_url()
    }

    /// Sends a request, for example `CreateQueue`, to SQS with full access.
    ///
    /// # Panics
    /// If moto refuses it.
    pub async fn send_sqs_request(&self, operation: &str, request: &Value) -> Value {
        self.send_json_request("sqs", &format!("AmazonSQS.{operation}"), request).await
    }

    /// Creates a secret with this value and returns its ARN.
    ///
    /// # Panics
    /// If the creation fails.
    pub async fn create_secret(&self, name: &str, text: &str) -> String {
        let request =
            json!({ "Name": name, "SecretString": text, "ClientRequestToken": "0".repeat(32) + name });
        let created = self.send_json_request("secretsmanager", "secretsmanager.CreateSecret", &request).await;
        created["ARN"].as_str().expect("a secret has an ARN").to_owned()
    }

    /// Creates an empty bucket.
    ///
    /// # Panics
    /// If the creation fails.
    pub async fn create_bucket(&self, name: &str) {
        let place = format!(
            "<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>"
        );
        self.send_request("s3", self.http.put(format!("{}/{name}", self.endpoint_url())).body(place)).await;
    }

    /// Deletes an empty bucket.
    ///
    /// # Panics
    /// If the deletion fails.
    pub async fn delete_bucket(&self, name: &str) {
        self.send_request("s3", self.http.delete(format!("{}/{name}", self.endpoint_url()))).await;
    }

    /// Returns the keys in a bucket, sorted.
    ///
    /// # Panics
    /// If the listing fails.
    pub async fn bucket_keys(&self, bucket: &str) -> Vec<String> {
        let url = format!("{}/{bucket}?list-type=2", self.endpoint_url());
        let listed = self.send_request("s3", self.http.get(url)).await;
        let keys = listed.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    /// Creates a topic and returns its ARN.
    ///
    /// # Panics
    /// If the creation fails.
    pub async fn create_topic(&self, name: &str) -> String {
        let form = [("Action", "CreateTopic"), ("Version", "2010-03-31"), ("Name", name)];
        let url = reqwest::Url::parse_with_params(&self.endpoint_url(), form);
        self.send_request("sns", self.http.post(url.expect("a URL with parameters"))).await;
        format!("arn:aws:sns:{REGION}:{}:{name}", self.id)
    }

    /// Creates an event bus and returns its ARN.
    ///
    /// # Panics
    /// If the creation fails.
    pub async fn create_event_bus(&self, name: &str) -> String {
        let created =
            self.send_json_request("events", "AWSEvents.CreateEventBus", &json!({ "Name": name })).await;
        created["EventBusArn"].as_str().expect("a bus has an ARN").to_owned()
    }

    /// Creates a user without permissions and returns its access key. For a function's user, `path` names the function.
    ///
    /// # Panics
    /// If the creation fails.
    pub async fn create_user(&self, name: &str, path: &str) -> Credentials {
        self.send_iam_request(&[("Action", "CreateUser"), ("UserName", name), ("Path", path)]).await;
        let created = self.send_iam_request(&[("Action", "CreateAccessKey"), ("UserName", name)]).await;
        let member = |name: &str| {
            let (_, rest) = created.split_once(&format!("<{name}>"))?;
            rest.split_once('<').map(|(value, _)| value.to_owned())
        };
        let key = (member("AccessKeyId"), member("SecretAccessKey"));
        let (Some(id), Some(secret)) = key else { panic!("no access key in {created}") };
        Credentials::new(id, secret, None, None, "tests")
    }

    /// Gives a user exactly these policy statements.
    ///
    /// # Panics
    /// If moto refuses them.
    pub async fn set_user_policy(&self, user: &str, statements: &[Value]) {
        let document = json!({ "Version": "2012-10-17", "Statement": statements }).to_string();
        let policy = [("PolicyName", "of-the-template"), ("PolicyDocument", document.as_str())];
        let request = [("Action", "PutUserPolicy"), ("UserName", user)];
        self.send_iam_request(&[request.as_slice(), &policy].concat()).await;
    }

    /// Returns the configuration for clients that sign with these credentials.
    #[must_use]
    pub fn sdk_config(&self, credentials: Credentials) -> SdkConfig {
        SdkConfig::builder()
            .http_client(redeliver_aws::http_client())
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url(self.endpoint_url())
            .build()
    }

    /// Returns a client that signs with these credentials.
    #[must_use]
    pub fn signed_client(&self, credentials: Credentials) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(REGION))
            .credentials_provider(credentials)
            .endpoint_url(self.endpoint_url())
            .app_name(client_name())
            .build();
        Client::from_conf(config)
    }

    /// Returns all decisions so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn decisions(&self) -> Vec<AccessDecision> {
        let reported = self.read_records();
        reported
            .into_iter()
            .filter_map(|one| match one {
                MotoRecord::Decided(decision) => Some(decision),
                MotoRecord::Invoked(_) => None,
            })
            .collect()
    }

    /// Returns all invocations so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn invocations(&self) -> Vec<MotoInvocation> {
        let reported = self.read_records();
        reported
            .into_iter()
            .filter_map(|one| match one {
                MotoRecord::Decided(_) => None,
                MotoRecord::Invoked(invoked) => Some(invoked),
            })
            .collect()
    }

    fn read_records(&self) -> Vec<MotoRecord> {
        let mut output = self.moto.output.lock().expect("no holder panics");
        output.read_new_lines();
        output.reported.get(&self.id).cloned().unwrap_or_default()
    }

    async fn send_json_request(&self, service: &str, target: &str, request: &Value) -> Value {
        let request = self.http.post(self.endpoint_url()).body(request.to_string());
        let request = request.header("x-amz-target", target);
        let answer =
            self.send_request(service, request.header("content-type", "application/x-amz-json-1.0")).await;
        serde_json::from_str(if answer.is_empty() { "{}" } else { &answer }).expect("the answer is JSON")
    }

    async fn send_iam_request(&self, parameters: &[(&str, &str)]) -> String {
        let version = [("Version", "2010-05-08")];
        let url = reqwest::Url::parse_with_params(&self.endpoint_url(), parameters.iter().chain(&version));
        self.send_request("iam", self.http.post(url.expect("a URL with parameters"))).await
    }

    /// Sends a request with a header that names the account and grants full access.
    async fn send_request(&self, service: &str, request: reqwest::RequestBuilder) -> String {
        let scope = format!("Credential=TESTS/20260101/{REGION}/{service}/aws4_request");
        let authorization = format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0");
        let request = request.header("authorization", authorization).header("x-moto-account-id", &self.id);
        let answer = request.send().await.expect("moto answers");
        let status = answer.status();
        let text = answer.text().await.expect("moto's answer is complete");
        assert!(status.is_success(), "{service}: {status}: {text}");
        text
    }
}

impl Default for MotoAccount {
    fn default() -> Self {
        Self::new()
    }
}
