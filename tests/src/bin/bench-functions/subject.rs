//! The measured programs, and the measurements.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use redeliver_tests::figures::{cpu_time, median, peak_memory};
use redeliver_tests::full_batch::{RECORDS, first_deliveries, hand_offs, verdicts};
use redeliver_tests::runtime_api::{InvocationOutcome, LambdaFunction};
use redeliver_tests::runtimes::{self, LambdaProgram, built_functions_folder};
use redeliver_tests::settings::{bundle_path, workspace_root};
use redeliver_tests::sqs_stub::SqsStub;
use serde_json::Value;

/// The timeout of an invocation, far longer than any invocation takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A program with its input.
pub(crate) struct BenchSubject {
    name: &'static str,
    program: PathBuf,
    variables: Vec<(String, String)>,
    event: Value,
    /// The number of batches per round.
    batches: u32,
    /// The number of records left in the queue.
    left: usize,
}

/// A program that is being measured.
pub(crate) struct RunningSubject<'a> {
    subject: &'a BenchSubject,
    function: Arc<LambdaFunction>,
    starts: Vec<f64>,
    cpu: Vec<f64>,
    wall: Vec<f64>,
    requests: u64,
}

/// The cost of a program. Times are in milliseconds.
pub(crate) struct Costs {
    pub(crate) name: &'static str,
    /// From the start of the process to its first response.
    pub(crate) start: f64,
    /// CPU time per batch.
    pub(crate) cpu: f64,
    /// Wall-clock time per batch.
    pub(crate) wall: f64,
    pub(crate) peak_memory_bytes: u64,
    /// Requests to SQS.
    pub(crate) requests_per_message: f64,
    /// The size of the program, plain and compressed; `None` if it is not a single file.
    pub(crate) bytes: Option<(u64, u64)>,
}

/// Returns the measured programs: the minimal function, our functions, and Python.
pub(crate) fn all_subjects(stub: &SqsStub, target: &str) -> [BenchSubject; 8] {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sqs = variable("AWS_ENDPOINT_URL", stub.endpoint_url());
    let queues = ["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL", "FINAL_DLQ_URL"];
    let queues = queues.map(|name| variable(name, &stub.queue_url(name)));
    // The stack also sets a policy. This one has no circuit breaker, which would hold back all but the first calls.
    let policy = r#"{"circuit_breaker":false,"max_attempts":5,"backoff":{"kind":"uniform"}}"#;
    let policy = variable("RETRY_POLICY", policy);
    let variables: Vec<_> = queues.into_iter().chain([sqs, policy, variable("TARGET", target)]).collect();
    let python = runtimes::python_program(&workspace_root().join("tests/support"), "boto3_retry.handler");
    let in_python = python.variables.into_iter().map(|(name, value)| (name.to_owned(), value));
    let new_subject = |name, program, event, batches| BenchSubject {
        name,
        program,
        variables: variables.to_vec(),
        event,
        batches,
        left: 0,
    };
    let calling = |name, more: &[(&str, &str)]| {
        let subject =
            new_subject("message-processor", bundle_path("message-processor"), first_deliveries(), 300);
        let more = more.iter().map(|(name, value)| variable(name, value));
        BenchSubject { name, variables: subject.variables.into_iter().chain(more).collect(), ..subject }
    };
    [
        new_subject("floor", bundle_path("floor"), hand_offs(), 1000),
        BenchSubject {
            variables: variables.iter().cloned().chain([variable("FINAL_RECORD", "1")]).collect(),
            ..new_subject("floor, final records", bundle_path("floor"), verdicts(), 1000)
        },
        new_subject("failed-message-processor", bundle_path("failed-message-processor"), hand_offs(), 1000),
        new_subject("final-dlq-annotator", bundle_path("final-dlq-annotator"), verdicts(), 1000),
        calling("message-processor, 503", &[]),
        calling("message-processor, 503, direct-resend", &[("STRATEGY", "direct-resend")]),
        BenchSubject {
            left: RECORDS as usize,
            ..calling(
                "message-processor, 503, visibility",
                &[
                    ("STRATEGY", "visibility"),
                    ("VISIBILITY_TIMEOUT_SECONDS", "180"),
                    ("RETENTION_SECONDS", "604800"),
                ],
            )
        },
        BenchSubject {
            variables: variables.iter().cloned().chain(in_python).collect(),
            ..new_subject("Python", python.path, hand_offs(), 100)
        },
    ]
}

/// Returns a user's Python handler without the layer, and behind the layer with each kind of event. Each call waits for
/// `wait_seconds`.
pub(crate) fn own_functions(stub: &SqsStub, wait_seconds: f64, batches: u32) -> [BenchSubject; 3] {
    let wait = wait_seconds.to_string();
    let new_subject = |name, handler, wrap: fn(LambdaProgram) -> LambdaProgram| {
        let program = wrap(runtimes::python_program(&workspace_root().join("tests/support"), handler));
        own_function(stub, name, program, ("WAIT_SECONDS", &wait), batches)
    };
    [
        new_subject("own function, without the layer", "waiting.handler", |program| program),
        new_subject("own function, record", "waiting.handler", LambdaProgram::with_layer),
        new_subject("own function, batch", "waiting.together", |program| {
            program.with_layer().with_batch_handler()
        }),
    ]
}

