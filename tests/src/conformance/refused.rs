//! What SQS refuses in a message: "Amazon SQS message metadata" in the Amazon SQS Developer Guide, and "SendMessage" in the Amazon
//! SQS API Reference. What these leave open (an exponent, an umlaut in a name) is in no rule.

use redeliver_core::message::{Attribute, Attributes, Content};
use redeliver_core::ports::{Clock, QueueService};

use super::bench::{Bench, Broken, bytes, plain, text};

pub(super) async fn a_wrong_attribute_name_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &Bench<'_, S, C>,
) -> Result<(), Broken> {
    let long = "x".repeat(257);
    let names = ["a b", "a/b", "a:b", ".a", "a.", "a..b", "AWS.a", "aws.a", "Amazon.a", "aMaZoN.a", &long];
    bench.must_refuse(names.map(|name| with(name, Attribute::string("x"))).into()).await
}

pub(super) async fn a_wrong_data_type_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &Bench<'_, S, C>,
) -> Result<(), Broken> {
    let long = format!("String.{}", "x".repeat(250));
    let types = ["Foo", "string", "number.int", "Text.String", ".String", &long];
    bench.must_refuse(types.map(|data_type| with("a", text(data_type, "x"))).into()).await
}

pub(super) async fn a_wrong_number_attribute_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &Bench<'_, S, C>,
) -> Result<(), Broken> {
    let numbers =
        [text("Number", "ten"), text("Number.int", "1 2"), text("Number", "-"), text("Number", "1,5x")];
    bench.must_refuse(numbers.map(|number| with("a", number)).into()).await
}

pub(super) async fn a_value_of_another_kind_than_its_type_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &Bench<'_, S, C>,
) -> Result<(), Broken> {
    let wrong = [
        text("Binary", "text"),
        text("Binary.png", "text"),
        bytes("String", b"bytes"),
        bytes("Number", b"7"),
    ];
    bench.must_refuse(wrong.map(|attribute| with("a", attribute)).into()).await
}

pub(super) async fn an_empty_attribute_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &Bench<'_, S, C>,
) -> Result<(), Broken> {
    let empty = [text("String", ""), text("Number", ""), bytes("Binary", b"")];
    bench.must_refuse(empty.map(|attribute| with("a", attribute)).into()).await
}

pub(super) async fn an_eleventh_attribute_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &Bench<'_, S, C>,
) -> Result<(), Broken> {
    let attributes: Attributes = (0..11).map(|n| (format!("a{n}"), Attribute::string("x"))).collect();
    bench.must_refuse(vec![("eleven".to_owned(), Content { attributes, ..plain("wrong") })]).await
}

pub(super) async fn a_wrong_message_group_id_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &Bench<'_, S, C>,
) -> Result<(), Broken> {
    let long = "g".repeat(129);
    let of = |id: &str| (id.to_owned(), Content { message_group_id: Some(id.to_owned()), ..plain("wrong") });
    bench.must_refuse(["tenant 1", "a\tb", &long].map(of).into()).await
}

/// A message with this attribute alone, and what to call it.
fn with(name: &str, attribute: Attribute) -> (String, Content) {
    let told = format!("{name:?} {attribute:?}");
    (told, Content { attributes: [(name.to_owned(), attribute)].into(), ..plain("wrong") })
}
