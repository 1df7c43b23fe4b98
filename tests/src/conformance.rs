//! The rules of SQS as one suite, for the embedded queues, for an emulator and for AWS; and a second suite with the
//! rules for buckets.
//!
//! A rule is a function over the ports; it creates its own queues and returns the first violation. All rules run
//! concurrently. If an implementation is known to depart from SQS, the rule still runs: its failure is expected, and
//! its success is reported, so that no skip outlives its reason.

mod bench;
mod content;
mod deleting;
mod fifo;
mod objects;
mod polling;
mod redrive;
mod refused;
mod sending;
mod visibility;

use std::fmt;
use std::time::Duration;

use futures_util::future::{Either, LocalBoxFuture, join_all, select};
use redeliver_core::ports::{Clock, QueueService};

pub use bench::{BrokenRule, ConformanceBench};
pub use objects::{OBJECT_RULES, run_all_object_rules};

/// The time limit of a rule. No rule takes this long, even on AWS.
const RULE_SECONDS_MAX: u64 = 180;

/// The result of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// The rule holds.
    Holds,
    /// The rule does not hold. The string says what was observed.
    Broken(String),
    /// The rule does not hold, as expected.
    KnownDeparture(String),
    /// The rule holds although it is listed as a known departure: remove the entry.
    HoldsAfterAll,
}

/// The results of all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConformanceReport {
    /// Each rule, in the order of [`RULES`] or [`OBJECT_RULES`].
    pub outcomes: Vec<(&'static str, RuleOutcome)>,
    /// The URLs of queues that could not be deleted. Delete them by hand.
    pub left_behind: Vec<String>,
}

impl ConformanceReport {
    /// Returns true if each rule has its expected result; known departures are expected to fail.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        let is_good =
            |outcome: &RuleOutcome| matches!(outcome, RuleOutcome::Holds | RuleOutcome::KnownDeparture(_));
        self.left_behind.is_empty() && self.outcomes.iter().all(|(_, outcome)| is_good(outcome))
    }

    /// Returns the rules with a known departure.
    pub fn known_departures(&self) -> impl Iterator<Item = &'static str> {
        let is_known = |outcome: &RuleOutcome| matches!(outcome, RuleOutcome::KnownDeparture(_));
        self.outcomes.iter().filter(move |(_, outcome)| is_known(outcome)).map(|(rule, _)| *rule)
    }
}

impl fmt::Display for ConformanceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rule, outcome) in &self.outcomes {
            match outcome {
                RuleOutcome::Holds => writeln!(f, "ok       {rule}")?,
                RuleOutcome::Broken(why) => writeln!(f, "BROKEN   {rule}: {why}")?,
                RuleOutcome::KnownDeparture(why) => writeln!(f, "departs  {rule}: {why}")?,
                RuleOutcome::HoldsAfterAll => {
                    writeln!(f, "STALE    {rule}: it holds; remove it from the known skips")?;
                }
            }
        }
        for url in &self.left_behind {
            writeln!(f, "LEFT     {url}: it could not be deleted")?;
        }
        Ok(())
    }
}

/// Runs all rules on the bench's service, and deletes the queues that they created. `departs` returns true for a rule
/// that is known not to hold there.
pub async fn run_all<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
    departs: impl Fn(&str) -> bool,
) -> ConformanceReport {
    run_rules(bench, start_all(bench), departs).await
}

/// Runs the rules for FIFO queues only, like [`run_all`], for an emulator that is too slow to run all rules at once.
pub async fn run_fifo<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
    departs: impl Fn(&str) -> bool,
) -> ConformanceReport {
    let mut rules = start_all(bench);
    rules.retain(|(module, _, _)| *module == "fifo");
    run_rules(bench, rules, departs).await
}

async fn run_rules<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
    rules: Vec<StartedRule<'_>>,
    departs: impl Fn(&str) -> bool,
) -> ConformanceReport {
    let runs = rules.into_iter().map(async |(_, rule, run)| {
        let timeout = Box::pin(bench.clock().sleep(Duration::from_secs(RULE_SECONDS_MAX)));
        let verdict = match select(run, timeout).await {
            Either::Left((verdict, _)) => verdict,
            Either::Right(((), _)) => Err(BrokenRule::new(format!("not done after {RULE_SECONDS_MAX} s"))),
        };
        (rule, judge_rule(verdict, departs(rule)))
    });
    let outcomes = join_all(runs).await;
    ConformanceReport { outcomes, left_behind: bench.clean_up().await }
}

