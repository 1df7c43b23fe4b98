use super::*;

fn messages(count: usize) -> Vec<OutgoingMessage> {
    let message = |index| Content { body: format!("{{\"n\":{index}}}"), ..Content::default() };
    (0..count).map(|index| OutgoingMessage::new(message(index)).unwrap()).collect()
}

/// Sends `count` messages in one request.
async fn send(server: &Loopback, timeout: Duration, count: usize) -> Vec<EntryOutcome<String>> {
    let messages = messages(count);
    let outcomes = queue(server, timeout).send_batch(pack_batches(&messages)[0]).await;
    assert_eq!(outcomes.len(), count, "one outcome per entry");
    outcomes
}

async fn response_outcomes(body: Value, count: usize) -> Vec<EntryOutcome<String>> {
    send(&Loopback::start([json_response(&body)]).await, LONG, count).await
}

/// Returns the error from a request with two entries.
async fn failed_request(scripted: ScriptedResponse) -> EntryError {
    let server = Loopback::start([scripted]).await;
    only_error(send(&server, LONG, 2).await, &server)
}

/// Returns the error from a request with two entries if the server does not complete its response in time.
async fn timed_out_request(scripted: impl Fn() -> ScriptedResponse) -> EntryError {
    let (outcomes, server) =
        Loopback::call_until_timeout(scripted, async |server, timeout| send(server, timeout, 2).await).await;
    only_error(outcomes, &server)
}

fn only_error(mut outcomes: Vec<EntryOutcome<String>>, server: &Loopback) -> EntryError {
    assert_eq!(server.requests().len(), 1, "the SDK does not retry");
    assert_eq!(outcomes[0], outcomes[1]);
    let error = outcomes.remove(0).unwrap_err();
    assert!(!format!("{error:?}").contains("CANARY"), "{error:?}");
    error
}

fn confirmed_entry(id: &str) -> Value {
    json!({ "Id": id, "MessageId": format!("sqs-{id}"), "MD5OfMessageBody": "not checked" })
}

fn refused_entry(id: &str, sender_fault: bool, code: &str) -> Value {
    json!({ "Id": id, "SenderFault": sender_fault, "Code": code, "Message": "CANARY" })
}

#[tokio::test]
async fn outcomes_are_matched_by_entry_id_regardless_of_order() {
    let outcomes = response_outcomes(
        json!({
            "Successful": [confirmed_entry("4"), confirmed_entry("1"), confirmed_entry("6")],
            "Failed": [
                refused_entry("5", true, "AWS.SimpleQueueService.OverLimit"),
                refused_entry("0", true, "InvalidMessageContents"),
                refused_entry("3", true, "RequestThrottled"),
                refused_entry("2", false, "InternalError"),
            ],
        }),
        7,
    )
    .await;
    assert_eq!(
        outcomes,
        [
            Err(error(Fault::Sender, "InvalidMessageContents")),
            Ok("sqs-1".to_owned()),
            Err(error(Fault::Service, "InternalError")),
            Err(error(Fault::Throttled, "RequestThrottled")),
            Ok("sqs-4".to_owned()),
            Err(error(Fault::Throttled, "AWS.SimpleQueueService.OverLimit")),
            Ok("sqs-6".to_owned()),
        ]
    );
}

#[tokio::test]
async fn an_entry_missing_from_the_response_is_unconfirmed() {
    let missing = || Err(error(Fault::NoAnswer, "EntryNotAnswered"));
    let outcomes = response_outcomes(json!({ "Successful": [confirmed_entry("1")], "Failed": [] }), 3).await;
    assert_eq!(outcomes, [missing(), Ok("sqs-1".to_owned()), missing()]);
    for nothing in [json!({}), json!({ "Successful": [], "Failed": [] }), json!({ "Successful": null })] {
        assert_eq!(response_outcomes(nothing, 2).await, [missing(), missing()]);
    }
}

#[tokio::test]
async fn confirmations_of_unknown_entries_are_ignored() {
    let missing = || Err(error(Fault::NoAnswer, "EntryNotAnswered"));
    let unknown = [
        confirmed_entry("2"),
        confirmed_entry("00"),
        confirmed_entry("-1"),
        confirmed_entry(""),
        json!({ "MessageId": "x" }),
    ];
    assert_eq!(response_outcomes(json!({ "Successful": unknown }), 2).await, [missing(), missing()]);
}

