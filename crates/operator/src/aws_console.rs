//! AWS console URLs.

/// Returns the region of an ARN, or `None` if it is not a valid region name.
pub(crate) fn region_of_arn(arn: &str) -> Option<&str> {
    let region = arn.strip_prefix("arn:")?.split(':').nth(2)?;
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_region =
        region.starts_with(|first: char| first.is_ascii_lowercase()) && region.bytes().all(is_allowed);
    is_region.then_some(region)
}

/// Returns the URL of the CloudWatch console for the partition and region of an ARN, up to the `#`, or `None` if either
/// is unknown.
pub(crate) fn cloudwatch_url(arn: &str) -> Option<String> {
    let host = match arn.split(':').nth(1)? {
        "aws" => "console.aws.amazon.com",
        "aws-cn" => "console.amazonaws.cn",
        "aws-us-gov" => "console.amazonaws-us-gov.com",
        _ => return None,
    };
    Some(format!("https://{host}/cloudwatch/home?region={}#", region_of_arn(arn)?))
}
