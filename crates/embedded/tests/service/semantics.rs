//! Behavior that is visible only in virtual time or inside the service. The conformance suite covers the behavior that
//! every implementation of SQS must have.

use std::time::Duration;

use futures_util::future::join;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::{Attribute, Content, OutgoingMessage};
use redeliver_core::ports::{
    Clock, Depth, EntryError, Fault, Queue, QueueDepth as _, QueueService, QueueSettings, ReceiveOptions,
    RedriveSettings, VisibilityControl as _,
};
use redeliver_embedded::ChangeKind;

use crate::support::{Totals, create_queue_with_dlq, elapsed, message, receive, seconds, send, service};

fn sender_fault(code: &str) -> EntryError {
    EntryError::new(Fault::Sender, code)
}

#[test]
fn a_delayed_message_becomes_visible_exactly_when_its_delay_ends() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        send(&queue, &[message("late", 900)]).await;
        assert_eq!(queue.depth().await, Ok(Depth { visible: 0, in_flight: 0, delayed: 1 }));
        clock.sleep(Duration::from_millis(899_999)).await;
        assert!(receive(&queue, 0).await.is_empty());
        clock.sleep(Duration::from_millis(1)).await;
        assert_eq!(receive(&queue, 0).await.len(), 1);
        assert_eq!(elapsed(&clock), 900);
    });
}

#[test]
fn a_long_poll_ends_when_a_message_arrives_or_comes_due_or_it_times_out() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let visibility = seconds(7);
        let queue =
            sqs.create_queue("q", &QueueSettings { visibility, ..QueueSettings::default() }).await.unwrap();
        let later = async {
            clock.sleep(Duration::from_secs(3)).await;
            send(&queue, &[message("arrives", 0)]).await;
        };
        let (received, ()) = join(receive(&queue, 20), later).await;
        assert_eq!((received.len(), elapsed(&clock)), (1, 3));
        assert_eq!(receive(&queue, 20).await.len(), 1, "the visibility timeout is over");
        assert_eq!(elapsed(&clock), 10);
        let last = receive(&queue, 20).await;
        assert_eq!(elapsed(&clock), 17);
        queue.delete_batch(&[last[0].receipt_handle.clone()]).await;
        let later = async {
            clock.sleep(Duration::from_secs(1)).await;
            send(&queue, &[message("delayed", 2)]).await;
        };
        let (received, ()) = join(receive(&queue, 20), later).await;
        assert_eq!(
            (received.len(), elapsed(&clock)),
            (1, 20),
            "sent during the poll, due three seconds into it"
        );
        queue.delete_batch(&[received[0].receipt_handle.clone()]).await;
        assert!(receive(&queue, 20).await.is_empty());
        assert_eq!(elapsed(&clock), 40);
    });
    assert_eq!(sqs.request_counts()["ReceiveMessage"], 5, "a long poll is one request");
}

#[test]
fn a_long_poll_wakes_when_a_message_is_made_visible() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        send(&queue, &[message("given back", 0)]).await;
        let handle = receive(&queue, 0).await[0].receipt_handle.clone();
        let making_visible = async {
            clock.sleep(Duration::from_secs(3)).await;
            queue.change_visibility_batch(&[(handle, seconds(0))]).await
        };
        let (received, _) = join(receive(&queue, 20), making_visible).await;
        assert_eq!((received.len(), elapsed(&clock)), (1, 3));
    });
}

#[test]
fn a_long_poll_on_the_dead_letter_queue_wakes_when_a_redrive_fills_it() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let settings = QueueSettings { visibility: seconds(2), ..QueueSettings::default() };
        let (source, dlq) = create_queue_with_dlq(&sqs, 1, settings).await;
        send(&source, &[message("fails", 0)]).await;
        let consumer = async {
            assert_eq!(receive(&source, 0).await.len(), 1);
            assert!(receive(&source, 5).await.is_empty(), "moved, not delivered again");
        };
        let auditor = async {
            let moved = receive(&dlq, 20).await;
            assert_eq!(elapsed(&clock), 2);
            moved
        };
        let ((), moved) = join(consumer, auditor).await;
        assert_eq!(moved[0].redriven_from.as_deref(), Some(source.arn()));
    });
}

