//! Stubs of S3 and SQS for saving archived dead letters and sending them back: objects that can be listed and read, and
//! a queue that records its messages and can stop answering.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::sqs::REGION;
use crate::sqs_stub::accepted_batch;
use crate::wire::serve_router;

/// The only bucket.
const BUCKET: &str = "letters";
/// The account that the credentials belong to. It also owns the bucket unless a test sets another owner.
pub const CALLER: &str = "000000000000";
/// The queue. A queue URL with any other name reaches the same queue, under another ARN.
const QUEUE: &str = "orders";

/// A running stub; it stops when dropped.
pub struct ArchiveStub {
    url: String,
    state: Arc<ArchiveStubState>,
    server: JoinHandle<()>,
}

struct ArchiveStubState {
    objects: BTreeMap<String, Vec<u8>>,
    queue: Mutex<StubQueue>,
    accounts: Mutex<Accounts>,
}

struct Accounts {
    bucket_owner: &'static str,
    /// The account that STS reports; `None` if STS is unavailable.
    caller: Option<&'static str>,
}

#[derive(Default)]
struct StubQueue {
    bodies: Vec<String>,
    /// The number of batches that the queue still accepts before it stops answering; `None` if it accepts all.
    batches_left: Option<u64>,
}

impl ArchiveStub {
    /// Starts a stub with these objects, by key.
    pub async fn start(objects: BTreeMap<String, Vec<u8>>) -> Self {
        let state = Arc::new(ArchiveStubState {
            objects,
            queue: Mutex::default(),
            accounts: Mutex::new(Accounts { bucket_owner: CALLER, caller: Some(CALLER) }),
        });
        let (address, server) =
            serve_router(Router::new().fallback(handle_request).with_state(Arc::clone(&state))).await;
        Self { url: format!("http://{address}"), state, server }
    }

    /// Returns the endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.url
    }

    /// Returns the address of the archive under this prefix.
    #[must_use]
    pub fn archive_address(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// Returns the queue's URL.
    #[must_use]
    pub fn queue_url(&self) -> String {
        format!("{}/000000000000/{QUEUE}", self.url)
    }

    /// Makes `bucket_owner` the owner of the bucket. `caller` is the account that STS reports, or `None` if STS is
    /// unavailable.
    ///
    /// # Panics
    /// Never.
    pub fn set_accounts(&self, bucket_owner: &'static str, caller: Option<&'static str>) {
        *self.state.accounts.lock().expect("no holder panics") = Accounts { bucket_owner, caller };
    }

    /// Makes the queue accept this many more batches and then stop answering; with `None`, it accepts all.
    ///
    /// # Panics
    /// Never.
    pub fn set_batch_limit(&self, batches: Option<u64>) {
        self.state.queue.lock().expect("no holder panics").batches_left = batches;
    }

    /// Returns the bodies of all messages received by the queue.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn queued_bodies(&self) -> Vec<String> {
        self.state.queue.lock().expect("no holder panics").bodies.clone()
    }
}

impl Drop for ArchiveStub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn handle_request(
    State(stub): State<Arc<ArchiveStubState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    match target.strip_prefix("AmazonSQS.") {
        Some("GetQueueAttributes") => {
            let request: Value = serde_json::from_slice(&body).expect("a request is JSON");
            let queue = request["QueueUrl"].as_str().and_then(|url| url.rsplit('/').next()).unwrap_or(QUEUE);
            let attributes = json!({
                "QueueArn": format!("arn:aws:sqs:{REGION}:000000000000:{queue}"),
                "ApproximateNumberOfMessages": "0",
                "ApproximateNumberOfMessagesNotVisible": "0",
                "ApproximateNumberOfMessagesDelayed": "0",
            });
            json!({ "Attributes": attributes }).to_string().into_response()
        }
        Some("SendMessageBatch") if accept_batch(&stub, &body) => {
            accepted_batch(&body).to_string().into_response()
        }
        Some("SendMessageBatch") => pending().await,
        _ if body.starts_with(b"Action=GetCallerIdentity") => caller_identity(&stub),
        _ if expects_other_owner(&stub, &headers) => {
            (StatusCode::FORBIDDEN, "<Error><Code>AccessDenied</Code></Error>").into_response()
        }
        _ => serve_object(&stub.objects, &uri),
    }
}

/// Returns STS's response ("GetCallerIdentity", AWS Security Token Service API Reference).
fn caller_identity(stub: &ArchiveStubState) -> Response {
    let Some(account) = stub.accounts.lock().expect("no holder panics").caller else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let result = format!("<GetCallerIdentityResult><Account>{account}</Account></GetCallerIdentityResult>");
    format!(
        "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">{result}</GetCallerIdentityResponse>"
    )
    .into_response()
}

/// Returns true if S3 refuses the request ("Verifying bucket ownership with bucket owner condition").
fn expects_other_owner(stub: &ArchiveStubState, headers: &HeaderMap) -> bool {
    let owner = stub.accounts.lock().expect("no holder panics").bucket_owner;
    headers.get("x-amz-expected-bucket-owner").is_some_and(|expected| expected != owner)
}

/// Returns true if the queue accepts the batch.
fn accept_batch(stub: &ArchiveStubState, body: &[u8]) -> bool {
    let mut queue = stub.queue.lock().expect("no holder panics");
    match &mut queue.batches_left {
        Some(0) => return false,
        Some(left) => *left -= 1,
        None => {}
    }
    let batch: Value = serde_json::from_slice(body).expect("a batch is a valid SQS request");
    let entries = batch["Entries"].as_array().expect("a batch has entries");
    let text = |entry: &Value| entry["MessageBody"].as_str().expect("an entry has a body").to_owned();
    queue.bodies.extend(entries.iter().map(text));
    true
}

/// Serves a listing ("ListObjectsV2", Amazon S3 API Reference) or an object, and returns 404 for any other service.
fn serve_object(objects: &BTreeMap<String, Vec<u8>>, uri: &Uri) -> Response {
    let Some(key) = uri.path().strip_prefix(&format!("/{BUCKET}")) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let url = reqwest::Url::parse(&format!("http://s3{uri}")).expect("the request has a URL");
    let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
    if !query.contains_key("list-type") {
        let key = url
            .path_segments()
            .into_iter()
            .flatten()
            .skip(1)
            .map(decode_segment)
            .collect::<Vec<_>>()
            .join("/");
        return objects.get(&key).cloned().map_or(StatusCode::NOT_FOUND.into_response(), |object| {
            ([("etag", "\"1\"")], object).into_response()
        });
    }
    assert!(key.trim_matches('/').is_empty(), "only whole buckets are listed: {uri}");
    let prefix = query.get("prefix").map_or("", String::as_str);
    let (mut keys, mut folders) = (Vec::new(), BTreeSet::new());
    for key in objects.keys() {
        let Some(rest) = key.strip_prefix(prefix) else { continue };
        match rest.split_once('/').filter(|_| query.contains_key("delimiter")) {
            Some((folder, _)) => drop(folders.insert(format!("{prefix}{folder}/"))),
            None => keys.push(key),
        }
    }
    let keys = keys.iter().map(|key| format!("<Contents><Key>{key}</Key></Contents>"));
    let folders =
        folders.iter().map(|folder| format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"));
    let entries: String = keys.chain(folders).collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>").into_response()
}

/// Decodes a segment of a path: clients percent-encode everything except letters and digits.
fn decode_segment(segment: &str) -> String {
    let mut text = segment.to_owned();
    for (encoded, character) in [("%3D", "="), ("%2F", "/"), ("%2E", ".")] {
        text = text.replace(encoded, character);
    }
    text
}
