//! All that a run needs, read and checked before it begins.

use std::io::{BufWriter, Write};
use std::num::NonZeroU16;
use std::path::Path;

use redeliver_aws::targets::{
    Command, DEFAULT_TIMEOUT, HandlerEvent, HeaderSource, Headers, HttpTarget, OwnFunction, Processes,
    TargetAddress, TargetError,
};
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::Policy;
use redeliver_core::strategy::Strategy;
use redeliver_sim::{BuiltInTarget, Failures, check_payload};

use super::input::{Portion, Portions};
use super::{Arguments, Target};
use crate::files::{FileError, create_output, read_policy, read_schema, unwritable};
use crate::message_file::Form;

pub(super) struct Setup {
    pub(super) input: Portions,
    pub(super) seed: u64,
    pub(super) strategy: Strategy,
    pub(super) policy: Policy,
    pub(super) schema: MessageSchema,
    pub(super) target: Target,
}

impl Setup {
    /// And the file of final records, which lasts as long as the run.
    pub(super) fn of(arguments: &Arguments) -> Result<(Self, Box<dyn Write>), FileError> {
        let strategy = arguments.strategy;
        let policy = read_policy(arguments.policy.as_deref(), strategy)?;
        if let (Some(path), Strategy::AsyncRetry) = (&arguments.data_schema, strategy) {
            let reason = "is a data schema, and --strategy async-retry checks none: leave it out";
            return Err(FileError::new(path, reason));
        }
        if arguments.plain.plain && strategy == Strategy::AsyncRetry {
            let reason = "is for messages, and --strategy async-retry has payloads: leave it out";
            return Err(FileError::new(Path::new("--plain"), reason));
        }
        let schema = read_schema(arguments.data_schema.as_deref(), &arguments.plain)?;
        let target = match (&arguments.target, &arguments.exec) {
            (Some(url), _) => Target::Http(Box::new(http_target(url)?)),
            (None, Some(command)) => {
                Target::OwnFunction(Box::new(own_function(command.clone(), arguments.handler_event)))
            }
            (None, None) => Target::BuiltIn(BuiltInTarget::new(Failures {
                rate: arguments.fail_rate,
                first: arguments.fail_first,
                permanently: arguments.fail_permanently,
                seed: arguments.seed,
            })),
        };
        let form =
            Form::Anything(if strategy == Strategy::AsyncRetry { check_payload } else { |_: &_| Ok(()) });
        // On an endpoint the first failures come back after real minutes: nothing waits for the end of the input then.
        let portion = if arguments.endpoint_url.is_some() { Portion::WHOLE } else { Portion::SMALL };
        let input = Portions::open(&arguments.file, form, portion)?;
        let output: Box<dyn Write> = match &arguments.final_dlq {
            Some(path) => {
                let file = create_output(path).map_err(|error| unwritable(path, &error))?;
                Box::new(BufWriter::new(file))
            }
            None => Box::new(std::io::sink()),
        };
        Ok((Self { input, seed: arguments.seed, strategy, policy, schema, target }, output))
    }
}

/// Standard output has the report.
fn own_function(command: Command, handler_event: HandlerEvent) -> OwnFunction {
    let command = Command { to_stderr: true, ..command.outside_lambda("local") };
    let processes = Processes::new(command, NonZeroU16::MIN).with_time_limit(DEFAULT_TIMEOUT);
    OwnFunction::new(processes, handler_event)
}

fn http_target(url: &str) -> Result<HttpTarget, FileError> {
    let refused = |reason: &dyn std::fmt::Display| FileError::new(Path::new("--target"), reason);
    let address = TargetAddress::parse(url, false).map_err(|error| match error {
        // The settings of the functions are not read here.
        TargetError::PlainHttp => {
            refused(&"is http:// to another machine; use https://, or http:// to this machine")
        }
        TargetError::Neither => refused(&"is no https:// URL, and no http:// URL of this machine"),
        error => refused(&error),
    })?;
    match address {
        TargetAddress::Url(url) => {
            HttpTarget::new(url, HeaderSource::Fixed(Headers::default()), DEFAULT_TIMEOUT)
                .map_err(|error| refused(&error))
        }
        TargetAddress::LambdaArn(_) => {
            Err(refused(&"is a Lambda function's ARN; only endpoints can be called from here"))
        }
    }
}
