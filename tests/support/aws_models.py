"""Checks redeliver's requests to the emulators against AWS's own service models, from botocore.

An emulator accepts requests that AWS would refuse: an unknown member, a name that is too long, an invalid enum value.
Here each request is parsed according to its model's protocol and compared with the shape of the operation's input:
member names, required members, types, lengths, ranges, enums and patterns. Rules that are not in a model are not
checked: the contents of JSON in strings, rules between members, and the limits of SQS, which tests/src/conformance
covers.

The emulators wrap their application in `validating_asgi` or `validating_wsgi`. Only requests from AWS's SDK for Rust are
checked, not those of boto3, of the CDK, and of the tests' own clients, whose application name is `redeliver-tests`.
Each request adds a line to the file named by the variable VALIDATED_REQUESTS. `cargo xtask test` fails on a finding, and
if no request of a service was checked. A line has the place and the violated rule, but never a value.
"""

import base64
import binascii
import datetime
import functools
import io
import json
import os
import re
import threading
import urllib.parse

import botocore
import cbor2
import regex
from botocore.loaders import Loader

VALIDATED_REQUESTS = "VALIDATED_REQUESTS"
OURS, TESTS_OWN = "aws-sdk-rust/", "app/redeliver-tests"
# The SDK's names of services whose folder in botocore has another name.
FOLDERS = {"eventbridge": "events"}
# Headers of every request, which do not belong to an operation.
COMMON_HEADERS = {
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-security-token",
    "x-amz-target",
    "x-amz-trailer",
    "x-amz-user-agent",
    "x-amzn-query-mode",
    "x-amzn-trace-id",
}
TYPES = {
    "structure": dict,
    "map": dict,
    "list": list,
    "string": str,
    "character": str,
    "blob": bytes,
    "boolean": bool,
    "integer": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "timestamp": datetime.datetime,
}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Unreadable(Exception):
    """A request that its model's protocol does not allow."""


class Request:
    def __init__(self, method, target, headers, body):
        path, _, query = target.partition("?")
        self.method, self.path, self.body = method, path, body
        self.query = urllib.parse.parse_qs(query, keep_blank_values=True)
        self.headers = {name.lower(): value for name, value in headers}

    def service(self):
        """The SDK's name of the service, such as `sqs`, or None if the request is not redeliver's."""
        agent = f"{self.headers.get('user-agent', '')} {self.headers.get('x-amz-user-agent', '')}"
        if OURS not in agent or TESTS_OWN in agent:
            return None
        named = re.search(r" api/([a-z0-9]+)[#/]", agent)
        return named[1] if named else "unknown"


@functools.cache
def model(service):
    folder = os.path.join(os.path.dirname(botocore.__file__), "data")
    return Loader(extra_search_paths=[folder]).load_service_model(FOLDERS.get(service, service), "service-2")


def validate(request):
    """The service, the operation, and each finding (path in the request, and rule); None for others' requests."""
    service = request.service()
    if service is None:
        return None
    try:
        name, values, findings = read(request, model(service))
    except Unreadable as unreadable:
        return service, "unknown", [("", str(unreadable))]
    operation = model(service)["operations"][name]
    if "input" in operation:
        findings += check(model(service)["shapes"], operation["input"]["shape"], values, "")
    elif values:
        findings.append(("", "the operation has no input"))
    return service, name, findings


