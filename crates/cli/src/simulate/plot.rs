//! The picture: load on the target, schedule and survival, one under the other.
//!
//! Colours are Okabe and Ito's, which people see apart whatever their colour vision; the background is always light.

mod axis;
mod legend;
mod load;
mod schedule;
mod survival;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;

use super::error::SimulateError;
use super::page;
use super::report::Report;
use crate::files::FileError;

const WIDTH: u32 = 1080;
const LOAD_HEIGHT: u32 = 240;
const SURVIVAL_HEIGHT: u32 = 320;

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
        let svg = svg(report)?;
        let content = if self.is_page { page::of(report, &svg) } else { svg };
        std::fs::write(&self.path, content)
            .map_err(|error| FileError::new(&self.path, format_args!("cannot be written: {error}")).into())
    }
}

/// The whole picture.
pub(super) fn svg(report: &Report) -> Result<String, SimulateError> {
    let policies = u32::try_from(report.policies.len()).unwrap_or(u32::MAX);
    let schedule_height = schedule::height(report);
    let height = policies * LOAD_HEIGHT + schedule_height + SURVIVAL_HEIGHT;
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    draw(&root, report, schedule_height).map_err(|error| SimulateError::Picture(error.to_string()))?;
    drop(root);
    Ok(svg)
}

fn draw(root: &Area<'_>, report: &Report, schedule_height: u32) -> Drawn {
    root.fill(&WHITE)?;
    let mut rest = root.clone();
    for policy in &report.policies {
        let (area, below) = rest.split_vertically(LOAD_HEIGHT);
        load::draw(&area, report, policy)?;
        rest = below;
    }
    let (area, below) = rest.split_vertically(schedule_height);
    schedule::draw(&area, report)?;
    survival::draw(&below, report)?;
    root.present()?;
    Ok(())
}

/// The part for a chart, and that for its legend.
fn beside_legend<'a>(area: &Area<'a>) -> (Area<'a>, Area<'a>) {
    area.split_horizontally(i32::try_from(WIDTH).unwrap_or(i32::MAX) - legend::WIDTH)
}

/// Frame and margins that all charts have.
fn chart<'a, 'b>(area: &'a Area<'b>, title: impl Display) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut builder = ChartBuilder::on(area);
    builder
        .margin(10)
        .margin_right(24)
        .x_label_area_size(46)
        .y_label_area_size(76)
        .caption(title.to_string(), ("sans-serif", 20, &INK));
    builder
}

/// The size and colour of what is written on axes and in legends.
fn small<'a>() -> TextStyle<'a> {
    ("sans-serif", 16, &INK).into_text_style(&(WIDTH, LOAD_HEIGHT))
}
