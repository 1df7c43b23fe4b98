//! SQS in memory, in virtual time: a discrete-event engine behind the ports of `redeliver-core`.
//!
//! - [`VirtualClock`] provides the time. It stops while any task can run and then jumps to the next timer, so an hour
//!   of waiting takes no real time. [`VirtualClock::run`] runs a future on this clock, under any runtime.
//! - [`EmbeddedSqs`] is the service and [`EmbeddedQueue`] one of its queues, with delays, visibility timeouts, long
//!   polls, redrive and retention as in SQS, plus message groups and deduplication if its name ends in `.fifo`. The
//!   same seed and the same calls produce the same run.
//! - [`MemoryBucket`] is an S3 bucket for the archive.
//! - [`FaultPlan`] injects failures of requests and batch entries as in SQS, by number or at random.
//!
//! ```
//! use redeliver_core::message::{Content, OutgoingMessage, Timestamp};
//! use redeliver_core::message::packing::pack_batches;
//! use redeliver_core::ports::{Queue, QueueSender, QueueService, QueueSettings, ReceiveOptions};
//! use redeliver_embedded::{EmbeddedSqs, VirtualClock};
//!
//! let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
//! let sqs = EmbeddedSqs::new(clock.clone(), 1);
//! let received = clock.block_on(async {
//!     let queue = sqs.create_queue("orders", &QueueSettings::default()).await.expect("a new name");
//!     let message = OutgoingMessage::new(Content { body: "hello".to_owned(), ..Content::default() });
//!     queue.send_batch(pack_batches(&[message.expect("within the limits")])[0]).await;
//!     let request = ReceiveOptions { max_messages: 10, wait: std::time::Duration::ZERO, visibility: None };
//!     queue.receive(request).await.expect("no faults")
//! });
//! assert_eq!(received[0].body, "hello");
//! ```

mod bucket;
mod changes;
mod checks;
mod clock;
mod embedded_queue;
mod executor;
mod faults;
mod queue;
mod service;
mod state;

pub use bucket::{BucketRequest, MemoryBucket};
pub use changes::{ChangeKind, MessageChange};
pub use checks::check_content;
pub use clock::{Sleep, TimeHold, VirtualClock};
pub use embedded_queue::EmbeddedQueue;
pub use executor::StuckError;
pub use faults::{FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction};
pub use service::EmbeddedSqs;
