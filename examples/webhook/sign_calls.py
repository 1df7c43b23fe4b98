"""Calls receiver.py with the same signatures as redeliver's: python3 sign_calls.py"""

import base64
import hmac
import threading
import time
import urllib.error
import urllib.request

from receiver import decode, listen

OLD = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
NEW = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "0191f3a2-7b1c-7d3e-8f00-000000000001"
BODY = b'{"metadata":{"message_id":"' + ID.encode() + b'"},"data":{"order":"A-1001"}}'


def call(url, secrets, timestamp):
    """Returns the status."""
    signed = f"{ID}.{timestamp}.".encode() + BODY
    signatures = [base64.b64encode(hmac.digest(decode(secret), signed, "sha256")).decode() for secret in secrets]
    headers = {
        "content-type": "application/json",
        "webhook-id": ID,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
    try:
        return urllib.request.urlopen(urllib.request.Request(url, BODY, headers)).status
    except urllib.error.HTTPError as error:
        return error.code


server = listen(0, [OLD])
threading.Thread(target=server.serve_forever, daemon=True).start()
url, now = f"http://127.0.0.1:{server.server_port}/", int(time.time())
print(call(url, [OLD], now), "genuine")
print(call(url, [OLD, NEW], now), "genuine, during a rotation")
print(call(url, [NEW], now), "another secret")
print(call(url, [OLD], now - 600), "ten minutes old")
