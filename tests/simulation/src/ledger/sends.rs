//! What may be sent, by whom, and where to.

use chrono::{DateTime, Utc};
use redeliver_core::message::Content;

use super::body::{Body, Retries};
use super::copies::{Failure, document, unfolded};
use super::oracle::Case;
use super::{Actor, Copy, Ledger, Place, Violation};
use crate::messages::Expected;

/// A send under examination.
#[derive(Clone, Copy)]
pub(super) struct Send<'a> {
    pub(super) n: usize,
    pub(super) content: &'a Content,
    pub(super) body: Option<&'a Body>,
    pub(super) hash: u64,
    pub(super) at: DateTime<Utc>,
}

impl Ledger {
    #[expect(clippy::too_many_arguments, reason = "one send and who did it")]
    pub(super) fn check_send(
        &mut self,
        actor: Actor,
        place: Place,
        n: usize,
        content: &Content,
        body: Option<&Body>,
        hash: u64,
        at: DateTime<Utc>,
    ) -> Result<(), Violation> {
        let send = Send { n, content, body, hash, at };
        let (acknowledges, checked) = match (actor, place) {
            (Actor::Producer, Place::Source) => return Ok(()),
            (Actor::Console, Place::Source) => (Place::Final, Ok(())),
            (Actor::Redrive, Place::Source) => (Place::Final, self.redrive(send)),
            (Actor::MessageProcessor, Place::Intermediate) => (Place::Source, self.hand_off(send)),
            (Actor::MessageProcessor, Place::Annotation) => (Place::Source, self.refusal(send)),
            (Actor::FailedMessageProcessor, Place::Source) => (Place::Intermediate, self.resend(send)),
            (Actor::FailedMessageProcessor, Place::Annotation) => (Place::Intermediate, self.verdict(send)),
            (Actor::Annotator, Place::Final) => (Place::Annotation, self.annotated(send)),
            _ => return Err("it has no business there".to_owned()),
        };
        self.subjects[n].credit[acknowledges as usize] += 1;
        checked?;
        let Content { message_group_id, trace_header, .. } = &self.subjects[n].produced.content;
        if (&content.message_group_id, &content.trace_header) != (message_group_id, trace_header) {
            return Err("the message group or the trace header is not the producer's".to_owned());
        }
        Ok(())
    }

    /// The message as it was received, with the reason.
    fn hand_off(&self, send: Send<'_>) -> Result<(), Violation> {
        let subject = &self.subjects[send.n];
        if subject.produced.expected != Expected::Handled {
            return Err("it is invalid, and must not be retried".to_owned());
        }
        no_delay(send)?;
        self.attributes_kept(send, "Failure")?;
        let failure = Failure::of(&send.content.attributes).ok_or("without a reason")?;
        let origin =
            self.origins.get(failure.text("source_message_id")).filter(|origin| origin.subject == send.n);
        let origin = origin.ok_or("the reason names another message")?;
        if origin.body_hash != send.hash {
            return Err("its body is not the one that was received".to_owned());
        }
        if failure.first_sent_time() != Some(origin.sent_at) || failure.new_generation() != origin.came_back {
            return Err("the reason does not tell of its delivery".to_owned());
        }
        let retries = &send.body.ok_or("its body cannot be read")?.retries;
        let retries = if origin.came_back { &retries.of_next_generation() } else { retries };
        let (kind, error_type) = (failure.text("kind"), failure.text("type"));
        let told = subject.answers.iter().any(|answer| {
            let same =
                (answer.generation, answer.attempt) == (retries.generation.unwrap_or(0), retries.attempt);
            let said = (answer.kind, answer.error_type) == (kind, error_type)
                && answer.after == failure.retry_after();
            let cut_off = (kind, error_type) == ("transient", "Timeout");
            same && (said || cut_off)
        });
        if !told && (kind, error_type) != ("not_started", "NotStarted") {
            return Err(format!(
                "the target never said {kind} {error_type} after {:?}",
                failure.retry_after()
            ));
        }
        Ok(())
    }

    /// An invalid message, as it was received.
    fn refusal(&self, send: Send<'_>) -> Result<(), Violation> {
        self.as_produced(send)?;
        self.attributes_kept(send, "Failure")?;
        let Expected::Invalid(code) = self.expected(send.n) else {
            return Err("it is valid".to_owned());
        };
        let failure = Failure::of(&send.content.attributes);
        let verdict = failure.as_ref().map(|failure| failure.text("verdict"));
        if verdict == Some(code) { Ok(()) } else { Err(format!("the verdict is {verdict:?}, not {code}")) }
    }

