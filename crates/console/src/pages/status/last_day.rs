//! The last day as a chart: rows of columns for messages received, done, held and dead, with outages as bands.

use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_operator::markup::chart::round_pixels;
use redeliver_operator::status::day::{Day, HalfHourCounts, PERIODS, Series, SeriesOrigin};
use redeliver_operator::terminal::units::{as_float, group_digits};

const WIDTH: f64 = 576.0;
/// The width of half an hour, including a gap of two units.
const STEP: f64 = 12.0;
/// The height of the line with a row's name and sum.
const LABEL: f64 = 26.0;
const COLUMNS: f64 = 38.0;
const ROW: f64 = LABEL + COLUMNS + 6.0;
const AXIS: f64 = 30.0;
/// The number of half hours between two marks on the axis.
const MARK_EVERY: usize = 12;

pub(super) fn render_last_day(day: &Day) -> Markup {
    let rows = chart_rows(day);
    let bottom = ROW * as_float(rows.len() as u64);
    let bands = day.outage_bands();
    html! {
        figure class="day" {
            figcaption { h2 { "The last day" } p { "per half hour, " (describe_origins(day, &rows)) } }
            svg class="chart" role="img" aria-label=(describe_day(day, &rows)) viewBox={"0 0 " (WIDTH) " " (bottom + AXIS)} {
                @for (start, end) in &bands {
                    rect class="down" x=(period_x(*start)) y="0" width=(period_x(*end - *start)) height=(bottom) {}
                }
                @for (index, row @ ChartRow { name, class, counts, .. }) in rows.iter().enumerate() {
                    @let top = ROW * as_float(index as u64);
                    text x="0" y=(top + LABEL / 2.0) { tspan class="name" { (name) } " " (row.format_sum()) }
                    g class=(class) { (render_columns(counts, top + LABEL)) }
                    line class="grid" x1="0" x2=(WIDTH) y1=(top + LABEL + COLUMNS) y2=(top + LABEL + COLUMNS) {}
                }
                @for period in (0..PERIODS).step_by(MARK_EVERY) {
                    text class="quiet" x=(period_x(period)) y=(bottom + AXIS / 2.0) { (day.period_start(period).format("%H:%M")) }
                }
                text class="quiet end" x=(WIDTH) y=(bottom + AXIS / 2.0) { "now" }
            }
            @if !bands.is_empty() { p class="remark" { span class="band-key" { "grey" } ": the target was down" } }
            details {
                summary { "What is counted" }
                ul { @for row in &rows { li { strong { (row.name) } ": " (row.meaning) } } }
                @if rows.iter().any(|row| row.since.is_some()) {
                    p { "Counts of containers are incomplete if the page was closed for more than 15 minutes." }
                }
            }
        }
    }
}

struct ChartRow<'a> {
    name: &'static str,
    /// The CSS class that sets the color.
    class: &'static str,
    counts: &'a HalfHourCounts,
    /// The time at which the counts begin, if they come from containers.
    since: Option<Timestamp>,
    meaning: &'static str,
}

impl<'a> ChartRow<'a> {
    const fn from_series(
        series: &'a Series,
        name: &'static str,
        class: &'static str,
        meaning: &'static str,
    ) -> Self {
        let since = if let SeriesOrigin::Containers(since) = series.origin { Some(since) } else { None };
        ChartRow { name, class, counts: &series.counts, since, meaning }
    }

    fn format_sum(&self) -> String {
        let sum = group_digits(self.counts.iter().sum());
        match self.since {
            Some(since) => format!("{sum} since {}", since.format("%H:%M")),
            None => sum,
        }
    }
}

