"""The examples do what they say."""

import re
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from botocore.stub import Stubber
from examples import before, conditional_write, orders, sql_unique_key
from examples.idempotent import idempotent
from examples.parser import Order, parsed

from redeliver.testing import try_message

from .world import id_of


def test_ten_lines_before_and_ten_after() -> None:
    event = {"Records": [{"messageId": "m", "body": "not JSON"}]}
    assert before.handler(event, None) == {"batchItemFailures": [{"itemIdentifier": "m"}]}

    def of(order: str) -> Any:
        hand_off = try_message(orders.handler, data={"id": order}).hand_off
        return hand_off and (hand_off.failure["type"], hand_off.failure["kind"])

    assert of("17") is None
    assert of("unknown") == ("Order.Unknown", "permanent")
    assert of("down") == ("Unavailable", "transient")


class Store(BasePersistenceLayer):
    """In memory, as DynamoDB does it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.records: dict[str, DataRecord] = {}

    def _get_record(self, idempotency_key: str) -> DataRecord:
        if idempotency_key not in self.records:
            raise IdempotencyItemNotFoundError
        return self.records[idempotency_key]

    def _put_record(self, data_record: DataRecord) -> None:
        known = self.records.get(data_record.idempotency_key)
        if known is not None and not known.is_expired:
            raise IdempotencyItemAlreadyExistsError(old_data_record=known)
        self.records[data_record.idempotency_key] = data_record

    def _update_record(self, data_record: DataRecord) -> None:
        self.records[data_record.idempotency_key] = data_record

    def _delete_record(self, data_record: DataRecord) -> None:
        del self.records[data_record.idempotency_key]


def test_with_powertools_a_copy_is_charged_once_and_a_failure_is_tried_again() -> None:
    charged: list[str] = []
    is_down = True

    def charge(order: Any) -> None:
        charged.append(order["id"])
        if is_down:
            raise ConnectionError("down")

    handler = idempotent(charge, Store())
    message: dict[str, Any] = {"data": {"id": "17"}, "metadata": {"message_id": id_of(1)}}
    hand_off = try_message(handler, **message).hand_off
    assert hand_off is not None
    assert hand_off.failure["details"] == "down"
    is_down = False
    retried = {**message, "metadata": {"message_id": id_of(1), "retry_attempt": 1}}
    for copy in (message, message, retried):
        assert try_message(handler, **copy).done
    assert charged == ["17", "17"]
    try_message(handler, **{**message, "metadata": {"message_id": id_of(2)}})
    assert len(charged) == 3


def test_with_powertools_a_copy_that_comes_while_the_first_is_at_work_waits_for_its_turn() -> None:
    begun, end = threading.Event(), threading.Event()
    done: list[bool] = []

    def charge(_: Any) -> None:
        begun.set()
        assert end.wait(20)

    handler = idempotent(charge, Store())
    message: dict[str, Any] = {"data": {"id": "17"}, "metadata": {"message_id": id_of(1)}}
    first = threading.Thread(target=lambda: done.append(try_message(handler, **message).done))
    first.start()
    assert begun.wait(20)
    hand_off = try_message(handler, **message).hand_off
    end.set()
    first.join()
    assert hand_off is not None
    assert hand_off.failure["type"].endswith("IdempotencyAlreadyInProgressError")
    assert (hand_off.failure["kind"], done) == ("transient", [True])


def test_with_powertools_parser_an_order_that_is_none_is_given_up_at_once() -> None:
    charged: list[Order] = []
    handler = parsed(charged.append)
    assert try_message(handler, data={"id": "17", "amount": 5}).done
    assert charged == [Order(id="17", amount=5)]
    hand_off = try_message(handler, data={"id": "17", "amount": "canary"}).hand_off
    assert hand_off is not None
    failure = {name: hand_off.failure[name] for name in ("type", "kind", "details")}
    assert failure == {"type": "Order.Invalid", "kind": "permanent", "details": "no order: amount"}


def test_with_a_key_in_its_transaction_a_copy_changes_nothing_and_a_failure_leaves_no_key(tmp_path: Path) -> None:
    file = tmp_path / "orders.db"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(file, timeout=20)

    def balance() -> Any:
        with closing(connect()) as connection:
            return connection.execute("SELECT cents FROM account").fetchone()[0]

    with closing(connect()) as connection, connection:
        connection.execute(sql_unique_key.TABLE)
        connection.execute("CREATE TABLE account (cents INTEGER)")
        connection.execute("INSERT INTO account VALUES (0)")

    def credit(connection: sqlite3.Connection, order: Any) -> None:
        connection.execute("UPDATE account SET cents = cents + ?", [order["cents"]])
        if is_down:
            raise ConnectionError("down")

    handler = sql_unique_key.in_a_transaction(connect, credit)
    message: dict[str, Any] = {"data": {"cents": 5}, "metadata": {"message_id": id_of(1)}}
    is_down = True
    assert try_message(handler, **message).hand_off is not None
    is_down = False
    assert balance() == 0
    for _copy in range(3):
        assert try_message(handler, **message).done
    assert balance() == 5
    assert try_message(handler, **{**message, "metadata": {"message_id": id_of(2)}}).done
    assert balance() == 10


def test_a_conditional_write_keeps_the_first_result_and_other_errors_are_retried() -> None:
    account = {"region_name": "eu-central-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}
    table = boto3.resource("dynamodb", **account).Table("results")
    expected = {
        "TableName": "results",
        "Item": {"id": id_of(1), "sum": 5},
        "ConditionExpression": "attribute_not_exists(id)",
    }
    message: dict[str, Any] = {"data": {"sum": 5}, "metadata": {"message_id": id_of(1)}}
    handler = conditional_write.written_once(table, lambda data: {"sum": data["sum"]})
    with Stubber(table.meta.client) as dynamodb:
        dynamodb.add_response("put_item", {}, expected)
        dynamodb.add_client_error("put_item", "ConditionalCheckFailedException", expected_params=expected)
        dynamodb.add_client_error("put_item", "ThrottlingException", "slowly", expected_params=expected)
        assert try_message(handler, **message).done
        assert try_message(handler, **message).done
        hand_off = try_message(handler, **message).hand_off
        dynamodb.assert_no_pending_responses()
    assert hand_off is not None
    assert hand_off.failure["kind"] == "transient"
    assert "ThrottlingException" in hand_off.failure["details"]


def test_what_the_documentation_shows_is_in_the_examples() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs/idempotency.md").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    examples = "\n".join(file.read_text() for file in sorted((root / "libraries/python/examples").glob("*.py")))
    lines = {line.strip().split("  #")[0] for line in examples.splitlines()}
    assert [line for block in shown for line in block.splitlines() if line.strip() not in lines] == []
    assert len(shown) == 3
