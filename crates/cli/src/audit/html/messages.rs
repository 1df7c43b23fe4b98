//! The messages of the page, group by group: as many as a page can bear.

use std::collections::HashMap;
use std::io::{self, Write};

use redeliver_core::message::Timestamp;

use super::groups::{ROWS_MAX, badge};
use super::story::story;
use crate::audit::groups::{Group, OTHER};
use crate::audit::report::Report;
use crate::dead_letters::DeadLetterRecord;
use crate::markup::escape;
use crate::people::{counted, grouped};
use crate::text::shortened;

/// Messages that are shown, the last thousand of them only of groups that have few.
const MESSAGES_MAX: usize = 5000;
const MESSAGES_OF_ANY_GROUP: usize = 4000;
const FEW: usize = 20;
/// Characters of all that is shown of messages.
const BYTES_MAX: usize = 48 * 1024 * 1024;
/// Characters of a group's heading.
const HEADING_MAX: usize = 160;

/// Messages as markup, by the fingerprint of their group.
#[derive(Debug, Default)]
pub(super) struct Messages {
    groups: HashMap<String, Vec<(Timestamp, String)>>,
    count: usize,
    bytes: usize,
}

impl Messages {
    pub(super) fn add(&mut self, record: &DeadLetterRecord, reveal: bool) {
        let shown = self.groups.get(&record.fingerprint).map_or(0, Vec::len);
        let has_place = self.count < MESSAGES_OF_ANY_GROUP || (self.count < MESSAGES_MAX && shown < FEW);
        if !has_place || self.bytes > BYTES_MAX {
            return;
        }
        let markup = story(record, reveal);
        self.count += 1;
        self.bytes += markup.len();
        self.groups.entry(record.fingerprint.clone()).or_default().push((record.message.sent_at, markup));
    }

    /// Newest first in each group; the groups as in the table.
    pub(super) fn write(&mut self, report: &Report, output: &mut dyn Write) -> io::Result<()> {
        let all = report.total <= self.count as u64;
        let count = if all {
            String::new()
        } else {
            format!(
                "<p>{} of {} are on this page; <code>redeliver audit --show ID</code> prints any of them.</p>\n",
                grouped(self.count as u64),
                counted(report.total, "message")
            )
        };
        writeln!(output, "<section>\n<h2>Messages</h2>\n{count}")?;
        let mut is_open = true;
        for group in report.groups.iter().filter(|group| group.fingerprint != OTHER).take(ROWS_MAX) {
            if let Some(messages) = self.groups.remove(&group.fingerprint) {
                write_group(Some(group), messages, is_open, output)?;
                is_open = false;
            }
        }
        let rest: Vec<_> = std::mem::take(&mut self.groups).into_values().flatten().collect();
        if !rest.is_empty() {
            write_group(None, rest, is_open, output)?;
        }
        writeln!(output, "</section>")
    }
}

/// The first message of the page is open, so that its readers see what there is to open.
fn write_group(
    group: Option<&Group>,
    mut messages: Vec<(Timestamp, String)>,
    is_open: bool,
    output: &mut dyn Write,
) -> io::Result<()> {
    match group {
        Some(group) => writeln!(
            output,
            "<h3 id=\"g-{}\">{} {}</h3>\n<p class=\"remark\">{} of {} in this group</p>",
            escape(&group.fingerprint),
            badge(&group.error_type),
            escape(&shortened(&group.error_details, HEADING_MAX)),
            grouped(messages.len() as u64),
            grouped(group.count),
        )?,
        None => writeln!(output, "<h3 id=\"g-{OTHER}\">Of other groups</h3>")?,
    }
    messages.sort_by(|one, other| other.cmp(one));
    for (index, (_, markup)) in messages.into_iter().enumerate() {
        let open = if is_open && index == 0 { " open" } else { "" };
        writeln!(output, "<details{open}>{markup}</details>")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{record, report};

    #[test]
    fn a_page_has_as_many_messages_as_it_can_bear_and_some_of_each_group() {
        let mut messages = Messages::default();
        let large = record("NON_RETRYABLE_ERROR", "x", 1);
        let mut small = large.clone();
        small.fingerprint = "small".to_owned();
        for _ in 0..MESSAGES_MAX {
            messages.add(&large, false);
        }
        for _ in 0..FEW + 5 {
            messages.add(&small, false);
        }
        assert_eq!(messages.groups[&large.fingerprint].len(), MESSAGES_OF_ANY_GROUP);
        assert_eq!(messages.groups["small"].len(), FEW);
    }

    #[test]
    fn a_message_of_a_group_without_a_row_is_shown_with_the_others() {
        let mut messages = Messages::default();
        let mut lost = record("NON_RETRYABLE_ERROR", "x", 1);
        lost.fingerprint = "none".to_owned();
        messages.add(&lost, false);
        let mut output = Vec::new();
        messages.write(&report(&[record("NON_RETRYABLE_ERROR", "x", 1)]), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains("<h3 id=\"g-other\">Of other groups</h3>\n<details open>"), "{text}");
    }
}
