use super::*;

const REQUEST: ReceiveOptions =
    ReceiveOptions { max_messages: 10, wait: Duration::from_secs(20), visibility: None };

fn message(id: &str, system: &Value, attributes: &Value) -> Value {
    json!({
        "MessageId": id,
        "ReceiptHandle": format!("handle of {id}"),
        "Body": "{ \"n\":1e400 }\r\n",
        "MD5OfBody": "not checked",
        "Attributes": system,
        "MessageAttributes": attributes,
    })
}

#[tokio::test]
async fn a_received_message_has_all_its_system_attributes() {
    let system = json!({
        "SenderId": "AIDA",
        "SentTimestamp": "1750000000123",
        "ApproximateFirstReceiveTimestamp": "1750000000456",
        "ApproximateReceiveCount": "3",
        "MessageGroupId": "tenant",
        "AWSTraceHeader": "Root=1-5759e988",
        "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-central-1:123456789012:elsewhere",
        "NewSystemAttribute": "x",
    });
    let attributes = json!({
        "text": { "DataType": "String", "StringValue": "é" },
        "number": { "DataType": "Number.int", "StringValue": "7" },
        "bytes": { "DataType": "Binary.png", "BinaryValue": "AP/+" },
    });
    let server =
        Loopback::start([json_response(&json!({ "Messages": [message("full", &system, &attributes)] }))])
            .await;
    let received = queue(&server, LONG).receive(REQUEST).await.unwrap();
    let moment = |millis| chrono::DateTime::from_timestamp_millis(millis).unwrap();
    let attribute = |data_type: &str, value| Attribute { data_type: data_type.to_owned(), value };
    let expected = ReceivedMessage {
        sqs_message_id: "full".to_owned(),
        receipt_handle: "handle of full".to_owned(),
        body: "{ \"n\":1e400 }\r\n".to_owned(),
        attributes: [
            ("text".to_owned(), Attribute::string("é")),
            ("number".to_owned(), attribute("Number.int", AttributeValue::Text("7".to_owned()))),
            ("bytes".to_owned(), attribute("Binary.png", AttributeValue::Binary(vec![0, 255, 254]))),
        ]
        .into(),
        sent_at: moment(1_750_000_000_123),
        first_received_at: Some(moment(1_750_000_000_456)),
        receive_count: 3,
        message_group_id: Some("tenant".to_owned()),
        trace_header: Some("Root=1-5759e988".to_owned()),
        sender_id: Some("AIDA".to_owned()),
        redriven_from: Some("arn:aws:sqs:eu-central-1:123456789012:elsewhere".to_owned()),
        queue_arn: ARN.to_owned(),
        omitted: Vec::new(),
    };
    assert_eq!(received, [expected]);
    let request = server.request();
    assert_eq!(operation(&request), "AmazonSQS.ReceiveMessage");
    assert_eq!(
        request.json(),
        json!({
            "QueueUrl": queue_url(&server),
            "MaxNumberOfMessages": 10,
            "WaitTimeSeconds": 20,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        })
    );
}

#[tokio::test]
async fn a_receive_sends_its_visibility_timeout_if_set() {
    let server = Loopback::start([json_response(&json!({}))]).await;
    let visibility = Some(seconds(0));
    let request = ReceiveOptions { max_messages: 1, wait: Duration::ZERO, visibility };
    assert_eq!(queue(&server, LONG).receive(request).await, Ok(vec![]));
    let request = server.request().json();
    assert_eq!(request["VisibilityTimeout"], 0);
    assert_eq!(request["WaitTimeSeconds"], 0);
    assert_eq!(request["MaxNumberOfMessages"], 1);
}

