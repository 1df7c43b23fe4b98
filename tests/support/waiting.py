"""Handlers that wait WAIT_SECONDS for a service per record: one record after another, or all at the same time."""

import asyncio
import os
import time

WAIT_SECONDS = float(os.environ.get("WAIT_SECONDS", "0"))


def handler(event, context):
    for _record in event["Records"]:
        if WAIT_SECONDS:
            time.sleep(WAIT_SECONDS)
    return {"batchItemFailures": []}


async def all_of(records):
    await asyncio.gather(*(asyncio.sleep(WAIT_SECONDS) for _record in records))


def together(event, context):
    asyncio.run(all_of(event["Records"]))
    return {"batchItemFailures": []}