#[test]
fn a_redrive_changes_only_the_queue_and_records_the_source() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let _discarded = sqs.take_changes();
        let (source, dlq) = create_queue_with_dlq(&sqs, 2, QueueSettings::default()).await;
        let content = Content {
            body: "täxt".to_owned(),
            attributes: [("kind".to_owned(), Attribute::string("a"))].into(),
            message_group_id: Some("tenant-1".to_owned()),
            trace_header: Some("Root=1-5759e988-bd862e3fe1be46a994272793".to_owned()),
            ..Content::default()
        };
        send(&source, &[OutgoingMessage::new(content).unwrap()]).await;
        clock.sleep(Duration::from_secs(5)).await;
        let first = receive(&source, 0).await.remove(0);
        let second = receive(&source, 20).await;
        assert!(second.is_empty(), "the visibility timeout is 30 s");
        let second = receive(&source, 20).await.remove(0);
        assert_eq!((first.receive_count, second.receive_count), (1, 2));
        assert_eq!(second.first_received_at, first.first_received_at);
        clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(
            dlq.depth().await.unwrap().total(),
            0,
            "a redrive happens on the next receive, not immediately"
        );
        assert!(receive(&source, 0).await.is_empty());
        let moved = receive(&dlq, 0).await.remove(0);
        let expected = redeliver_core::message::ReceivedMessage {
            receipt_handle: moved.receipt_handle.clone(),
            receive_count: 3,
            redriven_from: Some(source.arn().to_owned()),
            queue_arn: dlq.arn().to_owned(),
            ..first
        };
        assert_eq!(moved, expected);
        let changes = sqs.take_changes();
        assert_eq!(
            Totals::from_changes(&source, &changes),
            Totals { sent: 1, moved_out: 1, ..Totals::default() }
        );
        assert_eq!(Totals::from_changes(&dlq, &changes), Totals { moved_in: 1, ..Totals::default() });
    });
}

#[test]
fn without_its_dead_letter_queue_an_exhausted_message_is_still_delivered() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let (source, dlq) = create_queue_with_dlq(&sqs, 1, QueueSettings::default()).await;
        send(&source, &[message("fails", 0)]).await;
        receive(&source, 0).await;
        sqs.delete_queue(&dlq).await.unwrap();
        clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(receive(&source, 0).await[0].receive_count, 2);
    });
}

#[test]
fn retention_counts_from_the_first_send_even_after_a_redrive() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let _discarded = sqs.take_changes();
        let retention = Duration::from_secs(4 * 24 * 3600);
        let settings = QueueSettings { visibility: seconds(1), retention, ..QueueSettings::default() };
        let (source, dlq) = create_queue_with_dlq(&sqs, 1, settings).await;
        send(&source, &[message("old", 0), message("older", 0)]).await;
        clock.sleep(retention - Duration::from_secs(10)).await;
        receive(&source, 0).await;
        clock.sleep(Duration::from_secs(1)).await;
        assert!(receive(&source, 0).await.is_empty());
        assert_eq!(dlq.depth().await.unwrap().visible, 2);
        clock.sleep(Duration::from_secs(9)).await;
        assert_eq!(dlq.depth().await.unwrap().total(), 0);
        let totals = Totals::from_changes(&dlq, &sqs.take_changes());
        assert_eq!(totals, Totals { moved_in: 2, expired: 2, ..Totals::default() });
    });
}

#[test]
fn a_delete_with_an_old_receipt_handle_succeeds_without_effect() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let _discarded = sqs.take_changes();
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        send(&queue, &[message("twice", 0)]).await;
        let old = receive(&queue, 0).await.remove(0).receipt_handle;
        clock.sleep(Duration::from_secs(30)).await;
        let new = receive(&queue, 0).await.remove(0).receipt_handle;
        assert_eq!(queue.delete_batch(&[old]).await, [Ok(())]);
        assert_eq!(queue.depth().await.unwrap().in_flight, 1);
        clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(
            queue.delete_batch(std::slice::from_ref(&new)).await,
            [Ok(())],
            "visible again, but not received again"
        );
        assert_eq!(queue.depth().await.unwrap().total(), 0);
        assert_eq!(queue.delete_batch(&[new]).await, [Ok(())], "deleted already");
        assert_eq!(Totals::from_changes(&queue, &sqs.take_changes()).deleted, 1);
    });
}

