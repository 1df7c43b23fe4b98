//! The messages of the page, group by group, up to the limits of a page.

use std::collections::HashMap;

use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::groups::{Group, OTHER};
use redeliver_operator::dead_letter::{Showing, story};
use redeliver_operator::terminal::escape::shortened;
use redeliver_operator::terminal::units::{counted, grouped};

use super::{GROUPS_MAX, badge};
use redeliver_operator::audit::AuditReport;

/// The limit on messages. The last thousand are kept for groups of which few are shown yet.
const MESSAGES_MAX: usize = 5000;
const MESSAGES_OF_ANY_GROUP: usize = 4000;
const FEW: usize = 20;
/// The limit on the markup of all messages.
const BYTES_MAX: usize = 48 * 1024 * 1024;
/// Characters of a group's heading.
const HEADING_MAX: usize = 160;

/// The time at which the message was sent, and its markup.
type Message = (Timestamp, Markup);

/// Messages as markup, by the fingerprint of their group.
#[derive(Debug, Default)]
pub(super) struct Messages {
    groups: HashMap<String, Vec<Message>>,
    count: usize,
    bytes: usize,
}

impl Messages {
    pub(super) fn add(&mut self, record: &DeadLetterRecord, showing: &Showing) {
        let shown = self.groups.get(&record.fingerprint).map_or(0, Vec::len);
        let has_place = self.count < MESSAGES_OF_ANY_GROUP || (self.count < MESSAGES_MAX && shown < FEW);
        if !has_place || self.bytes > BYTES_MAX {
            return;
        }
        let markup = story(record, showing);
        self.count += 1;
        self.bytes += markup.0.len();
        self.groups.entry(record.fingerprint.clone()).or_default().push((record.message.sent_at, markup));
    }

    /// The groups in the order of the table, with the newest messages first in each. The first message is open, to show
    /// what the others contain.
    pub(super) fn section(mut self, report: &AuditReport) -> Markup {
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
        html! {
            section {
                h2 { "Messages" }
                @if report.total > self.count as u64 {
                    p {
                        (grouped(self.count as u64)) " of " (counted(report.total, "message")) " are on this page; "
                        code { "redeliver audit --show ID" } " prints any of them."
                    }
                }
                @for (nth, (group, messages)) in groups.iter().enumerate() {
                    (heading(*group, messages.len()))
                    @for (index, (_, message)) in messages.iter().enumerate() {
                        details open[nth == 0 && index == 0] { (message) } "\n"
                    }
                }
            }
        }
    }
}

fn heading(group: Option<&Group>, shown: usize) -> Markup {
    html! {
        @if let Some(Group { fingerprint, headline, error_type, count, .. }) = group {
            h3 id={"g-" (fingerprint)} { (shortened(headline, HEADING_MAX)) " " (badge(error_type)) }
            p class="remark" { (grouped(shown as u64)) " of " (grouped(*count)) " in this group" }
        } @else {
            h3 id={"g-" (OTHER)} { "Of other groups" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::audit::examples::{record, report};

    #[test]
    fn a_page_has_as_many_messages_as_it_can_bear_and_some_of_each_group() {
        let mut messages = Messages::default();
        let large = record("NON_RETRYABLE_ERROR", "x", 1);
        let mut small = large.clone();
        small.fingerprint = "small".to_owned();
        for _ in 0..MESSAGES_MAX {
            messages.add(&large, &Showing::default());
        }
        for _ in 0..FEW + 5 {
            messages.add(&small, &Showing::default());
        }
        assert_eq!(messages.groups[&large.fingerprint].len(), MESSAGES_OF_ANY_GROUP);
        assert_eq!(messages.groups["small"].len(), FEW);
    }

    #[test]
    fn a_message_of_a_group_without_a_row_is_shown_with_the_others() {
        let mut messages = Messages::default();
        let mut lost = record("NON_RETRYABLE_ERROR", "x", 1);
        lost.fingerprint = "none".to_owned();
        messages.add(&lost, &Showing::default());
        let text = messages.section(&report(&[record("NON_RETRYABLE_ERROR", "x", 1)])).into_string();
        assert!(text.contains("<h3 id=\"g-other\">Of other groups</h3><details open>"), "{text}");
    }
}
