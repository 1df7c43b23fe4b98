use super::*;

fn created_queue_body(server: &Loopback) -> Value {
    json!({ "QueueUrl": queue_url(server) })
}

/// Creates a queue on a server with these responses.
async fn create_queue(
    answers: [ScriptedResponse; 2],
    settings: &QueueSettings,
) -> (Loopback, Result<SqsQueue, EntryError>) {
    let server = Loopback::start(answers).await;
    let outcome = SqsService::new(client(&server, LONG)).create_queue("orders", settings).await;
    (server, outcome)
}

#[tokio::test]
async fn a_queue_is_created_with_its_settings_and_has_its_url_and_arn() {
    let settings = QueueSettings {
        visibility: seconds(60),
        retention: Duration::from_secs(14 * 24 * 3600),
        redrive: Some(RedriveSettings { target_arn: ARN.to_owned(), max_receive_count: 100 }),
        tags: [("owner".to_owned(), "somebody".to_owned())].into(),
    };
    let elsewhere = Loopback::start([]).await;
    let answers = [
        json_response(&created_queue_body(&elsewhere)),
        json_response(&json!({ "Attributes": { "QueueArn": ARN } })),
    ];
    let (server, queue) = create_queue(answers, &settings).await;
    let queue = queue.unwrap();
    assert_eq!((queue.url(), queue.arn()), (queue_url(&elsewhere).as_str(), ARN));
    let requests = server.requests();
    assert_eq!(
        requests.iter().map(operation).collect::<Vec<_>>(),
        ["AmazonSQS.CreateQueue", "AmazonSQS.GetQueueAttributes"]
    );
    let mut request = requests[0].json();
    let policy = request["Attributes"]["RedrivePolicy"].take();
    assert_eq!(
        serde_json::from_str::<Value>(policy.as_str().unwrap()).unwrap(),
        json!({ "deadLetterTargetArn": ARN, "maxReceiveCount": 100 })
    );
    assert_eq!(
        request,
        json!({
            "QueueName": "orders",
            "Attributes": {
                "VisibilityTimeout": "60",
                "MessageRetentionPeriod": "1209600",
                "RedrivePolicy": null,
            },
            "tags": { "owner": "somebody" },
        })
    );
}

#[tokio::test]
async fn a_failed_queue_creation_is_an_error() {
    let settings = QueueSettings::default();
    let unreadable = || error(Fault::NoAnswer, "UnreadableAnswer");
    let (_, no_url) = create_queue([json_response(&json!({})), ScriptedResponse::closed()], &settings).await;
    assert_eq!(no_url.unwrap_err(), unreadable());
    let url = json!({ "QueueUrl": "http://127.0.0.1/1/orders" });
    let (_, no_arn) = create_queue([json_response(&url), json_response(&json!({}))], &settings).await;
    assert_eq!(no_arn.unwrap_err(), unreadable());
    let (server, exists) =
        create_queue([error_response(400, "QueueNameExists"), ScriptedResponse::closed()], &settings).await;
    assert_eq!(exists.unwrap_err(), error(Fault::Sender, "QueueNameExists"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_queue_is_deleted_by_its_url() {
    let server = Loopback::start([json_response(&json!({})), error_response(400, "QueueDoesNotExist")]).await;
    let service = SqsService::new(client(&server, LONG));
    let queue = queue(&server, LONG);
    assert_eq!(service.delete_queue(&queue).await, Ok(()));
    assert_eq!(service.delete_queue(&queue).await, Err(error(Fault::Sender, "QueueDoesNotExist")));
    let requests = server.requests();
    assert_eq!(operation(&requests[0]), "AmazonSQS.DeleteQueue");
    assert_eq!(requests[0].json(), json!({ "QueueUrl": queue_url(&server) }));
}

#[tokio::test]
async fn a_name_with_the_fifo_suffix_creates_a_fifo_queue() {
    let url = json!({ "QueueUrl": "http://127.0.0.1/1/orders.fifo" });
    let server =
        Loopback::start([json_response(&url), json_response(&json!({ "Attributes": { "QueueArn": ARN } }))])
            .await;
    let settings = QueueSettings::default();
    SqsService::new(client(&server, LONG)).create_queue("orders.fifo", &settings).await.unwrap();
    let request = server.requests()[0].json();
    assert_eq!(request["QueueName"], "orders.fifo");
    assert_eq!(request["Attributes"]["FifoQueue"], "true");
}
