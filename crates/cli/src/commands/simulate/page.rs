//! The forecast as a web page of charts and tables.

use maud::{Markup, html};

use redeliver_sim::planner::Forecast;

use super::plot::forecast_figures;
use super::tables::{describe_scenario, describe_verdict, forecast_sections};
use redeliver_operator::markup::{render_standalone_page, render_titled_figure};

pub(super) fn render_forecast(forecast: &Forecast) -> String {
    let names: Vec<_> = forecast.policies.iter().map(|policy| policy.name.as_str()).collect();
    let title = names.join(if names.len() > 2 { ", " } else { " and " });
    let body = html! {
        header { h1 { (title) } p { strong { (describe_verdict(forecast)) } } p { (describe_scenario(forecast)) } }
        (render_content(forecast))
        footer {
            "Made by " code { "redeliver simulate" } ". " (render_prices(forecast))
        }
    };
    render_standalone_page(&format!("Plan of {title}"), include_str!("page/page.css"), &body)
}

/// The charts above the tables.
pub(super) fn render_content(forecast: &Forecast) -> Markup {
    html! {
        section class="figures" {
            @for one in forecast_figures(forecast) { (render_titled_figure(&one.title, &one.note, &one.chart)) }
        }
        section class="tables" {
            @for section in forecast_sections(forecast) {
                figure {
                    h2 { (section.title) }
                    div class="scroll" tabindex="0" role="region" aria-label=(section.title) { table {
                        tr { @for (index, column) in section.columns.iter().enumerate() { @if column.is_empty() { td {} } @else { th class=[section.class_of(index)] { (column) } } } } "\n"
                        @for row in &section.rows { tr { @for (index, cell) in row.iter().enumerate() { td class=[section.class_of(index)] { (cell) } } } "\n" }
                    } }
                    @if let Some(note) = &section.note { @for line in note.lines() { p { (line) } } }
                } "\n"
            }
        }
    }
}

pub(super) fn render_prices(forecast: &Forecast) -> Markup {
    html! {
        "Prices are AWS's list prices of " (forecast.prices.region) " as of " (forecast.prices.read_on) ", or those given with "
        code { "--prices" } ", without free tiers."
    }
}

#[cfg(test)]
mod chromium;
