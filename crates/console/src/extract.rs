//! Extracts the deployment or the dead letter that an address names.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{Html, IntoResponse};
use maud::{Markup, html};
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::redrive::{Edit, Plan};
use redeliver_operator::Failure;
use serde::Deserialize;

use crate::dead_letters::snapshot::{DeadLetter, Snapshot};
use crate::deployment::Deployment;
use crate::error::{Answer, PageError};
use crate::layout::{PLACES, Place, document};
use crate::plans::decide::NOT_THERE;
use crate::request::InPath;
use crate::site::Site;
use crate::url::encoded;

pub(crate) const NOT_LOOKED: &str = "The queue was not read yet: open \"Dead letters\" first.";

/// A request at one of the site's deployments.
#[derive(Clone, Debug)]
pub(crate) struct AtDeployment {
    pub(crate) site: Arc<Site>,
    /// Always a valid index: only the extractor creates it.
    number: usize,
}

impl Deref for AtDeployment {
    type Target = Deployment;

    fn deref(&self) -> &Deployment {
        &self.site.deployments[self.number]
    }
}

impl FromRequestParts<Arc<Site>> for AtDeployment {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, PageError> {
        #[derive(Deserialize)]
        struct Named {
            deployment: usize,
        }
        let InPath(Named { deployment: number }) = InPath::from_request_parts(parts, site).await?;
        match site.deployments.get(number) {
            Some(_) => Ok(Self { site: Arc::clone(site), number }),
            None => Err(PageError::missing("There is no such deployment here.")),
        }
    }
}

impl AtDeployment {
    /// The address of one of its pages.
    pub(crate) fn path(&self, page: &str) -> String {
        format!("{}{}/{page}", self.site.guard.base(), self.number)
    }

    /// Asks for the queues' counts while a page is open, and looks at the dead letters again with `--look-every`.
    pub(crate) fn keep_up(&self) {
        self.status.keep_asking(&self.queues, &self.connection, &self.from);
        if let (Some(every), Some(count)) = (self.site.look_every, self.status.messages_in(&self.from)) {
            self.reading.begin_if_due((&self.source, self.period), every, count, SystemClock.now());
        }
    }

    /// A redrive of its messages, with an edit.
    pub(crate) fn redrive(&self, edit: Option<Edit>, new_id: bool) -> Plan {
        let (max_generation, schema) = (self.site.max_generation, self.site.schema.clone());
        let from_deployment = self.source.queue.is_of_deployment();
        Plan { edit, new_id, max_generation, schema, from_deployment, ..Plan::default() }
    }

    pub(crate) fn page(&self, place: Place, title: &str, body: &Markup) -> Answer {
        let Site { guard, deployments, fleet, .. } = &*self.site;
        let base = guard.base();
        let places = PLACES.into_iter().filter(|(other, ..)| !self.is_file() || other.is_of_files());
        let navigation = html! {
            nav aria-label="Pages" {
                @if deployments.len() > 1 || fleet.is_some() { a href=(base) { "All" } }
                strong { (self.name) }
                @for (other, path, words) in places {
                    a href=(self.path(path)) aria-current=[(other == place).then_some("page")] { (words) }
                }
                @if guard.read_only { span class="badge" { "read only" } }
            }
        };
        let page = document(&base, title, &format!("{title} · {}", self.name), &navigation, body);
        Ok(Html(page).into_response())
    }

    /// Returns an error for a file or an archive, which can only be shown.
    pub(crate) fn check_queue(&self) -> Result<(), PageError> {
        self.only_shown().map_or(Ok(()), |why| Err(PageError::missing(why)))
    }

    /// The address of a dead letter's page.
    pub(crate) fn letter_path(&self, sqs_message_id: &str) -> String {
        self.path(&format!("letters/{}", encoded(sqs_message_id)))
    }

    /// The address of a cause's page.
    pub(crate) fn cause_path(&self, fingerprint: &str) -> String {
        self.path(&format!("causes/{}", encoded(fingerprint)))
    }

    /// The last snapshot of the dead letters.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, Failure> {
        Ok(self.reading.last_seen.seen().ok_or(NOT_LOOKED)?)
    }

    /// Runs a task that keeps a processor busy on another thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, PageError> {
        let at = self.clone();
        match tokio::task::spawn_blocking(move || task(&at)).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "The page failed.")),
        }
    }
}

/// A request at a dead letter of the last snapshot.
#[derive(Clone, Debug)]
pub(crate) struct AtDeadLetter {
    pub(crate) at: AtDeployment,
    pub(crate) letter: DeadLetter,
    snapshot: Arc<Snapshot>,
}

impl FromRequestParts<Arc<Site>> for AtDeadLetter {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, PageError> {
        let at = AtDeployment::from_request_parts(parts, site).await?;
        let InPath(Id { id }) = InPath::from_request_parts(parts, site).await?;
        let snapshot = at.snapshot()?;
        let letter = snapshot.find(&id).cloned().ok_or_else(|| PageError::missing(NOT_THERE))?;
        Ok(Self { at, letter, snapshot })
    }
}

/// The id of a dead letter or a plan, in a path.
#[derive(Deserialize)]
pub(crate) struct Id {
    pub(crate) id: String,
}

impl AtDeadLetter {
    pub(crate) fn record(&self) -> Result<DeadLetterRecord, Failure> {
        self.snapshot.record(&self.letter)
    }

    /// The address of its page.
    pub(crate) fn path(&self) -> String {
        self.at.letter_path(&self.letter.sqs_message_id)
    }
}
