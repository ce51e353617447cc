"""Create by name, stops, starts and wakes that race, money that is short, and what status says."""
import concurrent.futures
import json
import time

import pytest

from stack import running_stack, wait_until

SHORT = {"lifecycle": {"idleTimeout": "1h", "maxLifetime": "2h"}}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    settings = ["lifecycle.spec.idleTimeoutMin=1s", "lifecycle.spec.maxLifetimeMin=1s", "lifecycle.deadlines.poll=100ms"]
    with running_stack(tmp_path_factory.mktemp("life"), 21000, settings=settings) as running:
        yield running


def condition(sandbox, kind):
    return next(c for c in sandbox["status"]["conditions"] if c["type"] == kind)


def events(stack, name, reason):
    _, _, found = stack.call("GET", f"events?fieldSelector=involvedObject.name={name}")
    return [e for e in found["items"] if e["reason"] == reason]


def patch(stack, name, **spec):
    return stack.call("PATCH", f"sandboxes/{name}", {"spec": spec},
                      headers={"Content-Type": "application/merge-patch+json"})


def execute(stack, name, *command):
    return stack.call("POST", f"sandboxes/{name}/exec", {"command": list(command)})


def test_a_hundred_creates_at_once_make_one(stack):
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(lambda _: stack.create("one", **SHORT), range(100)))
    created = [status for status, _, _ in answers if status == 201]
    again = [status for status, _, _ in answers if status == 200]
    assert len(created) == 1 and len(created) + len(again) == 100, [s for s, _, _ in answers]
    assert len({body["metadata"]["uid"] for _, _, body in answers}) == 1
    wait_until(lambda: stack.phase("one") == "Running", 60, "one Running")
    assert stack.sandbox("one")["status"]["starts"] == 1
    stack.delete("one")


def test_variables_reach_commands_and_are_shown_nowhere(stack):
    stack.create_running("env", env={"TOKEN": "tiger-stripes", "PLAIN": "a b"}, **SHORT)
    ran = stack.nodus("exec", "sb/env", "--", "sh", "-c", 'echo "$TOKEN/$PLAIN"')
    assert ran.out == "tiger-stripes/a b\n", ran
    status, _, answer = stack.call("POST", "sandboxes/env/exec?wait=true",
                                   {"command": ["sh", "-c", "echo $TOKEN"], "env": {"TOKEN": "own"}})
    assert status == 200 and "tiger-stripes" not in str(answer)
    assert stack.sandbox("env")["spec"]["env"] == {"TOKEN": "***", "PLAIN": "***"}
    status, _, body = stack.create("env", env={"TOKEN": "lion", "PLAIN": "a b"}, **SHORT)
    assert status == 409 and [c["field"] for c in body["details"]["causes"]] == ["spec.env.TOKEN"], body
    assert "lion" not in json.dumps(body) and "tiger" not in json.dumps(body)
    logs = stack.logs(lines=100000)
    assert "tiger-stripes" not in logs and "lion" not in logs
    stack.delete("env")


def test_stops_and_starts_that_race_end_as_asked(stack):
    stack.create("race", **SHORT)
    assert patch(stack, "race", state="Stopped")[0] == 200  # during the start
    wait_until(lambda: stack.phase("race") == "Stopped", 60, "the stop")
    sandbox = stack.sandbox("race")
    assert sandbox["spec"]["state"] == "Stopped" and sandbox["status"]["stopReason"] == "User"
    status, headers, body = execute(stack, "race", "true")  # wakes what a user stopped
    assert (status, body["reason"], headers["Retry-After"]) == (503, "SandboxStarting", "2"), body
    wait_until(lambda: stack.phase("race") == "Running", 60, "the wake")
    assert stack.sandbox("race")["spec"]["state"] == "Running"
    patch(stack, "race", state="Stopped")
    patch(stack, "race", state="Running")  # during the stop
    wait_until(lambda: stack.sandbox("race")["status"]["starts"] == 3 and stack.phase("race") == "Running", 60, "it again")
    stack.delete("race")


