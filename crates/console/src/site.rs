//! The site: which address shows or does what, and what goes before each request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::html;
use redeliver_aws::SystemClock;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::Clock as _;
use tokio::sync::Mutex;

use super::at::{Answer, At, Id, OneLetter, Trouble};
use super::desk::Desk;
use super::fleet_page::{self, Fleets};
use super::frame::{self, Place, bare};
use super::guard::{Admission, Guard, Refusal};
use super::letters::Selection;
use super::live::live;
use super::request::{self, InForm, InPath, InQuery};
use super::{edit_page, letters_page, making, message_page, now_page, plan_page, start_form};
use redeliver_operator::markup::safe;
use redeliver_operator::queues::Connection;

#[derive(Debug)]
pub(super) struct Site {
    pub(super) guard: Guard,
    pub(super) desks: Vec<Desk>,
    pub(super) schema: MessageSchema,
    pub(super) max_generation: u32,
    /// Every DLQ of the account, if that is to be the first page.
    pub(super) fleet: Option<Fleets>,
    /// The connection by which the fleet is looked at.
    pub(super) connection: Connection,
    /// Held while a deployment is paused or resumed, which may take minutes.
    pub(super) switching: Mutex<()>,
}

type Shared = State<Arc<Site>>;

pub(super) fn router(site: Arc<Site>) -> Router {
    let base = site.guard.base();
    let at = |page: &str| format!("{base}{page}");
    Router::new()
        .route(&at(""), get(start_page))
        .route(&at("style.css"), get(async || typed("text/css; charset=utf-8", frame::style())))
        .route(&at("fleet.css"), get(async || typed("text/css; charset=utf-8", frame::FLEET_STYLE)))
        .route(&at("fleet"), post(look_at_fleet))
        .route(&at("fleet/live"), get(fleet_live))
        .route(&at("console.js"), get(async || typed("text/javascript; charset=utf-8", frame::SCRIPT)))
        .route(&at("{desk}/"), get(now))
        .route(&at("{desk}/live"), get(now_live))
        .route(&at("{desk}/letters"), get(letters))
        .route(&at("{desk}/letters/live"), get(letters_live))
        .route(&at("{desk}/look"), post(look))
        .route(&at("{desk}/letters/{id}"), get(message))
        .route(&at("{desk}/letters/{id}/edit"), get(edit))
        .route(&at("{desk}/letters/{id}/check"), post(check))
        .route(&at("{desk}/plans"), get(plans).post(make_plan))
        .route(&at("{desk}/plans/{id}"), get(plan))
        .route(&at("{desk}/plans/{id}/live"), get(plan_live))
        .route(&at("{desk}/plans/{id}/start"), post(start_plan))
        .route(&at("{desk}/plans/{id}/pause"), post(pause_plan))
        .route(&at("{desk}/pause"), get(pause_page).post(switch))
        .route(&at("{desk}/pause/live"), get(pause_live))
        .fallback(async || Trouble::missing(request::NO_SUCH_PAGE))
        .method_not_allowed_fallback(request::wrong_method)
        .layer(axum::extract::DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guarded))
        .with_state(site)
}

