//! A DLQ shared by several queues: each dead letter is sent back to its original queue.

use std::collections::BTreeMap;

use redeliver_core::ports::is_fifo;
use redeliver_operator::CommandFailure;
use redeliver_operator::queues::account;
use redeliver_operator::redrive::{RedriveRequest, RedriveResult, RedriveToSources};
use redeliver_operator::terminal::signals::stop_on_signal;
use redeliver_operator::terminal::stderr;

use super::{Arguments, FINISHING, RunBar, TO_FIFO, paused};

/// Sends the dead letters back, or reports what would be sent.
pub(super) async fn send_to_sources(
    arguments: &Arguments,
    request: RedriveRequest<'_>,
) -> Result<RedriveResult, CommandFailure> {
    let stop = stop_on_signal(FINISHING)?;
    let is_interrupted = || stop.is_requested();
    let redrive = RedriveToSources::open(request, &is_interrupted).await?;
    if redrive.destination_arns().any(is_fifo) {
        stderr::remark(TO_FIFO);
    }
    let mut consumed = BTreeMap::new();
    for to in redrive.destination_arns() {
        let has_consumer = paused::has_consumer(arguments, &redrive.find_consumer(to).await?)?;
        consumed.insert(to.to_owned(), has_consumer);
    }
    let (from, connection) = (redrive.dlq_arn(), &arguments.from.queue.connection);
    let verb = arguments.apply.choose_verb("sending back", "would send back");
    account::announce_change(
        connection,
        from,
        format_args!("{verb} from {from}, each to the queue that it came from"),
    )
    .await;
    if !arguments.apply.is_wanted() {
        return Ok(redrive.into_plan());
    }
    for to in redrive.destination_arns() {
        stderr::remark(format_args!("journal for {to}: {}", redrive.journal_path(to).display()));
    }
    let bar = RunBar::new(arguments.selection.max());
    let has_consumer = |arn: &str| consumed.get(arn).copied().unwrap_or(true);
    let redriven = redrive.run(has_consumer, &is_interrupted, &|progress| bar.show_progress(progress)).await;
    bar.bar.finish_and_clear();
    redriven
}