def test_delete_wins_and_the_name_is_free_after_it(stack):
    stack.create("gone", **SHORT)
    status, _, body = stack.call("DELETE", "sandboxes/gone")  # during the start
    assert status in (200, 202)
    status, _, body = stack.create("gone", **SHORT)
    if status == 409:
        assert body["reason"] == "SandboxNotRunning"
        status, _, body = execute(stack, "gone", "true")
        assert (status, body["reason"]) in ((409, "SandboxNotRunning"), (404, "NotFound"))
        wait_until(lambda: stack.create("gone", **SHORT)[0] == 201, 60, "a create after the delete")
    wait_until(lambda: stack.phase("gone") == "Running", 60, "the new one")
    stack.delete("gone")
    assert execute(stack, "gone", "true")[0] == 404


def test_too_small_a_cap_says_so_and_a_higher_one_starts_nothing(stack):
    status, _, body = stack.create("poor", maxCostUSD="0.000001", **SHORT)
    assert status == 201
    wait_until(lambda: stack.phase("poor") == "Stopped", 30, "the refusal")
    sandbox = stack.sandbox("poor")
    assert condition(sandbox, "Funded")["status"] == "False"
    assert condition(sandbox, "Funded")["reason"] == "BudgetExceeded" and "hold of $" in condition(sandbox, "Funded")["message"]
    assert sandbox["status"]["stopReason"] == "MaxCostReached"
    for status, _, body in (execute(stack, "poor", "true"), patch(stack, "poor", state="Running"),
                            stack.call("GET", "sandboxes/poor/files?path=/workspace/a")):
        assert (status, body["reason"]) == (402, "BudgetExceeded"), body
        assert "maxCostUSD" in body["message"] and "hold of $" in body["message"]
    assert stack.create("poor", maxCostUSD="0.000001", **SHORT)[2]["status"]["phase"] == "Stopped"
    status, _, body = stack.create("poor", maxCostUSD="1.00", **SHORT)
    assert (status, body["status"]["phase"], body["spec"]["maxCostUSD"]) == (200, "Stopped", "1.00"), body
    assert stack.create("poor", maxCostUSD="1.00", **SHORT)[0] == 200
    wait_until(lambda: stack.phase("poor") == "Running", 60, "the start")
    stack.delete("poor")


def test_status_says_what_keeps_it_awake_and_what_comes_next(stack):
    stack.create_running("awake", lifecycle={"idleTimeout": "10m", "maxLifetime": "2h"})
    before = stack.sandbox("awake")["status"]
    assert before["next"]["action"] == "Stop" and before["next"]["reason"] == "Idle"
    ran = stack.nodus("exec", "sb/awake", "--", "sh", "-c", "setsid sleep 10000 >/dev/null 2>&1 </dev/null &")
    assert ran.code == 0, ran  # the command is over, and what it left behind is not
    busy = wait_until(lambda: (s := stack.sandbox("awake")["status"]).get("awakeBecause", "").startswith("process ") and s,
                      60, "the process that keeps it awake")  # until its end is reported, it is the command
    assert busy["activity"] == "Busy" and "sleep" in busy["awakeBecause"], busy
    assert busy["next"]["action"] == "Delete" and busy["next"]["reason"] == "MaxLifetime"
    named = busy["awakeBecause"].split()[1]  # its number in the Sandbox
    assert stack.nodus("exec", "sb/awake", "--", "sh", "-c", f"kill {named}").code == 0
    idle = wait_until(lambda: (s := stack.sandbox("awake")["status"])["activity"] == "Idle" and s, 60, "Idle")
    assert idle["next"]["reason"] == "Idle" and "awakeBecause" not in idle
    stack.delete("awake")


def test_a_warning_comes_before_max_lifetime_deletes_files(stack):
    began = time.monotonic()
    stack.create_running("short", lifecycle={"idleTimeout": "0s", "maxLifetime": "20s"})
    warning = wait_until(lambda: events(stack, "short", "MaxLifetimeNear"), 30, "the warning")
    assert warning[0]["type"] == "Warning" and stack.sandbox("short") is not None
    wait_until(lambda: stack.sandbox("short") is None, 60, "the end")
    assert time.monotonic() - began >= 20, "early"
