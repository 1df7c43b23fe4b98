//! Lets open pages find the console again after a restart.
//!
//! Each run has a new path and a new token. While the console is down, another user's server can take its port and
//! receive the cookie of anyone who reloads a page; therefore, a restarted console does not accept that cookie. A page
//! has two more secrets, which neither a URL nor a cookie contains. A console started with the same command reads both
//! from a private file: it proves its identity to the page with the first, and only then does the page present the
//! second and receive the new link. Both work once: the next run creates new secrets, and accepts only those of the run
//! directly before it.

use std::path::{Path, PathBuf};

use redeliver_dead_letters::files::{read_own_file, replace_file};
use serde::{Deserialize, Serialize};

use crate::guard::SecretToken;

/// The secrets of the console's current run, and those of its previous run.
#[derive(Debug)]
pub(crate) struct Session {
    own: Secrets,
    before: Option<Secrets>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Secrets {
    /// Identifies the command and its queues.
    command: String,
    /// Identifies the run. Not a secret.
    id: SecretToken,
    /// Proves to a page that this is its console.
    proof: SecretToken,
    /// Proves to the console that a page belongs to it.
    ticket: SecretToken,
}

/// The response to a page that checks which console is running.
#[derive(Debug, Serialize)]
pub(crate) struct LivenessResponse<'a> {
    id: &'a str,
    /// The previous run's proof, for pages opened during that run.
    proof: Option<&'a str>,
}

/// The secrets given to the pages of a run.
#[derive(Debug, Serialize)]
pub(crate) struct PageSecrets<'a> {
    id: &'a SecretToken,
    proof: &'a SecretToken,
    ticket: &'a SecretToken,
}

/// The response to a page from the previous run that has presented its ticket.
#[derive(Debug, Serialize)]
pub(crate) struct RenewedLink<'a> {
    pub(crate) link: String,
    #[serde(flatten)]
    pub(crate) secrets: PageSecrets<'a>,
}

impl Session {
    /// Creates a session without a previous run.
    pub(crate) fn new(command: String) -> Self {
        let [id, proof, ticket] = [(); 3].map(|()| SecretToken::new());
        Self { own: Secrets { command, id, proof, ticket }, before: None }
    }

    /// Continues the stored session of the same command, and stores this one for the next run. Without a folder for
    /// the user's private files, pages must be opened with the new link.
    pub(crate) fn restore_from(folder: Option<&Path>, port: u16, command: String) -> Self {
        let session = Self::new(command);
        let Some(path) = folder.map(|folder| folder.join(format!("redeliver-console-{port}.json"))) else {
            return session;
        };
        let before = read_own_file(&path).ok().and_then(|text| serde_json::from_str::<Secrets>(&text).ok());
        let before = before.filter(|before| before.command == session.own.command);
        let kept = serde_json::to_vec(&session.own).map(|text| replace_file(&path, &text));
        // Secrets that cannot be stored are of no use to a page.
        if !matches!(kept, Ok(Ok(()))) {
            return session;
        }
        Self { before, ..session }
    }

    /// Returns this run's secrets, for its pages.
    pub(crate) fn page_secrets(&self) -> PageSecrets<'_> {
        let Secrets { id, proof, ticket, .. } = &self.own;
        PageSecrets { id, proof, ticket }
    }

    pub(crate) fn liveness_response(&self) -> LivenessResponse<'_> {
        let proof = self.before.as_ref().map(|before| before.proof.as_str());
        LivenessResponse { id: self.own.id.as_str(), proof }
    }

    /// True if the ticket is that of the previous run.
    pub(crate) fn matches_previous_ticket(&self, ticket: &str) -> bool {
        self.before.as_ref().is_some_and(|before| before.ticket.matches_guess(ticket))
    }
}

/// Returns the user's runtime folder, which exists until logout, or otherwise the user's state folder. Unlike
/// `--folder`, neither is shared or under version control.
#[expect(
    clippy::disallowed_methods,
    reason = "these variables name folders of the user; they are not settings"
)]
pub(crate) fn state_folder() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(runtime) = named("XDG_RUNTIME_DIR").filter(|path| path.is_dir()) {
        return Some(runtime);
    }
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    let folder = state.join("redeliver");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_session(folder: &Path, command: &str) -> Session {
        Session::restore_from(Some(folder), 8722, command.to_owned())
    }

    #[test]
    fn a_console_accepts_only_the_previous_runs_ticket() {
        let folder = tempfile::tempdir().unwrap();
        let first = start_session(folder.path(), "orders");
        assert!(first.liveness_response().proof.is_none());
        let second = start_session(folder.path(), "orders");
        assert_eq!(second.liveness_response().proof, Some(first.own.proof.as_str()));
        assert!(
            second.matches_previous_ticket(first.own.ticket.as_str())
                && !second.matches_previous_ticket("guessed")
        );
        assert!(!second.matches_previous_ticket(second.own.ticket.as_str()), "its own pages have its cookie");
        let third = start_session(folder.path(), "orders");
        assert!(
            !third.matches_previous_ticket(first.own.ticket.as_str()),
            "a ticket of an earlier start is rejected"
        );
    }

    #[test]
    fn a_session_from_another_command_or_user_is_not_restored() {
        let folder = tempfile::tempdir().unwrap();
        let first = start_session(folder.path(), "orders");
        let other = start_session(folder.path(), "payments");
        assert!(
            other.liveness_response().proof.is_none()
                && !other.matches_previous_ticket(first.own.ticket.as_str())
        );
        let path = folder.path().join("redeliver-console-8722.json");
        let mode = |mode| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(0o666);
        assert!(start_session(folder.path(), "payments").liveness_response().proof.is_none());
        let nowhere = folder.path().join("missing");
        assert!(start_session(&nowhere, "payments").liveness_response().proof.is_none());
    }

    #[test]
    fn only_the_owner_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        drop(start_session(folder.path(), "orders"));
        let file = folder.path().join("redeliver-console-8722.json").metadata().unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
}
