//! The routes, and the checks before each request.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::html;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;
use redeliver_operator::markup::{document, safe};
use serde::Serialize;

use crate::dead_letters::reading::Mark;
use crate::dead_letters::selection::Selection;
use crate::error::{Answer, PageError};
use crate::extract::{AtDeadLetter, AtDeployment, Id};
use crate::guard::{ALIVE, Admission, Refusal};
use crate::layout::{self, Page, Place, bare};
use crate::pages::{
    bulk_edit, cause, dead_letter, dead_letters, edit, fleet, pause, plans, start_form, status,
};
use crate::plans::runner::NotStarted;
use crate::request::{self, InForm, InPath, InQuery};
use crate::server_sent_events::live;
use crate::session::Renewed;
use crate::site::Site;

type Shared = State<Arc<Site>>;

pub(crate) fn router(site: Arc<Site>) -> Router {
    let base = site.guard.base();
    let at = |page: &str| format!("{base}{page}");
    Router::new()
        .route(&at(""), get(start_page))
        .route(&at("style.css"), get(async || typed("text/css; charset=utf-8", layout::style())))
        .route(&at("fleet.css"), get(async || typed("text/css; charset=utf-8", layout::FLEET_STYLE)))
        .route(&at("fleet"), post(survey_fleet))
        .route(&at("fleet/live"), get(fleet_live))
        .route(&at("console.js"), get(script))
        .route(ALIVE, get(who_is_there).post(let_in_again))
        .route(&at("{deployment}/"), get(show_status))
        .route(&at("{deployment}/live"), get(status_live))
        .route(&at("{deployment}/letters"), get(list_dead_letters))
        .route(&at("{deployment}/letters/live"), get(reading_live))
        .route(&at("{deployment}/letters/arrived"), get(arrived_live))
        .route(&at("{deployment}/look"), post(read_again))
        .route(&at("{deployment}/causes/{id}"), get(show_cause))
        .route(&at("{deployment}/causes/{id}/note"), post(mark_cause::<cause::NoteForm>))
        .route(&at("{deployment}/causes/{id}/resolved"), post(mark_cause::<cause::ResolvedForm>))
        .route(&at("{deployment}/letters/{id}"), get(show_dead_letter))
        .route(&at("{deployment}/letters/{id}/edit"), get(edit_dead_letter))
        .route(&at("{deployment}/letters/{id}/check"), post(check_edit))
        .route(&at("{deployment}/edit"), get(edit_selected))
        .route(&at("{deployment}/edit/check"), post(check_edit_of_selected))
        .route(&at("{deployment}/plans"), get(list_plans).post(make_plan))
        .route(&at("{deployment}/plans/{id}"), get(show_plan))
        .route(&at("{deployment}/plans/{id}/live"), get(plan_live))
        .route(&at("{deployment}/plans/{id}/start"), post(start_plan))
        .route(&at("{deployment}/plans/{id}/pause"), post(pause_plan))
        .route(&at("{deployment}/plans/{id}/cancel"), post(cancel_plan))
        .route(&at("{deployment}/plans/{id}/restore"), post(restore_plan))
        .route(&at("{deployment}/pause"), get(show_switches).post(switch))
        .route(&at("{deployment}/pause/live"), get(switches_live))
        .fallback(async || PageError::missing(request::NO_SUCH_PAGE))
        .method_not_allowed_fallback(request::wrong_method)
        .layer(axum::extract::DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guarded))
        .with_state(site)
}