#[test]
fn visibility_changes_only_in_flight_and_within_12_hours_of_the_receive() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        send(&queue, &[message("slow", 0)]).await;
        let handle = receive(&queue, 0).await.remove(0).receipt_handle;
        let change = async |to: VisibilitySeconds| {
            queue.change_visibility_batch(&[(handle.clone(), to)]).await.remove(0)
        };
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(change(VisibilitySeconds::MAX).await, Err(sender_fault("InvalidParameterValue")));
        assert_eq!(change(seconds(43_199)).await, Ok(()));
        assert_eq!(change(VisibilitySeconds::ZERO).await, Ok(()));
        assert_eq!(change(seconds(5)).await, Err(sender_fault("MessageNotInflight")));
        assert_eq!(queue.delete_batch(std::slice::from_ref(&handle)).await, [Ok(())]);
        assert_eq!(change(seconds(5)).await, Err(sender_fault("InvalidParameterValue")));
    });
}

#[test]
fn receipt_handles_belong_to_their_queue() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let one = sqs.create_queue("one", &QueueSettings::default()).await.unwrap();
        let two = sqs.create_queue("two", &QueueSettings::default()).await.unwrap();
        send(&one, &[message("m", 0)]).await;
        let handle = receive(&one, 0).await.remove(0).receipt_handle;
        let handles = [handle, "garbage".to_owned()];
        let invalid = Err(sender_fault("ReceiptHandleIsInvalid"));
        assert_eq!(two.delete_batch(&handles).await, [invalid.clone(), invalid.clone()]);
        assert_eq!(one.delete_batch(&handles).await, [Ok(()), invalid]);
    });
}

#[test]
fn queues_can_be_created_found_by_arn_and_deleted() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let settings = QueueSettings::default();
        let queue = sqs.create_queue("q", &settings).await.unwrap();
        assert_eq!(queue.arn(), "arn:aws:sqs:us-east-1:000000000000:q");
        assert_eq!(queue.url(), "https://sqs.us-east-1.amazonaws.com/000000000000/q");
        assert!(sqs.create_queue("q", &settings).await.is_ok(), "creating it again returns the same queue");
        let other = QueueSettings { visibility: seconds(1), ..settings.clone() };
        assert_eq!(sqs.create_queue("q", &other).await.unwrap_err(), sender_fault("QueueNameExists"));
        let redrive = Some(RedriveSettings { target_arn: format!("{}x", queue.arn()), max_receive_count: 1 });
        let orphan = QueueSettings { redrive, ..settings.clone() };
        assert_eq!(sqs.create_queue("o", &orphan).await.unwrap_err(), sender_fault("InvalidParameterValue"));
        assert_eq!(
            sqs.create_queue("q.a", &settings).await.unwrap_err(),
            sender_fault("InvalidParameterValue")
        );

        let delete = async {
            clock.sleep(Duration::from_secs(3)).await;
            sqs.delete_queue(&queue).await
        };
        let request = ReceiveOptions { max_messages: 1, wait: Duration::from_secs(20), visibility: None };
        let (poll, deleted) = join(queue.receive(request), delete).await;
        assert_eq!((poll, deleted), (Err(sender_fault("QueueDoesNotExist")), Ok(())));
        assert_eq!(elapsed(&clock), 3, "the long poll ends with its queue");
        assert_eq!(send(&queue, &[message("m", 0)]).await, [Err(sender_fault("QueueDoesNotExist"))]);
    });
}

#[test]
fn the_next_due_time_is_the_earliest_end_of_a_delay_or_visibility_timeout() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let start = clock.now();
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        assert_eq!(sqs.next_due_at(), None);
        send(&queue, &[message("late", 60)]).await;
        assert_eq!(sqs.next_due_at(), Some(start + Duration::from_secs(60)));
        send(&queue, &[message("now", 0)]).await;
        assert_eq!(sqs.next_due_at(), Some(start));
        receive(&queue, 0).await;
        assert_eq!(sqs.next_due_at(), Some(start + Duration::from_secs(30)));
    });
}

