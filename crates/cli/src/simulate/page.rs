//! The picture and the tables as one web page that needs nothing else.

use std::fmt::Write as _;

use super::report::Report;
use super::tables::{Section, scenario, sections};
use crate::markup::escape;

const STYLE: &str = include_str!("page/page.css");

/// The page.
pub(super) fn of(report: &Report, wide: &str, narrow: &str) -> String {
    let names: Vec<_> = report.policies.iter().map(|policy| escape(&policy.name)).collect();
    let title = names.join(if names.len() > 2 { ", " } else { " and " });
    let tables: String = sections(report).iter().map(table).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Plan of {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n<p>{}</p>\n</header>\n<figure>\n<div class=\"wide\">{wide}</div>\n<div class=\"narrow\">{narrow}</div>\n</figure>\n\
         <section class=\"tables\">\n{tables}</section>\n\
         <footer>Made by <code>redeliver simulate</code>. Prices are AWS's list prices of {} as of {}, or those given with \
         <code>--prices</code>, without free tiers.</footer>\n</body>\n</html>\n",
        escape(&scenario(report)),
        escape(&report.prices.region),
        escape(&report.prices.read_on),
    )
}

fn table(section: &Section) -> String {
    let mut html = format!("<div>\n<h2>{}</h2>\n<div class=\"scroll\"><table>\n<tr>", escape(&section.title));
    for column in &section.columns {
        let _ = write!(html, "<th>{}</th>", escape(column));
    }
    html += "</tr>\n";
    for row in &section.rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        let _ = writeln!(html, "<tr>{cells}</tr>");
    }
    html + "</table></div>\n</div>\n"
}

#[cfg(test)]
mod chromium;
