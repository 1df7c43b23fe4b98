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
use redeliver_operator::markup::{escape_markup, render_document};
use serde::Serialize;

use crate::dead_letters::reading::Mark;
use crate::dead_letters::selection::Selection;
use crate::error::{PageError, PageResult};
use crate::extract::{DeadLetterRequest, DeploymentRequest, PathId};
use crate::guard::{ALIVE, Admission, GuardRefusal};
use crate::layout::{self, NavigationTab, TitledPage, render_bare_page};
use crate::pages::{
    bulk_edit, cause, dead_letter, dead_letters, edit, fleet, pause, plans, start_form, status,
};
use crate::plans::runner::StartError;
use crate::request::{self, FormFields, PathParams, QueryParams};
use crate::server_sent_events::stream_part;
use crate::session::RenewedLink;
use crate::site::Site;

type SiteState = State<Arc<Site>>;

pub(crate) fn build_router(site: Arc<Site>) -> Router {
    let base = site.guard.base_path();
    let at = |page: &str| format!("{base}{page}");
    Router::new()
        .route(&at(""), get(show_start_page))
        .route(
            &at("style.css"),
            get(async || typed_response("text/css; charset=utf-8", layout::combined_style())),
        )
        .route(&at("fleet.css"), get(async || typed_response("text/css; charset=utf-8", layout::FLEET_STYLE)))
        .route(&at("fleet"), post(survey_fleet))
        .route(&at("fleet/live"), get(stream_fleet))
        .route(&at("console.js"), get(serve_script))
        .route(ALIVE, get(serve_liveness).post(renew_link))
        .route(&at("{deployment}/"), get(show_status))
        .route(&at("{deployment}/live"), get(stream_status))
        .route(&at("{deployment}/letters"), get(list_dead_letters))
        .route(&at("{deployment}/letters/live"), get(stream_reading))
        .route(&at("{deployment}/letters/arrived"), get(stream_arrivals))
        .route(&at("{deployment}/refresh"), post(restart_reading))
        .route(&at("{deployment}/causes/{id}"), get(show_cause))
        .route(&at("{deployment}/causes/{id}/note"), post(mark_cause::<cause::NoteForm>))
        .route(&at("{deployment}/causes/{id}/resolved"), post(mark_cause::<cause::ResolvedForm>))
        .route(&at("{deployment}/letters/{id}"), get(show_dead_letter))
        .route(&at("{deployment}/letters/{id}/edit"), get(edit_dead_letter))
        .route(&at("{deployment}/letters/{id}/check"), post(check_edit))
        .route(&at("{deployment}/edit"), get(show_bulk_edit))
        .route(&at("{deployment}/edit/check"), post(check_bulk_edit))
        .route(&at("{deployment}/plans"), get(list_plans).post(make_plan))
        .route(&at("{deployment}/plans/{id}"), get(show_plan))
        .route(&at("{deployment}/plans/{id}/live"), get(stream_plan))
        .route(&at("{deployment}/plans/{id}/start"), post(start_plan))
        .route(&at("{deployment}/plans/{id}/pause"), post(pause_plan))
        .route(&at("{deployment}/plans/{id}/cancel"), post(cancel_plan))
        .route(&at("{deployment}/plans/{id}/restore"), post(restore_plan))
        .route(&at("{deployment}/pause"), get(show_switches).post(switch_queues))
        .route(&at("{deployment}/pause/live"), get(stream_switches))
        .fallback(async || PageError::not_found(request::NO_SUCH_PAGE))
        .method_not_allowed_fallback(request::reject_method)
        .layer(axum::extract::DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guard_request))
        .with_state(site)
}

