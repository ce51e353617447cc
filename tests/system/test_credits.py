"""Prices, quotes, credits and payments through the public API, the CLI and the operator's commands."""
import datetime
import decimal
import hashlib
import hmac
import http.client
import json
import os
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import pytest
import yaml

from stack import PRESET, ROOT, running_stack, wait_until


@pytest.fixture(scope="module")
def money(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("money"), 24180) as stack:
        yield stack


def secrets_of(stack):
    lines = (stack.home / "etc/secrets.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def operator(stack, *arguments):
    command = [ROOT / f"build/{PRESET}/bin/nodus-metering", "--config", stack.home / "etc/metering.yaml", *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120,
                          env=os.environ | secrets_of(stack))


def payment(stack, event, secret=None, at=None):
    body = json.dumps(event).encode()
    at = str(int(time.time()) if at is None else at)
    secret = secret or secrets_of(stack)["NODUS_STRIPE_SECRET"]
    mac = hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return stack.call("POST", "/webhooks/stripe", body, key="", headers={"Stripe-Signature": f"t={at},v1={mac}"})


def paid(intent, cents, currency="usd", org="dev"):
    return {"id": "evt_1", "type": "payment_intent.succeeded",
            "data": {"object": {"id": intent, "amount_received": cents, "currency": currency,
                                "metadata": {"organization": org}}}}


def balance(stack):
    status, _, body = stack.call("GET", "/apis/nodus.dev/v1/organizations/dev/balance")
    assert status == 200, body
    return body["balance"]


def test_a_payment_is_credited_once_and_only_when_it_is_genuine(money):
    before = balance(money)
    assert payment(money, paid("pi_1", 2500), secret="wrong")[0] == 400
    assert payment(money, paid("pi_1", 2500), at=time.time() - 400)[0] == 400
    assert payment(money, paid("pi_1", 2500, currency="eur"))[0] == 422
    assert payment(money, paid("pi_1", 25.5))[0] == 422
    assert money.call("POST", "/webhooks/stripe", b"{}", key="")[0] == 400
    assert money.call("POST", "/webhooks/stripe", b"x" * 300_000, key="")[0] == 413
    assert balance(money) == before
    assert payment(money, paid("pi_1", 2500))[2] == {"received": True, "posted": True}
    assert payment(money, paid("pi_1", 2500))[2] == {"received": True, "posted": False}
    assert payment(money, paid("pi_1", 2600))[0] == 409
    assert balance(money) == "125.000000000000"
    status, _, body = money.call("GET", "/apis/nodus.dev/v1/organizations/dev/credits")
    assert status == 200 and [c["id"] for c in body["items"]] == ["dev-grant", "stripe/pi_1"]


def test_a_payment_on_its_way_is_answered_though_keys_are_looked_at(money):
    """It has no key. That keys were looked at meanwhile shows a watch whose key was revoked: it is cut."""
    keys = "/apis/nodus.dev/v1/organizations/dev/keys"
    status, _, made = money.call("POST", keys, {"metadata": {"name": "brief"}, "spec": {"role": "viewer"}})
    assert status == 201, made
    watch = urllib.request.Request(money.env["NODUS_API"] + "/sandboxes?watch=true&timeoutSeconds=60",
                                   headers={"Authorization": f"Bearer {made['status']['key']}"})
    api = urllib.parse.urlsplit(money.env["NODUS_API"])
    with (socket.create_connection((api.hostname, api.port), timeout=20) as payment_on_its_way,
          urllib.request.urlopen(watch, timeout=30) as watching):
        payment_on_its_way.sendall(b"POST /webhooks/stripe HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100\r\n"
                                   b"Expect: 100-continue\r\n\r\n")
        assert payment_on_its_way.recv(4096).startswith(b"HTTP/1.1 100 ")
        assert money.call("DELETE", f"{keys}/brief")[0] == 200
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            watching.read()
        payment_on_its_way.sendall(b"x" * 100)
        assert payment_on_its_way.recv(4096).startswith(b"HTTP/1.1 400 "), "its signature is missing"


def test_a_quote_is_what_the_start_then_pays(money):
    quoted = json.loads(money.nodus("quote", "--cpu", "0.5", "--memory", "256Mi", "-o", "json").out)
    assert quoted["funded"] is True and quoted["priceVersion"] == "example-1"
    assert "a second" in money.nodus("quote").out
    refused = money.nodus("quote", "--cpu", "65")
    assert refused.code == 1 and "0.25 to 64 vCPU" in refused.err
    status, _, prices = money.call("GET", "/apis/nodus.dev/v1/prices")
    assert status == 200 and prices["items"][0]["state"] == "InForce"

    assert money.create("quoted", resources={"cpu": "0.5", "memory": "256Mi"})[0] == 201
    wait_until(lambda: money.phase("quoted") == "Running", 60, "Running")
    assert money.sandbox("quoted")["status"]["rate"] == quoted["ratePerSecond"]
    assert money.nodus("delete", "sb/quoted").code == 0


def test_the_operators_commands_refuse_and_the_audit_holds(money):
    ask = ["credit", "--org", "dev", "--author", "ann", "--kind"]
    for more in (["Grant", "--amount", "1e3", "--id", "x"], ["Grant", "--amount", "NaN", "--id", "x"],
                 ["Gift", "--amount", "1.00", "--id", "x"], ["Refund", "--amount", "1000.00", "--id", "x"],
                 ["Grant", "--amount", "1.0000000000001", "--id", "x"],
                 ["Grant", "--amount", "1.00", "--id", "x", "--expires", "2020-01-01T00:00:00Z"]):
        done = operator(money, *ask, *more)
        assert done.returncode == 1 and done.stderr, more
    assert "posted" in operator(money, *ask, "Adjustment", "--amount", "-5.00", "--id", "a1").stdout
    assert "posted before" in operator(money, *ask, "Adjustment", "--amount", "-5.00", "--id", "a1").stdout
    assert operator(money, *ask, "Adjustment", "--amount", "-6.00", "--id", "a1").returncode == 1
    wait_until(lambda: money.phase("quoted") is None, 60, "its end")
    assert "entries sealed" in operator(money, "seal").stdout
    for command in (["verify"], ["rebuild", "--check"], ["audit"]):
        done = operator(money, *command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_operator_api_does_the_same_over_http(money):
    """On metering's own address, with its token; the public API knows nothing of it."""
    listen = yaml.safe_load((money.home / "etc/metering.yaml").read_text())["http"]["listen"]
    token = secrets_of(money)["NODUS_OPERATOR_TOKEN"]

    def ask(method, path, body=None, token=token):
        connection = http.client.HTTPConnection(listen, timeout=60)
        connection.request(method, f"/operator/v1/{path}", body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    assert ask("GET", "prices", token=money.env["NODUS_API_KEY"])[0] == 401
    assert money.call("GET", "/operator/v1/prices", key=token)[0] in (401, 404)

    version = f"http-{int(time.time())}"
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    book = {"versions": [version], "prices": {version: {
        "effectiveAt": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "cpuPerVcpuSecond": "0.000008", "memoryPerGibSecond": "0.000001",
        "diskPerGibSecond": "0.00000002"}}}
    assert ask("POST", "prices", yaml.safe_dump(book)) == (201, {"published": [version]})
    assert ask("POST", "prices", yaml.safe_dump(book)) == (200, {"published": []})
    status, _, prices = money.call("GET", "/apis/nodus.dev/v1/prices")
    assert status == 200 and {"version": version, "state": "Ahead"}.items() <= prices["items"][-1].items()

    before = decimal.Decimal(balance(money))
    grant = {"kind": "Grant", "id": version, "amount": "3.25", "author": "ann"}
    assert ask("POST", "organizations/dev/credits", json.dumps(grant))[0] == 201
    assert ask("POST", "organizations/dev/credits", json.dumps(grant))[0] == 200
    assert ask("POST", "organizations/dev/credits", json.dumps(grant | {"amount": 3.25}))[0] == 422
    assert decimal.Decimal(balance(money)) == before + decimal.Decimal("3.25")
    assert any(item["id"] == version for item in ask("GET", "organizations/dev/credits")[1]["items"])
