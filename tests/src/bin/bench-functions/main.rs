//! What a function costs: start, CPU, memory, requests and bytes, beside the least that such a function can cost and beside
//! Python. See docs/performance.md.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod subject;
mod table;

use axum::Router;
use axum::http::StatusCode;
use redeliver_tests::full_batch::{BODY_BYTES, RECORDS};
use redeliver_tests::sqs_stub::SqsStub;
use redeliver_tests::wire::serve;

use subject::Running;

/// Starts of each program, in turn.
const STARTS: usize = 15;
/// Rounds in which each program works on its batches, in turn: a busy moment of the machine is everybody's.
const ROUNDS: usize = 7;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let stub = SqsStub::start().await;
    let unavailable = Router::new().fallback(|| async { StatusCode::SERVICE_UNAVAILABLE });
    let (target, _server) = serve(unavailable).await;
    let subjects = subject::all(&stub, &format!("http://{target}/"));

    let mut running: Vec<_> = subjects.iter().map(Running::new).collect();
    for _ in 0..STARTS {
        for subject in &mut running {
            subject.start().await;
        }
    }
    for _ in 0..ROUNDS {
        for subject in &mut running {
            subject.round(&stub).await;
        }
    }
    let mut costs = Vec::new();
    for subject in running {
        costs.push(subject.costs().await);
    }
    println!(
        "batches of {RECORDS} messages of {BODY_BYTES} bytes; medians of {STARTS} starts and {ROUNDS} rounds\n"
    );
    table::print(&costs);
}
