//! What producers send: messages of every kind, and what each must come to.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::{Map, Value, json};

use super::dice::{Dice, pick};
use super::history::{Attribute, Attributes, Content, Key};

/// What becomes of a message, as far as the target decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The target takes it.
    Healthy,
    /// The target takes it after so many failures.
    Flaky(u32),
    /// The target always fails.
    Doomed,
    /// The target refuses it.
    Refused,
    /// Its first so many calls kill the process that calls.
    Crasher(u32),
    /// The target fails, and the producer's own time limit is over.
    Expired,
    /// The target fails, and a retry's metadata does not fit in.
    Oversize,
    /// Not JSON, or not an object, or not to be trusted.
    Malformed,
    /// Violates the message schema.
    Invalid,
}

/// A message as a producer sends it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// `metadata.message_id`.
    pub message_id: String,
    /// What becomes of it.
    pub fate: Fate,
    /// As it is sent.
    pub content: Content,
    /// The body before and after `metadata`, to the byte, and what is in it; `None` for one that is not valid.
    pub frame: Option<Frame>,
}

/// A valid body, taken apart before it was put together.
#[derive(Clone, Debug)]
pub struct Frame {
    /// All before the value of `metadata`.
    pub before: String,
    /// The producer's own members of `metadata`.
    pub metadata: Map<String, Value>,
    /// All after it.
    pub after: String,
}

const MARK: &str = "soak-";
const MARK_DIGITS: usize = 6;
/// SQS's limit, less what a bare verdict needs and a retry's metadata exceeds.
const OVERSIZE_BYTES: usize = 1_048_576 - 100;
/// In thousandths, with the number of failures or deaths.
const FATES: [(u32, Fate); 14] = [
    (592, Fate::Healthy),
    (100, Fate::Flaky(1)),
    (60, Fate::Flaky(2)),
    (30, Fate::Flaky(3)),
    (10, Fate::Flaky(5)),
    (50, Fate::Doomed),
    (80, Fate::Refused),
    (10, Fate::Crasher(1)),
    (5, Fate::Crasher(2)),
    (1, Fate::Crasher(100)),
    (20, Fate::Expired),
    (1, Fate::Oversize),
    (21, Fate::Malformed),
    (20, Fate::Invalid),
];

/// The number that a body carries.
#[must_use]
pub fn key_in(body: &str) -> Option<Key> {
    let start = body.find(MARK)? + MARK.len();
    body.get(start..start + MARK_DIGITS)?.parse().ok()
}

/// The messages of a seed.
#[must_use]
pub fn messages(dice: Dice, count: usize) -> Vec<Sent> {
    (0..count).map(|key| message(key, &mut dice.roll(("message", key)))).collect()
}

fn message(key: Key, dice: &mut StdRng) -> Sent {
    let fate = pick(dice, &FATES);
    let message_id = format!("{key:08}-5eed-4000-8000-{:012x}", dice.random_range(0..1_u64 << 48));
    let frame = match fate {
        Fate::Malformed | Fate::Invalid => None,
        _ => Some(frame(key, fate, &message_id, dice)),
    };
    let body = match &frame {
        Some(frame) => {
            format!("{}{}{}", frame.before, Value::Object(frame.metadata.clone()), frame.after)
        }
        None if fate == Fate::Invalid => invalid(key, &message_id, dice),
        None => malformed(key, &message_id, dice),
    };
    // Attributes count towards the limit that an oversize message is at.
    let attributes = if fate == Fate::Oversize { Attributes::new() } else { attributes(dice) };
    let group =
        (fate != Fate::Oversize && dice.random_range(0..5) == 0).then(|| format!("tenant-{}", key % 7));
    Sent { message_id, fate, content: Content { body, attributes, group }, frame }
}

