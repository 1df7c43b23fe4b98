"""The settings: environment variables, all checked before the first message."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ._plain import IdSources, pointer_of, why_no_id_attribute
from ._policy import Policy
from ._read_policy import read_policy


class Logging(NamedTuple):
    detail: str = "batches"
    """``messages``: also a line for each message."""
    level: str = "INFO"
    """``WARN``: only what somebody must act on, and the batches' lines, which hold the metrics."""


class Settings(NamedTuple):
    intermediate_dlq_url: str
    policy: Policy
    max_concurrency: int
    id_sources: IdSources | None
    """With ``ENVELOPE=optional``."""
    logging: Logging
    function_name: str
    """The function's name in Lambda: the metrics' dimension."""


_CONCURRENCY_MAX = 10_000
"""As many as a batch can have."""
# A user's own logger may read the same variable, and know more levels.
_LEVELS = {
    **dict.fromkeys(("TRACE", "DEBUG", "INFO"), "INFO"),
    **dict.fromkeys(("WARN", "WARNING", "ERROR", "CRITICAL", "FATAL", "SILENT"), "WARN"),
}
_NO_POINTER = (
    "is not a JSON Pointer to a member: it begins with `/`, and `~` is written ~0, `/` in a name ~1, such as /detail/id"
)

_Check = Callable[[str, "str | None"], None]


def read_settings(environment: Mapping[str, str]) -> Settings:
    """:raises ValueError: with all that is missing or wrong, a line each."""
    wrong: list[str] = []

    def optional(name: str) -> str | None:
        # A variable that is set to the empty string is not set.
        return environment.get(name) or None

    def check(name: str, why: str | None) -> None:
        if why is not None:
            wrong.append(f"- {name} {why}")

    def one_of(name: str, first: str, second: str) -> str:
        value = optional(name) or first
        check(name, None if value in (first, second) else f"is neither {first} nor {second}; set it to one of them")
        return value

    is_resend = (optional("STRATEGY") or "delayed-resend") == "delayed-resend"
    check("STRATEGY", None if is_resend else "is not delayed-resend, the only one with a function of your own")
    url = optional("INTERMEDIATE_DLQ_URL")
    check("INTERMEDIATE_DLQ_URL", _why_no_queue_url(url))
    level = _LEVELS.get((optional("LOG_LEVEL") or "INFO").upper())
    check("LOG_LEVEL", "is neither INFO nor WARN; set it to one of them" if level is None else None)
    concurrency = _concurrency(optional("MAX_CONCURRENCY") or "10")
    no_concurrency = f"is not a whole number from 1 to {_CONCURRENCY_MAX}"
    check("MAX_CONCURRENCY", no_concurrency if concurrency is None else None)
    policy: Policy | None = None
    try:
        policy = read_policy(optional("RETRY_POLICY") or "{}")
    except ValueError as error:
        check("RETRY_POLICY", str(error))
    id_sources = _read_id_sources(one_of("ENVELOPE", "required", "optional") == "optional", optional, check)
    detail = one_of("LOG_DETAIL", "batches", "messages")
    if wrong or policy is None or url is None or level is None or concurrency is None:
        raise ValueError("the function cannot start; its environment variables are not right:\n" + "\n".join(wrong))
    function_name = optional("AWS_LAMBDA_FUNCTION_NAME") or "message-processor"
    return Settings(url, policy, concurrency, id_sources, Logging(detail, level), function_name)


def _read_id_sources(is_optional: bool, optional: Callable[[str], str | None], check: _Check) -> IdSources | None:
    attribute, pointer = optional("MESSAGE_ID_ATTRIBUTE"), optional("MESSAGE_ID_POINTER")
    if not is_optional:
        why = "is for messages without an envelope: set ENVELOPE=optional, or remove it"
        check("MESSAGE_ID_ATTRIBUTE", None if attribute is None else why)
        check("MESSAGE_ID_POINTER", None if pointer is None else why)
        return None
    names = None if pointer is None else pointer_of(pointer)
    check("MESSAGE_ID_ATTRIBUTE", None if attribute is None else why_no_id_attribute(attribute))
    check("MESSAGE_ID_POINTER", _NO_POINTER if pointer is not None and names is None else None)
    return IdSources(attribute, names)


def _concurrency(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_CONCURRENCY_MAX))
    return int(text) if is_number and 1 <= int(text) <= _CONCURRENCY_MAX else None


def _why_no_queue_url(url: str | None) -> str | None:
    if url is None:
        return "is missing: set it to the queue's URL"
    if url.endswith(".fifo"):
        return "is a FIFO queue's URL: FIFO queues cannot delay single messages; use a standard queue"
    is_url = url.startswith(("https://", "http://"))
    return None if is_url else "is not a queue's URL (https://sqs.REGION.amazonaws.com/ACCOUNT/NAME)"
