#!/usr/bin/python3
"""From metering's decision to what the API answers, on both transports. Needs a release build; root.

    bench/cost.py [ROUNDS]

A Sandbox is started; metering freezes its rate (StartFunded, its own clock) and `status.rate`, from which COST is computed,
is polled through the API. The instant of the event is taken before its commit, so the figure holds the commit too.
"""
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/system"))
os.environ.setdefault("NODUS_PRESET", "release")
from stack import Stack  # noqa: E402  the preset is read on import

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 60


def seen(stack, name):
    """Microseconds of UTC at which the API first answered the rate."""
    end = time.time() + 20
    while time.time() < end:
        if "rate" in stack.sandbox(name)["status"]:
            return time.time_ns() // 1000
        time.sleep(0.001)
    raise AssertionError(f"no rate of {name}")


def measure(bus, ports):
    home = Path(tempfile.mkdtemp(prefix="nodus-bench-cost-"))
    stack = Stack(home, ports, bus)
    try:
        stack.up()
        took = []
        for number in range(ROUNDS + 5):
            name = f"cost-{number}"
            status, _, body = stack.create(name)
            assert status == 201, body
            at = seen(stack, name)
            uid = body["metadata"]["uid"]
            decided = int(stack.sql("SELECT at_us FROM metering.events WHERE type = 'nodus.metering.v1.StartFunded'"
                                    f" AND stream = 'charge/{uid}' ORDER BY version LIMIT 1")[0])
            if number >= 5:
                took.append((at - decided) / 1000)
            stack.delete(name)
        took.sort()
        print(f"{bus:<6} decided to visible: p50 {took[len(took) // 2]:6.1f} ms   p99 {took[len(took) * 99 // 100]:6.1f} ms"
              "   (goal 100)", flush=True)
    finally:
        stack.down()
        shutil.rmtree(home, ignore_errors=True)


measure("log", 28000)
measure("kafka", 28100)
