use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Strategy;
use redeliver_core::strategy;
use redeliver_core::strategy::{ASYNC_RETRY, DelayedResend, Ordered, Visibility};

use super::*;
use crate::targets::{
    ErrorExcerpt, FunctionModes, HandlerEvent, SigV4Setting, SignedService, TargetProxy, TargetUrl,
    UrlSetting, is_loopback,
};

const SQS: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012";
/// A setting that every strategy of the message-processor requires.
const SOURCE: (&str, &str) =
    ("SOURCE_QUEUE_URL", "https://sqs.eu-central-1.amazonaws.com/123456789012/source");

fn reader<'a>(variables: &'a [(&'a str, &'a str)]) -> SettingsReader<'a> {
    SettingsReader::new(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

fn queue(name: &str) -> String {
    format!("{SQS}/{name}")
}

#[test]
fn all_missing_variables_are_listed_in_one_error() {
    let error = reader(&[]).read_settings(MessageProcessorSettings::with_target).unwrap_err().to_string();
    for name in ["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL", "TARGET"] {
        assert!(error.contains(&format!("- {name} is missing: ")), "{error}");
    }
    let error =
        reader(&[]).read_settings(FailedMessageProcessorSettings::from_reader).unwrap_err().to_string();
    for name in ["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL"] {
        assert!(error.contains(&format!("- {name} is missing: ")), "{error}");
    }
}

#[test]
fn all_invalid_variables_are_listed_in_one_error_without_secrets() {
    let fifo = queue("annotation.fifo");
    let variables = [
        ("INTERMEDIATE_DLQ_URL", "intermediate"),
        ("ANNOTATION_QUEUE_URL", fifo.as_str()),
        ("TARGET", "https://user:CANARY@example.com/"),
        ("MAX_CONCURRENCY", "0"),
        ("TARGET_TIMEOUT_SECONDS", "901"),
        ("TARGET_ALLOW_HTTP", "yes"),
        ("DATA_SCHEMA_PATH", "no-such-schema.json"),
    ];
    let error =
        reader(&variables).read_settings(MessageProcessorSettings::with_target).unwrap_err().to_string();
    for line in [
        "- INTERMEDIATE_DLQ_URL is not a queue's URL",
        "- ANNOTATION_QUEUE_URL is a FIFO queue's URL: FIFO queues cannot delay individual messages",
        "- TARGET contains credentials",
        "- MAX_CONCURRENCY must be a whole number from 1 to 10000",
        "- TARGET_TIMEOUT_SECONDS must be a whole number from 1 to 900",
        "- TARGET_ALLOW_HTTP must be true or false",
        "- DATA_SCHEMA_PATH names the file no-such-schema.json, which cannot be read",
    ] {
        assert!(error.contains(line), "{line} in {error}");
    }
    assert!(!error.contains("CANARY"), "{error}");
}

#[test]
fn resend_sender_ids_are_empty_or_a_list_of_roles() {
    let (source, intermediate) = (queue("source"), queue("intermediate"));
    let annotation = queue("annotation");
    let with = |ids: Option<&'static str>| {
        let queues = [
            ("SOURCE_QUEUE_URL", source.as_str()),
            ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
            ("ANNOTATION_QUEUE_URL", annotation.as_str()),
        ];
        let variables: Vec<_> = queues.into_iter().chain(ids.map(|ids| ("RESEND_SENDER_IDS", ids))).collect();
        let text = |error: SettingsError| error.to_string();
        let retrier =
            reader(&variables).read_settings(FailedMessageProcessorSettings::from_reader).map_err(text);
        let processor = reader(&variables).read_settings(MessageProcessorSettings::from_reader).map_err(text);
        assert_eq!(retrier.as_ref().err(), processor.as_ref().err());
        assert_eq!(
            retrier.as_ref().ok().map(|settings| &settings.resenders),
            processor.as_ref().ok().map(|settings| &settings.resenders)
        );
        retrier.map(|settings| settings.resenders)
    };
    assert_eq!(with(None), Ok(Resenders::default()));
    let two = "AROAFAILEDMESSAGEPROC,AROAMESSAGEPROCESSOR1";
    assert_eq!(with(Some(two)), Ok(Resenders::parse(two).unwrap()));
    let refused = with(Some("arn:aws:iam::123456789012:role/failed-message-processor")).unwrap_err();
    let line = "- RESEND_SENDER_IDS entry 1 is not the unique id of an IAM role or user";
    assert!(refused.contains(line), "{refused}");
}

#[test]
fn problems_from_several_functions_are_merged_without_duplicates() {
    let retrier = reader(&[]).read_settings(FailedMessageProcessorSettings::from_reader).unwrap_err();
    let processor = reader(&[]).read_settings(MessageProcessorSettings::with_target).unwrap_err();
    let error = retrier.merge_with(processor).to_string();
    let lines: Vec<_> = error.lines().skip(1).map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(
        lines,
        ["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL", "TARGET"],
        "{error}"
    );
}

