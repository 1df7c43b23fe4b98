//! OpenTelemetry's variables ("Environment Variable Specification", OpenTelemetry).

use std::time::Duration;

use std::fmt;
use std::sync::LazyLock;

use percent_encoding::percent_decode_str;

use crate::settings::Variables;
use crate::telemetry::random_seed;

/// One of the kinds of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    const fn name(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
            Self::Logs => "v1/logs",
        }
    }

    /// The time between two exports of a process that runs for long.
    #[must_use]
    pub fn interval(self, variables: &Variables<'_>) -> Duration {
        let (name, default) = match self {
            Self::Traces => ("OTEL_BSP_SCHEDULE_DELAY", 5000),
            Self::Metrics => ("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
            Self::Logs => ("OTEL_BLRP_SCHEDULE_DELAY", 1000),
        };
        // "The implementation SHOULD … treat the value as not set" if it is invalid.
        let set = variables.optional(name).and_then(|value| value.parse().ok()).filter(|value| *value > 0);
        Duration::from_millis(set.unwrap_or(default))
    }
}

/// Where a signal is exported to, and from what.
#[derive(Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// May hold a key.
    pub endpoint: String,
    /// May hold keys.
    pub headers: Vec<(String, String)>,
    /// The resource's attributes.
    pub resource: Vec<(String, String)>,
}

/// Shows no endpoint and no header, which may be secrets.
impl fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpSettings").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl OtlpSettings {
    /// `None` if the signal is not exported: there is no endpoint, or the variables switch it off. `default_name` is the
    /// service's name outside Lambda.
    ///
    /// # Errors
    /// The variables ask for another protocol, which a user's own function may want for itself: nothing is exported then.
    pub fn read(
        variables: &Variables<'_>,
        signal: Signal,
        default_name: &str,
    ) -> Result<Option<Self>, String> {
        let read = |name: &str| variables.optional(name);
        let of_signal = |name: &str| read(&format!("OTEL_EXPORTER_OTLP_{}_{name}", signal.name()));
        let is_disabled = read("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let exporters = read(&format!("OTEL_{}_EXPORTER", signal.name()));
        let is_otlp = exporters.is_none_or(|names| names.split(',').any(|name| name.trim() == "otlp"));
        let endpoint = of_signal("ENDPOINT").or_else(|| {
            let base = read("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/{}", base.trim_end_matches('/'), signal.path()))
        });
        let Some(endpoint) = endpoint.filter(|_| !is_disabled && is_otlp) else { return Ok(None) };
        let protocol = of_signal("PROTOCOL").or_else(|| read("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if protocol.is_some_and(|protocol| protocol != "http/protobuf") {
            return Err("redeliver exports by http/protobuf alone: set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf, \
                        and the endpoint to port 4318"
                .to_owned());
        }
        let headers = of_signal("HEADERS").or_else(|| read("OTEL_EXPORTER_OTLP_HEADERS"));
        Ok(Some(Self {
            endpoint,
            headers: pairs(&headers.unwrap_or_default()),
            resource: resource(variables, default_name),
        }))
    }
}

/// A random id of this process.
static INSTANCE: LazyLock<String> = LazyLock::new(|| {
    let seed = random_seed();
    seed[..16].iter().map(|byte| format!("{byte:02x}")).collect()
});

