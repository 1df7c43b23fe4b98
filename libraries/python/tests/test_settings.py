"""The settings: all that is wrong with them in one error, and nothing of it a value."""

import pytest

import redeliver
from redeliver._settings import Logging, read_settings

QUEUE = {"INTERMEDIATE_DLQ_URL": "https://sqs.eu-central-1.amazonaws.com/0/intermediate"}
OPTIONAL = {"ENVELOPE": "optional"}


def wrong(environment: dict[str, str]) -> list[str]:
    with pytest.raises(ValueError, match="cannot start") as error:
        read_settings(environment)
    head, *lines = str(error.value).split("\n")
    assert head == "the function cannot start; its environment variables are not right:"
    return lines


def test_one_queue_is_all_that_must_be_said() -> None:
    settings = read_settings({**QUEUE, "MAX_CONCURRENCY": "", "STRATEGY": "delayed-resend"})
    assert (settings.id_sources, settings.max_concurrency, settings.logging) == (None, 10, Logging("batches", "INFO"))
    assert settings.policy.circuit_breaker is not None
    assert settings.policy.circuit_breaker.minimum_calls == 10


def test_one_error_says_all_that_is_wrong() -> None:
    lines = wrong(
        {
            "STRATEGY": "visibility",
            "MAX_CONCURRENCY": "0",
            "ENVELOPE": "maybe",
            "LOG_DETAIL": "all",
            "LOG_LEVEL": "loud",
            "MESSAGE_ID_POINTER": "/id",
            "RETRY_POLICY": '{"immediate":{"max_attempts":11},"circuit_breaker":{"x":1}}',
        }
    )
    assert [line.split(" ")[1] for line in lines] == [
        "STRATEGY",
        "INTERMEDIATE_DLQ_URL",
        "LOG_LEVEL",
        "MAX_CONCURRENCY",
        "RETRY_POLICY",
        "ENVELOPE",
        "MESSAGE_ID_POINTER",
        "LOG_DETAIL",
    ]
    assert lines[4] == (
        "- RETRY_POLICY is refused: /circuit_breaker/x is unknown; /immediate/delay_ms is missing; "
        "/immediate/max_attempts is not a whole number from 1 to 10"
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"INTERMEDIATE_DLQ_URL": "https://sqs.x/0/q.fifo"}, "is a FIFO queue's URL"),
        ({"INTERMEDIATE_DLQ_URL": "arn:aws:sqs"}, "is not a queue's URL"),
        ({"MAX_CONCURRENCY": "1.5"}, "is not a whole number from 1 to 10000"),
        ({"MAX_CONCURRENCY": "\u0661"}, "is not a whole number from 1 to 10000"),
        ({"RETRY_POLICY": "policy.json"}, "is not JSON; it takes the policy itself, not a file's name"),
        ({"RETRY_POLICY": "[" * 100_000}, "is not JSON"),
        ({"RETRY_POLICY": '{"immediate":{"max_attempts":true,"delay_ms":NaN}}'}, "is not JSON"),
        (
            {"RETRY_POLICY": '{"immediate":{"max_attempts":true,"delay_ms":1}}'},
            "/immediate/max_attempts is not a whole",
        ),
        ({"MESSAGE_ID_ATTRIBUTE": "Id"}, "is for messages without an envelope: set ENVELOPE=optional, or remove it"),
        ({**OPTIONAL, "MESSAGE_ID_ATTRIBUTE": "Failure"}, "is an attribute that redeliver itself writes"),
        ({**OPTIONAL, "MESSAGE_ID_ATTRIBUTE": "order id"}, "is not the name of a message attribute"),
        *(({**OPTIONAL, "MESSAGE_ID_POINTER": one}, "is not a JSON Pointer") for one in ("id", "#/id", "/a~", "/~2/b")),
    ],
)
def test_each_setting_has_its_words(more: dict[str, str], words: str) -> None:
    [line] = wrong({**QUEUE, **more})
    assert words in line


def test_a_pointer_is_read_as_it_is_escaped() -> None:
    sources = read_settings({**QUEUE, **OPTIONAL, "MESSAGE_ID_POINTER": "/~01/a~1b/"}).id_sources
    assert sources is not None
    assert sources.pointer == ("~1", "a/b", "")


@pytest.mark.parametrize(
    ("level", "ours"), [("debug", "INFO"), ("INFO", "INFO"), ("Warn", "WARN"), ("ERROR", "WARN"), ("silent", "WARN")]
)
def test_a_level_of_another_logger_is_one_of_ours(level: str, ours: str) -> None:
    assert read_settings({**QUEUE, "LOG_LEVEL": level}).logging.level == ours


def test_in_lambda_the_settings_are_read_at_once_elsewhere_with_the_first_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("INTERMEDIATE_DLQ_URL", raising=False)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")
    with pytest.raises(ValueError, match="INTERMEDIATE_DLQ_URL is missing"):
        redeliver.handler(print)
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME")
    handler = redeliver.handler(print)
    with pytest.raises(ValueError, match="INTERMEDIATE_DLQ_URL is missing"):
        handler({"Records": []}, None)


def test_what_is_decorated_must_be_a_function() -> None:
    with pytest.raises(TypeError, match="takes a handler of one message"):
        redeliver.handler("handler")  # type: ignore[call-overload]
