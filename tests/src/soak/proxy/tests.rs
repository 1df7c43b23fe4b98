//! Each fault as a client sees it, and as it is written down.

use std::sync::Mutex;

use super::*;
use crate::soak::dice::Dice;
use crate::soak::history::{History, Send};
use crate::soak::http::Connection;
use crate::soak::messages::messages;

const PATIENCE: Duration = Duration::from_millis(300);
const QUEUE: &str = "http://sqs/000000000000/queue";

/// What a client sees.
#[derive(Debug, PartialEq)]
enum Seen {
    /// An answer that is whole: its status, and its body where it is JSON.
    Answer(u16, Value),
    /// The connection broke, before the answer or within it.
    Broken,
    /// Nothing, for as long as a client waits.
    Nothing,
}

/// An SQS that takes everything; the ids of what it was asked to send.
type Taken = Arc<Mutex<Vec<String>>>;

async fn accept(taken: Taken, mut connection: Connection) {
    while let Some(request) = connection.next().await {
        let members: Value = serde_json::from_slice(&request.body).unwrap();
        let ids = members["Entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["Id"].as_str().unwrap().to_owned());
        let ids: Vec<_> = ids.collect();
        let successful: Vec<_> =
            ids.iter().map(|id| json!({"Id": id, "MessageId": format!("sqs-{id}")})).collect();
        taken.lock().unwrap().extend(ids);
        let answer = json!({"Successful": successful, "Failed": []}).to_string();
        connection.answer(200, &[("Content-Type", "application/x-amz-json-1.0")], answer.as_bytes()).await;
    }
}

/// One batch of three entries through a proxy with this fault, in an invocation that has a minute.
async fn through(fault: Fault) -> (Seen, Vec<String>, Vec<Send>) {
    within(Duration::from_secs(60), fault).await
}

async fn within(timeout: Duration, fault: Fault) -> (Seen, Vec<String>, Vec<Send>) {
    let taken = Taken::default();
    let upstream = {
        let taken = Arc::clone(&taken);
        listen(move |connection| accept(Arc::clone(&taken), connection)).await
    };
    let recorder = Arc::new(Recorder::new(messages(Dice::new(1), 3)));
    let invocation = recorder.begin(0, timeout, (0..3).collect());
    let queues = [Stage::Source, Stage::Intermediate, Stage::Annotation, Stage::Final].map(|stage| {
        (if stage == Stage::Source { QUEUE.to_owned() } else { stage.name().to_owned() }, stage)
    });
    let plan = Box::new(move |_, _| fault);
    let upstream_url = format!("http://{}", upstream.0);
    let proxy = Proxy::start(&upstream_url, queues, Arc::clone(&recorder), PATIENCE, plan).await;

    let entries: Vec<_> = (0..3)
        .map(|n| json!({"Id": n.to_string(), "MessageBody": format!("soak-{n:06}"), "DelaySeconds": n}))
        .collect();
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let request = client
        .post(proxy.endpoint_url())
        .header("x-amz-target", "AmazonSQS.SendMessageBatch")
        .header("x-amzn-trace-id", trace_id(invocation))
        .body(json!({"QueueUrl": QUEUE, "Entries": entries}).to_string());
    let seen = match request.send().await {
        Ok(answer) => {
            let status = answer.status().as_u16();
            match answer.text().await {
                Ok(body) => Seen::Answer(status, serde_json::from_str(&body).unwrap_or_default()),
                Err(_) => Seen::Broken,
            }
        }
        Err(error) if error.is_timeout() => Seen::Nothing,
        Err(_) => Seen::Broken,
    };
    while !recorder.is_quiet() {
        sleep(Duration::from_millis(5)).await;
    }
    let (History { sends, troubles, .. }, counts) = recorder.take();
    assert_eq!(troubles, [""; 0]);
    assert_eq!(counts.faults.get(fault.name()).copied(), (fault != Fault::None).then_some(1));
    assert!(sends.iter().all(|send| send.invocation == invocation && send.to == Stage::Source));
    assert_eq!(sends.iter().map(|send| send.delay_seconds).collect::<Vec<_>>(), [0, 1, 2]);
    upstream.1.abort();
    let taken = taken.lock().unwrap().clone();
    (seen, taken, sends)
}

/// Whether each entry arrived, and what was told of it.
fn outcomes(sends: &[Send]) -> Vec<(bool, Told)> {
    sends.iter().map(|send| (send.arrived, send.told)).collect()
}

fn ids(answer: &Value, member: &str) -> Vec<String> {
    let mut ids: Vec<_> = answer[member]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["Id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn without_a_fault_everything_is_passed_on_and_confirmed() {
    for fault in [Fault::None, Fault::Delay(50)] {
        let (Seen::Answer(200, answer), taken, sends) = through(fault).await else { panic!("{fault:?}") };
        assert_eq!(
            (ids(&answer, "Successful"), taken),
            (vec!["0".to_owned(), "1".into(), "2".into()], vec!["0".into(), "1".into(), "2".into()])
        );
        assert_eq!(outcomes(&sends), [(true, Told::Confirmed); 3]);
    }
}

#[tokio::test]
async fn a_confirmation_near_the_invocations_end_may_come_too_late() {
    let (seen, _, sends) = within(NEAR_THE_END, Fault::None).await;
    assert!(matches!(seen, Seen::Answer(200, _)), "{seen:?}");
    assert_eq!(outcomes(&sends), [(true, Told::ConfirmedLate); 3]);
}

#[tokio::test]
async fn what_is_not_passed_on_does_not_arrive() {
    let error = |code: &str| json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": "injected"});
    for (fault, expected) in [
        (Fault::ResetUnsent, Seen::Broken),
        (Fault::HungUnsent, Seen::Nothing),
        (Fault::Error500Unsent, Seen::Answer(500, error("InternalFailure"))),
        (Fault::GatewayUnsent, Seen::Answer(502, Value::Null)),
        (Fault::Throttled503, Seen::Answer(503, error("ThrottlingException"))),
        (Fault::Throttled400, Seen::Answer(400, error("RequestThrottled"))),
    ] {
        let (seen, taken, sends) = through(fault).await;
        assert_eq!(seen, expected, "{fault:?}");
        assert_eq!(taken, [""; 0], "{fault:?}");
        assert_eq!(outcomes(&sends), [(false, Told::NotConfirmed(fault.name())); 3]);
    }
}

#[tokio::test]
async fn what_is_done_may_not_be_told() {
    let error = json!({"__type": "com.amazonaws.sqs#InternalFailure", "message": "injected"});
    for (fault, expected) in [
        (Fault::ResetAnswerLost, Seen::Broken),
        (Fault::HungAnswerLost, Seen::Nothing),
        (Fault::Error500Done, Seen::Answer(500, error)),
        (Fault::Truncated, Seen::Broken),
        (Fault::Garbled, Seen::Answer(200, Value::Null)),
    ] {
        let (seen, taken, sends) = through(fault).await;
        assert_eq!(seen, expected, "{fault:?}");
        assert_eq!(taken, ["0", "1", "2"], "{fault:?}");
        assert_eq!(outcomes(&sends), [(true, Told::NotConfirmed(fault.name())); 3]);
    }
}

#[tokio::test]
async fn a_late_confirmation_may_be_heard() {
    let (seen, taken, sends) = through(Fault::Late).await;
    assert_eq!((seen, taken), (Seen::Nothing, vec!["0".to_owned(), "1".into(), "2".into()]));
    assert_eq!(outcomes(&sends), [(true, Told::ConfirmedLate); 3]);
}

#[tokio::test]
async fn entries_that_are_held_back_are_called_failed_and_do_not_arrive() {
    for (denial, code, sender) in [
        (Denial::Service, "InternalError", false),
        (Denial::Throttle, "RequestThrottled", true),
        (Denial::Sender, "KMS.DisabledException", true),
    ] {
        let fault = Fault::EntriesHeldBack(denial);
        let (Seen::Answer(200, answer), taken, sends) = through(fault).await else { panic!("an answer") };
        assert_eq!(
            (ids(&answer, "Successful"), ids(&answer, "Failed")),
            (vec!["1".to_owned()], vec!["0".into(), "2".into()])
        );
        assert_eq!(
            (&answer["Failed"][0]["Code"], &answer["Failed"][0]["SenderFault"]),
            (&json!(code), &json!(sender))
        );
        assert_eq!(taken, ["1"]);
        let held_back = (false, Told::NotConfirmed(fault.name()));
        assert_eq!(outcomes(&sends), [held_back, (true, Told::Confirmed), held_back]);
    }
}

#[tokio::test]
async fn entries_that_are_done_may_be_called_failed_or_nothing_at_all() {
    for (fault, failed) in [
        (Fault::EntriesDenied(Denial::Service), vec!["0".to_owned(), "2".into()]),
        (Fault::EntriesForgotten, Vec::new()),
    ] {
        let (Seen::Answer(200, answer), taken, sends) = through(fault).await else { panic!("an answer") };
        assert_eq!((ids(&answer, "Successful"), ids(&answer, "Failed")), (vec!["1".to_owned()], failed));
        assert_eq!(taken, ["0", "1", "2"]);
        let denied = (true, Told::NotConfirmed(fault.name()));
        assert_eq!(outcomes(&sends), [denied, (true, Told::Confirmed), denied]);
    }
}

#[test]
fn every_fault_of_the_plan_happens_and_most_requests_meet_none() {
    let mut counts = std::collections::BTreeMap::<_, usize>::new();
    for request in 0..5_000 {
        *counts.entry(Fault::at_random(Dice::new(1), request, request / 2).name()).or_default() += 1;
    }
    assert_eq!(counts.len(), 17, "{counts:?}");
    assert!((3_900..4_100).contains(&counts["none"]), "{counts:?}");
}

#[test]
fn an_outage_lasts_as_long_as_its_invocation_and_lets_nothing_through() {
    let dice = Dice::new(1);
    let outages: Vec<_> =
        (0..1_000).filter(|invocation| Fault::outage(dice, *invocation).is_some()).collect();
    assert!((4..25).contains(&outages.len()), "{outages:?}");
    for invocation in outages {
        let fault = Fault::at_random(dice, 0, invocation);
        assert!((1..50).all(|request| Fault::at_random(dice, request, invocation) == fault));
        assert!(fault.name().ends_with("not passed on") || fault.name().ends_with("throttle"), "{fault:?}");
    }
}