/// Returns no-op handlers in Java and in Go, without the layer and behind it with one record per event.
pub(crate) fn compiled_functions(stub: &SqsStub, batches: u32) -> [[BenchSubject; 2]; 2] {
    let new_subject = |name, program| own_function(stub, name, program, ("HANDLER", "idle"), batches);
    let java = || runtimes::java_program("functions.Idle::handle");
    let go = built_functions_folder("go").join("scripted");
    let alone = LambdaProgram { path: go.clone(), variables: Vec::new() };
    [
        [new_subject("Java, without the layer", java()), new_subject("Java, record", java().with_layer())],
        [
            new_subject("Go, without the layer", alone),
            new_subject("Go, record", runtimes::os_only_program(&go)),
        ],
    ]
}

fn own_function(
    stub: &SqsStub,
    name: &'static str,
    program: LambdaProgram,
    more: (&str, &str),
    batches: u32,
) -> BenchSubject {
    // The first must be the event's queue: a batch from another queue would be passed to the handler unchanged.
    let queues = [
        ("SOURCE_QUEUE_URL", "source"),
        ("INTERMEDIATE_DLQ_URL", "intermediate-dlq"),
        ("ANNOTATION_QUEUE_URL", "annotation"),
    ];
    let queues = queues.map(|(variable, name)| (variable.to_owned(), stub.queue_url(name)));
    let more = [("AWS_ENDPOINT_URL", stub.endpoint_url()), more];
    let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let own = program.variables.into_iter().map(|(name, value)| (name.to_owned(), value));
    let variables = own.chain(queues).chain(more).collect();
    BenchSubject { name, program: program.path, variables, event: first_deliveries(), batches, left: 0 }
}

impl<'a> RunningSubject<'a> {
    pub(crate) fn new(subject: &'a BenchSubject) -> Self {
        let function = subject.to_function();
        Self { subject, function, starts: Vec::new(), cpu: Vec::new(), wall: Vec::new(), requests: 0 }
    }

    /// Starts a new process for the program, invokes it once, and keeps the process for the next measurements.
    pub(crate) async fn restart(&mut self) {
        self.function = self.subject.to_function();
        let start = now();
        self.invoke_once().await;
        self.starts.push(milliseconds(start.elapsed()));
    }

    /// Invokes the program with all batches of a round.
    pub(crate) async fn invoke_round(&mut self, stub: &SqsStub) {
        let _of_others = stub.take_request_counts();
        let per_batch = |time: Duration| milliseconds(time) / f64::from(self.subject.batches);
        let (cpu, start) = (self.cpu_time().await, now());
        for _ in 0..self.subject.batches {
            self.invoke_once().await;
        }
        self.wall.push(per_batch(start.elapsed()));
        self.cpu.push(per_batch(self.cpu_time().await - cpu));
        self.requests += stub.take_request_counts().values().sum::<u64>();
    }

    /// Returns the cost so far.
    pub(crate) async fn into_costs(self) -> Costs {
        let id = self.function.process_id().await.expect("the process is still running");
        let status = read_proc_file(id, "status");
        let bytes = fs::read(&self.subject.program).expect("the program is there");
        let messages = f64::from(self.subject.batches * RECORDS) * self.cpu.len() as f64;
        Costs {
            name: self.subject.name,
            start: median(self.starts),
            cpu: median(self.cpu),
            wall: median(self.wall),
            peak_memory_bytes: peak_memory(&status).expect("Linux reports a process's memory"),
            requests_per_message: self.requests as f64 / messages,
            bytes: (!bytes.starts_with(b"#!")).then(|| (bytes.len() as u64, gzip_size(&bytes))),
        }
    }

    async fn invoke_once(&self) {
        let outcome = self.function.invoke(&self.subject.event, TIMEOUT).await;
        let left = match &outcome {
            InvocationOutcome::Response(Value::Null) => Some(0),
            InvocationOutcome::Response(response) => response["batchItemFailures"].as_array().map(Vec::len),
            _ => None,
        };
        assert_eq!(
            left,
            Some(self.subject.left),
            "{}: {outcome:?} {:?}",
            self.subject.name,
            self.function.output_lines()
        );
    }

    /// Returns the CPU time of the process and its children, for example a user's own function.
    async fn cpu_time(&self) -> Duration {
        let id = self.function.process_id().await.expect("the process is still running");
        let children = read_proc_file(id, &format!("task/{id}/children"));
        let children = children.split_whitespace().map(|child| child.parse().expect("the value is a number"));
        [id].into_iter()
            .chain(children)
            .map(|id| cpu_time(&read_proc_file(id, "stat")).expect("Linux reports a process's times"))
            .sum()
    }
}

fn read_proc_file(id: u32, file: &str) -> String {
    fs::read_to_string(Path::new("/proc").join(id.to_string()).join(file)).expect("Linux has /proc")
}

impl BenchSubject {
    fn to_function(&self) -> Arc<LambdaFunction> {
        LambdaFunction::new(self.name, self.program.clone(), self.variables.clone())
    }
}

/// Returns the size after `gzip -9`, in bytes.
fn gzip_size(bytes: &[u8]) -> u64 {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("writing to memory succeeds");
    encoder.finish().expect("writing to memory succeeds").len() as u64
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn now() -> Instant {
    Instant::now()
}
