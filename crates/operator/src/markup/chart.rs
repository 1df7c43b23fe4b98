//! Charts as SVG. Colours are the style sheet's, by class; no text is in colour alone.

use maud::{Markup, PreEscaped, html};

use crate::markup::safe;
use crate::terminal::escape::shortened;
use crate::terminal::units::{float, grouped};

const STYLE: &str = include_str!("chart.css");

const WIDTH: f64 = 560.0;
/// A chart's position in its picture. Labels may reach beyond the right edge.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 516.0;
const TOP: f64 = 10.0;
/// The height of a line of text.
const LINE: f64 = 22.0;
/// Columns of a legend, and the letters that fit into one.
const COLUMNS: usize = 2;
const LETTERS: usize = 32;
/// The letters of a title that fit.
const TITLE_LETTERS: usize = 56;

/// An axis with its ends and marks.
pub struct Axis {
    pub from: f64,
    pub to: f64,
    pub marks: Vec<(f64, String)>,
    /// True if a line goes through the chart at each mark.
    pub has_lines: bool,
}

/// A chart with two axes.
pub struct Plot {
    pub x: Axis,
    pub y: Axis,
    pub height: f64,
}

/// An entry of a legend, with its class.
#[derive(Clone, Copy)]
pub enum Key {
    Area(&'static str, &'static str),
    Line(&'static str, &'static str),
    /// A short upright line.
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
    /// From 0 to a round number that is at least `most`.
    pub fn counts(most: u64) -> Self {
        let Scale { step, steps } = scale(most, 4);
        let marks = (0..=steps).map(|index| (float(index * step), grouped(index * step))).collect();
        Self { from: 0.0, to: float(step * steps), marks, has_lines: true }
    }

    /// The position of a value between two places.
    fn place(&self, value: f64, start: f64, end: f64) -> f64 {
        start + (end - start) * (value - self.from) / (self.to - self.from)
    }
}

