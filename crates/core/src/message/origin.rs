//! Who sent a message to the source queue, which SQS says and no producer can forge: `SenderId` ("ReceiveMessage", Amazon
//! SQS API Reference).

use std::collections::BTreeSet;

use thiserror::Error;

/// Who sent a delivery, which decides whether its hold members are believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// One of redeliver's functions.
    Resent,
    /// Anybody else.
    Producer,
    /// No setting says who re-sends, or SQS does not say who sent it.
    #[default]
    Unknown,
}

/// The roles that send messages again, by their IAM unique ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resenders(Option<BTreeSet<String>>);

/// Why a list of ids is refused: the first place, counted from 1, of what is no unique id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "entry {0} is not the unique id of an IAM role or user (AROA… or AIDA…): `aws iam get-role --role-name NAME --query Role.RoleId` prints it"
)]
pub struct NotAUniqueId(pub usize);

impl Resenders {
    /// Reads ids with commas between them; white space around each is ignored.
    ///
    /// # Errors
    /// One of them is no unique id.
    pub fn parse(text: &str) -> Result<Self, NotAUniqueId> {
        let ids: Vec<_> = text.split(',').map(|id| id.trim().to_owned()).collect();
        match ids.iter().position(|id| !is_unique_id(id)) {
            Some(index) => Err(NotAUniqueId(index + 1)),
            None => Ok(Self(Some(ids.into_iter().collect()))),
        }
    }

    /// Where messages stay on their queue: nobody sends them again.
    #[must_use]
    pub fn nobody() -> Self {
        Self(Some(BTreeSet::new()))
    }

    /// Who sent a message with this `SenderId`.
    #[must_use]
    pub fn origin_of(&self, sender_id: Option<&str>) -> Origin {
        let Some(ids) = &self.0 else { return Origin::Unknown };
        if ids.is_empty() {
            return Origin::Producer;
        }
        // Of a role: its id, a colon, and a session's name, which whoever assumes the role chooses.
        let id = sender_id.map(|sender| sender.split_once(':').map_or(sender, |(id, _)| id));
        match id.filter(|id| !is_account_id(id)) {
            Some(id) if ids.contains(id) => Origin::Resent,
            Some(_) => Origin::Producer,
            None => Origin::Unknown,
        }
    }
}

/// "IAM identifiers", AWS Identity and Access Management User Guide: a prefix for what it is, and characters that stay the
/// same for as long as it exists.
fn is_unique_id(text: &str) -> bool {
    (16..=128).contains(&text.len())
        && ["AROA", "AIDA"].iter().any(|prefix| text.starts_with(prefix))
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// It names no role: emulators give it to every message.
fn is_account_id(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "AROAFAILEDMESSAGEPROC";
    const DIRECT: &str = "AROAMESSAGEPROCESSOR1";

    #[test]
    fn a_role_that_is_listed_sends_again_and_everybody_else_is_a_producer() {
        let resenders = Resenders::parse(&format!("{FAILED}, {DIRECT}")).unwrap();
        for (sender, origin) in [
            (Some("AROAFAILEDMESSAGEPROC:orders-failed-message-processor"), Origin::Resent),
            (Some("AROAMESSAGEPROCESSOR1:x:AROAFAILEDMESSAGEPROC"), Origin::Resent),
            (Some(FAILED), Origin::Resent),
            (Some("AROAPRODUCER000000000:AROAFAILEDMESSAGEPROC"), Origin::Producer),
            (Some("AROAFAILEDMESSAGEPRO:x"), Origin::Producer),
            (Some("aroafailedmessageproc:x"), Origin::Producer),
            (Some("AIDAPRODUCER000000000"), Origin::Producer),
            // A request that nobody signed.
            (Some("203.0.113.7"), Origin::Producer),
            (Some("000000000000"), Origin::Unknown),
            (Some(""), Origin::Unknown),
            (None, Origin::Unknown),
        ] {
            assert_eq!(resenders.origin_of(sender), origin, "{sender:?}");
        }
    }

    #[test]
    fn without_a_list_nobody_is_known_and_on_a_queue_of_its_own_everybody_is_a_producer() {
        for sender in [Some("AROAFAILEDMESSAGEPROC:x"), Some("000000000000"), None] {
            assert_eq!(Resenders::default().origin_of(sender), Origin::Unknown);
            assert_eq!(Resenders::nobody().origin_of(sender), Origin::Producer);
        }
    }

    #[test]
    fn what_is_no_unique_id_is_refused_by_its_place() {
        for (text, place) in [
            ("", 1),
            ("arn:aws:iam::000000000000:role/failed-message-processor", 1),
            ("AROAFAILEDMESSAGEPROC,", 2),
            ("AROAFAILEDMESSAGEPROC,AROAMESSAGEPROCESSOR1:x", 2),
            ("AROASHORT", 1),
            ("000000000000", 1),
            ("AROAfailedmessageproc", 1),
        ] {
            assert_eq!(Resenders::parse(text), Err(NotAUniqueId(place)), "{text}");
        }
    }
}
