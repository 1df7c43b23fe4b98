//! The layout shared by all pages, with its styles and script. It loads nothing from other sites.

use maud::{Markup, html};
use redeliver_operator::{dead_letter, markup};

/// Combines the styles shared by all pages, those of a dead letter's story, and the console's own.
pub(crate) fn combined_style() -> String {
    [markup::STYLE, dead_letter::STYLE, include_str!("console.css")].concat()
}

pub(crate) const FLEET_STYLE: &str = redeliver_operator::fleet::html::STYLE;
pub(crate) const SCRIPT: &str = include_str!("console.js");

/// Nothing is loaded from another site, no page contains an inline script or style, and no site may frame a page.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src \
     'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A page of a deployment, without the layout.
pub(crate) struct TitledPage {
    pub(crate) title: String,
    pub(crate) body: Markup,
}

/// The id of the table of causes. A page with this table has a link to skip to it.
pub(crate) const CAUSES: &str = "causes";

/// A deployment's pages, as listed in the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NavigationTab {
    Now,
    DeadLetters,
    Plans,
    Pause,
}

impl NavigationTab {
    /// True for the page that also exists for a file.
    pub(crate) const fn exists_for_files(self) -> bool {
        matches!(self, Self::DeadLetters)
    }
}

/// The pages, each with its path and name.
pub(crate) const NAVIGATION_TABS: [(NavigationTab, &str, &str); 4] = [
    (NavigationTab::Now, "", "Now"),
    (NavigationTab::DeadLetters, "letters", "Dead letters"),
    (NavigationTab::Plans, "plans", "Plans"),
    (NavigationTab::Pause, "pause", "Pause"),
];

/// Renders a page without a deployment, or an error page.
pub(crate) fn render_bare_page(base: &str, title: &str, body: &Markup) -> String {
    render_document(
        base,
        title,
        title,
        &html! { nav aria-label="Pages" { a href=(base) { "redeliver" } } },
        body,
    )
}

pub(crate) fn render_document(base: &str, heading: &str, title: &str, top: &Markup, body: &Markup) -> String {
    let has_causes = body.0.contains(&format!("id=\"{CAUSES}\""));
    let head = html! {
        link rel="stylesheet" href={(base) "style.css"};
        link rel="stylesheet" href={(base) "fleet.css"};
        link rel="icon" href="data:,";
        script src={(base) "console.js"} defer {}
    };
    let body = html! {
        @if has_causes { a class="skip" href={"#" (CAUSES)} { "Skip to the causes" } }
        a class="skip" href="#main" { "Skip to the page" }
        (top)
        main id="main" tabindex="-1" { h1 { (heading) } (body) }
        footer { "redeliver console. Times are UTC." }
    };
    markup::render_document(title, &head, &body)
}
