//! What the colours of a chart mean, beside it or under it: nothing is drawn over.

use plotters::prelude::*;

use super::{Area, Drawn, Shape, small};
use crate::text::shortened;

/// The legend's part of the width.
pub(super) const WIDTH: i32 = 270;
const LINE: u16 = 22;
/// Above the first line, beside a chart: below its title.
const ABOVE_BESIDE: i32 = 52;
/// Above the first line and after the last one, under a chart.
const AROUND_UNDER: u16 = 14;
/// Where the lines begin under a chart.
const LEFT_UNDER: i32 = 24;
/// As many as fit, in a font that is not known.
const CHARACTERS: usize = 38;

/// How something is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// An area.
    Patch(RGBAColor),
    /// A line, so many pixels wide.
    Line(RGBColor, u32),
    /// A short upright line.
    Tick(RGBColor),
}

/// Of a legend under its chart.
pub(super) const fn height(lines: u32) -> u32 {
    if lines == 0 { 0 } else { lines * LINE as u32 + 2 * AROUND_UNDER as u32 }
}

/// Draws it from the top down.
pub(super) fn draw(area: &Area<'_>, shape: Shape, entries: &[(Mark, String)]) -> Drawn {
    let (x, top) = match shape {
        Shape::Wide => (8, ABOVE_BESIDE),
        Shape::Narrow => (LEFT_UNDER, AROUND_UNDER.into()),
    };
    for (line, (mark, text)) in (0..).zip(entries) {
        let y = top + line * i32::from(LINE);
        match *mark {
            Mark::Patch(colour) => {
                area.draw(&Rectangle::new([(x, y - 6), (x + 16, y + 6)], colour.filled()))?
            }
            Mark::Line(colour, width) => {
                area.draw(&PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(width)))?;
            }
            Mark::Tick(colour) => {
                area.draw(&PathElement::new([(x + 8, y - 6), (x + 8, y + 6)], colour.stroke_width(3)))?;
            }
        }
        area.draw(&Text::new(shortened(text, CHARACTERS), (x + 24, y - 6), small()))?;
    }
    Ok(())
}