fn frame(key: Key, fate: Fate, message_id: &str, dice: &mut StdRng) -> Frame {
    let mut metadata = Map::from_iter([("message_id".to_owned(), json!(message_id))]);
    if dice.random_range(0..3) == 0 {
        metadata.insert("correlation".to_owned(), json!({"of": key, "tags": ["a", "b"]}));
    }
    if fate == Fate::Expired {
        metadata.insert("expires_at".to_owned(), json!("2020-01-01T00:00:00Z"));
    }
    let filling = match fate {
        Fate::Oversize => 0,
        // Some are large: up to some 200 KiB.
        _ => pick(dice, &[(900, 10), (85, 2_000), (12, 50_000), (3, 200_000)]),
    };
    let filling = "x".repeat(dice.random_range(0..=filling));
    // What a parser would not give back as it came.
    let odd = r#""n":1e400,"i":123456789012345678901234567890,"t":"\u00e9\/é \ud83d\ude00","z":-0.0"#;
    let data = format!(r#"{{ "key":"{MARK}{key:06}" ,{odd},"filling":"{filling}"}}"#);
    let (before, after) = match dice.random_range(0..3) {
        0 => (r#"{"metadata":"#.to_owned(), format!(r#","data":{data}}}"#)),
        1 => (format!(r#"{{"data":{data} , "metadata" : "#), "\n}".to_owned()),
        _ => (
            format!(r#"{{"own":[1.0,{{"metadata":0}}],"data":{data},"metadata":"#),
            r#","tail":1E2}"#.to_owned(),
        ),
    };
    let mut frame = Frame { before, metadata, after };
    if fate == Fate::Oversize {
        let size =
            frame.before.len() + Value::Object(frame.metadata.clone()).to_string().len() + frame.after.len();
        let filled = "y".repeat(OVERSIZE_BYTES - size);
        let place = |text: &str| text.replacen(r#""filling":""#, &format!(r#""filling":"{filled}"#), 1);
        frame.before = place(&frame.before);
        frame.after = place(&frame.after);
    }
    frame
}

fn malformed(key: Key, id: &str, dice: &mut StdRng) -> String {
    let mark = format!("{MARK}{key:06}");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let bodies = [
        format!("this is not JSON: {mark}"),
        format!(r#"["{mark}"]"#),
        format!(r#""{mark}""#),
        format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{"key":"{mark}""#),
        format!(r#"{{"metadata":{{"message_id":"{id}"}},"metadata":{{}},"data":{{"key":"{mark}"}}}}"#),
        format!(
            r#"{{"metadata":{{"message_id":"{id}","message\u005fid":"{id}"}},"data":{{"key":"{mark}"}}}}"#
        ),
        format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{"key":"{mark}","deep":{deep}}}}}"#),
    ];
    bodies[dice.random_range(0..bodies.len())].clone()
}

fn invalid(key: Key, id: &str, dice: &mut StdRng) -> String {
    let mark = format!("{MARK}{key:06}");
    let bodies = [
        format!(r#"{{"data":{{"key":"{mark}"}}}}"#),
        format!(r#"{{"metadata":{{"message_id":"not-a-uuid"}},"data":{{"key":"{mark}"}}}}"#),
        format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":"{mark}"}}"#),
        format!(r#"{{"metadata":{{"message_id":"{id}","retry_attempt":"1"}},"data":{{"key":"{mark}"}}}}"#),
        format!(r#"{{"metadata":{{"message_id":"{id}","retry_attempt":1001}},"data":{{"key":"{mark}"}}}}"#),
        format!(r#"{{"metadata":{{"message_id":"{id}","expires_at":"soon"}},"data":{{"key":"{mark}"}}}}"#),
        format!(r#"{{"metadata":{{"message_id":"{id}"}},"key":"{mark}"}}"#),
    ];
    bodies[dice.random_range(0..bodies.len())].clone()
}

/// None to three mostly, of every type; eight to ten sometimes: then ours find no place beside them.
fn attributes(dice: &mut StdRng) -> Attributes {
    let attribute =
        |data_type: &str, value: &[u8]| Attribute { data_type: data_type.to_owned(), value: value.to_vec() };
    let kinds = [
        ("tenant", attribute("String", "acmé, ltd.".as_bytes())),
        ("price", attribute("Number", b"12345678901234567890.5")),
        ("count", attribute("Number.int", b"7")),
        ("blob", attribute("Binary.png", &[0, 159, 146, 150, 255])),
        ("kind", attribute("String.custom", b"order")),
    ];
    let count = pick(dice, &[(300, 0), (250, 1), (250, 2), (150, 3), (15, 8), (15, 9), (20, 10)]);
    let more = (0..5).map(|n| (format!("more-{n}"), Attribute::string(&"v".repeat(n + 1))));
    kinds.map(|(name, attribute)| (name.to_owned(), attribute)).into_iter().chain(more).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_carries_its_key_once_and_is_within_the_limits_of_sqs() {
        for (key, sent) in messages(Dice::new(1), 2_000).iter().enumerate() {
            assert_eq!(key_in(&sent.content.body), Some(key));
            assert_eq!(sent.content.body.matches(MARK).count(), 1);
            assert!(sent.content.body.len() <= OVERSIZE_BYTES);
            assert_eq!(sent.content.body.len() == OVERSIZE_BYTES, sent.fate == Fate::Oversize);
            assert!(sent.content.attributes.len() <= 10);
        }
    }

    #[test]
    fn a_seed_gives_the_same_messages_and_another_gives_others() {
        let bodies = |seed| messages(Dice::new(seed), 50).into_iter().map(|sent| sent.content.body);
        assert!(bodies(1).eq(bodies(1)));
        assert!(!bodies(1).eq(bodies(2)));
    }
}
