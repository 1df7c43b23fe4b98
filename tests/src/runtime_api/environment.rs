//! An execution environment: a process and a Runtime API used by it alone.

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{InvocationOutcome, OutputLine};
use crate::settings::epoch_millis;

const TRACE_ID: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0";
const FINAL_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// A process and its Runtime API; both stop when it is dropped.
pub(super) struct RuntimeProcess {
    process: Child,
    invocations: mpsc::UnboundedSender<PendingInvocation>,
    answers: mpsc::UnboundedReceiver<PostedResponse>,
    polled: watch::Receiver<bool>,
    /// Notifies the process that its snapshot is restored for an invocation.
    restored: watch::Sender<bool>,
    invoked: u32,
    /// Stops with the environment.
    _server: JoinSet<()>,
    /// Readers of the output.
    readers: JoinSet<()>,
}

struct PendingInvocation {
    id: String,
    event: String,
    deadline_millis: u128,
    function_arn: String,
    handed_out: watch::Sender<bool>,
}

struct PostedResponse {
    /// `None` if the function failed to start.
    id: Option<String>,
    outcome: InvocationOutcome,
}

struct Api {
    invocations: AsyncMutex<mpsc::UnboundedReceiver<PendingInvocation>>,
    answers: mpsc::UnboundedSender<PostedResponse>,
    polled: watch::Sender<bool>,
    restored: watch::Receiver<bool>,
}

impl RuntimeProcess {
    pub(super) fn start(
        program: &Path,
        variables: &BTreeMap<String, String>,
        output: &Arc<Mutex<Vec<OutputLine>>>,
    ) -> Self {
        let (invocations, pending) = mpsc::unbounded_channel();
        let (answering, answers) = mpsc::unbounded_channel();
        let (polling, polled) = watch::channel(false);
        let (restored, restoring) = watch::channel(false);
        let api = Api {
            invocations: AsyncMutex::new(pending),
            answers: answering,
            polled: polling,
            restored: restoring,
        };

        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        listener.set_nonblocking(true).expect("a socket can be non-blocking");
        let listener = TcpListener::from_std(listener).expect("the runtime accepts a socket");
        let mut process = Command::new(program)
            .env_clear()
            .envs(variables)
            .env("AWS_LAMBDA_RUNTIME_API", address.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));

        let (mut server, mut readers) = (JoinSet::new(), JoinSet::new());
        server.spawn(async move {
            axum::serve(listener, routes(api)).await.expect("the Runtime API serves");
        });
        readers.spawn(read_lines(
            process.stdout.take().expect("the stream is piped"),
            false,
            Arc::clone(output),
        ));
        readers.spawn(read_lines(
            process.stderr.take().expect("the stream is piped"),
            true,
            Arc::clone(output),
        ));
        Self { process, invocations, answers, polled, restored, invoked: 0, _server: server, readers }
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }

    pub(super) fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Waits until the process polls for work (Lambda's init phase), and then up to `timeout` for its response.
    pub(super) async fn invoke(
        &mut self,
        event: &Value,
        timeout: Duration,
        in_flight: &watch::Sender<bool>,
        function_arn: String,
    ) -> InvocationOutcome {
        self.invoked += 1;
        let id = format!("00000000-0000-4000-8000-{:012}", self.invoked);
        let invocation = async {
            // An error means that the server ended with its process, which the other branch reports.
            let _ended = self.polled.wait_for(|polled| *polled).await.is_err();
            self.restored.send_replace(true);
            let _ended = self.invocations.send(PendingInvocation {
                id: id.clone(),
                event: event.to_string(),
                deadline_millis: epoch_millis() + timeout.as_millis(),
                function_arn,
                handed_out: in_flight.clone(),
            });
            sleep(timeout).await;
        };
        let answer = async {
            loop {
                match self.answers.recv().await {
                    Some(answer) if answer.id.as_ref().is_none_or(|answered| *answered == id) => {
                        break answer.outcome;
                    }
                    Some(_late) => {} // from an invocation that timed out
                    None => break InvocationOutcome::Died,
                }
            }
        };
        tokio::select! {
            biased;
            outcome = answer => outcome,
            _exit = self.process.wait() => InvocationOutcome::Died,
            () = invocation => InvocationOutcome::TimedOut,
        }
    }

    /// Terminates the process (SIGTERM), waits for it, and returns its exit code.
    pub(super) async fn terminate(&mut self) -> Option<i32> {
        let pid = self.process.id().and_then(to_pid)?;
        kill_process(pid, Signal::TERM).ok()?;
        self.process.wait().await.ok()?.code()
    }

    /// Kills the process, and reads its last output.
    pub(super) async fn kill(mut self) {
        self.kill_process_tree();
        let _already_ended = self.process.wait().await;
        let _cut_off = timeout(FINAL_OUTPUT_TIMEOUT, mem::take(&mut self.readers).join_all()).await;
    }

    /// Kills all processes of the environment: none may outlive it.
    fn kill_process_tree(&mut self) {
        let started = self.process.id().map(descendants_of).unwrap_or_default();
        let _already_ended = self.process.start_kill();
        for process in started.into_iter().filter_map(to_pid) {
            let _already_ended = kill_process(process, Signal::KILL);
        }
    }
}

