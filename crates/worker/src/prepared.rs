//! Turns options and settings into pollers. Everything is checked before the first receive.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use aws_config::SdkConfig;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use redeliver_aws::settings::{
    FailedMessageProcessorSettings, FinalDlqAnnotatorSettings, Logging, OwnFunctionSettings, TargetSettings,
};
use redeliver_aws::start::{self, StartError};
use redeliver_aws::targets::{OwnFunction, Processes, RuntimeCommand, Target};
use redeliver_aws::telemetry::JsonLinesObserver;
use redeliver_aws::{Stop, SystemClock};
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::{Clock as _, Function, Observer};
use redeliver_core::strategy::Role;
use redeliver_failed_message_processor::FailedMessageProcessor;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::MessageProcessor;
use redeliver_operator::own_function::start_own_function;
use redeliver_operator::queues::{KnownQueue, QueueAddress};

use crate::functions::FunctionName;
use crate::health::{Health, Heartbeat};
use crate::log;
use crate::metrics::{MeteredObserver, WorkerMetrics};
use crate::options::WorkerOptions;
use crate::otlp::TracedFunction;
use crate::poller::{Poller, PollerLimits};
use crate::queues::NamedQueues;
use crate::settings::{CallTarget, MessageProcessorSetup, WorkerSettings};

/// A process that is ready to receive.
pub(crate) struct PreparedWorker {
    /// The pollers; each one ends once a stop is requested and its work in progress is finished.
    pub(crate) pollers: Vec<LocalBoxFuture<'static, ()>>,
    pub(crate) health: Health,
    pub(crate) metrics: Arc<WorkerMetrics>,
    pub(crate) traced: Vec<TracedFunction>,
    /// The function that `--exec` starts, which outlives the pollers.
    pub(crate) own_function: Option<Arc<OwnFunction>>,
}

/// Reads the settings, finds and checks the queues, and creates a poller for each function.
pub(crate) async fn prepare_worker(
    options: &WorkerOptions,
    stop: &Stop,
) -> Result<PreparedWorker, StartError> {
    // Settings, queue names and queue attributes are checked first, in this order. A process that cannot do its work
    // must not receive a single message, since each message on the source queue has only one receive.
    let settings = WorkerSettings::read_settings(options)?;
    let named = settings.named_queues(options.limits.invocation);
    named.check_distinct()?;
    let queues = find_queues(options, &named).await?;
    let config = options.connection.sdk_config(None).await?;
    let mut builder = WorkerBuilder { options, config, queues, prepared: PreparedWorker::new(options, stop) };
    if let Some(setup) = settings.message_processor {
        builder.add_message_processor(setup).await?;
    }
    if let Some(settings) = settings.failed_message_processor {
        builder.add_failed_message_processor(settings);
    }
    if let Some(settings) = settings.final_dlq_annotator {
        builder.add_final_dlq_annotator(settings);
    }
    Ok(builder.prepared)
}

/// Finds the queues that the functions poll, and checks them.
async fn find_queues(
    options: &WorkerOptions,
    named: &NamedQueues,
) -> Result<BTreeMap<Role, KnownQueue>, StartError> {
    let mut queues = BTreeMap::new();
    for role in options.functions.iter().flat_map(|function| polled_roles(function, named)) {
        let url = named.urls.get(&role).map_or("", String::as_str);
        queues.insert(role, options.connection.find_queue(&QueueAddress::Url(url.to_owned())).await?);
    }
    let attributes = queues.iter().map(|(role, queue)| (*role, queue.attributes.clone())).collect();
    for warning in named.check_attributes(&attributes)? {
        log::warn("queue", &warning);
    }
    Ok(queues)
}

/// Returns the queues that a function polls.
fn polled_roles(function: FunctionName, named: &NamedQueues) -> impl Iterator<Item = Role> + use<> {
    let second = function == FunctionName::FinalDlqAnnotator && named.urls.contains_key(&Role::SourceDlq);
    [Some(function.polled_role()), second.then_some(Role::SourceDlq)].into_iter().flatten()
}

impl PreparedWorker {
    fn new(options: &WorkerOptions, stop: &Stop) -> Self {
        let names = options.functions.iter().map(|function| options.functions.full_name(function));
        Self {
            pollers: Vec::new(),
            health: Health { pollers: Vec::new(), stop: stop.clone() },
            metrics: Arc::new(WorkerMetrics::new(names)),
            traced: Vec::new(),
            own_function: None,
        }
    }
}

/// The components that the functions share, and the pollers built so far.
struct WorkerBuilder<'a> {
    options: &'a WorkerOptions,
    config: SdkConfig,
    /// The queues that have no poller yet.
    queues: BTreeMap<Role, KnownQueue>,
    prepared: PreparedWorker,
}

