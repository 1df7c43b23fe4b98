use std::error::Error;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::tests::loopback::{EndlessServer, sdk_config};

fn causes(error: &(dyn Error + 'static)) -> String {
    let cause = error.source().map(|cause| format!(": {}", causes(cause)));
    format!("{error}{}", cause.unwrap_or_default())
}

const HEADS: [&str; 2] = ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"];

fn config(url: &str) -> SdkConfig {
    sdk_config(url).into_builder().retry_config(RetryConfig::disabled()).build()
}

#[tokio::test]
async fn an_endless_receive_response_is_cut_off_at_64_mib() {
    for head in HEADS {
        let endless = EndlessServer::start(head).await;
        let sqs = aws_sdk_sqs::Client::new(&config(endless.url()));
        let error = sqs.receive_message().queue_url(endless.url()).send().await.unwrap_err();
        assert!(
            causes(&error).contains("the response is larger than 64 MiB, more than AWS ever returns"),
            "{error:?}"
        );
        assert!(endless.sent() >= RECEIVED_BYTES_MAX);
        endless.assert_read_at_most(RECEIVED_BYTES_MAX);
    }
}

/// A function has many clients, and most functions have little memory.
#[tokio::test]
async fn any_other_endless_response_is_cut_off_at_16_mib() {
    for head in HEADS {
        let endless = EndlessServer::start(head).await;
        let config = config(endless.url());
        let sqs = aws_sdk_sqs::Client::new(&config);
        let s3 = aws_sdk_s3::Client::new(&config);
        let errors = [
            causes(&sqs.send_message().queue_url(endless.url()).message_body("b").send().await.unwrap_err()),
            causes(&sqs.list_queues().send().await.unwrap_err()),
            causes(
                &aws_sdk_lambda::Client::new(&config).invoke().function_name("f").send().await.unwrap_err(),
            ),
            causes(&s3.list_objects_v2().bucket("b").send().await.unwrap_err()),
            match s3.get_object().bucket("b").key("k").send().await {
                Ok(object) => causes(&object.body.collect().await.unwrap_err()),
                Err(error) => causes(&error),
            },
            causes(&aws_sdk_sns::Client::new(&config).publish().message("m").send().await.unwrap_err()),
            causes(&aws_sdk_eventbridge::Client::new(&config).put_events().send().await.unwrap_err()),
            causes(
                &aws_sdk_secretsmanager::Client::new(&config)
                    .get_secret_value()
                    .secret_id("s")
                    .send()
                    .await
                    .unwrap_err(),
            ),
        ];
        for (number, error) in errors.iter().enumerate() {
            assert!(error.contains("the response is larger than 16 MiB"), "{number}: {error}");
        }
        endless.assert_read_at_most(errors.len() * (ANSWER_BYTES_MAX + (8 << 20)));
    }
}

/// Tests the largest possible response from SQS.
#[tokio::test]
async fn ten_1_mib_messages_are_received_even_if_fully_escaped() {
    let message = |id: usize| {
        let body = "\\u0009".repeat(1 << 20);
        format!(r#"{{"MessageId":"{id}","ReceiptHandle":"r","Body":"{body}"}}"#)
    };
    let messages: Vec<_> = (0..10).map(message).collect();
    let body = format!(r#"{{"Messages":[{}]}}"#, messages.join(","));
    assert!(body.len() > 60 << 20 && body.len() < RECEIVED_BYTES_MAX);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _read = stream.read(&mut [0; 4096]).await;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
    });
    let received = aws_sdk_sqs::Client::new(&sdk_config(&url)).receive_message().queue_url(&url).send().await;
    let received = received.unwrap();
    let lengths: Vec<_> = received.messages().iter().map(|message| message.body().unwrap().len()).collect();
    assert_eq!(lengths, [1 << 20; 10]);
}
