//! `moto`, an AWS emulator that enforces IAM, as a child process on loopback: `tests/support/moto_iam.py` says what of it.

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
use crate::{judged, settings};

const START_POLLS: u32 = 600;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const PORT_TRIES: u32 = 5;

/// A running moto; it ends when its standard input does, so with this process at the latest.
pub struct Moto {
    process: Child,
    address: SocketAddr,
    output: Mutex<MotoOutput>,
}

/// The records that moto has written. A record is in the file before moto answers its request.
struct MotoOutput {
    file: BufReader<File>,
    /// The beginning of a line that is not complete yet.
    begun: Vec<u8>,
    reported: HashMap<String, Vec<MotoRecord>>,
}

/// A record of moto about an account.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum MotoRecord {
    /// A request was allowed or denied.
    Decided(AccessDecision),
    /// A function was invoked.
    Invoked(MotoInvocation),
}

/// The decision on a user's request.
#[derive(Clone, Debug, Deserialize)]
pub struct AccessDecision {
    /// The role's name, with `@lambda` if Lambda itself is at work.
    pub user: String,
    /// For example `sqs:SendMessage`.
    pub action: String,
    /// An ARN, or `*`.
    pub resource: String,
    /// The answer.
    pub allowed: bool,
}

/// An invocation of a function.
#[derive(Clone, Debug, Deserialize)]
pub struct MotoInvocation {
    /// Its ARN.
    pub function: String,
    /// Its event.
    pub payload: Value,
    /// True if it failed.
    pub fails: bool,
}

#[derive(Deserialize)]
struct MotoLine {
    account: String,
    #[serde(flatten)]
    reported: MotoRecord,
}

/// An AWS account of its own in a shared moto.
pub struct MotoAccount {
    moto: &'static Moto,
    /// Twelve digits.
    pub id: String,
    http: reqwest::Client,
}

impl Moto {
    /// The one that all tests of a test program share.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Moto> = LazyLock::new(Moto::start);
        &SHARED
    }

    fn start() -> Self {
        // Somebody may take a free port before moto does: it then exits, and another port is tried.
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
            .env(judged::VARIABLE, judged::judged_requests_file("moto", address.port()))
            .process_group(0) // an interrupt from the keyboard is for us
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(created("log"))
            .spawn()
            .expect("the Python of the tests' environment runs");
        let file = BufReader::new(File::open(file("jsonl")).expect("it was created"));
        let output = Mutex::new(MotoOutput { file, begun: Vec::new(), reported: HashMap::new() });
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

    /// The endpoint for `AWS_ENDPOINT_URL`.
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
    fn read_on(&mut self) {
        while self.file.read_until(b'\n', &mut self.begun).expect("the output is a file") > 0
            && self.begun.ends_with(b"\n")
        {
            // What Flask greets with is none.
            if let Ok(MotoLine { account, reported }) = serde_json::from_slice(&self.begun) {
                self.reported.entry(account).or_default().push(reported);
            }
            self.begun.clear();
        }
    }
}

