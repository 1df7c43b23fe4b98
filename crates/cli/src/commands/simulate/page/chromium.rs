//! Tests the page in a real browser.

use redeliver_core::policy::Policy;
use redeliver_sim::cost::{Architecture, Prices};
use redeliver_sim::planner::{Forecast, Scenario};

use redeliver_testing::browser::BrowserScratch;

/// Renders a page with several policies and long names.
fn sample_page(policies: usize) -> String {
    let scenario = Scenario { messages: 50, capacity: Some(1), ..Scenario::default() };
    let policy = Policy::from_json(r#"{"max_attempts":20}"#).unwrap();
    let mut forecast = Forecast::new(scenario, 604_800, Architecture::Arm64, Prices::shipped_list());
    for number in 0..policies {
        forecast.measure_policy(format!("a-policy-with-a-long-name-{number}"), &policy, &|_| {}).unwrap();
    }
    super::render_forecast(&forecast)
}

#[test]
#[ignore = "needs Chromium: cargo xtask test"]
fn the_plan_page_fits_a_phone() {
    let scratch = BrowserScratch::new();
    let (one, six) = (sample_page(1), sample_page(6));
    for (page, width) in [(&one, 390), (&six, 390), (&six, 500), (&six, 920)] {
        let measured = scratch.measure_page(page, width);
        assert_eq!(measured.window, f64::from(width));
        assert!(measured.page <= measured.window, "nothing is off the screen: {measured:?}");
        assert!(measured.tallest_row <= 120.0, "{measured:?}");
        assert!(measured.smallest_letters >= 9.0, "{measured:?}");
    }
}
