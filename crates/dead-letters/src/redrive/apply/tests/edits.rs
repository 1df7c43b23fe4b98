//! The changes made by `--edit`, and the ids that `--new-id` assigns to changed messages.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::*;

#[test]
fn an_edit_keeps_the_original_body_in_the_journal() {
    let world = World::new(vec![dead_letter(1)]);
    let plan =
        RedrivePlan { edit: Some(BodyEdit::new(".body.data.fixed = true").unwrap()), ..unfiltered_plan() };
    let report = world.apply(&plan).unwrap();
    assert_eq!((report.sent, report.edited), (1, 1));
    let [message] = world.take(&world.source).try_into().unwrap();
    assert!(message.body.ends_with(r#""data":{"n":1, "x":1.50,"fixed":true}}"#), "{}", message.body);
    let journal = std::fs::read_to_string(&world.journal).unwrap();
    let intent: Value = serde_json::from_str(journal.lines().nth(2).unwrap()).unwrap();
    assert_eq!(intent["intent"]["original_body"], dead_letter(1).body.as_str());
}

/// Returns an edit after which an API that deduplicates by id must treat the message as a new one.
fn new_id_plan() -> RedrivePlan {
    RedrivePlan {
        edit: Some(BodyEdit::new(".body.data.fixed = true").unwrap()),
        new_id: true,
        ..unfiltered_plan()
    }
}

#[test]
fn an_edited_message_gets_a_new_id_and_both_are_reported() {
    let world = World::new(vec![dead_letter(1)]);
    let planned = world.clock.block_on(world.redrive(&new_id_plan()).dry_run()).unwrap();
    let report = world.apply(&new_id_plan()).unwrap();
    let [message] = world.take(&world.source).try_into().unwrap();
    // SHA-256 of the old id, generation 1 and the edited message, as a version 8 UUID.
    let new_id = "13073b62-e742-8fcf-ad8f-78775534ec5e";
    let body = format!(
        r#"{{"metadata":{{"message_id":"{new_id}", "tenant":"a","redrive_generation":1}},"data":{{"n":1, "x":1.50,"fixed":true}}}}"#
    );
    assert_eq!(message.body, body, "and every other byte is unchanged");
    for report in [planned, report] {
        let reported = serde_json::json!({ "count": 1, "examples": [{ "old": id(1), "new": new_id }] });
        assert_eq!(report.to_json()["new_ids"], reported);
    }
    let journal = std::fs::read_to_string(&world.journal).unwrap();
    let intent: Value = serde_json::from_str(journal.lines().nth(2).unwrap()).unwrap();
    let ids = (&intent["intent"]["message_id"], &intent["intent"]["old_message_id"]);
    assert_eq!(ids, (&Value::from(new_id), &Value::from(id(1))));
}

/// Stores the number of sent messages.
fn record_sent_count(sent: &Cell<u64>, progress: RedriveProgress) {
    if let RedriveProgress::Sent(count) = progress {
        sent.set(count);
    }
}

#[test]
fn a_message_that_fails_again_is_recognized_by_its_new_id() {
    let world = World::new(vec![dead_letter(1)]);
    let (mut journal, plan) = (world.journal(), new_id_plan());
    // After a completed run, the message would have been forgotten, and could be sent back once more.
    let sent = Cell::new(0);
    let (interrupted, progress) = (|| sent.get() > 0, |progress| record_sent_count(&sent, progress));
    let interrupted = RedriveJob { interrupted: &interrupted, progress: &progress, ..world.redrive(&plan) };
    let report = world.clock.block_on(interrupted.apply(&mut journal)).unwrap();
    assert_eq!((report.sent, report.early_end), (1, Some(EarlyEnd::Interrupted)));
    let [message] = world.take(&world.source).try_into().unwrap();
    let sent = DeadLetterRecord::new(message).metadata.unwrap();
    assert!(journal.came_back(&sent.message_id_text, sent.generation()));
    assert!(!journal.came_back(&id(1), sent.generation()), "the old id now belongs to another message");
}

#[test]
fn a_message_unchanged_by_the_edit_keeps_its_id() {
    let world = World::new(vec![dead_letter(1), dead_letter(2)]);
    let edit = "if .body.data.n == 1 then .body.data.fixed = true else . end";
    let plan = RedrivePlan { edit: Some(BodyEdit::new(edit).unwrap()), new_id: true, ..unfiltered_plan() };
    let report = world.apply(&plan).unwrap();
    assert_eq!((report.sent, report.edited, report.new_ids), (2, 1, 1));
    let kept = world.take(&world.source).into_iter().filter(|message| message.body.contains(&id(2)));
    assert_eq!(kept.count(), 1);
}

#[test]
fn copies_and_resumed_runs_derive_the_same_new_id() {
    const MESSAGES: usize = 3;
    let mut copies_seen = 0;
    for polls in 1.. {
        let world = World::new((0..MESSAGES).map(dead_letter).collect());
        let died = world.kill_after_polls(&new_id_plan(), polls);
        world.apply(&new_id_plan()).unwrap();
        let sent = world.take(&world.source);
        let ids: BTreeSet<_> = sent
            .iter()
            .map(|message| {
                serde_json::from_str::<Value>(&message.body).unwrap()["metadata"]["message_id"].to_string()
            })
            .collect();
        assert_eq!(ids.len(), MESSAGES, "killed after {polls} polls: {ids:?}");
        copies_seen += sent.len() - MESSAGES;
        if !died {
            break;
        }
    }
    assert!(copies_seen > 0, "no death created a copy: the test proves nothing");
}

/// Returns the n-th message from a producer without valid ids.
fn letter_without_id(n: usize) -> Content {
    let attributes = Attributes::from([
        ("ErrorType".to_owned(), Attribute::string("INVALID_MESSAGE_SCHEMA")),
        ("ErrorDetails".to_owned(), Attribute::string("/metadata/message_id does not match")),
    ]);
    let body = format!(r#"{{"metadata":{{"message_id":"order-{n}"}},"data":{{"n":{n}}}}}"#);
    Content { body, attributes, ..Content::default() }
}

/// Returns an edit that assigns each message an id that differs per run, like an edit that uses the current time.
fn repair_plan(run: usize) -> RedrivePlan {
    let edit =
        format!(r#".body.metadata.message_id = "0000000\(.body.data.n)-0000-4000-8000-00000000000{run}""#);
    RedrivePlan { edit: Some(BodyEdit::new(&edit).unwrap()), ..unfiltered_plan() }
}

#[test]
fn the_journal_has_the_old_and_the_new_id_of_an_edited_message() {
    let world = World::new(vec![letter_without_id(1)]);
    let (mut journal, plan) = (world.journal(), repair_plan(1));
    let sent = Cell::new(0);
    let (interrupted, progress) = (|| sent.get() > 0, |progress| record_sent_count(&sent, progress));
    let run = RedriveJob { interrupted: &interrupted, progress: &progress, ..world.redrive(&plan) };
    let report = world.clock.block_on(run.apply(&mut journal)).unwrap();
    let new_id = "00000001-0000-4000-8000-000000000001";
    let reported = serde_json::json!({ "count": 1, "examples": [{ "old": "order-1", "new": new_id }] });
    assert_eq!((report.sent, &report.to_json()["new_ids"]), (1, &reported));
    let text = std::fs::read_to_string(&world.journal).unwrap();
    let intent: Value = serde_json::from_str(text.lines().nth(2).unwrap()).unwrap();
    assert_eq!(intent["intent"]["message_id"], new_id);
    assert_eq!(intent["intent"]["old_message_id"], "order-1");
    assert_eq!(intent["intent"]["original_body"], letter_without_id(1).body.as_str());
    assert!(journal.came_back(new_id, 1), "its later failures count");
}

#[test]
fn a_resumed_redrive_sends_no_message_under_a_second_id() {
    const MESSAGES: usize = 3;
    let (mut copies, mut left) = (0, 0);
    for polls in 1.. {
        let world = World::new((0..MESSAGES).map(letter_without_id).collect());
        let died = world.kill_after_polls(&repair_plan(1), polls);
        let report = world.apply(&repair_plan(2)).unwrap();
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for message in world.take(&world.source) {
            copies += 1;
            let body: Value = serde_json::from_str(&message.body).unwrap();
            let id = body["metadata"]["message_id"].to_string();
            ids.entry(body["data"]["n"].to_string()).or_default().insert(id);
        }
        assert!(ids.values().all(|ids| ids.len() == 1), "killed after {polls} polls: {ids:?}");
        assert_eq!(world.depths(), (report.staying_count(), 0), "killed after {polls} polls");
        assert!(ids.len() as u64 + report.staying_count() >= MESSAGES as u64, "something is lost");
        left += report.staying_count();
        // The same edit continues where the run ended.
        let second = world.apply(&repair_plan(1)).unwrap();
        assert_eq!((second.staying_count(), world.depths().0), (0, 0), "killed after {polls} polls");
        if !died {
            break;
        }
    }
    assert!(
        left > 0 && copies > 0,
        "no death left a message that may have been sent: the test proves nothing"
    );
}

/// Two copies of each plain message, whose final records differ in everything that SQS assigns.
#[test]
fn all_copies_and_runs_give_a_plain_message_the_same_new_id() {
    const MESSAGES: usize = 6;
    let plain_letter = |n: usize| {
        let body = format!(r#"{{"order":{n}}}"#);
        let mut content = dead_letter(n);
        let redeliver = format!(r#"{{"message_id":"{}","retry_attempt":5}}"#, id(n));
        content.attributes.insert("Redeliver".to_owned(), Attribute::string(redeliver));
        Content { body, ..content }
    };
    let plan = RedrivePlan {
        edit: Some(BodyEdit::new(".body.fixed = true").unwrap()),
        new_id: true,
        ..unfiltered_plan()
    };
    let mut deaths = 0;
    for polls in (1..).step_by(2) {
        let world = World::new((0..MESSAGES).chain(0..MESSAGES).map(plain_letter).collect());
        let died = world.kill_after_polls(&plan, polls);
        world.apply(&plan).unwrap();
        let mut ids = BTreeMap::<String, BTreeSet<String>>::new();
        for message in world.take(&world.source) {
            let redeliver: Value =
                serde_json::from_str(message.attributes["Redeliver"].text().unwrap()).unwrap();
            let id = redeliver["message_id"].as_str().unwrap().to_owned();
            ids.entry(message.body).or_default().insert(id);
        }
        assert_eq!(ids.len(), MESSAGES, "killed after {polls} polls");
        assert!(ids.values().all(|ids| ids.len() == 1), "killed after {polls} polls: {ids:?}");
        if !died {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 10, "it died only {deaths} times");
}
