//! Rules about content: a message is received exactly as it was sent.

use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::{Attribute, Attributes, Content};
use redeliver_core::ports::{Clock, Queue, QueueService};

use super::bench::{
    BrokenRule, ConformanceBench, EARLY_TOLERANCE, LATE_TOLERANCE, binary_attribute, ensure, ensure_eq,
    plain_content, text_attribute,
};

pub(super) async fn a_body_of_exactly_one_mebibyte_is_kept<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let body = "äöü\u{10348}".repeat(MESSAGE_BYTES_MAX / 10) + "123456";
    ensure_eq!(body.len(), MESSAGE_BYTES_MAX, "bytes of the test's own body");
    bench.send_all(&queue, vec![plain_content(body.clone())]).await?;
    let received = bench.receive_one(&queue).await?.body;
    ensure!(received == body, "{} bytes, and not those sent", received.len());
    Ok(())
}

pub(super) async fn a_body_is_kept_byte_for_byte<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let body = " \t{\"é\":\"\\u00e9\\n\", \"big\": 1e400,\r\n \"x\":\"<&>'\u{85}\u{2028}\u{FFFD}\u{1F600}\u{10FFFF}\"} \n";
    bench.send_all(&queue, vec![plain_content(body)]).await?;
    ensure_eq!(bench.receive_one(&queue).await?.body, body, "the body");
    Ok(())
}

pub(super) async fn attributes_of_all_types_are_kept<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let attributes = [
        ("text", text_attribute("String", "täxt with \"quotes\", \\ and \u{1F600}")),
        ("json", text_attribute("String.application-json", "{\"a\": 1}")),
        ("count", text_attribute("Number", "-12345678901234567890.5")),
        ("int", text_attribute("Number.int", "7")),
        ("bytes", binary_attribute("Binary", &[0, 255, 10, 13, 128])),
        ("image.small_1-a", binary_attribute("Binary.png", &[137, 80, 78, 71])),
    ];
    let attributes: Attributes = attributes.map(|(name, attribute)| (name.to_owned(), attribute)).into();
    bench
        .send_all(&queue, vec![Content { attributes: attributes.clone(), ..plain_content("typed") }])
        .await?;
    ensure_eq!(bench.receive_one(&queue).await?.attributes, attributes, "attributes");
    Ok(())
}

pub(super) async fn ten_attributes_are_accepted<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let attributes: Attributes =
        (0..10).map(|number| (format!("a{number}"), Attribute::string(number.to_string()))).collect();
    bench.send_all(&queue, vec![Content { attributes: attributes.clone(), ..plain_content("ten") }]).await?;
    ensure_eq!(bench.receive_one(&queue).await?.attributes, attributes, "attributes");
    Ok(())
}

/// The numbers have no leading or trailing zeros, because "Amazon SQS trims leading and trailing zeroes".
pub(super) async fn attributes_at_the_documented_limits_are_kept<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let (long_name, long_type) = ("n".repeat(255), format!("String.{}", "t".repeat(248)));
    let attributes = [
        (&*long_name, Attribute::string("a long name")),
        ("a", text_attribute(&long_type, "a long type")),
        ("A", text_attribute("String.application/json; charset=utf-8", "another name than a")),
        ("AWSx", text_attribute("String", "no prefix of AWS")),
        ("x.aws.y", text_attribute("Number.java.lang.Integer", "-7")),
        ("digits", text_attribute("Number", &"123456789".repeat(5)[..38])),
        ("fraction", text_attribute("Number", "-1234567890123456789.0123456789012345678")),
    ];
    let attributes: Attributes = attributes.map(|(name, attribute)| (name.to_owned(), attribute)).into();
    bench
        .send_all(&queue, vec![Content { attributes: attributes.clone(), ..plain_content("limits") }])
        .await?;
    ensure_eq!(bench.receive_one(&queue).await?.attributes, attributes, "attributes");
    Ok(())
}

pub(super) async fn the_trace_header_is_kept<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
    let traced = Content { trace_header: Some(trace.to_owned()), ..plain_content("a traced") };
    bench.send_all(&queue, vec![traced, plain_content("b untraced")]).await?;
    let received = bench.receive_at_least(&queue, 2).await?;
    let headers: Vec<_> = received.iter().map(|message| message.trace_header.as_deref()).collect();
    ensure_eq!(headers, [Some(trace), None], "AWSTraceHeader");
    // Redeliver's own field, in a header of 256 bytes, with a body of the maximum size.
    let field = format!("{trace};Redeliver={}", "e30".repeat(57));
    ensure_eq!(field.len(), 256, "bytes of the test's own header");
    let full = Content { trace_header: Some(field.clone()), ..plain_content("x".repeat(MESSAGE_BYTES_MAX)) };
    bench.send_all(&queue, vec![full]).await?;
    ensure_eq!(
        bench.receive_one(&queue).await?.trace_header,
        Some(field),
        "AWSTraceHeader of a full message"
    );
    Ok(())
}

pub(super) async fn the_message_group_id_is_kept<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let grouped = Content { message_group_id: Some("tenant-1".to_owned()), ..plain_content("a grouped") };
    bench.send_all(&queue, vec![grouped, plain_content("b alone")]).await?;
    let received = bench.receive_at_least(&queue, 2).await?;
    let groups: Vec<_> = received.iter().map(|message| message.message_group_id.as_deref()).collect();
    ensure_eq!(groups, [Some("tenant-1"), None], "MessageGroupId");
    Ok(())
}

pub(super) async fn system_attributes_report_the_first_receive<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_queue(30).await?;
    let before = bench.now();
    let ids = bench.send_all(&queue, vec![plain_content("new")]).await?;
    let message = bench.receive_one(&queue).await?;
    ensure_eq!(message.sqs_message_id, ids[0], "the message id");
    ensure_eq!(message.receive_count, 1, "ApproximateReceiveCount");
    ensure_eq!(message.redriven_from, None, "DeadLetterQueueSourceArn");
    ensure_eq!(message.queue_arn, queue.arn(), "the queue's ARN");
    ensure!(!message.receipt_handle.is_empty(), "no receipt handle");
    let sent_after = message.sent_at - before;
    let is_near = |seconds: chrono::TimeDelta| {
        seconds.abs().to_std().is_ok_and(|near| near <= EARLY_TOLERANCE + LATE_TOLERANCE)
    };
    ensure!(is_near(sent_after), "SentTimestamp is off by {sent_after}");
    let first = message.first_received_at.ok_or_else(|| BrokenRule::new("no first receive"))?;
    ensure!(first >= message.sent_at, "first received before it was sent");
    ensure!(is_near(first - message.sent_at), "first received long after it was sent");
    Ok(())
}
