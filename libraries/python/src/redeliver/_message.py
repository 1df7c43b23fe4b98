"""What a handler gets."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from ._accept import Accepted
from ._attributes import Attribute
from ._errors import PermanentError
from ._json import loads

Data = TypeVar("Data")


class Message(Generic[Data]):
    """A message on its way to a handler. It may come more than once: see :attr:`idempotency_key`."""

    body: str
    """The body as it was received."""
    message_id: str
    """``metadata.message_id`` as the producer wrote it; of a plain message the UUID that its id is, or becomes."""
    idempotency_key: str
    """The same for all copies: the producer's own id, or :attr:`message_id` if that is all there is."""
    retry_attempt: int
    """Retries made so far: 0 at the first delivery. Copies of a message may differ in it."""
    redrive_generation: int
    """How often it was sent back from the final DLQ."""
    attributes: dict[str, Attribute]
    """The producer's message attributes."""
    record: Mapping[str, Any]
    """The record of the event, as Lambda gave it."""
    context: Any
    """Lambda's context of the invocation."""

    def __init__(self, accepted: Accepted, context: Any, remaining: Callable[[], float]) -> None:
        self.body = accepted.received.body
        self.message_id = accepted.metadata.message_id
        self.idempotency_key = accepted.parsed.idempotency_key
        self.retry_attempt = accepted.metadata.retry_attempt
        self.redrive_generation = accepted.metadata.redrive_generation
        # A copy: what a handler changes must not change what is handed off.
        self.attributes = dict(accepted.parsed.attributes)
        self.record = accepted.received.record
        self.context = context
        self._text = accepted.parsed.data
        self._remaining = remaining

    @property
    def data(self) -> Data:
        """``data`` of the envelope; of a plain message its body, read as JSON. It is read once.

        :raises PermanentError: of the type ``InvalidData``, if the body is not JSON.
        """
        if not hasattr(self, "_data"):
            try:
                self._data: Data = loads(self._text)
            except ValueError:
                # Not the parser's own words: they quote the text.
                raise PermanentError("the body is not JSON", type="InvalidData") from None
            except RecursionError:
                raise PermanentError("the body is JSON that is nested too deep", type="InvalidData") from None
        return self._data

    def remaining_time_in_millis(self) -> int:
        """Milliseconds until the call is cut off, 5 s before the invocation's end."""
        return int(self._remaining())
