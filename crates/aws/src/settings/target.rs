//! Settings of the message-processor's target.

use std::num::NonZeroUsize;
use std::time::Duration;

use redeliver_core::strategy::Role;

use super::reader::SettingsReader;
use super::{Logging, MessageProcessorSettings, SettingsError};
use crate::targets::{
    ErrorExcerpt, FunctionModes, HandlerEvent, SigV4Setting, TargetAddress, TargetProxy, TargetUrl,
    UrlSetting,
};

/// The maximum timeout of a Lambda function ("Lambda quotas").
const TIMEOUT_SECONDS_MAX: u64 = 900;

/// Settings of the target that a message-processor calls.
#[derive(Debug)]
pub struct TargetSettings {
    pub called: CalledTarget,
    /// `TARGET_TIMEOUT_SECONDS`, from 1 to 900; 30 s by default.
    pub timeout: Option<Duration>,
}

/// The target, with the settings that apply to it.
#[derive(Debug, PartialEq, Eq)]
pub enum CalledTarget {
    Http(HttpSettings),
    Lambda { arn: String, modes: FunctionModes },
}

/// Settings of an HTTP target.
#[derive(Debug, PartialEq, Eq)]
pub struct HttpSettings {
    pub endpoint: EndpointSetting,
    /// `TARGET_SIGV4`; checked against the URL in `TARGET`.
    pub sigv4: Option<SigV4Setting>,
    /// `TARGET_PROXY`; used only for calls over https://.
    pub proxy: Option<TargetProxy>,
    /// `TARGET_ERROR_EXCERPT`.
    pub error_excerpt: Option<ErrorExcerpt>,
}

/// The source of an HTTP target's URL and authentication.
#[derive(Debug, PartialEq, Eq)]
pub enum EndpointSetting {
    /// `TARGET` alone.
    Url(TargetUrl),
    /// `TARGET_HEADERS_SECRET_ARN`, with or without `TARGET`.
    Secret { arn: String, url: UrlSetting },
}

impl MessageProcessorSettings {
    /// Reads the settings of a message-processor that calls `TARGET`.
    ///
    /// # Errors
    /// Lists all missing and invalid variables.
    pub fn with_target_from_env() -> Result<(Self, TargetSettings), SettingsError> {
        SettingsReader::from_env().read_settings(Self::with_target)
    }

    pub(super) fn with_target(reader: &mut SettingsReader<'_>) -> Option<(Self, TargetSettings)> {
        let settings = Self::from_reader(reader);
        settings.zip(TargetSettings::from_reader(reader))
    }
}

/// Settings of a message-processor that runs the user's own function.
#[derive(Debug)]
pub struct OwnFunctionSettings {
    /// `HANDLER_EVENT`.
    pub handler_event: HandlerEvent,
    /// `REDELIVER_NEXT_WRAPPER`: another wrapper script for the function's runtime.
    pub next_wrapper: Option<String>,
    /// `SOURCE_QUEUE_URL`: batches from other queues are passed directly to the function.
    pub source_queue_url: Option<String>,
}

impl MessageProcessorSettings {
    /// Reads the settings of a message-processor that runs the user's own function. `MAX_CONCURRENCY` is ignored, since
    /// the function handles one invocation at a time.
    ///
    /// # Errors
    /// Lists all missing and invalid variables.
    pub fn with_own_function_from_env() -> Result<(Self, OwnFunctionSettings), SettingsError> {
        SettingsReader::from_env().read_settings(Self::with_own_function)
    }

    pub(super) fn with_own_function(reader: &mut SettingsReader<'_>) -> Option<(Self, OwnFunctionSettings)> {
        let handler_event =
            reader.optional("HANDLER_EVENT").map_or(Ok(HandlerEvent::Record), |text| text.parse());
        let handler_event = reader.check_value("HANDLER_EVENT", handler_event);
        let next_wrapper = reader.optional("REDELIVER_NEXT_WRAPPER");
        let source_queue_url = reader.optional(Role::Source.setting_name());
        let logging = Logging::with_own_function(reader);
        let max_concurrency = handler_event.map_or(NonZeroUsize::MIN, HandlerEvent::max_concurrency);
        let settings = Self::with_concurrency(reader, max_concurrency, logging);
        Some((
            settings?,
            OwnFunctionSettings { handler_event: handler_event?, next_wrapper, source_queue_url },
        ))
    }
}

const TARGET: &str = "TARGET";
const SECRET_ARN: &str = "TARGET_HEADERS_SECRET_ARN";
const DURABLE: &str = "TARGET_DURABLE";

impl TargetSettings {
    /// Returns a warning if the name of a query parameter in `TARGET` suggests a secret.
    #[must_use]
    pub fn secret_warning(&self) -> Option<String> {
        let CalledTarget::Http(HttpSettings { endpoint, .. }) = &self.called else { return None };
        let parameter = endpoint.fixed_url()?.secret_parameter()?;
        Some(format!(
            "the query of TARGET has {parameter}, which looks like a secret and is visible to everyone with \
             access to the settings; \
             put the URL into the secret of {SECRET_ARN} as :url, and remove TARGET"
        ))
    }

    fn from_reader(reader: &mut SettingsReader<'_>) -> Option<Self> {
        let timeout = reader.read_number("TARGET_TIMEOUT_SECONDS", 1..=TIMEOUT_SECONDS_MAX);
        let address = Address::from_reader(reader);
        let modes = FunctionModes {
            tenant_isolation: read_mode(reader, "TARGET_TENANT_ISOLATION", address.as_ref()),
            durable: read_mode(reader, DURABLE, address.as_ref()),
        };
        let sigv4 = read_sigv4(reader, address.as_ref());
        let proxy = read_proxy(reader, address.as_ref());
        let error_excerpt = read_error_excerpt(reader, address.as_ref());
        let called = match address? {
            Address::Endpoint(endpoint) => {
                CalledTarget::Http(HttpSettings { endpoint, sigv4, proxy, error_excerpt })
            }
            Address::Function(arn) => CalledTarget::Lambda { arn, modes },
        };
        Some(Self { called, timeout: timeout.map(Duration::from_secs) })
    }
}

