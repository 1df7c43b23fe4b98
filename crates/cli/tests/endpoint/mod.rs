//! A local endpoint that implements just enough of AWS to plan a send.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

const QUEUE: &str = r#"{"Attributes":{"QueueArn":"arn:aws:sqs:eu-central-1:123456789012:orders"}}"#;
const SENT: &str = r#"{"Successful":[{"Id":"0","MessageId":"m","MD5OfMessageBody":"x"}],"Failed":[]}"#;
const CALLER: &str = "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account>\
    <Arn>arn:aws:iam::123456789012:user/ana</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>";

/// Starts an endpoint with one queue and, if `has_sts`, one caller identity. The receiver gets each request's
/// `Authorization` header.
pub(crate) fn start_endpoint(has_sts: bool) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let (sender, authorizations) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.expect("a connection");
            let (authorization, action) = read_request(&stream);
            let _ignored = sender.send(authorization);
            let (status, body) = match (action.as_str(), has_sts) {
                ("GetQueueAttributes", _) => ("200 OK", QUEUE),
                ("SendMessageBatch", _) => ("200 OK", SENT),
                (_, true) => ("200 OK", CALLER),
                (_, false) => ("404 Not Found", "no such service"),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ignored = write!(&stream, "{head}{body}");
        }
    });
    (url, authorizations)
}

/// Returns the `Authorization` header and the action. The action is empty for STS.
fn read_request(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut authorization, mut action, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a head");
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            match line.trim_end() {
                "" => break,
                _ => continue,
            }
        };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.clone_into(&mut authorization),
            "x-amz-target" => value.trim_start_matches("AmazonSQS.").clone_into(&mut action),
            "content-length" => length = value.parse().expect("a number"),
            _ => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).expect("a body");
    (authorization, action)
}