/// Standard output and standard error.
#[must_use]
pub fn printed_text(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl MotoAccount {
    /// The program `redeliver` as a user with this key.
    pub fn redeliver_command(&self, key: &Credentials) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(settings::tested_program("redeliver"));
        command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
        command.env("AWS_ENDPOINT_URL", self.endpoint_url()).env("AWS_REGION", REGION);
        command.env("AWS_ACCESS_KEY_ID", key.access_key_id());
        command.env("AWS_SECRET_ACCESS_KEY", key.secret_access_key());
        command
    }

    /// One that no other test has.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let id = format!("1111{:08}", COUNT.fetch_add(1, Ordering::Relaxed));
        Self { moto: Moto::shared(), id, http: reqwest::Client::new() }
    }

    /// The endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> String {
        self.moto.endpoint_url()
    }

    /// A request to SQS that may do all, e.g. `CreateQueue`.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn request_sqs(&self, operation: &str, request: &Value) -> Value {
        self.request_json("sqs", &format!("AmazonSQS.{operation}"), request).await
    }

    /// A secret with this text; its ARN.
    ///
    /// # Panics
    /// If it is not created.
    pub async fn create_secret(&self, name: &str, text: &str) -> String {
        let request =
            json!({ "Name": name, "SecretString": text, "ClientRequestToken": "0".repeat(32) + name });
        let created = self.request_json("secretsmanager", "secretsmanager.CreateSecret", &request).await;
        created["ARN"].as_str().expect("a secret has an ARN").to_owned()
    }

    /// An empty bucket.
    ///
    /// # Panics
    /// If it is not created.
    pub async fn create_bucket(&self, name: &str) {
        let place = format!(
            "<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>"
        );
        self.send_request("s3", self.http.put(format!("{}/{name}", self.endpoint_url())).body(place)).await;
    }

    /// Deletes an empty bucket.
    ///
    /// # Panics
    /// If it is not deleted.
    pub async fn delete_bucket(&self, name: &str) {
        self.send_request("s3", self.http.delete(format!("{}/{name}", self.endpoint_url()))).await;
    }

    /// The keys of a bucket, in order.
    ///
    /// # Panics
    /// If they are not listed.
    pub async fn bucket_keys(&self, bucket: &str) -> Vec<String> {
        let url = format!("{}/{bucket}?list-type=2", self.endpoint_url());
        let listed = self.send_request("s3", self.http.get(url)).await;
        let keys = listed.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    /// A topic; its ARN.
    ///
    /// # Panics
    /// If it is not created.
    pub async fn create_topic(&self, name: &str) -> String {
        let form = [("Action", "CreateTopic"), ("Version", "2010-03-31"), ("Name", name)];
        let url = reqwest::Url::parse_with_params(&self.endpoint_url(), form);
        self.send_request("sns", self.http.post(url.expect("a URL with parameters"))).await;
        format!("arn:aws:sns:{REGION}:{}:{name}", self.id)
    }

    /// An event bus; its ARN.
    ///
    /// # Panics
    /// If it is not created.
    pub async fn event_bus(&self, name: &str) -> String {
        let created = self.request_json("events", "AWSEvents.CreateEventBus", &json!({ "Name": name })).await;
        created["EventBusArn"].as_str().expect("a bus has an ARN").to_owned()
    }

    /// A user without rights, and its access key. `path` says which function it is, if it is one.
    ///
    /// # Panics
    /// If it is not created.
    pub async fn create_user(&self, name: &str, path: &str) -> Credentials {
        self.request_iam(&[("Action", "CreateUser"), ("UserName", name), ("Path", path)]).await;
        let created = self.request_iam(&[("Action", "CreateAccessKey"), ("UserName", name)]).await;
        let member = |name: &str| {
            let (_, rest) = created.split_once(&format!("<{name}>"))?;
            rest.split_once('<').map(|(value, _)| value.to_owned())
        };
        let key = (member("AccessKeyId"), member("SecretAccessKey"));
        let (Some(id), Some(secret)) = key else { panic!("no access key in {created}") };
        Credentials::new(id, secret, None, None, "tests")
    }

    /// Gives a user exactly these statements.
    ///
    /// # Panics
    /// If moto refuses them.
    pub async fn set_user_policy(&self, user: &str, statements: &[Value]) {
        let document = json!({ "Version": "2012-10-17", "Statement": statements }).to_string();
        let policy = [("PolicyName", "of-the-template"), ("PolicyDocument", document.as_str())];
        let request = [("Action", "PutUserPolicy"), ("UserName", user)];
        self.request_iam(&[request.as_slice(), &policy].concat()).await;
    }

    /// The configuration of clients that sign with these.
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

    /// A client that signs with these.
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

    /// All decisions so far.
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

    /// All invocations so far.
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
        output.read_on();
        output.reported.get(&self.id).cloned().unwrap_or_default()
    }

    async fn request_json(&self, service: &str, target: &str, request: &Value) -> Value {
        let request = self.http.post(self.endpoint_url()).body(request.to_string());
        let request = request.header("x-amz-target", target);
        let answer =
            self.send_request(service, request.header("content-type", "application/x-amz-json-1.0")).await;
        serde_json::from_str(if answer.is_empty() { "{}" } else { &answer }).expect("the answer is JSON")
    }

    async fn request_iam(&self, parameters: &[(&str, &str)]) -> String {
        let version = [("Version", "2010-05-08")];
        let url = reqwest::Url::parse_with_params(&self.endpoint_url(), parameters.iter().chain(&version));
        self.send_request("iam", self.http.post(url.expect("a URL with parameters"))).await
    }

    /// The header that it has names the account, and says that it may do all.
    async fn send_request(&self, service: &str, request: reqwest::RequestBuilder) -> String {
        let scope = format!("Credential=TESTS/20260101/{REGION}/{service}/aws4_request");
        let authorization = format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0");
        let request = request.header("authorization", authorization).header("x-moto-account-id", &self.id);
        let answer = request.send().await.expect("moto answers");
        let status = answer.status();
        let text = answer.text().await.expect("moto answers whole");
        assert!(status.is_success(), "{service}: {status}: {text}");
        text
    }
}

impl Default for MotoAccount {
    fn default() -> Self {
        Self::new()
    }
}
