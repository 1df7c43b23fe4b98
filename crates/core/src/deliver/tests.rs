mod copies;
mod outbox;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::retries::no_answer_error;
use super::*;
use crate::fault::{EntryError, Fault};
use crate::message::Content;
use crate::testing::at;

/// A clock that advances only when all futures are asleep.
#[derive(Clone)]
struct FakeClock(Arc<Mutex<(Timestamp, Sleepers)>>);

/// Wakers by wake-up time.
type Sleepers = BTreeMap<Timestamp, Vec<Waker>>;

impl FakeClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((at(0), BTreeMap::new()))))
    }

    fn seconds(&self) -> f64 {
        (self.now() - at(0)).as_seconds_f64()
    }

    /// Polls the future until it is ready: none of the fakes wait in real time.
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            // Polls twice, since a later future may make an earlier one ready.
            for _ in 0..2 {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    return output;
                }
            }
            let mut time = self.0.lock().unwrap();
            let (then, sleepers) = time.1.pop_first().expect("no future can make progress");
            time.0 = then;
            drop(time);
            sleepers.into_iter().for_each(Waker::wake);
        }
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().0
    }

    async fn sleep(&self, duration: Duration) {
        let end = self.now() + duration;
        std::future::poll_fn(|context| {
            let mut time = self.0.lock().unwrap();
            if time.0 >= end {
                return Poll::Ready(());
            }
            time.1.entry(end).or_default().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// The scripted response to one request.
#[derive(Clone, Debug)]
enum ScriptedResponse {
    /// Every entry is confirmed.
    All,
    /// The entries with these bodies fail; all others are confirmed.
    Failing(Vec<(&'static str, Fault)>),
    /// The response has this many outcomes, all confirmed, regardless of the number of entries.
    Count(usize),
    /// There is no response.
    Hang,
    /// The response arrives after this many seconds.
    After(u64, Box<ScriptedResponse>),
}

/// Responds to requests according to a script, whose last response is repeated. Records the time and the bodies of each
/// request.
struct FakeQueue {
    clock: FakeClock,
    script: Mutex<VecDeque<ScriptedResponse>>,
    requests: Mutex<Vec<(f64, Vec<String>)>>,
}

impl FakeQueue {
    fn new(script: impl IntoIterator<Item = ScriptedResponse>) -> Self {
        let script = Mutex::new(script.into_iter().collect());
        Self { clock: FakeClock::new(), script, requests: Mutex::default() }
    }

    fn requests(&self) -> Vec<Vec<String>> {
        self.requests.lock().unwrap().iter().map(|(_, bodies)| bodies.clone()).collect()
    }

    /// Returns the time of each request, in milliseconds from the start.
    fn request_times(&self) -> Vec<u64> {
        self.requests.lock().unwrap().iter().map(|(seconds, _)| (seconds * 1000.0).round() as u64).collect()
    }
}

impl QueueSender for FakeQueue {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        let bodies: Vec<_> = batch.entries().iter().map(|message| message.content().body.clone()).collect();
        self.requests.lock().unwrap().push((self.clock.seconds(), bodies.clone()));
        let answer = {
            let mut script = self.script.lock().unwrap();
            let answer = script.pop_front().unwrap();
            if script.is_empty() {
                script.push_back(answer.clone());
            }
            answer
        };
        let outcome = |body: &String| Ok(format!("id of {body}"));
        let answer = match answer {
            ScriptedResponse::After(seconds, answer) => {
                self.clock.sleep(Duration::from_secs(seconds)).await;
                *answer
            }
            answer => answer,
        };
        match answer {
            ScriptedResponse::After(..) => unreachable!("waits are not nested"),
            ScriptedResponse::All => bodies.iter().map(outcome).collect(),
            ScriptedResponse::Failing(failing) => bodies
                .iter()
                .map(|body| match failing.iter().find(|(name, _)| name == body) {
                    Some((_, fault)) => Err(error(*fault)),
                    None => outcome(body),
                })
                .collect(),
            ScriptedResponse::Count(count) => (0..count).map(|index| Ok(format!("id {index}"))).collect(),
            ScriptedResponse::Hang => std::future::pending().await,
        }
    }
}

fn error(fault: Fault) -> EntryError {
    EntryError::new(fault, format!("{fault:?}Code"))
}

fn messages(bodies: &[&str]) -> Vec<OutgoingMessage> {
    let message =
        |body: &&str| OutgoingMessage::new(Content { body: (*body).to_owned(), ..Content::default() });
    bodies.iter().map(|body| message(body).unwrap()).collect()
}

/// Delivers with a deadline of ten seconds.
fn deliver_bodies(queue: &FakeQueue, bodies: &[&str]) -> Vec<EntryOutcome<String>> {
    deliver_bodies_within(10, queue, bodies)
}

fn deliver_bodies_within(seconds: i64, queue: &FakeQueue, bodies: &[&str]) -> Vec<EntryOutcome<String>> {
    queue.clock.block_on(deliver(queue, &queue.clock, at(seconds), messages(bodies)))
}

fn sent_outcomes(bodies: &[&str]) -> Vec<EntryOutcome<String>> {
    bodies.iter().map(|body| Ok(format!("id of {body}"))).collect()
}

#[test]
fn no_request_is_made_without_messages() {
    let queue = FakeQueue::new([ScriptedResponse::All]);
    assert_eq!(deliver_bodies(&queue, &[]), []);
    assert_eq!(queue.requests(), [[""; 0]; 0]);
}

#[test]
fn every_message_has_one_outcome_in_order() {
    let names: Vec<_> = (0..25).map(|index| format!("m{index}")).collect();
    let bodies: Vec<_> = names.iter().map(String::as_str).collect();
    let queue = FakeQueue::new([ScriptedResponse::All]);
    assert_eq!(deliver_bodies(&queue, &bodies), sent_outcomes(&bodies));
    let sizes: Vec<_> = queue.requests().iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 10, 5]);
    assert_eq!(queue.clock.now(), at(0), "successful sends take no time");
}

#[test]
fn only_refused_entries_are_sent_again() {
    for fault in [Fault::Throttled, Fault::NotSent] {
        let queue = FakeQueue::new([
            ScriptedResponse::Failing(vec![("b", fault), ("d", fault)]),
            ScriptedResponse::Failing(vec![("d", fault)]),
            ScriptedResponse::All,
        ]);
        assert_eq!(deliver_bodies(&queue, &["a", "b", "c", "d"]), sent_outcomes(&["a", "b", "c", "d"]));
        assert_eq!(queue.requests(), [vec!["a", "b", "c", "d"], vec!["b", "d"], vec!["d"]], "{fault:?}");
    }
}

#[test]
fn sender_faults_are_never_sent_again() {
    let queue = FakeQueue::new([ScriptedResponse::Failing(vec![("b", Fault::Sender)])]);
    let outcomes = deliver_bodies(&queue, &["a", "b"]);
    assert_eq!(outcomes, [Ok("id of a".to_owned()), Err(error(Fault::Sender))]);
    assert_eq!(queue.requests().len(), 1);
}

#[test]
fn resends_stop_at_the_deadline_with_the_last_error() {
    let queue = FakeQueue::new([ScriptedResponse::Failing(vec![("b", Fault::Throttled)])]);
    let outcomes = deliver_bodies(&queue, &["a", "b"]);
    assert_eq!(outcomes, [Ok("id of a".to_owned()), Err(error(Fault::Throttled))]);
    assert!(queue.clock.seconds() <= 10.0, "{} s", queue.clock.seconds());
    let requests = queue.requests();
    assert_eq!(requests[0], ["a", "b"]);
    assert!(requests[1..].iter().all(|request| *request == ["b"]));
    // Waits double from 50 ms to 2 s; the clock's sub-second part shortens each by up to half.
    assert!((9..=14).contains(&requests.len()), "{} requests", requests.len());
}

#[test]
fn no_message_is_sent_after_the_deadline() {
    let queue = FakeQueue::new([ScriptedResponse::Failing(vec![("a", Fault::Service)])]);
    let outcomes = deliver_bodies_within(-5, &queue, &["a"]);
    assert_eq!(outcomes, [Err(no_answer_error())]);
    assert_eq!(queue.requests().len(), 0);
}

#[test]
fn a_hanging_queue_is_abandoned_at_the_deadline_without_a_confirmation() {
    let queue = FakeQueue::new([ScriptedResponse::Hang]);
    let outcomes = deliver_bodies(&queue, &["a", "b"]);
    assert_eq!(outcomes, [Err(no_answer_error()), Err(no_answer_error())]);
    assert_eq!(queue.clock.now(), at(10));
    assert_eq!(queue.request_times(), [0, 5000]);
}

#[test]
fn a_hanging_batch_does_not_delay_the_other_batches() {
    let names: Vec<_> = (0..30).map(|index| format!("m{index}")).collect();
    let bodies: Vec<_> = names.iter().map(String::as_str).collect();
    let queue = FakeQueue::new([ScriptedResponse::All, ScriptedResponse::Hang, ScriptedResponse::All]);
    let outcomes = deliver_bodies(&queue, &bodies);
    assert_eq!(outcomes, sent_outcomes(&bodies));
    assert_eq!(queue.request_times(), [0, 0, 0, 5000]);
    assert_eq!(queue.requests()[3], bodies[10..20], "only the hanging batch is sent again");
}

#[test]
fn an_entry_without_an_outcome_is_not_confirmed() {
    let queue = FakeQueue::new([ScriptedResponse::Count(2), ScriptedResponse::Hang]);
    let outcomes = deliver_bodies(&queue, &["a", "b", "c", "d"]);
    assert_eq!(outcomes[..2], [Ok("id 0".to_owned()), Ok("id 1".to_owned())]);
    assert_eq!(outcomes[2..], [Err(no_answer_error()), Err(no_answer_error())]);
    assert_eq!(
        queue.requests()[1],
        ["c", "d"],
        "a missing outcome counts as lost, so its entry is sent once more"
    );
}

#[test]
fn surplus_outcomes_do_not_confirm_entries_in_another_batch() {
    let names: Vec<_> = (0..12).map(|index| format!("m{index}")).collect();
    let bodies: Vec<_> = names.iter().map(String::as_str).collect();
    let queue = FakeQueue::new([ScriptedResponse::Count(12), ScriptedResponse::Hang]);
    let outcomes = deliver_bodies(&queue, &bodies);
    assert!(outcomes[..10].iter().all(Result::is_ok));
    assert_eq!(outcomes[10..], [Err(no_answer_error()), Err(no_answer_error())]);
}

#[test]
fn the_time_until_a_past_moment_is_zero() {
    assert_eq!(time_until(at(0), at(5)), Duration::from_secs(5));
    assert_eq!(time_until(at(5), at(0)), Duration::ZERO);
}
