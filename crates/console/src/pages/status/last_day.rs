//! The last day as a picture: rows of columns for what came in, was done, was held and died, with outages as bands.

use maud::{Markup, html};
use redeliver_operator::markup::chart::pixels;
use redeliver_operator::status::day::{Counts, Day, PERIODS};
use redeliver_operator::terminal::units::{float, grouped};

const WIDTH: f64 = 576.0;
/// The width of a half hour, with a gap of two.
const STEP: f64 = 12.0;
/// The line with a row's name and sum.
const LABEL: f64 = 26.0;
const COLUMNS: f64 = 38.0;
const ROW: f64 = LABEL + COLUMNS + 6.0;
const AXIS: f64 = 30.0;
/// Half hours between two marks of the axis.
const MARK_EVERY: usize = 12;

pub(super) fn figure(day: &Day) -> Markup {
    let rows = rows(day);
    let bottom = ROW * float(rows.len() as u64);
    let bands = day.outage_bands();
    html! {
        figure class="day" {
            figcaption { h2 { "The last day" } p { "by half hours, from CloudWatch" } }
            svg class="chart" role="img" aria-label=(in_words(day, &rows)) viewBox={"0 0 " (WIDTH) " " (bottom + AXIS)} {
                @for (start, end) in &bands {
                    rect class="down" x=(x(*start)) y="0" width=(x(*end - *start)) height=(bottom) {}
                }
                @for (index, Row { name, class, counts, .. }) in rows.iter().enumerate() {
                    @let top = ROW * float(index as u64);
                    text x="0" y=(top + LABEL / 2.0) { tspan class="name" { (name) } " " (grouped(counts.iter().sum())) }
                    g class=(class) { (columns(counts, top + LABEL)) }
                    line class="grid" x1="0" x2=(WIDTH) y1=(top + LABEL + COLUMNS) y2=(top + LABEL + COLUMNS) {}
                }
                @for period in (0..PERIODS).step_by(MARK_EVERY) {
                    text class="quiet" x=(x(period)) y=(bottom + AXIS / 2.0) { (day.start(period).format("%H:%M")) }
                }
                text class="quiet end" x=(WIDTH) y=(bottom + AXIS / 2.0) { "now" }
            }
            @if !bands.is_empty() { p class="remark" { span class="band-key" { "grey" } ": the target was down" } }
            details {
                summary { "What is counted" }
                ul { @for row in &rows { li { strong { (row.name) } ": " (row.meaning) } } }
            }
        }
    }
}

struct Row<'a> {
    name: &'static str,
    /// The colour's class.
    class: &'static str,
    counts: &'a Counts,
    meaning: &'static str,
}

fn rows(day: &Day) -> Vec<Row<'_>> {
    let row = |name, class, counts, meaning| Row { name, class, counts, meaning };
    let came_in = "messages sent to the source queue, less those that left the intermediate DLQ, which are sent again. \
                   Messages that were sent back count; with direct-resend retries do, too.";
    let by_function = "messages that the target has processed";
    let by_queue = "messages deleted from the source queue that were not handed off";
    let done = if day.held.is_some() { by_function } else { by_queue };
    let held = "holds because the target was down or refused calls: a message that is held ten times counts ten times";
    let dead = "messages sent to the final DLQ. SQS does not count messages that it moves itself.";
    [
        Some(row("came in", "s1", &day.came_in, came_in)),
        Some(row("done", "s3", &day.done, done)),
        day.held.as_ref().map(|counts| row("held", "s5", counts, held)),
        day.dead.as_ref().map(|counts| row("dead", "s2", counts, dead)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Each row has its own scale: a few dead letters among thousands of messages must be seen.
fn columns(counts: &Counts, top: f64) -> Markup {
    let most = float(counts.iter().copied().max().unwrap_or(0).max(1));
    html! {
        @for (period, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            @let height = (COLUMNS * float(*count) / most).max(2.0);
            rect x=(x(period) + 1.0) y=(pixels(top + COLUMNS - height)) width=(STEP - 2.0) height=(pixels(height)) {}
        }
    }
}

fn x(period: usize) -> f64 {
    STEP * float(period as u64)
}

fn in_words(day: &Day, rows: &[Row<'_>]) -> String {
    let sums: Vec<_> =
        rows.iter().map(|row| format!("{} {}", row.name, grouped(row.counts.iter().sum()))).collect();
    let clock = |period| day.start(period).format("%H:%M");
    let outages = day.outage_bands().into_iter();
    let outages: Vec<_> = outages.map(|(start, end)| format!("{} to {}", clock(start), clock(end))).collect();
    let outages = match outages.is_empty() {
        true => String::new(),
        false => format!(". The target was down from {}", outages.join(", ")),
    };
    format!("The last day: {}{outages}.", sums.join(", "))
}

#[cfg(test)]
mod tests {
    use redeliver_core::message::Timestamp;

    use super::*;

    fn day() -> Day {
        let counts = |at: usize, count| {
            let mut counts = [0; PERIODS];
            counts[at] = count;
            counts
        };
        let mut outages = [false; PERIODS];
        outages[4..6].fill(true);
        Day {
            from: Timestamp::from_timestamp(1_795_305_600, 0).unwrap(),
            came_in: counts(0, 12_300),
            done: counts(47, 5),
            held: Some(counts(4, 7)),
            dead: Some(counts(5, 1)),
            outages,
        }
    }

    #[test]
    fn who_does_not_see_the_picture_hears_its_sums_and_outages() {
        let figure = figure(&day()).into_string();
        let words =
            "The last day: came in 12,300, done 5, held 7, dead 1. The target was down from 02:00 to 03:00.";
        assert!(figure.contains(&format!("role=\"img\" aria-label=\"{words}\"")), "{figure}");
        assert!(!figure.contains("style="), "the page's policy forbids it: {figure}");
    }

    #[test]
    fn each_half_hour_has_its_place_and_an_outage_is_a_band_behind_all_rows() {
        let figure = figure(&day()).into_string();
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
    fn what_is_not_counted_has_no_row() {
        let few = figure(&Day { held: None, dead: None, ..day() }).into_string();
        assert!(!few.contains("held") && !few.contains(">dead<"), "{few}");
        assert!(few.contains("deleted from the source queue"), "{few}");
    }
}
