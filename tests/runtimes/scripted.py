"""A handler that does what `data.script` says: one action for each attempt or crash, `ok` after them.

The same in Rust: tests/src/bin/scripted-processor.rs.
"""

import asyncio
import json
import os
import threading
import time

import redeliver


class Transient(Exception):
    """Ours has no name of its own: an exception's type is its class."""


def begin(message: redeliver.Message) -> tuple[str, str, int]:
    """Notes the call; its action, the text of its error, and for how long it would be left alone."""
    body = json.loads(message.body)
    metadata, data = body["metadata"], body["data"]
    done = message.retry_attempt + metadata.get("redrive_count", 0)
    action = data["script"][done] if done < len(data["script"]) else "ok"
    # A snooze spends no attempt: without this it would never end.
    if action == "snooze" and "snooze_count" in metadata:
        action = "ok"
    history = metadata.get("retry_history", [])
    last = history[-1]["error_type"] if history else "-"
    call = [message.message_id, message.retry_attempt, metadata.get("snooze_count", 0), action, last]
    with open(os.environ["SCRIPT_JOURNAL"], "a") as journal:
        journal.write(" ".join(map(str, call)) + "\n")
    return action, data.get("text", ""), data.get("seconds", 1)


def end(action: str, text: str, seconds: int) -> None:
    if action == "panic":
        raise SystemExit(text)
    if action == "transient":
        raise Transient(text)
    if action == "permanent":
        raise redeliver.PermanentError(text, type="Scripted.Permanent")
    if action == "snooze":
        raise redeliver.Snooze(seconds, "later", type="Scripted.Snooze")


@redeliver.handler
def handler(message: redeliver.Message) -> None:
    action, *told = begin(message)
    if action == "hang":
        threading.Event().wait()
    end(action, *told)


@redeliver.handler
async def async_handler(message: redeliver.Message) -> None:
    action, *told = begin(message)
    if action == "hang":
        await asyncio.Event().wait()
    while action == "block":
        time.sleep(1)
    end(action, *told)
