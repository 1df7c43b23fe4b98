//! A message that may have been accepted is sent only one more time: each such send may create a copy.

use super::*;

fn failing(fault: Fault) -> Answer {
    Answer::Failing(vec![("a", fault)])
}

fn after(seconds: u64, answer: Answer) -> Answer {
    Answer::After(seconds, Box::new(answer))
}

#[test]
fn a_possibly_accepted_message_is_sent_at_most_twice() {
    for fault in [Fault::NoAnswer, Fault::Service] {
        let queue = FakeQueue::new([failing(fault)]);
        assert_eq!(delivered_within(30, &queue, &["a"]), [Err(error(fault))]);
        assert_eq!(queue.times(), [0, 2000], "{fault:?}");
        assert_eq!(queue.clock.now(), at(2), "nothing is left to wait for");
    }
}

#[test]
fn each_entry_reports_its_possible_number_of_messages() {
    let counted = |script: Vec<Answer>| {
        let queue = FakeQueue::new(script);
        let (clock, messages) = (&queue.clock, messages(&["a", "b"]));
        let delivered = clock.block_on(deliver_counted(&queue, clock, at(30), messages));
        delivered.iter().map(|entry| (entry.outcome.is_ok(), entry.perhaps_done)).collect::<Vec<_>>()
    };
    assert_eq!(counted(vec![Answer::All]), [(true, 1), (true, 1)]);
    assert_eq!(counted(vec![failing(Fault::NoAnswer), Answer::All]), [(true, 2), (true, 1)]);
    assert_eq!(counted(vec![failing(Fault::Throttled), Answer::All]), [(true, 1), (true, 1)]);
    assert_eq!(counted(vec![failing(Fault::Service)]), [(false, 2), (true, 1)]);
    assert_eq!(counted(vec![failing(Fault::Sender)]), [(false, 0), (true, 1)]);
    assert_eq!(counted(vec![Answer::Hang]), [(false, 2), (false, 2)]);
    assert_eq!(
        counted(vec![after(20, Answer::All), Answer::All]),
        [(true, 2), (true, 2)],
        "the late one counts, too"
    );
}

#[test]
fn refused_or_unsent_messages_are_retried_until_the_deadline() {
    for fault in [Fault::Throttled, Fault::NotSent] {
        let queue = FakeQueue::new([failing(fault)]);
        assert_eq!(delivered_within(30, &queue, &["a"]), [Err(error(fault))]);
        // 50 ms, doubling up to 2 s, each shortened by up to half by the clock's sub-second part.
        let first = [0, 50, 148, 333, 666, 1200, 2640];
        let every_two_seconds = (4000..30_000).step_by(2000);
        assert_eq!(
            queue.times(),
            first.into_iter().chain(every_two_seconds).collect::<Vec<_>>(),
            "{fault:?}"
        );
    }
}

#[test]
fn refusals_do_not_count_among_the_sends_that_may_have_been_accepted() {
    let queue = FakeQueue::new([
        failing(Fault::Throttled),
        failing(Fault::NoAnswer),
        failing(Fault::NotSent),
        failing(Fault::Throttled),
        failing(Fault::Service),
        Answer::All,
    ]);
    assert_eq!(delivered_within(30, &queue, &["a"]), [Err(error(Fault::Service))]);
    assert_eq!(queue.requests().len(), 5);
}

#[test]
fn an_unanswered_send_is_repeated_after_half_of_the_remaining_time() {
    let queue = FakeQueue::new([after(14, Answer::All)]);
    assert_eq!(delivered_within(30, &queue, &["a", "b"]), sent(&["a", "b"]));
    assert_eq!((queue.times(), queue.clock.now()), (vec![0], at(14)));
}

#[test]
fn the_answer_of_the_first_send_counts_also_after_the_second_began() {
    let queue = FakeQueue::new([after(20, Answer::All), Answer::Hang]);
    assert_eq!(delivered_within(30, &queue, &["a"]), sent(&["a"]));
    assert_eq!((queue.times(), queue.clock.now()), (vec![0, 15_000], at(20)));
}

