use redeliver_core::message::{Attribute, AttributeValue, Attributes};
use redeliver_dead_letters::Coverage;

use super::*;
use crate::commands::audit::examples::{
    annotated_dead_letter, context, foreign_dead_letter, nth_message_id, received_message, record, report,
    with_sent_time,
};
use redeliver_operator::audit::AuditTally;

mod chromium;

fn render_page(records: &[DeadLetterRecord], report: &AuditReport, reveal: bool) -> String {
    let mut output = Vec::new();
    let mut page = HtmlReport::new(ShowOptions { reveal, ..ShowOptions::default() });
    for record in records {
        page.write_record(record, &mut output).unwrap();
    }
    page.write_report(report, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

fn page(records: &[DeadLetterRecord], reveal: bool) -> String {
    render_page(records, &report(records), reveal)
}

/// Hostile text for every field that an untrusted sender controls.
const HOSTILE: &str = "</script></pre></details><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u{1b}[31m";

fn hostile_records() -> Vec<DeadLetterRecord> {
    let attribute =
        Attribute { data_type: format!("Binary.{HOSTILE}"), value: AttributeValue::Binary(vec![0; 3]) };
    let mut foreign = received_message(HOSTILE, Attributes::from([(HOSTILE.to_owned(), attribute)]), 2);
    foreign.sqs_message_id = HOSTILE.to_owned();
    let body = serde_json::json!({
        "metadata": {
            "message_id": nth_message_id(1), "retry_attempt": 1, HOSTILE: HOSTILE,
            "retry_history": [{"attempt": 0, "failed_at": "1970-01-01T00:01:00Z", "error_type": &HOSTILE[..60], "error_details": HOSTILE}],
        },
        "data": {HOSTILE: HOSTILE},
    });
    vec![
        annotated_dead_letter(&body.to_string(), "NON_RETRYABLE_ERROR", HOSTILE, 1),
        DeadLetterRecord::new(foreign),
    ]
}

#[test]
fn the_audit_page_loads_no_other_resource() {
    let page = page(&[record("RETRY_ATTEMPT_EXCEEDED", "x", 1), foreign_dead_letter("plain", 2)], false);
    for absent in ["<script", "<link", "<img", "src=", "http:", "https:", "url(", "@import", "javascript:"] {
        assert!(!page.contains(absent), "{absent}");
    }
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
    assert!(page.contains("@media (prefers-color-scheme: dark)"));
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">") && page.ends_with("</html>\n"));
}

#[test]
fn a_page_has_charts_groups_and_each_messages_timeline() {
    let records = [
        with_sent_time(record("RETRY_ATTEMPT_EXCEEDED", "order 1 failed", 1), 100),
        with_sent_time(record("RETRY_ATTEMPT_EXCEEDED", "order 2 failed", 2), 5000),
        foreign_dead_letter("plain", 3),
    ];
    let report = report(&records);
    let page = render_page(&records, &report, false);
    assert!(
        page.contains(
            "<h1>3 dead letters</h1><p>in <strong>final-dlq</strong>, read 1970-01-02 00:00:00. All"
        )
    );
    for (count, part) in [
        (1, "<svg class=\"chart\""),
        (3, "<table class=\"bars\""),
        (2, "<svg class=\"timeline\""),
        (4, "<circle class=\"failed\""),
        (2, "<td>attempt 2 failed</td>"),
        (1, "<td>sent here</td>"),
        (1, &format!("<a href=\"#g-{}\">2</a>", report.groups[0].fingerprint)),
        (1, &format!("<h3 id=\"g-{}\">", report.groups[0].fingerprint)),
        (1, "<th scope=\"row\">RETRY_ATTEMPT_EXCEEDED</th>"),
        (1, "<details open>"),
    ] {
        assert_eq!(page.matches(part).count(), count, "{part}");
    }
    let order = [nth_message_id(2), nth_message_id(1), "sqs-3".to_owned()]
        .map(|id| page.find(&format!("<summary><code class=\"id\">{id}")).unwrap());
    assert!(order.is_sorted(), "the largest group first, in it the newest: {order:?}");
}

#[test]
fn bodies_and_attributes_except_the_tenant_are_masked_by_default() {
    let mut with_attribute = record("NON_RETRYABLE_ERROR", "x", 1);
    for (name, value) in [("email", "secret-address"), ("tenant", "Ärger AG")] {
        with_attribute.message.attributes.insert(name.to_owned(), Attribute::string(value));
    }
    let records = [with_attribute, foreign_dead_letter("secret text", 2)];
    let (masked, revealed) = (page(&records, false), page(&records, true));
    assert!(!masked.contains("secret") && masked.contains("Ärger AG"));
    assert!(masked.contains("&quot;card&quot;: &quot;&lt;masked string&gt;&quot;"));
    for secret in ["&quot;secret-1&quot;", "secret-address", "secret text"] {
        assert!(revealed.contains(secret), "{secret}");
    }
}

#[test]
fn a_page_of_5000_messages_is_smaller_than_a_megabyte() {
    let details = |number: u32| {
        format!("{} no. {}", "the order was refused ".repeat(40), char::from(b'a' + (number % 20) as u8))
    };
    let records: Vec<_> =
        (0..5000).map(|number| record("NON_RETRYABLE_ERROR", &details(number), number)).collect();
    let page = page(&records, false);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.contains(" of 5,000 messages are on this page."));
}

#[test]
fn untrusted_text_never_becomes_markup() {
    for reveal in [false, true] {
        let page = page(&hostile_records(), reveal);
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("</script"));
        assert_eq!(page.matches("</details>").count(), page.matches("<details").count());
        assert!(!page.chars().any(|character| character.is_control() && character != '\n'), "{page}");
        assert!(page.contains("&lt;script&gt;"));
    }
}

#[test]
fn the_audit_page_states_coverage_and_filter() {
    let coverage = Coverage {
        seen: 1,
        approximate: 9,
        unreadable: 0,
        complete: false,
        still_hidden: 0,
        reappeared: 0,
        full_groups: 0,
    };
    let mut context = context();
    context.filter = Some(".a < 1".to_owned());
    let page = render_page(&[], &AuditTally::new(context).into_report(coverage, false), false);
    assert!(
        page.contains("<p class=\"warning\">Not everything was read: 1 of about 9 messages; the others"),
        "{page}"
    );
    assert!(page.contains("<code>.a &lt; 1</code>"));
    assert!(page.contains("<h1>0 dead letters</h1>") && !page.contains("<svg"));
}

#[test]
fn scrolling_elements_are_reachable_by_keyboard() {
    let long = annotated_dead_letter("{}", "NON_RETRYABLE_ERROR", &"long ".repeat(100), 1);
    let page = page(&[long], true);
    redeliver_testing::browser::assert_keyboard_reachable(&page);
    assert!(page.contains("<div class=\"details\" tabindex=\"0\">long long"), "{page}");
    assert!(page.contains("<td class=\"details\" tabindex=\"0\">long long"), "{page}");
}