/// A message has a mebibyte at most; percent-encoding makes three bytes of one.
const FORM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Before anything else: who may. After everything: what no answer goes without.
async fn guarded(State(site): Shared, request: Request, next: Next) -> Response {
    let (method, headers, uri) = (request.method(), request.headers(), request.uri());
    let mut response = match site.guard.admit(method, headers, uri) {
        Admission::Admitted => with_trouble(next.run(request).await, &site.guard.base()),
        // The token leaves the address, so that it stands in no history and on no screenshot.
        Admission::Enters => {
            let cookie = [(header::SET_COOKIE, site.guard.cookie())];
            (cookie, Redirect::to(&site.guard.base())).into_response()
        }
        Admission::Refused(refusal) => {
            let body = html! { p class="warning" role="alert" { (refusal.words()) } };
            // The path is for those alone who are let in.
            let base = if refusal == Refusal::ReadOnly { site.guard.base() } else { "/".to_owned() };
            (refusal.status(), Html(bare(&base, "Not here", &body))).into_response()
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Renders an error as a page of this site.
fn with_trouble(mut response: Response, base: &str) -> Response {
    let Some(trouble) = response.extensions_mut().remove::<Trouble>() else { return response };
    let (page, body) = trouble.page(base).into_response().into_parts();
    response.headers_mut().extend(page.headers);
    *response.body_mut() = body;
    response
}

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, frame::CONTENT_SECURITY_POLICY),
    (header::CACHE_CONTROL, "no-store"),
    // With `no-referrer` browsers send no `Origin` with a form.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

impl Site {
    /// Asks what runs to end, and waits until it has: what is hidden is given back.
    pub(super) async fn rest(&self) {
        let is_at_work = |desk: &Desk| {
            let plan = desk.works.running();
            plan.iter().for_each(|id| desk.works.pause(id));
            desk.looks.stop() || plan.is_some()
        };
        // Each of them is asked to end: `any` would ask the first one alone.
        while self.desks.iter().filter(|desk| is_at_work(desk)).count() > 0 {
            SystemClock.sleep(Duration::from_millis(100)).await;
        }
        let _switched = self.switching.lock().await;
    }
}

fn typed(kind: &'static str, text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// After a change: the browser asks for the page anew, so that loading it again changes nothing.
fn to(path: &str) -> Answer {
    Ok(Redirect::to(path).into_response())
}

async fn start_page(State(site): Shared) -> Response {
    let base = site.guard.base();
    if site.desks.len() == 1 && site.fleet.is_none() {
        return Redirect::to(&format!("{base}0/")).into_response();
    }
    let body = html! {
        @if !site.desks.is_empty() {
            ul { @for (number, desk) in site.desks.iter().enumerate() { li { a href={(base) (number) "/"} { (desk.name) } } } }
        }
        @if let Some(fleet) = &site.fleet { (fleet_page::body(&base, fleet, &site.connection)) }
    };
    let title = if site.fleet.is_some() { "Dead-letter queues" } else { "Deployments" };
    Html(bare(&base, title, &body)).into_response()
}

async fn look_at_fleet(State(site): Shared) -> Answer {
    let fleet = site.fleet.as_ref().ok_or("the console was started without --fleet")?;
    fleet_page::begin(fleet, &site.connection);
    to(&site.guard.base())
}

async fn fleet_live(State(site): Shared) -> Response {
    live(move || site.fleet.as_ref().filter(|fleet| fleet.is_running()).map(|_| fleet_page::waiting()))
}

async fn now(at: At) -> Answer {
    if at.is_file() {
        return to(&at.path("letters"));
    }
    at.now.look(&at);
    let body = html! { div id="live" data-live=(at.path("live")) { (now_page::part(&at)) } };
    at.page(Place::Now, "Now", &body)
}

async fn now_live(at: At) -> Response {
    live(move || {
        at.now.look(&at);
        Some(now_page::part(&at))
    })
}

async fn letters(
    at: At,
    InQuery(selection): InQuery<Selection>,
    InQuery(paging): InQuery<letters_page::Paging>,
) -> Answer {
    at.looks.begin_if_never(&at.source);
    let body = at.blocking(move |at| letters_page::body(at, &selection, paging)).await;
    let body = body.map_err(|trouble| trouble.leading_to(&at.path("letters")))?;
    at.page(Place::Letters, "Dead letters", &body)
}

async fn letters_live(at: At) -> Response {
    live(move || at.looks.progress().map(letters_page::progress))
}

async fn look(at: At, InQuery(selection): InQuery<Selection>) -> Answer {
    at.looks.begin(&at.source);
    to(&selection.address(&at.path("letters")))
}

async fn message(one: OneLetter, InQuery(showing): InQuery<message_page::Showing>) -> Answer {
    one.at.page(Place::Letters, "A dead letter", &message_page::body(&one, &showing)?)
}

async fn edit(one: OneLetter) -> Answer {
    one.at.check_queue()?;
    one.at.page(Place::Letters, "Edit and send back", &edit_page::body(&one)?)
}

async fn check(one: OneLetter, InForm(edited): InForm<edit_page::Edited>) -> Answer {
    let verdict = edit_page::verdict(&one, &edited)?;
    Ok(Html(safe(&verdict)).into_response())
}

async fn plans(at: At) -> Answer {
    at.check_queue()?;
    let body = at.blocking(|at| Ok(plan_page::list(at))).await?;
    at.page(Place::Plans, "Plans", &body)
}

async fn make_plan(at: At, InForm(asked): InForm<making::Asked>) -> Answer {
    let plan = at.blocking(move |at| making::plan(at, &asked)).await?;
    let path = at.path(&format!("plans/{}", plan.id));
    at.works.show(plan);
    to(&path)
}

async fn plan(at: At, InPath(Id { id }): InPath<Id>) -> Answer {
    let (title, body) = at.blocking(move |at| plan_page::body(at, &id)).await?;
    at.page(Place::Plans, &title, &body)
}

async fn plan_live(at: At, InPath(Id { id }): InPath<Id>) -> Response {
    live(move || at.works.under_way(&id).map(|(begun, progress)| plan_page::running(&begun, &progress)))
}

async fn start_plan(
    at: At,
    InPath(Id { id }): InPath<Id>,
    InForm(pace): InForm<start_form::PaceAsked>,
) -> Answer {
    let (path, pace) = (at.path(&format!("plans/{id}")), pace.read()?);
    let start = move |at: &At| {
        let queues = (at.from.as_str(), at.source());
        at.works.start(queues, &id, pace, &at.source.queue, &at.site.schema)
    };
    at.blocking(start).await?;
    to(&path)
}

async fn pause_plan(at: At, InPath(Id { id }): InPath<Id>) -> Answer {
    at.works.pause(&id);
    to(&at.path(&format!("plans/{id}")))
}

async fn pause_page(at: At) -> Answer {
    at.check_queue()?;
    at.now.look(&at);
    at.page(Place::Pause, "Pause and resume", &now_page::switches(&at))
}

/// Until there is something to see.
async fn pause_live(at: At) -> Response {
    live(move || {
        at.now.look(&at);
        if at.now.latest.seen().is_some() { None } else { Some(now_page::waiting(&at)) }
    })
}

async fn switch(at: At, InForm(wanted): InForm<now_page::WantedState>) -> Answer {
    let switching = at.site.switching.lock().await;
    let lines = now_page::switch(&at, wanted).await?;
    drop(switching);
    let body = html! {
        pre role="status" tabindex="0" aria-label="What became of it" { (lines) }
        p { a href=(at.path("pause")) { "Back" } }
    };
    at.page(Place::Pause, "Pause and resume", &body)
}

#[cfg(test)]
mod tests;
