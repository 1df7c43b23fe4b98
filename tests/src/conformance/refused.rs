//! Invalid messages: "Amazon SQS message metadata" in the Amazon SQS Developer Guide, and "SendMessage" in the Amazon
//! SQS API Reference. Cases that these pages leave open (an exponent, an umlaut in a name) are not covered by any rule.

use redeliver_core::message::{Attribute, Attributes, Content};
use redeliver_core::ports::{Clock, QueueService};

use super::bench::{BrokenRule, ConformanceBench, binary_attribute, plain_content, text_attribute};

pub(super) async fn a_wrong_attribute_name_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let long = "x".repeat(257);
    let names = ["a b", "a/b", "a:b", ".a", "a.", "a..b", "AWS.a", "aws.a", "Amazon.a", "aMaZoN.a", &long];
    bench.expect_refusal(names.map(|name| content_with_attribute(name, Attribute::string("x"))).into()).await
}

pub(super) async fn a_wrong_data_type_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let long = format!("String.{}", "x".repeat(250));
    let types = ["Foo", "string", "number.int", "Text.String", ".String", &long];
    bench
        .expect_refusal(
            types.map(|data_type| content_with_attribute("a", text_attribute(data_type, "x"))).into(),
        )
        .await
}

pub(super) async fn a_wrong_number_attribute_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let numbers = [
        text_attribute("Number", "ten"),
        text_attribute("Number.int", "1 2"),
        text_attribute("Number", "-"),
        text_attribute("Number", "1,5x"),
    ];
    bench.expect_refusal(numbers.map(|number| content_with_attribute("a", number)).into()).await
}

pub(super) async fn a_value_that_does_not_match_its_data_type_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let wrong = [
        text_attribute("Binary", "text"),
        text_attribute("Binary.png", "text"),
        binary_attribute("String", b"bytes"),
        binary_attribute("Number", b"7"),
    ];
    bench.expect_refusal(wrong.map(|attribute| content_with_attribute("a", attribute)).into()).await
}

pub(super) async fn an_empty_attribute_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let empty = [text_attribute("String", ""), text_attribute("Number", ""), binary_attribute("Binary", b"")];
    bench.expect_refusal(empty.map(|attribute| content_with_attribute("a", attribute)).into()).await
}

pub(super) async fn an_eleventh_attribute_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let attributes: Attributes = (0..11).map(|n| (format!("a{n}"), Attribute::string("x"))).collect();
    bench.expect_refusal(vec![("eleven".to_owned(), Content { attributes, ..plain_content("wrong") })]).await
}

pub(super) async fn a_wrong_message_group_id_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let long = "g".repeat(129);
    let with_group = |id: &str| {
        (id.to_owned(), Content { message_group_id: Some(id.to_owned()), ..plain_content("wrong") })
    };
    bench.expect_refusal(["tenant 1", "a\tb", &long].map(with_group).into()).await
}

/// Creates a message with only this attribute, and a description of it.
fn content_with_attribute(name: &str, attribute: Attribute) -> (String, Content) {
    let reported = format!("{name:?} {attribute:?}");
    (reported, Content { attributes: [(name.to_owned(), attribute)].into(), ..plain_content("wrong") })
}