#[test]
fn a_refused_policy_is_reported_with_a_json_pointer() {
    let (source, intermediate, annotation) = (queue("source"), queue("intermediate"), queue("annotation"));
    let variables = [
        ("SOURCE_QUEUE_URL", source.as_str()),
        ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
        ("ANNOTATION_QUEUE_URL", annotation.as_str()),
        ("RETRY_POLICY", r#"{"max_retries":3}"#),
    ];
    let error = reader(&variables)
        .read_settings(FailedMessageProcessorSettings::from_reader)
        .unwrap_err()
        .to_string();
    assert!(error.contains("- RETRY_POLICY is refused: /max_retries is not a known member"), "{error}");
}

#[test]
fn a_file_name_is_not_a_policy() {
    let wrong = |policy| {
        let variables = [("RETRY_POLICY", policy)];
        let error =
            reader(&variables).read_settings(FailedMessageProcessorSettings::from_reader).unwrap_err();
        error.0.last().unwrap().clone()
    };
    assert_eq!(
        wrong("policy.json"),
        "- RETRY_POLICY is not JSON: expected value at line 1 column 1; set it to the policy itself, not to a file name"
    );
    assert_eq!(wrong("{"), "- RETRY_POLICY is not JSON: EOF while parsing an object at line 1 column 1");
    assert_eq!(
        wrong("5"),
        "- RETRY_POLICY is refused: (whole document) is not of type \"object\"; \
         set it to the policy itself, not to a file name"
    );
}

const ORDERS: &str = "arn:aws:lambda:eu-central-1:123456789012:function:orders";

#[test]
fn an_async_retry_handler_requires_its_queues_and_functions_and_has_a_default_policy() {
    let (retry, annotation) = (queue("retry"), queue("annotation"));
    let functions = format!("{ORDERS}, {ORDERS}-2:live");
    let variables = [
        ("RETRY_QUEUE_URL", retry.as_str()),
        ("ANNOTATION_QUEUE_URL", annotation.as_str()),
        ("FUNCTION_ARNS", functions.as_str()),
    ];
    let settings = reader(&variables).read_settings(AsyncRetryHandlerSettings::from_reader).unwrap();
    assert_eq!(
        (settings.retry_queue_url, settings.annotation_queue_url),
        (retry.clone(), annotation.clone())
    );
    assert!(settings.functions.allows_function(&format!("{ORDERS}:$LATEST")));
    assert!(!settings.functions.allows_function(&format!("{ORDERS}-2:$LATEST")));
    assert_eq!(settings.policy, Policy::from_json(ASYNC_RETRY.default_policy).unwrap());

    let error = reader(&[]).read_settings(AsyncRetryHandlerSettings::from_reader).unwrap_err().to_string();
    for name in ["RETRY_QUEUE_URL", "ANNOTATION_QUEUE_URL", "FUNCTION_ARNS"] {
        assert!(error.contains(&format!("- {name} is missing: ")), "{error}");
    }
}

#[test]
fn all_invalid_async_retry_handler_variables_are_listed_in_one_error() {
    let functions = format!("{ORDERS},orders");
    let wrong = |policy| {
        let variables = [
            ("RETRY_QUEUE_URL", "retry"),
            ("ANNOTATION_QUEUE_URL", "https://sqs/annotation.fifo"),
            ("FUNCTION_ARNS", functions.as_str()),
            ("RETRY_POLICY", policy),
        ];
        reader(&variables).read_settings(AsyncRetryHandlerSettings::from_reader).unwrap_err().to_string()
    };
    let error = wrong(r#"{"max_retries":3}"#);
    for line in [
        "- RETRY_QUEUE_URL is not a queue's URL",
        "- ANNOTATION_QUEUE_URL is a FIFO queue's URL",
        "- FUNCTION_ARNS entry 2 is not the ARN of a Lambda function",
        "- RETRY_POLICY is refused: /max_retries is not a known member",
    ] {
        assert!(error.contains(line), "{line} in {error}");
    }
    let error = wrong(r#"{"immediate":{"max_attempts":1,"delay_ms":5}}"#);
    assert!(error.contains("- RETRY_POLICY has /immediate, but "), "{error}");
    let error = wrong(r#"{"max_redrives":5}"#);
    assert!(error.contains("- RETRY_POLICY has /max_redrives, which "), "{error}");
}

#[test]
fn each_strategy_has_its_own_settings() {
    let (source, intermediate, annotation) = (queue("source"), queue("intermediate"), queue("annotation"));
    let with = |more: &[(&str, &str)]| {
        let target = [("ANNOTATION_QUEUE_URL", annotation.as_str()), ("TARGET", "https://example.com/")];
        let variables: Vec<_> = target.iter().chain(more).copied().collect();
        reader(&variables).read_settings(MessageProcessorSettings::with_target).map(|(settings, _)| settings)
    };
    let resend = with(&[("SOURCE_QUEUE_URL", &source), ("INTERMEDIATE_DLQ_URL", &intermediate)]).unwrap();
    let OnFailure::DelayedResend(DelayedResend(queues)) = resend.on_failure else { panic!("{resend:?}") };
    assert_eq!((&queues.source_queue, &queues.intermediate_dlq), (&source, &intermediate));
    assert_eq!(resend.policy, Policy::default());

    let visibility = [
        ("STRATEGY", "visibility"),
        ("SOURCE_QUEUE_URL", source.as_str()),
        ("VISIBILITY_TIMEOUT_SECONDS", "360"),
        ("RETENTION_SECONDS", "604800"),
        ("RETRY_POLICY", r#"{"max_attempts":2}"#),
    ];
    let settings = with(&visibility).unwrap();
    assert_eq!(settings.policy.max_attempts, 2);
    let OnFailure::Visibility(Visibility { source_queue, queue_times }) = settings.on_failure else {
        panic!("{settings:?}")
    };
    assert_eq!(source_queue, source);
    let visibility_timeout = VisibilitySeconds::new(360).unwrap();
    assert_eq!(queue_times, QueueTimes { visibility_timeout, retention: Duration::from_secs(604_800) });

    let error = with(&visibility[..1]).unwrap_err().to_string();
    for line in [
        "- SOURCE_QUEUE_URL is missing: ",
        "- VISIBILITY_TIMEOUT_SECONDS is missing: set it to the source queue's visibility timeout",
        "- RETENTION_SECONDS is missing: set it to the source queue's retention (MessageRetentionPeriod)",
    ] {
        assert!(error.contains(line), "{error}");
    }
    let mut too_long = visibility;
    too_long[2].1 = "43201";
    let error = with(&too_long).unwrap_err().to_string();
    assert!(error.contains("- VISIBILITY_TIMEOUT_SECONDS must be a whole number from 0 to 43200"), "{error}");
    let mut redriven = visibility;
    redriven[4].1 = r#"{"max_redrives":5}"#;
    let error = with(&redriven).unwrap_err().to_string();
    assert!(error.contains("- RETRY_POLICY has /max_redrives, which "), "{error}");
    let mut endless = visibility;
    endless[4].1 = r#"{"max_attempts":981,"max_redrives":5}"#;
    let error = with(&endless).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "\n- RETRY_POLICY has /max_attempts, which is 981: use at most 980 with the strategy visibility, since each \
             retry is a receive, the source queue and the annotation queue need ten spare ones each, and the SQS limit \
             is 1000; has /max_redrives, which only the strategies delayed-resend and direct-resend support: remove it"
        ),
        "{error}"
    );
    let fifo = queue("source.fifo");
    let ordered = [
        ("STRATEGY", "ordered"),
        ("SOURCE_QUEUE_URL", fifo.as_str()),
        ("VISIBILITY_TIMEOUT_SECONDS", "360"),
        ("RETENTION_SECONDS", "1209600"),
        ("BATCH_SIZE", "1"),
    ];
    let settings = with(&ordered).unwrap();
    assert_eq!((settings.policy.max_attempts, settings.policy.max_age_seconds), (980, Some(86_400)));
    assert_eq!((settings.on_failure.strategy().name(), settings.on_failure.batch_size_max()), ("ordered", 1));
    assert_eq!(with(&ordered[..4]).unwrap().on_failure.batch_size_max(), 10, "never too few calls");
    let mut wrong = ordered;
    (wrong[1].1, wrong[4].1) = (&source, "11");
    let error = with(&wrong).unwrap_err().to_string();
    for line in [
        "- SOURCE_QUEUE_URL is not the URL of a FIFO queue, which ends in .fifo: only a FIFO queue keeps an order",
        "- BATCH_SIZE must be a whole number from 1 to 10",
    ] {
        assert!(error.contains(line), "{error}");
    }
    let blocking = [&ordered[..], &[("RETRY_POLICY", r#"{"on_give_up":"block"}"#)]].concat();
    let blocked = |variables: &[_]| match with(variables).map(|settings| settings.on_failure) {
        Ok(OnFailure::Ordered(Ordered { blocked, .. })) => Ok(blocked),
        Ok(_) => panic!("another strategy"),
        Err(error) => Err(error.to_string()),
    };
    let missing = blocked(&blocking).unwrap_err();
    assert!(missing.contains("- BLOCKED_QUEUE_URL is missing: set it to the queue's URL"), "{missing}");
    let url = queue("blocked");
    let named = [&blocking[..], &[("BLOCKED_QUEUE_URL", url.as_str())]].concat();
    assert_eq!(blocked(&named), Ok(Some(url.clone())));
    assert_eq!(blocked(&[&ordered[..], &named[6..]].concat()), Ok(None), "no group is blocked");
    for unset_or_ten in [&[][..], &[("BATCH_SIZE", "10")]] {
        let error = blocked(&[&named[..4], &named[5..], unset_or_ten].concat()).unwrap_err();
        assert!(
            error.contains("- BATCH_SIZE must be 1 with on_give_up block in RETRY_POLICY; set it,"),
            "{error}"
        );
    }
    let error = with(&[("STRATEGY", "hope")]).unwrap_err().to_string();
    assert!(
        error.contains("- STRATEGY must be delayed-resend, direct-resend, visibility or ordered"),
        "{error}"
    );
}

#[test]
fn log_detail_and_log_level_are_read_and_other_values_are_refused() {
    let url = queue("final-dlq");
    let with = |detail: &str, level: &str| {
        let variables = [("FINAL_DLQ_URL", url.as_str()), ("LOG_DETAIL", detail), ("LOG_LEVEL", level)];
        reader(&variables)
            .read_settings(FinalDlqAnnotatorSettings::from_reader)
            .map(|settings| settings.logging)
    };
    assert_eq!(with("", ""), Ok(Logging::default()));
    assert_eq!(with("batches", "INFO"), Ok(Logging::default()));
    let quiet = Logging { tracing: None, detail: LogDetail::Messages, level: LogLevel::Warn };
    assert_eq!(with("messages", "WARN"), Ok(quiet));
    assert!(with("", "info").is_err());
    let error = with("all", "warn").unwrap_err().to_string();
    assert!(
        error.ends_with(
            "\n- LOG_DETAIL must be batches or messages\
             \n- LOG_LEVEL must be INFO or WARN, in capitals"
        ),
        "{error}"
    );
}

#[test]
fn spans_are_recorded_if_they_are_exported() {
    let [intermediate, annotation] = ["intermediate", "annotation"].map(queue);
    let queues = [SOURCE, ("INTERMEDIATE_DLQ_URL", &*intermediate), ("ANNOTATION_QUEUE_URL", &*annotation)];
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");
    let continued = ("TRACE_CONTINUE", "true");
    let target = ("TARGET", "https://example.com/orders");
    for (variables, expected) in [
        (vec![continued], None),
        (vec![endpoint], Some(TracingSettings { continues: false })),
        (vec![endpoint, continued], Some(TracingSettings { continues: true })),
    ] {
        let all = [&queues[..], &variables, &[target]].concat();
        let (settings, _) = reader(&all).read_settings(MessageProcessorSettings::with_target).unwrap();
        assert_eq!(settings.logging.tracing, expected, "{variables:?}");
        let (settings, _) =
            reader(&all[..all.len() - 1]).read_settings(MessageProcessorSettings::with_own_function).unwrap();
        assert_eq!(settings.logging.tracing, expected, "{variables:?}");
    }
}

#[test]
fn direct_resend_requires_both_queues() {
    let [source, intermediate, annotation] = ["source", "intermediate", "annotation"].map(queue);
    let with = |variables: &[(&str, &str)]| {
        let settings = reader(variables).read_settings(MessageProcessorSettings::with_target);
        settings.map(|(settings, _)| settings.on_failure)
    };
    let direct = [
        ("STRATEGY", "direct-resend"),
        ("TARGET", "https://example.com/orders"),
        ("ANNOTATION_QUEUE_URL", &annotation),
        ("SOURCE_QUEUE_URL", &source),
        ("INTERMEDIATE_DLQ_URL", &intermediate),
        ("RETRY_POLICY", r#"{"max_redrives":3}"#),
    ];
    let on_failure = with(&direct).unwrap();
    assert_eq!((on_failure.strategy(), on_failure.queue_times()), (strategy::Strategy::DirectResend, None));
    let OnFailure::DirectResend(redelivery) = on_failure else { panic!("{on_failure:?}") };
    assert_eq!((&redelivery.source_queue, &redelivery.intermediate_dlq), (&source, &intermediate));
    let error = with(&direct[..3]).unwrap_err().to_string();
    for name in ["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL"] {
        assert!(error.contains(&format!("- {name} is missing")), "{error}");
    }
}

#[test]
fn headers_require_a_url() {
    let (intermediate, annotation) = (queue("intermediate"), queue("annotation"));
    let target = |target| {
        let variables = [
            SOURCE,
            ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
            ("ANNOTATION_QUEUE_URL", annotation.as_str()),
            ("TARGET", target),
            ("TARGET_HEADERS_SECRET_ARN", "arn:of-a-secret"),
        ];
        reader(&variables).read_settings(MessageProcessorSettings::with_target).map(|(_, target)| target)
    };
    let secret = |url| {
        let endpoint = EndpointSetting::Secret { arn: "arn:of-a-secret".to_owned(), url };
        CalledTarget::Http(HttpSettings { endpoint, sigv4: None, proxy: None, error_excerpt: None })
    };
    let url = TargetUrl("https://example.com/orders".parse().unwrap());
    assert_eq!(target("https://example.com/orders").unwrap().called, secret(UrlSetting::Given(url)));
    assert_eq!(target("").unwrap().called, secret(UrlSetting::InSecret { allow_http: false }));
    let error = target("arn:aws:lambda:eu-central-1:123456789012:function:orders").unwrap_err().to_string();
    assert!(
        error.ends_with(
            "\n- TARGET_HEADERS_SECRET_ARN is set, but TARGET is a Lambda function, whose calls have no headers; \
             remove it, or set TARGET to an https:// URL"
        ),
        "{error}"
    );
}

#[test]
fn a_signature_requires_a_url_with_a_matching_host() {
    let (intermediate, annotation) = (queue("intermediate"), queue("annotation"));
    let sigv4 = |target, secret, setting| {
        let variables = [
            SOURCE,
            ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
            ("ANNOTATION_QUEUE_URL", annotation.as_str()),
            ("TARGET", target),
            ("TARGET_HEADERS_SECRET_ARN", secret),
            ("TARGET_SIGV4", setting),
        ];
        let read = reader(&variables).read_settings(MessageProcessorSettings::with_target);
        read.map(|(_, target)| match target.called {
            CalledTarget::Http(settings) => settings.sigv4,
            CalledTarget::Lambda { .. } => None,
        })
        .map_err(|error| error.0.join("\n"))
    };
    const URL: &str = "https://ab.lambda-url.eu-west-1.on.aws/";
    let service = |service| Ok(Some(SigV4Setting::Service(service)));
    assert_eq!(sigv4(URL, "", ""), Ok(None));
    assert_eq!(sigv4(URL, "", "auto"), Ok(Some(SigV4Setting::ByHost)));
    assert_eq!(sigv4(URL, "arn:of-a-secret", "lambda"), service(SignedService::Lambda));
    assert_eq!(sigv4("", "arn:of-a-secret", "auto"), Ok(Some(SigV4Setting::ByHost)));
    let own = "https://orders.example.com/";
    assert_eq!(sigv4(own, "", "vpc-lattice-svcs"), service(SignedService::VpcLattice));

    let refused = |line: &str| Err(format!("- TARGET_SIGV4 {line}"));
    assert_eq!(sigv4(URL, "", "yes"), refused("must be auto, lambda, execute-api or vpc-lattice-svcs"));
    assert_eq!(
        sigv4(URL, "", "execute-api"),
        refused("does not match the service in the URL's host; set it to auto")
    );
    assert_eq!(
        sigv4(own, "", "auto"),
        refused(
            "is auto, but the URL's host is not that of a function URL, an API of API Gateway or a service of \
             VPC Lattice; set it to lambda, execute-api or vpc-lattice-svcs"
        )
    );
    assert_eq!(
        sigv4("arn:aws:lambda:eu-central-1:123456789012:function:orders", "", "auto"),
        refused("is set, but TARGET is a Lambda function, whose calls are always signed; remove it")
    );
}

/// Returns the target that a message-processor reads from these variables, or the lines of the error.
fn read_target(variables: &[(&str, &str)]) -> Result<TargetSettings, String> {
    let (intermediate, annotation) = (queue("intermediate"), queue("annotation"));
    let queues = [
        SOURCE,
        ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
        ("ANNOTATION_QUEUE_URL", annotation.as_str()),
    ];
    let read = reader(&[&queues, variables].concat()).read_settings(MessageProcessorSettings::with_target);
    read.map(|(_, target)| target).map_err(|error| error.0.join("\n"))
}

#[test]
fn an_error_excerpt_requires_a_url_and_valid_pointers() {
    let excerpt = |target: &str, pointers: &str| {
        let variables = [("TARGET", target), ("TARGET_ERROR_EXCERPT", pointers)];
        read_target(&variables).map(|target| match target.called {
            CalledTarget::Http(HttpSettings { error_excerpt, .. }) => error_excerpt,
            CalledTarget::Lambda { .. } => None,
        })
    };
    let url = "https://orders.example.com/";
    assert_eq!(excerpt(url, ""), Ok(None));
    assert_eq!(excerpt(url, "/type,/title"), Ok(Some(ErrorExcerpt::parse("/type,/title").unwrap())));
    let refused = |line: &str| Err(format!("- TARGET_ERROR_EXCERPT {line}"));
    assert_eq!(
        excerpt(url, "/type,title"),
        refused(
            "has \"title\", which is not a JSON Pointer to a member; separate pointers with commas, as in /type,/title"
        )
    );
    assert_eq!(
        excerpt("arn:aws:lambda:eu-central-1:123456789012:function:orders", "/type"),
        refused("is set, but TARGET is a Lambda function, whose errors have a name and a text; remove it")
    );
}

#[test]
fn a_proxy_requires_https() {
    const PROXY: (&str, &str) = ("TARGET_PROXY", "http://proxy:3128");
    const SECRET: (&str, &str) = ("TARGET_HEADERS_SECRET_ARN", "arn:of-a-secret");
    const HTTP: (&str, &str) = ("TARGET_ALLOW_HTTP", "true");
    let proxy = |variables: &[(&str, &str)]| {
        read_target(variables).map(|target| match target.called {
            CalledTarget::Http(HttpSettings { proxy, .. }) => proxy,
            CalledTarget::Lambda { .. } => None,
        })
    };
    let url = ("TARGET", "https://orders.example.com/");
    let accepted = Ok(Some(TargetProxy::parse("http://proxy:3128").unwrap()));
    assert_eq!(proxy(&[url]), Ok(None));
    assert_eq!(proxy(&[url, PROXY]), accepted);
    assert_eq!(proxy(&[SECRET, PROXY]), accepted);
    assert_eq!(proxy(&[url, HTTP, PROXY]), accepted);
    let plain = "- TARGET_PROXY is set, but the target may be http://, which does not go through a proxy; \
                 use https:// and remove TARGET_ALLOW_HTTP, or remove it";
    for http in [[("TARGET", "http://127.0.0.1/"), PROXY, HTTP], [SECRET, HTTP, PROXY]] {
        assert_eq!(proxy(&http), Err(plain.to_owned()));
    }
    assert_eq!(
        proxy(&[("TARGET", "arn:aws:lambda:eu-central-1:123456789012:function:orders"), PROXY]),
        Err("- TARGET_PROXY is set, but TARGET is a Lambda function, whose calls follow HTTPS_PROXY; remove it"
            .to_owned())
    );
    assert_eq!(
        proxy(&[url, ("TARGET_PROXY", "proxy:3128")]),
        Err("- TARGET_PROXY is not the address of a proxy; set it to http://HOST:PORT or https://HOST:PORT"
            .to_owned())
    );
}

#[test]
fn a_secret_in_the_targets_query_causes_a_warning_without_its_value() {
    let remark = |variables: &[(&str, &str)]| read_target(variables).unwrap().secret_warning();
    assert_eq!(
        remark(&[("TARGET", "https://orders.example.com/hook?a=b&Access-Token=CANARY")]).as_deref(),
        Some(
            "the query of TARGET has access_token, which looks like a secret and is visible to everyone with access \
             to the settings; put the URL into the secret of TARGET_HEADERS_SECRET_ARN as :url, and remove TARGET"
        )
    );
    assert_eq!(remark(&[("TARGET", "https://orders.example.com/hook?a=b")]), None);
    assert_eq!(remark(&[("TARGET_HEADERS_SECRET_ARN", "arn:of-a-secret")]), None);
    assert_eq!(remark(&[("TARGET", "arn:aws:lambda:eu-central-1:123456789012:function:orders")]), None);
}

fn function_modes(target: &TargetSettings) -> FunctionModes {
    match target.called {
        CalledTarget::Http(_) => FunctionModes::default(),
        CalledTarget::Lambda { modes, .. } => modes,
    }
}

#[test]
fn modes_require_a_function_and_durable_mode_requires_a_version_or_alias() {
    let (intermediate, annotation) = (queue("intermediate"), queue("annotation"));
    let with = |target, tenant_isolation, durable| {
        let variables = [
            SOURCE,
            ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
            ("ANNOTATION_QUEUE_URL", annotation.as_str()),
            ("TARGET", target),
            ("TARGET_TENANT_ISOLATION", tenant_isolation),
            ("TARGET_DURABLE", durable),
        ];
        let read = reader(&variables).read_settings(MessageProcessorSettings::with_target);
        read.map(|(_, target)| function_modes(&target)).map_err(|error| error.to_string())
    };
    const URL: &str = "https://example.com/orders";
    const FUNCTION: &str = "arn:aws:lambda:eu-central-1:123456789012:function:orders";
    let alias = format!("{FUNCTION}:live");
    let (on, off) = (true, false);
    let modes = |tenant_isolation, durable| Ok(FunctionModes { tenant_isolation, durable });
    assert_eq!(with(FUNCTION, "", ""), modes(off, off));
    assert_eq!(with(FUNCTION, "true", "false"), modes(on, off));
    assert_eq!(with(&alias, "true", "true"), modes(on, on));
    assert_eq!(with(URL, "false", "false"), modes(off, off));
    let ends = |refused: Result<_, String>, lines: &str| {
        let refused = refused.unwrap_err();
        assert!(refused.ends_with(lines), "{refused}");
    };
    ends(
        with(URL, "true", "true"),
        "\n- TARGET_TENANT_ISOLATION is true, but TARGET is a URL; remove it, or set TARGET to a Lambda function's ARN\
         \n- TARGET_DURABLE is true, but TARGET is a URL; remove it, or set TARGET to a Lambda function's ARN",
    );
    ends(
        with(FUNCTION, "", "true"),
        "\n- TARGET_DURABLE is true, but TARGET names no version or alias, which Lambda needs to invoke a durable \
         function; add one, as in …:function:NAME:ALIAS",
    );
    ends(with(FUNCTION, "yes", ""), "\n- TARGET_TENANT_ISOLATION must be true or false");
}

#[test]
fn unset_settings_have_their_defaults() {
    let (intermediate, annotation) = (queue("intermediate"), queue("annotation"));
    let variables = [
        SOURCE,
        ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
        ("ANNOTATION_QUEUE_URL", annotation.as_str()),
        ("TARGET", "https://example.com/orders"),
        ("TARGET_HEADERS_SECRET_ARN", ""),
    ];
    let (settings, target) = reader(&variables).read_settings(MessageProcessorSettings::with_target).unwrap();
    assert_eq!(settings.max_concurrency.get(), 10);
    assert_eq!(target.timeout, None);
    let url = TargetUrl("https://example.com/orders".parse().unwrap());
    assert_eq!(
        target.called,
        CalledTarget::Http(HttpSettings {
            endpoint: EndpointSetting::Url(url),
            sigv4: None,
            proxy: None,
            error_excerpt: None
        })
    );
}

/// Generates values for variables: empty, almost valid, and arbitrary.
fn any_value() -> impl Strategy<Value = String> {
    const LIKELY: [&str; 32] = [
        "",
        "https://sqs.eu-central-1.amazonaws.com/1/q",
        "https://sqs.eu-central-1.amazonaws.com/1/q.fifo",
        "http://",
        "https://example.com/orders",
        "https://user:CANARY@example.com/",
        "https://CANARY@example.com/",
        "https://:CANARY@example.com/#",
        "http:\\\\user:CANARY@example.com",
        "https:/CANARY:CANARY@example.com",
        "https://example.com/#CANARY",
        "HTTP://EXAMPLE.com",
        "http://127.1/",
        "http://0x7f000001/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://localhost.",
        "http://localhost@example.com",
        "data:text/plain,x",
        "arn:aws:lambda:eu-central-1:123456789012:function:orders",
        "arn:aws:lambda:eu-central-1:123456789012:function:orders:live",
        "arn:aws:lambda:::function::",
        "0",
        "1",
        "900",
        "10000",
        "+7",
        "-0",
        "1e3",
        "18446744073709551616",
        "true",
        "false",
    ];
    const POLICIES: [&str; 5] =
        ["{}", "[]", "{", r#"{"max_attempts":3}"#, r#"{"backoff":{"kind":"fixed","delay_seconds":901}}"#];
    let known = |texts: &'static [&'static str]| select(texts).prop_map(str::to_owned);
    prop_oneof![6 => known(&LIKELY), 2 => known(&POLICIES), 1 => any::<String>()]
}

fn any_variables(names: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let each = names.iter().map(|name| (Just(*name), any_value())).collect::<Vec<_>>();
    (each, any::<u16>()).prop_map(|(all, kept)| {
        let kept = |index: usize| kept >> (index % 16) & 1 == 0 || index < 3;
        all.into_iter().enumerate().filter(|(index, _)| kept(*index)).map(|(_, variable)| variable).collect()
    })
}

fn owned_reader(variables: &[(&str, String)]) -> SettingsReader<'static> {
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    SettingsReader::new(move |name| {
        variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    })
}

fn is_queue_url(url: &str) -> bool {
    (url.starts_with("https://") || url.starts_with("http://")) && !url.ends_with(".fifo")
}

proptest! {
    #[test]
    fn accepted_settings_are_in_range_and_errors_contain_no_secrets(
        variables in any_variables(&[
            "SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL", "TARGET", "TARGET_ALLOW_HTTP",
            "TARGET_TIMEOUT_SECONDS", "MAX_CONCURRENCY", "TARGET_HEADERS_SECRET_ARN",
        ]),
    ) {
        match owned_reader(&variables).read_settings(MessageProcessorSettings::with_target) {
            Ok((settings, target)) => {
                let OnFailure::DelayedResend(DelayedResend(queues)) = &settings.on_failure else {
                    return Err(TestCaseError::fail("STRATEGY is not set"));
                };
                prop_assert!(is_queue_url(&queues.source_queue) && is_queue_url(&queues.intermediate_dlq));
                prop_assert!(is_queue_url(&settings.annotation_queue_url));
                prop_assert!((1..=10_000).contains(&settings.max_concurrency.get()));
                prop_assert!(target.timeout.is_none_or(|timeout| (1..=900).contains(&timeout.as_secs())));
                let secret_arn = variables.iter().find(|(name, value)| *name == "TARGET_HEADERS_SECRET_ARN" && !value.is_empty());
                match target.called {
                    CalledTarget::Http(HttpSettings {
                        endpoint: EndpointSetting::Url(TargetUrl(url))
                            | EndpointSetting::Secret { url: UrlSetting::Given(TargetUrl(url)), .. },
                        ..
                    }) => {
                        let http_is_allowed = variables.contains(&("TARGET_ALLOW_HTTP", "true".to_owned()));
                        let plain = url.scheme() == "http" && (http_is_allowed || is_loopback(&url));
                        prop_assert!(url.scheme() == "https" || plain, "{}", url);
                        prop_assert!(url.username().is_empty() && url.password().is_none(), "{}", url);
                        prop_assert!(url.has_host() && url.fragment().is_none(), "{}", url);
                    }
                    CalledTarget::Http(HttpSettings { .. }) => prop_assert!(secret_arn.is_some()),
                    CalledTarget::Lambda { arn, .. } => {
                        prop_assert!(arn.starts_with("arn:aws"));
                        prop_assert_eq!(secret_arn, None);
                    }
                }
            }
            Err(SettingsError(wrong)) => {
                prop_assert!(!wrong.is_empty());
                prop_assert!(wrong.iter().all(|line| line.starts_with("- ") && !line.contains("CANARY")), "{:?}", wrong);
            }
        }
    }

    #[test]
    fn accepted_settings_for_the_failed_message_processor_are_in_range(
        variables in any_variables(&["SOURCE_QUEUE_URL", "INTERMEDIATE_DLQ_URL", "ANNOTATION_QUEUE_URL", "RETRY_POLICY"]),
    ) {
        match owned_reader(&variables).read_settings(FailedMessageProcessorSettings::from_reader) {
            Ok(settings) => {
                let urls = [settings.source_queue_url, settings.intermediate_dlq_url, settings.annotation_queue_url];
                prop_assert!(urls.iter().all(|url| is_queue_url(url)));
                prop_assert!(settings.policy.max_attempts <= 1000);
            }
            Err(SettingsError(wrong)) => prop_assert!(!wrong.is_empty()),
        }
    }
}

/// Returns the schema that both message-parsing functions read from these variables, or the problems that they report.
fn read_message_schema(variables: &[(&str, &str)]) -> Result<MessageSchema, String> {
    let (source, intermediate, annotation) = (queue("source"), queue("intermediate"), queue("annotation"));
    let queues = [
        ("SOURCE_QUEUE_URL", source.as_str()),
        ("INTERMEDIATE_DLQ_URL", intermediate.as_str()),
        ("ANNOTATION_QUEUE_URL", annotation.as_str()),
    ];
    let all: Vec<_> = queues.into_iter().chain(variables.iter().copied()).collect();
    let processor =
        reader(&all).read_settings(MessageProcessorSettings::from_reader).map(|settings| settings.schema);
    let retrier = reader(&all)
        .read_settings(FailedMessageProcessorSettings::from_reader)
        .map(|settings| settings.schema);
    let shown = |read: &Result<MessageSchema, SettingsError>| format!("{read:?}");
    assert_eq!(shown(&processor), shown(&retrier), "both functions accept the same messages");
    processor.map_err(|error| error.to_string())
}

#[test]
fn messages_without_an_envelope_are_accepted_if_enabled() {
    let taken = |variables: &[(&str, &str)], body: &str| {
        let schema = read_message_schema(variables).unwrap();
        let read = schema.read_message(body, &Default::default(), "00000000-0000-4000-8000-000000000001");
        read.map(|parsed| parsed.metadata().message_id_text.clone()).ok()
    };
    assert_eq!(taken(&[], "x"), None);
    assert_eq!(taken(&[("ENVELOPE", "required")], "x"), None);
    assert_eq!(taken(&[("ENVELOPE", "optional")], "x").unwrap(), "00000000-0000-4000-8000-000000000001");
    let pointed =
        [("ENVELOPE", "optional"), ("MESSAGE_ID_POINTER", "/detail/id"), ("MESSAGE_ID_ATTRIBUTE", "Id")];
    let id = "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01";
    assert_eq!(taken(&pointed, &format!(r#"{{"detail":{{"id":"{id}"}}}}"#)).unwrap(), id);
}

#[test]
fn invalid_plain_message_settings_are_reported() {
    let wrong = |variables: &[(&str, &str)]| read_message_schema(variables).unwrap_err();
    let error = wrong(&[
        ("ENVELOPE", "optional"),
        ("MESSAGE_ID_ATTRIBUTE", "Redeliver"),
        ("MESSAGE_ID_POINTER", "detail.id"),
        ("BODY_SCHEMA_PATH", "no-such-schema.json"),
    ]);
    for line in [
        "- MESSAGE_ID_ATTRIBUTE is reserved for redeliver's own attribute; use another name",
        "- MESSAGE_ID_POINTER is not a JSON Pointer to a member, such as /detail/id: begin it with `/`, and",
        "- BODY_SCHEMA_PATH names the file no-such-schema.json, which cannot be read",
    ] {
        assert!(error.contains(line), "{line} in {error}");
    }
    let error =
        wrong(&[("MESSAGE_ID_ATTRIBUTE", "Id"), ("MESSAGE_ID_POINTER", "/id"), ("BODY_SCHEMA_PATH", "x")]);
    for name in ["MESSAGE_ID_ATTRIBUTE", "MESSAGE_ID_POINTER", "BODY_SCHEMA_PATH"] {
        let line = format!(
            "- {name} only applies to messages without an envelope: set ENVELOPE=optional, or remove it"
        );
        assert!(error.contains(&line), "{line} in {error}");
    }
    assert!(wrong(&[("ENVELOPE", "never")]).contains("- ENVELOPE must be required or optional"));
    let reserved = wrong(&[("ENVELOPE", "optional"), ("MESSAGE_ID_ATTRIBUTE", "AWS.Id")]);
    assert!(
        reserved.contains("- MESSAGE_ID_ATTRIBUTE is not the name of a message attribute: "),
        "{reserved}"
    );
}

#[test]
fn max_concurrency_and_unknown_log_levels_are_ignored_for_user_functions() {
    const URL: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/q";
    let queues = [SOURCE, ("INTERMEDIATE_DLQ_URL", URL), ("ANNOTATION_QUEUE_URL", URL)];
    let read = |more: &[(&'static str, &'static str)]| {
        let variables = [&queues[..], more].concat();
        reader(&variables).read_settings(MessageProcessorSettings::with_own_function)
    };
    let (settings, own) = read(&[("MAX_CONCURRENCY", "many"), ("LOG_LEVEL", "debug")]).unwrap();
    assert_eq!((settings.max_concurrency.get(), settings.logging.level), (1, LogLevel::Info));
    assert_eq!((own.handler_event, own.next_wrapper), (HandlerEvent::Record, None));

    let batch = [("HANDLER_EVENT", "batch"), ("REDELIVER_NEXT_WRAPPER", "/opt/other"), ("LOG_LEVEL", "WARN")];
    let (settings, own) = read(&batch).unwrap();
    assert_eq!((settings.max_concurrency.get(), settings.logging.level), (usize::MAX, LogLevel::Warn));
    assert_eq!((own.handler_event, own.next_wrapper.as_deref()), (HandlerEvent::Batch, Some("/opt/other")));

    let error = read(&[("HANDLER_EVENT", "records"), ("LOG_DETAIL", "all")]).unwrap_err().to_string();
    assert_eq!(
        error,
        "the function cannot start; its environment variables are invalid:\n\
         - HANDLER_EVENT must be record or batch\n\
         - LOG_DETAIL must be batches or messages"
    );
}

fn read_annotator_settings(variables: &[(&str, &str)]) -> Result<FinalDlqAnnotatorSettings, String> {
    let url = queue("redeliver-prod-final-dlq");
    let all: Vec<_> =
        [("FINAL_DLQ_URL", url.as_str())].into_iter().chain(variables.iter().copied()).collect();
    let lines = |error: SettingsError| error.0.join("\n");
    reader(&all).read_settings(FinalDlqAnnotatorSettings::from_reader).map_err(lines)
}

#[test]
fn an_archive_has_a_bucket_and_optional_prefix_and_omissions() {
    assert_eq!(read_annotator_settings(&[]).unwrap().archive, None);
    assert_eq!(
        read_annotator_settings(&[("ARCHIVE_BUCKET", ""), ("ARCHIVE_PREFIX", "")]).unwrap().archive,
        None
    );
    let bare = read_annotator_settings(&[("ARCHIVE_BUCKET", "dead.letters-1")]).unwrap().archive.unwrap();
    assert_eq!(
        (bare.bucket.as_str(), bare.prefix.as_str(), bare.omit),
        ("dead.letters-1", "", OmitList::default())
    );
    assert_eq!(bare.bucket_owner.to_string(), "123456789012", "the account of the final DLQ");
    let full = [
        ("ARCHIVE_BUCKET", "letters"),
        ("ARCHIVE_BUCKET_OWNER", "444455556666"),
        ("ARCHIVE_PREFIX", "team=orders/redeliver"),
        ("ARCHIVE_OMIT", "/data/email, /data/items/0/name"),
    ];
    let full = read_annotator_settings(&full).unwrap().archive.unwrap();
    assert_eq!(full.bucket_owner.to_string(), "444455556666");
    assert_eq!(full.prefix.as_str(), "team=orders/redeliver/");
    assert_eq!(full.omit, OmitList::parse("/data/email,/data/items/0/name").unwrap());
}

#[test]
fn each_invalid_archive_setting_is_reported() {
    let wrong = |variables: &[(&str, &str)]| read_annotator_settings(variables).unwrap_err();
    assert_eq!(
        wrong(&[("ARCHIVE_BUCKET_OWNER", "1"), ("ARCHIVE_PREFIX", "x"), ("ARCHIVE_OMIT", "/data")]),
        "- ARCHIVE_BUCKET_OWNER is set, but ARCHIVE_BUCKET is not; set both or neither\n\
         - ARCHIVE_PREFIX is set, but ARCHIVE_BUCKET is not; set both or neither\n\
         - ARCHIVE_OMIT is set, but ARCHIVE_BUCKET is not; set both or neither"
    );
    for name in [
        "ab",
        &"a".repeat(64),
        "Letters",
        "s3://letters",
        "letters/prod",
        "arn:aws:s3:::letters",
        "-letters",
        "letters.",
    ] {
        assert_eq!(
            wrong(&[("ARCHIVE_BUCKET", name)]),
            "- ARCHIVE_BUCKET is not the name of a bucket: 3 to 63 characters of a-z 0-9 . -, without s3:// and without a \
             prefix",
            "{name}"
        );
    }
    let with = |name: &str, value: &str| wrong(&[("ARCHIVE_BUCKET", "letters"), (name, value)]);
    for account in ["12345678901", "1234-5678-9012", "arn:aws:iam::123456789012:root"] {
        assert_eq!(
            with("ARCHIVE_BUCKET_OWNER", account),
            "- ARCHIVE_BUCKET_OWNER is not the id of an AWS account, which has 12 digits, such as 123456789012",
            "{account}"
        );
    }
    let elsewhere = [("FINAL_DLQ_URL", "http://localhost:9324/queue/dlq"), ("ARCHIVE_BUCKET", "letters")];
    let read = reader(&elsewhere).read_settings(FinalDlqAnnotatorSettings::from_reader);
    assert_eq!(
        read.unwrap_err().0,
        [
            "- ARCHIVE_BUCKET_OWNER is missing, and FINAL_DLQ_URL has no account; set it to the bucket's account"
        ]
    );
    let nowhere =
        reader(&[("ARCHIVE_BUCKET", "letters")]).read_settings(FinalDlqAnnotatorSettings::from_reader);
    assert_eq!(
        nowhere.unwrap_err().0,
        ["- FINAL_DLQ_URL is missing: set it to the queue's URL"],
        "a correct URL might contain the account"
    );
    assert_eq!(with("ARCHIVE_PREFIX", &"x".repeat(257)), "- ARCHIVE_PREFIX has more than 256 characters");
    assert_eq!(
        with("ARCHIVE_PREFIX", "/x"),
        "- ARCHIVE_PREFIX begins with `/`, which would create a folder without a name; remove it"
    );
    for prefix in ["a b", "a\u{e4}", "a&b", "a+b", "a%20b", "a,b", "a:b"] {
        assert_eq!(
            with("ARCHIVE_PREFIX", prefix),
            "- ARCHIVE_PREFIX has a character other than A-Z a-z 0-9 ! _ . * ' ( ) / = -",
            "{prefix}"
        );
    }
    for (omit, place) in [("data", 1), ("/data,,/x", 2), ("/data,/a~2b", 2), ("/data,", 2)] {
        assert_eq!(
            with("ARCHIVE_OMIT", omit),
            format!(
                "- ARCHIVE_OMIT entry {place} is not a JSON Pointer to a member, such as /detail/id: begin it with `/`, \
                 and in a name write `~` as ~0 and `/` as ~1"
            )
        );
    }
    assert!(
        read_annotator_settings(&[
            ("ARCHIVE_BUCKET", "letters"),
            ("ARCHIVE_OMIT", &vec!["/x"; 50].join(","))
        ])
        .is_ok()
    );
    assert_eq!(with("ARCHIVE_OMIT", &vec!["/x"; 51].join(",")), "- ARCHIVE_OMIT has more than 50 entries");
}

#[test]
fn notices_require_a_standard_topic_or_an_event_bus() {
    let notify = |arn| read_annotator_settings(&[("NOTIFY_ARN", arn)]).map(|settings| settings.notify);
    assert_eq!(notify(""), Ok(None));
    for arn in [
        "arn:aws:sns:eu-central-1:123456789012:letters",
        "arn:aws-cn:sns:cn-north-1:123456789012:letters",
        "arn:aws:events:eu-central-1:123456789012:event-bus/default",
        "arn:aws:events:eu-central-1:123456789012:event-bus/partner/of/a/bus",
    ] {
        assert_eq!(notify(arn), Ok(Some(arn.parse().unwrap())));
    }
    assert_eq!(
        notify("arn:aws:sns:eu-central-1:123456789012:letters.fifo"),
        Err("- NOTIFY_ARN is the ARN of a FIFO topic, which cannot send email; use a standard topic"
            .to_owned())
    );
    for arn in [
        "letters",
        "arn:aws:sns:eu-central-1:123456789012:",
        "arn:aws:sns:eu-central-1:12345678901:letters",
        "arn:aws:sns::123456789012:letters",
        "arn:gcp:sns:eu-central-1:123456789012:letters",
        "arn:aws:sns:eu-central-1:123456789012:letters:6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01",
        "arn:aws:events:eu-central-1:123456789012:rule/letters",
        "arn:aws:events:eu-central-1:123456789012:event-bus/",
        "arn:aws:sqs:eu-central-1:123456789012:letters",
    ] {
        assert_eq!(
            notify(arn),
            Err("- NOTIFY_ARN is not the ARN of an SNS topic (arn:aws:sns:REGION:ACCOUNT:NAME) or of an event bus \
                 (arn:aws:events:REGION:ACCOUNT:event-bus/NAME)"
                .to_owned()),
            "{arn}"
        );
    }
}
