"""Books each message to its account. A message fails `fails` times; the account's later messages wait meanwhile."""

import json

balances = {}


def handler(event, context):
    for record in event["Records"]:
        booking = json.loads(record["body"])["data"]
        account, cents = booking["account"], booking["cents"]
        if int(record["attributes"]["ApproximateReceiveCount"]) <= booking.get("fails", 0):
            print(f"account {account}: {cents:+} failed")
            raise TimeoutError(f"account {account} is locked")
        balances[account] = balances.get(account, 0) + cents
        print(f"account {account}: {cents:+} makes {balances[account]}")
