"""kill -9 of any program in the middle of any step of the quick start, then a restart: the same final state, and every
line of the bill is rate × the recorded interval."""
import random
import re
import shutil
import subprocess
import threading
import time
from decimal import Decimal

import pytest

from stack import ROOT, running_stack, wait_until

SEED = 20260101


class Killer:
    """Kills one program a moment into each step and restarts it."""

    def __init__(self, stack, victim, seed):
        self.stack, self.victim, self.random = stack, victim, random.Random(seed)

    def during(self, step):
        delay = self.random.uniform(0.0, 0.6)
        failures = []

        def strike():
            try:
                time.sleep(delay)
                self.stack.kill(self.victim)
                self.stack.up()
            except Exception as error:  # noqa: BLE001  reported by the step's own thread
                failures.append(error)

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            return step()
        finally:
            thread.join(120)
            assert not failures, f"{self.victim} after {delay:.3f} s: {failures[0]}"


# Each program on the log bus; with Kafka, the broker and a service that both consumes and publishes.
CASES = [("log", victim) for victim in ("lifecycle", "scheduler", "metering", "nodusd")]
CASES += [("kafka", victim) for victim in ("scheduler", "kafka")]


@pytest.fixture(scope="module")
def crash_stack(request, tmp_path_factory):
    home = tmp_path_factory.mktemp(f"crash-in-a-directory-with-a-long-name-{request.param}")
    with running_stack(home, 27500 if request.param == "log" else 27600, request.param) as running:
        yield running


@pytest.mark.parametrize("crash_stack, victim", CASES, indirect=["crash_stack"], scope="module")
def test_quick_start_survives(crash_stack, victim, tmp_path):
    stack = crash_stack
    shutil.copy(ROOT / "examples/quickstart/sandbox.yaml", tmp_path)
    (tmp_path / "notes.txt").write_text("written from my laptop\n")
    killer = Killer(stack, victim, SEED)

    def step(*arguments, out=None):
        ran = killer.during(lambda: stack.nodus(*arguments, cwd=tmp_path))
        assert ran.code == 0, (arguments, ran, stack.logs())
        if out is not None:
            assert ran.out == out, (arguments, ran)

    step("apply", "-f", "sandbox.yaml", out="sandbox/hello created\n")
    step("exec", "sb/hello", "--", "echo", "hello from a sandbox", out="hello from a sandbox\n")
    step("cp", "./notes.txt", "sb/hello:/workspace/notes.txt")
    step("exec", "sb/hello", "--", "cat", "/workspace/notes.txt", out="written from my laptop\n")
    step("stop", "sb/hello")
    assert stack.phase("hello") == "Stopped"
    step("exec", "sb/hello", "--", "cat", "/workspace/notes.txt", out="written from my laptop\n")
    step("stop", "sb/hello")
    uid = stack.sandbox("hello")["metadata"]["uid"]
    check_money(stack, uid)
    step("delete", "sb/hello")
    assert stack.sandbox("hello") is None
    assert stack.call("GET", "processes")[2]["items"] == []
    check_nothing_left(stack)


def recorded_seconds(stack, uid):
    """Money seconds of each start as the scheduler's log recorded them: instants are rated as whole seconds, rounded up."""
    rows = stack.sql(f"SELECT encode(payload, 'hex') FROM scheduler.events WHERE stream = 'slot/{uid}' "
                     "AND type = 'nodus.scheduler.v1.SlotReleased'")
    seconds = {}
    for row in rows:
        text = subprocess.run(["protoc", f"--proto_path={ROOT}/schemas", "--decode=nodus.scheduler.v1.SlotReleased",
                               "nodus/scheduler/v1/events.proto"], input=bytes.fromhex(row), capture_output=True, check=True,
                              cwd=ROOT / "schemas").stdout.decode()

        def field(name):
            return int(re.search(rf"\b{name}: (\d+)", text).group(1))

        assert field("start") not in seconds, "a start was released twice"
        seconds[field("start")] = -(-field("released_at_us") // 10**6) - -(-field("reserved_at_us") // 10**6)
    return seconds


def check_money(stack, uid):
    """Every line is exact, the lines of a start fill its recorded interval, nothing overlaps, COST is their sum."""

    def closed():
        _, _, bill = stack.call("GET", "bill?sandbox=hello")
        mine = [line for line in bill["lines"] if line["sandboxUid"] == uid and line["kind"] != "Storage"]
        return (mine,) if not any(line.get("open") for line in mine) else None

    recorded = recorded_seconds(stack, uid)
    assert len(recorded) == stack.sandbox("hello")["status"]["starts"]
    billed = None

    def billed_whole():
        nonlocal billed
        lines = closed()
        billed = lines[0] if lines else None
        return billed is not None and sum(line["seconds"] for line in billed) == sum(recorded.values())

    wait_until(billed_whole, 60, f"a closed bill over {recorded}")
    for line in billed:
        assert Decimal(line["amount"]) == Decimal(line["rate"]) * line["seconds"], line
    for start, seconds in recorded.items():
        assert sum(line["seconds"] for line in billed if line["start"] == start) == seconds, (start, billed)
    spans = sorted((line["from"], line["to"]) for line in billed)
    for (_, end), (begin, _) in zip(spans, spans[1:]):
        assert end <= begin, spans
    total = sum(Decimal(line["amount"]) for line in billed)
    wait_until(lambda: Decimal(stack.sandbox("hello")["status"]["cost"]) == total, 30, "COST equal to the bill")


def check_nothing_left(stack):
    slots = stack.node_state() / "slots"
    wait_until(lambda: not slots.exists() or not any(slots.iterdir()), 60, "no slot left on the node")
