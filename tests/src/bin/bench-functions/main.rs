//! Measures the cost of a function: startup, CPU, memory, requests and size, compared with the minimum for any function
//! and with Python. See docs/performance.md.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod subject;
mod table;

use axum::Router;
use axum::http::StatusCode;
use redeliver_tests::full_batch::{BODY_BYTES, RECORDS};
use redeliver_tests::sqs_stub::SqsStub;
use redeliver_tests::wire::serve_router;

use subject::{BenchSubject, Costs, RunningSubject};

/// The number of times that each program is started. The programs take turns.
const STARTS: usize = 15;
/// Rounds in which each program processes its batches. The programs take turns, so a load spike on the host affects all
/// of them.
const ROUNDS: usize = 7;

/// The time that a call to a user's handler waits for a service, in seconds.
const WAIT_SECONDS: f64 = 0.3;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let stub = SqsStub::start().await;
    let unavailable = Router::new().fallback(|| async { StatusCode::SERVICE_UNAVAILABLE });
    let (target, _server) = serve_router(unavailable).await;
    let costs = measure_subjects(
        &subject::all_subjects(&stub, &format!("http://{target}/")),
        &stub,
        [STARTS, ROUNDS],
    )
    .await;
    println!(
        "batches of {RECORDS} messages of {BODY_BYTES} bytes; medians of {STARTS} starts and {ROUNDS} rounds\n"
    );
    table::print_table(&costs);
    let mut own =
        vec![measure_subjects(&subject::own_functions(&stub, 0.0, 100), &stub, [STARTS, ROUNDS]).await];
    for language in subject::compiled_functions(&stub, 100) {
        own.push(measure_subjects(&language, &stub, [STARTS, ROUNDS]).await);
    }
    let waiting = measure_subjects(&subject::own_functions(&stub, WAIT_SECONDS, 1), &stub, [1, 3]).await;
    table::print_own_functions(&own, &waiting);
}

/// Returns the cost of each subject, measured over this many starts and then this many rounds.
async fn measure_subjects(
    subjects: &[BenchSubject],
    stub: &SqsStub,
    [starts, rounds]: [usize; 2],
) -> Vec<Costs> {
    let mut running: Vec<_> = subjects.iter().map(RunningSubject::new).collect();
    for _ in 0..starts {
        for subject in &mut running {
            subject.restart().await;
        }
    }
    for _ in 0..rounds {
        for subject in &mut running {
            subject.invoke_round(stub).await;
        }
    }
    let mut costs = Vec::new();
    for subject in running {
        costs.push(subject.into_costs().await);
    }
    costs
}
