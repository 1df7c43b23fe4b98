//! What the colours of a chart mean, beside it: nothing is drawn over.

use plotters::prelude::*;

use super::{Area, Drawn, small};
use crate::text::shortened;

/// The legend's part of the width.
pub(super) const WIDTH: i32 = 270;
const LINE: i32 = 22;
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

/// Draws it from the top down.
pub(super) fn draw(area: &Area<'_>, entries: &[(Mark, String)]) -> Drawn {
    for (line, (mark, text)) in (0..).zip(entries) {
        let (x, y) = (8, 52 + line * LINE);
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