impl WorkerBuilder<'_> {
    async fn add_message_processor(&mut self, setup: MessageProcessorSetup) -> Result<(), StartError> {
        let MessageProcessorSetup { settings, call } = setup;
        let observer =
            self.build_observer(FunctionName::MessageProcessor, settings.logging, Some(&settings.schema));
        let target = match call {
            CallTarget::Target(target) => self.connect_target(target, &observer).await?,
            CallTarget::OwnFunction(command, own) => self.start_own_function(command, own, &observer).await?,
        };
        let limits = PollerLimits { batch_size: settings.on_failure.batch_size_max(), ..self.options.limits };
        let function = MessageProcessor::on_aws(target, settings, &self.config, Arc::clone(&observer));
        self.add_poller(FunctionName::MessageProcessor, Role::Source, function, observer, limits);
        Ok(())
    }

    fn add_failed_message_processor(&mut self, settings: FailedMessageProcessorSettings) {
        let name = FunctionName::FailedMessageProcessor;
        let observer = self.build_observer(name, settings.logging, None);
        let function = FailedMessageProcessor::on_aws(settings, &self.config, Arc::clone(&observer));
        self.add_poller(name, Role::IntermediateDlq, function, observer, self.options.limits);
    }

    /// Adds the annotator's pollers: two with the strategy `ordered`, otherwise one.
    fn add_final_dlq_annotator(&mut self, settings: FinalDlqAnnotatorSettings) {
        let name = FunctionName::FinalDlqAnnotator;
        let observer = self.build_observer(name, settings.logging, None);
        let function = Arc::new(FinalDlqAnnotator::on_aws(settings, &self.config, Arc::clone(&observer)));
        for role in [Role::Annotation, Role::SourceDlq] {
            if self.queues.contains_key(&role) {
                let (function, observer) = (Arc::clone(&function), Arc::clone(&observer));
                self.add_poller(name, role, function, observer, self.options.limits);
            }
        }
    }

    /// Builds a function's observer. `schema` is the message-processor's schema.
    fn build_observer(
        &self,
        function: FunctionName,
        logging: Logging,
        schema: Option<&MessageSchema>,
    ) -> Arc<dyn Observer> {
        let name = self.options.functions.full_name(function);
        let lines = JsonLinesObserver::new(&name, logging, SystemClock, io::stdout());
        let lines = match schema {
            Some(schema) => lines.with_schema(schema),
            None => lines,
        };
        Arc::new(MeteredObserver::new(lines, name, Arc::clone(&self.prepared.metrics)))
    }

    async fn connect_target(
        &self,
        target: TargetSettings,
        observer: &Arc<dyn Observer>,
    ) -> Result<Target, StartError> {
        if let Some(remark) = target.secret_warning() {
            log::warn("target", &remark);
        }
        start::build_target(&self.config, target, Arc::clone(observer)).await
    }

    /// Starts the user's own function, with one process per concurrent batch.
    async fn start_own_function(
        &mut self,
        command: RuntimeCommand,
        settings: OwnFunctionSettings,
        observer: &Arc<dyn Observer>,
    ) -> Result<Target, StartError> {
        let WorkerOptions { functions, limits, .. } = self.options;
        let command = command.with_lambda_variables(&functions.full_name(FunctionName::MessageProcessor));
        let function = OwnFunction::new(Processes::new(command, limits.concurrency), settings.handler_event);
        let function = function.with_observer(Arc::clone(observer));
        start_own_function(&function).await?;
        let function = Arc::new(function);
        self.prepared.own_function = Some(Arc::clone(&function));
        Ok(Target::OwnFunction(function))
    }

    fn add_poller(
        &mut self,
        name: FunctionName,
        role: Role,
        function: impl Function + 'static,
        observer: Arc<dyn Observer>,
        limits: PollerLimits,
    ) {
        let PreparedWorker { pollers, health, traced, .. } = &mut self.prepared;
        let KnownQueue { queue, .. } =
            self.queues.remove(&role).expect("each function polls a queue of its own");
        let full_name = self.options.functions.full_name(name);
        let heartbeat = Arc::new(Heartbeat::new(full_name.clone(), SystemClock.now()));
        health.pollers.push(Arc::clone(&heartbeat));
        // The annotator's second queue has no spans of its own.
        if role != Role::SourceDlq {
            traced.push((full_name, Arc::clone(&observer)));
        }
        let poller = Poller { queue, function, clock: SystemClock, observer, limits, heartbeat };
        let stop = health.stop.clone();
        pollers.push(async move { poller.run_until_stop(&stop).await }.boxed_local());
    }
}
