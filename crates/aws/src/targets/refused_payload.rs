//! Lambda's permanent errors, which are caused by the payload.

/// The reason why Lambda will never accept a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedPayload {
    /// The payload exceeds Lambda's limit.
    TooLarge,
    /// Lambda cannot parse the payload as JSON.
    Invalid,
}

impl RefusedPayload {
    /// Classifies an error code ("Invoke", AWS Lambda API Reference). Returns `None` for all other errors, which may be
    /// temporary: throttles, service errors, and errors that an operator must fix (permissions, keys, a missing or
    /// inactive function, its runtime, network and file systems). Until they are fixed, they must not dead-letter all
    /// traffic. They include `UnsupportedMediaTypeException`, since every message has the same content type.
    pub(super) fn from_code(code: &str) -> Option<Self> {
        match code {
            "RequestTooLargeException" | "SerializedRequestEntityTooLargeException" => Some(Self::TooLarge),
            "InvalidRequestContentException" => Some(Self::Invalid),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All other errors from "Invoke", which can resolve themselves or be fixed by an operator.
    const TEMPORARY: [&str; 42] = [
        "AccessDeniedException",
        "CodeArtifactUserDeletedException",
        "CodeArtifactUserFailedException",
        "CodeArtifactUserPendingException",
        "DurableExecutionAlreadyStartedException",
        "EC2AccessDeniedException",
        "EC2ThrottledException",
        "EC2UnexpectedException",
        "EFSIOException",
        "EFSMountConnectivityException",
        "EFSMountFailureException",
        "EFSMountTimeoutException",
        "ENILimitReachedException",
        "ENINotReadyException",
        "InvalidParameterValueException",
        "InvalidRuntimeException",
        "InvalidSecurityGroupIDException",
        "InvalidSubnetIDException",
        "InvalidZipFileException",
        "KMSAccessDeniedException",
        "KMSDisabledException",
        "KMSInvalidStateException",
        "KMSNotFoundException",
        "ModeNotSupportedException",
        "NoPublishedVersionException",
        "RecursiveInvocationException",
        "ResourceConflictException",
        "ResourceNotFoundException",
        "ResourceNotReadyException",
        "S3FilesMountConnectivityException",
        "S3FilesMountFailureException",
        "S3FilesMountTimeoutException",
        "ServiceException",
        "ServiceQuotaExceededException",
        "SnapStartException",
        "SnapStartNotReadyException",
        "SnapStartRegenerationFailureException",
        "SnapStartTimeoutException",
        "SubnetIPAddressLimitReachedException",
        "TooManyRequestsException",
        "UnrecognizedClientException",
        "UnsupportedMediaTypeException",
    ];

    #[test]
    fn only_errors_caused_by_the_payload_are_permanent() {
        let refused: Vec<_> = [
            "InvalidRequestContentException",
            "RequestTooLargeException",
            "SerializedRequestEntityTooLargeException",
        ]
        .map(RefusedPayload::from_code)
        .into();
        let (too_large, invalid) = (Some(RefusedPayload::TooLarge), Some(RefusedPayload::Invalid));
        assert_eq!(refused, [invalid, too_large, too_large]);
        for code in TEMPORARY {
            assert_eq!(RefusedPayload::from_code(code), None, "{code}");
        }
    }
}
