//! Short names of resources.

/// Returns the resource part of an ARN, `arn:PARTITION:SERVICE:REGION:ACCOUNT:RESOURCE`, and any other text unchanged.
pub(super) fn resource_name(arn: &str) -> &str {
    let mut parts = arn.splitn(6, ':');
    let resource = match (parts.next(), parts.nth(4)) {
        (Some("arn"), Some(resource)) => resource,
        _ => return arn,
    };
    let resource = resource.strip_prefix("function:").unwrap_or(resource);
    resource.strip_suffix(":$LATEST").unwrap_or(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_name_has_no_account() {
        for (arn, expected) in [
            ("arn:aws:lambda:us-east-2:123456789012:function:orders:$LATEST", "orders"),
            ("arn:aws:lambda:us-east-2:123456789012:function:orders:live", "orders:live"),
            ("arn:aws:events:us-east-2:123456789012:rule/bus/orders", "rule/bus/orders"),
            ("arn:aws-cn:sqs:cn-north-1:123456789012:orders", "orders"),
            ("arn:aws:sqs", "arn:aws:sqs"),
            ("orders", "orders"),
            ("", ""),
        ] {
            assert_eq!(resource_name(arn), expected, "{arn}");
        }
    }
}