def check(shapes, name, value, path):
    """The rules of a shape that a value violates."""
    shape = shapes[name]
    kind = shape["type"]
    is_one = isinstance(value, TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")
    if not is_one:
        return [(path, f"{type(value).__name__} instead of {kind}")]
    findings = []
    if kind == "structure":
        members = shape["members"]
        findings += [(f"{path}.{member}", "required") for member in shape.get("required", []) if member not in value]
        if shape.get("union") and len(value) != 1:
            findings.append((path, f"{len(value)} members instead of one"))
        for member, one in value.items():
            if member in members:
                findings += check(shapes, members[member]["shape"], one, f"{path}.{member}")
            else:
                findings.append((f"{path}.{member}", "unknown member"))
    elif kind == "map":
        for key, one in value.items():
            findings += check(shapes, shape["key"]["shape"], key, f"{path} (a key)")
            findings += check(shapes, shape["value"]["shape"], one, f"{path}.{key}")
    elif kind == "list":
        for index, one in enumerate(value):
            findings += check(shapes, shape["member"]["shape"], one, f"{path}[{index}]")
    if "enum" in shape and value not in shape["enum"]:
        findings.append((path, f"not in the enum {name}"))
    # In Smithy a pattern without anchors matches substrings, but AWS's services match the complete string.
    if "pattern" in shape and not regex.fullmatch(shape["pattern"], value):
        findings.append((path, f"does not match the pattern {shape['pattern']}"))
    is_number = kind in ("integer", "long", "float", "double")
    size, what = (value, "is") if is_number else (0, "") if kind in ("boolean", "timestamp") else (len(value), "has length")
    if "min" in shape and size < shape["min"]:
        findings.append((path, f"{what} {size}, less than {shape['min']}"))
    if "max" in shape and size > shape["max"]:
        findings.append((path, f"{what} {size}, more than {shape['max']}"))
    return findings


def read(request, model):
    """The operation, its input by member name, and findings outside any shape."""
    protocol = model["metadata"]["protocol"]
    if protocol in ("rest-json", "rest-xml"):
        return read_rest(request, model)
    if protocol == "query":
        return read_query(request, model)
    if "x-amz-target" in request.headers:
        prefix, _, name = request.headers["x-amz-target"].partition(".")
        has_name = prefix == model["metadata"]["targetPrefix"] and name in model["operations"]
        decode = json.loads
    else:
        _, _, name = request.path.rpartition("/operation/")
        has_name = request.path.startswith("/service/") and name in model["operations"]
        decode = cbor2.loads
    if not has_name:
        raise Unreadable("unknown operation")
    return name, parse_document(model["shapes"], input_of(model, name), decoded(decode, request.body)), []


def input_of(model, operation):
    return model["operations"][operation].get("input", {}).get("shape")


def decoded(decode, body):
    try:
        return decode(body) if body else {}
    except ValueError as error:
        raise Unreadable(f"unreadable body: {type(error).__name__}") from error


def parse_document(shapes, name, value):
    """Converts a JSON or CBOR value to its shape. Mismatches are left unchanged, for `check`."""
    shape = shapes.get(name, {"type": "none"})
    kind = shape["type"]
    if kind == "structure" and isinstance(value, dict):
        names = {member.get("locationName", name): (name, member["shape"]) for name, member in shape["members"].items()}
        read = {}
        for wire_name, one in value.items():
            member, of = names.get(wire_name, (wire_name, None))
            read[member] = parse_document(shapes, of, one)
        return read
    if kind == "map" and isinstance(value, dict):
        return {key: parse_document(shapes, shape["value"]["shape"], one) for key, one in value.items()}
    if kind == "list" and isinstance(value, list):
        return [parse_document(shapes, shape["member"]["shape"], one) for one in value]
    if kind == "blob" and isinstance(value, str):
        return decode_base64(value)
    if kind == "timestamp" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return EPOCH + datetime.timedelta(seconds=value)
    return value


def decode_base64(text):
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text


def parse_text(shapes, name, text):
    """Converts a scalar in a form, a path, a query or a header to its shape."""
    kind = shapes[name]["type"]
    if kind in ("integer", "long") and re.fullmatch(r"-?\d+", text):
        return int(text)
    if kind in ("float", "double") and re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", text):
        return float(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    if kind == "blob":
        return decode_base64(text)
    if kind == "timestamp":
        return parse_timestamp(text)
    return text


def parse_timestamp(text):
    for form in ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ", "%a, %d %b %Y %H:%M:%S GMT"):
        try:
            return datetime.datetime.strptime(text, form)
        except ValueError:
            pass
    return text


def read_query(request, model):
    try:
        form = urllib.parse.parse_qs(request.body.decode(), keep_blank_values=True, strict_parsing=True)
    except ValueError as error:
        raise Unreadable("the body is not a form") from error
    name = form.pop("Action", [""])[0]
    if name not in model["operations"]:
        raise Unreadable("unknown operation")
    if form.pop("Version", [""])[0] != model["metadata"]["apiVersion"]:
        raise Unreadable("the version is not the model's")
    tree = {}
    for path, texts in form.items():
        at = tree
        *parents, last = path.split(".")
        for part in parents:
            at = at.setdefault(part, {})
        at[last] = texts[0]
    shape = input_of(model, name)
    return name, parse_form(model["shapes"], shape, tree) if shape else tree, []


def parse_form(shapes, name, value):
    shape = shapes[name]
    kind = shape["type"]
    if kind not in ("structure", "map", "list"):
        return parse_text(shapes, name, value) if isinstance(value, str) else value
    if not isinstance(value, dict):
        return [] if kind == "list" and value == "" else value
    if kind == "structure":
        names = {member.get("locationName", name): (name, member["shape"]) for name, member in shape["members"].items()}
        read = {}
        for wire_name, one in value.items():
            member, of = names.get(wire_name, (wire_name, None))
            read[member] = parse_form(shapes, of, one) if of else one
        return read
    if kind == "list":
        items = value if shape.get("flattened") else value.get(shape["member"].get("locationName", "member"))
        return [parse_form(shapes, shape["member"]["shape"], one) for one in items.values()] if isinstance(items, dict) else value
    entries = value if shape.get("flattened") else value.get("entry", {})
    key, of = shape["key"].get("locationName", "key"), shape["value"].get("locationName", "value")
    return {entry[key]: parse_form(shapes, shape["value"]["shape"], entry[of]) for entry in entries.values()}


def read_rest(request, model):
    name, labels = operation_of(request, model)
    shapes, shape = model["shapes"], input_of(model, name)
    members = shapes[shape]["members"] if shape else {}
    # Parameters in the operation's own URI, and the SDK's `x-id`, are not members.
    in_uri = urllib.parse.parse_qs(model["operations"][name]["http"]["requestUri"].partition("?")[2], keep_blank_values=True)
    query = {key: texts for key, texts in request.query.items() if key not in in_uri and key != "x-id"}
    headers = {key: text for key, text in request.headers.items() if key.startswith("x-amz-")}
    values, body_members = {}, {}
    for member, of in members.items():
        wire_name, location = of.get("locationName", member), of.get("location")
        if location == "uri" and wire_name in labels:
            values[member] = parse_text(shapes, of["shape"], labels[wire_name])
        elif location == "querystring" and wire_name in query:
            values[member] = parse_query_values(shapes, of["shape"], query.pop(wire_name))
        elif location == "header" and wire_name.lower() in request.headers:
            values[member] = parse_text(shapes, of["shape"], request.headers[wire_name.lower()])
            headers.pop(wire_name.lower(), None)
        elif location == "headers":
            named = [key for key in headers if key.startswith(wire_name.lower())]
            if named:
                values[member] = {key[len(wire_name) :]: headers.pop(key) for key in named}
        elif location is None:
            body_members[wire_name] = (member, of["shape"])
    values |= body_of(request, model, shape, body_members)
    findings = [(f"?{key}", "unknown query parameter") for key in query]
    findings += [(key, "unknown header") for key in headers if key not in COMMON_HEADERS]
    return name, values, findings


def body_of(request, model, shape, members):
    shapes, is_xml = model["shapes"], model["metadata"]["protocol"] == "rest-xml"
    payload = shapes[shape].get("payload") if shape else None
    if payload and shapes[shapes[shape]["members"][payload]["shape"]]["type"] == "blob":
        return {payload: request.body}
    if not request.body:
        return {}
    if is_xml:
        raise Unreadable("XML bodies are not supported here")
    document = decoded(json.loads, request.body)
    if payload:
        return {payload: parse_document(shapes, shapes[shape]["members"][payload]["shape"], document)}
    if not isinstance(document, dict):
        raise Unreadable("the body is not an object")
    read = {}
    for wire_name, one in document.items():
        member, of = members.get(wire_name, (wire_name, None))
        read[member] = parse_document(shapes, of, one)
    return read


def parse_query_values(shapes, name, texts):
    shape = shapes[name]
    if shape["type"] == "list":
        return [parse_text(shapes, shape["member"]["shape"], text) for text in texts]
    return parse_text(shapes, name, texts[0])


@functools.cache
def routes(service):
    """The method, path, URI query parameters, and required query parameters and headers of each operation."""
    found = []
    for name, operation in model(service)["operations"].items():
        path, _, query = operation["http"]["requestUri"].partition("?")
        pattern = re.sub(r"\\\{(\w+)(\\\+)?\\\}", lambda label: f"(?P<{label[1]}>{'.+' if label[2] else '[^/]+'})", re.escape(path))
        shape = model(service)["shapes"].get(input_of(model(service), name), {})
        required = [shape["members"][member] for member in shape.get("required", [])]
        needed = [of["locationName"] for of in required if of.get("location") == "querystring"]
        needed_headers = [of["locationName"].lower() for of in required if of.get("location") == "header"]
        literal = urllib.parse.parse_qs(query, keep_blank_values=True)
        found.append((name, operation["http"]["method"], re.compile(pattern + "/?"), literal, needed, needed_headers))
    return found


def operation_of(request, model):
    """The operation whose path matches with the most query parameters; if several match, the SDK names it in `x-id`."""
    candidates = []
    for name, method, pattern, literal, needed, needed_headers in routes(request.service()):
        matched = pattern.fullmatch(request.path) if method == request.method else None
        if not matched or any(request.query.get(key) != texts for key, texts in literal.items()):
            continue
        is_named = request.query.get("x-id") == [name]
        has_all = all(key in request.query for key in needed) and all(key in request.headers for key in needed_headers)
        labels = {label: urllib.parse.unquote(text) for label, text in matched.groupdict().items()}
        candidates.append(((is_named, has_all, len(literal) + len(needed) + len(needed_headers)), name, labels))
    if not candidates:
        raise Unreadable("no operation matches the method and path")
    _, name, labels = max(candidates, key=lambda candidate: candidate[0])
    return name, labels


class Record:
    """The file with the results for this emulator's requests."""

    def __init__(self):
        self.file = open(os.environ[VALIDATED_REQUESTS], "a", buffering=1)
        self.lock = threading.Lock()

    def add(self, request):
        try:
            validated = validate(request)
        except Exception as error:  # the test continues, and the run fails at its end
            validated = request.service() or "unknown", "unknown", [("", f"the validation failed: {error!r}")]
        if validated is None:
            return
        service, operation, findings = validated
        findings = [{"path": path, "rule": rule} for path, rule in findings]
        with self.lock:
            self.file.write(json.dumps({"service": service, "operation": operation, "findings": findings}) + "\n")


def validating_wsgi(application):
    record = Record()

    def wrapped(environ, start_response):
        headers = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
        if OURS in environ.get("HTTP_USER_AGENT", ""):
            length = environ.get("CONTENT_LENGTH")
            body = environ["wsgi.input"].read(int(length)) if length else b""
            environ["wsgi.input"] = io.BytesIO(body)
            record.add(Request(environ["REQUEST_METHOD"], environ["RAW_URI"], headers, body))
        return application(environ, start_response)

    return wrapped


def validating_asgi(application):
    record = Record()

    async def wrapped(scope, receive, send):
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope.get("headers", [])]
        if scope["type"] != "http" or not any(OURS in value for name, value in headers if name == "user-agent"):
            return await application(scope, receive, send)
        events, is_whole = [], False
        while not is_whole:
            events.append(await receive())
            is_whole = not events[-1].get("more_body", False)
        body = b"".join(event.get("body", b"") for event in events)
        target = scope["raw_path"].decode("latin-1") + "?" + scope["query_string"].decode("latin-1")
        record.add(Request(scope["method"], target, headers, body))

        async def again():
            return events.pop(0) if events else await receive()

        return await application(scope, again, send)

    return wrapped
