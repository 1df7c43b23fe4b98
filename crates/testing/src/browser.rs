//! Opens pages in a real browser, for tests. Without a browser, `cargo xtask test` skips these tests and says so.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Measurements that show whether a page is legible.
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

/// Measures the frame that contains the page, and writes the result to the title. (A Chromium window is at least 500
/// pixels wide, but a frame can be as narrow as a phone.)
const MEASURE: &str = "<script>onload = () => {
  const { contentWindow: window, contentDocument: page } = document.querySelector('iframe');
  page.querySelectorAll('details').forEach((details) => { details.open = true; });
  const visible = (selector) => [...page.querySelectorAll(selector)].filter((node) => node.getClientRects().length);
  const rows = visible('tr').map((row) => row.getBoundingClientRect().height);
  const letters = visible('svg text').map((text) => {
    const { a, b } = text.getScreenCTM();
    return parseFloat(window.getComputedStyle(text).fontSize) * Math.hypot(a, b);
  });
  const needed = page.scrollingElement.scrollWidth;
  document.title = [window.innerWidth, needed, Math.max(0, ...rows), Math.min(99, ...letters)].join(' ');
};</script>";

/// A temporary directory for one test, which is removed at the end of the test.
pub struct BrowserScratch(TempDir);

impl BrowserScratch {
    #[expect(clippy::new_without_default, reason = "tests create directories explicitly")]
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn file_path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Opens a page in a window of this width, and returns Chromium's output.
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
            panic!(
                "could not start chromium ({error}); install it, or skip these tests with `--skip chromium`"
            )
        });
        String::from_utf8(output.stdout).unwrap()
    }

    /// Measures a page, with all its `<details>` open, in a frame of this width.
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

/// Asserts that each scrollable element can be reached with the keyboard, and has a role and a label.
pub fn assert_keyboard_reachable(page: &str) {
    let starts = ["<pre", "<div class=\"scroll\""].map(|start| page.match_indices(start));
    let tags: Vec<_> =
        starts.into_iter().flatten().filter_map(|(at, _)| page[at..].split('>').next()).collect();
    assert!(!tags.is_empty(), "no scrollable element in {page}");
    for tag in tags {
        for attribute in [" tabindex=\"0\"", " role=\"", " aria-label=\""] {
            assert!(tag.contains(attribute), "{attribute} is missing in {tag}");
        }
    }
}
