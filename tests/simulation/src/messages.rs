//! The producer's messages: valid and invalid messages of every kind.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::{Attribute, AttributeValue, Attributes, Content, attributes_size};
use redeliver_core::trace::SpanContext;
use serde_json::value::RawValue;

use crate::forgeries::{forge_attributes, forge_metadata_members, forged_trace_field};
use crate::knobs::ContentMix;
use crate::ledger::arrivals::dead_letter;

/// The required outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedOutcome {
    /// The message is processed, or given up according to the policy.
    Handled,
    /// The message becomes a final record with this `ErrorType`, and the target is never called.
    Invalid(&'static str),
}

/// A message with all the facts that the ledger needs.
#[derive(Clone, Debug)]
pub struct ProducedMessage {
    pub content: Content,
    /// The required outcome.
    pub expected: ExpectedOutcome,
    /// `metadata.message_id`, if present.
    pub message_id: Option<String>,
    /// `metadata.expires_at` in seconds after the start.
    pub expires_after_seconds: Option<i64>,
    /// `metadata.max_attempts`.
    pub max_attempts: Option<u32>,
    /// True if the message has no envelope.
    pub plain: bool,
    /// True if the producer sends the message twice.
    pub twice: bool,
    /// The target's final response to the message.
    pub destiny: Destiny,
    /// The producer's span as the functions must read it.
    pub trace: Option<SpanContext>,
    /// The producer's sampling decision. `Sampled=0` in an X-Ray header does not count as a decision.
    pub is_sampled: Option<bool>,
}

/// The target's final response to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destiny {
    /// Success after the end of the faults.
    Fine,
    /// Always a transient error.
    AlwaysTransient,
    /// Always an error that the message itself might have caused.
    AlwaysFaulty,
    /// Always a permanent error.
    AlwaysPermanent,
}

/// Returns the marker by which the ledger identifies a message. Every body contains it, and it is never truncated.
#[must_use]
pub fn message_marker(n: usize) -> String {
    format!("⟦{n}⟧")
}

/// Returns the message number in the body's marker.
#[must_use]
pub fn message_number(body: &str) -> Option<usize> {
    let (_, rest) = body.split_once('⟦')?;
    rest.split_once('⟧')?.0.parse().ok()
}

