//! Extracts the deployment or the dead letter that a URL names.

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
use redeliver_dead_letters::redrive::{BodyEdit, RedrivePlan};
use redeliver_operator::CommandFailure;
use serde::Deserialize;

use crate::dead_letters::snapshot::{LetterEntry, Snapshot};
use crate::deployment::ConsoleDeployment;
use crate::error::{PageError, PageResult};
use crate::layout::{NAVIGATION_TABS, NavigationTab, render_document};
use crate::plans::decide::NOT_IN_SNAPSHOT;
use crate::request::PathParams;
use crate::site::Site;
use crate::url::percent_encode;

pub(crate) const NOT_READ_YET: &str = "The queue has not been read yet: open \"Dead letters\" first.";

/// A request for one of the site's deployments.
#[derive(Clone, Debug)]
pub(crate) struct DeploymentRequest {
    pub(crate) site: Arc<Site>,
    /// The deployment's index. It is always valid, since only the extractor creates it.
    number: usize,
}

impl Deref for DeploymentRequest {
    type Target = ConsoleDeployment;

    fn deref(&self) -> &ConsoleDeployment {
        &self.site.deployments[self.number]
    }
}

impl FromRequestParts<Arc<Site>> for DeploymentRequest {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, PageError> {
        #[derive(Deserialize)]
        struct DeploymentPath {
            deployment: usize,
        }
        let PathParams(DeploymentPath { deployment: number }) =
            PathParams::from_request_parts(parts, site).await?;
        match site.deployments.get(number) {
            Some(_) => Ok(Self { site: Arc::clone(site), number }),
            None => Err(PageError::not_found("There is no such deployment here.")),
        }
    }
}

impl DeploymentRequest {
    /// Returns the URL of one of the deployment's pages.
    pub(crate) fn page_path(&self, page: &str) -> String {
        format!("{}{}/{page}", self.site.guard.base_path(), self.number)
    }

    /// Refreshes the queues' counts while a page is open, and with `--refresh-every` reads the dead letters again.
    pub(crate) fn refresh_status(&self) {
        self.status.keep_polling(&self.queues, &self.connection, &self.from);
        if let (Some(every), Some(count)) = (self.site.refresh_every, self.status.message_count(&self.from)) {
            self.reading.start_if_due((&self.source, self.period), every, count, SystemClock.now());
        }
    }

    /// Returns a redrive of this deployment's messages, with an optional edit.
    pub(crate) fn redrive_plan(&self, edit: Option<BodyEdit>, new_id: bool) -> RedrivePlan {
        let (max_generation, schema) = (self.site.max_generation, self.site.schema.clone());
        let from_deployment = self.source.queue.belongs_to_deployment();
        RedrivePlan { edit, new_id, max_generation, schema, from_deployment, ..RedrivePlan::default() }
    }

    pub(crate) fn render_page(&self, place: NavigationTab, title: &str, body: &Markup) -> PageResult {
        let Site { guard, deployments, fleet, .. } = &*self.site;
        let base = guard.base_path();
        let places =
            NAVIGATION_TABS.into_iter().filter(|(other, ..)| !self.is_file() || other.exists_for_files());
        let navigation = html! {
            nav aria-label="Pages" {
                @if deployments.len() > 1 || fleet.is_some() { a href=(base) { "All" } }
                strong { (self.name) }
                @for (other, path, words) in places {
                    a href=(self.page_path(path)) aria-current=[(other == place).then_some("page")] { (words) }
                }
                @if guard.read_only { span class="badge" { "read only" } }
            }
        };
        let page = render_document(&base, title, &format!("{title} · {}", self.name), &navigation, body);
        Ok(Html(page).into_response())
    }

    /// Returns an error for a file or an archive, which can only be shown.
    pub(crate) fn check_is_queue(&self) -> Result<(), PageError> {
        self.read_only_hint().map_or(Ok(()), |why| Err(PageError::not_found(why)))
    }

    /// Returns the URL of a dead letter's page.
    pub(crate) fn letter_path(&self, sqs_message_id: &str) -> String {
        self.page_path(&format!("letters/{}", percent_encode(sqs_message_id)))
    }

    /// Returns the URL of a cause's page.
    pub(crate) fn cause_path(&self, fingerprint: &str) -> String {
        self.page_path(&format!("causes/{}", percent_encode(fingerprint)))
    }

    /// Returns the last snapshot of the dead letters.
    pub(crate) fn last_snapshot(&self) -> Result<Arc<Snapshot>, CommandFailure> {
        Ok(self.reading.last_seen.last_result().ok_or(NOT_READ_YET)?)
    }

    /// Runs a CPU-bound task on another thread.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Self) -> Result<T, CommandFailure> + Send + 'static,
    ) -> Result<T, PageError> {
        let at = self.clone();
        match tokio::task::spawn_blocking(move || task(&at)).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(PageError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The page could not be rendered: internal error.",
            )),
        }
    }
}

/// A request for a dead letter in the last snapshot.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetterRequest {
    pub(crate) at: DeploymentRequest,
    pub(crate) letter: LetterEntry,
    snapshot: Arc<Snapshot>,
}

impl FromRequestParts<Arc<Site>> for DeadLetterRequest {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, PageError> {
        let at = DeploymentRequest::from_request_parts(parts, site).await?;
        let PathParams(PathId { id }) = PathParams::from_request_parts(parts, site).await?;
        let snapshot = at.last_snapshot()?;
        let letter =
            snapshot.find_letter(&id).cloned().ok_or_else(|| PageError::not_found(NOT_IN_SNAPSHOT))?;
        Ok(Self { at, letter, snapshot })
    }
}

/// The id of a dead letter or a plan, in a path.
#[derive(Deserialize)]
pub(crate) struct PathId {
    pub(crate) id: String,
}

impl DeadLetterRequest {
    pub(crate) fn read_record(&self) -> Result<DeadLetterRecord, CommandFailure> {
        self.snapshot.read_record(&self.letter)
    }

    /// Returns the URL of the dead letter's page.
    pub(crate) fn dead_letter_path(&self) -> String {
        self.at.letter_path(&self.letter.sqs_message_id)
    }
}
