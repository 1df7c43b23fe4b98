//! Settings of the message-processor's target.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::reader::Reader;
use super::{Logging, MessageProcessorSettings, SettingsError};
use crate::targets::{FunctionModes, HandlerEvent, TargetAddress};

/// The longest function timeout ("Lambda quotas").
const TIMEOUT_SECONDS_MAX: u64 = 900;

/// Settings of a message-processor that calls `TARGET`.
#[derive(Debug)]
pub struct TargetSettings {
    pub address: TargetAddress,
    /// `TARGET_TIMEOUT_SECONDS`, if it is set.
    pub timeout: Option<Duration>,
    /// `TARGET_HEADERS_SECRET_ARN`; only a URL has headers.
    pub headers_secret_arn: Option<String>,
    /// `TARGET_TENANT_ISOLATION` and `TARGET_DURABLE`; only a Lambda function has modes.
    pub modes: FunctionModes,
}

impl MessageProcessorSettings {
    /// Reads the settings of a message-processor that calls `TARGET`.
    ///
    /// # Errors
    /// All that is missing or wrong.
    pub fn with_target_from_env() -> Result<(Self, TargetSettings), SettingsError> {
        Reader::of_environment().read(Self::with_target)
    }

    pub(super) fn with_target(reader: &mut Reader<'_>) -> Option<(Self, TargetSettings)> {
        let settings = Self::read(reader);
        settings.zip(TargetSettings::read(reader))
    }
}

/// Settings of a message-processor with the user's own function.
#[derive(Debug)]
pub struct OwnFunctionSettings {
    /// `HANDLER_EVENT`.
    pub handler_event: HandlerEvent,
    /// `REDELIVER_NEXT_WRAPPER`: another wrapper script for the function's runtime.
    pub next_wrapper: Option<String>,
}

impl MessageProcessorSettings {
    /// Reads the settings of a message-processor with the user's own function. It ignores `MAX_CONCURRENCY`: the
    /// function has one invocation at a time.
    ///
    /// # Errors
    /// All that is missing or wrong.
    pub fn with_own_function_from_env() -> Result<(Self, OwnFunctionSettings), SettingsError> {
        Reader::of_environment().read(Self::with_own_function)
    }

    pub(super) fn with_own_function(reader: &mut Reader<'_>) -> Option<(Self, OwnFunctionSettings)> {
        let handler_event =
            reader.optional("HANDLER_EVENT").map_or(Ok(HandlerEvent::Record), |text| text.parse());
        let handler_event = reader.check("HANDLER_EVENT", handler_event);
        let next_wrapper = reader.optional("REDELIVER_NEXT_WRAPPER");
        let logging = Logging::with_own_function(reader);
        let max_concurrency = handler_event.map_or(NonZeroUsize::MIN, HandlerEvent::concurrency);
        let settings = Self::with(reader, max_concurrency, logging);
        Some((settings?, OwnFunctionSettings { handler_event: handler_event?, next_wrapper }))
    }
}

impl TargetSettings {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let allow_http = reader.flag("TARGET_ALLOW_HTTP");
        let timeout = reader.number("TARGET_TIMEOUT_SECONDS", 1..=TIMEOUT_SECONDS_MAX);
        let text =
            reader.required("TARGET", "set it to the https:// URL or the Lambda function's ARN to call");
        let address = text.and_then(|text| reader.check("TARGET", TargetAddress::parse(&text, allow_http)));
        let headers_secret_arn = match (reader.optional("TARGET_HEADERS_SECRET_ARN"), &address) {
            (Some(_), Some(TargetAddress::LambdaArn(_))) => Err(
                "is set, but TARGET is a Lambda function, which takes no headers; remove it, or set TARGET to an https:// URL",
            ),
            (arn, _) => Ok(arn),
        };
        let headers_secret_arn = reader.check("TARGET_HEADERS_SECRET_ARN", headers_secret_arn);
        let modes = FunctionModes {
            tenant_isolation: mode(reader, "TARGET_TENANT_ISOLATION", address.as_ref()),
            durable: mode(reader, DURABLE, address.as_ref()),
        };
        Some(Self {
            address: address?,
            timeout: timeout.map(Duration::from_secs),
            headers_secret_arn: headers_secret_arn?,
            modes,
        })
    }
}

const DURABLE: &str = "TARGET_DURABLE";

/// A mode of the Lambda function.
fn mode(reader: &mut Reader<'_>, name: &str, address: Option<&TargetAddress>) -> bool {
    let is_on = reader.flag(name);
    let fits = match address {
        Some(TargetAddress::Url(_)) if is_on => {
            Err("is true, but TARGET is a URL; remove it, or set TARGET to a Lambda function's ARN")
        }
        // "Invoking durable Lambda functions", AWS Lambda Developer Guide.
        Some(TargetAddress::LambdaArn(arn)) if is_on && name == DURABLE && arn.split(':').count() < 8 => Err(
            "is true, but TARGET names no version or alias, which Lambda needs to invoke a durable function; add one, as in …:function:NAME:ALIAS",
        ),
        _ => Ok(is_on),
    };
    reader.check(name, fits).unwrap_or(false)
}
