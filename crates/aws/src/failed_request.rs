//! Classifies failed requests to AWS services by fault and code.

use std::error::Error;

use aws_config::imds::client::error::ImdsError;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::result::ConnectorError;
use hyper_util::client::legacy::Error as HttpError;
use redeliver_core::ports::{EntryError, Fault};

/// The error code for a request that could not be sent because the connection failed.
pub const NO_CONNECTION: &str = "Connect";

/// Maps the error for an entire request to its fault and code.
///
/// Errors that an operator must fix (no such queue, access denied, a disabled key, no credentials) are
/// [`Fault::Sender`]: a retry during the invocation would only waste time. No message is lost: the entries are
/// unconfirmed, so their records return to their queue.
pub(crate) fn entry_error<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> EntryError {
    match error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            classify_status(status, answer.err().code())
        }
        // The response cannot be parsed, so the request may have succeeded.
        SdkError::ResponseError(_) => EntryError::new(Fault::NoAnswer, "UnreadableAnswer"),
        SdkError::TimeoutError(_) => EntryError::new(Fault::NoAnswer, "Timeout"),
        SdkError::DispatchFailure(failure) => match failure.as_connector_error() {
            Some(error) => connector_error(error),
            None => EntryError::new(Fault::NoAnswer, "Connection"),
        },
        _ => EntryError::new(Fault::Sender, "RequestNotBuilt"),
    }
}

/// Maps a connection error to its fault and code.
pub(crate) fn connector_error(error: &ConnectorError) -> EntryError {
    if find_cause::<CredentialsError>(error).is_some() {
        no_credentials()
    } else if find_cause::<HttpError>(error).is_some_and(HttpError::is_connect) {
        // Without a connection, no part of the request was sent.
        EntryError::new(Fault::NotSent, NO_CONNECTION)
    } else if error.is_timeout() {
        EntryError::new(Fault::NoAnswer, "Timeout")
    } else {
        EntryError::new(Fault::NoAnswer, "Connection")
    }
}

pub(crate) fn no_credentials() -> EntryError {
    EntryError::new(Fault::Sender, "NoCredentials")
}

/// The reason why a request did not reach a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReachedReason {
    /// No credentials are configured.
    NoCredentials,
    /// The credentials cannot be loaded; contains the reason.
    UnusableCredentials(String),
    /// The connection failed; contains the reason.
    NoConnection(String),
}

/// Returns the reason why a request did not reach a service, or `None` if it may have reached one.
#[must_use]
pub fn not_reached_reason(error: &(dyn Error + 'static)) -> Option<NotReachedReason> {
    if let Some(error) = find_cause::<CredentialsError>(error) {
        // Instance metadata is the last provider in the chain, so its failure means that no credentials are configured.
        let is_absent = matches!(error, CredentialsError::CredentialsNotLoaded(_));
        return Some(if is_absent || find_cause::<ImdsError>(error).is_some() {
            NotReachedReason::NoCredentials
        } else {
            NotReachedReason::UnusableCredentials(root_cause(error).trim_end_matches([' ', '.']).to_owned())
        });
    }
    let refused = find_cause::<HttpError>(error).filter(|error| error.is_connect())?;
    Some(NotReachedReason::NoConnection(root_cause(refused)))
}

fn root_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

/// Maps the error for one entry in a batch response to its fault and code ("BatchResultErrorEntry", Amazon SQS API
/// Reference).
pub(crate) fn batch_entry_error(sender_fault: bool, code: &str) -> EntryError {
    let fault = if is_throttle(code) {
        Fault::Throttled
    } else if sender_fault {
        Fault::Sender
    } else {
        Fault::Service
    };
    EntryError::new(fault, code)
}

/// Maps an error response with this status and code to its fault.
pub(crate) fn classify_status(status: u16, code: Option<&str>) -> EntryError {
    let code = code.map_or_else(|| format!("HTTP {status}"), str::to_owned);
    let fault = match status {
        _ if is_throttle(&code) => Fault::Throttled,
        429 => Fault::Throttled,
        // The request took too long to arrive; a retry might be faster.
        408 => Fault::NotSent,
        400..=499 => Fault::Sender,
        // "Currently unable to handle the request" (RFC 9110): the only 5xx that implies that no work was started.
        503 => Fault::Throttled,
        500.. => Fault::Service,
        // If the SDK cannot parse a successful response, it reports an "unhandled error": the request may have
        // succeeded.
        _ => return EntryError::new(Fault::NoAnswer, "UnreadableAnswer"),
    };
    EntryError { fault, code }
}

/// True for codes that mean "retry later", regardless of the status. Some have the service's name as a prefix, as in
/// `AWS.SimpleQueueService.OverLimit` or `KMS.ThrottlingException`. `OverLimit` means that 120,000 messages are in
/// flight.
pub(crate) fn is_throttle(code: &str) -> bool {
    const THROTTLES: [&str; 9] = [
        "KmsThrottled",
        "OverLimit",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    ];
    let name = code.rsplit(['.', '#']).next().unwrap_or(code);
    THROTTLES.contains(&name)
}

fn find_cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    error.downcast_ref().or_else(|| find_cause(error.source()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttled_entry_is_retryable_even_if_sqs_reports_a_sender_fault() {
        for code in [
            "RequestThrottled",
            "ThrottlingException",
            "KMS.ThrottlingException",
            "AWS.SimpleQueueService.OverLimit",
        ] {
            assert_eq!(batch_entry_error(true, code).fault, Fault::Throttled, "{code}");
        }
        assert_eq!(batch_entry_error(true, "InvalidMessageContents").fault, Fault::Sender);
        assert_eq!(batch_entry_error(false, "InternalError").fault, Fault::Service);
    }

    #[test]
    fn a_failed_request_is_classified_by_its_status_and_code() {
        let fault = |status, code| classify_status(status, code).fault;
        assert_eq!(fault(400, Some("AWS.SimpleQueueService.NonExistentQueue")), Fault::Sender);
        assert_eq!(fault(403, Some("AccessDeniedException")), Fault::Sender);
        assert_eq!(fault(400, Some("KMS.DisabledException")), Fault::Sender);
        assert_eq!(fault(400, Some("com.amazonaws.sqs#RequestThrottled")), Fault::Throttled);
        assert_eq!(fault(429, None), Fault::Throttled);
        assert_eq!(fault(408, None), Fault::NotSent);
        assert_eq!(fault(500, Some("InternalFailure")), Fault::Service);
        assert_eq!(fault(502, None), Fault::Service);
        assert_eq!(fault(503, None), Fault::Throttled);
        assert_eq!(fault(504, None), Fault::Service);
        assert_eq!(classify_status(503, None).code, "HTTP 503");
        assert_eq!(fault(200, None), Fault::NoAnswer);
    }
}
