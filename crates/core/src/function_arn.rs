//! ARNs of Lambda functions.

use thiserror::Error;

/// Number of parts of an ARN without a qualifier.
const UNQUALIFIED_PARTS: usize = 7;

/// True for `arn:PARTITION:lambda:REGION:ACCOUNT:function:NAME`, with or without `:QUALIFIER`.
#[must_use]
pub fn is_function_arn(text: &str) -> bool {
    let parts: Vec<_> = text.split(':').collect();
    let ["arn", partition, "lambda", region, account, "function", name, qualifier @ ..] = parts.as_slice()
    else {
        return false;
    };
    partition.starts_with("aws")
        && !region.is_empty()
        && account.len() == 12
        && account.bytes().all(|byte| byte.is_ascii_digit())
        && !name.is_empty()
        && qualifier.len() <= 1
        && qualifier.iter().all(|qualifier| !qualifier.is_empty())
}

/// Formats the version that Lambda ran for this ARN, which may have an alias, as `NAME:VERSION`; `None` if it is not a
/// function ARN.
#[must_use]
pub fn format_version(arn: &str, executed_version: &str) -> Option<String> {
    let name = arn.split(':').nth(UNQUALIFIED_PARTS - 1).filter(|_| is_function_arn(arn))?;
    Some(format!("{name}:{executed_version}"))
}

/// Parses the name and number of a published version from `NAME:VERSION`, the format that [`format_version`] produces;
/// `None` for `$LATEST` and anything else.
#[must_use]
pub fn parse_version(text: &str) -> Option<(&str, u64)> {
    let (name, version) = text.split_once(':')?;
    let is_number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    Some((name, version.parse().ok().filter(|_| is_number && !name.is_empty())?))
}

/// The functions that may be invoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionArns(Vec<String>);

/// The error for an invalid list of functions: the position, counted from 1, of the first entry that is not a function
/// ARN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("entry {0} is not the ARN of a Lambda function (arn:aws:lambda:REGION:ACCOUNT:function:NAME)")]
pub struct NotAFunctionArn(pub usize);

impl FunctionArns {
    /// Parses a comma-separated list of ARNs; white space around each is ignored.
    ///
    /// # Errors
    /// An entry is not the ARN of a function.
    pub fn parse(text: &str) -> Result<Self, NotAFunctionArn> {
        let arns: Vec<_> = text.split(',').map(|arn| arn.trim().to_owned()).collect();
        match arns.iter().position(|arn| !is_function_arn(arn)) {
            Some(index) => Err(NotAFunctionArn(index + 1)),
            None => Ok(Self(arns)),
        }
    }

    /// True if the list allows this function. A listed ARN without a qualifier allows every version and alias of its
    /// function; one with a qualifier allows only that qualifier.
    #[must_use]
    pub fn allows_function(&self, arn: &str) -> bool {
        is_function_arn(arn)
            && self.0.iter().any(|listed| {
                let is_unqualified = listed.split(':').count() == UNQUALIFIED_PARTS;
                match arn.strip_prefix(listed.as_str()) {
                    Some("") => true,
                    Some(rest) => is_unqualified && rest.strip_prefix(':').is_some_and(is_qualifier),
                    None => false,
                }
            })
    }
}

/// True for `$LATEST`, a version or an alias ("Invoke", AWS Lambda API Reference).
fn is_qualifier(text: &str) -> bool {
    text == "$LATEST" || text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: &str = "arn:aws:lambda:eu-central-1:123456789012:function:orders";

    #[test]
    fn unqualified_arn_allows_every_version_and_alias_of_its_function() {
        let functions = FunctionArns::parse(ORDERS).unwrap();
        for qualifier in ["", ":$LATEST", ":7", ":live", ":a-b_c"] {
            assert!(functions.allows_function(&format!("{ORDERS}{qualifier}")), "{qualifier}");
        }
        for other in ["-2", ":", ":$latest", ":a/b", ":a:b", ":é", "\n", " "] {
            assert!(!functions.allows_function(&format!("{ORDERS}{other}")), "{other:?}");
        }
        assert!(!functions.allows_function(&ORDERS.replace("123456789012", "123456789013")));
        assert!(!functions.allows_function("orders"));
        assert!(!functions.allows_function(""));
    }

    #[test]
    fn a_version_is_formatted_with_its_function_name_and_without_the_alias() {
        for arn in [ORDERS, &format!("{ORDERS}:live")] {
            assert_eq!(format_version(arn, "7").as_deref(), Some("orders:7"));
        }
        assert_eq!(format_version("orders", "7"), None);
    }

    #[test]
    fn only_published_versions_are_parsed() {
        assert_eq!(parse_version("orders:41"), Some(("orders", 41)));
        for other in
            ["orders", "orders:", ":41", "orders:$LATEST", "orders:+4", "arn:aws:4", "message-processor"]
        {
            assert_eq!(parse_version(other), None, "{other}");
        }
    }

    #[test]
    fn a_qualified_arn_allows_only_its_own_qualifier() {
        let functions = FunctionArns::parse(&format!("{ORDERS}:live , {ORDERS}-2")).unwrap();
        assert!(functions.allows_function(&format!("{ORDERS}:live")));
        assert!(functions.allows_function(&format!("{ORDERS}-2:$LATEST")));
        for other in ["", ":$LATEST", ":live2", ":live:live"] {
            assert!(!functions.allows_function(&format!("{ORDERS}{other}")), "{other}");
        }
    }

    #[test]
    fn an_invalid_arn_in_a_list_is_reported_with_its_position() {
        for (text, place) in
            [("", 1), ("orders", 1), (&*format!("{ORDERS},"), 2), (&*format!("{ORDERS}:"), 1)]
        {
            assert_eq!(FunctionArns::parse(text), Err(NotAFunctionArn(place)), "{text}");
        }
    }
}
