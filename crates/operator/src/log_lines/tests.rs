use proptest::prelude::*;
use redeliver_testing::dead_letters;
use serde_json::{Value, json};

use super::*;

const ARN: &str = "arn:aws:sqs:eu-central-1:000000000000:final-dlq";
const ID: &str = "0191f3a2-7b1c-4d3e-8f00-0123456789ab";
const STREAM: &str = "2026/07/25/[$LATEST]0123456789abcdef";

/// Returns the log links of a dead letter from `queue_arn` whose document has these members.
fn log_links(members: Value, queue_arn: &str) -> Option<LogLinks> {
    let mut message = dead_letters::retried_record("RETRY_ATTEMPT_EXCEEDED", "x", 1);
    queue_arn.clone_into(&mut message.queue_arn);
    let document = message.attributes.get_mut("DeadLetter").unwrap();
    let mut written: Value = serde_json::from_str(document.text().unwrap()).unwrap();
    let Value::Object(members) = members else { panic!("{members}") };
    written.as_object_mut().unwrap().extend(members);
    *document = redeliver_core::message::Attribute::string(written.to_string());
    LogLinks::for_record(&DeadLetterRecord::new(message))
}

fn logs(more: Value) -> Value {
    let mut logs = json!({ "started_at": "2026-07-25T17:20:05.250Z", "ended_at": "2026-07-25T17:20:07Z" });
    let Value::Object(more) = more else { panic!("{more}") };
    logs.as_object_mut().unwrap().extend(more);
    json!({ "last_attempt_logs": logs })
}

fn complete_logs() -> Value {
    logs(json!({ "request_id": ID, "log_group": "/aws/lambda/orders", "log_stream": STREAM }))
}

#[test]
fn the_log_link_filters_by_stream_and_the_command_by_request_id() {
    let found = log_links(complete_logs(), ARN).unwrap();
    assert_eq!(found.describe_location(), Some(format!("/aws/lambda/orders {STREAM}")));
    assert_eq!(
        found.command.as_deref(),
        Some(
            "aws logs filter-log-events --region eu-central-1 --log-group-name /aws/lambda/orders \
             --log-stream-names '2026/07/25/[$LATEST]0123456789abcdef' \
             --filter-pattern '\"0191f3a2-7b1c-4d3e-8f00-0123456789ab\"' \
             --start-time 1785000004250 --end-time 1785000008000 --query 'events[].[message]' --output text"
        )
    );
    assert_eq!(
        found.url.as_deref(),
        Some(
            "https://console.aws.amazon.com/cloudwatch/home?region=eu-central-1#logsV2:logs-insights\
             $3FqueryDetail$3D$257E$2528end$257E$25272026-07-25T17*3a20*3a08.000Z\
             $257Estart$257E$25272026-07-25T17*3a20*3a04.250Z$257EtimeType$257E$2527ABSOLUTE\
             $257Etz$257E$2527UTC$257EeditorString$257E$2527fields*20*40timestamp*2c*20*40message*0a\
             *7c*20filter*20*40logStream*20*3d*20*222026*2f07*2f25*2f*5b*24LATEST*5d0123456789abcdef*22*0a\
             *7c*20sort*20*40timestamp*20asc*0a*7c*20limit*201000\
             $257Esource$257E$2528$257E$2527*2faws*2flambda*2forders$2529$2529"
        )
    );
}

#[test]
fn an_invoked_function_falls_back_to_its_default_log_group() {
    let function = |function: &str| {
        let mut members = logs(json!({ "request_id": ID }));
        members["cause"] = json!({ "type": "E", "message": "", "function": function });
        log_links(members, ARN).unwrap()
    };
    let found = function("orders:7");
    assert_eq!(
        found.describe_location().unwrap(),
        "/aws/lambda/orders, unless the function has another log group"
    );
    let command = found.command.unwrap();
    assert!(command.contains(" --log-group-name /aws/lambda/orders --filter-pattern '\""), "{command}");
    let url = found.url.unwrap();
    assert!(url.contains("filter*20*40message*20like*20*220191f3a2-7b1c-4d3e"), "{url}");
    for unknown in ["", ":7", "$(id):7"] {
        let found = function(unknown);
        let ways = (found.describe_location(), found.url, found.command);
        assert_eq!(ways, (None, None, None), "{unknown}");
        assert_eq!(found.location.request_id(), Some(ID));
    }
}

