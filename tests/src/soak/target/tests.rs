//! The target as a client sees it, message by message.

use std::sync::Mutex;

use super::*;
use crate::soak::messages::{Sent, messages};

/// A target, and the mappings whose functions it killed.
struct World {
    target: Target,
    recorder: Arc<Recorder>,
    killed: Arc<Mutex<Vec<usize>>>,
    sent: Vec<Sent>,
}

const MAPPING: usize = 3;

/// Without noise, but for what a message's fate is.
async fn world() -> World {
    let dice = Dice::new(1);
    let sent = messages(dice, 400);
    let recorder = Arc::new(Recorder::new(sent.clone()));
    recorder.heal();
    recorder.begin(MAPPING, TIMEOUT, (0..sent.len()).collect());
    let killed = Arc::<Mutex<Vec<_>>>::default();
    let kill = {
        let killed = Arc::clone(&killed);
        Arc::new(move |mapping| killed.lock().unwrap().push(mapping))
    };
    World { target: Target::start(Arc::clone(&recorder), dice, kill).await, recorder, killed, sent }
}

impl World {
    fn with_fate(&self, is: impl Fn(Fate) -> bool) -> &Sent {
        self.sent.iter().find(|sent| is(sent.fate)).expect("some message has this fate")
    }

    /// The status; `None` for no answer within half of a function's patience.
    async fn status(&self, sent: &Sent, attempt: u32) -> Option<u16> {
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        let request = client.build().unwrap().post(self.target.url_for(MAPPING)).timeout(TIMEOUT / 2);
        let request =
            request.header("Idempotency-Key", &sent.message_id).header("X-Redeliver-Attempt", attempt);
        Some(request.body(sent.content.body.clone()).send().await.ok()?.status().as_u16())
    }
}

#[tokio::test]
async fn each_fate_is_kept_and_every_call_is_written_down() {
    let world = world().await;
    let is_transient = |status| {
        [301, 302, 307, 308, 401, 403, 408, 409, 425, 429, 500, 502, 503, 504].map(Some).contains(&status)
    };
    assert_eq!(world.status(world.with_fate(|fate| fate == Fate::Healthy), 0).await, Some(200));
    let flaky = world.with_fate(|fate| fate == Fate::Flaky(2));
    assert!(is_transient(world.status(flaky, 0).await) && is_transient(world.status(flaky, 1).await));
    assert_eq!(world.status(flaky, 2).await, Some(200));
    assert!(is_transient(world.status(world.with_fate(|fate| fate == Fate::Doomed), 5).await));
    let refused = world.status(world.with_fate(|fate| fate == Fate::Refused), 0).await;
    assert!([400, 404, 405, 410, 422].map(Some).contains(&refused), "{refused:?}");

    let (history, _) = world.recorder.take();
    let answers: Vec<_> = history.calls.iter().map(|call| (call.attempt.as_str(), call.answer)).collect();
    let (success, transient) = (Answer::Success, Answer::Transient);
    let expected = [
        ("0", success),
        ("0", transient),
        ("1", transient),
        ("2", success),
        ("5", transient),
        ("0", Answer::Permanent),
    ];
    assert_eq!(answers, expected);
    assert_eq!(history.troubles, [""; 0]);
}

#[tokio::test]
async fn a_crashers_first_calls_kill_who_calls() {
    let world = world().await;
    let crasher = world.with_fate(|fate| fate == Fate::Crasher(1));
    assert_eq!(world.status(crasher, 0).await, None);
    assert_eq!(*world.killed.lock().unwrap(), [MAPPING]);
    assert_eq!(world.status(crasher, 1).await, Some(200));
    assert_eq!(world.killed.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_redirect_that_is_followed_is_told() {
    let world = world().await;
    let url = world.target.url_for(MAPPING).replace(&format!("/target/{MAPPING}"), "/elsewhere");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(client.get(url).send().await.is_err());
    let (history, _) = world.recorder.take();
    assert_eq!(history.troubles, ["a call of /elsewhere that nobody was told to make"]);
}
