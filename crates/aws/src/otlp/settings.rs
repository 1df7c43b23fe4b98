//! OpenTelemetry's environment variables ("Environment Variable Specification", OpenTelemetry).

use std::time::Duration;

use std::fmt;
use std::sync::LazyLock;

use percent_encoding::percent_decode_str;

use crate::settings::Variables;
use crate::telemetry::random_seed;

/// Returns the interval between exports in a long-running process: `OTEL_BSP_SCHEDULE_DELAY` in milliseconds, or 5 s if
/// it is invalid or not set.
#[must_use]
pub fn span_interval(variables: &Variables<'_>) -> Duration {
    let milliseconds = variables.optional("OTEL_BSP_SCHEDULE_DELAY").and_then(|value| value.parse().ok());
    // "The implementation SHOULD … treat the value as not set" if it is invalid.
    Duration::from_millis(milliseconds.filter(|value| *value > 0).unwrap_or(5000))
}

/// The endpoint to which spans are exported, and the resource that produces them.
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// May contain a key.
    pub endpoint: String,
    /// May contain keys.
    pub headers: Vec<(String, String)>,
    /// The attributes of the resource.
    pub resource: Vec<(String, String)>,
}

/// Omits the endpoint and the headers, which may contain secrets.
impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpSettings").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl OtlpSettings {
    /// Reads the settings. Returns `None` if no endpoint is set or the variables disable the export. Outside Lambda,
    /// the default service name is `redeliver-` followed by `default_name`.
    ///
    /// # Errors
    /// If the variables select a protocol other than `http/protobuf`, possibly for the user's own function. In that
    /// case, no spans are exported.
    pub fn from_variables(variables: &Variables<'_>, default_name: &str) -> Result<Option<Self>, String> {
        let read = |name: &str| variables.optional(name);
        let is_disabled = read("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let exporters = read("OTEL_TRACES_EXPORTER");
        let is_otlp = exporters.is_none_or(|names| names.split(',').any(|name| name.trim() == "otlp"));
        let endpoint = read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
            let base = read("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        });
        let Some(endpoint) = endpoint.filter(|_| !is_disabled && is_otlp) else { return Ok(None) };
        let protocol =
            read("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| read("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if protocol.is_some_and(|protocol| protocol != "http/protobuf") {
            return Err(
                "only http/protobuf is supported: set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf, \
                        and the endpoint to port 4318"
                    .to_owned(),
            );
        }
        let headers =
            read("OTEL_EXPORTER_OTLP_TRACES_HEADERS").or_else(|| read("OTEL_EXPORTER_OTLP_HEADERS"));
        Ok(Some(Self {
            endpoint,
            headers: parse_pairs(&headers.unwrap_or_default()),
            resource: resource_attributes(variables, default_name),
        }))
    }
}

/// A random id for this process.
static INSTANCE: LazyLock<String> = LazyLock::new(|| {
    let seed = random_seed();
    seed[..16].iter().map(|byte| format!("{byte:02x}")).collect()
});

/// Returns the resource's attributes. A later attribute replaces an earlier one with the same name.
fn resource_attributes(variables: &Variables<'_>, default_name: &str) -> Vec<(String, String)> {
    let read = |name: &str| variables.optional(name);
    let function = read("AWS_LAMBDA_FUNCTION_NAME");
    let cloud = function.clone().map(|function| {
        [
            ("cloud.provider", Some("aws".to_owned())),
            ("cloud.platform", Some("aws_lambda".to_owned())),
            ("cloud.region", read("AWS_REGION")),
            ("faas.name", Some(function)),
            ("faas.version", read("AWS_LAMBDA_FUNCTION_VERSION")),
            ("faas.instance", read("AWS_LAMBDA_LOG_STREAM_NAME")),
        ]
    });
    let cloud = cloud.into_iter().flatten().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    // Distinguishes the processes of one service.
    let instance = function.is_none().then(|| ("service.instance.id".to_owned(), INSTANCE.clone()));
    let default_name = function.unwrap_or_else(|| format!("redeliver-{default_name}"));
    let named = |name: String| ("service.name".to_owned(), name);
    let all = std::iter::once(named(default_name))
        .chain(cloud)
        .chain(instance)
        .chain(parse_pairs(&read("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()))
        .chain(read("OTEL_SERVICE_NAME").map(named));
    let mut resource: Vec<(String, String)> = Vec::new();
    for (name, value) in all {
        resource.retain(|(before, _)| *before != name);
        resource.push((name, value));
    }
    resource
}

/// Parses `NAME=VALUE,…` with percent-encoded values, as in W3C Baggage. Skips invalid pairs.
fn parse_pairs(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?.into_owned();
        Some((name.trim().to_owned(), value)).filter(|(name, _)| !name.is_empty())
    };
    text.split(',').filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>, String> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        OtlpSettings::from_variables(&Variables::new(lookup), "message-processor")
    }

    fn owned_pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");

    #[test]
    fn spans_are_exported_if_an_endpoint_is_set_unless_disabled() {
        assert_eq!(read(&[]), Ok(None));
        let exporters = ["none", "console", "jaeger, zipkin"].map(|names| ("OTEL_TRACES_EXPORTER", names));
        for off in exporters.into_iter().chain([("OTEL_SDK_DISABLED", "True")]) {
            assert_eq!(read(&[ENDPOINT, off]), Ok(None), "{off:?}");
        }
        for on in [("OTEL_SDK_DISABLED", "1"), ("OTEL_TRACES_EXPORTER", "console, otlp")] {
            assert!(read(&[ENDPOINT, on]).unwrap().is_some(), "{on:?}");
        }
    }

    #[test]
    fn a_path_is_appended_to_the_general_endpoint_but_not_to_the_traces_endpoint() {
        let endpoint = |variables: &[_]| read(variables).unwrap().unwrap().endpoint;
        assert_eq!(endpoint(&[ENDPOINT]), "http://127.0.0.1:4318/v1/traces");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://example.com/in/");
        assert_eq!(endpoint(&[ENDPOINT, own]), "https://example.com/in/");
        assert_eq!(endpoint(&[own]), "https://example.com/in/");
    }

    #[test]
    fn the_interval_is_in_milliseconds_and_an_invalid_value_counts_as_not_set() {
        let interval = |value: &str| {
            let lookup = |name: &str| (name == "OTEL_BSP_SCHEDULE_DELAY").then(|| value.to_owned());
            span_interval(&Variables::new(lookup)).as_millis()
        };
        assert_eq!(interval("250"), 250);
        assert_eq!(["", "0", "-1", "1s"].map(interval), [5000; 4]);
    }

    #[test]
    fn other_otlp_protocols_are_refused_with_a_remedy() {
        let names = ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"];
        for (name, protocol) in names.map(|name| (name, "grpc")).into_iter().chain([(names[0], "http/json")])
        {
            let error = read(&[ENDPOINT, (name, protocol)]).unwrap_err();
            assert!(error.contains("set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf"), "{error}");
        }
    }

    #[test]
    fn headers_and_resource_attributes_are_percent_decoded() {
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, x = y ,nothing,=z");
        let resource = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=before,team=payments");
        let settings = read(&[ENDPOINT, headers, resource]).unwrap().unwrap();
        assert_eq!(settings.headers, owned_pairs(&[("api-key", "a b="), ("x", "y")]));
        let instance = ("service.instance.id", INSTANCE.as_str());
        assert_eq!(
            settings.resource,
            owned_pairs(&[instance, ("service.name", "before"), ("team", "payments")])
        );
        let named = ("OTEL_SERVICE_NAME", "orders");
        let lambda = [
            ("AWS_LAMBDA_FUNCTION_NAME", "prod-mp"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "7"),
        ];
        let variables = [&[ENDPOINT, resource, named], &lambda[..]].concat();
        let settings = read(&variables).unwrap().unwrap();
        assert_eq!(
            settings.resource,
            owned_pairs(&[
                ("cloud.provider", "aws"),
                ("cloud.platform", "aws_lambda"),
                ("cloud.region", "eu-west-1"),
                ("faas.name", "prod-mp"),
                ("faas.version", "7"),
                ("team", "payments"),
                ("service.name", "orders"),
            ])
        );
        let settings = read(&[ENDPOINT]).unwrap().unwrap();
        assert_eq!(
            settings.resource,
            owned_pairs(&[("service.name", "redeliver-message-processor"), instance])
        );
        assert_eq!(INSTANCE.len(), 32);
    }

    #[test]
    fn trace_specific_headers_and_protocol_override_the_general_ones() {
        let all = [("OTEL_EXPORTER_OTLP_HEADERS", "x=all"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        let own = [
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x=own"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ];
        let variables = [&[ENDPOINT], &all[..], &own].concat();
        let settings = read(&variables).unwrap().unwrap();
        assert_eq!(settings.headers, owned_pairs(&[("x", "own")]));
    }
}