/// Generates message number `n`. `start` is the start of the run.
pub fn produce_message(
    n: usize,
    mix: &ContentMix,
    destinies: (f64, f64),
    start: chrono::DateTime<chrono::Utc>,
    rng: &mut impl Rng,
) -> ProducedMessage {
    let id = message_id(rng);
    let mut attributes = producer_attributes(n, mix, start, rng);
    let max_attempts = rng.random_bool(mix.expires).then(|| rng.random_range(0..15));
    let (body, expected, message_id, expires_after_seconds) = if rng.random_bool(mix.poison) {
        let (body, code) = invalid_body(n, &id, mix, rng);
        (body, ExpectedOutcome::Invalid(code), None, None)
    } else {
        let expires = rng.random_bool(mix.expires).then(|| rng.random_range(-100..20_000));
        let limits = ProducerLimits { expires, max_attempts };
        let body = valid_body(n, &id, limits, rng.random_bool(mix.earlier_life), start, rng);
        (body, ExpectedOutcome::Handled, Some(id), expires)
    };
    let mut body = body;
    let plain = expected == ExpectedOutcome::Handled && mix.plain > 0.0 && rng.random_bool(mix.plain);
    let (mut expires_after_seconds, mut max_attempts) = (expires_after_seconds, max_attempts);
    if plain {
        // A forged `folded_attributes` would be invalid in `Redeliver`, even though an envelope allows it.
        let says_its_metadata = rng.random_bool(0.5) && !body.contains("folded_attributes");
        attributes.remove("Failure");
        while attributes.len() > 9 {
            attributes.pop_last();
        }
        if says_its_metadata {
            let metadata = find_metadata(&body).expect("a valid envelope").to_owned();
            // The ledger reads a plain message as if `Redeliver` did not count as an attribute. A forged `DeadLetter`
            // whose validity depends on that attribute would be judged differently by the functions.
            let is_ours = |attributes: &Attributes| dead_letter(attributes).is_some();
            let without = is_ours(&attributes);
            attributes.insert("Redeliver".to_owned(), Attribute::string(metadata));
            if is_ours(&attributes) != without {
                attributes.remove("DeadLetter");
            }
        } else {
            (expires_after_seconds, max_attempts) = (None, None);
            let id = message_id.clone().expect("a valid message has an id");
            attributes.insert(ID_ATTRIBUTE.to_owned(), Attribute::string(id));
        }
        body = plain_body(n, rng);
    }
    if expected == ExpectedOutcome::Handled && rng.random_bool(mix.oversize) {
        let slack = [0, 1, 40, 150, 400, 1000, 3000, 6000][rng.random_range(0..8)];
        // The functions drop the reserved name; removing it here keeps the size constant.
        attributes.remove("Failure");
        let bytes = MESSAGE_BYTES_MAX - slack - attributes_size(&attributes);
        body = if plain { pad_plain_body(&body, bytes) } else { grow_body(&body, bytes) };
    }
    // A separate generator keeps the runs of seeds without such messages as they were before this option existed.
    let own = &mut StdRng::seed_from_u64(n as u64);
    let is_small = body.len() < MESSAGE_BYTES_MAX / 2;
    if expected == ExpectedOutcome::Handled && is_small && own.random_bool(mix.brimful) {
        attributes.remove("Failure");
        let bytes = MESSAGE_BYTES_MAX - own.random_range(0..=300) - attributes_size(&attributes);
        body = if plain { pad_plain_body(&body, bytes) } else { grow_body(&body, bytes) };
    }
    let destiny = match rng.random::<f64>() {
        draw if draw < destinies.0 && n.is_multiple_of(2) => Destiny::AlwaysTransient,
        draw if draw < destinies.0 => Destiny::AlwaysFaulty,
        draw if draw < destinies.0 + destinies.1 => Destiny::AlwaysPermanent,
        _ => Destiny::Fine,
    };
    let content = Content {
        body,
        attributes,
        message_group_id: rng.random_bool(0.5).then(|| format!("tenant-{}", n % 7)),
        trace_header: rng
            .random_bool(0.5)
            .then(|| format!("Root=1-{n:08x}{}", forged_trace_field(mix.forged, start, own))),
        ..Content::default()
    };
    let twice = rng.random_bool(mix.sent_twice);
    let (trace, is_sampled) = (None, None);
    ProducedMessage {
        content,
        expected,
        message_id,
        expires_after_seconds,
        max_attempts,
        plain,
        twice,
        destiny,
        trace,
        is_sampled,
    }
}

/// Adds the producer's trace contexts, sampled or not, valid or not, to the message's `traceparent` attribute and its
/// trace header.
#[must_use]
pub fn with_trace(mut message: ProducedMessage, n: usize, seed: u64) -> ProducedMessage {
    let rng = &mut StdRng::seed_from_u64(seed ^ (n as u64) << 40);
    let [of_attribute, of_header] = [0, 0].map(|_| SpanContext {
        trace_id: u128::from(rng.random_range(1..=u64::MAX)) << 64 | u128::from(rng.random::<u64>()),
        span_id: rng.random_range(1..=u64::MAX),
        is_sampled: rng.random_bool(0.8),
    });
    let Content { body, attributes, trace_header, .. } = &mut message.content;
    // An additional attribute could change whether a forged `DeadLetter` is valid.
    let has_room = attributes.len() < 10 && body.len() < MESSAGE_BYTES_MAX / 2;
    if has_room && !attributes.contains_key("DeadLetter") && rng.random_bool(0.5) {
        let SpanContext { trace_id, span_id, is_sampled } = of_attribute;
        let (version, is_valid) = if rng.random_bool(0.8) { ("00", true) } else { ("ff", false) };
        let text = format!("{version}-{trace_id:032x}-{span_id:016x}-0{}", u8::from(is_sampled));
        attributes.insert("traceparent".to_owned(), Attribute::string(text));
        message.trace = Some(of_attribute).filter(|_| is_valid);
        message.is_sampled = is_valid.then_some(is_sampled);
    }
    if let Some(header) = trace_header
        && rng.random_bool(0.5)
    {
        let SpanContext { trace_id, span_id, is_sampled } = of_header;
        let (began, random) = (trace_id >> 96, trace_id & ((1 << 96) - 1));
        let field = header.find(";Redeliver=").map(|at| header.split_off(at)).unwrap_or_default();
        *header = format!(
            "Root=1-{began:08x}-{random:024x};Parent={span_id:016x};Sampled={}",
            u8::from(is_sampled)
        );
        header.push_str(&field);
        if message.trace.is_none() {
            message.trace = Some(of_header);
            message.is_sampled = is_sampled.then_some(true);
        }
    }
    message
}

