//! The sender of a message to the source queue, from SQS's `SenderId`, which producers cannot forge ("ReceiveMessage",
//! Amazon SQS API Reference).

use std::collections::BTreeSet;

use thiserror::Error;

/// The sender of a delivery, which determines whether its hold members are trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// One of redeliver's functions.
    Resent,
    /// Another sender.
    Producer,
    /// The re-senders are not configured, or SQS does not report the sender.
    #[default]
    Unknown,
}

/// The roles that re-send messages, by their unique IAM ids. By default, none are configured and every sender is
/// [`Origin::Unknown`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resenders(Option<BTreeSet<String>>);

/// The error for an invalid list of ids: the position, starting at 1, of the first entry that is not a unique id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "entry {0} is not the unique id of an IAM role or user (AROA… or AIDA…): `aws iam get-role --role-name NAME --query Role.RoleId` prints it"
)]
pub struct NotAUniqueId(pub usize);

impl Resenders {
    /// Parses a comma-separated list of ids. White space around ids is ignored.
    ///
    /// # Errors
    /// Returns the position of the first entry that is not a unique id.
    pub fn parse(text: &str) -> Result<Self, NotAUniqueId> {
        let ids: Vec<_> = text.split(',').map(|id| id.trim().to_owned()).collect();
        match ids.iter().position(|id| !is_unique_id(id)) {
            Some(index) => Err(NotAUniqueId(index + 1)),
            None => Ok(Self(Some(ids.into_iter().collect()))),
        }
    }

    /// Creates an empty list, for queues to which nothing is re-sent: every sender is [`Origin::Producer`].
    #[must_use]
    pub fn empty() -> Self {
        Self(Some(BTreeSet::new()))
    }

    /// Returns the origin of a message with this `SenderId`. For a role (an id, a colon and a session name), only the
    /// id counts. A missing id, or an account id as set by emulators, is [`Origin::Unknown`].
    #[must_use]
    pub fn sender_origin(&self, sender_id: Option<&str>) -> Origin {
        let Some(ids) = &self.0 else { return Origin::Unknown };
        if ids.is_empty() {
            return Origin::Producer;
        }
        // The caller of `AssumeRole` chooses the session name, so it must not count.
        let id = sender_id.map(|sender| sender.split_once(':').map_or(sender, |(id, _)| id));
        match id.filter(|id| !is_account_id(id)) {
            Some(id) if ids.contains(id) => Origin::Resent,
            Some(_) => Origin::Producer,
            None => Origin::Unknown,
        }
    }
}

/// Returns true for a resource-type prefix followed by an immutable id ("IAM identifiers", AWS Identity and Access
/// Management User Guide).
fn is_unique_id(text: &str) -> bool {
    (16..=128).contains(&text.len())
        && ["AROA", "AIDA"].iter().any(|prefix| text.starts_with(prefix))
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Returns true for an account id. Emulators set it on every message, and it does not identify a role.
fn is_account_id(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = "AROAFAILEDMESSAGEPROC";
    const DIRECT: &str = "AROAMESSAGEPROCESSOR1";

    #[test]
    fn only_a_listed_role_is_a_resender() {
        let resenders = Resenders::parse(&format!("{FAILED}, {DIRECT}")).unwrap();
        for (sender, origin) in [
            (Some("AROAFAILEDMESSAGEPROC:orders-failed-message-processor"), Origin::Resent),
            (Some("AROAMESSAGEPROCESSOR1:x:AROAFAILEDMESSAGEPROC"), Origin::Resent),
            (Some(FAILED), Origin::Resent),
            (Some("AROAPRODUCER000000000:AROAFAILEDMESSAGEPROC"), Origin::Producer),
            (Some("AROAFAILEDMESSAGEPRO:x"), Origin::Producer),
            (Some("aroafailedmessageproc:x"), Origin::Producer),
            (Some("AIDAPRODUCER000000000"), Origin::Producer),
            // An unsigned request.
            (Some("203.0.113.7"), Origin::Producer),
            (Some("000000000000"), Origin::Unknown),
            (Some(""), Origin::Unknown),
            (None, Origin::Unknown),
        ] {
            assert_eq!(resenders.sender_origin(sender), origin, "{sender:?}");
        }
    }

    #[test]
    fn a_sender_is_unknown_without_a_list_and_a_producer_if_it_is_empty() {
        for sender in [Some("AROAFAILEDMESSAGEPROC:x"), Some("000000000000"), None] {
            assert_eq!(Resenders::default().sender_origin(sender), Origin::Unknown);
            assert_eq!(Resenders::empty().sender_origin(sender), Origin::Producer);
        }
    }

    #[test]
    fn invalid_unique_id_is_refused_with_its_position() {
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