#[tokio::test]
async fn an_entry_that_both_succeeded_and_failed_is_unconfirmed() {
    let body = json!({
        "Successful": [confirmed_entry("0"), confirmed_entry("1")],
        "Failed": [refused_entry("0", false, "InternalError")],
    });
    let outcomes = response_outcomes(body, 2).await;
    assert_eq!(outcomes, [Err(error(Fault::Service, "InternalError")), Ok("sqs-1".to_owned())]);
}

#[tokio::test]
async fn a_refused_request_confirms_no_entry() {
    for (status, code, expected) in [
        (400, "RequestThrottled", Fault::Throttled),
        (400, "ThrottlingException", Fault::Throttled),
        (400, "KmsThrottled", Fault::Throttled),
        (403, "OverLimit", Fault::Throttled),
        (429, "TooMany", Fault::Throttled),
        (400, "QueueDoesNotExist", Fault::Sender),
        (400, "KmsDisabled", Fault::Sender),
        (400, "BatchRequestTooLong", Fault::Sender),
        (403, "AccessDeniedException", Fault::Sender),
        (408, "RequestTimeout", Fault::NotSent),
        (500, "InternalError", Fault::Service),
        (502, "BadGateway", Fault::Service),
        (503, "ServiceUnavailable", Fault::Throttled),
        (504, "GatewayTimeout", Fault::Service),
    ] {
        assert_eq!(failed_request(error_response(status, code)).await, error(expected, code), "{status}");
    }
}