fn chart_rows(day: &Day) -> Vec<ChartRow<'_>> {
    let arrived = "messages sent to the source queue, minus messages that left the intermediate DLQ, which are sent \
                   again. Messages that were sent back are included; with direct-resend, so are retries.";
    let by_function = "messages that the target processed";
    let by_queue = "messages deleted from the source queue that were not handed off";
    let done = if day.done.origin == SeriesOrigin::Queues { by_queue } else { by_function };
    let held =
        "holds because the target was down or refused calls: a message held ten times counts ten times";
    let dead = "messages sent to the final DLQ. SQS does not count messages that it moves itself.";
    let arrived = day.arrived.as_ref().map(|counts| ChartRow {
        name: "came in",
        class: "s1",
        counts,
        since: None,
        meaning: arrived,
    });
    [
        arrived,
        Some(ChartRow::from_series(&day.done, "done", "s3", done)),
        day.held.as_ref().map(|series| ChartRow::from_series(series, "held", "s5", held)),
        day.dead.as_ref().map(|series| ChartRow::from_series(series, "dead", "s2", dead)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Describes the data sources of the rows. Outages have the same source as holds.
fn describe_origins(day: &Day, rows: &[ChartRow<'_>]) -> String {
    let from_containers: Vec<_> = rows.iter().filter_map(|row| Some((row.name, row.since?))).collect();
    let Some((_, since)) = from_containers.first() else { return "from CloudWatch".to_owned() };
    let since = format!("since {}, from /metrics", since.format("%H:%M"));
    if day.arrived.is_none() {
        return since;
    }
    let names = from_containers.iter().flat_map(|(name, _)| match *name {
        "held" => vec!["held", "outages"],
        name => vec![name],
    });
    format!("from CloudWatch; {} {since}", names.collect::<Vec<_>>().join(", "))
}

/// Renders the columns of a row. Each row has its own scale: a few dead letters among thousands of messages must be
/// visible.
fn render_columns(counts: &HalfHourCounts, top: f64) -> Markup {
    let most = as_float(counts.iter().copied().max().unwrap_or(0).max(1));
    html! {
        @for (period, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            @let height = (COLUMNS * as_float(*count) / most).max(2.0);
            rect x=(period_x(period) + 1.0) y=(round_pixels(top + COLUMNS - height)) width=(STEP - 2.0) height=(round_pixels(height)) {}
        }
    }
}

fn period_x(period: usize) -> f64 {
    STEP * as_float(period as u64)
}

fn describe_day(day: &Day, rows: &[ChartRow<'_>]) -> String {
    let sums: Vec<_> = rows.iter().map(|row| format!("{} {}", row.name, row.format_sum())).collect();
    let clock = |period| day.period_start(period).format("%H:%M");
    let outages = day.outage_bands().into_iter();
    let outages: Vec<_> = outages.map(|(start, end)| format!("{} to {}", clock(start), clock(end))).collect();
    let outages = if outages.is_empty() {
        String::new()
    } else {
        format!(". The target was down from {}", outages.join(", "))
    };
    format!("The last day: {}{outages}.", sums.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(at: usize, count: u64) -> HalfHourCounts {
        let mut counts = [0; PERIODS];
        counts[at] = count;
        counts
    }

    fn day() -> Day {
        let series = |at, count| Series { counts: counts(at, count), origin: SeriesOrigin::Functions };
        let mut outages = [false; PERIODS];
        outages[4..6].fill(true);
        Day {
            from: Timestamp::from_timestamp(1_795_305_600, 0).unwrap(),
            arrived: Some(counts(0, 12_300)),
            done: series(47, 5),
            held: Some(series(4, 7)),
            dead: Some(series(5, 1)),
            outages,
        }
    }

    #[test]
    fn the_chart_has_a_text_alternative_with_sums_and_outages() {
        let figure = render_last_day(&day()).into_string();
        let words =
            "The last day: came in 12,300, done 5, held 7, dead 1. The target was down from 02:00 to 03:00.";
        assert!(figure.contains(&format!("role=\"img\" aria-label=\"{words}\"")), "{figure}");
        assert!(!figure.contains("style="), "the page's policy forbids it: {figure}");
    }

    #[test]
    fn half_hours_are_columns_and_outages_are_bands_behind_all_rows() {
        let figure = render_last_day(&day()).into_string();
        for expected in [
            "<rect class=\"down\" x=\"48\" y=\"0\" width=\"24\" height=\"280\"></rect>",
            "<g class=\"s1\"><rect x=\"1\" y=\"26\" width=\"10\" height=\"38\"></rect></g>",
            "<g class=\"s3\"><rect x=\"565\" y=\"96\" width=\"10\" height=\"38\"></rect></g>",
            "<tspan class=\"name\">dead</tspan> 1</text>",
        ] {
            assert!(figure.contains(expected), "{expected} in {figure}");
        }
    }

    #[test]
    fn a_missing_series_has_no_row() {
        let done = Series { origin: SeriesOrigin::Queues, ..day().done };
        let few = render_last_day(&Day { done, held: None, dead: None, ..day() }).into_string();
        assert!(!few.contains("held") && !few.contains(">dead<"), "{few}");
        assert!(few.contains("deleted from the source queue"), "{few}");
    }

    #[test]
    fn container_counts_show_when_the_console_started() {
        let since = Timestamp::from_timestamp(1_795_305_600 + 7500, 0).unwrap();
        let from_containers = |series: Series| Series { origin: SeriesOrigin::Containers(since), ..series };
        let held = day().held.map(from_containers);
        let mixed = render_last_day(&Day { held: held.clone(), ..day() }).into_string();
        let alone = Day { arrived: None, done: from_containers(day().done), held, dead: None, ..day() };
        let alone = render_last_day(&alone).into_string();
        let left_out = "Counts of containers are incomplete if the page was closed for more than 15 minutes.";
        for (figure, expected) in [
            (&mixed, "<p>per half hour, from CloudWatch; held, outages since 02:05, from /metrics</p>"),
            (&mixed, "<tspan class=\"name\">held</tspan> 7 since 02:05</text>"),
            (&mixed, "The last day: came in 12,300, done 5, held 7 since 02:05, dead 1."),
            (&mixed, "<rect class=\"down\" x=\"48\" y=\"0\" width=\"24\" height=\"280\"></rect>"),
            (&mixed, left_out),
            (&alone, "<p>per half hour, since 02:05, from /metrics</p>"),
            (
                &alone,
                "The last day: done 5 since 02:05, held 7 since 02:05. The target was down from 02:00 to 03:00.",
            ),
            (&alone, "<rect class=\"down\" x=\"48\" y=\"0\" width=\"24\" height=\"140\"></rect>"),
            (&alone, "messages that the target processed"),
        ] {
            assert!(figure.contains(expected), "{expected} in {figure}");
        }
        assert!(!render_last_day(&day()).into_string().contains(left_out));
    }
}
