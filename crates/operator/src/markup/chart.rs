//! Draws charts as SVG. The style sheet assigns colors by class; no information is conveyed by color alone.

use maud::{Markup, PreEscaped, html};

use crate::markup::escape_markup;
use crate::terminal::escape::shorten_text;
use crate::terminal::units::{as_float, group_digits};

const STYLE: &str = include_str!("chart.css");

const WIDTH: f64 = 560.0;
/// The edges of the plot area within the SVG picture. Labels can extend beyond the right edge.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 516.0;
const TOP: f64 = 10.0;
/// The height of a line of text.
const LINE: f64 = 22.0;
/// The number of columns in a legend, and the number of characters that fit in each.
const COLUMNS: usize = 2;
const LABEL_CHARS_MAX: usize = 32;
/// The number of characters that fit in a title.
const TITLE_CHARS_MAX: usize = 56;

/// An axis with its range and tick marks.
pub struct Axis {
    pub from: f64,
    pub to: f64,
    pub marks: Vec<(f64, String)>,
    /// True if a grid line is drawn at each mark.
    pub has_lines: bool,
}

/// A chart with two axes.
pub struct Plot {
    pub x: Axis,
    pub y: Axis,
    pub height: f64,
}

/// A legend entry, with its CSS classes.
#[derive(Clone, Copy)]
pub enum LegendKey {
    Area(&'static str, &'static str),
    Line(&'static str, &'static str),
    /// A short vertical line.
    Tick(&'static str),
}

/// A chart with its title and a note.
pub struct Figure {
    pub title: String,
    pub note: String,
    pub chart: Markup,
    height: f64,
}

impl Axis {
    /// Creates an axis from 0 to a round number that is at least `most`.
    pub fn for_counts(most: u64) -> Self {
        let Scale { step, steps } = fit_scale(most, 4);
        let marks = (0..=steps).map(|index| (as_float(index * step), group_digits(index * step))).collect();
        Self { from: 0.0, to: as_float(step * steps), marks, has_lines: true }
    }

    /// Maps a value to a position between `start` and `end`.
    fn map_value(&self, value: f64, start: f64, end: f64) -> f64 {
        start + (end - start) * (value - self.from) / (self.to - self.from)
    }
}

impl Plot {
    fn map_point(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.map_value(x, LEFT, RIGHT), self.y.map_value(y, TOP + self.height, TOP))
    }

    /// Draws a rectangle between two opposite corners.
    pub fn draw_rectangle(&self, class: &str, start: (f64, f64), end: (f64, f64)) -> Markup {
        let ((left, start_y), (right, end_y)) = (self.map_point(start), self.map_point(end));
        let [x, y] = [left, start_y.min(end_y)].map(round_pixels);
        html! { rect class=(class) x=(x) y=(y) width=(round_pixels(right - left)) height=(round_pixels((start_y - end_y).abs())) {} }
    }