#[tokio::test]
async fn an_error_keeps_the_query_protocol_code() {
    // SQS sends the code for older clients in addition to the newer code.
    let headers = [
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amzn-query-error", "AWS.SimpleQueueService.NonExistentQueue;Sender"),
    ];
    let body = json!({ "__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "CANARY" });
    let error = failed_request(ScriptedResponse::new(400, &headers, &body.to_string())).await;
    assert_eq!(error, super::error(Fault::Sender, "AWS.SimpleQueueService.NonExistentQueue"));
}

#[tokio::test]
async fn an_error_without_a_readable_body_is_classified_by_its_status() {
    for body in ["", "<html>CANARY</html>"] {
        let error_of = |status| failed_request(ScriptedResponse::new(status, &[], body));
        assert_eq!(error_of(504).await.fault, Fault::Service);
        assert_eq!(error_of(503).await.fault, Fault::Throttled);
        assert_eq!(error_of(429).await.fault, Fault::Throttled);
        assert_eq!(error_of(403).await.fault, Fault::Sender);
    }
}

#[tokio::test]
async fn an_unreadable_success_confirms_no_entry() {
    for garbage in ["CANARY", "[\"CANARY\"]", "{\"Successful\":[{\"Id\":\"0\",\"MessageId\":\"CANARY\"}"] {
        let error = failed_request(ScriptedResponse::new(200, &[], garbage)).await;
        assert_eq!(error, super::error(Fault::NoAnswer, "UnreadableAnswer"), "{garbage}");
    }
}

#[tokio::test]
async fn a_lost_response_counts_as_no_answer() {
    assert_eq!(failed_request(ScriptedResponse::closed()).await, error(Fault::NoAnswer, "Connection"));
    assert_eq!(timed_out_request(ScriptedResponse::hang).await, error(Fault::NoAnswer, "Timeout"));
    let unfinished = timed_out_request(|| ScriptedResponse::unfinished(200, 10)).await;
    assert_eq!(unfinished, error(Fault::NoAnswer, "Timeout"));
    let cut_off = failed_request(ScriptedResponse::cut_off(200)).await;
    assert_eq!(cut_off, error(Fault::NoAnswer, "UnreadableAnswer"));
}

#[tokio::test]
async fn only_the_connection_attempt_has_a_timeout() {
    let server = Loopback::start([]).await;
    let client = crate::start::sqs_client(&server.sdk_config());
    let timeouts = client.config().timeout_config().unwrap();
    assert_eq!(timeouts.connect_timeout(), Some(CONNECT_TIMEOUT));
    let response_timeouts =
        (timeouts.read_timeout(), timeouts.operation_timeout(), timeouts.operation_attempt_timeout());
    assert_eq!(response_timeouts, (None, None, None));
}

/// Returns the outcome of a request to this address.
async fn send_to_url(url: &str) -> Vec<EntryOutcome<String>> {
    let server = Loopback::start([]).await;
    let config = client_config(&server.sdk_config(), None).endpoint_url(url).build();
    let messages = messages(1);
    SqsQueue::new(Client::from_conf(config), "", "").send_batch(pack_batches(&messages)[0]).await
}

#[tokio::test]
async fn connect_failure_counts_as_not_sent() {
    let not_sent = [Err(error(Fault::NotSent, "Connect"))];
    assert_eq!(send_to_url(REFUSED_URL).await, not_sent, "refused");
    assert_eq!(send_to_url("http://queues.invalid").await, not_sent, "unknown host");
    let plain = Loopback::start([]).await;
    assert_eq!(send_to_url(&plain.url().replace("http:", "https:")).await, not_sent, "no TLS");
}

#[tokio::test]
async fn missing_credentials_are_distinguished_from_a_missing_response() {
    let server = Loopback::start([]).await;
    let broken = aws_credential_types::credential_fn::provide_credentials_fn(|| async {
        Err(aws_credential_types::provider::error::CredentialsError::not_loaded("none here"))
    });
    let config = client_config(&server.sdk_config(), Some(LONG)).credentials_provider(broken).build();
    let messages = messages(1);
    let outcomes =
        SqsQueue::new(Client::from_conf(config), "", "").send_batch(pack_batches(&messages)[0]).await;
    assert_eq!(outcomes, [Err(error(Fault::Sender, "NoCredentials"))]);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_message_is_sent_with_its_delay_attributes_and_system_attributes() {
    let attribute = |data_type: &str, value| Attribute { data_type: data_type.to_owned(), value };
    let full = Content {
        body: "{ \"n\":1e400,\"é\":\"\\u00e9😀\" }\r\n".to_owned(),
        attributes: [
            ("text".to_owned(), Attribute::string("é")),
            ("number".to_owned(), attribute("Number.int", AttributeValue::Text("7".to_owned()))),
            ("bytes".to_owned(), attribute("Binary.png", AttributeValue::Binary(vec![0, 255, 254]))),
        ]
        .into(),
        message_group_id: Some("tenant".to_owned()),
        deduplication_id: None,
        trace_header: Some("Root=1-5759e988".to_owned()),
        delay: redeliver_core::limits::DelaySeconds::MAX,
    };
    let plain = Content { body: "x".to_owned(), ..Content::default() };
    let ordered = Content { deduplication_id: Some("once".to_owned()), ..plain.clone() };
    let messages = [full, plain, ordered].map(|content| OutgoingMessage::new(content).unwrap());
    let server = Loopback::start([json_response(&json!({}))]).await;
    queue(&server, LONG).send_batch(pack_batches(&messages)[0]).await;
    let request = server.request();
    assert_eq!(operation(&request), "AmazonSQS.SendMessageBatch");
    assert_eq!(
        request.json(),
        json!({
            "QueueUrl": queue_url(&server),
            "Entries": [
                {
                    "Id": "0",
                    "MessageBody": "{ \"n\":1e400,\"é\":\"\\u00e9😀\" }\r\n",
                    "DelaySeconds": 900,
                    "MessageGroupId": "tenant",
                    "MessageAttributes": {
                        "text": { "DataType": "String", "StringValue": "é" },
                        "number": { "DataType": "Number.int", "StringValue": "7" },
                        "bytes": { "DataType": "Binary.png", "BinaryValue": "AP/+" },
                    },
                    "MessageSystemAttributes": {
                        "AWSTraceHeader": { "DataType": "String", "StringValue": "Root=1-5759e988" },
                    },
                },
                // Without `DelaySeconds`, the queue's own delay would apply.
                { "Id": "1", "MessageBody": "x", "DelaySeconds": 0 },
                // A FIFO queue does not accept `DelaySeconds`.
                { "Id": "2", "MessageBody": "x", "MessageDeduplicationId": "once" },
            ],
        })
    );
}
