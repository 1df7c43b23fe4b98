//! A message that may have been accepted is sent only once more, since each further send may create a copy.

use super::*;

fn failing_response(fault: Fault) -> ScriptedResponse {
    ScriptedResponse::Failing(vec![("a", fault)])
}

fn late_response(seconds: u64, answer: ScriptedResponse) -> ScriptedResponse {
    ScriptedResponse::After(seconds, Box::new(answer))
}

#[test]
fn a_possibly_accepted_message_is_sent_at_most_twice() {
    for fault in [Fault::NoAnswer, Fault::Service] {
        let queue = FakeQueue::new([failing_response(fault)]);
        assert_eq!(deliver_bodies_within(30, &queue, &["a"]), [Err(error(fault))]);
        assert_eq!(queue.request_times(), [0, 2000], "{fault:?}");
        assert_eq!(queue.clock.now(), at(2), "no response is outstanding");
    }
}

#[test]
fn each_entry_reports_its_number_of_possible_copies() {
    let count_ambiguous_sends = |script: Vec<ScriptedResponse>| {
        let queue = FakeQueue::new(script);
        let (clock, messages) = (&queue.clock, messages(&["a", "b"]));
        let delivered = clock.block_on(deliver_and_count_copies(&queue, clock, at(30), messages));
        delivered.iter().map(|entry| (entry.outcome.is_ok(), entry.ambiguous_sends)).collect::<Vec<_>>()
    };
    assert_eq!(count_ambiguous_sends(vec![ScriptedResponse::All]), [(true, 1), (true, 1)]);
    assert_eq!(
        count_ambiguous_sends(vec![failing_response(Fault::NoAnswer), ScriptedResponse::All]),
        [(true, 2), (true, 1)]
    );
    assert_eq!(
        count_ambiguous_sends(vec![failing_response(Fault::Throttled), ScriptedResponse::All]),
        [(true, 1), (true, 1)]
    );
    assert_eq!(count_ambiguous_sends(vec![failing_response(Fault::Service)]), [(false, 2), (true, 1)]);
    assert_eq!(count_ambiguous_sends(vec![failing_response(Fault::Sender)]), [(false, 0), (true, 1)]);
    assert_eq!(count_ambiguous_sends(vec![ScriptedResponse::Hang]), [(false, 2), (false, 2)]);
    assert_eq!(
        count_ambiguous_sends(vec![late_response(20, ScriptedResponse::All), ScriptedResponse::All]),
        [(true, 2), (true, 2)],
        "the late response counts, too"
    );
}

#[test]
fn refused_or_unsent_messages_are_retried_until_the_deadline() {
    for fault in [Fault::Throttled, Fault::NotSent] {
        let queue = FakeQueue::new([failing_response(fault)]);
        assert_eq!(deliver_bodies_within(30, &queue, &["a"]), [Err(error(fault))]);
        // Waits double from 50 ms to 2 s; the clock's sub-second part shortens each by up to half.
        let first = [0, 50, 148, 333, 666, 1200, 2640];
        let every_two_seconds = (4000..30_000).step_by(2000);
        assert_eq!(
            queue.request_times(),
            first.into_iter().chain(every_two_seconds).collect::<Vec<_>>(),
            "{fault:?}"
        );
    }
}

#[test]
fn a_refused_send_does_not_count_as_possibly_accepted() {
    let queue = FakeQueue::new([
        failing_response(Fault::Throttled),
        failing_response(Fault::NoAnswer),
        failing_response(Fault::NotSent),
        failing_response(Fault::Throttled),
        failing_response(Fault::Service),
        ScriptedResponse::All,
    ]);
    assert_eq!(deliver_bodies_within(30, &queue, &["a"]), [Err(error(Fault::Service))]);
    assert_eq!(queue.requests().len(), 5);
}

#[test]
fn an_unanswered_send_is_repeated_after_half_of_the_remaining_time() {
    let queue = FakeQueue::new([late_response(14, ScriptedResponse::All)]);
    assert_eq!(deliver_bodies_within(30, &queue, &["a", "b"]), sent_outcomes(&["a", "b"]));
    assert_eq!((queue.request_times(), queue.clock.now()), (vec![0], at(14)));
}

#[test]
fn the_first_sends_response_counts_even_after_a_second_send() {
    let queue = FakeQueue::new([late_response(20, ScriptedResponse::All), ScriptedResponse::Hang]);
    assert_eq!(deliver_bodies_within(30, &queue, &["a"]), sent_outcomes(&["a"]));
    assert_eq!((queue.request_times(), queue.clock.now()), (vec![0, 15_000], at(20)));
}

