//! The picture: load on the target, schedule and survival, one under the other.
//!
//! Colours are Okabe and Ito's, which people see apart whatever their colour vision.

mod axis;
mod dark;
mod legend;
mod load;
mod schedule;
mod shape;
mod survival;

use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;

use super::error::SimulateError;
use super::page;
use super::report::Report;
use crate::files::FileError;

const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const QUIET: RGBColor = RGBColor(0xd8, 0xdb, 0xdf);
/// One for each policy.
const POLICIES: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];
/// Policies that can be told apart in one picture.
pub(super) const POLICIES_MAX: usize = POLICIES.len();

pub(super) use shape::Shape;

/// A part of the picture.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What the charting library answers.
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Where the picture goes, and as what.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    path: PathBuf,
    is_page: bool,
}

impl Picture {
    /// By the name's ending.
    pub(super) fn at(path: &Path) -> Result<Self, SimulateError> {
        let is_page = match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => false,
            Some("html") => true,
            _ => return Err(SimulateError::PictureName(path.to_owned())),
        };
        Ok(Self { path: path.to_owned(), is_page })
    }

    pub(super) fn write(&self, report: &Report) -> Result<(), SimulateError> {
        let wide = svg(report, Shape::Wide)?;
        let content = match self.is_page {
            true => page::of(report, &wide, &svg(report, Shape::Narrow)?),
            false => wide,
        };
        std::fs::write(&self.path, content)
            .map_err(|error| FileError::new(&self.path, format_args!("cannot be written: {error}")).into())
    }
}

/// The whole picture.
pub(super) fn svg(report: &Report, shape: Shape) -> Result<String, SimulateError> {
    let heights = Heights {
        loads: (0..report.policies.len()).map(|index| load::height(report, index, shape)).collect(),
        schedule: schedule::height(report, shape),
        survival: survival::height(report, shape),
    };
    let height = heights.loads.iter().sum::<u32>() + heights.schedule + heights.survival;
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (shape.width(), height)).into_drawing_area();
    draw(&root, report, shape, &heights).map_err(|error| SimulateError::Picture(error.to_string()))?;
    drop(root);
    Ok(dark::with_dark_colours(&svg))
}

/// Of the parts, in pixels.
struct Heights {
    loads: Vec<u32>,
    schedule: u32,
    survival: u32,
}

fn draw(root: &Area<'_>, report: &Report, shape: Shape, heights: &Heights) -> Drawn {
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for (index, height) in heights.loads.iter().enumerate() {
        let (area, below) = rest.split_vertically(*height);
        load::draw(&area, report, index, shape)?;
        rest = below;
    }
    let (area, below) = rest.split_vertically(heights.schedule);
    schedule::draw(&area, report, shape)?;
    let (area, _) = below.split_vertically(heights.survival);
    survival::draw(&area, report, shape)?;
    root.present()?;
    Ok(())
}

/// The size and colour of what is written on axes and in legends.
fn small<'a>() -> TextStyle<'a> {
    // The size of the picture is only asked for by fonts that are sized in parts of it.
    ("sans-serif", 16, &INK).into_text_style(&(Shape::Wide.width(), 0))
}
