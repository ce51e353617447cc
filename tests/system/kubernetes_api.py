"""Kubernetes' own Python client on a running stack, and raw requests beside it."""
import json
import os
import site
import urllib.request
from pathlib import Path

import pytest

from stack import ROOT

HOME = Path(os.environ.get("NODUS_HOME", ROOT / ".nodus"))
for packages in (HOME / "tools/python/lib").glob("python3*/site-packages"):
    site.addsitedir(str(packages))
try:
    from kubernetes import client, dynamic, watch  # noqa: F401 (for the tests)
except ImportError as error:  # a failure with a sentence, not a skip
    raise RuntimeError("the Python packages of the tests are missing; run dev/install") from error

GROUP = {"group": "nodus.dev", "version": "v1", "plural": "sandboxes"}


def api_client(stack):
    base, _, rest = stack.env["NODUS_API"].partition("/apis/")
    configuration = client.Configuration(host=base)
    configuration.api_key = {"authorization": stack.env["NODUS_API_KEY"]}
    configuration.api_key_prefix = {"authorization": "Bearer"}
    one = client.ApiClient(configuration)
    one.project = rest.rstrip("/").rsplit("/", 1)[1]
    return one


def manifest(name, labels=None, **spec):
    return {"apiVersion": "nodus.dev/v1", "kind": "Sandbox", "metadata": {"name": name, "labels": labels or {}},
            "spec": {"image": "nodus/busybox", **spec}}


def refused(call, *arguments, **options):
    with pytest.raises(client.ApiException) as caught:
        call(*arguments, **options)
    status = json.loads(caught.value.body)
    assert status["kind"] == "Status" and status["code"] == caught.value.status
    page = ROOT / status["details"]["docs"]
    assert page.is_file(), f"{status['reason']} names a page that is not there"
    return caught.value.status, status


def raw(stack, path, accept="application/json", method="GET", body=None, content_type=None):
    headers = {"Accept": accept}
    if content_type:
        headers["Content-Type"] = content_type
    return stack.call(method, path, body=body, headers=headers)


def lines_of(stack, path, key=None):
    base = stack.env["NODUS_API"].split("/apis/")[0]
    request = urllib.request.Request(base + path, headers={"Authorization": f"Bearer {key or stack.env['NODUS_API_KEY']}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            yield json.loads(line)


def project_path(api, rest):
    return f"/apis/nodus.dev/v1/namespaces/{api.project}/{rest}"


def watches(stack):
    base = stack.env["NODUS_API"].split("/apis/")[0]
    with urllib.request.urlopen(base + "/metrics", timeout=30) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("nodus_lifecycle_watches"):
                return float(line.split()[-1])
    return 0.0
