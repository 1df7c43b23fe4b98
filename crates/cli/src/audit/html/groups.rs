//! The table of groups.

use std::fmt::Write as _;

use super::charts::class_of;
use super::moment;
use crate::audit::groups::Group;
use crate::markup::escape;
use crate::people::{counted, grouped};

/// Groups with a row of their own.
pub(super) const ROWS_MAX: usize = 500;

/// The table of groups, each with a link to its messages.
pub(super) fn table(groups: &[Group]) -> String {
    let mut table = "<section>\n<h2>Groups</h2>\n<div class=\"scroll\"><table class=\"groups\">\n<thead><tr>\
                     <th class=\"number\">Count</th><th>Error</th><th>Arrived</th><th>Fingerprint and example</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for group in groups.iter().take(ROWS_MAX) {
        let Group { fingerprint, error_type, count, first, last, error_details, example } = group;
        let fingerprint = escape(fingerprint);
        let _ = writeln!(
            table,
            "<tr><td class=\"number\"><a href=\"#g-{fingerprint}\">{}</a></td>\
             <td>{}<div class=\"details\">{}</div></td>\
             <td class=\"times\">{}<br>to {}</td>\
             <td><code>{fingerprint}</code><br><code class=\"id\">{}</code></td></tr>",
            grouped(*count),
            badge(error_type),
            escape(error_details),
            moment(*first),
            moment(*last),
            escape(example),
        );
    }
    table.push_str("</tbody></table></div>\n");
    if let Some(more) = groups.len().checked_sub(ROWS_MAX).filter(|more| *more > 0) {
        let _ = writeln!(table, "<p>And {} more.</p>", counted(more as u64, "group"));
    }
    table + "</section>\n"
}

/// An error type with its colour.
pub(super) fn badge(error_type: &str) -> String {
    format!("<span class=\"badge {}\">{}</span>", class_of(error_type), escape(error_type))
}
