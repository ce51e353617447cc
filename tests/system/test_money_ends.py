"""Budgets and caps on the running product hold to the second; what races an end ends in one of two states."""
import calendar
import threading
import time
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
    return [line for line in body["lines"] if line["kind"] != "Storage"]  # of what runs


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


def one_of_two_states(stack, name, old_end):
    """After a raise that raced the end: it runs and every second is paid, or it stops and pays nothing after `old_end`."""
    def settled():
        phase = stack.phase(name)
        if phase == "Stopped":
            return phase
        seconds = sum(line["seconds"] for line in lines(stack, name))
        return phase if phase == "Running" and seconds > old_end + 3 else None

    phase = wait_until(settled, 60, "one of the two states")
    billed = lines(stack, name)
    if phase == "Running":
        assert not any(line["waived"] for line in billed), billed
    else:
        assert sum(line["seconds"] for line in billed if not line["waived"]) <= old_end, billed
    return phase


def race(stack, name, end_s, raise_it):
    """Raises around the second at which its money ends: well before it, about at it, and after it."""
    outcomes = []
    for number, offset in enumerate((-3, -0.3, 0.1, 0.8)):
        sandbox = f"{name}{number}"
        prepare, raised = raise_it(sandbox)
        prepare()
        wait_until(lambda: stack.phase(sandbox) == "Running", 60, "Running")
        began = min(line["from"] for line in wait_until(lambda: lines(stack, sandbox), 10, "its first line"))
        instant = calendar.timegm(time.strptime(began, "%Y-%m-%dT%H:%M:%SZ")) + end_s + offset
        wait_until(lambda: time.time() >= instant, 60, "the instant")
        raised()
        outcomes.append(one_of_two_states(stack, sandbox, end_s))
        stack.delete(sandbox)
    return outcomes


def test_a_raised_budget_that_races_the_end(money):
    per_second = rate(money)
    end_s = HOLD_S + 8

    def raise_it(sandbox):
        def prepare():
            put(money, "race", Decimal(1))  # it counts what the project spent before it, too
            put(money, "race", spent(money, "race") + end_s * per_second)
            money.create(sandbox, lifecycle={"idleTimeout": "0s"})
        return prepare, lambda: put(money, "race", spent(money, "race") + 600 * per_second)

    outcomes = race(money, "raised", end_s, raise_it)
    assert outcomes[0] == "Running" and outcomes[-1] == "Stopped", outcomes
    money.call("DELETE", "budgets/race")


def test_a_raised_cap_that_races_the_end(money):
    end_s = HOLD_S + 8
    cap = f"{end_s * rate(money):.12f}"

    def raise_it(sandbox):
        spec = {"lifecycle": {"idleTimeout": "0s"}}
        return (lambda: money.create(sandbox, maxCostUSD=cap, **spec),
                lambda: money.create(sandbox, maxCostUSD="1.00", **spec))

    outcomes = race(money, "capped", end_s, raise_it)
    assert outcomes[0] == "Running" and outcomes[-1] == "Stopped", outcomes


def test_with_metering_down_starts_answer_503_and_what_runs_goes_on(money):
    money.create_running("going", lifecycle={"idleTimeout": "0s"})
    money.create_running("asleep", lifecycle={"idleTimeout": "0s"})
    assert money.nodus("stop", "sb/asleep").code == 0
    running = money.start_nodus("exec", "sb/going", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1; done; echo whole")
    money.kill("metering")
    for status, headers, body in (execute(money, "asleep"),
                                  money.call("GET", "sandboxes/asleep/files?path=/workspace/a")):
        assert (status, body["reason"]) == (503, "SandboxStarting") and headers["Retry-After"], body
    status, _, body = money.call("GET", "budgets")
    assert (status, body["reason"]) == (503, "MeteringUnavailable")
    status, _, body = money.call("DELETE", "/apis/nodus.dev/v1/organizations/dev/projects/default")
    assert status in (409, 503), body
    made = money.create("new", lifecycle={"idleTimeout": "0s"})
    assert made[0] == 201 and money.phase("new") == "Pending", "it is there, and not started unpaid"
    assert money.nodus("exec", "sb/going", "--", "echo", "here").out == "here\n"
    assert running.communicate(timeout=60)[0] == "whole\n"
    assert money.phase("going") == "Running"
    money.up()
    wait_until(lambda: money.phase("new") == "Running", 150, "the start that waited")
    assert money.nodus("exec", "sb/asleep", "--", "true").code == 0
    gone = lines(money, "going")
    assert not any(line["waived"] for line in gone) and sum(line["seconds"] for line in gone) >= 8
    for name in ("going", "asleep", "new"):
        money.delete(name)
    audited = money.operator("metering", "audit")
    assert audited.code == 0, audited.out + audited.err
