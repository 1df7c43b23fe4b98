//! The state that all requests share.

use std::sync::Arc;
use std::time::Duration;

use redeliver_aws::SystemClock;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::ports::Clock as _;
use redeliver_operator::fleet::Fleet;
use redeliver_operator::queues::AwsConnection;
use redeliver_operator::trace_url::TraceUrlArgs;
use tokio::sync::Mutex;

use crate::background::BackgroundTask;
use crate::deployment::ConsoleDeployment;
use crate::guard::Guard;
use crate::session::Session;

/// The last survey of the account, and the state of the current one.
pub(crate) type FleetSurvey = Arc<BackgroundTask<Fleet>>;

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) session: Session,
    pub(crate) deployments: Vec<ConsoleDeployment>,
    pub(crate) schema: MessageSchema,
    pub(crate) traces: TraceUrlArgs,
    pub(crate) max_generation: u32,
    /// The age at which the dead letters are read again while a page is open.
    pub(crate) refresh_every: Option<Duration>,
    /// Every DLQ in the account, with `--fleet`.
    pub(crate) fleet: Option<FleetSurvey>,
    /// The connection for the fleet survey.
    pub(crate) connection: AwsConnection,
    /// Held while a deployment is being paused or resumed, which can take minutes.
    pub(crate) switch_lock: Mutex<()>,
}

impl Site {
    /// Stops all readings and plans, and waits until hidden messages are visible again.
    pub(crate) async fn stop_work(&self) {
        let is_at_work = |deployment: &ConsoleDeployment| {
            let plan = deployment.runner.running_id();
            plan.iter().for_each(|id| deployment.runner.pause_run(id));
            deployment.reading.request_stop() || plan.is_some()
        };
        // `any` would stop only the first deployment.
        while self.deployments.iter().filter(|deployment| is_at_work(deployment)).count() > 0 {
            SystemClock.sleep(Duration::from_millis(100)).await;
        }
        let _switched = self.switch_lock.lock().await;
    }
}
