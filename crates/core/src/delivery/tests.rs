mod report;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use chrono::{TimeDelta, TimeZone};

use super::*;
use crate::message::Content;
use crate::packing::Batch;

fn at(second: i64) -> Timestamp {
    chrono::Utc.timestamp_opt(1_785_000_000 + second, 0).unwrap()
}

/// Polls until it is ready. A fake world never needs to be waited for.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("nothing moves any more");
}

/// Time passes only for who sleeps, and only when nobody else has anything to do.
struct FakeClock(Mutex<Timestamp>);

impl FakeClock {
    fn new() -> Self {
        Self(Mutex::new(at(0)))
    }

    fn advance(&self, duration: Duration) {
        *self.0.lock().unwrap() += TimeDelta::from_std(duration).unwrap();
    }

    fn seconds(&self) -> f64 {
        (self.now() - at(0)).as_seconds_f64()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        // Pending once, so that a ready answer always comes before the end of time.
        let mut first = true;
        std::future::poll_fn(|_| {
            let pending = std::mem::take(&mut first);
            if pending { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        self.advance(duration);
    }
}

/// What the queue does with one request.
#[derive(Clone, Debug)]
enum Answer {
    /// Every entry is confirmed.
    All,
    /// The entries' outcomes, by body; all others are confirmed.
    Failing(Vec<(&'static str, Fault)>),
    /// This many outcomes, all confirmed, however many entries there are.
    Count(usize),
    /// No answer, ever.
    Hang,
}

/// Answers its requests by a script, and then always with its last line; remembers the bodies of each request.
struct FakeQueue {
    script: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<Vec<String>>>,
}

impl FakeQueue {
    fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self { script: Mutex::new(script.into_iter().collect()), requests: Mutex::default() }
    }

    fn requests(&self) -> Vec<Vec<String>> {
        self.requests.lock().unwrap().clone()
    }
}

impl QueueSender for FakeQueue {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        let bodies: Vec<_> = batch.entries().iter().map(|message| message.content().body.clone()).collect();
        self.requests.lock().unwrap().push(bodies.clone());
        let answer = {
            let mut script = self.script.lock().unwrap();
            let answer = script.pop_front().unwrap();
            if script.is_empty() {
                script.push_back(answer.clone());
            }
            answer
        };
        let sent = |body: &String| Ok(format!("id of {body}"));
        match answer {
            Answer::All => bodies.iter().map(sent).collect(),
            Answer::Failing(failing) => bodies
                .iter()
                .map(|body| match failing.iter().find(|(name, _)| name == body) {
                    Some((_, fault)) => Err(error(*fault)),
                    None => sent(body),
                })
                .collect(),
            Answer::Count(count) => (0..count).map(|index| Ok(format!("id {index}"))).collect(),
            Answer::Hang => std::future::pending().await,
        }
    }
}

fn error(fault: Fault) -> EntryError {
    EntryError { fault, code: format!("{fault:?}Code") }
}

fn messages(bodies: &[&str]) -> Vec<OutgoingMessage> {
    let message =
        |body: &&str| OutgoingMessage::new(Content { body: (*body).to_owned(), ..Content::default() });
    bodies.iter().map(|body| message(body).unwrap()).collect()
}

/// Delivers within ten seconds.
fn delivered(queue: &FakeQueue, clock: &FakeClock, bodies: &[&str]) -> Vec<EntryOutcome<String>> {
    block_on(deliver(queue, clock, at(10), messages(bodies)))
}

fn sent(bodies: &[&str]) -> Vec<EntryOutcome<String>> {
    bodies.iter().map(|body| Ok(format!("id of {body}"))).collect()
}

#[test]
fn nothing_to_send_is_no_request() {
    let queue = FakeQueue::new([Answer::All]);
    assert_eq!(delivered(&queue, &FakeClock::new(), &[]), []);
    assert_eq!(queue.requests(), [[""; 0]; 0]);
}

#[test]
fn every_message_has_one_outcome_in_order() {
    let names: Vec<_> = (0..25).map(|index| format!("m{index}")).collect();
    let bodies: Vec<_> = names.iter().map(String::as_str).collect();
    let queue = FakeQueue::new([Answer::All]);
    let clock = FakeClock::new();
    assert_eq!(delivered(&queue, &clock, &bodies), sent(&bodies));
    let sizes: Vec<_> = queue.requests().iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 10, 5]);
    assert_eq!(clock.now(), at(0), "success costs no time");
}

#[test]
fn retryable_entries_are_sent_again_alone_and_confirmed_ones_never() {
    for fault in [Fault::Throttled, Fault::Service, Fault::NoAnswer] {
        let queue = FakeQueue::new([
            Answer::Failing(vec![("b", fault), ("d", fault)]),
            Answer::Failing(vec![("d", fault)]),
            Answer::All,
        ]);
        assert_eq!(delivered(&queue, &FakeClock::new(), &["a", "b", "c", "d"]), sent(&["a", "b", "c", "d"]));
        assert_eq!(queue.requests(), [vec!["a", "b", "c", "d"], vec!["b", "d"], vec!["d"]], "{fault:?}");
    }
}

#[test]
fn sender_faults_are_never_sent_again() {
    let queue = FakeQueue::new([Answer::Failing(vec![("b", Fault::Sender)])]);
    let outcomes = delivered(&queue, &FakeClock::new(), &["a", "b"]);
    assert_eq!(outcomes, [Ok("id of a".to_owned()), Err(error(Fault::Sender))]);
    assert_eq!(queue.requests().len(), 1);
}

#[test]
fn resends_stop_at_the_deadline_with_the_last_error() {
    let queue = FakeQueue::new([Answer::Failing(vec![("b", Fault::Throttled)])]);
    let clock = FakeClock::new();
    let outcomes = delivered(&queue, &clock, &["a", "b"]);
    assert_eq!(outcomes, [Ok("id of a".to_owned()), Err(error(Fault::Throttled))]);
    assert!(clock.seconds() <= 10.0, "{} s", clock.seconds());
    let requests = queue.requests();
    assert_eq!(requests[0], ["a", "b"]);
    assert!(requests[1..].iter().all(|request| *request == ["b"]));
    // 50 ms, doubling up to 2 s, each less up to a half by the clock's sub-second part.
    assert!((9..=14).contains(&requests.len()), "{} requests", requests.len());
}

#[test]
fn the_wait_doubles_up_to_two_seconds_less_up_to_half() {
    let whole = at(0);
    let waits: Vec<_> = (1..=8).map(|round| wait_before(round, whole).as_millis()).collect();
    assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    assert_eq!(wait_before(u32::MAX, whole), Duration::from_secs(2));
    let late = at(0) + TimeDelta::milliseconds(500);
    assert_eq!(wait_before(1, late), Duration::from_micros(37_500));
    let latest = at(1) - TimeDelta::microseconds(1);
    assert!(wait_before(7, latest) >= Duration::from_secs(1));
}

#[test]
fn a_deadline_that_has_passed_still_allows_no_more_than_one_try() {
    let queue = FakeQueue::new([Answer::Failing(vec![("a", Fault::Service)])]);
    let outcomes = block_on(deliver(&queue, &FakeClock::new(), at(-5), messages(&["a"])));
    assert!(outcomes[0].is_err());
    assert!(queue.requests().len() <= 1);
}

#[test]
fn a_hanging_queue_is_cut_at_the_deadline_and_nothing_is_confirmed() {
    let queue = FakeQueue::new([Answer::Hang]);
    let clock = FakeClock::new();
    let outcomes = delivered(&queue, &clock, &["a", "b"]);
    assert_eq!(outcomes, [Err(no_answer()), Err(no_answer())]);
    assert_eq!(clock.now(), at(10));
    assert_eq!(queue.requests().len(), 1);
}

#[test]
fn one_hanging_batch_does_not_take_the_others_with_it() {
    let names: Vec<_> = (0..30).map(|index| format!("m{index}")).collect();
    let bodies: Vec<_> = names.iter().map(String::as_str).collect();
    let queue = FakeQueue::new([Answer::All, Answer::Hang, Answer::All]);
    let outcomes = delivered(&queue, &FakeClock::new(), &bodies);
    assert_eq!(outcomes[..10], sent(&bodies[..10]));
    assert!(outcomes[10..20].iter().all(|outcome| *outcome == Err(no_answer())));
    assert_eq!(outcomes[20..], sent(&bodies[20..]));
}

#[test]
fn what_a_queue_does_not_answer_for_is_not_confirmed() {
    let queue = FakeQueue::new([Answer::Count(2), Answer::Hang]);
    let outcomes = delivered(&queue, &FakeClock::new(), &["a", "b", "c", "d"]);
    assert_eq!(outcomes[..2], [Ok("id 0".to_owned()), Ok("id 1".to_owned())]);
    assert_eq!(outcomes[2..], [Err(no_answer()), Err(no_answer())]);
    assert_eq!(queue.requests()[1], ["c", "d"], "a missing answer is a lost answer: once more");
}

#[test]
fn an_answer_too_many_confirms_nothing_of_another_batch() {
    let names: Vec<_> = (0..12).map(|index| format!("m{index}")).collect();
    let bodies: Vec<_> = names.iter().map(String::as_str).collect();
    let queue = FakeQueue::new([Answer::Count(12), Answer::Hang]);
    let outcomes = delivered(&queue, &FakeClock::new(), &bodies);
    assert!(outcomes[..10].iter().all(Result::is_ok));
    assert_eq!(outcomes[10..], [Err(no_answer()), Err(no_answer())]);
}

#[test]
fn until_is_zero_for_what_is_past() {
    assert_eq!(until(at(0), at(5)), Duration::from_secs(5));
    assert_eq!(until(at(5), at(0)), Duration::ZERO);
}
