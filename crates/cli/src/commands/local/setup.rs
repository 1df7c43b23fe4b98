//! Builds the setup of a run from the arguments. All input is read and validated before the run starts.

use std::fmt::Display;
use std::io::{BufWriter, Write};
use std::num::NonZeroU16;

use redeliver_aws::targets::{
    DEFAULT_TIMEOUT, Endpoint, EndpointSource, HandlerEvent, HttpTarget, OwnFunction, Processes,
    RuntimeCommand, TargetAddress, TargetError,
};
use redeliver_core::strategy::RetryLoop;
use redeliver_local::{ChunkSize, Chunks, InputGroups, LocalSetup, LocalTarget};
use redeliver_operator::files::{create_output, read_policy, read_schema, unwritable_file_error};
use redeliver_operator::message_file::LineFormat;
use redeliver_operator::terminal::stderr;
use redeliver_operator::{CommandFailure, UsageError};
use redeliver_sim::{BuiltInTarget, FailureChances, check_payload};

use super::arguments::Arguments;

/// Reads and validates all input, and opens the output for the final records.
pub(super) fn read_setup(arguments: &Arguments) -> Result<(LocalSetup, Box<dyn Write>), CommandFailure> {
    let retry_loop = arguments.strategy;
    let is_async_retry = retry_loop == RetryLoop::AsyncRetry;
    let policy = read_policy(arguments.policy.as_deref(), retry_loop.definition())?;
    if let Some(path) = arguments.data_schema.as_ref().filter(|_| is_async_retry) {
        let reason = "--strategy async-retry does not check a data schema: leave it out";
        return Err(option_error(path.display(), reason));
    }
    if arguments.plain.plain && is_async_retry {
        let reason = "--strategy async-retry sends payloads, not messages: leave it out";
        return Err(option_error("--plain", reason));
    }
    let is_fifo = retry_loop.definition().is_fifo;
    if arguments.group_pointer.is_some() && !is_fifo {
        let reason = "only --strategy ordered has message groups: leave it out";
        return Err(option_error("--group-pointer", reason));
    }
    let groups = is_fifo.then(|| InputGroups { pointer: arguments.group_pointer.clone() });
    let schema = read_schema(arguments.data_schema.as_deref(), &arguments.plain)?;
    let target = match (&arguments.target, &arguments.exec) {
        (Some(url), _) => LocalTarget::Http(Box::new(http_target(url)?)),
        (None, Some(command)) => {
            LocalTarget::OwnFunction(Box::new(own_function(command.clone(), arguments.handler_event)))
        }
        (None, None) => LocalTarget::BuiltIn(BuiltInTarget::new(FailureChances {
            rate: arguments.fail_rate,
            first: arguments.fail_first,
            permanently: arguments.fail_permanently,
            seed: arguments.seed,
        })),
    };
    let form = if is_async_retry { LineFormat::Payload(check_payload) } else { LineFormat::Anything };
    // On an endpoint the first retries arrive after minutes of real time, so the whole input is sent first.
    let size = if arguments.endpoint_url.is_some() { ChunkSize::WHOLE } else { ChunkSize::SMALL };
    let chunks = Chunks::open_input(&arguments.file, form, groups, size)?;
    let output: Box<dyn Write> = match &arguments.final_dlq {
        Some(path) => {
            let file = create_output(path).map_err(|error| unwritable_file_error(path, &error))?;
            Box::new(BufWriter::new(file))
        }
        None => Box::new(std::io::sink()),
    };
    Ok((LocalSetup { chunks, seed: arguments.seed, retry_loop, policy, schema, target }, output))
}

/// Returns the error for an option that conflicts with others.
fn option_error(name: impl Display, reason: impl Display) -> CommandFailure {
    UsageError::new(format!("{name}: {reason}")).into()
}

/// Builds the user's function. Its output goes to standard error, since standard output contains the report.
fn own_function(command: RuntimeCommand, handler_event: HandlerEvent) -> OwnFunction {
    let processes = Processes::new(command.with_lambda_variables("local"), NonZeroU16::MIN);
    let processes = processes.with_time_limit(DEFAULT_TIMEOUT).with_output(stderr::copy_output);
    OwnFunction::new(processes, handler_event)
}

fn http_target(url: &str) -> Result<HttpTarget, CommandFailure> {
    let refused = |reason: &dyn Display| option_error("--target", reason);
    let address = TargetAddress::parse(url, false).map_err(|error| match error {
        // Their own texts mention what only a deployed function accepts: settings or an ARN.
        TargetError::PlainHttp => {
            refused(&"is http:// to another machine; use https://, or http:// to this machine")
        }
        TargetError::Neither => refused(&"is neither an https:// URL nor an http:// URL of this machine"),
        TargetError::Credentials => {
            refused(&"contains credentials, which `redeliver local` does not send; remove them")
        }
        error @ TargetError::Fragment => refused(&error),
    })?;
    match address {
        TargetAddress::Url(url) => {
            HttpTarget::new(EndpointSource::Fixed(Endpoint::without_auth(url)), None, DEFAULT_TIMEOUT)
                .map_err(|error| refused(&error))
        }
        TargetAddress::LambdaArn(_) => {
            Err(refused(&"is a Lambda function's ARN; only endpoints can be called from here"))
        }
    }
}