fn pad_plain_body(body: &str, bytes: usize) -> String {
    body.to_owned() + &"x".repeat(bytes.saturating_sub(body.len()))
}

fn message_id(rng: &mut impl Rng) -> String {
    let [a, b]: [u64; 2] = rng.random();
    let id = format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xffff,
        b >> 48,
        b << 16 >> 16
    );
    if rng.random_bool(0.3) { id.to_uppercase() } else { id }
}

/// The producer's own limits: `expires` in seconds after the start, and a number of retries.
#[derive(Clone, Copy)]
struct ProducerLimits {
    expires: Option<i64>,
    max_attempts: Option<u32>,
}

/// Generates a valid body in any form that JSON allows.
fn valid_body(
    n: usize,
    id: &str,
    limits: ProducerLimits,
    earlier_life: bool,
    start: chrono::DateTime<chrono::Utc>,
    rng: &mut impl Rng,
) -> String {
    let time = |seconds: i64| (start + chrono::TimeDelta::seconds(seconds)).to_rfc3339();
    let mut metadata = vec![format!(r#""message_id": "{id}""#)];
    if let Some(expires) = limits.expires {
        metadata.push(format!(r#""expires_at":"{}""#, time(expires)));
    }
    if let Some(max_attempts) = limits.max_attempts {
        metadata.push(format!(r#""max_attempts": {max_attempts}"#));
    }
    if earlier_life {
        metadata.push(format!(r#""retry_attempt" :{}"#, rng.random_range(0..15)));
        if rng.random_bool(0.5) {
            metadata.push(format!(r#""first_sent_time":"{}""#, time(rng.random_range(-50_000..50_000))));
        }
        if rng.random_bool(0.5) {
            metadata.push(format!(r#""next_retry_time":"{}""#, time(rng.random_range(-50_000..50_000))));
        }
        if rng.random_bool(0.5) {
            metadata.push(format!(r#""redrive_generation":{}"#, [0, 1, 99, 100][rng.random_range(0..4)]));
        }
        if rng.random_bool(0.6) {
            metadata.push(format!(r#""snooze_count":{}"#, [1, 99, 100, 100][rng.random_range(0..4)]));
        }
        if rng.random_bool(0.3) {
            metadata.push(format!(r#""held_seconds":{}"#, [1, 59, 8000, 1_210_500][rng.random_range(0..4)]));
        }
        if rng.random_bool(0.3) {
            metadata.push(format!(r#""held_since":"{}""#, time(rng.random_range(-50_000..50_000))));
            metadata.push(format!(r#""outage_failures":{}"#, [0, 3, 40, 65_535][n % 4]));
        }
        if rng.random_bool(0.3) {
            metadata.push(format!(r#""redrive_count":{}"#, [1, 3, 20, 1000][rng.random_range(0..4)]));
        }
        if rng.random_bool(0.5) {
            let past = format!(
                r#"{{"error_details":"é\u0007","attempt":0,"error_type":"Old","failed_at":"{}"}}"#,
                time(-9)
            );
            metadata.push(format!(r#""retry_history":[{past}]"#));
        }
    }
    for other in [r#""tenant":"acmé""#, r#""\u0061b" : {"x":[1e400,-0,12345678901234567890]}"#, r#""":null"#]
    {
        if rng.random_bool(0.3) {
            metadata.push(other.to_owned());
        }
    }
    metadata.extend(forge_metadata_members(rng));
    shuffle(&mut metadata, rng);
    let values = [
        "1e400",
        "-0.0",
        "123456789012345678901234567890",
        r#""\u00e9\ud83d\ude00 \/""#,
        r#"{"a":1,"a":2}"#,
        "[[[[[]]]]]",
        "[ true , false,\tnull ]",
        r#""retry_attempt""#,
    ];
    let marker = message_marker(n);
    let mut data = vec![format!(r#""marker":"{marker}""#)];
    for (index, value) in values.iter().enumerate() {
        if rng.random_bool(0.2) {
            data.push(format!(r#""k{index}":{value}"#));
        }
    }
    shuffle(&mut data, rng);
    let mut members = vec![
        format!(r#""metadata":{{{}}}"#, metadata.join(",")),
        format!("\"data\":\t{{ {} }}", data.join(" ,")),
    ];
    if rng.random_bool(0.3) {
        members.push(r#""retry_attempt":7"#.to_owned());
    }
    if rng.random_bool(0.3) {
        members.push(r#""version":"é""#.to_owned());
    }
    shuffle(&mut members, rng);
    let space = ["", " ", "\n", "\r\n\t"][rng.random_range(0..4)];
    format!("{space}{{{space}{}{space}}}{space}", members.join(","))
}

/// Generates an invalid body and its required error code.
fn invalid_body(n: usize, id: &str, mix: &ContentMix, rng: &mut impl Rng) -> (String, &'static str) {
    const FORMAT: &str = "INVALID_MESSAGE_FORMAT";
    const SCHEMA: &str = "INVALID_MESSAGE_SCHEMA";
    let m = message_marker(n);
    let good = format!(r#""metadata":{{"message_id":"{id}"}}"#);
    let with = |member: &str| {
        (format!(r#"{{"metadata":{{"message_id":"{id}",{member}}},"data":{{"m":"{m}"}}}}"#), SCHEMA)
    };
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let all = [
        // Violates the user's schema for `data`, if any.
        (format!(r#"{{{good},"data":{{"m":"{m}","forbidden":true}}}}"#), SCHEMA),
        (format!("{m} is not JSON"), FORMAT),
        (format!(r#"["{m}"]"#), FORMAT),
        (format!(r#""{m}""#), FORMAT),
        (format!(r#"{{{good},"data":{{"m":"{m}"}}"#), FORMAT),
        (format!(r#"{{{good},"data":{{"m":"{m}"}}}} trailing"#), FORMAT),
        (format!("\u{feff}{{{good},\"data\":{{\"m\":\"{m}\"}}}}"), FORMAT),
        (format!(r#"{{{good},"data":{{"m":"{m}"}},"data":{{}}}}"#), FORMAT),
        (format!(r#"{{{good},"data":{{"m":"{m}"}},"d\u0061ta":{{}}}}"#), FORMAT),
        (
            format!(r#"{{"metadata":{{"message_id":"{id}","message_id":"{id}"}},"data":{{"m":"{m}"}}}}"#),
            FORMAT,
        ),
        (format!(r#"{{{good},"data":{{"m":"{m}","deep":{deep}}}}}"#), FORMAT),
        (format!(r#"{{{good},"data":{{"m":"{m}",}}}}"#), FORMAT),
        (format!(r#"{{"data":{{"m":"{m}"}}}}"#), SCHEMA),
        (format!(r#"{{{good},"date":{{"m":"{m}"}}}}"#), SCHEMA),
        (format!(r#"{{{good},"data":["{m}"]}}"#), SCHEMA),
        (format!(r#"{{"metadata":{{"message_id":"{m}"}},"data":{{}}}}"#), SCHEMA),
        (
            format!(r#"{{"metadata":{{"message_id":"{id}","retry_attempt":1.0}},"data":{{"m":"{m}"}}}}"#),
            SCHEMA,
        ),
        (
            format!(r#"{{"metadata":{{"message_id":"{id}","retry_attempt":1001}},"data":{{"m":"{m}"}}}}"#),
            SCHEMA,
        ),
        (
            format!(r#"{{"metadata":{{"message_id":"{id}","retry_attempt":"1"}},"data":{{"m":"{m}"}}}}"#),
            SCHEMA,
        ),
        (format!(r#"{{"metadata":["{m}"],"data":{{}}}}"#), SCHEMA),
        (format!("{{{good},\"data\":{{\"m\":\"{m}\"}},\"a\tb\":1}}"), FORMAT),
        with(r#""expires_at":"tomorrow""#),
        with(r#""first_sent_time":"2026-13-01T00:00:00Z""#),
        with(r#""next_retry_time":17"#),
        with(r#""snooze_count":101"#),
        with(r#""redrive_generation":-1"#),
        with(r#""redrive_generation":1e1"#),
        with(r#""retry_history":[{"attempt":0}]"#),
        with(r#""retry_history":{}"#),
        with(r#""held_since":"now""#),
        with(r#""held_seconds":1210501"#),
        with(r#""outage_failures":65536"#),
        with(r#""redrive_count":-1"#),
        with(r#""expires_at":"\ud800""#),
    ];
    // With plain messages enabled, a body that is not intended as an envelope is a valid plain message.
    let is_poison = |(body, _): &(String, _)| mix.plain == 0.0 || is_apparent_envelope(body);
    let all: Vec<_> = all.into_iter().skip(usize::from(!mix.data_schema)).filter(is_poison).collect();
    let choice = rng.random_range(0..all.len());
    all.into_iter().nth(choice).expect("within the list")
}

/// The name of the message attribute that holds the id of a plain message without `Redeliver`.
pub const ID_ATTRIBUTE: &str = "order-id";

/// Returns true if the documentation treats the body as an envelope: a JSON object with `data`, and with a `metadata`
/// whose `message_id` is a UUID.
fn is_apparent_envelope(body: &str) -> bool {
    let id = find_metadata(body).and_then(|metadata| find_member(metadata, "message_id"));
    let id: Option<String> = id.and_then(|id| serde_json::from_str(id).ok());
    find_member(body, "data").is_some() && id.is_some_and(|id| is_hyphenated_uuid(&id))
}

fn find_metadata(body: &str) -> Option<&str> {
    find_member(body, "metadata")
}

fn find_member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let members: HashMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    members.get(name).map(|value| value.get())
}

fn is_hyphenated_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.concat().bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Generates the body of a plain message: anything that SQS accepts.
fn plain_body(n: usize, rng: &mut impl Rng) -> String {
    let m = message_marker(n);
    let all = [
        m.clone(),
        format!("\t{m} no JSON \u{e9}\u{1F600}\r\n"),
        format!(r#"["{m}",1e400]"#),
        format!(r#" {{"{m}":-0, "a":1,"a":2}} "#),
        format!(r#""{m}\ud800""#),
        format!(r#"{{"specversion":"1.0","id":"{m}","source":"/shop","data":{{}}}}"#),
        format!(r#"{{"metadata":{{"id":"{m}"}},"data":{{}}}}"#),
        format!("{}{m}", "[".repeat(200)),
        format!("<order>{m}</order>"),
    ];
    let choice = rng.random_range(0..all.len());
    all.into_iter().nth(choice).expect("within the list")
}

fn producer_attributes(
    n: usize,
    mix: &ContentMix,
    start: chrono::DateTime<chrono::Utc>,
    rng: &mut impl Rng,
) -> Attributes {
    let number = |value: &str| Attribute {
        data_type: "Number.int".to_owned(),
        value: AttributeValue::Text(value.to_owned()),
    };
    let mut all = Attributes::new();
    if rng.random_bool(mix.attribute_full) {
        for n in 0..10 {
            all.insert(format!("attribute-{n}"), Attribute::string("é".repeat(1 + n * n)));
        }
    }
    if rng.random_bool(0.3) {
        all.insert("tenant".to_owned(), Attribute::string(format!("acmé-{}", n % 3)));
        all.insert("count".to_owned(), number("12345678901234567890.5"));
        let blob = AttributeValue::Binary(vec![0, 159, 146, 150, 255]);
        all.insert("blob".to_owned(), Attribute { data_type: "Binary.png".to_owned(), value: blob });
    }
    if rng.random_bool(mix.forged) {
        all.extend(forge_attributes(start, rng));
    }
    // Forged names sort before the others, so they remain.
    while all.len() > 10 {
        all.pop_last();
    }
    all
}

/// Returns the same body, padded to this size with a member of `data`.
fn grow_body(body: &str, bytes: usize) -> String {
    let Some(at) = body.find("\"data\":\t{ ").map(|at| at + "\"data\":\t{ ".len()) else {
        return body.to_owned();
    };
    let frame = r#""fill":"","#.len();
    let fill = bytes.saturating_sub(body.len() + frame);
    format!("{}\"fill\":\"{}\",{}", &body[..at], "x".repeat(fill), &body[at..])
}

fn shuffle<T>(items: &mut [T], rng: &mut impl Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.random_range(0..=last));
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use redeliver_core::message::OutgoingMessage;

    use super::*;

    #[test]
    fn producers_send_valid_sqs_messages_with_their_marker() {
        let mix = ContentMix {
            poison: 0.3,
            attribute_full: 0.3,
            forged: 0.5,
            earlier_life: 0.5,
            expires: 0.3,
            oversize: 0.05,
            brimful: 0.05,
            sent_twice: 0.1,
            data_schema: true,
            plain: 0.3,
        };
        let mut rng = StdRng::seed_from_u64(1);
        for n in 0..2000 {
            let produced = produce_message(n, &mix, (0.1, 0.1), chrono::DateTime::UNIX_EPOCH, &mut rng);
            assert_eq!(message_number(&produced.content.body), Some(n));
            OutgoingMessage::new(produced.content).unwrap();
        }
    }
}