#[test]
fn an_unanswered_message_is_sent_twice_however_long_the_deadline() {
    for seconds in [11, 30, 900] {
        let queue = FakeQueue::new([Answer::Hang]);
        assert_eq!(delivered_within(seconds, &queue, &["a"]), [Err(no_answer())]);
        assert_eq!(queue.times().len(), 2, "{seconds} s");
        assert_eq!(queue.clock.now(), at(seconds));
    }
}

#[test]
fn an_unanswered_message_is_sent_once_with_under_five_seconds_left() {
    let queue = FakeQueue::new([Answer::Hang]);
    assert_eq!(delivered_within(5, &queue, &["a"]), [Err(no_answer())]);
    assert_eq!(queue.times(), [0]);
}

#[test]
fn a_refusal_keeps_the_possible_copy_of_an_earlier_send() {
    for fault in [Fault::Sender, Fault::Throttled] {
        let queue = FakeQueue::new([failing(Fault::NoAnswer), failing(fault)]);
        assert_eq!(delivered(&queue, &["a"]), [Err(error(Fault::NoAnswer))], "{fault:?}");
        let queue = FakeQueue::new([Answer::Hang, failing(fault)]);
        assert_eq!(delivered_within(30, &queue, &["a"]), [Err(no_answer())], "{fault:?}");
    }
}

#[test]
fn an_unanswered_send_after_a_refusal_is_not_reported_as_refused() {
    let queue = FakeQueue::new([failing(Fault::Throttled), Answer::Hang]);
    assert_eq!(delivered_within(4, &queue, &["a"]), [Err(no_answer())]);
    assert_eq!(queue.times(), [0, 50]);
}

#[test]
fn entries_of_one_batch_have_their_own_second_send() {
    let queue = FakeQueue::new([
        Answer::Failing(vec![("a", Fault::NoAnswer), ("b", Fault::Throttled)]),
        Answer::All,
        Answer::Failing(vec![("a", Fault::NoAnswer)]),
    ]);
    let outcomes = delivered(&queue, &["a", "b", "c"]);
    assert_eq!(outcomes, [Err(error(Fault::NoAnswer)), sent(&["b"]).remove(0), sent(&["c"]).remove(0)]);
    assert_eq!(queue.requests(), [vec!["a", "b", "c"], vec!["b"], vec!["a"]]);
}

/// Otherwise, the record would be reported as failed, received again, and sent a third time.
#[test]
fn a_confirmed_send_stays_confirmed_after_a_late_error_of_another() {
    let late = Answer::Failing(vec![("a", Fault::Service), ("b", Fault::Service)]);
    let queue = FakeQueue::new([
        after(20, late),
        Answer::Failing(vec![("b", Fault::Throttled)]),
        after(10, Answer::All),
    ]);
    assert_eq!(delivered_within(30, &queue, &["a", "b"]), sent(&["a", "b"]));
    assert_eq!(queue.requests(), [vec!["a", "b"], vec!["a", "b"], vec!["b"]]);
    assert_eq!(queue.times(), [0, 15_000, 15_050]);
}

/// Loses the responses to the first changes, and makes the next one.
struct LosingAnswers {
    clock: FakeClock,
    lost: Mutex<u32>,
}

impl VisibilityControl for LosingAnswers {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        let mut lost = self.lost.lock().unwrap();
        let answer = if *lost == 0 { Ok(()) } else { Err(error(Fault::NoAnswer)) };
        *lost = lost.saturating_sub(1);
        vec![answer; entries.len()]
    }
}

/// A repeated change creates no copy, and without the change a retry is too early.
#[test]
fn a_change_of_visibility_is_made_again_however_many_answers_are_lost() {
    let queue = LosingAnswers { clock: FakeClock::new(), lost: Mutex::new(5) };
    let receives = vec![("handle".to_owned(), VisibilitySeconds::ZERO)];
    let changed = change_visibility(&queue, &queue.clock, at(30), receives);
    assert_eq!(queue.clock.block_on(changed), [Ok(())]);
    assert_eq!(queue.clock.now(), at(10), "two seconds before each");
}
