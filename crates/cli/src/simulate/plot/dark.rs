//! The picture where the reader's system is dark: each colour by name, so that what reads no style sheet sees the light one.

use std::fmt::Write as _;

use plotters::style::RGBColor;
use plotters::style::colors::WHITE;

use super::{INK, POLICIES, QUIET};

/// Paper, ink, lines, and the one colour of policies that is too dark for dark paper; the others stand on both.
const DARK: [(RGBColor, RGBColor); 4] = [
    (WHITE, RGBColor(0x1c, 0x20, 0x24)),
    (INK, RGBColor(0xe4, 0xe7, 0xea)),
    (QUIET, RGBColor(0x3d, 0x45, 0x4d)),
    (POLICIES[0], RGBColor(0x2a, 0x87, 0xd0)),
];

/// The picture with a style sheet of its own.
pub(super) fn with_dark_colours(svg: &str) -> String {
    let Some((start, rest)) = svg.split_once('>') else {
        return svg.to_owned();
    };
    let mut rules = String::new();
    for (light, dark) in DARK.map(|(light, dark)| (hex(light), hex(dark))) {
        for name in ["fill", "stroke"] {
            let _ = write!(rules, "svg [{name}=\"{light}\"]{{{name}:{dark}}}");
        }
    }
    format!("{start}>\n<style>@media (prefers-color-scheme: dark) {{{rules}}}</style>{rest}")
}

/// As the charting library writes it.
fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_that_dark_paper_would_swallow_has_another_one_there() {
        let svg = with_dark_colours("<svg width=\"1\"><rect fill=\"#FFFFFF\"/></svg>");
        assert!(svg.starts_with("<svg width=\"1\">\n<style>@media (prefers-color-scheme: dark) {"), "{svg}");
        assert!(svg.ends_with("}</style><rect fill=\"#FFFFFF\"/></svg>"), "{svg}");
        assert!(svg.contains("svg [fill=\"#FFFFFF\"]{fill:#1C2024}"), "{svg}");
        assert!(svg.contains("svg [stroke=\"#1F2328\"]{stroke:#E4E7EA}"), "{svg}");
    }
}
