//! The two shapes of the picture: for a desk, and for a phone, on whose screen the wide one's letters would be 4 pixels high.

use plotters::prelude::*;

use super::legend;
use super::{Area, INK};

/// How wide the picture is, and where its legends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::simulate) enum Shape {
    /// Legends stand beside their charts.
    Wide,
    /// Legends stand under their charts.
    Narrow,
}

impl Shape {
    pub(super) const fn width(self) -> u32 {
        match self {
            Self::Wide => 1080,
            Self::Narrow => 360,
        }
    }

    /// The height of a chart whose legend has so many lines.
    pub(super) const fn height(self, chart: u32, lines: u32) -> u32 {
        match self {
            Self::Wide => chart,
            Self::Narrow => chart + legend::height(lines),
        }
    }

    /// The part for a chart, and that for its legend.
    pub(super) fn split<'a>(self, area: &Area<'a>, lines: u32) -> (Area<'a>, Area<'a>) {
        let pixels = |length: u32| i32::try_from(length).unwrap_or(i32::MAX);
        match self {
            Self::Wide => area.split_horizontally(pixels(self.width()) - legend::WIDTH),
            Self::Narrow => {
                area.split_vertically(pixels(area.dim_in_pixel().1) - pixels(legend::height(lines)))
            }
        }
    }

    /// Frame and margins that all charts have.
    pub(super) fn chart<'a, 'b>(
        self,
        area: &'a Area<'b>,
        title: &str,
    ) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
        let (right, left, letters) = match self {
            Self::Wide => (24, 76, 20),
            Self::Narrow => (14, 62, 18),
        };
        let mut builder = ChartBuilder::on(area);
        builder
            .margin(10)
            .margin_right(right)
            .x_label_area_size(46)
            .y_label_area_size(left)
            .caption(title, ("sans-serif", letters, &INK));
        builder
    }

    /// Characters of a policy's name that fit in a title.
    pub(super) const fn name_characters(self) -> usize {
        match self {
            Self::Wide => 60,
            Self::Narrow => 22,
        }
    }

    /// About so many marks fit on the axis of time.
    pub(super) const fn marks(self) -> usize {
        match self {
            Self::Wide => 10,
            Self::Narrow => 5,
        }
    }
}
