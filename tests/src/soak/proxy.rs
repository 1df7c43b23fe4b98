//! Between the functions and SQS: a proxy that loses, breaks, delays and falsifies what goes through it, and writes down what was true.

mod batch;
mod fault;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::history::{Invocation, Stage, Told};
use super::http::{Connection, Request, listen};
use super::recorder::Recorder;
use batch::Batch;
use fault::Denial;
pub use fault::Fault;

/// A confirmation that takes longer may come when the function has sent again and heard of that: it waits for five seconds at least.
const LATE: Duration = Duration::from_secs(2);
/// So near an invocation's end, too: the functions keep half a second free for their own answer.
const NEAR_THE_END: Duration = Duration::from_secs(1);

/// A running proxy; dropping it ends it.
pub struct Proxy {
    endpoint_url: String,
    server: JoinHandle<()>,
}

/// Which fault the n-th request meets, which an invocation makes.
pub type Plan = Box<dyn Fn(u64, Invocation) -> Fault + Send + Sync>;

struct Shared {
    upstream: String,
    client: reqwest::Client,
    recorder: Arc<Recorder>,
    queues: [(String, Stage); 4],
    plan: Plan,
    patience: Duration,
    requests: std::sync::atomic::AtomicU64,
}

/// What SQS answered.
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Proxy {
    /// Starts one before `upstream`, whose queues have these URLs. `patience` is how long a client waits before it sends again; the slowest
    /// faults take longer.
    pub async fn start(
        upstream: &str,
        queues: [(String, Stage); 4],
        recorder: Arc<Recorder>,
        patience: Duration,
        plan: Plan,
    ) -> Self {
        // A connection that the emulator has closed meanwhile would be a fault that nobody planned.
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let client = client.build().expect("a client without TLS roots is built");
        let (upstream, requests) = (upstream.to_owned(), Default::default());
        let shared = Arc::new(Shared { upstream, client, recorder, queues, plan, patience, requests });
        let (address, server) = listen(move |connection| serve(Arc::clone(&shared), connection)).await;
        Self { endpoint_url: format!("http://{address}"), server }
    }

    /// The endpoint for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn endpoint_url(&self) -> &str {
        &self.endpoint_url
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(shared: Arc<Shared>, mut connection: Connection) {
    while let Some(request) = connection.next().await {
        let number = shared.requests.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let invocation = invocation(request.header("x-amzn-trace-id"));
        let fault = if shared.recorder.burns() { (shared.plan)(number, invocation) } else { Fault::None };
        if fault != Fault::None {
            shared.recorder.fault(fault.name());
        }
        let _under_way = shared.recorder.under_way();
        match shared.handle(&request, invocation, fault, connection).await {
            Some(kept) => connection = kept,
            None => return,
        }
    }
}

impl Shared {
    /// The connection, where it is to be kept.
    async fn handle(
        &self,
        request: &Request,
        invocation: Invocation,
        fault: Fault,
        mut connection: Connection,
    ) -> Option<Connection> {
        let Some(mut batch) = Batch::read(request, &self.queues) else {
            self.recorder
                .trouble(format!("a request that is no batch of ours: {}", request.header("x-amz-target")));
            connection.reset();
            return None;
        };
        let (came, after) = (Instant::now(), self.recorder.clock(invocation).0);
        let not_passed_on = Told::NotConfirmed(fault.name());
        let kept = match fault {
            Fault::ResetUnsent => {
                connection.reset();
                None
            }
            Fault::HungUnsent => {
                connection.hang(self.patience * 3 / 2).await;
                None
            }
            Fault::Error500Unsent => {
                connection.answer(500, &[], internal_failure().as_bytes()).await.then_some(connection)
            }
            Fault::GatewayUnsent => {
                connection.answer(502, &[("Content-Type", "text/html")], b"<html>Bad gateway</html>").await;
                None
            }
            Fault::Throttled503 => {
                let body = json!({"__type": "com.amazonaws.sqs#ThrottlingException", "message": "injected"});
                connection.answer(503, &[], body.to_string().as_bytes()).await.then_some(connection)
            }
            Fault::Throttled400 => {
                let body = json!({"__type": "com.amazonaws.sqs#RequestThrottled", "message": "injected"});
                connection.answer(400, &[], body.to_string().as_bytes()).await.then_some(connection)
            }
            _ => {
                return self.pass_on(request, &mut batch, fault, connection, came, (invocation, after)).await;
            }
        };
        batch.record(&self.recorder, invocation, after, |_| (false, not_passed_on));
        kept
    }

    async fn pass_on(
        &self,
        request: &Request,
        batch: &mut Batch,
        fault: Fault,
        mut connection: Connection,
        came: Instant,
        (invocation, after): (Invocation, Duration),
    ) -> Option<Connection> {
        match fault {
            Fault::Delay(millis) => sleep(Duration::from_millis(millis)).await,
            Fault::Late => sleep(self.patience * 3 / 2).await,
            _ => {}
        }
        let held_back =
            if let Fault::EntriesHeldBack(denial) = fault { batch.hold_back(denial) } else { Vec::new() };
        let mut answer = self.ask(request, batch).await;
        let arrived = batch.confirmed_in(&answer.body);
        if let Some(members) = members(&answer.body) {
            answer.body = match fault {
                Fault::EntriesHeldBack(_) => with_failed(members, held_back).into_bytes(),
                Fault::EntriesDenied(denial) => batch.denied(members, denial).into_bytes(),
                Fault::EntriesForgotten => batch.forgotten(members).into_bytes(),
                _ => answer.body,
            };
        }
        let confirmed = batch.confirmed_in(&answer.body);
        let (whole, kept) = match fault {
            Fault::ResetAnswerLost => {
                connection.reset();
                (false, None)
            }
            Fault::HungAnswerLost => {
                connection.hang(self.patience * 3 / 2).await;
                (false, None)
            }
            Fault::Error500Done => (
                false,
                connection.answer(500, &[], internal_failure().as_bytes()).await.then_some(connection),
            ),
            Fault::Truncated => {
                // Within the body: its last byte is never there.
                let bytes = answer.body.len() / 2 + 40;
                connection.answer_truncated(answer.status, &answer.body, bytes).await;
                (false, None)
            }
            Fault::Garbled => {
                (false, connection.answer(200, &[], b"<html>It works!</html>").await.then_some(connection))
            }
            _ => {
                let headers = [("Content-Type", "application/x-amz-json-1.0")];
                let written = connection.answer(answer.status, &headers, &answer.body).await;
                (written, written.then_some(connection))
            }
        };
        let name =
            if fault == Fault::None { "refused by the queue, or the client is gone" } else { fault.name() };
        let (lasted, may_last) = self.recorder.clock(invocation);
        let in_time = fault != Fault::Late && came.elapsed() < LATE && lasted + NEAR_THE_END < may_last;
        let told = if in_time { Told::Confirmed } else { Told::ConfirmedLate };
        batch.record(&self.recorder, invocation, after, |id| {
            let told = if whole && confirmed.contains(id) { told } else { Told::NotConfirmed(name) };
            (arrived.contains(id), told)
        });
        kept
    }

    async fn ask(&self, request: &Request, batch: &Batch) -> Answer {
        if batch.is_empty() {
            return Answer { status: 200, body: b"{\"Successful\":[],\"Failed\":[]}".to_vec() };
        }
        let mut upstream = self.client.post(&self.upstream).body(batch.to_string());
        for name in ["x-amz-target", "content-type", "authorization"] {
            upstream = upstream.header(name, request.header(name));
        }
        let answer = upstream.send().await.expect("the emulator answers");
        let status = answer.status().as_u16();
        Answer { status, body: answer.bytes().await.expect("the emulator answers whole").to_vec() }
    }
}

/// Of a trace id; those of requests outside of an invocation have none.
fn invocation(trace_id: &str) -> Invocation {
    let root = trace_id.split(';').find_map(|part| part.strip_prefix("Root=1-5759e988-"));
    root.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(u64::MAX)
}

/// The trace id of an invocation, as Lambda gives one to a function, and the SDK to SQS.
pub(super) fn trace_id(invocation: Invocation) -> String {
    format!("Root=1-5759e988-{invocation:024x};Parent=53995c3f42cd8ad8;Sampled=0")
}

fn members(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok().filter(|members: &Value| members["Successful"].is_array())
}

fn with_failed(mut members: Value, more: Vec<Value>) -> String {
    let failed = members["Failed"].as_array_mut();
    match failed {
        Some(failed) => failed.extend(more),
        None => members["Failed"] = Value::Array(more),
    }
    members.to_string()
}

fn internal_failure() -> String {
    json!({"__type": "com.amazonaws.sqs#InternalFailure", "message": "injected"}).to_string()
}

fn failed_entry(id: &str, denial: Denial) -> Value {
    json!({"Id": id, "Code": denial.code(), "Message": "injected", "SenderFault": denial.is_sender_fault()})
}

#[cfg(test)]
mod tests;
