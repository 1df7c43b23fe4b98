//! The programs that are measured, and the measuring.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use redeliver_tests::figures::{cpu_time, median, peak_memory};
use redeliver_tests::full_batch::{RECORDS, first_deliveries, hand_offs, verdict_attributes};
use redeliver_tests::runtime_api::{InvocationOutcome, LambdaFunction};
use redeliver_tests::runtimes::{self, LambdaProgram, built_functions};
use redeliver_tests::settings::{bundle_path, workspace_root};
use redeliver_tests::sqs_stub::SqsStub;
use serde_json::Value;

/// The timeout of an invocation; nothing here comes near it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A program and what it works on.
pub(crate) struct BenchSubject {
    name: &'static str,
    program: PathBuf,
    variables: Vec<(String, String)>,
    event: Value,
    /// Of a round.
    batches: u32,
    /// Records that it leaves on their queue.
    left: usize,
}

/// A program at work.
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
    /// From its start to its first answer.
    pub(crate) start: f64,
    /// Of a batch.
    pub(crate) cpu: f64,
    /// Of a batch.
    pub(crate) wall: f64,
    pub(crate) peak_memory_bytes: u64,
    /// To SQS.
    pub(crate) requests_per_message: f64,
    /// The program as it is, and compressed; `None` where it is no single file.
    pub(crate) bytes: Option<(u64, u64)>,
}

/// Ours, the least that a function can be, and Python.
pub(crate) fn all_subjects(stub: &SqsStub, target: &str) -> [BenchSubject; 8] {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let sqs = variable("AWS_ENDPOINT_URL", stub.endpoint_url());
    let queues = ["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL", "FINAL_DLQ_URL"];
    let queues = queues.map(|name| variable(name, &stub.queue_url(name)));
    // As the stack sets it: with a policy. Without a circuit breaker, which would hold all but the first calls.
    let policy = r#"{"circuit_breaker":false,"max_attempts":5,"backoff":{"kind":"uniform"}}"#;
    let policy = variable("RETRY_POLICY", policy);
    let variables: Vec<_> = queues.into_iter().chain([sqs, policy, variable("TARGET", target)]).collect();
    let python = runtimes::python_program(&workspace_root().join("tests/support"), "boto3_retry.handler");
    let in_python = python.variables.into_iter().map(|(name, value)| (name.to_owned(), value));
    let of = |name, program, event, batches| BenchSubject {
        name,
        program,
        variables: variables.to_vec(),
        event,
        batches,
        left: 0,
    };
    let calling = |name, more: &[(&str, &str)]| {
        let subject = of("message-processor", bundle_path("message-processor"), first_deliveries(), 300);
        let more = more.iter().map(|(name, value)| variable(name, value));
        BenchSubject { name, variables: subject.variables.into_iter().chain(more).collect(), ..subject }
    };
    [
        of("floor", bundle_path("floor"), hand_offs(), 1000),
        BenchSubject {
            variables: variables.iter().cloned().chain([variable("FINAL_RECORD", "1")]).collect(),
            ..of("floor, final records", bundle_path("floor"), verdict_attributes(), 1000)
        },
        of("failed-message-processor", bundle_path("failed-message-processor"), hand_offs(), 1000),
        of("final-dlq-annotator", bundle_path("final-dlq-annotator"), verdict_attributes(), 1000),
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
            ..of("Python", python.path, hand_offs(), 100)
        },
    ]
}

/// A user's handler in Python without us, and behind the layer with each kind of event; each call waits for so long.
pub(crate) fn own_functions(stub: &SqsStub, wait_seconds: f64, batches: u32) -> [BenchSubject; 3] {
    let wait = wait_seconds.to_string();
    let of = |name, handler, wrap: fn(LambdaProgram) -> LambdaProgram| {
        let program = wrap(runtimes::python_program(&workspace_root().join("tests/support"), handler));
        own_function(stub, name, program, ("WAIT_SECONDS", &wait), batches)
    };
    [
        of("own function, without the layer", "waiting.handler", |program| program),
        of("own function, record", "waiting.handler", LambdaProgram::with_layer),
        of("own function, batch", "waiting.together", |program| program.with_layer().with_batch_handler()),
    ]
}

/// A handler in Java and one in Go that do nothing, without us and behind the layer with one record.
pub(crate) fn compiled_functions(stub: &SqsStub, batches: u32) -> [[BenchSubject; 2]; 2] {
    let of = |name, program| own_function(stub, name, program, ("HANDLER", "idle"), batches);
    let java = || runtimes::java_program("functions.Idle::handle");
    let go = built_functions("go").join("scripted");
    let alone = LambdaProgram { path: go.clone(), variables: Vec::new() };
    [
        [of("Java, without the layer", java()), of("Java, record", java().with_layer())],
        [of("Go, without the layer", alone), of("Go, record", runtimes::os_only(&go))],
    ]
}

fn own_function(
    stub: &SqsStub,
    name: &'static str,
    program: LambdaProgram,
    more: (&str, &str),
    batches: u32,
) -> BenchSubject {
    // The first is that of the event: the batch of another queue would go to the handler as it is.
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

    /// Starts it, invokes it once, and keeps the new process for what follows.
    pub(crate) async fn start_again(&mut self) {
        self.function = self.subject.to_function();
        let start = now();
        self.invoke_once().await;
        self.starts.push(milliseconds(start.elapsed()));
    }

    /// Invokes it many times.
    pub(crate) async fn invoke_round(&mut self, stub: &SqsStub) {
        let _of_others = stub.take_requests();
        let per_batch = |time: Duration| milliseconds(time) / f64::from(self.subject.batches);
        let (cpu, start) = (self.cpu_time().await, now());
        for _ in 0..self.subject.batches {
            self.invoke_once().await;
        }
        self.wall.push(per_batch(start.elapsed()));
        self.cpu.push(per_batch(self.cpu_time().await - cpu));
        self.requests += stub.take_requests().values().sum::<u64>();
    }

    /// The cost so far.
    pub(crate) async fn into_costs(self) -> Costs {
        let id = self.function.process_id().await.expect("it is still running");
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

    /// Of the process and of its children, such as a user's own function.
    async fn cpu_time(&self) -> Duration {
        let id = self.function.process_id().await.expect("it is still running");
        let children = read_proc_file(id, &format!("task/{id}/children"));
        let children = children.split_whitespace().map(|child| child.parse().expect("it is a number"));
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

/// The size after `gzip -9`, in bytes.
fn gzip_size(bytes: &[u8]) -> u64 {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it").len() as u64
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[expect(clippy::disallowed_methods, reason = "how long it takes in real time is what is asked")]
fn now() -> Instant {
    Instant::now()
}
