"""The quick start of the product page, to the letter, through the CLI."""
import hashlib
import re
import shutil
from decimal import Decimal

import pytest

from stack import ROOT, wait_until


def columns(line):
    return re.split(r"\s{2,}|\s", line.strip())


@pytest.fixture
def work(tmp_path):
    shutil.copy(ROOT / "examples/quickstart/sandbox.yaml", tmp_path)
    (tmp_path / "notes.txt").write_text("written from my laptop\n")
    return tmp_path


def test_to_the_letter(stack, work):
    assert stack.nodus("apply", "-f", "sandbox.yaml", cwd=work).out == "sandbox/hello created\n"
    hello = stack.nodus("exec", "sb/hello", "--", "echo", "hello from a sandbox")
    assert (hello.code, hello.out) == (0, "hello from a sandbox\n"), hello.err
    copied = stack.nodus("cp", "./notes.txt", "sb/hello:/workspace/notes.txt", cwd=work)
    assert (copied.code, copied.out) == (0, ""), copied.err
    assert stack.nodus("exec", "sb/hello", "--", "cat", "/workspace/notes.txt").out == "written from my laptop\n"

    versions = stack.nodus("exec", "sb/hello", "--", "sh", "-c", "python3 --version; node --version; git --version")
    assert re.fullmatch(r"Python 3\.12\.\d+\nv22\.\d+\.\d+\ngit version .*\n", versions.out), versions

    header, row = stack.nodus("get", "sb/hello").out.splitlines()
    assert columns(header) == ["NAME", "PHASE", "ACTIVITY", "CPU", "MEMORY", "GPU", "COST", "AGE"]
    assert re.fullmatch(r"hello +Running +(Busy|Idle) +1 +2Gi +- +\$0\.\d{4} +\d+[sm]\S*", row), row

    wait_until(lambda: Decimal(stack.sandbox("hello")["status"]["cost"]) > 0, 20, "a second of money time")
    stopped = stack.nodus("stop", "sb/hello")
    assert (stopped.code, stopped.out) == (0, ""), stopped.err
    status = stack.sandbox("hello")["status"]
    assert (status["phase"], status["stopReason"]) == ("Stopped", "User")
    assert status["restorePoint"]["sizeBytes"] > 0
    cost = Decimal(status["cost"])
    assert cost > 0

    woken = stack.nodus("exec", "sb/hello", "--", "cat", "/workspace/notes.txt")
    assert (woken.code, woken.out) == (0, "written from my laptop\n"), woken.err
    assert Decimal(stack.sandbox("hello")["status"]["cost"]) >= cost

    back = stack.nodus("cp", "sb/hello:/workspace/notes.txt", "./back.txt", cwd=work)
    assert back.code == 0, back.err
    assert (work / "back.txt").read_text() == "written from my laptop\n"
    assert stack.nodus("delete", "sb/hello").code == 0
    assert stack.sandbox("hello") is None
    gone = stack.nodus("get", "sb/hello")
    assert gone.code != 0 and "hello" in gone.err


def test_exec_is_the_commands(stack):
    stack.create_running("codes")
    for script, code, out, err in [("exit 3", 3, "", ""), ("echo a; echo b >&2; exit 1", 1, "a\n", "b\n"),
                                   ("kill -9 $$", 137, "", ""), ("true", 0, "", "")]:
        ran = stack.nodus("exec", "sb/codes", "--", "sh", "-c", script)
        assert (ran.code, ran.out) == (code, out), (script, ran)
        assert err in ran.err
    missing = stack.nodus("exec", "sb/codes", "--", "/no/such/program")
    assert missing.code == 127, missing
    for text in ("NonZeroExit", "Signaled", "StartFailed", "sb-codes-1"):
        wait_until(lambda: text in stack.nodus("get", "processes").out, 20, f"{text} in the list")
    stack.delete("codes")


def test_output_streams_as_it_is_written(stack):
    stack.create_running("streams")
    assert stack.nodus("exec", "sb/streams", "--", "mkfifo", "/workspace/go").code == 0
    running = stack.start_nodus("exec", "sb/streams", "--", "sh", "-c",
                                "echo first; read x < /workspace/go; echo second")
    assert running.stdout.readline() == "first\n"  # while the command waits for us
    assert running.poll() is None
    assert stack.nodus("exec", "sb/streams", "--", "sh", "-c", "echo > /workspace/go").code == 0
    out, err = running.communicate(timeout=60)
    assert (out, running.returncode) == ("second\n", 0), err
    stack.delete("streams")