#[test]
fn an_unanswered_message_is_sent_twice_regardless_of_deadline() {
    for seconds in [11, 30, 900] {
        let queue = FakeQueue::new([ScriptedResponse::Hang]);
        assert_eq!(deliver_bodies_within(seconds, &queue, &["a"]), [Err(no_answer_error())]);
        assert_eq!(queue.request_times().len(), 2, "{seconds} s");
        assert_eq!(queue.clock.now(), at(seconds));
    }
}

#[test]
fn an_unanswered_message_is_sent_once_with_under_five_seconds_left() {
    let queue = FakeQueue::new([ScriptedResponse::Hang]);
    assert_eq!(deliver_bodies_within(5, &queue, &["a"]), [Err(no_answer_error())]);
    assert_eq!(queue.request_times(), [0]);
}

#[test]
fn a_refusal_keeps_the_possible_copy_of_an_earlier_send() {
    for fault in [Fault::Sender, Fault::Throttled] {
        let queue = FakeQueue::new([failing_response(Fault::NoAnswer), failing_response(fault)]);
        assert_eq!(deliver_bodies(&queue, &["a"]), [Err(error(Fault::NoAnswer))], "{fault:?}");
        let queue = FakeQueue::new([ScriptedResponse::Hang, failing_response(fault)]);
        assert_eq!(deliver_bodies_within(30, &queue, &["a"]), [Err(no_answer_error())], "{fault:?}");
    }
}

#[test]
fn an_unanswered_send_after_a_refusal_is_not_reported_as_refused() {
    let queue = FakeQueue::new([failing_response(Fault::Throttled), ScriptedResponse::Hang]);
    assert_eq!(deliver_bodies_within(4, &queue, &["a"]), [Err(no_answer_error())]);
    assert_eq!(queue.request_times(), [0, 50]);
}

#[test]
fn entries_in_a_batch_are_sent_again_independently() {
    let queue = FakeQueue::new([
        ScriptedResponse::Failing(vec![("a", Fault::NoAnswer), ("b", Fault::Throttled)]),
        ScriptedResponse::All,
        ScriptedResponse::Failing(vec![("a", Fault::NoAnswer)]),
    ]);
    let outcomes = deliver_bodies(&queue, &["a", "b", "c"]);
    assert_eq!(
        outcomes,
        [Err(error(Fault::NoAnswer)), sent_outcomes(&["b"]).remove(0), sent_outcomes(&["c"]).remove(0)]
    );
    assert_eq!(queue.requests(), [vec!["a", "b", "c"], vec!["b"], vec!["a"]]);
}

/// If the late error counted, the record would be reported as failed, received again, and sent a third time.
#[test]
fn a_confirmed_entry_stays_confirmed_after_a_late_error_from_another_send() {
    let late = ScriptedResponse::Failing(vec![("a", Fault::Service), ("b", Fault::Service)]);
    let queue = FakeQueue::new([
        late_response(20, late),
        ScriptedResponse::Failing(vec![("b", Fault::Throttled)]),
        late_response(10, ScriptedResponse::All),
    ]);
    assert_eq!(deliver_bodies_within(30, &queue, &["a", "b"]), sent_outcomes(&["a", "b"]));
    assert_eq!(queue.requests(), [vec!["a", "b"], vec!["a", "b"], vec!["b"]]);
    assert_eq!(queue.request_times(), [0, 15_000, 15_050]);
}

/// Loses the responses to the first changes, then confirms the next one.
struct ResponseLosingQueue {
    clock: FakeClock,
    lost: Mutex<u32>,
}

impl VisibilityControl for ResponseLosingQueue {
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

/// Repeating a change creates no copy, and without the change the retry would be too early.
#[test]
fn a_visibility_change_is_repeated_after_any_number_of_lost_responses() {
    let queue = ResponseLosingQueue { clock: FakeClock::new(), lost: Mutex::new(5) };
    let receives = vec![("handle".to_owned(), VisibilitySeconds::ZERO)];
    let changed = change_visibility(&queue, &queue.clock, at(30), receives);
    assert_eq!(queue.clock.block_on(changed), [Ok(())]);
    assert_eq!(queue.clock.now(), at(10), "two seconds before each repetition");
}
