//! The CloudWatch Logs Insights queries in docs/operate/logs.md, compared with the actual lines.

use std::collections::BTreeSet;

use super::*;

const RUNBOOK: &str = include_str!("../../../../../docs/operate/logs.md");
/// Keywords of the query language ("CloudWatch Logs Insights language query syntax").
const WORDS: [&str; 18] = [
    "filter",
    "stats",
    "sort",
    "fields",
    "and",
    "or",
    "in",
    "by",
    "as",
    "desc",
    "ispresent",
    "bin",
    "sum",
    "count",
    "avg",
    "pct",
    "@timestamp",
    "ID",
];

fn queries() -> Vec<&'static str> {
    let fenced = RUNBOOK.split("```sql\n").skip(1);
    fenced.map(|rest| rest.split_once("\n```").unwrap().0).collect()
}

/// Splits a query into its quoted strings and all other words.
fn split_query(query: &str) -> (BTreeSet<&str>, Vec<&str>) {
    let parts: Vec<_> = query.split('"').collect();
    let quoted = parts.iter().skip(1).step_by(2).copied().filter(|text| *text != "ID").collect();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '@';
    let words = parts.iter().step_by(2).flat_map(|part| part.split(|c| !is_word(c)));
    (quoted, words.filter(|word| word.starts_with(|c: char| !c.is_ascii_digit())).collect())
}

/// Returns all possible lines.
fn all_lines() -> Vec<Value> {
    let details = [LogDetail::Batches, LogDetail::Messages];
    let written = details.map(|detail| {
        log_lines_with_settings(Logging { tracing: None, detail, level: LogLevel::Info }, &all_events())
    });
    written.iter().flat_map(|text| parse_lines(text)).collect()
}

#[test]
fn runbook_queries_use_only_fields_of_the_log_lines() {
    let lines = all_lines();
    let queries = queries();
    assert_eq!(queries.len(), 9);
    for query in queries {
        let (events, words) = split_query(query);
        let is_selected =
            |line: &&Value| events.is_empty() || events.contains(line["event"].as_str().unwrap());
        let selected: Vec<_> = lines.iter().filter(is_selected).collect();
        for event in &events {
            assert!(selected.iter().any(|line| line["event"] == **event), "{event}: {query}");
        }
        let aliases: BTreeSet<_> =
            words.windows(2).filter(|pair| pair[0] == "as").map(|pair| pair[1]).collect();
        for word in words.iter().filter(|word| !WORDS.contains(word) && !aliases.contains(*word)) {
            let found: Vec<_> = selected.iter().filter_map(|line| line.get(word)).collect();
            assert!(!found.is_empty(), "no line has {word}: {query}");
            let is_summed = query.contains(&format!("sum({word})")) || query.contains(&format!("{word} > "));
            assert!(!is_summed || found.iter().all(|value| value.is_number()), "{word}: {query}");
            let is_grouped = query.contains(&format!("by {word}"));
            assert!(!is_grouped || found.iter().all(|value| value.is_string()), "{word}: {query}");
        }
    }
}

/// The sums that the queries calculate equal the numbers of events.
#[test]
fn failures_and_retries_add_up_across_lines() {
    let failed = [503, 503, 429].map(|status| handed_off_event(&ErrorType::HttpStatus(status)));
    let events: Vec<_> = failed.into_iter().chain([1, 1, 1, 2].map(retry_scheduled_event)).collect();
    let lines = parse_lines(&log_lines(&events));
    let sum = |by: &str, value: &str, name: &str| -> u64 {
        lines.iter().filter(|line| line[by] == value).filter_map(|line| line[name].as_u64()).sum()
    };
    assert_eq!(sum("error_type", "HttpStatus.503", "failures"), 2);
    assert_eq!(sum("error_type", "HttpStatus.429", "failures"), 1);
    assert_eq!(
        [sum("RetryAttempt", "1", "RetriesScheduled"), sum("RetryAttempt", "2", "RetriesScheduled")],
        [3, 1]
    );
}
