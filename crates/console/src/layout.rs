//! The frame of all pages: style, script, and nothing from another site.

use maud::{Markup, html};
use redeliver_operator::{dead_letter, markup};

/// The style of all pages, of a dead letter's story, and of the console.
pub(crate) fn style() -> String {
    [markup::STYLE, dead_letter::STYLE, include_str!("console.css")].concat()
}

pub(crate) const FLEET_STYLE: &str = redeliver_operator::fleet::html::STYLE;
pub(crate) const SCRIPT: &str = include_str!("console.js");

/// Nothing is loaded from another site, no page contains a script or a style, and no site may frame a page.
pub(crate) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A page of a deployment, without its frame.
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) body: Markup,
}

/// The id of the table of causes, which a page with one offers to skip to.
pub(crate) const CAUSES: &str = "causes";

/// The pages of a deployment that the navigation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Now,
    DeadLetters,
    Plans,
    Pause,
}

impl Place {
    /// True for the page that a file has, too.
    pub(crate) const fn is_of_files(self) -> bool {
        matches!(self, Self::DeadLetters)
    }
}

/// Each with its path and name.
pub(crate) const PLACES: [(Place, &str, &str); 4] = [
    (Place::Now, "", "Now"),
    (Place::DeadLetters, "letters", "Dead letters"),
    (Place::Plans, "plans", "Plans"),
    (Place::Pause, "pause", "Pause"),
];

/// A page of no deployment, or about an error.
pub(crate) fn bare(base: &str, title: &str, body: &Markup) -> String {
    document(base, title, title, &html! { nav aria-label="Pages" { a href=(base) { "redeliver" } } }, body)
}

pub(crate) fn document(base: &str, heading: &str, title: &str, top: &Markup, body: &Markup) -> String {
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
    markup::document(title, &head, &body)
}
