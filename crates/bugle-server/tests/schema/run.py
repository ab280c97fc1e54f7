"""Tests a server with requests that schemathesis makes of its OpenAPI document.

Usage: run.py URL

Twice: as the document says, and with the names of things that are there, so that the requests reach more than a 404.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

URL = sys.argv[1]
HERE = Path(__file__).parent.resolve()
SCHEMATHESIS = Path(sys.prefix).resolve() / "bin" / "schemathesis"
# For a broken run alone: both take some seconds.
AT_MOST = 300


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def fill_flow():
    """A workflow with a run that is under way. The number of the run."""
    # The requests before may have paused everything, or have it polled once a day.
    call("POST", "/api/v1/flow/settings/paused", {"paused": False})
    call("POST", "/api/v1/flow/settings/mode", {"mode": None})
    steps = [{"name": "first"}, {"name": "work", "after": ["first"]}, {"name": "last", "after": ["work"]}]
    call("POST", "/api/v1/flow/definitions", {"name": "seeded", "steps": steps})
    run = call("POST", "/api/v1/flow/runs", {"definition": "seeded", "input": {"n": 1}})["id"]
    first = call("POST", "/api/v1/flow/queues/steps/claim?wait=true", {"worker": "seed"})["steps"][0]
    call("POST", "/api/v1/flow/steps/complete", {"receipt": first["receipt"], "result": {"n": 2}})
    return str(run)


def fill():
    """A queue with messages, a group that has leased some, a dead letter, and a run of a workflow. Its names, as the configuration uses them."""
    items = [
        {"queue": "seeded", "partition": "p", "payload": {"n": n}, "transactionId": f"t-{n}"}
        for n in range(50)
    ]
    call("POST", "/api/v1/push", {"items": items})
    popped = call("GET", "/api/v1/pop/queue/seeded?consumerGroup=g&batch=2")
    first = popped["messages"][0]
    ack = {key: first[key] for key in ("transactionId", "partitionId", "leaseId")}
    answer = call("POST", "/api/v1/ack", {**ack, "consumerGroup": "g", "status": "dlq", "error": "no"})
    assert answer[0]["dlq"], answer
    return {
        "SEEDED_PARTITION": popped["partitionId"],
        "SEEDED_TRANSACTION": popped["messages"][1]["transactionId"],
        "SEEDED_LEASE": popped["leaseId"],
        "SEEDED_RUN": fill_flow(),
    }


def test(configuration, names, leaves_out):
    """`leaves_out` says which operations of the document are not tested: no more than those."""
    print(f"schemathesis with {configuration}", flush=True)
    command = [SCHEMATHESIS, "--config-file", HERE / configuration, "run", URL + "/openapi.json"]
    # Where it works it leaves files behind.
    run = subprocess.run(
        command, timeout=AT_MOST, cwd=sys.prefix, env={**os.environ, **names}, stdout=subprocess.PIPE, text=True
    )
    print(run.stdout, flush=True)
    if run.returncode != 0:
        sys.exit(run.returncode)
    selected, total = re.search(r"Operations: +(\d+) selected / (\d+) total", run.stdout).groups()
    operations = [
        (method.upper(), path, operation["tags"])
        for path, item in call("GET", "/openapi.json")["paths"].items()
        for method, operation in item.items()
        if path != "/openapi.json"  # schemathesis leaves out where the document is
    ]
    left_out = [operation for operation in operations if leaves_out(*operation)]
    assert int(total) == len(operations), f"{total} of {len(operations)} operations were found"
    assert int(selected) == len(operations) - len(left_out), f"only {selected} of {total} operations were tested"


def switches_maintenance(method, path, _):
    return method == "POST" and path.startswith("/api/v1/system/maintenance")


def main():
    test("schemathesis.toml", {}, switches_maintenance)
    test(
        "seeded.toml",
        fill(),
        lambda method, path, tags: method == "DELETE" or "later" in tags or switches_maintenance(method, path, tags),
    )


if __name__ == "__main__":
    main()