/// A later attribute replaces an earlier one of its name.
fn resource(variables: &Variables<'_>, default_name: &str) -> Vec<(String, String)> {
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
    // Processes of one service count for themselves.
    let instance = function.is_none().then(|| ("service.instance.id".to_owned(), INSTANCE.clone()));
    let default_name = function.unwrap_or_else(|| format!("redeliver-{default_name}"));
    let named = |name: String| ("service.name".to_owned(), name);
    let all = std::iter::once(named(default_name))
        .chain(cloud)
        .chain(instance)
        .chain(pairs(&read("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()))
        .chain(read("OTEL_SERVICE_NAME").map(named));
    let mut resource: Vec<(String, String)> = Vec::new();
    for (name, value) in all {
        resource.retain(|(before, _)| *before != name);
        resource.push((name, value));
    }
    resource
}

/// `NAME=VALUE,…` with values in percent-encoding, as W3C's Baggage has them. What is not a pair is left out.
fn pairs(text: &str) -> Vec<(String, String)> {
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

    fn read(signal: Signal, variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>, String> {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        OtlpSettings::read(&Variables::new(lookup), signal, "message-processor")
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");

    #[test]
    fn without_an_endpoint_and_if_it_is_switched_off_nothing_is_exported() {
        assert_eq!(read(Signal::Traces, &[]), Ok(None));
        let exporters = ["none", "console", "jaeger, zipkin"].map(|names| ("OTEL_TRACES_EXPORTER", names));
        for off in exporters.into_iter().chain([("OTEL_SDK_DISABLED", "True")]) {
            assert_eq!(read(Signal::Traces, &[ENDPOINT, off]), Ok(None), "{off:?}");
        }
        assert!(read(Signal::Logs, &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().is_some());
        for on in [("OTEL_SDK_DISABLED", "1"), ("OTEL_TRACES_EXPORTER", "console, otlp")] {
            assert!(read(Signal::Traces, &[ENDPOINT, on]).unwrap().is_some(), "{on:?}");
        }
    }

    #[test]
    fn each_signal_has_its_path_and_its_own_variables_count_as_they_are() {
        let endpoint = |signal, variables: &[_]| read(signal, variables).unwrap().unwrap().endpoint;
        assert_eq!(endpoint(Signal::Traces, &[ENDPOINT]), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(endpoint(Signal::Metrics, &[ENDPOINT]), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!(endpoint(Signal::Logs, &[ENDPOINT]), "http://127.0.0.1:4318/v1/logs");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://example.com/in/");
        assert_eq!(endpoint(Signal::Traces, &[ENDPOINT, own]), "https://example.com/in/");
        assert_eq!(endpoint(Signal::Logs, &[ENDPOINT, own]), "http://127.0.0.1:4318/v1/logs");
    }

    #[test]
    fn an_interval_is_in_milliseconds_and_one_that_is_invalid_counts_as_not_set() {
        let interval = |signal: Signal, value: &str| {
            let value = value.to_owned();
            signal.interval(&Variables::new(move |_| Some(value.clone()))).as_millis()
        };
        let all = [Signal::Traces, Signal::Metrics, Signal::Logs];
        assert_eq!(all.map(|signal| interval(signal, "250")), [250; 3]);
        for invalid in ["", "0", "-1", "1s"] {
            assert_eq!(all.map(|signal| interval(signal, invalid)), [5000, 60_000, 1000], "{invalid:?}");
        }
    }

    #[test]
    fn other_protocols_are_refused_with_what_to_do() {
        let names = ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"];
        for (name, protocol) in names.map(|name| (name, "grpc")).into_iter().chain([(names[0], "http/json")])
        {
            let error = read(Signal::Traces, &[ENDPOINT, (name, protocol)]).unwrap_err();
            assert!(error.contains("set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf"), "{error}");
        }
    }

    #[test]
    fn headers_and_resource_are_pairs_in_percent_encoding() {
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, x = y ,nothing,=z");
        let resource = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=before,team=payments");
        let settings = read(Signal::Traces, &[ENDPOINT, headers, resource]).unwrap().unwrap();
        assert_eq!(settings.headers, owned(&[("api-key", "a b="), ("x", "y")]));
        let instance = ("service.instance.id", INSTANCE.as_str());
        assert_eq!(settings.resource, owned(&[instance, ("service.name", "before"), ("team", "payments")]));
        let named = ("OTEL_SERVICE_NAME", "orders");
        let lambda = [
            ("AWS_LAMBDA_FUNCTION_NAME", "prod-mp"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "7"),
        ];
        let variables = [&[ENDPOINT, resource, named], &lambda[..]].concat();
        let settings = read(Signal::Traces, &variables).unwrap().unwrap();
        assert_eq!(
            settings.resource,
            owned(&[
                ("cloud.provider", "aws"),
                ("cloud.platform", "aws_lambda"),
                ("cloud.region", "eu-west-1"),
                ("faas.name", "prod-mp"),
                ("faas.version", "7"),
                ("team", "payments"),
                ("service.name", "orders"),
            ])
        );
        let settings = read(Signal::Traces, &[ENDPOINT]).unwrap().unwrap();
        assert_eq!(settings.resource, owned(&[("service.name", "redeliver-message-processor"), instance]));
        assert_eq!(INSTANCE.len(), 32);
    }

    #[test]
    fn a_signals_own_headers_and_protocol_count_before_those_of_all() {
        let all = [("OTEL_EXPORTER_OTLP_HEADERS", "x=all"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        let own = [
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x=own"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ];
        let variables = [&[ENDPOINT], &all[..], &own].concat();
        let settings = read(Signal::Traces, &variables).unwrap().unwrap();
        assert_eq!(settings.headers, owned(&[("x", "own")]));
        assert!(read(Signal::Logs, &variables).is_err());
    }

    #[test]
    fn each_signal_has_a_variable_of_its_own_for_its_interval() {
        for (signal, variable) in [
            (Signal::Traces, "OTEL_BSP_SCHEDULE_DELAY"),
            (Signal::Metrics, "OTEL_METRIC_EXPORT_INTERVAL"),
            (Signal::Logs, "OTEL_BLRP_SCHEDULE_DELAY"),
        ] {
            let lookup = |name: &str| (name == variable).then(|| "250".to_owned());
            assert_eq!(signal.interval(&Variables::new(lookup)), Duration::from_millis(250));
        }
    }
}
