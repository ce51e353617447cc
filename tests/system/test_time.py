"""Idle stops, onIdle and maxLifetime. The durations of the product are configuration, so this need not wait for them;
the nightly run takes the real ones."""
import os
import time
from decimal import Decimal

import pytest

from stack import running_stack, wait_until

NIGHTLY = bool(os.environ.get("NODUS_NIGHTLY"))
IDLE_S, LIFETIME_S = (60, 150) if NIGHTLY else (2, 14)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    settings = [] if NIGHTLY else ["lifecycle.spec.idleTimeoutMin=1s", "lifecycle.spec.maxLifetimeMin=1s",
                                   "lifecycle.deadlines.poll=100ms"]
    with running_stack(tmp_path_factory.mktemp("time"), 27700, settings=settings) as stack:
        yield stack


def lifecycle(**changes):
    return {"lifecycle": {"idleTimeout": f"{IDLE_S}s", "maxLifetime": f"{LIFETIME_S * 20}s"} | changes}


def test_idle_stops_never_early_and_the_next_command_wakes(quick):
    quick.create_running("idle", **lifecycle())
    quick.nodus("exec", "sb/idle", "--", "sh", "-c", "echo kept > /workspace/file")
    last_use = time.monotonic()
    wait_until(lambda: quick.phase("idle") == "Stopped", IDLE_S + 60, "the idle stop")
    assert time.monotonic() - last_use >= IDLE_S
    status = quick.sandbox("idle")["status"]
    assert status["stopReason"] == "Idle" and status["restorePoint"]["sizeBytes"] > 0
    cost = Decimal(status["cost"])
    assert quick.nodus("exec", "sb/idle", "--", "cat", "/workspace/file").out == "kept\n"
    assert cost > 0
    quick.delete("idle")


def test_a_silent_command_keeps_it_busy(quick):
    quick.create_running("busy", **lifecycle())
    running = quick.start_nodus("exec", "sb/busy", "--", "sleep", IDLE_S * 3)
    assert running.wait(IDLE_S * 3 + 60) == 0
    status = quick.sandbox("busy")["status"]
    assert status["starts"] == 1 and status["phase"] in ("Running", "Stopping", "Stopped"), status
    quick.delete("busy")


def test_a_daemon_keeps_it_running_without_a_flicker(quick):
    quick.create_running("daemon", **lifecycle())
    quick.nodus("exec", "sb/daemon", "--", "sh", "-c", "setsid sleep 10000 >/dev/null 2>&1 </dev/null &")
    quick.create_running("clock", **lifecycle())
    for _ in range(2):  # two idle times of a neighbour
        wait_until(lambda: quick.phase("clock") == "Stopped", IDLE_S + 60, "the idle stop of its neighbour")
        quick.nodus("exec", "sb/clock", "--", "true")
    status = quick.sandbox("daemon")["status"]
    assert status["starts"] == 1 and status["phase"] in ("Running", "Stopping"), status
    assert quick.nodus("exec", "sb/daemon", "--", "echo", "here").out == "here\n"
    quick.delete("daemon")
    quick.delete("clock")


def test_reading_objects_is_not_activity(quick):
    quick.create_running("watched", **lifecycle())
    wait_until(lambda: quick.phase("watched") == "Stopped", IDLE_S + 60, "the idle stop of a Sandbox that is only read")
    quick.delete("watched")


def test_on_idle_delete_removes_it(quick):
    quick.create_running("gone", **lifecycle(onIdle="Delete"))
    wait_until(lambda: quick.sandbox("gone") is None, IDLE_S + 60, "the end of it")


def test_never_idle(quick):
    quick.create_running("forever", **lifecycle(idleTimeout="0s"))
    quick.create_running("witness", **lifecycle())
    wait_until(lambda: quick.phase("witness") == "Stopped", IDLE_S + 60, "the idle stop of its witness")
    assert quick.phase("forever") == "Running"
    quick.delete("forever")
    quick.delete("witness")


def test_max_lifetime_deletes_whatever_it_does(quick):
    began = time.monotonic()
    quick.create_running("mortal", **lifecycle(maxLifetime=f"{LIFETIME_S}s"))
    running = quick.start_nodus("exec", "sb/mortal", "--", "sleep", LIFETIME_S * 5)
    wait_until(lambda: quick.sandbox("mortal") is None, LIFETIME_S + 60, "the end of it")
    assert time.monotonic() - began >= LIFETIME_S
    assert running.wait(60) != 0


def test_a_command_that_runs_too_long_is_killed(quick):
    quick.create_running("slow", **lifecycle(idleTimeout="0s"))
    ran = quick.nodus("exec", "--timeout", "2s", "sb/slow", "--", "sleep", "60")
    assert ran.code != 0
    wait_until(lambda: "DeadlineExceeded" in quick.nodus("get", "processes").out, 20, "the record of its end")
    assert quick.phase("slow") == "Running"
    quick.delete("slow")
