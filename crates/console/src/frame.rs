//! What all pages have: navigation, style, script, and nothing of anybody else's.

use maud::{Markup, html};

use super::at::At;
use redeliver_operator::{dead_letter, markup};

/// What all pages have, what a dead letter's story needs, and the console's own rules.
pub(super) fn style() -> String {
    [markup::STYLE, dead_letter::STYLE, include_str!("console.css")].concat()
}

pub(super) const FLEET_STYLE: &str = redeliver_operator::fleet::html::STYLE;
pub(super) const SCRIPT: &str = include_str!("console.js");

/// Nothing is loaded from anywhere else, no script or style stands in a page, and no page stands in another one's
/// frame.
pub(super) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The places of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Now,
    Letters,
    Plans,
    Pause,
}

impl Place {
    /// True for the page that a file of dead letters has, too.
    const fn is_of_files(self) -> bool {
        matches!(self, Self::Letters)
    }
}

const PLACES: [(Place, &str, &str); 4] = [
    (Place::Now, "", "Now"),
    (Place::Letters, "letters", "Dead letters"),
    (Place::Plans, "plans", "Plans"),
    (Place::Pause, "pause", "Pause"),
];

/// A page of a deployment.
pub(super) fn page(at: &At, place: Place, title: &str, body: &Markup) -> String {
    let base = at.site.guard.base();
    let top = html! {
        nav aria-label="Pages" {
            @if at.site.desks.len() > 1 || at.site.fleet.is_some() { a href=(base) { "All" } }
            strong { (at.name) }
            @for (other, path, words) in PLACES.into_iter().filter(|(other, ..)| !at.is_file() || other.is_of_files()) {
                a href=(at.path(path)) aria-current=[(other == place).then_some("page")] { (words) }
            }
            @if at.site.guard.read_only { span class="badge" { "read only" } }
        }
    };
    document(&base, title, &format!("{title} · {}", at.name), &top, body)
}

/// A page about something that went wrong, or of no deployment.
pub(super) fn bare(base: &str, title: &str, body: &Markup) -> String {
    document(base, title, title, &html! { nav aria-label="Pages" { a href=(base) { "redeliver" } } }, body)
}

fn document(base: &str, heading: &str, title: &str, top: &Markup, body: &Markup) -> String {
    let head = html! {
        link rel="stylesheet" href={(base) "style.css"};
        link rel="stylesheet" href={(base) "fleet.css"};
        link rel="icon" href="data:,";
        script src={(base) "console.js"} defer {}
    };
    let body = html! {
        a class="skip" href="#main" { "Skip to the page" }
        (top)
        main id="main" tabindex="-1" { h1 { (heading) } (body) }
        footer { "redeliver console. Times are UTC." }
    };
    markup::document(title, &head, &body)
}

/// A part of an address.
pub(super) fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _infallible = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
