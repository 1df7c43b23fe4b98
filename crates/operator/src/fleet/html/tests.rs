use redeliver_testing::browser::BrowserScratch;

use super::*;
use crate::fleet::table::tests::{fleet, fleet_with_queue_without_dlq};

#[test]
fn a_fleet_page_shows_the_tables_cells_and_escapes_markup() {
    let mut fleet = fleet();
    fleet.problems = vec!["us-east-1: <img src=x>".to_owned()];
    let page = render_page(&fleet);
    redeliver_testing::browser::assert_keyboard_reachable(&page);
    for absent in ["<script", "<b>", "<img", "http:", "https:", "src=\""] {
        assert!(!page.contains(absent), "{absent}");
    }
    for part in [
        "<h1>6 dead-letter queues</h1>",
        "<p class=\"warning\">Incomplete: us-east-1: &lt;img src=x&gt;</p>",
        "<dd>12,348</dd><dd class=\"remark\">in 1 DLQ</dd>",
        "<div class=\"alarm\"><dt>Something wrong</dt><dd>2</dd>",
        "<dd>2026-11-23 17:00</dd>",
        "<h2>eu-central-1, account 123456789012, profile prod: 1,234 queues</h2>",
        "<strong>full-dlq</strong><ul><li class=\"wrong\">SQS deletes it</li></ul>",
        "<li class=\"wrong\">AccessDenied: &lt;script&gt;</li>",
        "<li class=\"remark\">it may be an orphan</li>",
        "<div class=\"remark\">&lt;b&gt;pager (alarm)</div>",
        "<div class=\"remark\">read by sweeper</div>",
        "<div class=\"remark\">no reader seen in the last 15 minutes</div>",
    ] {
        assert_eq!(page.matches(part).count(), 1, "{part}: {page}");
    }
}

#[test]
fn a_queue_that_is_not_a_dlq_is_on_the_page_with_its_findings() {
    let page = render_page(&fleet_with_queue_without_dlq());
    let queue =
        "<strong>orders&lt;b&gt;</strong></p><ul><li class=\"wrong\">it has no dead-letter queue</li></ul>";
    assert_eq!(page.matches(queue).count(), 1, "{page}");
    assert!(
        page.contains(
            "<dt>Something wrong</dt><dd>3</dd><dd class=\"remark\">of 6 DLQs and 1 other queue</dd>"
        ),
        "{page}"
    );
}

#[test]
#[ignore = "needs Chromium: cargo xtask test"]
fn a_fleet_page_is_readable_on_a_phone_in_chromium() {
    let mut fleet = fleet();
    let long = "a-queue-with-a-name-of-eighty-letters-which-is-the-most-that-sqs-takes-order-dlq";
    long.clone_into(&mut fleet.dlqs[0].name);
    long.clone_into(&mut fleet.dlqs[0].fed_by[0].name);
    let scratch = BrowserScratch::new();
    for width in [390, 920] {
        let measured = scratch.measure_page(&render_page(&fleet), width);
        assert_eq!(measured.window, f64::from(width));
        assert!(measured.page <= measured.window, "no horizontal overflow: {measured:?}");
        assert!(measured.tallest_row <= 300.0, "{measured:?}");
    }
}