    /// Draws a line through all points.
    pub fn draw_line(&self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Markup {
        html! { polyline class=(class) points=(self.format_points(points)) {} }
    }

    /// Fills the area between the points.
    pub fn draw_area(&self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Markup {
        html! { polygon class=(class) points=(self.format_points(points)) {} }
    }

    /// Draws a vertical line with a label at its top.
    pub fn draw_marker(&self, x: f64, label: &str) -> Markup {
        let (left, top) = self.map_point((x, self.y.to));
        let is_left = left < (LEFT + RIGHT) / 2.0;
        let (class, label_x) =
            if is_left { ("quiet halo", left + 6.0) } else { ("quiet halo end", left - 6.0) };
        html! {
            (self.draw_line("ink dashed thin", [(x, self.y.from), (x, self.y.to)]))
            text class=(class) x=(round_pixels(label_x)) y=(round_pixels(top + 10.0)) { (label) }
        }
    }

    fn format_points(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let points = points.into_iter().map(|point| self.map_point(point));
        points.map(|(x, y)| format!("{},{}", round_pixels(x), round_pixels(y))).collect::<Vec<_>>().join(" ")
    }

    /// Draws the complete chart: the grid, the content in `drawn`, the axis title in `below`, and a legend.
    pub fn draw_figure(
        &self,
        title: impl Into<String>,
        note: impl Into<String>,
        drawn: &Markup,
        below: &str,
        legend: &[(LegendKey, String)],
    ) -> Figure {
        let (title, note) = (title.into(), note.into());
        let bottom = TOP + self.height;
        let first_line = bottom + LINE * if below.is_empty() { 2.0 } else { 3.0 };
        let height = first_line + LINE * as_float(legend.len().div_ceil(COLUMNS) as u64) - LINE / 2.0;
        let chart = html! {
            svg class="chart" role="img" aria-label=(title) width=(WIDTH) height=(height) viewBox={"0 0 " (WIDTH) " " (height)} {
                @for (value, label) in &self.y.marks {
                    @let y = round_pixels(self.y.map_value(*value, bottom, TOP));
                    @if self.y.has_lines { line class="grid" x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) {} }
                    text class="quiet end" x=(LEFT - 8.0) y=(y) { (label) }
                }
                @for (value, label) in &self.x.marks {
                    @let x = round_pixels(self.x.map_value(*value, LEFT, RIGHT));
                    @if self.x.has_lines { line class="grid" x1=(x) x2=(x) y1=(TOP) y2=(bottom) {} }
                    text class="quiet middle" x=(x) y=(bottom + 18.0) { (label) }
                }
                (drawn)
                @if !below.is_empty() {
                    text class="quiet middle" x=((LEFT + RIGHT) / 2.0) y=(bottom + 18.0 + LINE) { (below) }
                }
                @for (index, (key, label)) in legend.iter().enumerate() {
                    @let x = WIDTH / as_float(COLUMNS as u64) * as_float((index % COLUMNS) as u64) + 14.0;
                    @let y = first_line + LINE * as_float((index / COLUMNS) as u64);
                    (key.draw_key(x, y))
                    text x=(x + 24.0) y=(y) { (shorten_text(label, LABEL_CHARS_MAX)) }
                }
            }
        };
        Figure { title, note, chart, height }
    }
}

impl LegendKey {
    fn draw_key(self, x: f64, y: f64) -> Markup {
        let line = |from: (f64, f64), to: (f64, f64)| format!("{},{} {},{}", from.0, from.1, to.0, to.1);
        html! {
            @match self {
                Self::Area(color, style) => rect class={(color) " " (style)} x=(x) y=(y - 6.0) width="16" height="12" {},
                Self::Line(color, style) => polyline class={(color) " " (style)} points=(line((x, y), (x + 16.0, y))) {},
                Self::Tick(color) => polyline class=(color) points=(line((x + 8.0, y - 6.0), (x + 8.0, y + 6.0))) {},
            }
        }
    }
}

/// Draws a small chart without axes. Each column is `step` wide with a gap of one pixel. A count of 0 is drawn as a
/// line.
pub fn draw_columns(
    label: &str,
    step: usize,
    places: usize,
    columns: impl IntoIterator<Item = (usize, u64)>,
) -> Markup {
    const HEIGHT: u64 = 20;
    let columns: Vec<_> = columns.into_iter().collect();
    let most = columns.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    html! {
        svg class="columns" role="img" aria-label=(label) viewBox={"0 0 " (places * step) " " (HEIGHT)} width=(places * step) height=(HEIGHT) {
            @for (place, count) in columns {
                @let height = (count * (HEIGHT - 1)).div_ceil(most) + 1;
                rect x=(place * step) y=(HEIGHT - height) width=(step - 1) height=(height) {}
            }
        }
    }
}

/// Renders a standalone picture with the charts stacked vertically.
pub fn render_picture(figures: &[Figure]) -> String {
    const HEADING: f64 = 58.0;
    let height = figures.iter().map(|figure| figure.height + HEADING).sum::<f64>() + 10.0;
    let mut top = 0.0;
    let mut stacked = String::new();
    for Figure { title, note, chart, height } in figures {
        let drawn = html! {
            text class="title" x="14" y=(top + 22.0) { (shorten_text(title, TITLE_CHARS_MAX)) }
            text class="quiet" x="14" y=(top + 44.0) { (note) }
            g transform={"translate(0," (top + HEADING) ")"} { (chart) } "\n"
        };
        stacked += &drawn.into_string();
        top += height + HEADING;
    }
    let picture = html! {
        svg class="chart" xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height=(height) viewBox={"0 0 " (WIDTH) " " (height)} {
            style { (PreEscaped(STYLE)) }
            rect class="paper" width="100%" height="100%" {} "\n"
            (PreEscaped(stacked))
        }
    };
    escape_markup(&picture) + "\n"
}

/// The tick marks on an axis.
#[derive(Debug, PartialEq, Eq)]
pub struct Scale {
    /// The distance between marks: 1, 2 or 5 times a power of ten.
    pub step: u64,
    pub steps: u64,
}

/// Returns a scale that reaches `most` in at most `marks_max` steps.
pub fn fit_scale(most: u64, marks_max: u64) -> Scale {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let mut steps = powers.flat_map(|power| [power, power.saturating_mul(2), power.saturating_mul(5)]);
    let step = steps.find(|step| most.div_ceil(*step) <= marks_max).unwrap_or(most.max(1));
    Scale { step, steps: most.div_ceil(step).max(1) }
}

/// Rounds a length to a tenth of a pixel.
pub fn round_pixels(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_at_most_four_lines_at_round_numbers() {
        let scales = [0, 1, 4, 5, 9, 37, 1040, 2000].map(|most| fit_scale(most, 4));
        assert_eq!(
            scales.map(|Scale { step, steps }| (step, steps)),
            [(1, 1), (1, 1), (1, 4), (2, 3), (5, 2), (10, 4), (500, 3), (500, 4)]
        );
    }

    #[test]
    fn values_are_drawn_at_their_positions() {
        let axis = |to| Axis { from: 0.0, to, marks: vec![(to, "most".to_owned())], has_lines: false };
        let plot = Plot { x: axis(10.0), y: axis(4.0), height: 100.0 };
        let half = plot.draw_rectangle("s1", (0.0, 0.0), (5.0, 1.0)).into_string();
        assert_eq!(half, r#"<rect class="s1" x="62" y="85" width="227" height="25"></rect>"#);
        let line = plot.draw_line("s1 thin", [(0.0, 4.0), (10.0, 0.0)]).into_string();
        assert_eq!(line, r#"<polyline class="s1 thin" points="62,10 516,110"></polyline>"#);
        let marked = plot.draw_marker(7.5, "late").into_string();
        let line = r#"<polyline class="ink dashed thin" points="402.5,110 402.5,10"></polyline>"#;
        assert_eq!(marked, format!(r#"{line}<text class="quiet halo end" x="396.5" y="20">late</text>"#));
        let figure = plot.draw_figure(
            "<title>",
            "",
            &PreEscaped(half),
            "",
            &[(LegendKey::Tick("ink"), "x".repeat(33))],
        );
        let picture = render_picture(&[figure]);
        assert!(picture.contains("&lt;title&gt;") && !picture.contains("<title>"), "{picture}");
        assert!(picture.contains(&format!(">{}…{}</text>", "x".repeat(21), "x".repeat(10))), "{picture}");
    }
}