/// A message has a mebibyte at most; percent-encoding makes three bytes of one.
const FORM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Admits the request first, and adds the headers of every response last.
async fn guarded(State(site): Shared, request: Request, next: Next) -> Response {
    let (method, headers, uri) = (request.method(), request.headers(), request.uri());
    let mut response = match site.guard.admit(method, headers, uri) {
        Admission::Admitted => with_trouble(next.run(request).await, &site.guard.base()),
        // The token leaves the address, so that it is in no history and on no screenshot.
        Admission::Enters => {
            let cookie = [(header::SET_COOKIE, site.guard.cookie())];
            (cookie, Redirect::to(&site.guard.base())).into_response()
        }
        Admission::EntersFromPage => {
            let base = site.guard.base();
            let headers =
                [(header::SET_COOKIE, site.guard.cookie()), (header::REFRESH, format!("0; url={base}"))];
            let body = html! { p { a href=(base) { "Continue to the console" } } };
            let head = html! { link rel="icon" href="data:,"; };
            (headers, Html(document("redeliver console", &head, &body))).into_response()
        }
        Admission::Refused(refusal) => {
            let body = html! { p class="warning" role="alert" { (refusal.words()) } };
            // The path is a secret, too.
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
    let Some(trouble) = response.extensions_mut().remove::<PageError>() else { return response };
    let (page, body) = trouble.page(base).into_response().into_parts();
    response.headers_mut().extend(page.headers);
    *response.body_mut() = body;
    response
}

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, layout::CONTENT_SECURITY_POLICY),
    (header::CACHE_CONTROL, "no-store"),
    // With `no-referrer` browsers send no `Origin` with a form.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn typed(kind: &'static str, text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Redirects after a change, so that reloading the page does not repeat it.
fn to(path: &str) -> Answer {
    Ok(Redirect::to(path).into_response())
}

async fn script(State(site): Shared) -> Response {
    let Ok(session) = serde_json::to_string(&site.session.of_pages()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    typed("text/javascript; charset=utf-8", format!("const session = {session};\n{}", layout::SCRIPT))
}

/// Anyone on this machine may ask: the answer has nothing that lets in.
async fn who_is_there(State(site): Shared) -> Response {
    json(&site.session.alive())
}

/// The link for a page of the start before.
async fn let_in_again(State(site): Shared, ticket: String) -> Response {
    if !site.session.is_of_before(&ticket) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    json(&Renewed { link: site.guard.link(), of_pages: site.session.of_pages() })
}

fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => typed("application/json", text),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn start_page(State(site): Shared) -> Response {
    let base = site.guard.base();
    if site.deployments.len() == 1 && site.fleet.is_none() {
        return Redirect::to(&format!("{base}0/")).into_response();
    }
    let body = html! {
        @if !site.deployments.is_empty() {
            ul { @for (number, deployment) in site.deployments.iter().enumerate() { li { a href={(base) (number) "/"} { (deployment.name) } } } }
        }
        @if let Some(fleet) = &site.fleet { (fleet::body(&base, fleet, &site.connection)) }
    };
    let title = if site.fleet.is_some() { "Dead-letter queues" } else { "Deployments" };
    Html(bare(&base, title, &body)).into_response()
}

async fn survey_fleet(State(site): Shared) -> Answer {
    let fleet = site.fleet.as_ref().ok_or("the console was started without --fleet")?;
    fleet::begin(fleet, &site.connection);
    to(&site.guard.base())
}

async fn fleet_live(State(site): Shared) -> Response {
    live(move || site.fleet.as_ref().filter(|fleet| fleet.is_running()).map(|_| fleet::waiting()))
}

async fn show_status(at: AtDeployment) -> Answer {
    if at.is_file() {
        return to(&at.path("letters"));
    }
    at.keep_up();
    let body = html! { div id="live" data-live=(at.path("live")) { (status::part(&at)) } };
    at.page(Place::Now, "Now", &body)
}

async fn status_live(at: AtDeployment) -> Response {
    live(move || {
        at.keep_up();
        Some(status::part(&at))
    })
}

async fn list_dead_letters(
    at: AtDeployment,
    InQuery(selection): InQuery<Selection>,
    InQuery(paging): InQuery<dead_letters::Paging>,
) -> Answer {
    at.reading.begin_if_never(&at.source, at.period);
    let body = at.blocking(move |at| dead_letters::body(at, &selection, paging)).await;
    let body = body.map_err(|trouble| trouble.leading_to(&at.path("letters")))?;
    at.page(Place::DeadLetters, "Dead letters", &body)
}

async fn reading_live(at: AtDeployment) -> Response {
    live(move || {
        let progress = at.reading.progress()?;
        let is_first = at.reading.last_seen.seen().is_none();
        Some(dead_letters::under_way(progress, is_first, &at.reading.so_far()))
    })
}

/// Shows the number of messages that arrived since the look, until there is another look.
async fn arrived_live(at: AtDeployment) -> Response {
    live(move || {
        at.keep_up();
        let snapshot = at.reading.last_seen.seen().filter(|_| at.reading.progress().is_none())?;
        Some(dead_letters::arrived(&snapshot, at.status.messages_in(&at.from)))
    })
}

async fn read_again(at: AtDeployment, InQuery(selection): InQuery<Selection>) -> Answer {
    at.reading.begin(&at.source, at.period);
    to(&selection.address(&at.path("letters")))
}

async fn show_cause(
    at: AtDeployment,
    InPath(Id { id }): InPath<Id>,
    InQuery(selection): InQuery<Selection>,
) -> Answer {
    // The address may be opened in a new console.
    if at.reading.last_seen.seen().is_none() {
        at.reading.begin_if_never(&at.source, at.period);
        let body = html! { div data-live=(at.path("letters/live")) { (dead_letters::progress(at.reading.progress().unwrap_or_default())) } };
        return at.page(Place::DeadLetters, "A cause", &body);
    }
    let page = at.blocking(move |at| cause::page(at, &id, &selection)).await;
    let Page { title, body } = page.map_err(|trouble| trouble.leading_to(&at.path("letters")))?;
    at.page(Place::DeadLetters, &title, &body)
}

async fn mark_cause<F: Into<Mark>>(
    at: AtDeployment,
    InPath(Id { id }): InPath<Id>,
    InForm(mark): InForm<F>,
) -> Answer {
    at.check_queue()?;
    let path = at.cause_path(&id);
    let mark = mark.into();
    let write =
        move |at: &AtDeployment| at.reading.mark(&at.from, &*at.snapshot()?, &id, mark, SystemClock.now());
    at.blocking(write).await?;
    to(&path)
}

async fn show_dead_letter(
    one: AtDeadLetter,
    InQuery(parameters): InQuery<dead_letter::Parameters>,
) -> Answer {
    one.at.page(Place::DeadLetters, "A dead letter", &dead_letter::body(&one, &parameters)?)
}

async fn edit_dead_letter(one: AtDeadLetter) -> Answer {
    one.at.check_queue()?;
    one.at.page(Place::DeadLetters, "Edit and send back", &edit::body(&one)?)
}

async fn check_edit(one: AtDeadLetter, InForm(edited): InForm<edit::EditForm>) -> Answer {
    let verdict = edit::verdict(&one, &edited)?;
    Ok(Html(safe(&verdict)).into_response())
}

async fn edit_selected(at: AtDeployment, InQuery(selection): InQuery<Selection>) -> Answer {
    at.check_queue()?;
    let body = at.blocking(move |at| bulk_edit::body(at, &selection)).await;
    let body = body.map_err(|trouble| trouble.leading_to(&at.path("letters")))?;
    at.page(Place::DeadLetters, "Edit and send back", &body)
}

async fn check_edit_of_selected(at: AtDeployment, InForm(asked): InForm<plans::PlanForm>) -> Answer {
    let verdict = at.blocking(move |at| asked.verdict(at)).await?;
    Ok(Html(safe(&verdict)).into_response())
}

async fn list_plans(at: AtDeployment) -> Answer {
    at.check_queue()?;
    let body = at.blocking(|at| Ok(plans::list(at))).await?;
    at.page(Place::Plans, "Plans", &body)
}

async fn make_plan(at: AtDeployment, InForm(asked): InForm<plans::PlanForm>) -> Answer {
    let plan = at.blocking(move |at| plans::make(at, &asked)).await?;
    let path = at.path(&format!("plans/{}", plan.id));
    at.runner.show(plan);
    to(&path)
}

async fn show_plan(at: AtDeployment, InPath(Id { id }): InPath<Id>) -> Answer {
    let Page { title, body } = at.blocking(move |at| plans::page(at, &id)).await?;
    at.page(Place::Plans, &title, &body)
}

async fn plan_live(at: AtDeployment, InPath(Id { id }): InPath<Id>) -> Response {
    live(move || at.runner.under_way(&id).map(|running| plans::running(&running, SystemClock.now())))
}

async fn start_plan(
    at: AtDeployment,
    InPath(Id { id }): InPath<Id>,
    InForm(pace): InForm<start_form::PaceForm>,
) -> Answer {
    let path = at.path(&format!("plans/{id}"));
    let wanted = pace.read().map_err(|wrong| PageError::from(wrong).leading_to(&path))?;
    let start = move |at: &AtDeployment| Ok(at.runner.start(&id, wanted, &at.run_context(&at.site.schema)));
    match at.blocking(start).await? {
        Ok(()) => to(&path),
        Err(NotStarted { see: Some(plan), why }) => {
            let path = at.path(&format!("plans/{plan}"));
            Err(PageError::new(StatusCode::CONFLICT, why.to_string()).leading_to(&path))
        }
        Err(NotStarted { see: None, why }) => Err(PageError::from(why).leading_to(&path)),
    }
}

async fn pause_plan(at: AtDeployment, InPath(Id { id }): InPath<Id>) -> Answer {
    at.runner.pause(&id);
    to(&at.path(&format!("plans/{id}")))
}

async fn cancel_plan(at: AtDeployment, InPath(Id { id }): InPath<Id>) -> Answer {
    let path = at.path(&format!("plans/{id}"));
    let cancelled = at.blocking(move |at| at.runner.cancel(&at.from, &id)).await;
    cancelled.map_err(|trouble| trouble.leading_to(&path))?;
    to(&at.path("plans"))
}

async fn restore_plan(at: AtDeployment, InPath(Id { id }): InPath<Id>) -> Answer {
    let back = at.path(&format!("plans/{id}"));
    let plan = at.blocking(move |at| plans::make_restore(at, &id)).await;
    let plan = plan.map_err(|trouble| trouble.leading_to(&back))?;
    let path = at.path(&format!("plans/{}", plan.id));
    at.runner.show(plan);
    to(&path)
}

async fn show_switches(at: AtDeployment) -> Answer {
    at.check_queue()?;
    at.status.keep_asking(&at.queues, &at.connection, &at.from);
    at.page(Place::Pause, "Pause and resume", &pause::switches(&at))
}

/// Updates the page until there is something to see.
async fn switches_live(at: AtDeployment) -> Response {
    live(move || {
        at.status.keep_asking(&at.queues, &at.connection, &at.from);
        if at.status.last_seen.seen().is_some() { None } else { Some(status::waiting(&at)) }
    })
}

async fn switch(at: AtDeployment, InForm(wanted): InForm<pause::SwitchForm>) -> Answer {
    let switching = at.site.switching.lock().await;
    let lines = pause::switch(&at, wanted).await?;
    drop(switching);
    let body = html! {
        pre role="status" tabindex="0" aria-label="What became of it" { (lines) }
        p { a href=(at.path("pause")) { "Back" } }
    };
    at.page(Place::Pause, "Pause and resume", &body)
}

#[cfg(test)]
mod tests;