def test_files_keep_their_bytes(stack, tmp_path):
    stack.create_running("files")
    content = bytes(range(256)) * 4096
    (tmp_path / "in.bin").write_bytes(content)
    assert stack.nodus("cp", "in.bin", "sb/files:/workspace/deep/er/in.bin", cwd=tmp_path).code == 0
    digest = stack.nodus("exec", "sb/files", "--", "sha256sum", "/workspace/deep/er/in.bin").out.split()[0]
    assert digest == hashlib.sha256(content).hexdigest()
    assert stack.nodus("cp", "sb/files:/workspace/deep/er/in.bin", "out.bin", cwd=tmp_path).code == 0
    assert (tmp_path / "out.bin").read_bytes() == content
    status, _, body = stack.call("GET", "sandboxes/files/files?path=/workspace/none")
    assert (status, body["reason"]) == (404, "NotFound")
    status, _, body = stack.call("PUT", "sandboxes/files/files?path=/etc/passwd", b"x",
                                 headers={"Content-Type": "application/octet-stream"})
    assert status == 403, body
    stack.delete("files")


def test_a_stopped_sandbox_answers_starting_and_wakes(stack):
    stack.create_running("wakes")
    stack.nodus("stop", "sb/wakes")
    status, headers, body = stack.call("POST", "sandboxes/wakes/exec", {"command": ["true"]})
    assert (status, body["reason"], headers["Retry-After"]) == (503, "SandboxStarting", "2"), body
    wait_until(lambda: stack.phase("wakes") == "Running", 60, "the wake")
    assert stack.sandbox("wakes")["spec"]["state"] == "Running"
    stack.delete("wakes")


def test_create_by_name_reconnects(stack):
    stack.create_running("again", maxCostUSD="1.00")
    uid = stack.sandbox("again")["metadata"]["uid"]
    status, _, body = stack.create("again", maxCostUSD="1.00", resources={"cpu": "1000m", "memory": "1024Mi"})
    assert (status, body["metadata"]["uid"]) == (200, uid)
    status, _, body = stack.create("again", maxCostUSD="2.00")
    assert (status, Decimal(body["spec"]["maxCostUSD"])) == (200, 2)
    status, _, body = stack.create("again", maxCostUSD="1.50", resources={"cpu": "2"})
    assert (status, body["reason"]) == (409, "AlreadyExists")
    fields = {cause["field"] for cause in body["details"]["causes"]}
    assert fields == {"spec.maxCostUSD", "spec.resources.cpu"}
    assert {entry["field"] for entry in body["details"]["diff"]} == fields
    stack.delete("again")


def test_what_a_stopped_sandbox_keeps_is_stored_and_billed_until_it_is_deleted(stack):
    stack.create_running("keeper")
    ran = stack.nodus("exec", "sb/keeper", "--", "sh", "-c", "head -c 8000000 /dev/urandom > /workspace/data")
    assert ran.code == 0, ran
    stack.nodus("stop", "sb/keeper")

    def stored(closed):
        _, _, bill = stack.call("GET", "bill?sandbox=keeper")
        return [line for line in bill["lines"] if line["kind"] == "Storage" and bool(line.get("open")) != closed]

    line = wait_until(lambda: stored(closed=False), 30, "an open line of storage")[0]
    rate = Decimal(line["rate"])
    assert rate > 0 and line["reason"] == "Charged" and Decimal(line["amount"]) == rate * line["seconds"], line
    cost = stack.sandbox("keeper")["status"]["cost"]
    wait_until(lambda: stored(closed=False)[0]["seconds"] > line["seconds"], 20, "another second of it")
    assert stack.sandbox("keeper")["status"]["cost"] == cost  # of compute only
    assert "Storage" in stack.nodus("bill").out
    stack.delete("keeper")
    line = wait_until(lambda: stored(closed=True), 30, "its end")[0]
    assert Decimal(line["amount"]) == rate * line["seconds"] and not stored(closed=False), line


def test_every_line_of_the_bill_is_rate_times_interval(stack):
    stack.create_running("billed")
    wait_until(lambda: Decimal(stack.sandbox("billed")["status"]["cost"]) > 0, 20, "a second of money time")
    stack.nodus("stop", "sb/billed")

    def lines():
        _, _, bill = stack.call("GET", "bill?sandbox=billed")
        found = [line for line in bill["lines"] if not line.get("open") and line["kind"] != "Storage"]
        return found if found else None

    for line in wait_until(lines, 20, "the bill"):
        assert Decimal(line["amount"]) == Decimal(line["rate"]) * line["seconds"], line
    total = sum(Decimal(line["amount"]) for line in lines())
    wait_until(lambda: Decimal(stack.sandbox("billed")["status"]["cost"]) == total, 20, "COST equal to the bill")
    assert "billed" in stack.nodus("bill").out
    stack.delete("billed")