    fn resend(&mut self, send: Send<'_>) -> Result<(), Violation> {
        let body = send.body.ok_or("its body cannot be read")?;
        if self.expected(send.n) != Expected::Handled {
            return Err("it is invalid, and must not be retried".to_owned());
        }
        if !self.subjects[send.n].body.as_ref().is_some_and(|sent| body.keeps(sent)) {
            return Err("bytes changed that are the producer's".to_owned());
        }
        if !self.has_attributes_of(send.n, &send.content.attributes) {
            return Err("its attributes are not the producer's".to_owned());
        }
        let mut keys: Vec<_> = self
            .cases(send.n)
            .filter(|case| self.may_resend(case, body, send).is_ok())
            .map(Case::key)
            .collect();
        keys.dedup();
        let Some(key) = keys.first().copied() else {
            let refusals: Vec<_> =
                self.cases(send.n).filter_map(|case| self.may_resend(case, body, send).err()).collect();
            let delay = send.content.delay;
            return Err(format!(
                "a re-send with {:?} after {delay} does not follow: {refusals:?}",
                body.retries
            ));
        };
        let subject = &mut self.subjects[send.n];
        subject.resent.insert(body.retries.attempt);
        // Where the target never asked for a delay, and it is clear which retry this is, all copies wait as long.
        let is_clear = keys.len() == 1 && subject.answers.iter().all(|answer| answer.after.is_none());
        let delay = send.content.delay.get();
        if is_clear && *subject.delays.entry(key).or_insert(delay) != delay {
            return Err(format!("a copy of it waits {delay} s, another one did not"));
        }
        Ok(())
    }

    fn verdict(&self, send: Send<'_>) -> Result<(), Violation> {
        no_delay(send)?;
        self.attributes_kept(send, "Failure")?;
        let Some(failure) = Failure::of(&send.content.attributes) else {
            return self.no_room(send.n);
        };
        let code = failure.text("verdict");
        if let Expected::Invalid(expected) = self.expected(send.n) {
            self.as_produced(send)?;
            return if code == expected {
                Ok(())
            } else {
                Err(format!("the verdict is {code}, not {expected}"))
            };
        }
        let same = || self.cases(send.n).filter(|case| case.body_hash == send.hash);
        if same().any(|case| self.may_give_up(case, code, &failure, send)) {
            return Ok(());
        }
        Err(format!("the verdict {code} does not follow from any of {:?}", same().collect::<Vec<_>>()))
    }

    fn annotated(&self, send: Send<'_>) -> Result<(), Violation> {
        no_delay(send)?;
        let subject = &self.subjects[send.n];
        let Some(record) = document(&send.content.attributes, "DeadLetter") else {
            return self.no_room(send.n);
        };
        self.attributes_kept(send, "DeadLetter")?;
        let text = |name: &str| {
            send.content.attributes.get(name).and_then(|attribute| attribute.text()).unwrap_or("")
        };
        let (error_type, details) = (text("ErrorType"), text("ErrorDetails"));
        if details.is_empty() || details.len() > 1024 {
            return Err(format!("ErrorDetails has {} bytes", details.len()));
        }
        let follows = |copy: &Copy| {
            let failure = copy.failure();
            let verdict = failure.map_or("", |failure| failure.text("verdict"));
            let expected = if verdict.is_empty() { "ORCHESTRATION_FAILED" } else { verdict };
            let came_back = failure.is_some_and(Failure::new_generation);
            let attempts = match &copy.retries {
                _ if subject.produced.expected != Expected::Handled => None,
                Some(_) if came_back => Some(0),
                retries => retries.as_ref().map(|retries| u64::from(retries.attempt)),
            };
            copy.receives > 0
                && copy.body_hash == send.hash
                && expected == error_type
                && attempts == record["attempts"].as_u64()
        };
        if subject.copies[Place::Annotation as usize].iter().any(follows) {
            Ok(())
        } else {
            Err(format!("ErrorType {error_type} and {} attempts do not follow", record["attempts"]))
        }
    }

    /// `redeliver redrive`: the message starts afresh.
    fn redrive(&self, send: Send<'_>) -> Result<(), Violation> {
        let body = send.body.ok_or("its body cannot be read")?;
        if !self.subjects[send.n].body.as_ref().is_some_and(|sent| body.keeps(sent)) {
            return Err("bytes changed that are the producer's".to_owned());
        }
        if !self.has_attributes_of(send.n, &send.content.attributes) {
            return Err("its attributes are not the producer's".to_owned());
        }
        let records = &self.subjects[send.n].copies[Place::Final as usize];
        let follows = |copy: &Copy| {
            copy.retries.as_ref().map(Retries::of_next_generation).is_some_and(|fresh| fresh == body.retries)
        };
        if records.iter().any(follows) {
            Ok(())
        } else {
            Err(format!("it does not start afresh: {:?}", body.retries))
        }
    }

    fn as_produced(&self, send: Send<'_>) -> Result<(), Violation> {
        no_delay(send)?;
        let produced = &self.subjects[send.n].produced.content.body;
        if *produced == send.content.body { Ok(()) } else { Err("its body was changed".to_owned()) }
    }

    fn attributes_kept(&self, send: Send<'_>, document: &str) -> Result<(), Violation> {
        let whole = unfolded(&send.content.attributes, document);
        if self.has_attributes_of(send.n, &whole) {
            return Ok(());
        }
        let expected = &self.subjects[send.n].attributes;
        let names =
            |attributes: &redeliver_core::message::Attributes| attributes.keys().cloned().collect::<Vec<_>>();
        Err(format!("the producer's attributes {:?} are {:?} now", names(expected), names(&whole)))
    }

    fn no_room(&self, n: usize) -> Result<(), Violation> {
        if self.subjects[n].is_oversize() {
            Ok(())
        } else {
            Err("no annotation, though there is room".to_owned())
        }
    }
}

fn no_delay(send: Send<'_>) -> Result<(), Violation> {
    if send.content.delay.get() == 0 { Ok(()) } else { Err("with a delay".to_owned()) }
}