#[test]
fn in_flight_messages_are_limited_to_120_000() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        let messages: Vec<_> = (0..120_010).map(|number| message(&number.to_string(), 0)).collect();
        send(&queue, &messages).await;
        for _ in 0..12_000 {
            assert_eq!(receive(&queue, 0).await.len(), 10);
        }
        let request = ReceiveOptions { max_messages: 10, wait: Duration::from_secs(20), visibility: None };
        let over = EntryError::new(Fault::Throttled, "OverLimit");
        assert_eq!(queue.receive(request).await, Err(over));
        clock.sleep(Duration::from_secs(30)).await;
        assert_eq!(receive(&queue, 0).await.len(), 10);
    });
}

#[test]
fn the_same_seed_produces_the_same_run() {
    let run = || {
        let (clock, sqs) = service();
        clock.block_on(async {
            let (source, dlq) = create_queue_with_dlq(&sqs, 1, QueueSettings::default()).await;
            send(&source, &[message("a", 0), message("b", 3)]).await;
            let mut all = receive(&source, 20).await;
            all.extend(receive(&source, 20).await);
            clock.sleep(Duration::from_secs(60)).await;
            receive(&source, 0).await;
            all.extend(receive(&dlq, 0).await);
            all
        })
    };
    let first = run();
    assert_eq!(first.len(), 4);
    assert_eq!(first, run());
}

#[test]
fn the_change_log_starts_with_the_first_call_to_take_changes() {
    let (clock, sqs) = service();
    clock.block_on(async {
        let (queue, dlq) = create_queue_with_dlq(&sqs, 1, QueueSettings::default()).await;
        send(&queue, &[message("before the log", 0)]).await;
        assert_eq!(sqs.take_changes(), []);
        send(&queue, &[message("moved", 5)]).await;
        let first = receive(&queue, 0).await;
        queue.delete_batch(&[first[0].receipt_handle.clone()]).await;
        clock.sleep(Duration::from_secs(5)).await;
        receive(&queue, 0).await;
        clock.sleep(Duration::from_secs(60)).await;
        assert!(receive(&queue, 0).await.is_empty());
        let changes = sqs.take_changes();
        let reported: Vec<_> =
            changes.iter().map(|change| (change.queue_arn.as_str(), &change.what)).collect();
        let moved = message("moved", 5);
        let (arn, dlq_arn) = (queue.arn(), dlq.arn().to_owned());
        let received = ChangeKind::Received { receive_count: 1 };
        let sent = ChangeKind::Sent(moved.content().clone());
        let expected = [
            (arn, &sent),
            (arn, &received),
            (arn, &ChangeKind::Deleted),
            (arn, &received),
            (arn, &ChangeKind::Moved(dlq_arn)),
        ];
        assert_eq!(reported, expected);
        assert_eq!(changes[4].sqs_message_id, changes[0].sqs_message_id);
        assert_eq!(changes[2].sqs_message_id, first[0].sqs_message_id);
        clock.sleep(Duration::from_secs(14 * 24 * 3600)).await;
        dlq.depth().await.unwrap();
        let last = sqs.take_changes();
        assert_eq!((last.len(), &last[0].what), (1, &ChangeKind::Expired));
    });
}

#[test]
fn counts_lag_equally_for_all_callers() {
    let (clock, sqs) = service();
    sqs.set_counts_lag(Duration::from_secs(60));
    clock.block_on(async {
        let queue = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        let same = sqs.create_queue("q", &QueueSettings::default()).await.unwrap();
        assert_eq!(queue.depth().await.unwrap().total(), 0);
        send(&queue, &[message("now", 0), message("later", 900)]).await;
        clock.sleep(Duration::from_millis(59_999)).await;
        assert_eq!(same.depth().await, Ok(Depth::default()), "a minute old");
        clock.sleep(Duration::from_millis(1)).await;
        let counted = Ok(Depth { visible: 1, in_flight: 0, delayed: 1 });
        assert_eq!((queue.depth().await, same.depth().await), (counted.clone(), counted));
        sqs.set_counts_lag(Duration::ZERO);
        send(&queue, &[message("more", 0)]).await;
        assert_eq!(queue.depth().await.unwrap().visible, 2, "and exact again");
    });
}
