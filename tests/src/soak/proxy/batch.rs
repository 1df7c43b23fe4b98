//! A `SendMessageBatch` on its way: read, thinned out, and its answer rewritten.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::history::{Attribute, Content, Invocation, Key, Send, Stage, Told};
use super::super::http::Request;
use super::super::messages::key_in;
use super::super::recorder::Recorder;
use super::failed_entry;
use super::fault::Denial;

/// A batch: what the client sent, and what is passed on of it.
pub(super) struct Batch {
    to: Stage,
    entries: Vec<Entry>,
    passed_on: Value,
}

struct Entry {
    id: String,
    key: Key,
    content: Content,
    delay_seconds: u64,
}

impl Batch {
    /// `None` where it is none, or not to one of these queues, or of messages that the soak did not send.
    pub(super) fn read(request: &Request, queues: &[(String, Stage)]) -> Option<Self> {
        if request.header("x-amz-target") != "AmazonSQS.SendMessageBatch" {
            return None;
        }
        let members: Value = serde_json::from_slice(&request.body).ok()?;
        let (_, to) = queues.iter().find(|(url, _)| members["QueueUrl"] == **url)?;
        let entries = members["Entries"].as_array()?.iter().map(entry).collect::<Option<_>>()?;
        Some(Self { to: *to, entries, passed_on: members })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.passed_on["Entries"].as_array().is_none_or(Vec::is_empty)
    }

    /// Takes every second entry out; what the answer is to say of those.
    pub(super) fn hold_back(&mut self, denial: Denial) -> Vec<Value> {
        let chosen = self.every_second();
        if let Some(entries) = self.passed_on["Entries"].as_array_mut() {
            entries.retain(|entry| entry["Id"].as_str().is_none_or(|id| !chosen.contains(id)));
        }
        chosen.iter().map(|id| failed_entry(id, denial)).collect()
    }

    /// The answer with every second entry called failed.
    pub(super) fn denied(&self, answer: Value, denial: Denial) -> String {
        let chosen = self.every_second();
        let failed = chosen.iter().map(|id| failed_entry(id, denial)).collect();
        super::with_failed(without(answer, &chosen), failed)
    }

    /// The answer without a word of every second entry.
    pub(super) fn forgotten(&self, answer: Value) -> String {
        without(answer, &self.every_second()).to_string()
    }

    /// The ids that an answer calls successful.
    pub(super) fn confirmed_in(&self, answer: &[u8]) -> BTreeSet<String> {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let successful = answer["Successful"].as_array().cloned().unwrap_or_default();
        successful.iter().filter_map(|entry| entry["Id"].as_str()).map(str::to_owned).collect()
    }

    /// Writes every entry down; `outcome` is whether it arrived and what was told, by id.
    pub(super) fn record(
        &self,
        recorder: &Recorder,
        invocation: Invocation,
        after: Duration,
        outcome: impl Fn(&str) -> (bool, Told),
    ) {
        for Entry { id, key, content, delay_seconds } in &self.entries {
            let (arrived, told) = outcome(id);
            let (to, key, delay_seconds) = (self.to, *key, *delay_seconds);
            let content = content.clone();
            recorder.sent_on(Send { invocation, to, key, content, delay_seconds, arrived, told, after });
        }
    }

    /// From the first on, so that a batch of one has one, too.
    fn every_second(&self) -> BTreeSet<String> {
        self.entries.iter().step_by(2).map(|entry| entry.id.clone()).collect()
    }
}

impl fmt::Display for Batch {
    /// What is passed on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.passed_on.fmt(f)
    }
}

fn without(mut answer: Value, ids: &BTreeSet<String>) -> Value {
    if let Some(successful) = answer["Successful"].as_array_mut() {
        successful.retain(|entry| entry["Id"].as_str().is_none_or(|id| !ids.contains(id)));
    }
    answer
}

fn entry(entry: &Value) -> Option<Entry> {
    let body = entry["MessageBody"].as_str()?;
    let attributes = entry["MessageAttributes"].as_object().into_iter().flatten();
    let attributes = attributes.map(|(name, attribute)| {
        let text = attribute["StringValue"].as_str().map(|text| text.as_bytes().to_vec());
        let bytes = attribute["BinaryValue"].as_str().and_then(|base64| STANDARD.decode(base64).ok());
        let data_type = attribute["DataType"].as_str()?.to_owned();
        Some((name.clone(), Attribute { data_type, value: text.or(bytes)? }))
    });
    Some(Entry {
        id: entry["Id"].as_str()?.to_owned(),
        key: key_in(body)?,
        content: Content {
            body: body.to_owned(),
            attributes: attributes.collect::<Option<_>>()?,
            group: entry["MessageGroupId"].as_str().map(str::to_owned),
        },
        delay_seconds: entry["DelaySeconds"].as_u64().unwrap_or(0),
    })
}
