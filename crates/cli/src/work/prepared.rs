//! From settings to workers: everything is checked before anything is received.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use redeliver_aws::settings::OwnFunctionSettings;
use redeliver_aws::start::{self, StartError};
use redeliver_aws::targets::{Command, OwnFunction, Processes, Target};
use redeliver_aws::telemetry::JsonLines;
use redeliver_aws::{Stop, SystemClock};
use redeliver_core::ports::{Clock as _, Function, Observer};
use redeliver_core::strategy::Role;
use redeliver_failed_message_processor::FailedMessageProcessor;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::MessageProcessor;

use super::health::{Health, Vitals};
use super::metrics::{Counted, Metrics};
use super::poller::Worker;
use super::queues::Queues;
use super::settings::{Called, Settings, target_timeout};
use super::{Arguments, FunctionName, log};
use crate::connection::{KnownQueue, QueueAddress};
use crate::local::begin;

/// All that is to run.
pub(super) struct Prepared {
    /// Each ends once the stop is requested and what it has received is handled.
    pub(super) workers: Vec<LocalBoxFuture<'static, ()>>,
    pub(super) health: Health,
    /// What they have done so far.
    pub(super) metrics: Arc<Metrics>,
    /// That of `--exec`: it is to end when they have.
    pub(super) own_function: Option<Arc<OwnFunction>>,
    /// Not yet polled.
    queues: BTreeMap<Role, KnownQueue>,
}

pub(super) async fn prepare(arguments: &Arguments, stop: &Stop) -> Result<Prepared, StartError> {
    // From what costs nothing to what asks AWS: settings, queues by their names, queues by their attributes. A process
    // that cannot work must not receive a single message, since each receive of the source queue is a message's only
    // one.
    if arguments.exec.is_some() && !arguments.functions().contains(&FunctionName::MessageProcessor) {
        return Err("--exec is what the message-processor calls: name it, too, or leave --exec out".into());
    }
    let mut settings = Settings::of(&arguments.functions(), arguments.exec.as_ref())?;
    let invocation = arguments.limits().invocation;
    if let Some((_, Called::Target(target), _)) = &mut settings.message_processor {
        target.timeout = Some(target_timeout(target.timeout, invocation)?);
    }
    let named = settings.queues(invocation);
    named.check_distinct()?;
    let queues = polled(arguments, &named).await?;

    let config = arguments.connection.sdk_config(None).await?;
    let metrics = Arc::new(Metrics::new(arguments.functions().iter().map(|name| arguments.name(*name))));
    let observer = |function, logging| {
        let name = arguments.name(function);
        let lines = JsonLines::stdout(&name, logging);
        Arc::new(Counted::new(lines, name, Arc::clone(&metrics))) as Arc<dyn Observer>
    };
    let health = Health { workers: Vec::new(), stop: stop.clone() };
    let metrics_of_all = Arc::clone(&metrics);
    let mut prepared =
        Prepared { workers: Vec::new(), health, metrics: metrics_of_all, own_function: None, queues };
    if let Some((settings, called, _)) = settings.message_processor {
        let observer = observer(FunctionName::MessageProcessor, settings.logging);
        let target = match called {
            Called::Target(target) => start::target(&config, target, Arc::clone(&observer)).await?,
            Called::OwnFunction(command, own) => {
                let function = begun(command, own, arguments).await?;
                prepared.own_function = Some(Arc::clone(&function));
                Target::OwnFunction(function)
            }
        };
        let function = MessageProcessor::on_aws(target, settings, &config, Arc::clone(&observer));
        prepared.add(FunctionName::MessageProcessor, function, observer, arguments);
    }
    if let Some(settings) = settings.failed_message_processor {
        let observer = observer(FunctionName::FailedMessageProcessor, settings.logging);
        let function = FailedMessageProcessor::on_aws(settings, &config, Arc::clone(&observer));
        prepared.add(FunctionName::FailedMessageProcessor, function, observer, arguments);
    }
    if let Some((settings, _)) = settings.final_dlq_annotator {
        let observer = observer(FunctionName::FinalDlqAnnotator, settings.logging);
        let function = FinalDlqAnnotator::on_aws(settings, &config, Arc::clone(&observer));
        prepared.add(FunctionName::FinalDlqAnnotator, function, observer, arguments);
    }
    Ok(prepared)
}

/// The user's own function, with a process for each batch.
async fn begun(
    command: Command,
    settings: OwnFunctionSettings,
    arguments: &Arguments,
) -> Result<Arc<OwnFunction>, StartError> {
    let command = command.outside_lambda(&arguments.name(FunctionName::MessageProcessor));
    let processes = Processes::new(command, arguments.concurrency());
    let function = OwnFunction::new(processes, settings.handler_event);
    begin(&function).await?;
    Ok(Arc::new(function))
}

/// The queues that the functions poll, each there and fit for it.
async fn polled(arguments: &Arguments, named: &Queues) -> Result<BTreeMap<Role, KnownQueue>, StartError> {
    let mut queues = BTreeMap::new();
    for function in arguments.functions() {
        let role = function.polls();
        let url = named.urls.get(&role).map_or("", String::as_str);
        queues.insert(role, arguments.connection.find(&QueueAddress::Url(url.to_owned())).await?);
    }
    let attributes = queues.iter().map(|(role, queue)| (*role, queue.attributes.clone())).collect();
    for warning in named.check(&attributes)? {
        log::warn("queue", &warning);
    }
    Ok(queues)
}

impl Prepared {
    fn add(
        &mut self,
        name: FunctionName,
        function: impl Function + 'static,
        observer: Arc<dyn Observer>,
        arguments: &Arguments,
    ) {
        let queue = self.queues.remove(&name.polls()).expect("each function has a queue of its own");
        let vitals = Arc::new(Vitals::new(arguments.name(name), SystemClock.now()));
        self.health.workers.push(Arc::clone(&vitals));
        let clock = SystemClock;
        let limits = arguments.limits();
        let worker = Worker { queue: queue.queue, function, clock, observer, limits, vitals };
        let stop = self.health.stop.clone();
        self.workers.push(async move { worker.run(&stop).await }.boxed_local());
    }
}
