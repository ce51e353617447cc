"""A Budget on the running product ends what runs to the second."""
import threading
from decimal import Decimal

import pytest

from kubernetes_api import lines_of
from stack import running_stack, wait_until

HOLD_S = 8
PICO = Decimal("0.000000000001")


@pytest.fixture(scope="module")
def money(tmp_path_factory):
    settings = [f"metering.money.hold={HOLD_S}s", "metering.money.stopReserve=3s", "metering.deadlines.poll=100ms"]
    with running_stack(tmp_path_factory.mktemp("budgets"), 24800, settings=settings) as stack:
        yield stack


@pytest.fixture(autouse=True)
def no_budgets(money):
    """A test that fails leaves no limit to the next one."""
    yield
    for one in money.call("GET", "budgets")[2].get("items", []):
        money.call("DELETE", f"budgets/{one['metadata']['name']}")


def budget(name, limit):
    return {"apiVersion": "nodus.dev/v1", "kind": "Budget", "metadata": {"name": name},
            "spec": {"limitUSD": limit, "period": "Total"}}


def put(stack, name, limit):
    """Raises or lowers it, or makes it."""
    status, _, body = stack.call("PATCH", f"budgets/{name}", {"spec": {"limitUSD": f"{limit:.12f}"}},
                                 headers={"Content-Type": "application/merge-patch+json"})
    if status == 404:
        status, _, body = stack.call("POST", "budgets", budget(name, f"{limit:.12f}"))
    assert status in (200, 201), body
    return body


def spent(stack, name):
    return Decimal(stack.call("GET", f"budgets/{name}")[2]["status"]["spentUSD"])


def lines(stack, sandbox):
    status, _, body = stack.call("GET", f"bill?sandbox={sandbox}")
    assert status == 200, body
    return body["lines"]


def rate(stack):
    return Decimal(stack.call("GET", "quote?cpu=1&memory=1Gi")[2]["ratePerSecond"])


def followed(stack):
    """What a watch of Budgets tells from here on, over as many connections as it takes, and its thread."""
    events = []
    version = stack.call("GET", "budgets")[2]["metadata"]["resourceVersion"]

    def follow(at):
        while not events or events[-1]["type"] != "DELETED":
            path = "/apis/nodus.dev/v1/namespaces/default/budgets?watch=true&timeoutSeconds=20&resourceVersion="
            for event in lines_of(stack, path + at):
                events.append(event)
                at = event["object"]["metadata"]["resourceVersion"]

    follower = threading.Thread(target=follow, args=(version,), daemon=True)
    follower.start()
    return events, follower


def execute(stack, name):
    return stack.call("POST", f"sandboxes/{name}/exec", {"command": ["true"]})


def test_it_ends_what_runs_to_the_second_and_wakes_when_raised(money):
    per_second = rate(money)
    hold = HOLD_S * per_second
    put(money, "team", (HOLD_S + 12) * per_second)
    events, follower = followed(money)
    money.create_running("limited", lifecycle={"idleTimeout": "0s"})
    running = money.start_nodus("exec", "sb/limited", "--", "sleep", "600")
    wait_until(lambda: money.phase("limited") == "Stopped", 90, "the end of the Budget")
    assert running.wait(60) != 0
    assert money.sandbox("limited")["status"]["stopReason"] == "BudgetExceeded"
    _, _, team = money.call("GET", "budgets/team")
    assert Decimal(team["status"]["spentUSD"]) == (HOLD_S + 12) * per_second, "all of it, and not a second more"
    assert team["status"]["remainingUSD"] == "0.000000000000" and team["status"]["thresholdReachedPercent"] == 100
    assert [(one["type"], one["status"]) for one in team["status"]["conditions"]] == [("Exhausted", "True")]
    billed = lines(money, "limited")
    assert sum(Decimal(line["amount"]) for line in billed) == Decimal(team["status"]["spentUSD"])
    assert all(Decimal(line["amount"]) == (0 if line["waived"] else per_second * line["seconds"]) for line in billed)
    assert any(line["waived"] for line in billed), "the seconds of its end are nobody's"

    for attempt in (execute(money, "limited"), money.call("GET", "sandboxes/limited/files?path=/workspace/a")):
        status, _, body = attempt
        assert (status, body["reason"]) == (402, "BudgetExceeded"), body
        assert f"a hold of ${hold:.12f}" in body["message"] and "budget/team has $0.000000000000 left" in body["message"]

    put(money, "team", (HOLD_S + 12) * per_second + hold - PICO)  # a pico-dollar too little
    assert execute(money, "limited")[2]["reason"] == "BudgetExceeded"
    assert money.call("GET", "budgets/team")[2]["status"]["remainingUSD"] == f"{hold - PICO:.12f}"
    put(money, "team", (HOLD_S + 12 + 600) * per_second)
    assert money.nodus("exec", "sb/limited", "--", "true").code == 0, "a raised Budget lets it wake"

    lowered = put(money, "team", per_second)  # far below what is spent
    assert "exhaustedAt" in lowered["status"]
    wait_until(lambda: money.phase("limited") == "Stopped", 60, "the stop of a lowered Budget")
    assert money.sandbox("limited")["status"]["stopReason"] == "BudgetExceeded"
    assert sum(Decimal(line["amount"]) for line in lines(money, "limited")) == spent(money, "team")
    assert spent(money, "team") == Decimal(lowered["status"]["spentUSD"]), "nothing after that second"
    money.call("DELETE", "budgets/team")
    follower.join(60)
    reached = [event["object"]["status"]["thresholdReachedPercent"] for event in events if event["type"] == "MODIFIED"]
    assert {50, 80, 100} <= set(reached) and events[-1]["type"] == "DELETED"
    money.delete("limited")
