//! The site: which address shows or does what, and what goes before each request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Form, Path, Query, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::html;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_core::schema::MessageSchema;

use super::desk::Desk;
use super::fleet_page::{self, Fleets};
use super::frame::{self, Place, bare, page};
use super::guard::{Admission, Guard};
use super::letters::Selection;
use super::live::{Part, live};
use super::plan_page::{self, Asked, Making};
use super::policy_page::Sliders;
use super::work::Standing;
use super::{edit_page, letters_page, message_page, now_page, policy_page};
use crate::Failure;
use crate::connection::Connection;

#[derive(Debug)]
pub(super) struct Site {
    pub(super) guard: Guard,
    pub(super) desks: Vec<Desk>,
    pub(super) schema: MessageSchema,
    pub(super) max_generation: u32,
    /// Every DLQ of the account, if that is to be the first page.
    pub(super) fleet: Option<Arc<Fleets>>,
    /// Of the fleet.
    pub(super) connection: Connection,
}

type Shared = State<Arc<Site>>;

/// What is wrong, as a page.
pub(super) struct Trouble(StatusCode, String);

impl Trouble {
    fn missing(what: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, what.into())
    }
}

/// What was asked for is wrong, or AWS refuses it: the words say which.
impl<E: Into<Failure>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(StatusCode::BAD_REQUEST, error.into().to_string())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let Self(status, words) = self;
        let body = html! { p class="warning" role="alert" { (words) } p { a href="/" { "Go on from the start page" } } };
        (status, Html(bare("That did not work", &body))).into_response()
    }
}

type Answer = Result<Response, Trouble>;

pub(super) fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(start))
        .route("/style.css", get(async || typed("text/css; charset=utf-8", frame::STYLE)))
        .route("/fleet.css", get(async || typed("text/css; charset=utf-8", frame::FLEET_STYLE)))
        .route("/fleet", post(look_at_fleet))
        .route("/fleet/live", get(fleet_live))
        .route("/console.js", get(async || typed("text/javascript; charset=utf-8", frame::SCRIPT)))
        .route("/{desk}/", get(now))
        .route("/{desk}/live", get(now_live))
        .route("/{desk}/letters", get(letters))
        .route("/{desk}/letters/live", get(letters_live))
        .route("/{desk}/look", post(look))
        .route("/{desk}/letters/{id}", get(message))
        .route("/{desk}/letters/{id}/edit", get(edit))
        .route("/{desk}/letters/{id}/check", post(check))
        .route("/{desk}/plans", get(plans).post(make_plan))
        .route("/{desk}/plans/{plan}", get(plan))
        .route("/{desk}/plans/{plan}/live", get(plan_live))
        .route("/{desk}/plans/{plan}/start", post(start_plan))
        .route("/{desk}/plans/{plan}/pause", post(pause_plan))
        .route("/{desk}/pause", get(pause_page).post(switch))
        .route("/{desk}/policy", get(policy))
        .fallback(async || Trouble::missing("There is no such page.").into_response())
        .layer(axum::extract::DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guarded))
        .with_state(site)
}

