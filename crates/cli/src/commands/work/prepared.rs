//! From settings to pollers. Everything is checked before anything is received.

use std::collections::BTreeMap;
use std::io;
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

use super::arguments::{Arguments, FunctionName};
use super::health::{Health, Heartbeat};
use super::log;
use super::metrics::{MeteredObserver, Metrics};
use super::otlp::Traced;
use super::poller::{Limits, Poller};
use super::queues::Queues;
use super::settings::{CallTarget, Settings, target_timeout};
use crate::commands::exec;
use redeliver_operator::queues::{KnownQueue, QueueAddress};

pub(super) struct Prepared {
    /// Each ends when the stop is requested and everything that it has begun is finished.
    pub(super) pollers: Vec<LocalBoxFuture<'static, ()>>,
    pub(super) health: Health,
    pub(super) metrics: Arc<Metrics>,
    pub(super) functions: Vec<Traced>,
    /// The function of `--exec`, which ends after the pollers.
    pub(super) own_function: Option<Arc<OwnFunction>>,
    /// The queues without a poller yet.
    queues: BTreeMap<Role, KnownQueue>,
}

pub(super) async fn prepare(arguments: &Arguments, stop: &Stop) -> Result<Prepared, StartError> {
    // Checks that need no request come first: settings, queue names, queue attributes. A process that cannot work must not
    // receive a single message, since each message on the source queue has only one receive.
    if arguments.exec.is_some() && !arguments.functions().contains(&FunctionName::MessageProcessor) {
        return Err("--exec is what the message-processor calls: name it, too, or leave --exec out".into());
    }
    let mut settings = Settings::of(&arguments.functions(), arguments.exec.as_ref())?;
    let invocation = arguments.limits().invocation;
    if let Some((_, CallTarget::Target(target), _)) = &mut settings.message_processor {
        target.timeout = Some(target_timeout(target.timeout, invocation)?);
    }
    let named = settings.queues(invocation);
    named.check_distinct()?;
    let queues = find_queues(arguments, &named).await?;

    let config = arguments.connection.sdk_config(None).await?;
    let metrics = Arc::new(Metrics::new(arguments.functions().iter().map(|name| arguments.name(*name))));
    let observer = |function, logging| {
        let name = arguments.name(function);
        let lines = JsonLines::new(&name, logging, SystemClock, io::stdout());
        Arc::new(MeteredObserver::new(lines, name, Arc::clone(&metrics))) as Arc<dyn Observer>
    };
    let health = Health { pollers: Vec::new(), stop: stop.clone() };
    let metrics_of_all = Arc::clone(&metrics);
    let mut prepared = Prepared {
        pollers: Vec::new(),
        health,
        metrics: metrics_of_all,
        functions: Vec::new(),
        own_function: None,
        queues,
    };
    if let Some((settings, called, _)) = settings.message_processor {
        let observer = observer(FunctionName::MessageProcessor, settings.logging);
        let target = match called {
            CallTarget::Target(target) => {
                if let Some(remark) = target.remark() {
                    log::warn("target", &remark);
                }
                start::target(&config, target, Arc::clone(&observer)).await?
            }
            CallTarget::OwnFunction(command, own) => {
                let function = start_own_function(command, own, arguments).await?;
                prepared.own_function = Some(Arc::clone(&function));
                Target::OwnFunction(function)
            }
        };
        let limits = Limits { batch_size: settings.on_failure.batch_size_max(), ..arguments.limits() };
        let function = MessageProcessor::on_aws(target, settings, &config, Arc::clone(&observer));
        prepared.add(FunctionName::MessageProcessor, Role::Source, function, observer, (arguments, limits));
    }
    if let Some(settings) = settings.failed_message_processor {
        let observer = observer(FunctionName::FailedMessageProcessor, settings.logging);
        let function = FailedMessageProcessor::on_aws(settings, &config, Arc::clone(&observer));
        let limited = (arguments, arguments.limits());
        prepared.add(
            FunctionName::FailedMessageProcessor,
            Role::IntermediateDlq,
            function,
            observer,
            limited,
        );
    }
    if let Some((settings, _)) = settings.final_dlq_annotator {
        let observer = observer(FunctionName::FinalDlqAnnotator, settings.logging);
        let function = Arc::new(FinalDlqAnnotator::on_aws(settings, &config, Arc::clone(&observer)));
        for role in [Role::Annotation, Role::SourceDlq] {
            if prepared.queues.contains_key(&role) {
                let (function, observer) = (Arc::clone(&function), Arc::clone(&observer));
                let limited = (arguments, arguments.limits());
                prepared.add(FunctionName::FinalDlqAnnotator, role, function, observer, limited);
            }
        }
    }
    Ok(prepared)
}

/// Starts the user's own function, with a process for each batch.
async fn start_own_function(
    command: Command,
    settings: OwnFunctionSettings,
    arguments: &Arguments,
) -> Result<Arc<OwnFunction>, StartError> {
    let command = command.outside_lambda(&arguments.name(FunctionName::MessageProcessor));
    let processes = Processes::new(command, arguments.concurrency());
    let function = OwnFunction::new(processes, settings.handler_event);
    exec::start(&function).await?;
    Ok(Arc::new(function))
}

/// Finds the queues that the functions poll, and checks them.
async fn find_queues(
    arguments: &Arguments,
    named: &Queues,
) -> Result<BTreeMap<Role, KnownQueue>, StartError> {
    let mut queues = BTreeMap::new();
    for function in arguments.functions() {
        let mut roles = vec![function.polls()];
        if function == FunctionName::FinalDlqAnnotator && named.urls.contains_key(&Role::SourceDlq) {
            roles.push(Role::SourceDlq);
        }
        for role in roles {
            let url = named.urls.get(&role).map_or("", String::as_str);
            queues.insert(role, arguments.connection.find(&QueueAddress::Url(url.to_owned())).await?);
        }
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
        role: Role,
        function: impl Function + 'static,
        observer: Arc<dyn Observer>,
        (arguments, limits): (&Arguments, Limits),
    ) {
        let queue = self.queues.remove(&role).expect("each function polls a queue of its own");
        let heartbeat = Arc::new(Heartbeat::new(arguments.name(name), SystemClock.now()));
        self.health.pollers.push(Arc::clone(&heartbeat));
        // The annotator's second queue has no spans of its own.
        if role != Role::SourceDlq {
            self.functions.push((arguments.name(name), Arc::clone(&observer)));
        }
        let clock = SystemClock;
        let poller = Poller { queue: queue.queue, function, clock, observer, limits, heartbeat };
        let stop = self.health.stop.clone();
        self.pollers.push(async move { poller.run(&stop).await }.boxed_local());
    }
}
