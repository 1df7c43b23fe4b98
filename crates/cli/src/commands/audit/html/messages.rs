//! The messages on the page, group by group, up to the page's limits.

use std::collections::HashMap;

use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::groups::{DeadLetterGroup, OTHER};
use redeliver_operator::dead_letter::{ShowOptions, render_story};
use redeliver_operator::terminal::escape::shorten_text;
use redeliver_operator::terminal::units::{format_count, group_digits};

use super::{GROUPS_MAX, render_badge};
use redeliver_operator::audit::AuditReport;

/// Maximum number of messages shown per group.
const PER_GROUP_MAX: usize = 10;
/// Maximum total size of the markup for the messages shown: a page of 5,000 messages stays below one megabyte.
const SHOWN_BYTES_MAX: usize = 700_000;
/// Maximum size of the markup held in memory until the end.
const KEPT_BYTES_MAX: usize = 48 * 1024 * 1024;
/// Maximum length of a group's heading, in characters.
const HEADING_MAX: usize = 160;

/// The message's send time, and its markup.
type MessageMarkup = (Timestamp, Markup);

/// Messages as markup, by the fingerprint of their group.
#[derive(Debug, Default)]
pub(super) struct GroupedMessages {
    groups: HashMap<String, Vec<MessageMarkup>>,
    bytes: usize,
}

impl GroupedMessages {
    pub(super) fn add(&mut self, record: &DeadLetterRecord, show_options: &ShowOptions) {
        let kept = self.groups.get(&record.fingerprint).map_or(0, Vec::len);
        if kept == PER_GROUP_MAX || self.bytes > KEPT_BYTES_MAX {
            return;
        }
        let markup = render_story(record, show_options);
        self.bytes += markup.0.len();
        self.groups.entry(record.fingerprint.clone()).or_default().push((record.message.sent_at, markup));
    }

    /// Renders the groups in the order of the table, each with its newest messages first. The first message is
    /// expanded, to show what the others contain.
    pub(super) fn render_section(mut self, report: &AuditReport) -> Markup {
        let with_a_row = report.groups.iter().filter(|group| group.fingerprint != OTHER).take(GROUPS_MAX);
        let mut groups: Vec<_> = with_a_row
            .filter_map(|group| Some((Some(group), self.groups.remove(&group.fingerprint)?)))
            .collect();
        let rest: Vec<_> = self.groups.into_values().flatten().collect();
        if !rest.is_empty() {
            groups.push((None, rest));
        }
        for (_, messages) in &mut groups {
            messages.sort_by_key(|(sent_at, _)| std::cmp::Reverse(*sent_at));
        }
        let shown = count_shown(&groups.iter().map(|(_, messages)| messages.as_slice()).collect::<Vec<_>>());
        let groups = groups.into_iter().zip(&shown).filter(|(_, shown)| **shown > 0);
        let groups: Vec<_> =
            groups.map(|((group, messages), shown)| (group, messages.into_iter().take(*shown))).collect();
        let all = shown.iter().sum::<usize>() as u64;
        html! {
            section {
                h2 { "Messages" }
                @if report.total > all {
                    p {
                        (group_digits(all)) " of " (format_count(report.total, "message")) " are on this page. "
                        code { "redeliver audit --show ID" } " prints any of them, and " code { "--format jsonl" } " all."
                    }
                }
                @for (nth, (group, messages)) in groups.into_iter().enumerate() {
                    (render_heading(group, messages.len()))
                    @for (index, (_, message)) in messages.enumerate() {
                        details open[nth == 0 && index == 0] { (message) } "\n"
                    }
                }
            }
        }
    }
}

/// Returns the number of messages shown per group: one from each group before a second one from any, up to the size
/// limit.
fn count_shown(groups: &[&[MessageMarkup]]) -> Vec<usize> {
    let mut shown = vec![0; groups.len()];
    let mut room = SHOWN_BYTES_MAX;
    for nth in 0..PER_GROUP_MAX {
        for (shown, messages) in shown.iter_mut().zip(groups) {
            let Some((_, markup)) = messages.get(nth).filter(|_| *shown == nth) else { continue };
            if let Some(rest) = room.checked_sub(markup.0.len()) {
                room = rest;
                *shown += 1;
            }
        }
    }
    shown
}

fn render_heading(group: Option<&DeadLetterGroup>, shown: usize) -> Markup {
    html! {
        @if let Some(DeadLetterGroup { fingerprint, headline, error_type, count, .. }) = group {
            h3 id={"g-" (fingerprint)} { (shorten_text(headline, HEADING_MAX)) " " (render_badge(error_type)) }
            p class="remark" { (group_digits(shown as u64)) " of " (group_digits(*count)) " in this group" }
        } @else {
            h3 id={"g-" (OTHER)} { "Other groups" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::audit::examples::{record, report};

    #[test]
    fn each_group_shows_one_message_before_any_shows_two() {
        let message = |bytes: usize| (Timestamp::UNIX_EPOCH, maud::PreEscaped("x".repeat(bytes)));
        let many = vec![message(10); 3];
        assert_eq!(count_shown(&[&many, &[message(10)]]), [3, 1]);
        let half = vec![message(SHOWN_BYTES_MAX / 2); 2];
        assert_eq!(count_shown(&[&half, &half, &many]), [1, 1, 0]);
        assert_eq!(count_shown(&[&half, &many]), [1, 3]);
        let mut messages = GroupedMessages::default();
        for _ in 0..PER_GROUP_MAX + 5 {
            messages.add(&record("NON_RETRYABLE_ERROR", "x", 1), &ShowOptions::default());
        }
        assert_eq!(messages.groups.into_values().map(|kept| kept.len()).collect::<Vec<_>>(), [PER_GROUP_MAX]);
    }

    #[test]
    fn a_message_whose_group_has_no_row_is_shown_under_other_groups() {
        let mut messages = GroupedMessages::default();
        let mut lost = record("NON_RETRYABLE_ERROR", "x", 1);
        lost.fingerprint = "none".to_owned();
        messages.add(&lost, &ShowOptions::default());
        let text = messages.render_section(&report(&[record("NON_RETRYABLE_ERROR", "x", 1)])).into_string();
        assert!(text.contains("<h3 id=\"g-other\">Other groups</h3><details open>"), "{text}");
    }
}
