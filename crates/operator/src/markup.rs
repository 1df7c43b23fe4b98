//! Renders self-contained web pages, without network access or scripts. They are light or dark, following the reader's
//! system settings.

pub mod chart;

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::groups::format_timestamp;

use crate::terminal::escape::escape_lines;

/// The style sheet for all pages.
pub const STYLE: &str = concat!(include_str!("markup/chart.css"), include_str!("markup/page.css"));

/// Renders a self-contained page with the common style sheet and additional rules.
pub fn render_standalone_page(title: &str, rules: &str, body: &Markup) -> String {
    let head = html! {
        // Even if part of a message were rendered as markup, it could not load, run or send anything.
        meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
        style { (PreEscaped(STYLE)) (PreEscaped(rules)) }
    };
    render_document(title, &head, body)
}

/// Renders the skeleton of every page. maud escapes markup in text, and [`escape_markup`] escapes unsafe characters.
pub fn render_document(title: &str, head: &Markup, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                (head)
                title { (title) }
            }
            body { (body) }
        }
    };
    escape_markup(&page) + "\n"
}

/// Escapes unsafe characters in the text of markup. The values of fields and `textarea`s are left unchanged, since a
/// form submits them.
pub fn escape_markup(markup: &Markup) -> String {
    const FIELDS: [(&str, &str); 2] = [(" value=\"", "\""), ("<textarea", "</textarea>")];
    let mut rest = markup.0.as_str();
    let mut safe = String::with_capacity(rest.len());
    // maud never writes quotes or angle brackets in text, so each match is markup.
    while let Some((at, end)) =
        FIELDS.iter().filter_map(|(start, end)| Some((rest.find(start)? + start.len(), end))).min()
    {
        let (before, field) = rest.split_at(at);
        let (field, after) = field.split_at(field.find(end).unwrap_or(field.len()));
        safe += &escape_lines(before);
        safe += field;
        rest = after;
    }
    safe + &escape_lines(rest)
}

/// Renders a figure with a title and a note above the content.
pub fn render_titled_figure(title: &str, note: &str, content: impl Render) -> Markup {
    html! { figure { figcaption { h2 { (title) } p { (note) } } (content) } "\n" }
}

/// A number with its name and a remark.
pub struct Fact<'a> {
    pub name: &'a str,
    pub value: String,
    pub remark: &'a str,
    /// True if the fact is highlighted.
    pub is_alarm: bool,
}

impl<'a> Fact<'a> {
    pub fn new(name: &'a str, value: String, remark: &'a str) -> Self {
        Self { name, value, remark, is_alarm: false }
    }
}

/// Renders the key figures at the top of a page.
pub fn render_fact_list(facts: &[Fact<'_>]) -> Markup {
    html! {
        dl class="facts" {
            @for Fact { name, value, remark, is_alarm } in facts {
                div class=[is_alarm.then_some("alarm")] {
                    dt { (name) } dd { (value) } dd class="remark" { (remark) }
                }
            }
        }
    }
}

/// Renders a UTC time that does not break across lines.
pub fn render_timestamp(timestamp: Timestamp) -> Markup {
    let text = timestamp.format("%Y-%m-%d&nbsp;%H:%M:%S").to_string();
    html! { time datetime=(format_timestamp(timestamp)) { (PreEscaped(text)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_in_text_are_escaped() {
        let hostile = "</script><b a='1' c=\"2\">&amp;\u{0}\u{1b}\n";
        let page = render_standalone_page(hostile, "", &html! { p title=(hostile) { (hostile) } });
        let harmless = "&lt;/script&gt;&lt;b a='1' c=&quot;2&quot;&gt;&amp;amp;\\u{0}\\u{1b}\n";
        assert!(page.contains(&format!("<title>{harmless}</title>")), "{page}");
        assert!(page.ends_with(&format!("<p title=\"{harmless}\">{harmless}</p></body></html>\n")), "{page}");
    }

    #[test]
    fn form_values_are_not_escaped_for_display() {
        let (hostile, shown) = redeliver_testing::hostile::hostile_text();
        let markup = html! {
            p { (hostile) } input type="hidden" name="q" value=(hostile); b title=(hostile) {}
            textarea rows="2" { "\n" (hostile) } i { " value=" (hostile) }
        };
        assert_eq!(
            escape_markup(&markup),
            format!(
                "<p>{shown}</p><input type=\"hidden\" name=\"q\" value=\"{hostile}\"><b title=\"{shown}\"></b>\
                 <textarea rows=\"2\">\n{hostile}</textarea><i> value={shown}</i>"
            )
        );
    }
}