/// A message has a mebibyte at most; percent-encoding makes three bytes of one.
const FORM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Before anything else: who may. After everything: what no answer goes without.
async fn guarded(State(site): Shared, request: Request, next: Next) -> Response {
    let (method, headers, uri) = (request.method(), request.headers(), request.uri());
    let mut response = match site.guard.admit(method, headers, uri.query()) {
        Admission::Admitted => next.run(request).await,
        // The token leaves the address, so that it stands in no history and on no screenshot.
        Admission::Enters => {
            let cookie = [(header::SET_COOKIE, site.guard.cookie())];
            (cookie, Redirect::to("/")).into_response()
        }
        Admission::Refused(refusal) => {
            let body = html! { p class="warning" role="alert" { (refusal.words()) } };
            (refusal.status(), Html(bare("Not here", &body))).into_response()
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
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
    fn desk(&self, number: usize) -> Result<&Desk, Trouble> {
        self.desks.get(number).ok_or_else(|| Trouble::missing("There is no such deployment here."))
    }

    /// Asks what runs to end, and waits until it has: what is hidden is given back.
    pub(super) async fn rest(&self) {
        let is_at_work = |desk: &Desk| {
            let plan = desk.works.running();
            plan.iter().for_each(|id| desk.works.pause(id));
            desk.looks.stop() || plan.is_some()
        };
        while self.desks.iter().filter(|desk| is_at_work(desk)).count() > 0 {
            SystemClock.sleep(Duration::from_millis(100)).await;
        }
    }
}

fn typed(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

fn shown(page: String) -> Answer {
    Ok(Html(page).into_response())
}

/// After a change: the browser asks for the page anew, so that loading it again changes nothing.
fn to(path: &str) -> Answer {
    Ok(Redirect::to(path).into_response())
}

async fn start(State(site): Shared) -> Response {
    if site.desks.len() == 1 && site.fleet.is_none() {
        return Redirect::to("/0/").into_response();
    }
    let body = html! {
        @if !site.desks.is_empty() {
            ul { @for (number, desk) in site.desks.iter().enumerate() { li { a href={"/" (number) "/"} { (desk.name) } } } }
        }
        @if let Some(fleet) = &site.fleet { (fleet.body(&site.connection)) }
    };
    let title = if site.fleet.is_some() { "Dead-letter queues" } else { "Deployments" };
    Html(bare(title, &body)).into_response()
}

async fn look_at_fleet(State(site): Shared) -> Answer {
    let fleet = site.fleet.as_ref().ok_or("the console was started without --fleet")?;
    fleet.begin(&site.connection);
    to("/")
}

async fn fleet_live(State(site): Shared) -> Response {
    let part = move || match &site.fleet {
        Some(fleet) if fleet.is_running() => Part::Shown(fleet_page::waiting()),
        _ => Part::Over,
    };
    live(part).into_response()
}

async fn now(State(site): Shared, Path(number): Path<usize>) -> Answer {
    let desk = site.desk(number)?;
    desk.now.look(desk);
    let part = now_page::part(desk);
    let body = html! { div id="live" data-live={"/" (number) "/live"} { (part) } };
    shown(page(&site, number, Place::Now, "Now", &body))
}

async fn now_live(State(site): Shared, Path(number): Path<usize>) -> Answer {
    site.desk(number)?;
    let part = move || {
        let Some(desk) = site.desks.get(number) else { return Part::Over };
        desk.now.look(desk);
        Part::Shown(now_page::part(desk))
    };
    Ok(live(part).into_response())
}

async fn letters(
    State(site): Shared,
    Path(number): Path<usize>,
    Query(selection): Query<Selection>,
    Query(paging): Query<letters_page::Paging>,
) -> Answer {
    let desk = site.desk(number)?;
    let looked = desk.looks.shown();
    if looked.last.is_none() && looked.running.is_none() && looked.failed.is_none() {
        desk.looks.begin(&desk.queue);
    }
    let body = blocking({
        let site = Arc::clone(&site);
        move || letters_page::body(&site, number, &selection, paging)
    })
    .await?;
    shown(page(&site, number, Place::Letters, "Dead letters", &body))
}

async fn letters_live(State(site): Shared, Path(number): Path<usize>) -> Answer {
    site.desk(number)?;
    let part = move || match site.desks.get(number).and_then(|desk| desk.looks.shown().running) {
        Some(progress) => Part::Shown(letters_page::progress(progress)),
        None => Part::Over,
    };
    Ok(live(part).into_response())
}

async fn look(State(site): Shared, Path(number): Path<usize>, Query(selection): Query<Selection>) -> Answer {
    let desk = site.desk(number)?;
    desk.looks.begin(&desk.queue);
    to(&letters_page::address(number, &selection))
}

async fn message(
    State(site): Shared,
    Path((number, id)): Path<(usize, String)>,
    Query(showing): Query<message_page::Showing>,
) -> Answer {
    let desk = site.desk(number)?;
    let letters = desk.looks.shown().last.ok_or(message_page::NOT_LOOKED)?;
    let letter = letters.find(&id).ok_or_else(|| Trouble::missing(message_page::NOT_THERE))?;
    let body = message_page::body(&site, number, &letters, letter, &showing)?;
    shown(page(&site, number, Place::Letters, "A dead letter", &body))
}

async fn edit(State(site): Shared, Path((number, id)): Path<(usize, String)>) -> Answer {
    let desk = site.desk(number)?;
    let letters = desk.looks.shown().last.ok_or(message_page::NOT_LOOKED)?;
    let letter = letters.find(&id).ok_or_else(|| Trouble::missing(message_page::NOT_THERE))?;
    let body = edit_page::body(&site, number, &letters, letter)?;
    shown(page(&site, number, Place::Letters, "Edit and send back", &body))
}

async fn check(
    State(site): Shared,
    Path((number, id)): Path<(usize, String)>,
    Form(edited): Form<edit_page::Edited>,
) -> Answer {
    let desk = site.desk(number)?;
    let letters = desk.looks.shown().last.ok_or(message_page::NOT_LOOKED)?;
    let letter = letters.find(&id).ok_or_else(|| Trouble::missing(message_page::NOT_THERE))?;
    let verdict = edit_page::verdict(&site, &letters, letter, &edited)?;
    Ok(Html(frame::harmless(&verdict.into_string())).into_response())
}

async fn plans(State(site): Shared, Path(number): Path<usize>) -> Answer {
    let body = plan_page::list(&site, site.desk(number)?, number);
    shown(page(&site, number, Place::Plans, "Plans", &body))
}

async fn make_plan(State(site): Shared, Path(number): Path<usize>, Form(asked): Form<Asked>) -> Answer {
    site.desk(number)?;
    let plan = blocking({
        let site = Arc::clone(&site);
        move || {
            let desk = &site.desks[number];
            let letters = desk.looks.shown().last.ok_or(message_page::NOT_LOOKED)?;
            Making { site: &site, desk, letters: &letters }.plan(&asked)
        }
    })
    .await?;
    let path = format!("/{number}/plans/{}", plan.id);
    site.desk(number)?.works.show(plan);
    to(&path)
}

async fn plan(State(site): Shared, Path((number, id)): Path<(usize, String)>) -> Answer {
    site.desk(number)?;
    let (title, body) = blocking({
        let site = Arc::clone(&site);
        move || plan_page::body(&site, number, &id)
    })
    .await?;
    shown(page(&site, number, Place::Plans, &title, &body))
}

async fn plan_live(State(site): Shared, Path((number, id)): Path<(usize, String)>) -> Answer {
    site.desk(number)?;
    let part = move || {
        let desk = site.desks.get(number);
        match desk.and_then(|desk| desk.works.find(&desk.from, &id)) {
            Some(Standing::Running(begun, progress)) => Part::Shown(plan_page::running(&begun, &progress)),
            _ => Part::Over,
        }
    };
    Ok(live(part).into_response())
}

async fn start_plan(
    State(site): Shared,
    Path((number, id)): Path<(usize, String)>,
    Form(pace): Form<plan_page::PaceAsked>,
) -> Answer {
    let desk = site.desk(number)?;
    desk.works.start(&desk.from, &id, pace.read()?, &desk.queue, &site.schema)?;
    to(&format!("/{number}/plans/{id}"))
}

async fn pause_plan(State(site): Shared, Path((number, id)): Path<(usize, String)>) -> Answer {
    site.desk(number)?.works.pause(&id);
    to(&format!("/{number}/plans/{id}"))
}

async fn pause_page(State(site): Shared, Path(number): Path<usize>) -> Answer {
    let desk = site.desk(number)?;
    desk.now.look(desk);
    let body = now_page::switches(&site, desk, number);
    shown(page(&site, number, Place::Pause, "Pause and resume", &body))
}

async fn switch(
    State(site): Shared,
    Path(number): Path<usize>,
    Form(wanted): Form<now_page::WantedState>,
) -> Answer {
    let desk = site.desk(number)?;
    let lines = now_page::switch(desk, wanted).await?;
    let body = html! {
        pre role="status" { (lines) }
        p { a href={"/" (number) "/pause"} { "Back" } }
    };
    shown(page(&site, number, Place::Pause, "Pause and resume", &body))
}

async fn policy(State(site): Shared, Path(number): Path<usize>, Query(sliders): Query<Sliders>) -> Answer {
    site.desk(number)?;
    let body = blocking(move || policy_page::body(number, &sliders)).await?;
    shown(page(&site, number, Place::Policy, "Policy", &body))
}

/// What keeps a processor busy, on another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Trouble> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(Trouble(StatusCode::INTERNAL_SERVER_ERROR, "The page failed.".to_owned())),
    }
}