impl Plot {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.place(x, LEFT, RIGHT), self.y.place(y, TOP + self.height, TOP))
    }

    /// A rectangle between two corners.
    pub fn rectangle(&self, class: &str, one: (f64, f64), other: (f64, f64)) -> Markup {
        let ((left, one), (right, other)) = (self.at(one), self.at(other));
        let [x, y] = [left, one.min(other)].map(pixels);
        html! { rect class=(class) x=(x) y=(y) width=(pixels(right - left)) height=(pixels((one - other).abs())) {} }
    }

    /// A line through all of the points.
    pub fn line(&self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Markup {
        html! { polyline class=(class) points=(self.points(points)) {} }
    }

    /// Fills the area between the points.
    pub fn area(&self, class: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Markup {
        html! { polygon class=(class) points=(self.points(points)) {} }
    }

    /// A vertical line with a label at its top.
    pub fn marked(&self, x: f64, label: &str) -> Markup {
        let (left, top) = self.at((x, self.y.to));
        let is_left = left < (LEFT + RIGHT) / 2.0;
        let (class, label_x) =
            if is_left { ("quiet halo", left + 6.0) } else { ("quiet halo end", left - 6.0) };
        html! {
            (self.line("ink dashed thin", [(x, self.y.from), (x, self.y.to)]))
            text class=(class) x=(pixels(label_x)) y=(pixels(top + 10.0)) { (label) }
        }
    }

    fn points(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let points = points.into_iter().map(|point| self.at(point));
        points.map(|(x, y)| format!("{},{}", pixels(x), pixels(y))).collect::<Vec<_>>().join(" ")
    }

    /// The chart: its grid, the drawing, the name of the axis below it, and a legend.
    pub fn figure(
        &self,
        title: impl Into<String>,
        note: impl Into<String>,
        drawn: &Markup,
        below: &str,
        legend: &[(Key, String)],
    ) -> Figure {
        let (title, note) = (title.into(), note.into());
        let bottom = TOP + self.height;
        let first_line = bottom + LINE * if below.is_empty() { 2.0 } else { 3.0 };
        let height = first_line + LINE * float(legend.len().div_ceil(COLUMNS) as u64) - LINE / 2.0;
        let chart = html! {
            svg class="chart" role="img" aria-label=(title) width=(WIDTH) height=(height) viewBox={"0 0 " (WIDTH) " " (height)} {
                @for (value, words) in &self.y.marks {
                    @let y = pixels(self.y.place(*value, bottom, TOP));
                    @if self.y.has_lines { line class="grid" x1=(LEFT) x2=(RIGHT) y1=(y) y2=(y) {} }
                    text class="quiet end" x=(LEFT - 8.0) y=(y) { (words) }
                }
                @for (value, words) in &self.x.marks {
                    @let x = pixels(self.x.place(*value, LEFT, RIGHT));
                    @if self.x.has_lines { line class="grid" x1=(x) x2=(x) y1=(TOP) y2=(bottom) {} }
                    text class="quiet middle" x=(x) y=(bottom + 18.0) { (words) }
                }
                (drawn)
                @if !below.is_empty() {
                    text class="quiet middle" x=((LEFT + RIGHT) / 2.0) y=(bottom + 18.0 + LINE) { (below) }
                }
                @for (index, (key, words)) in legend.iter().enumerate() {
                    @let x = WIDTH / float(COLUMNS as u64) * float((index % COLUMNS) as u64) + 14.0;
                    @let y = first_line + LINE * float((index / COLUMNS) as u64);
                    (key.drawn(x, y))
                    text x=(x + 24.0) y=(y) { (shortened(words, LETTERS)) }
                }
            }
        };
        Figure { title, note, chart, height }
    }
}

impl Key {
    fn drawn(self, x: f64, y: f64) -> Markup {
        let line = |from: (f64, f64), to: (f64, f64)| format!("{},{} {},{}", from.0, from.1, to.0, to.1);
        html! {
            @match self {
                Self::Area(colour, how) => rect class={(colour) " " (how)} x=(x) y=(y - 6.0) width="16" height="12" {},
                Self::Line(colour, how) => polyline class={(colour) " " (how)} points=(line((x, y), (x + 16.0, y))) {},
                Self::Tick(colour) => polyline class=(colour) points=(line((x + 8.0, y - 6.0), (x + 8.0, y + 6.0))) {},
            }
        }
    }
}

/// A small chart without axes. Each column is `step` wide with a gap of a pixel. A count of 0 is a line.
pub fn columns_only(
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

/// A picture of its own: the charts one under the other.
pub fn picture(figures: &[Figure]) -> String {
    const HEADING: f64 = 58.0;
    let height = figures.iter().map(|figure| figure.height + HEADING).sum::<f64>() + 10.0;
    let mut top = 0.0;
    let mut placed = String::new();
    for Figure { title, note, chart, height } in figures {
        let drawn = html! {
            text class="title" x="14" y=(top + 22.0) { (shortened(title, TITLE_LETTERS)) }
            text class="quiet" x="14" y=(top + 44.0) { (note) }
            g transform={"translate(0," (top + HEADING) ")"} { (chart) } "\n"
        };
        placed += &drawn.into_string();
        top += height + HEADING;
    }
    let picture = html! {
        svg class="chart" xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height=(height) viewBox={"0 0 " (WIDTH) " " (height)} {
            style { (PreEscaped(STYLE)) }
            rect class="paper" width="100%" height="100%" {} "\n"
            (PreEscaped(placed))
        }
    };
    safe(&picture) + "\n"
}

/// The marks of an axis.
#[derive(Debug, PartialEq, Eq)]
pub struct Scale {
    /// The distance of marks: 1, 2 or 5 of some power of ten.
    pub step: u64,
    pub steps: u64,
}

/// A scale up to `most`, with at most `marks_max` steps.
pub fn scale(most: u64, marks_max: u64) -> Scale {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let mut steps = powers.flat_map(|power| [power, power.saturating_mul(2), power.saturating_mul(5)]);
    let step = steps.find(|step| most.div_ceil(*step) <= marks_max).unwrap_or(most.max(1));
    Scale { step, steps: most.div_ceil(step).max(1) }
}

/// A length rounded to a tenth of a pixel.
pub fn pixels(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_at_most_four_lines_at_round_numbers() {
        let of = [0, 1, 4, 5, 9, 37, 1040, 2000].map(|most| scale(most, 4));
        assert_eq!(
            of.map(|Scale { step, steps }| (step, steps)),
            [(1, 1), (1, 1), (1, 4), (2, 3), (5, 2), (10, 4), (500, 3), (500, 4)]
        );
    }

    #[test]
    fn a_picture_has_each_place_where_its_value_is() {
        let axis = |to| Axis { from: 0.0, to, marks: vec![(to, "most".to_owned())], has_lines: false };
        let plot = Plot { x: axis(10.0), y: axis(4.0), height: 100.0 };
        let half = plot.rectangle("s1", (0.0, 0.0), (5.0, 1.0)).into_string();
        assert_eq!(half, r#"<rect class="s1" x="62" y="85" width="227" height="25"></rect>"#);
        let line = plot.line("s1 thin", [(0.0, 4.0), (10.0, 0.0)]).into_string();
        assert_eq!(line, r#"<polyline class="s1 thin" points="62,10 516,110"></polyline>"#);
        let marked = plot.marked(7.5, "late").into_string();
        let line = r#"<polyline class="ink dashed thin" points="402.5,110 402.5,10"></polyline>"#;
        assert_eq!(marked, format!(r#"{line}<text class="quiet halo end" x="396.5" y="20">late</text>"#));
        let figure = plot.figure("<title>", "", &PreEscaped(half), "", &[(Key::Tick("ink"), "x".repeat(33))]);
        let picture = picture(&[figure]);
        assert!(picture.contains("&lt;title&gt;") && !picture.contains("<title>"), "{picture}");
        assert!(picture.contains(&format!(">{}…{}</text>", "x".repeat(21), "x".repeat(10))), "{picture}");
    }
}
