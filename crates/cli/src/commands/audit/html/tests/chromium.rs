//! Tests the page in a real browser. `cargo xtask test` skips these tests with a message if no browser is installed.

use redeliver_testing::browser::BrowserScratch;

use super::*;

#[test]
#[ignore = "needs Chromium: cargo xtask test"]
fn untrusted_text_runs_no_script_in_chromium() {
    let scratch = BrowserScratch::new();
    let page = page(&hostile_records(), true);
    let dom = scratch.open_page(&page, 1280, &["--dump-dom".to_owned()]);
    assert!(dom.contains("<title>2 dead letters in final-dlq</title>"), "{dom}");
    for (tag, count) in [("<svg", 2), ("<script", 0), ("<img", 0)] {
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
#[ignore = "needs Chromium: cargo xtask test"]
fn chromium_renders_the_audit_page() {
    let scratch = BrowserScratch::new();
    let records: Vec<_> = (0..40)
        .map(|number| {
            let code = if number % 3 == 0 { "NON_RETRYABLE_ERROR" } else { "RETRY_ATTEMPT_EXCEEDED" };
            with_sent_time(record(code, "order 1 failed", number), i64::from(number) * 1000)
        })
        .collect();
    let picture = scratch.file_path("page.png");
    let argument = format!("--screenshot={}", picture.display());
    scratch.open_page(&page(&records, false), 1280, &[argument]);
    let picture = std::fs::read(picture).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    // A blank page of this size is about 10 KB.
    assert!(picture.len() > 60_000, "{} bytes", picture.len());
}

/// Returns records with strings of maximum length, with and without places where a line can break.
fn long_records() -> Vec<DeadLetterRecord> {
    let words = "the provider of payments has answered with an error that was never seen before; ".repeat(12);
    let mut foreign = foreign_dead_letter(&"y".repeat(400), 4);
    foreign.message.attributes.insert("a".repeat(200), Attribute::string("v".repeat(500)));
    foreign.message.sqs_message_id = "i".repeat(100);
    let mut records: Vec<_> = (0..12)
        .map(|number| {
            with_sent_time(record("RETRY_ATTEMPT_EXCEEDED", "down", number), i64::from(number) * 5000)
        })
        .collect();
    records.extend([
        record("INVALID_MESSAGE_SCHEMA", &words, 20),
        record("NON_RETRYABLE_ERROR", &"x".repeat(1000), 21),
        foreign,
    ]);
    records.extend(hostile_records());
    records
}

#[test]
#[ignore = "needs Chromium: cargo xtask test"]
fn the_audit_page_fits_a_phone() {
    let scratch = BrowserScratch::new();
    let page = page(&long_records(), true);
    for width in [390, 500, 768, 1200] {
        let measured = scratch.measure_page(&page, width);
        assert_eq!(measured.window, f64::from(width));
        assert!(measured.page <= measured.window, "nothing is off the screen: {measured:?}");
        assert!(measured.tallest_row <= 400.0, "{measured:?}");
        assert!(measured.smallest_letters >= 9.0, "{measured:?}");
    }
}
