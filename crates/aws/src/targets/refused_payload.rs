//! Which of Lambda's errors are of the payload, and so stay.

/// Why Lambda will never take a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedPayload {
    /// It has more bytes than Lambda takes.
    TooLarge,
    /// Lambda does not take it for JSON.
    Invalid,
}

impl RefusedPayload {
    /// By the error's code ("Invoke", AWS Lambda API Reference). All other errors may pass: throttles, the service's
    /// own, and what somebody has to mend, which must not dead-letter all traffic meanwhile: rights, keys, a function
    /// that is not there or not ready, its runtime, network and file systems. So may `UnsupportedMediaTypeException`:
    /// the content type is the same for every message.
    pub(super) fn of(code: &str) -> Option<Self> {
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

    /// All others that "Invoke" names, and what becomes of them when the operator has mended something or time has
    /// passed.
    const MAY_PASS: [&str; 42] = [
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
    fn only_an_error_of_the_payload_itself_stays() {
        let refused: Vec<_> = [
            "InvalidRequestContentException",
            "RequestTooLargeException",
            "SerializedRequestEntityTooLargeException",
        ]
        .map(RefusedPayload::of)
        .into();
        let (too_large, invalid) = (Some(RefusedPayload::TooLarge), Some(RefusedPayload::Invalid));
        assert_eq!(refused, [invalid, too_large, too_large]);
        for code in MAY_PASS {
            assert_eq!(RefusedPayload::of(code), None, "{code}");
        }
    }
}