/// The target's address.
enum Address {
    Endpoint(EndpointSetting),
    Function(String),
}

impl Address {
    fn from_reader(reader: &mut SettingsReader<'_>) -> Option<Self> {
        const REMEDY: &str = "set it to the https:// URL or the Lambda function's ARN to call, \
                              or set TARGET_HEADERS_SECRET_ARN to a secret that has the URL";
        let allow_http = reader.read_flag("TARGET_ALLOW_HTTP");
        let Some(arn) = reader.optional(SECRET_ARN) else {
            let text = reader.required(TARGET, REMEDY)?;
            return Some(match reader.check_value(TARGET, TargetAddress::parse(&text, allow_http))? {
                TargetAddress::Url(url) => Self::Endpoint(EndpointSetting::Url(url)),
                TargetAddress::LambdaArn(arn) => Self::Function(arn),
            });
        };
        let url = match reader.optional(TARGET) {
            None => UrlSetting::InSecret { allow_http },
            Some(text) => match reader.check_value(TARGET, TargetAddress::parse(&text, allow_http))? {
                TargetAddress::Url(url) => UrlSetting::Given(url),
                TargetAddress::LambdaArn(arn) => {
                    let _recorded = reader.check_value::<(), _>(SECRET_ARN, Err(FUNCTION_WITH_HEADERS));
                    return Some(Self::Function(arn));
                }
            },
        };
        Some(Self::Endpoint(EndpointSetting::Secret { arn, url }))
    }
}

const FUNCTION_WITH_HEADERS: &str = "is set, but TARGET is a Lambda function, whose calls have no headers; remove it, or set TARGET to an https:// URL";

fn read_sigv4(reader: &mut SettingsReader<'_>, address: Option<&Address>) -> Option<SigV4Setting> {
    const NAME: &str = "TARGET_SIGV4";
    let text = reader.optional(NAME)?;
    let setting = reader.check_value(NAME, text.parse::<SigV4Setting>())?;
    match address {
        Some(Address::Endpoint(endpoint)) => {
            if let Some(url) = endpoint.fixed_url() {
                reader.check_value(NAME, setting.resolve_service(&url.0))?;
            }
            Some(setting)
        }
        Some(Address::Function(_)) => reader.check_value(
            NAME,
            Err("is set, but TARGET is a Lambda function, whose calls are always signed; remove it"),
        ),
        None => None,
    }
}

fn read_proxy(reader: &mut SettingsReader<'_>, address: Option<&Address>) -> Option<TargetProxy> {
    const NAME: &str = "TARGET_PROXY";
    let text = reader.optional(NAME)?;
    let proxy = reader.check_value(NAME, TargetProxy::parse(&text))?;
    let fits = match address? {
        Address::Function(_) => {
            Err("is set, but TARGET is a Lambda function, whose calls follow HTTPS_PROXY; remove it")
        }
        Address::Endpoint(endpoint) if endpoint.may_be_plain_http() => Err(
            "is set, but the target may be http://, which does not go through a proxy; use https:// and remove TARGET_ALLOW_HTTP, or remove it",
        ),
        Address::Endpoint(_) => Ok(proxy),
    };
    reader.check_value(NAME, fits)
}

fn read_error_excerpt(reader: &mut SettingsReader<'_>, address: Option<&Address>) -> Option<ErrorExcerpt> {
    const NAME: &str = "TARGET_ERROR_EXCERPT";
    let text = reader.optional(NAME)?;
    let excerpt = reader.check_value(NAME, ErrorExcerpt::parse(&text))?;
    match address? {
        Address::Endpoint(_) => Some(excerpt),
        Address::Function(_) => reader.check_value(
            NAME,
            Err("is set, but TARGET is a Lambda function, whose errors have a name and a text; remove it"),
        ),
    }
}

impl EndpointSetting {
    fn may_be_plain_http(&self) -> bool {
        match self {
            Self::Url(url) | Self::Secret { url: UrlSetting::Given(url), .. } => url.0.scheme() == "http",
            Self::Secret { url: UrlSetting::InSecret { allow_http }, .. } => *allow_http,
        }
    }

    /// Returns the URL, unless it is in the secret.
    fn fixed_url(&self) -> Option<&TargetUrl> {
        match self {
            Self::Url(url) | Self::Secret { url: UrlSetting::Given(url), .. } => Some(url),
            Self::Secret { url: UrlSetting::InSecret { .. }, .. } => None,
        }
    }
}

/// Reads a flag that enables a mode of the Lambda function.
fn read_mode(reader: &mut SettingsReader<'_>, name: &str, address: Option<&Address>) -> bool {
    let is_on = reader.read_flag(name);
    let fits = match address {
        Some(Address::Endpoint(_)) if is_on => {
            Err("is true, but TARGET is a URL; remove it, or set TARGET to a Lambda function's ARN")
        }
        // "Invoking durable Lambda functions", AWS Lambda Developer Guide.
        Some(Address::Function(arn)) if is_on && name == DURABLE && arn.split(':').count() < 8 => Err(
            "is true, but TARGET names no version or alias, which Lambda needs to invoke a durable function; add one, as in …:function:NAME:ALIAS",
        ),
        _ => Ok(is_on),
    };
    reader.check_value(name, fits).unwrap_or(false)
}
