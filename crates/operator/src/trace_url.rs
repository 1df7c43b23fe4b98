//! The URLs of a dead letter's traces.

use std::str::FromStr;

use clap::Args;
use redeliver_core::failure::annotation::DeadLetter;
use redeliver_core::trace::SpanContext;
use redeliver_dead_letters::DeadLetterRecord;

use crate::aws_console;
use crate::terminal::help::SHOW;

/// The option for trace URLs.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceUrlArgs {
    /// The URL of a trace, with {trace_id} or {xray_trace_id}
    ///
    /// {trace_id} has 32 hexadecimal digits. {region} is also replaced. The default is the X-Ray page in CloudWatch.
    #[arg(long, help_heading = SHOW, value_name = "URL")]
    pub trace_url: Option<TraceUrl>,
}

/// A URL template with placeholders for a trace's id and its region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceUrl(String);

impl FromStr for TraceUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_web = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
        let has_id = ["{trace_id}", "{xray_trace_id}"].iter().any(|placeholder| text.contains(placeholder));
        match (is_web, has_id) {
            (false, _) => Err("it does not begin with https:// or http://"),
            (_, false) => Err("it has neither {trace_id} nor {xray_trace_id}: \
                               write https://jaeger.example.com/trace/{trace_id}"),
            (true, true) => Ok(Self(text.to_owned())),
        }
    }
}

/// A trace of a dead letter, with its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The name; `trace` if there is only one.
    pub name: &'static str,
    /// The trace id: 32 hexadecimal digits.
    pub id: String,
    /// `None` if the region is unknown.
    pub url: Option<String>,
}

impl TraceUrlArgs {
    /// Returns the traces of a dead letter: its last attempt's, and its producer's if that is a different one. Empty if
    /// it has neither.
    pub fn trace_links(&self, record: &DeadLetterRecord) -> Vec<Trace> {
        let last_attempt = record.dead_letter.as_ref().and_then(DeadLetter::last_attempt);
        let producers = record.trace_context().map(|context| context.span);
        let named = match (last_attempt, producers) {
            (Some(last), Some(producers)) if last.trace_id != producers.trace_id => {
                vec![("trace of the last attempt", last), ("producer's trace", producers)]
            }
            (last, producers) => last.or(producers).map(|span| ("trace", span)).into_iter().collect(),
        };
        let trace = |(name, span): (_, SpanContext)| Trace {
            name,
            id: span.trace_id(),
            url: self.link_for_span(span, &record.message.queue_arn),
        };
        named.into_iter().map(trace).collect()
    }

    fn link_for_span(&self, span: SpanContext, queue_arn: &str) -> Option<String> {
        let template = match &self.trace_url {
            Some(TraceUrl(template)) => template.clone(),
            None => format!("{}xray:traces/{{xray_trace_id}}", aws_console::cloudwatch_url(queue_arn)?),
        };
        let url = template.replace("{trace_id}", &span.trace_id());
        let url = url.replace("{xray_trace_id}", &span.xray_trace_id());
        if url.contains("{region}") {
            return Some(url.replace("{region}", aws_console::region_of_arn(queue_arn)?));
        }
        Some(url)
    }
}

#[cfg(test)]
mod tests {
    use redeliver_testing::dead_letters;

    use super::*;

    /// Returns the trace of a message with this trace header from this queue.
    fn trace(url: Option<&str>, header: Option<&str>, queue_arn: &str) -> Option<Trace> {
        let mut traces = traces(url, header, queue_arn, None);
        assert!(traces.len() <= 1, "{traces:?}");
        traces.pop()
    }

