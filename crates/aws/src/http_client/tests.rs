use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::tests::loopback::sdk_config;

/// A server with endless responses, and the number of bytes it has sent.
async fn endless(head: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _read = stream.read(&mut request).await;
                stream.write_all(head.as_bytes()).await.unwrap();
                let chunk = [b' '; 65_536];
                while stream.write_all(&chunk).await.is_ok() {
                    counted.fetch_add(chunk.len(), Ordering::Relaxed);
                }
            });
        }
    });
    (url, sent)
}

fn causes(error: &(dyn Error + 'static)) -> String {
    let cause = error.source().map(|cause| format!(": {}", causes(cause)));
    format!("{error}{}", cause.unwrap_or_default())
}

#[tokio::test]
async fn an_answer_that_does_not_end_is_not_collected_for_ever() {
    for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let (url, sent) = endless(head).await;
        let config =
            sdk_config(&url).into_builder().retry_config(aws_config::retry::RetryConfig::disabled()).build();
        let error = aws_sdk_sqs::Client::new(&config).list_queues().send().await.unwrap_err();
        assert!(
            causes(&error).contains("the response is larger than 64 MiB, more than AWS ever returns"),
            "{error:?}"
        );
        // The sockets' buffers hold some more.
        let sent = sent.load(Ordering::Relaxed);
        assert!((ANSWER_MAX..ANSWER_MAX + (16 << 20)).contains(&sent), "{sent} bytes were taken");
    }
}

/// The largest response of SQS.
#[tokio::test]
async fn ten_messages_of_1_mib_are_received_however_they_are_written() {
    let message = |id: usize| {
        let body = "\\u0009".repeat(1 << 20);
        format!(r#"{{"MessageId":"{id}","ReceiptHandle":"r","Body":"{body}"}}"#)
    };
    let messages: Vec<_> = (0..10).map(message).collect();
    let body = format!(r#"{{"Messages":[{}]}}"#, messages.join(","));
    assert!(body.len() > 60 << 20 && body.len() < ANSWER_MAX);
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
    let lengths: Vec<_> = received.unwrap().messages().iter().map(|one| one.body().unwrap().len()).collect();
    assert_eq!(lengths, [1 << 20; 10]);
}
