"""A machine that is lost: what ran there ends NodeLost, and its Sandboxes start elsewhere from their last restore point."""
import re
from datetime import datetime, timedelta

import pytest

from kubernetes_api import lines_of
from stack import running_stack, wait_until

SMALL = {"resources": {"cpu": "0.25", "memory": "256Mi", "disk": "1Gi"}}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    settings = ["scheduler.scheduler.machines=[dev-1=dev, dev-2=dev]", "scheduler.scheduler.lease=4s",
                "scheduler.scheduler.poll=1s"]
    with running_stack(tmp_path_factory.mktemp("lost"), 23300, settings=settings) as running:
        yield running


def machines(stack):
    """What the operator sees: the lease of each machine."""
    table = stack.operator("scheduler", "machines").out.splitlines()[1:]
    return {line.split()[0]: re.search(r"\b(live|ended|lost|never synced)\b", line).group(1) for line in table}


def command(stack, name, *words):
    ran = stack.nodus("exec", f"sb/{name}", "--", *words)
    assert ran.code == 0, ran
    return ran.out


def declare_lost(stack):
    """As an operator does, once the lease is over; the instant of the last report, from what the command says."""
    refused = stack.operator("scheduler", "machines", "lost", "--machine", "dev-1")
    assert refused.code == 2 and "--force" in refused.err, refused
    said = wait_until(lambda: (ran := stack.operator("scheduler", "machines", "lost", "--machine", "dev-1")).code == 0 and ran,
                      60, "the end of the lease")
    assert all(name in said.out for name in ("snapshotted", "ephemeral", "stopping")), said
    return datetime.fromisoformat(re.search(r"last report was at (\S+?)\.? ", said.out).group(1).replace("Z", "+00:00"))


def phases(stack, since):
    """The phases of each Sandbox since that version, in order, as a watcher is told them."""
    path = "/apis/" + stack.env["NODUS_API"].split("/apis/")[1].rstrip("/")
    out = {}
    for event in lines_of(stack, f"{path}/sandboxes?watch=true&resourceVersion={since}&timeoutSeconds=1"):
        seen = out.setdefault(event["object"]["metadata"]["name"], [])
        if not seen or seen[-1] != event["object"]["status"]["phase"]:
            seen.append(event["object"]["status"]["phase"])
    return out


def test_what_ran_on_a_lost_machine(stack):
    stack.create_running("snapshotted", **SMALL)
    command(stack, "snapshotted", "sh", "-c", "echo kept > saved")
    assert stack.nodus("stop", "sb/snapshotted").code == 0
    command(stack, "snapshotted", "sh", "-c", "echo gone > unsaved")
    stack.create_running("ephemeral", continuity={"mode": "Ephemeral"}, **SMALL)
    stack.create_running("stopping", **SMALL)
    running = stack.start_nodus("exec", "sb/snapshotted", "--", "sh", "-c", "echo began; sleep 1000")
    assert running.stdout.readline() == "began\n"
    with stack.another_machine("dev-2", 11, "10.250.0.0/16"):
        wait_until(lambda: machines(stack).get("dev-2") == "live", 60, "the other machine")
        before = stack.call("GET", "sandboxes?limit=1")[2]["metadata"]["resourceVersion"]
        stack.kill("nodusd")
        stack.call("PATCH", "sandboxes/stopping", {"spec": {"state": "Stopped"}},
                   headers={"Content-Type": "application/merge-patch+json"})
        reported = declare_lost(stack)

        assert running.wait(60) == 137, "the command's client hears of it"
        rows = stack.nodus("get", "processes").out
        assert re.search(r"sb-snapshotted-\d+ .*NodeLost", rows), rows
        wait_until(lambda: stack.phase("snapshotted") == "Running", 90, "its start elsewhere")
        assert command(stack, "snapshotted", "sh", "-c", "cat saved; ls") == "kept\nsaved\n"
        assert stack.sandbox("snapshotted")["status"]["starts"] == 3
        told = phases(stack, before)
        assert "Recovering" in told["snapshotted"] and told["snapshotted"][-1] == "Running", told

        lost = stack.sandbox("ephemeral")["status"]
        assert (lost["phase"], lost["reason"]) == ("Failed", "NodeLost"), lost
        status, _, body = stack.call("POST", "sandboxes/ephemeral/exec", {"command": ["true"]})
        assert (status, body["reason"]) == (409, "SandboxFailed") and "NodeLost" in body["message"]
        stopped = stack.sandbox("stopping")["status"]
        assert (stopped["phase"], stopped["stopReason"]) == ("Stopped", "User"), stopped
        check_the_bill(stack, reported)

        stack.up()  # the lost machine was not lost after all: it comes back as it was
        wait_until(lambda: machines(stack)["dev-1"] == "live", 60, "its return as a new machine")
        slots = stack.node_state() / "slots"
        assert not slots.exists() or not any(slots.iterdir()), "it destroyed what it had"
        assert stack.phase("snapshotted") == "Running" and stack.sandbox("snapshotted")["status"]["starts"] == 3
        assert command(stack, "snapshotted", "cat", "saved") == "kept\n"
        assert stack.nodus("start", "sb/ephemeral").code == 0
        wait_until(lambda: stack.phase("ephemeral") == "Running", 60, "an explicit start")
        for name in ("snapshotted", "ephemeral", "stopping"):
            stack.delete(name)


def check_the_bill(stack, reported):
    """No line goes past the last report: whole seconds, rounded up."""
    end = (reported + timedelta(seconds=1)).replace(microsecond=0) if reported.microsecond else reported
    for name, start in (("snapshotted", 2), ("ephemeral", 1), ("stopping", 1)):

        def closed(name=name, start=start):
            _, _, bill = stack.call("GET", f"bill?sandbox={name}")
            lines = [line for line in bill["lines"] if line["start"] == start and line["kind"] != "Storage"]
            return lines if lines and not any(line.get("open") for line in lines) else None

        lines = wait_until(closed, 60, f"the closed lines of {name}")
        for line in lines:
            assert datetime.fromisoformat(line["to"].replace("Z", "+00:00")) <= end, (line, reported)
        assert not any(line.get("kind") == "Stopping" for line in lines), lines