    /// Returns the traces of a message with this trace header from this queue. `last_attempt` is the span of its last
    /// attempt.
    fn traces(
        url: Option<&str>,
        header: Option<&str>,
        queue_arn: &str,
        last_attempt: Option<&str>,
    ) -> Vec<Trace> {
        let mut message = dead_letters::retried_record("NON_RETRYABLE_ERROR", "x", 1);
        message.trace_header = header.map(str::to_owned);
        queue_arn.clone_into(&mut message.queue_arn);
        let trace_url = url.map(|url| url.parse().unwrap());
        let mut record = DeadLetterRecord::new(message);
        let dead_letter = record.dead_letter.as_mut().unwrap();
        dead_letter.last_attempt_traceparent = last_attempt.map(str::to_owned);
        TraceUrlArgs { trace_url }.trace_links(&record)
    }

    const HEADER: Option<&str> =
        Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1");

    #[test]
    fn a_trace_links_to_x_ray_by_default() {
        let url = |template, arn| trace(template, HEADER, arn).unwrap().url;
        let arn = "arn:aws:sqs:eu-central-1:000000000000:final-dlq";
        let xray = "https://console.aws.amazon.com/cloudwatch/home?region=eu-central-1#xray:traces/1-5759e988-bd862e3fe1be46a994272793";
        assert_eq!(url(None, arn).as_deref(), Some(xray));
        for (partition, host) in [
            ("aws-cn", "https://console.amazonaws.cn/cloudwatch/home?region=cn-north-1#"),
            ("aws-us-gov", "https://console.amazonaws-us-gov.com/cloudwatch/home?region=cn-north-1#"),
        ] {
            let arn = format!("arn:{partition}:sqs:cn-north-1:0:q");
            let shown = trace(None, HEADER, &arn).unwrap().url.unwrap();
            assert!(shown.starts_with(host), "{shown}");
        }
        let jaeger = "http://127.0.0.1:16686/trace/{trace_id}";
        let shown = "http://127.0.0.1:16686/trace/5759e988bd862e3fe1be46a994272793";
        assert_eq!(url(Some(jaeger), "file:dead.jsonl").as_deref(), Some(shown));
        for unknown in ["file:dead.jsonl", "arn:aws:sqs:<b>:0:q", "arn:other:sqs:eu-central-1:0:q", ""] {
            assert_eq!(url(None, unknown), None, "{unknown}");
        }
        assert_eq!(trace(None, HEADER, "").unwrap().id, "5759e988bd862e3fe1be46a994272793");
        assert_eq!(trace(None, None, arn), None);
    }

    #[test]
    fn the_last_attempts_trace_comes_before_the_producers() {
        let shown = |header, last_attempt| {
            let jaeger = Some("https://jaeger.example.com/{trace_id}");
            let traces = traces(jaeger, header, "arn:aws:sqs:eu-central-1:0:q", last_attempt);
            let line = |trace: Trace| [trace.name, &trace.id, &trace.url.unwrap()].join(" ");
            traces.into_iter().map(line).collect::<Vec<_>>()
        };
        let producers = "5759e988bd862e3fe1be46a994272793";
        let last = "0af7651916cd43dd8448eb211c80319c";
        let line = |name: &str, id: &str| format!("{name} {id} https://jaeger.example.com/{id}");
        let [of_last, of_producers] = [last, producers].map(|id| format!("00-{id}-b7ad6b7169203331-01"));
        assert_eq!(
            shown(HEADER, Some(&*of_last)),
            [line("trace of the last attempt", last), line("producer's trace", producers)]
        );
        assert_eq!(shown(None, Some(&*of_last)), [line("trace", last)]);
        for one in [Some(&*of_producers), Some("00-forged"), None] {
            assert_eq!(shown(HEADER, one), [line("trace", producers)], "{one:?}");
        }
    }

    #[test]
    fn a_trace_url_has_a_scheme_and_a_placeholder_for_the_id() {
        let refused = |text: &str| text.parse::<TraceUrl>().unwrap_err();
        assert_eq!(refused("javascript:{trace_id}"), "it does not begin with https:// or http://");
        assert!(refused("https://traces.example.com/").starts_with("it has neither {trace_id} nor"));
    }
}
