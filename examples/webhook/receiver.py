"""An HTTP target that verifies Standard Webhooks: SIGNING_SECRETS=whsec_... python3 receiver.py [PORT]

It prints its URL and the id of each genuine call. During a rotation, SIGNING_SECRETS has two secrets, separated by a
space.
"""

import base64
import hmac
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_SECONDS = 300
# The limit of an SQS message.
MAX_BODY_BYTES = 1_048_576


class VerificationError(Exception):
    """The call is forged or replayed, or one of the two clocks is wrong."""


def verify(body, headers, secrets, now):
    """Returns the message's id. `body` must be the bytes as received, before any parsing."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    signatures = headers.get("webhook-signature", "")
    if not timestamp.isdecimal() or len(timestamp) > 12 or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        raise VerificationError("timestamp")
    signed = f"{message_id}.{timestamp}.".encode() + body
    for secret in secrets:
        expected = "v1," + base64.b64encode(hmac.digest(decode(secret), signed, "sha256")).decode()
        if any(hmac.compare_digest(expected.encode(), given.encode()) for given in signatures.split(" ")):
            return message_id
    raise VerificationError("signature")


def decode(secret):
    return base64.b64decode(secret.removeprefix("whsec_"), validate=True)


def process(message_id, body):
    """Your work goes here. The same id may arrive twice."""
    print(message_id, flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        if not 0 <= length <= MAX_BODY_BYTES:
            return self.answer(413)
        body = self.rfile.read(length)
        try:
            message_id = verify(body, self.headers, self.server.secrets, time.time())
        except VerificationError:
            # Not 400, which is permanent: after a 401, redeliver reads its secret again and retries.
            return self.answer(401)
        process(message_id, body)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *arguments):
        """Logs nothing: the printed id is enough."""


def listen(port, secrets):
    """Returns a server that is bound but does not answer yet. For port 0, the system picks a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    server.secrets = secrets
    return server


def main():
    secrets = os.environ["SIGNING_SECRETS"].split()
    server = listen(int(sys.argv[1]) if len(sys.argv) > 1 else 0, secrets)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
