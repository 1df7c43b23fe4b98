"""SQS through boto3: one request a call, one outcome an entry. Retrying is delivery's business."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ._sending import EntryError, EntryOutcome, Outgoing
from ._threads import in_thread

_CONNECT_SECONDS = 3
_ANSWER_SECONDS = 900
"""The longest invocation: delivery ends at its own deadline, and a late answer is better than none."""
_CONNECTIONS = 16
"""Eight requests at the same time, and one more of each."""

# Codes that ask for patience, whatever status they come with; some come with the service's name before them.
_THROTTLES = frozenset(
    {
        "KmsThrottled",
        "OverLimit",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_NOT_SENT = ("ConnectTimeoutError", "EndpointConnectionError", "ProxyConnectionError")
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError")
_REFUSED = ("ParamValidationError", "NoRegionError")


class SqsClient(Protocol):
    """As much of boto3's client as is used: another one, or a test's."""

    def send_message_batch(self, **request: Any) -> Any: ...


def new_client() -> SqsClient:
    """Asks once: what can be tried again is tried again by us."""
    import boto3
    from botocore.config import Config

    client: SqsClient = boto3.client(
        "sqs",
        config=Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=_CONNECTIONS,
        ),
    )
    return client


class SqsQueue:
    """A queue by its URL."""

    def __init__(self, client: SqsClient, url: str) -> None:
        self._client = client
        self._url = url

    async def send(self, entries: Sequence[Outgoing]) -> Sequence[EntryOutcome]:
        try:
            return await in_thread(lambda: self._send(entries))
        except RuntimeError:
            return [EntryError("not sent", "NoThread")] * len(entries)

    def _send(self, entries: Sequence[Outgoing]) -> Sequence[EntryOutcome]:
        try:
            request = [_entry(index, outgoing) for index, outgoing in enumerate(entries)]
            return _outcomes(len(entries), self._client.send_message_batch(QueueUrl=self._url, Entries=request))
        except BaseException as error:
            return [_failed_request(error)] * len(entries)


def _entry(index: int, outgoing: Outgoing) -> dict[str, Any]:
    attributes = {
        name: {"DataType": data_type, "StringValue" if isinstance(value, str) else "BinaryValue": value}
        for name, (data_type, value) in outgoing.attributes.items()
    }
    entry: dict[str, Any] = {"Id": str(index), "MessageBody": outgoing.body, "DelaySeconds": 0}
    entry["MessageAttributes"] = attributes
    if outgoing.message_group_id is not None:
        entry["MessageGroupId"] = outgoing.message_group_id
    if outgoing.trace_header is not None:
        trace = {"DataType": "String", "StringValue": outgoing.trace_header}
        entry["MessageSystemAttributes"] = {"AWSTraceHeader": trace}
    return entry


def _outcomes(count: int, answer: Mapping[str, Any]) -> list[EntryOutcome]:
    """By the entry's id. One that the answer does not name is not confirmed, nor is one that it calls both."""
    successful = {entry.get("Id") for entry in answer.get("Successful") or []}
    failed = {entry.get("Id"): entry for entry in answer.get("Failed") or []}
    return [_outcome(str(index), successful, failed) for index in range(count)]


def _outcome(entry_id: str, successful: set[Any], failed: Mapping[Any, Mapping[str, Any]]) -> EntryOutcome:
    if entry_id in failed:
        code = str(failed[entry_id].get("Code") or "Unknown")
        if _is_throttle(code):
            return EntryError("throttled", code)
        return EntryError("refused" if failed[entry_id].get("SenderFault") else "service", code)
    return None if entry_id in successful else EntryError("no answer", "EntryNotAnswered")


def _failed_request(error: BaseException) -> EntryError:
    """Errors that stay until somebody changes something (no such queue, access denied, no credentials) are final.

    Nothing is lost by that, since the records go back to their queue. By the names of the classes: another client than
    boto3's may have them, too, and they need no import.
    """
    names = {of.__name__ for of in type(error).__mro__}
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = str(response.get("Error", {}).get("Code") or f"HTTP {status}")
        return _by_status(status if isinstance(status, int) else 0, code)
    if not names.isdisjoint(_NOT_SENT):
        return EntryError("not sent", "Connect")
    if not names.isdisjoint(_NO_CREDENTIALS):
        return EntryError("refused", "NoCredentials")
    if not names.isdisjoint(_REFUSED):
        return EntryError("refused", type(error).__name__)
    return EntryError("no answer", "Timeout" if "ReadTimeoutError" in names else "Connection")


def _by_status(status: int, code: str) -> EntryError:
    # 503 is the one 5xx that says that nothing was begun (RFC 9110).
    if _is_throttle(code) or status in (429, 503):
        return EntryError("throttled", code)
    if status >= 500:
        return EntryError("service", code)
    # A request that took too long to arrive: the next may not.
    if status == 408:
        return EntryError("not sent", code)
    return EntryError("refused", code) if status >= 400 else EntryError("no answer", "UnreadableAnswer")


def _is_throttle(code: str) -> bool:
    return code.replace("#", ".").split(".")[-1] in _THROTTLES
