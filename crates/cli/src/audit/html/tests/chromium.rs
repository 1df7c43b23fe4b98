//! The page in a real browser. `cargo xtask test` leaves this out, and says so, where there is none.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;

/// A directory of this test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redeliver-chromium-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens the page in headless Chromium; what it prints.
fn opened(scratch: &Scratch, page: &str, arguments: &[String]) -> String {
    let file = scratch.0.join("page.html");
    std::fs::write(&file, page).unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,1800"])
        .arg(format!("--user-data-dir={}", scratch.0.join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .output();
    let output = output.unwrap_or_else(|error| {
        panic!("chromium does not start ({error}); install it, or leave this out with `--skip chromium`")
    });
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_browser_sees_the_page_as_it_was_meant_and_runs_nothing() {
    let scratch = Scratch::new("dom");
    let page = page(&hostile(), true);
    let dom = opened(&scratch, &page, &["--dump-dom".to_owned()]);
    assert!(dom.contains("<title>2 dead letters in final-dlq</title>"), "{dom}");
    for (tag, count) in [("<svg", 7), ("<script", 0), ("<img", 0)] {
        assert_eq!(dom.matches(tag).count(), count, "{tag} in {dom}");
    }
    for tag in ["<svg", "<details", "<tr", "<rect", "<circle", "<pre", "<section"] {
        assert_eq!(
            dom.matches(tag).count(),
            page.matches(tag).count(),
            "{tag}: nothing was moved or closed early"
        );
    }
}

#[test]
fn the_browser_draws_the_page() {
    let scratch = Scratch::new("picture");
    let records: Vec<_> = (0..40)
        .map(|number| {
            let code = if number % 3 == 0 { "NON_RETRYABLE_ERROR" } else { "RETRY_ATTEMPT_EXCEEDED" };
            with_sent_seconds(record(code, "order 1 failed", number), i64::from(number) * 1000)
        })
        .collect();
    let picture = scratch.0.join("page.png");
    let argument = format!("--screenshot={}", picture.display());
    opened(&scratch, &page(&records, false), &[argument]);
    let picture = std::fs::read(picture).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    // Blank paper of this size is some 10 KB.
    assert!(picture.len() > 60_000, "{} bytes", picture.len());
}