impl Drop for RuntimeProcess {
    fn drop(&mut self) {
        self.kill_process_tree();
    }
}

/// Returns the ids of all descendants of a process ("proc_tid_children(5)"), or none where there is no `/proc`.
fn descendants_of(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|ids| ids.split_whitespace().map(str::parse).collect::<Vec<_>>())
        .flatten()
        .collect();
    children.iter().flat_map(|child| descendants_of(*child)).chain(children.iter().copied()).collect()
}

fn to_pid(id: u32) -> Option<Pid> {
    Pid::from_raw(id.cast_signed())
}

fn routes(api: Api) -> Router {
    Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next_invocation))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(post_response))
        .route("/2018-06-01/runtime/invocation/{id}/error", post(post_error))
        .route("/2018-06-01/runtime/init/error", post(init_error))
        .route("/2018-06-01/runtime/restore/next", get(restore_next))
        .with_state(Arc::new(api))
}

async fn next_invocation(State(api): State<Arc<Api>>) -> Response {
    api.polled.send_replace(true);
    let Some(invocation) = api.invocations.lock().await.recv().await else {
        return StatusCode::GONE.into_response();
    };
    invocation.handed_out.send_replace(true);
    let headers = [
        ("Content-Type", "application/json".to_owned()),
        ("Lambda-Runtime-Aws-Request-Id", invocation.id),
        ("Lambda-Runtime-Deadline-Ms", invocation.deadline_millis.to_string()),
        ("Lambda-Runtime-Invoked-Function-Arn", invocation.function_arn),
        ("Lambda-Runtime-Trace-Id", TRACE_ID.to_owned()),
    ];
    (headers, invocation.event).into_response()
}

async fn post_response(State(api): State<Arc<Api>>, UrlPath(id): UrlPath<String>, body: Bytes) -> StatusCode {
    api.settle_invocation(Some(id), InvocationOutcome::Response(parse_json_or_text(&body)))
}

async fn post_error(State(api): State<Arc<Api>>, UrlPath(id): UrlPath<String>, body: Bytes) -> StatusCode {
    api.settle_invocation(Some(id), InvocationOutcome::Error(parse_json_or_text(&body)))
}

/// Responds once the snapshot is restored. The request means that the function is ready for its snapshot ("Improving
/// startup performance with Lambda SnapStart").
async fn restore_next(State(api): State<Arc<Api>>) -> StatusCode {
    api.polled.send_replace(true);
    match api.restored.clone().wait_for(|restored| *restored).await {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::GONE,
    }
}

async fn init_error(State(api): State<Arc<Api>>, body: Bytes) -> StatusCode {
    api.settle_invocation(None, InvocationOutcome::Error(parse_json_or_text(&body)))
}

impl Api {
    fn settle_invocation(&self, id: Option<String>, outcome: InvocationOutcome) -> StatusCode {
        let _receiver_gone = self.answers.send(PostedResponse { id, outcome });
        StatusCode::ACCEPTED
    }
}

/// Parses a body. A body that is not JSON is kept as a string, which the event source mapping interprets.
fn parse_json_or_text(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

async fn read_lines(pipe: impl AsyncRead + Unpin, is_stderr: bool, output: Arc<Mutex<Vec<OutputLine>>>) {
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        output.lock().expect("no reader panics").push(OutputLine { is_stderr, text });
    }
}