#[tokio::test]
async fn an_unreadable_message_is_reported_and_the_others_are_delivered() {
    let sent = || json!({ "SentTimestamp": "1" });
    let grouped = json!({ "SentTimestamp": "1", "MessageGroupId": "a" });
    let body = json!({ "Messages": [
        message("first", &sent(), &json!({})),
        message("no clock", &json!({}), &json!({})),
        message("no value", &grouped, &json!({ "a": { "DataType": "Binary" } })),
        message("second", &sent(), &json!({})),
        { "MessageId": "no handle", "Body": "{}", "Attributes": sent() },
        { "MessageId": "no body", "ReceiptHandle": "handle", "Attributes": sent() },
        message("last", &sent(), &json!({})),
    ] });
    let server = Loopback::start([json_response(&body)]).await;
    let queue = queue(&server, LONG);
    let received = queue.receive(REQUEST).await.unwrap();
    let ids: Vec<_> = received.iter().map(|message| message.sqs_message_id.as_str()).collect();
    assert_eq!(ids, ["first", "second", "last"]);
    let unreadable = |sqs_message_id: &str, receipt_handle: &str, readable_before| UnreadableMessage {
        sqs_message_id: sqs_message_id.to_owned(),
        receipt_handle: receipt_handle.to_owned(),
        message_group_id: None,
        readable_before,
    };
    let reported = [
        unreadable("no clock", "handle of no clock", 1),
        UnreadableMessage {
            message_group_id: Some("a".to_owned()),
            ..unreadable("no value", "handle of no value", 1)
        },
        unreadable("no handle", "", 2),
        unreadable("no body", "handle", 2),
    ];
    assert_eq!(queue.clone().take_unreadable(), reported);
    assert_eq!(queue.take_unreadable(), [], "each message is reported once");
    // No message was deleted.
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_failed_receive_is_an_error_with_its_reason_not_an_empty_queue() {
    for (scripted, expected) in [
        (error_response(503, "ServiceUnavailable"), error(Fault::Throttled, "ServiceUnavailable")),
        (error_response(400, "OverLimit"), error(Fault::Throttled, "OverLimit")),
        (error_response(400, "QueueDoesNotExist"), error(Fault::Sender, "QueueDoesNotExist")),
        (ScriptedResponse::new(200, &[], "CANARY"), error(Fault::NoAnswer, "UnreadableAnswer")),
        (ScriptedResponse::closed(), error(Fault::NoAnswer, "Connection")),
    ] {
        let server = Loopback::start([scripted]).await;
        assert_eq!(queue(&server, LONG).receive(REQUEST).await, Err(expected));
        assert_eq!(server.requests().len(), 1);
    }
    let receive = async |server: &Loopback, timeout| queue(server, timeout).receive(REQUEST).await;
    let (received, server) = Loopback::call_until_timeout(ScriptedResponse::hang, receive).await;
    assert_eq!(received, Err(error(Fault::NoAnswer, "Timeout")));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_delete_is_confirmed_entry_by_entry() {
    let body = json!({
        "Successful": [{ "Id": "2" }],
        "Failed": [{ "Id": "0", "SenderFault": true, "Code": "ReceiptHandleIsInvalid" }],
    });
    let server = Loopback::start([json_response(&body)]).await;
    let outcomes = queue(&server, LONG).delete_batch(&["a".to_owned(), "b".to_owned(), "c".to_owned()]).await;
    assert_eq!(
        outcomes,
        [
            Err(error(Fault::Sender, "ReceiptHandleIsInvalid")),
            Err(error(Fault::NoAnswer, "EntryNotAnswered")),
            Ok(()),
        ]
    );
    let request = server.request();
    assert_eq!(operation(&request), "AmazonSQS.DeleteMessageBatch");
    let entries = json!([
        { "Id": "0", "ReceiptHandle": "a" },
        { "Id": "1", "ReceiptHandle": "b" },
        { "Id": "2", "ReceiptHandle": "c" },
    ]);
    assert_eq!(request.json(), json!({ "QueueUrl": queue_url(&server), "Entries": entries }));
}

#[tokio::test]
async fn a_visibility_change_is_confirmed_entry_by_entry() {
    let body = json!({
        "Successful": [{ "Id": "1" }],
        "Failed": [{ "Id": "0", "SenderFault": true, "Code": "MessageNotInflight" }],
    });
    let server = Loopback::start([json_response(&body)]).await;
    let entries = [("a".to_owned(), seconds(0)), ("b".to_owned(), seconds(43_200))];
    let outcomes = queue(&server, LONG).change_visibility_batch(&entries).await;
    assert_eq!(outcomes, [Err(error(Fault::Sender, "MessageNotInflight")), Ok(())]);
    let request = server.request();
    assert_eq!(operation(&request), "AmazonSQS.ChangeMessageVisibilityBatch");
    let entries = json!([
        { "Id": "0", "ReceiptHandle": "a", "VisibilityTimeout": 0 },
        { "Id": "1", "ReceiptHandle": "b", "VisibilityTimeout": 43_200 },
    ]);
    assert_eq!(request.json(), json!({ "QueueUrl": queue_url(&server), "Entries": entries }));
}

#[tokio::test]
async fn a_failed_delete_or_visibility_change_fails_every_entry() {
    let unavailable = || Err(error(Fault::Throttled, "ServiceUnavailable"));
    let server = Loopback::start([
        error_response(503, "ServiceUnavailable"),
        error_response(503, "ServiceUnavailable"),
    ])
    .await;
    let queue = queue(&server, LONG);
    assert_eq!(queue.delete_batch(&["a".to_owned(), "b".to_owned()]).await, [unavailable(), unavailable()]);
    let entries = [("a".to_owned(), seconds(1)), ("b".to_owned(), seconds(1))];
    assert_eq!(queue.change_visibility_batch(&entries).await, [unavailable(), unavailable()]);
}

#[tokio::test]
async fn the_depth_has_all_three_counts() {
    let body = json!({ "Attributes": {
        "ApproximateNumberOfMessages": "1",
        "ApproximateNumberOfMessagesNotVisible": "20",
        "ApproximateNumberOfMessagesDelayed": "300",
    } });
    let server = Loopback::start([json_response(&body)]).await;
    let depth = queue(&server, LONG).depth().await.unwrap();
    assert_eq!(depth, Depth { visible: 1, in_flight: 20, delayed: 300 });
    assert_eq!(operation(&server.request()), "AmazonSQS.GetQueueAttributes");
}

#[tokio::test]
async fn an_unknown_depth_is_not_an_empty_queue() {
    let counts = |delayed: Value| {
        json!({ "Attributes": {
            "ApproximateNumberOfMessages": "0",
            "ApproximateNumberOfMessagesNotVisible": "0",
            "ApproximateNumberOfMessagesDelayed": delayed,
        } })
    };
    for body in [json!({}), json!({ "Attributes": {} }), counts(json!(null)), counts(json!("many"))] {
        let server = Loopback::start([json_response(&body)]).await;
        assert_eq!(queue(&server, LONG).depth().await, Err(error(Fault::NoAnswer, "UnreadableAnswer")));
    }
}
