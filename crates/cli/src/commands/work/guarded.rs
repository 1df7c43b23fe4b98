//! A function that may panic or run out of time: its whole batch fails then, as when a process ends in Lambda.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use futures_util::pin_mut;
use redeliver_core::deliver::until;
use redeliver_core::events::Event;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, Function, Observer};

/// Reports all records as failed, and an event, if the function panics or misses its deadline.
#[derive(Debug)]
pub(super) struct Guarded<'a, F, C, O> {
    pub(super) function: &'a F,
    pub(super) clock: &'a C,
    pub(super) observer: &'a O,
}

impl<F: Function, C: Clock, O: Observer> Function for Guarded<'_, F, C, O> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let all = records.len();
        let processing = AssertUnwindSafe(self.function.process(records, deadline)).catch_unwind();
        let time_is_up = self.clock.sleep(until(self.clock.now(), deadline));
        pin_mut!(processing, time_is_up);
        let reason = match select(processing, time_is_up).await {
            Either::Left((Ok(confirmed), _)) => return confirmed,
            Either::Left((Err(_), _)) => "panic",
            Either::Right(_) => "timeout",
        };
        // It is unknown which records are done. None is confirmed, so everything comes back.
        self.observer.observe(&Event::BatchBrokenOff { records: all, reason });
        Vec::new()
    }
}
