"""Handlers that follow `data.script`: one action for each attempt or crash, then `ok`.

The same in Node.js: scripted.mjs; in Rust: tests/src/bin/scripted-function.rs and scripted-processor.rs.
"""

import asyncio
import json
import os
import signal
import threading
import time

Transient = type("Scripted.Transient", (Exception,), {})
Permanent = type("Scripted.Permanent", (Exception,), {})


def note(line: str) -> None:
    with open(os.environ["SCRIPT_JOURNAL"], "a") as journal:
        journal.write(line + "\n")


def on_termination(number, frame):
    note("SIGTERM")
    os._exit(0)


note(f"process {os.getpid()}")
with open(os.environ["SCRIPT_JOURNAL"]) as journal:
    if sum(line.startswith("process") for line in journal) > 1:
        time.sleep(int(os.environ.get("RESTART_SECONDS", 0)))
signal.signal(signal.SIGTERM, on_termination)


def handler(event, context):
    if "Records" not in event:
        return other(event)
    [record] = event["Records"]
    action, data = begin(record)
    text = data.get("text", "")
    if action == "permanent":
        return {"redeliver": {"outcome": "permanent", "type": "Scripted.Permanent", "details": text}}
    if action == "snooze":
        later = {"type": "Scripted.Snooze", "details": "later"}
        return {"redeliver": {"outcome": "snooze", "delay_seconds": data.get("seconds", 1)} | later}
    if action == "hang":
        threading.Event().wait()
    while action == "block":
        pass
    end(action, text)


def other(event):
    """Handles an event that is not from SQS."""
    if "error" in event:
        raise Transient(event["error"])
    return {"event": event, "other_wrapper": os.environ.get("OTHER_WRAPPER")}


def batch_handler(event, context):
    """Handles all records concurrently and returns the failed ones with their errors."""
    return asyncio.run(respond(event["Records"]))


async def respond(records):
    outcomes = await asyncio.gather(*map(work, records), return_exceptions=True)
    failures = []
    for record, outcome in zip(records, outcomes):
        if outcome is not None:
            error = {"type": type(outcome).__name__, "details": str(outcome)}
            failures.append({"itemIdentifier": record["messageId"], "error": error})
    return {"batchItemFailures": failures}


async def work(record) -> None:
    action, data = begin(record)
    # Lets the other records start first.
    await asyncio.sleep(0)
    if action == "hang":
        await asyncio.Event().wait()
    if action == "permanent":
        raise Permanent(data.get("text", ""))
    end(action, data.get("text", ""))


def begin(record) -> tuple[str, dict]:
    """Writes the call to the journal, and returns its action and the message's data."""
    body = json.loads(record["body"])
    metadata, data = body["metadata"], body["data"]
    attempt = metadata.get("retry_attempt", 0)
    # With the strategy `visibility`, SQS counts the attempts.
    receives = int(record["attributes"]["ApproximateReceiveCount"])
    done = attempt + metadata.get("redrive_count", 0) + receives - 1
    action = data["script"][done] if done < len(data["script"]) else "ok"
    # A snooze spends no attempt, so a repeated snooze would never end.
    if action == "snooze" and "snooze_count" in metadata:
        action = "ok"
    history = metadata.get("retry_history", [])
    last = history[-1]["error_type"] if history else "-"
    note(f"{metadata['message_id']} {attempt} {metadata.get('snooze_count', 0)} {action} {last}")
    return action, data


def end(action: str, text: str) -> None:
    if action == "panic":
        raise RecursionError(text)
    if action == "transient":
        raise Transient(text)
    if action == "loud":
        for _ in range(10_000):
            print("x" * 999)
    if action == "exit":
        os._exit(3)
    if action == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
