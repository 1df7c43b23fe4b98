//! Pages in a real browser, for tests. Without a browser, `cargo xtask test` skips those, and reports so.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Measurements of a page's legibility.
#[derive(Debug)]
pub struct PageMeasurements {
    pub window: f64,
    /// The width in pixels that the page needs.
    pub page: f64,
    /// The height in pixels of the tallest table row.
    pub tallest_row: f64,
    /// The size in pixels of the smallest text in a picture.
    pub smallest_letters: f64,
}

/// Measures the frame that contains the page, and writes the result into the title. (A window of Chromium is at least
/// 500 pixels wide; a frame can be as narrow as a phone.)
const MEASURE: &str = "<script>onload = () => {
  const { contentWindow: window, contentDocument: page } = document.querySelector('iframe');
  page.querySelectorAll('details').forEach((one) => { one.open = true; });
  const seen = (selector) => [...page.querySelectorAll(selector)].filter((one) => one.getClientRects().length);
  const rows = seen('tr').map((row) => row.getBoundingClientRect().height);
  const letters = seen('svg text').map((text) => {
    const { a, b } = text.getScreenCTM();
    return parseFloat(window.getComputedStyle(text).fontSize) * Math.hypot(a, b);
  });
  const needed = page.scrollingElement.scrollWidth;
  document.title = [window.innerWidth, needed, Math.max(0, ...rows), Math.min(99, ...letters)].join(' ');
};</script>";

/// A temporary directory for one test, removed at its end.
pub struct BrowserScratch(TempDir);

impl BrowserScratch {
    #[expect(clippy::new_without_default, reason = "a test makes one on purpose")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn file_path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Opens a page in a window of this width, and returns what Chromium prints.
    pub fn open_page(&self, page: &str, width: u32, arguments: &[String]) -> String {
        let file = self.file_path("page.html");
        #[expect(clippy::disallowed_methods, reason = "the folder is the test's own")]
        std::fs::write(&file, page).unwrap();
        let output = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .arg("--disable-background-networking")
            .arg(format!("--window-size={width},1800"))
            .arg(format!("--user-data-dir={}", self.file_path("profile").display()))
            .args(arguments)
            .arg(format!("file://{}", file.display()))
            .stdin(Stdio::null())
            .output();
        let output = output.unwrap_or_else(|error| {
            panic!("chromium does not start ({error}); install it, or leave this out with `--skip chromium`")
        });
        String::from_utf8(output.stdout).unwrap()
    }

    /// Lays out a page, with all of its details open, in a window of this width.
    pub fn measure_page(&self, page: &str, width: u32) -> PageMeasurements {
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        let frame = format!(
            "<iframe style=\"border:0\" width=\"{width}\" height=\"1800\" srcdoc=\"{page}\"></iframe>"
        );
        let outer = format!("<!doctype html>\n<title></title>\n{frame}\n{MEASURE}\n");
        let dom = self.open_page(&outer, 1280, &["--dump-dom".to_owned()]);
        let title = dom.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
        let numbers: Vec<f64> = title.unwrap_or_default().split(' ').flat_map(str::parse).collect();
        let [window, page, tallest_row, smallest_letters] = numbers[..] else {
            panic!("{}", &dom[..dom.len().min(500)])
        };
        PageMeasurements { window, page, tallest_row, smallest_letters }
    }
}

/// Asserts that each scrollable element can be reached by keyboard, and has a role and a label.
pub fn assert_reachable(page: &str) {
    let starts = ["<pre", "<div class=\"scroll\""].map(|start| page.match_indices(start));
    let tags: Vec<_> =
        starts.into_iter().flatten().filter_map(|(at, _)| page[at..].split('>').next()).collect();
    assert!(!tags.is_empty(), "nothing scrolls in {page}");
    for tag in tags {
        for attribute in [" tabindex=\"0\"", " role=\"", " aria-label=\""] {
            assert!(tag.contains(attribute), "{attribute} in {tag}");
        }
    }
}