fn judge_rule(verdict: Result<(), BrokenRule>, departs: bool) -> RuleOutcome {
    match (verdict, departs) {
        (Ok(()), false) => RuleOutcome::Holds,
        (Ok(()), true) => RuleOutcome::HoldsAfterAll,
        (Err(broken), false) => RuleOutcome::Broken(broken.to_string()),
        (Err(broken), true) => RuleOutcome::KnownDeparture(broken.to_string()),
    }
}

/// A rule's module, its name, and the future that runs it.
type StartedRule<'b> = (&'static str, &'static str, LocalBoxFuture<'b, Result<(), BrokenRule>>);

macro_rules! rules {
    ($($module:ident::$rule:ident),+ $(,)?) => {
        /// The names of all rules.
        pub const RULES: &[&str] = &[$(stringify!($rule)),+];

        fn start_all<'b, S: QueueService, C: Clock>(bench: &'b ConformanceBench<'_, S, C>) -> Vec<StartedRule<'b>> {
            vec![$((stringify!($module), stringify!($rule), Box::pin($module::$rule(bench)))),+]
        }
    };
}

rules![
    sending::batch_outcomes_are_in_entry_order,
    sending::a_full_batch_of_ten_is_accepted,
    sending::a_batch_of_exactly_one_mebibyte_is_accepted,
    sending::a_delayed_message_arrives_after_its_delay_but_not_much_later,
    sending::creating_an_existing_queue_returns_it,
    content::a_body_of_exactly_one_mebibyte_is_kept,
    content::a_body_is_kept_byte_for_byte,
    content::attributes_of_all_types_are_kept,
    content::ten_attributes_are_accepted,
    content::attributes_at_the_documented_limits_are_kept,
    content::the_trace_header_is_kept,
    content::the_message_group_id_is_kept,
    content::system_attributes_report_the_first_receive,
    refused::a_wrong_attribute_name_is_a_sender_fault,
    refused::a_wrong_data_type_is_a_sender_fault,
    refused::a_wrong_number_attribute_is_a_sender_fault,
    refused::a_value_that_does_not_match_its_data_type_is_a_sender_fault,
    refused::an_empty_attribute_is_a_sender_fault,
    refused::an_eleventh_attribute_is_a_sender_fault,
    refused::a_wrong_message_group_id_is_a_sender_fault,
    polling::a_poll_of_an_empty_queue_returns_after_its_wait,
    polling::a_long_poll_returns_when_a_message_arrives,
    polling::a_receive_returns_at_most_the_requested_number,
    polling::queue_depth_counts_visible_in_flight_and_delayed_messages,
    visibility::the_visibility_timeout_hides_a_message_and_returns_it,
    visibility::a_receive_sets_its_own_visibility_timeout,
    visibility::visibility_zero_returns_a_message_immediately,
    visibility::a_longer_visibility_timeout_hides_a_message_for_longer,
    visibility::visibility_can_be_changed_only_while_in_flight,
    visibility::receives_are_counted_and_the_first_is_remembered,
    deleting::deleting_removes_a_message,
    deleting::deleting_twice_is_ok,
    deleting::an_old_receipt_handle_is_accepted,
    deleting::a_wrong_receipt_handle_fails_only_its_own_entry,
    redrive::a_redrive_happens_on_the_receive_after_the_maximum_count,
    redrive::a_redrive_keeps_the_message_and_names_its_source,
    fifo::a_group_is_received_in_send_order,
    fifo::an_in_flight_message_holds_back_only_its_own_group,
    fifo::visibility_zero_returns_a_message_before_its_successors,
    fifo::a_message_hidden_for_longer_holds_back_its_group,
    fifo::a_repeated_deduplication_id_adds_nothing,
    fifo::a_deleted_message_is_still_deduplicated,
    fifo::a_repeated_send_returns_the_first_message_id,
    fifo::a_missing_message_group_id_is_a_sender_fault,
    fifo::a_missing_deduplication_id_is_a_sender_fault,
    fifo::an_invalid_deduplication_id_is_a_sender_fault,
    fifo::a_message_delay_on_a_fifo_queue_is_a_sender_fault,
    fifo::a_deduplication_id_on_a_standard_queue_is_a_sender_fault,
    fifo::an_expired_receipt_handle_deletes_nothing_from_a_fifo_queue,
    fifo::a_redrive_to_a_fifo_queue_keeps_group_and_order,
    fifo::a_standard_dead_letter_queue_for_a_fifo_queue_is_refused,
    fifo::a_fifo_dead_letter_queue_for_a_standard_queue_is_refused,
];