/// Large enough for a message: at most 1 MiB, tripled by percent-encoding.
const FORM_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Checks admission before anything else, and adds the headers to every response.
async fn guard_request(State(site): SiteState, request: Request, next: Next) -> Response {
    let (method, headers, uri) = (request.method(), request.headers(), request.uri());
    let mut response = match site.guard.admit_request(method, headers, uri) {
        Admission::Admitted => render_error(next.run(request).await, &site.guard.base_path()),
        // The token is removed from the URL, so that it does not appear in the browser history or in screenshots.
        Admission::Enters => {
            let cookie = [(header::SET_COOKIE, site.guard.cookie_header())];
            (cookie, Redirect::to(&site.guard.base_path())).into_response()
        }
        Admission::EntersFromPage => {
            let base = site.guard.base_path();
            let headers = [
                (header::SET_COOKIE, site.guard.cookie_header()),
                (header::REFRESH, format!("0; url={base}")),
            ];
            let body = html! { p { a href=(base) { "Continue to the console" } } };
            let head = html! { link rel="icon" href="data:,"; };
            (headers, Html(render_document("redeliver console", &head, &body))).into_response()
        }
        Admission::Refused(refusal) => {
            let body = html! { p class="warning" role="alert" { (refusal.explain_refusal()) } };
            // The path is also a secret, so the page does not link to it.
            let base =
                if refusal == GuardRefusal::ReadOnly { site.guard.base_path() } else { "/".to_owned() };
            (refusal.status_code(), Html(render_bare_page(&base, "Request refused", &body))).into_response()
        }
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Renders an error as a page of this site.
fn render_error(mut response: Response, base: &str) -> Response {
    let Some(trouble) = response.extensions_mut().remove::<PageError>() else { return response };
    let (page, body) = trouble.render_page(base).into_response().into_parts();
    response.headers_mut().extend(page.headers);
    *response.body_mut() = body;
    response
}

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, layout::CONTENT_SECURITY_POLICY),
    (header::CACHE_CONTROL, "no-store"),
    // With `no-referrer`, browsers do not send the `Origin` of a form.
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn typed_response(kind: &'static str, text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Redirects after a change, so that reloading the page does not repeat it.
fn redirect_to(path: &str) -> PageResult {
    Ok(Redirect::to(path).into_response())
}

async fn serve_script(State(site): SiteState) -> Response {
    let Ok(session) = serde_json::to_string(&site.session.page_secrets()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    typed_response(
        "text/javascript; charset=utf-8",
        format!("const session = {session};\n{}", layout::SCRIPT),
    )
}

/// Responds to anyone on this machine: the response contains nothing that grants access.
async fn serve_liveness(State(site): SiteState) -> Response {
    json_response(&site.session.liveness_response())
}

/// Sends the new link to a page from the previous run.
async fn renew_link(State(site): SiteState, ticket: String) -> Response {
    if !site.session.matches_previous_ticket(&ticket) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    json_response(&RenewedLink { link: site.guard.entry_link(), secrets: site.session.page_secrets() })
}

fn json_response(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => typed_response("application/json", text),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn show_start_page(State(site): SiteState) -> Response {
    let base = site.guard.base_path();
    if site.deployments.len() == 1 && site.fleet.is_none() {
        return Redirect::to(&format!("{base}0/")).into_response();
    }
    let body = html! {
        @if !site.deployments.is_empty() {
            ul { @for (number, deployment) in site.deployments.iter().enumerate() { li { a href={(base) (number) "/"} { (deployment.name) } } } }
        }
        @if let Some(fleet) = &site.fleet { (fleet::render_fleet(&base, fleet, &site.connection)) }
    };
    let title = if site.fleet.is_some() { "Dead-letter queues" } else { "Deployments" };
    Html(render_bare_page(&base, title, &body)).into_response()
}

async fn survey_fleet(State(site): SiteState) -> PageResult {
    let fleet = site.fleet.as_ref().ok_or("the console was started without --fleet")?;
    fleet::start_survey(fleet, &site.connection);
    redirect_to(&site.guard.base_path())
}

async fn stream_fleet(State(site): SiteState) -> Response {
    stream_part(move || {
        site.fleet.as_ref().filter(|fleet| fleet.is_running()).map(|_| fleet::render_survey_placeholder())
    })
}

async fn show_status(at: DeploymentRequest) -> PageResult {
    if at.is_file() {
        return redirect_to(&at.page_path("letters"));
    }
    at.refresh_status();
    let body = html! { div id="live" data-live=(at.page_path("live")) { (status::render_status(&at)) } };
    at.render_page(NavigationTab::Now, "Now", &body)
}

async fn stream_status(at: DeploymentRequest) -> Response {
    stream_part(move || {
        at.refresh_status();
        Some(status::render_status(&at))
    })
}

async fn list_dead_letters(
    at: DeploymentRequest,
    QueryParams(selection): QueryParams<Selection>,
    QueryParams(paging): QueryParams<dead_letters::Paging>,
) -> PageResult {
    at.reading.start_first_reading(&at.source, at.period);
    let body = at.run_blocking(move |at| dead_letters::render_dead_letters(at, &selection, paging)).await;
    let body = body.map_err(|trouble| trouble.with_back_link(&at.page_path("letters")))?;
    at.render_page(NavigationTab::DeadLetters, "Dead letters", &body)
}

async fn stream_reading(at: DeploymentRequest) -> Response {
    stream_part(move || {
        let progress = at.reading.current_progress()?;
        let is_first = at.reading.last_seen.last_result().is_none();
        Some(dead_letters::render_running_reading(progress, is_first, &at.reading.causes_so_far()))
    })
}

/// Streams the number of messages that have arrived since the last reading, until the next one starts.
async fn stream_arrivals(at: DeploymentRequest) -> Response {
    stream_part(move || {
        at.refresh_status();
        let snapshot =
            at.reading.last_seen.last_result().filter(|_| at.reading.current_progress().is_none())?;
        Some(dead_letters::render_arrival_count(&snapshot, at.status.message_count(&at.from)))
    })
}

async fn restart_reading(
    at: DeploymentRequest,
    QueryParams(selection): QueryParams<Selection>,
) -> PageResult {
    at.reading.start_reading(&at.source, at.period);
    redirect_to(&selection.page_url(&at.page_path("letters")))
}

async fn show_cause(
    at: DeploymentRequest,
    PathParams(PathId { id }): PathParams<PathId>,
    QueryParams(selection): QueryParams<Selection>,
) -> PageResult {
    // The URL can be opened in a new console, which has read nothing yet.
    if at.reading.last_seen.last_result().is_none() {
        at.reading.start_first_reading(&at.source, at.period);
        let body = html! { div data-live=(at.page_path("letters/live")) { (dead_letters::render_progress(at.reading.current_progress().unwrap_or_default())) } };
        return at.render_page(NavigationTab::DeadLetters, "A cause", &body);
    }
    let page = at.run_blocking(move |at| cause::render_cause(at, &id, &selection)).await;
    let TitledPage { title, body } =
        page.map_err(|trouble| trouble.with_back_link(&at.page_path("letters")))?;
    at.render_page(NavigationTab::DeadLetters, &title, &body)
}

async fn mark_cause<F: Into<Mark>>(
    at: DeploymentRequest,
    PathParams(PathId { id }): PathParams<PathId>,
    FormFields(mark): FormFields<F>,
) -> PageResult {
    at.check_is_queue()?;
    let path = at.cause_path(&id);
    let mark = mark.into();
    let write = move |at: &DeploymentRequest| {
        at.reading.mark_cause(&at.from, &*at.last_snapshot()?, &id, mark, SystemClock.now())
    };
    at.run_blocking(write).await?;
    redirect_to(&path)
}

async fn show_dead_letter(
    request: DeadLetterRequest,
    QueryParams(parameters): QueryParams<dead_letter::Parameters>,
) -> PageResult {
    request.at.render_page(
        NavigationTab::DeadLetters,
        "A dead letter",
        &dead_letter::render_dead_letter(&request, &parameters)?,
    )
}

async fn edit_dead_letter(request: DeadLetterRequest) -> PageResult {
    request.at.check_is_queue()?;
    request.at.render_page(
        NavigationTab::DeadLetters,
        "Edit and send back",
        &edit::render_edit_form(&request)?,
    )
}

async fn check_edit(
    request: DeadLetterRequest,
    FormFields(edited): FormFields<edit::EditForm>,
) -> PageResult {
    let verdict = edit::render_edit_verdict(&request, &edited)?;
    Ok(Html(escape_markup(&verdict)).into_response())
}

async fn show_bulk_edit(at: DeploymentRequest, QueryParams(selection): QueryParams<Selection>) -> PageResult {
    at.check_is_queue()?;
    let body = at.run_blocking(move |at| bulk_edit::render_bulk_form(at, &selection)).await;
    let body = body.map_err(|trouble| trouble.with_back_link(&at.page_path("letters")))?;
    at.render_page(NavigationTab::DeadLetters, "Edit and send back", &body)
}

async fn check_bulk_edit(at: DeploymentRequest, FormFields(form): FormFields<plans::PlanForm>) -> PageResult {
    let verdict = at.run_blocking(move |at| form.edit_verdict(at)).await?;
    Ok(Html(escape_markup(&verdict)).into_response())
}

async fn list_plans(at: DeploymentRequest) -> PageResult {
    at.check_is_queue()?;
    let body = at.run_blocking(|at| Ok(plans::render_plans(at))).await?;
    at.render_page(NavigationTab::Plans, "Plans", &body)
}

async fn make_plan(at: DeploymentRequest, FormFields(form): FormFields<plans::PlanForm>) -> PageResult {
    let plan = at.run_blocking(move |at| plans::make_plan(at, &form)).await?;
    let path = at.page_path(&format!("plans/{}", plan.id));
    at.runner.keep_plan(plan);
    redirect_to(&path)
}

async fn show_plan(at: DeploymentRequest, PathParams(PathId { id }): PathParams<PathId>) -> PageResult {
    let TitledPage { title, body } = at.run_blocking(move |at| plans::render_plan(at, &id)).await?;
    at.render_page(NavigationTab::Plans, &title, &body)
}

async fn stream_plan(at: DeploymentRequest, PathParams(PathId { id }): PathParams<PathId>) -> Response {
    stream_part(move || {
        at.runner.find_running(&id).map(|running| plans::render_progress(&running, SystemClock.now()))
    })
}

async fn start_plan(
    at: DeploymentRequest,
    PathParams(PathId { id }): PathParams<PathId>,
    FormFields(pace): FormFields<start_form::PaceForm>,
) -> PageResult {
    let path = at.page_path(&format!("plans/{id}"));
    let wanted = pace.parse_request().map_err(|wrong| PageError::from(wrong).with_back_link(&path))?;
    let start =
        move |at: &DeploymentRequest| Ok(at.runner.start_plan(&id, wanted, &at.run_context(&at.site.schema)));
    match at.run_blocking(start).await? {
        Ok(()) => redirect_to(&path),
        Err(StartError { see: Some(plan), why }) => {
            let path = at.page_path(&format!("plans/{plan}"));
            Err(PageError::new(StatusCode::CONFLICT, why.to_string()).with_back_link(&path))
        }
        Err(StartError { see: None, why }) => Err(PageError::from(why).with_back_link(&path)),
    }
}

async fn pause_plan(at: DeploymentRequest, PathParams(PathId { id }): PathParams<PathId>) -> PageResult {
    at.runner.pause_run(&id);
    redirect_to(&at.page_path(&format!("plans/{id}")))
}

async fn cancel_plan(at: DeploymentRequest, PathParams(PathId { id }): PathParams<PathId>) -> PageResult {
    let path = at.page_path(&format!("plans/{id}"));
    let cancelled = at.run_blocking(move |at| at.runner.cancel_plan(&at.from, &id)).await;
    cancelled.map_err(|trouble| trouble.with_back_link(&path))?;
    redirect_to(&at.page_path("plans"))
}

async fn restore_plan(at: DeploymentRequest, PathParams(PathId { id }): PathParams<PathId>) -> PageResult {
    let back = at.page_path(&format!("plans/{id}"));
    let plan = at.run_blocking(move |at| plans::make_restore_plan(at, &id)).await;
    let plan = plan.map_err(|trouble| trouble.with_back_link(&back))?;
    let path = at.page_path(&format!("plans/{}", plan.id));
    at.runner.keep_plan(plan);
    redirect_to(&path)
}

async fn show_switches(at: DeploymentRequest) -> PageResult {
    at.check_is_queue()?;
    at.status.keep_polling(&at.queues, &at.connection, &at.from);
    at.render_page(NavigationTab::Pause, "Pause and resume", &pause::render_switches(&at))
}

/// Updates the page until the status has arrived.
async fn stream_switches(at: DeploymentRequest) -> Response {
    stream_part(move || {
        at.status.keep_polling(&at.queues, &at.connection, &at.from);
        if at.status.last_seen.last_result().is_some() { None } else { Some(status::render_placeholder(&at)) }
    })
}

async fn switch_queues(
    at: DeploymentRequest,
    FormFields(wanted): FormFields<pause::SwitchForm>,
) -> PageResult {
    let switching = at.site.switch_lock.lock().await;
    let lines = pause::pause_or_resume_readers(&at, wanted).await?;
    drop(switching);
    let body = html! {
        pre role="status" tabindex="0" aria-label="Result" { (lines) }
        p { a href=(at.page_path("pause")) { "Back" } }
    };
    at.render_page(NavigationTab::Pause, "Pause and resume", &body)
}

#[cfg(test)]
mod tests;
