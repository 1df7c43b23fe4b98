"""In the database that has the work's result: the key is written in the same transaction, so both are there or none."""

import sqlite3
from collections.abc import Callable
from typing import Any

import redeliver
from redeliver import LambdaHandler, Message

TABLE = "CREATE TABLE IF NOT EXISTS done (idempotency_key TEXT PRIMARY KEY)"


def in_a_transaction(
    connect: Callable[[], sqlite3.Connection], work: Callable[[sqlite3.Connection, Any], None]
) -> LambdaHandler:
    """``work`` writes to the database, and does nothing else. PostgreSQL says the same as SQLite here."""

    @redeliver.handler
    def handler(message: Message[Any]) -> None:
        # One connection for each call: messages are handled side by side.
        connection = connect()
        try:
            with connection:
                sql = "INSERT INTO done VALUES (?) ON CONFLICT DO NOTHING"
                if connection.execute(sql, [message.idempotency_key]).rowcount == 1:
                    work(connection, message.data)
        finally:
            connection.close()

    return handler