#[test]
fn each_partition_has_its_own_console_and_an_invalid_region_has_none() {
    let urls = |arn: &str| log_links(complete_logs(), arn).and_then(|found| found.url).unwrap_or_default();
    for (partition, host) in
        [("aws-cn", "console.amazonaws.cn"), ("aws-us-gov", "console.amazonaws-us-gov.com")]
    {
        let expected = format!("https://{host}/cloudwatch/home?region=cn-north-1#logsV2:");
        assert!(urls(&format!("arn:{partition}:sqs:cn-north-1:0:q")).starts_with(&expected));
    }
    let other = log_links(complete_logs(), "arn:aws-iso:sqs:us-iso-east-1:0:q").unwrap();
    assert_eq!(other.url, None);
    assert!(other.command.unwrap().contains(" --region us-iso-east-1 "));
    let from_source = |arn: &str| {
        let mut members = complete_logs();
        members["source_queue_arn"] = arn.into();
        log_links(members, "file:dead.jsonl").unwrap()
    };
    let found = from_source("arn:aws:sqs:eu-west-1:0:source");
    assert!(found.command.unwrap().contains(" --region eu-west-1 "), "a file has no region");
    for wrong in ["", "arn:aws:sqs", "arn:aws:sqs:$(id):0:q", "arn:aws:sqs:--debug:0:q", "arn:aws:sqs:EU:0:q"]
    {
        let found = from_source(wrong);
        assert_eq!((found.url, found.command), (None, None), "{wrong}");
    }
}

#[test]
fn a_call_without_a_request_id_is_located_by_its_stream() {
    let members = logs(json!({ "log_group": "/aws/lambda/orders", "log_stream": STREAM }));
    let command = log_links(members, ARN).unwrap().command.unwrap();
    assert!(!command.contains("--filter-pattern"), "{command}");
    let group = log_links(logs(json!({ "log_group": "/aws/lambda/orders" })), ARN).unwrap();
    assert_eq!((group.url, group.command), (None, None), "the link would show all lines of all environments");
    assert_eq!(log_links(json!({}), ARN), None);
}

/// Splits a command into words as a POSIX shell does. Returns `None` if the shell would run or expand any part of it.
fn split_words(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut in_quotes) = (Vec::new(), String::new(), false);
    for character in command.chars() {
        match character {
            '\'' => in_quotes = !in_quotes,
            _ if in_quotes => word.push(character),
            ' ' => words.push(std::mem::take(&mut word)),
            _ if character.is_ascii_alphanumeric() || "-_./:,=@+".contains(character) => word.push(character),
            _ => return None,
        }
    }
    words.push(word);
    (!in_quotes).then_some(words)
}

proptest! {
    /// Anyone could have written a dead letter.
    #[test]
    fn untrusted_log_names_are_quoted_in_the_command_and_the_link(
        texts in prop::array::uniform5(prop_oneof![
            any::<String>(),
            "[-a-zA-Z0-9_./#$\\[\\]]{1,20}",
            "[ ;|&`'\"$()<>~*%\\\\\n]{1,6}",
        ]),
        in_function in any::<bool>(),
    ) {
        let [id, group, stream, function, region] = texts;
        let mut members = logs(json!({ "request_id": id, "log_stream": stream }));
        if !in_function {
            members["last_attempt_logs"]["log_group"] = json!(group);
        }
        members["cause"] = json!({ "type": "E", "message": "", "function": function });
        members["source_queue_arn"] = json!(format!("arn:aws:sqs:{region}:0:q"));
        let found = [ARN, "file:dead.jsonl"].map(|arn| log_links(members.clone(), arn));
        for LogLinks { url, command, .. } in found.into_iter().flatten() {
            if let Some(command) = command {
                let words = split_words(&command);
                prop_assert!(words.is_some(), "{}", command);
                let words = words.unwrap();
                prop_assert_eq!(&words[..3], ["aws", "logs", "filter-log-events"]);
                let options: Vec<_> = words[3..].iter().step_by(2).map(String::as_str).collect();
                let known = ["--region", "--log-group-name", "--log-stream-names", "--filter-pattern",
                    "--start-time", "--end-time", "--query", "--output"];
                prop_assert!(options.iter().all(|option| known.contains(option)), "{:?}", words);
                prop_assert!(words[4..].iter().step_by(2).all(|value| !value.starts_with('-')), "{:?}", words);
            }
            if let Some(url) = url {
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/.?=#-_*$".contains(&byte);
                prop_assert!(url.bytes().all(is_plain), "{}", url);
                prop_assert_eq!(url.matches("$257E").count(), 13, "{}", url);
            }
        }
    }
}
