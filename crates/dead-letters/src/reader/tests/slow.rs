//! SQS responds slowly, to one request at a time, and returns the oldest visible message first, as emulators do.

use std::collections::BTreeMap;
use std::sync::Mutex;

use chrono::TimeDelta;
use redeliver_core::message::packing::Batch;
use redeliver_core::ports::{
    Depth, EntryOutcome, QueueDepth, QueueSender, UnreadableMessage, VisibilityControl,
};

use super::*;

struct Emulator<'a> {
    clock: &'a VirtualClock,
    /// The duration of each request.
    request_time: Duration,
    state: Mutex<EmulatorState>,
}

struct EmulatorState {
    /// For each message, the time at which it becomes visible, and its receive count.
    messages: Vec<(Timestamp, u32)>,
    free_at: Timestamp,
}

impl<'a> Emulator<'a> {
    fn new(clock: &'a VirtualClock, count: usize, request_time: Duration) -> Self {
        let messages = vec![(Timestamp::UNIX_EPOCH, 0); count];
        let state = Mutex::new(EmulatorState { messages, free_at: Timestamp::UNIX_EPOCH });
        Self { clock, request_time, state }
    }

    /// Waits for the earlier requests, and for the duration of this one.
    async fn wait_for_turn(&self) {
        let done_at = {
            let mut state = self.state.lock().unwrap();
            state.free_at = state.free_at.max(self.clock.now()) + self.request_time;
            state.free_at
        };
        self.clock.sleep_until(done_at).await;
    }

    fn count_messages(&self, is_counted: impl Fn(Timestamp) -> bool) -> u64 {
        let state = self.state.lock().unwrap();
        state.messages.iter().filter(|(visible_at, _)| is_counted(*visible_at)).count() as u64
    }
}

impl QueueSender for Emulator<'_> {
    async fn send_batch(&self, _: Batch<'_>) -> Vec<EntryOutcome<String>> {
        unreachable!("it is only read")
    }
}

impl VisibilityControl for Emulator<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.wait_for_turn().await;
        let mut state = self.state.lock().unwrap();
        for (handle, seconds) in entries {
            let (place, receive) = handle.split_once('/').unwrap();
            let (visible_at, receives) = &mut state.messages[place.parse::<usize>().unwrap()];
            if receives.to_string() == receive {
                *visible_at = self.clock.now() + seconds.duration();
            }
        }
        vec![Ok(()); entries.len()]
    }
}

impl QueueDepth for Emulator<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.wait_for_turn().await;
        let now = self.clock.now();
        let (visible, in_flight) = (self.count_messages(|at| at <= now), self.count_messages(|at| at > now));
        Ok(Depth { visible, in_flight, delayed: 0 })
    }
}

impl Queue for Emulator<'_> {
    async fn receive(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        self.wait_for_turn().await;
        let now = self.clock.now();
        let mut received = Vec::new();
        for (place, (visible_at, receives)) in self.state.lock().unwrap().messages.iter_mut().enumerate() {
            if *visible_at <= now && received.len() < request.max_messages.into() {
                (*visible_at, *receives) = (now + request.visibility.unwrap().duration(), *receives + 1);
                received.push(message(place, *receives));
            }
        }
        Ok(received)
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        Vec::new()
    }

    async fn delete_batch(&self, _: &[String]) -> Vec<EntryOutcome<()>> {
        unreachable!("it is only read")
    }

    fn arn(&self) -> &'static str {
        "arn:aws:sqs:us-east-1:000000000000:dlq"
    }

    fn url(&self) -> &'static str {
        "http://localhost/000000000000/dlq"
    }
}

fn message(place: usize, receive_count: u32) -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: place.to_string(),
        receipt_handle: format!("{place}/{receive_count}"),
        body: place.to_string(),
        attributes: BTreeMap::new(),
        sent_at: Timestamp::UNIX_EPOCH,
        first_received_at: None,
        receive_count,
        message_group_id: None,
        trace_header: None,
        sender_id: None,
        redriven_from: None,
        queue_arn: String::new(),
        omitted: Vec::new(),
    }
}

fn read_slowly(count: usize, millis: u64) -> (usize, Coverage, TimeDelta) {
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let queue = Emulator::new(&clock, count, Duration::from_millis(millis));
    let (bodies, coverage) = clock.block_on(read(&queue, &clock)).unwrap();
    (bodies.len(), coverage, clock.now() - Timestamp::UNIX_EPOCH)
}

/// At 43 messages per second, at most 5,200 can be kept hidden for two minutes at a time.
#[test]
fn a_long_queue_is_read_completely_even_if_sqs_is_slow() {
    let complete_coverage =
        |count: u64| Coverage { seen: count, approximate: count, complete: true, ..Coverage::default() };
    // Receives and visibility changes alone take 138 seconds for 3,000 messages, and 552 seconds for 12,000.
    assert_eq!(read_slowly(3000, 230), (3000, complete_coverage(3000), TimeDelta::milliseconds(156_860)));
    assert_eq!(
        read_slowly(12_000, 230),
        (12_000, complete_coverage(12_000), TimeDelta::milliseconds(1_090_660))
    );
}

#[test]
fn reading_ends_when_all_messages_reappear_despite_the_longest_hold() {
    let (seen, coverage, time) = read_slowly(3000, 20_000);
    let expected = Coverage { seen: 580, approximate: 3000, reappeared: 1250, ..Coverage::default() };
    assert_eq!((seen, coverage, time), (580, expected, TimeDelta::seconds(90_040)));
}
