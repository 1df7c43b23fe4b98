"""boto3 as it is, against a server of our own: what its answers and failures mean."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import CredentialRetrievalError, NoCredentialsError, ReadTimeoutError

from redeliver import Attribute
from redeliver._sending import EntryError, EntryOutcome, Outgoing
from redeliver._sqs import SqsQueue, new_client

MESSAGE = Outgoing("a", {})
DONE = {"Id": "0", "MessageId": "m"}


class Server(HTTPServer):
    """Answers with a status and a body, or hangs up."""

    answer: tuple[int, bytes] | None = None
    asked: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        pass


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=lambda: running.serve_forever(0.01))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)


def sent(url: str, *entries: Outgoing, client: Any = None) -> list[EntryOutcome]:
    own = client or boto3.client("sqs", endpoint_url=url, config=Config(retries={"total_max_attempts": 1}))
    try:
        return list(asyncio.run(_send(SqsQueue(own, f"{url}/0/intermediate"), entries or (MESSAGE,))))
    finally:
        if client is None:
            own.close()


async def _send(queue: SqsQueue, entries: tuple[Outgoing, ...]) -> Any:
    return await queue.send(entries)


def answering(server: Server, status: int, body: object, *entries: Outgoing) -> list[EntryOutcome]:
    server.answer = (status, json.dumps(body).encode())
    return sent(server.url, *entries)


def test_all_that_a_message_has_is_sent(server: Server) -> None:
    attributes = {
        "a": Attribute("String", "x"),
        "b": Attribute("Binary", b"\0\xff"),
        "n": Attribute("Number.int", "7"),
    }
    outcomes = answering(server, 200, {"Successful": [DONE]}, Outgoing("a", attributes, "g", "Root=1"))
    assert outcomes == [None]
    assert server.asked["Entries"] == [
        {
            "Id": "0",
            "MessageBody": "a",
            "DelaySeconds": 0,
            "MessageAttributes": {
                "a": {"DataType": "String", "StringValue": "x"},
                "b": {"DataType": "Binary", "BinaryValue": "AP8="},
                "n": {"DataType": "Number.int", "StringValue": "7"},
            },
            "MessageGroupId": "g",
            "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1"}},
        }
    ]
    assert server.asked["QueueUrl"].endswith("/0/intermediate")


def test_an_answer_tells_of_each_entry_and_what_it_leaves_out_is_not_confirmed(server: Server) -> None:
    failed = [
        {"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents"},
        {"Id": "2", "SenderFault": False, "Code": "InternalError"},
        {"Id": "3", "SenderFault": True, "Code": "KMS.ThrottlingException"},
        {"Id": "4", "SenderFault": True, "Code": "Both"},
    ]
    answer = {"Successful": [DONE, {"Id": "4", "MessageId": "m"}], "Failed": failed}
    assert answering(server, 200, answer, *[MESSAGE] * 6) == [
        None,
        EntryError("refused", "InvalidMessageContents"),
        EntryError("service", "InternalError"),
        EntryError("throttled", "KMS.ThrottlingException"),
        EntryError("refused", "Both"),
        EntryError("no answer", "EntryNotAnswered"),
    ]


@pytest.mark.parametrize(
    ("status", "code", "fault"),
    [
        (400, "QueueDoesNotExist", "refused"),
        (403, "AccessDeniedException", "refused"),
        (400, "RequestThrottled", "throttled"),
        (500, "InternalFailure", "service"),
        (503, "ServiceUnavailable", "throttled"),
        (408, "RequestTimeout", "not sent"),
    ],
)
def test_the_status_says_whose_fault_a_failed_request_is(server: Server, status: int, code: str, fault: Any) -> None:
    [outcome] = answering(server, status, {"__type": f"com.amazonaws.sqs#{code}", "message": "canary"})
    assert outcome == EntryError(fault, code)


def test_a_lost_answer_and_one_that_cannot_be_read_may_have_been_done(server: Server) -> None:
    assert sent(server.url) == [EntryError("no answer", "Connection")]
    server.answer = (200, b'{"Succ')
    # boto3 takes it for an answer with nothing in it.
    assert sent(server.url) == [EntryError("no answer", "EntryNotAnswered")]


def test_what_did_not_get_there_was_not_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    assert sent(f"http://127.0.0.1:{port}") == [EntryError("not sent", "Connect")]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NoCredentialsError(), EntryError("refused", "NoCredentials")),
        (CredentialRetrievalError(provider="x", error_msg="canary"), EntryError("refused", "NoCredentials")),
        (ReadTimeoutError(endpoint_url="canary"), EntryError("no answer", "Timeout")),
        (MemoryError(), EntryError("no answer", "Connection")),
        (SystemExit(), EntryError("no answer", "Connection")),
    ],
)
def test_whatever_a_client_raises_is_an_outcome(error: BaseException, expected: EntryError) -> None:
    class Client:
        def send_message_batch(self, **_: Any) -> Any:
            raise error

    assert sent("http://x", MESSAGE, MESSAGE, client=Client()) == [expected, expected]


def test_our_own_client_asks_once() -> None:
    client: Any = new_client()
    assert client.meta.config.retries["total_max_attempts"] == 1
    assert (client.meta.config.connect_timeout, client.meta.config.read_timeout) == (3, 900)
    client.close()


def test_a_request_of_which_nothing_could_be_sent_is_refused(server: Server) -> None:
    wrong: Callable[..., Any] = Outgoing
    assert sent(server.url, wrong(7, {})) == [EntryError("refused", "ParamValidationError")]
