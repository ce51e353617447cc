"""Commands through the API: the nine ends, output that outlives its machine's copy, streams that are quiet, cancelled,
joined again, and broken by restarts in the middle."""
import base64
import concurrent.futures
import http.client
import json
import threading
import time
import urllib.parse
import uuid

import pytest

from stack import running_stack, wait_until

OUTPUT_LIMIT = 256 * 1024


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    settings = [f"nodusd.commands.outputBytes={OUTPUT_LIMIT}", "lifecycle.processes.handOver=2s",
                "lifecycle.processes.reportGrace=3s"]
    with running_stack(tmp_path_factory.mktemp("commands"), 22500, settings=settings) as running:
        running.create_running("c")
        yield running


def run(stack, *command, sandbox="c", headers=None, **body):
    status, _, answer = stack.call("POST", f"sandboxes/{sandbox}/exec?wait=true", {"command": list(command), **body},
                                   headers=headers)
    assert status == 200, answer
    return answer


def start(stack, *command, sandbox="c", key=None, **body):
    """Starts a command and leaves: its name."""
    connection, response = open_exec(stack, {"command": list(command), **body}, sandbox, key)
    name = response.getheader("X-Nodus-Process")
    connection.close()
    return name


def open_exec(stack, body, sandbox="c", key=None):
    api = urllib.parse.urlsplit(stack.env["NODUS_API"])
    connection = http.client.HTTPConnection(api.hostname, api.port, timeout=60)
    headers = {"Authorization": f"Bearer {stack.env['NODUS_API_KEY']}", "Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    connection.request("POST", f"{api.path}/sandboxes/{sandbox}/exec", json.dumps(body), headers)
    response = connection.getresponse()
    assert response.status == 200, response.read()
    return connection, response


def process(stack, name):
    status, _, body = stack.call("GET", f"processes/{name}")
    assert status == 200, body
    return body


def ended(stack, name, seconds=60):
    return wait_until(lambda: (found := process(stack, name))["status"]["phase"] == "Ended" and found, seconds,
                      f"the end of {name}")


def log(stack, name, query=""):
    status, _, body = stack.call("GET", f"processes/{name}/log{query}")
    assert status == 200, body
    return body


# ---- the nine ends


@pytest.mark.parametrize("command, timeout, reason, code", [
    (["true"], None, "", 0),
    (["sh", "-c", "exit 3"], None, "NonZeroExit", 3),
    (["sh", "-c", "kill -TERM $$"], None, "Signaled", 143),
    (["sleep", "60"], "1s", "DeadlineExceeded", 137),
    (["/no/such/program"], None, "StartFailed", 127),
    (["/etc/passwd"], None, "StartFailed", 126),
    (["sh", "-c", "yes | head -c 1000000; sleep 60"], None, "OutputLimitExceeded", 137),
])
def test_ends(stack, command, timeout, reason, code):
    result = run(stack, *command, **({"timeout": timeout} if timeout else {}))
    assert (result["reason"], result["exitCode"]) == (reason, code), result
    assert (result["message"] == "") == (reason in ("", "NonZeroExit")), result
    found = ended(stack, result["process"])
    status = found["status"]
    assert (status["reason"], status["exitCode"]) == (reason, code), found
    assert status["endedAt"] >= found["metadata"]["creationTimestamp"]
    assert ("startedAt" in status) == (reason != "StartFailed"), found
    if reason == "OutputLimitExceeded":
        assert status["output"]["stdoutBytes"] == OUTPUT_LIMIT == len(log(stack, result["process"]))
        assert result["truncated"] is False and len(result["stdout"]) == OUTPUT_LIMIT


def test_cancelled(stack):
    for cancel in (lambda name: stack.call("POST", f"processes/{name}/cancel", {}),
                   lambda name: stack.call("DELETE", f"processes/{name}")):
        name = start(stack, "sh", "-c", "echo here; sleep 1000 & sleep 1000")
        status, _, body = cancel(name)
        assert status == 200, body
        found = ended(stack, name)
        assert (found["status"]["reason"], found["status"]["exitCode"]) == ("Cancelled", 137), found
        status, _, body = cancel(name)
        assert (status, body["status"]["reason"]) == (200, "Cancelled"), "a repeat changes nothing"
    assert "sleep" not in run(stack, "ps")["stdout"], "the whole tree is killed"


def test_signal(stack):
    name = start(stack, "sh", "-c", "trap 'echo caught; exit 7' USR1; echo ready; while :; do sleep 0.1; done")
    wait_until(lambda: b"ready" in log(stack, name), 20, "its trap")
    status, _, body = stack.call("POST", f"processes/{name}/signal", {"signal": "SIGUSR1"})
    assert status == 200, body
    assert ended(stack, name)["status"]["exitCode"] == 7
    assert b"caught\n" in log(stack, name)
    status, _, body = stack.call("POST", f"processes/{name}/signal", {"signal": "SIGUSR1"})
    assert (status, body["reason"]) == (409, "ProcessEnded"), body
    for bad in ({"signal": "SIGNOT"}, {"signal": 9}, {}, {"signal": "SIGINT", "x": 1}):
        status, _, body = stack.call("POST", f"processes/{name}/signal", bad)
        assert status == 422, (bad, body)


def test_parent_stopped_and_output_that_is_kept(stack):
    """Readable while stopped, after the wake, and gone with the Sandbox."""
    stack.create_running("kept")
    text = b"".join(b"line %d\n" % i for i in range(20_000))
    command = ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo oops >&2"]
    quick = run(stack, *command, sandbox="kept")
    assert quick["stdout"].encode() == text and quick["stderr"] == "oops\n"
    slow = start(stack, "sh", "-c", "echo before; sleep 1000", sandbox="kept")
    wait_until(lambda: log(stack, slow) == b"before\n", 20, "its output in the store")
    stack.nodus("stop", "sb/kept")
    wait_until(lambda: stack.phase("kept") == "Stopped", 60, "the stop")
    assert ended(stack, slow)["status"]["reason"] == "ParentStopped"

    def readable():
        assert log(stack, quick["process"], "?stream=stdout") == text
        assert log(stack, quick["process"], "?stream=stderr") == b"oops\n"
        assert log(stack, quick["process"], f"?offset={len(text) - 7}") == text[-7:] + b"oops\n"
        assert log(stack, slow, "?follow=true") == b"before\n"
        assert process(stack, quick["process"])["status"]["output"] == {"stdoutBytes": len(text), "stderrBytes": 5}

    readable()
    stack.nodus("start", "sb/kept")
    wait_until(lambda: stack.phase("kept") == "Running", 60, "the wake")
    readable()
    outputs = stack.home / "output" / stack.sandbox("kept")["metadata"]["uid"]
    assert outputs.is_dir()
    stack.delete("kept")
    wait_until(lambda: not outputs.exists(), 30, "the outputs gone with their Sandbox")
    assert stack.call("GET", f"processes/{slow}")[0] == 404


# ---- the form of requests and answers


def test_input_as_bytes_and_output_as_it_is(stack):
    data = bytes(range(256)) * 1000
    status, _, result = stack.call("POST", "sandboxes/c/exec?command=sh&command=-c&command=cat%3B%20echo%20%24A%20%3E%262"
                                   "&env=A%3Db%3Dc&wait=true&encoding=base64&workingDir=/tmp", data[:100_000],
                                   headers={"Content-Type": "application/octet-stream"})
    assert status == 200, result
    assert base64.b64decode(result["stdout"]) == data[:100_000] and base64.b64decode(result["stderr"]) == b"b=c\n"
    result = run(stack, "printf", "a\\377b")
    assert result["stdout"] == "a�b" and result["stdoutBytes"] == 3
    assert log(stack, result["process"]) == b"a\xffb"
    assert process(stack, result["process"])["spec"]["command"] == ["printf", "a\\377b"]


def test_a_whole_result_has_a_bound(stack):
    result = run(stack, "sh", "-c", "head -c 200000 /dev/zero; echo end >&2")
    assert not result["truncated"] and result["stdoutBytes"] == 200_000


@pytest.mark.parametrize("query, fields", [
    ("", {"command"}), ("command=", {"command[0]"}), ("command=x&timeout=25h", {"timeout"}),
    ("command=x&env=NOVALUE", {"env[0]"}), ("command=x&workingDir=relative", {"workingDir"}),
    ("command=x&tty=maybe", {"tty"}), ("command=x&nothing=1", {"nothing"}), ("command=x&tty=true", {"tty"}),
    ("command=x&offset=-1", {"offset"}),
    ("&".join(["command=x"] * 1025), {"command"}), ("&".join(f"env=K{i}%3Dv" for i in range(257)) + "&command=x", {"env"}),
], ids=lambda value: value[:24] if isinstance(value, str) else "")
def test_bad_queries(stack, query, fields):
    before = [item["metadata"]["name"] for item in stack.call("GET", "processes?sandbox=c")[2]["items"]]
    status, _, body = stack.call("POST", "sandboxes/c/exec?" + query, b"", headers={"Content-Type": "application/octet-stream"})
    assert status == 422 and {cause["field"] for cause in body["details"]["causes"]} == fields, body
    after = [item["metadata"]["name"] for item in stack.call("GET", "processes?sandbox=c")[2]["items"]]
    assert after == before, "nothing was admitted"


def test_a_long_command_line_in_a_query(stack):
    words = ["echo"] + ["%20" * 60] * 1000
    status, _, body = stack.call("POST", "sandboxes/c/exec?wait=true&" + "&".join("command=" + w for w in words), b"",
                                 headers={"Content-Type": "application/octet-stream"})
    assert status == 200 and body["exitCode"] == 0, body


def test_processes_are_objects(stack):
    stack.create_running("objects")
    names = [run(stack, "true", sandbox="objects")["process"] for _ in range(3)]
    assert names == [f"sb-objects-{i}" for i in (1, 2, 3)]
    status, _, body = stack.call("GET", "processes?sandbox=objects")
    assert status == 200 and {item["metadata"]["name"] for item in body["items"]} == set(names)
    item = body["items"][0]
    assert item["metadata"]["labels"]["nodus.dev/sandbox"] == "objects"
    assert len(stack.call("GET", "processes?labelSelector=nodus.dev%2Fsandbox%3Dobjects")[2]["items"]) == 3
    assert item["spec"] == {"sandbox": "objects", "command": ["true"], "timeout": "10m"}
    stack.delete("objects")


# ---- clients that leave, come back and repeat


def test_a_client_that_leaves_ends_nothing(stack):
    connection, response = open_exec(stack, {"command": ["sh", "-c", "sleep 2; echo done"]})
    name = response.getheader("X-Nodus-Process")
    connection.close()
    assert ended(stack, name)["status"]["reason"] == ""
    assert log(stack, name) == b"done\n"


def test_a_key_starts_once_and_joins(stack):
    key = str(uuid.uuid4())
    body = {"command": ["sh", "-c", "echo one; sleep 1; echo two"]}
    answers = []

    def repeat():
        _, response = open_exec(stack, body, key=key)
        answers.append([json.loads(line) for line in response.read().splitlines()])

    threads = [threading.Thread(target=repeat) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 8
    assert len({lines[-1]["process"] for lines in answers}) == 1
    for lines in answers:
        text = b"".join(base64.b64decode(line["data"]) for line in lines if "data" in line)
        assert text == b"one\ntwo\n" and lines[-1]["end"]["exitCode"] == 0
    name = answers[0][-1]["process"]
    ended(stack, name)
    repeat()
    assert answers[-1][-1]["process"] == name, "also after its end"
    status, _, answer = stack.call("POST", "sandboxes/c/exec", {"command": ["true"]}, headers={"Idempotency-Key": key})
    assert (status, answer["reason"]) == (409, "IdempotencyKeyReused"), answer


def follow(stack, name, offset=0):
    """The frames of an attach without a WebSocket; reads until the end or the connection breaks."""
    api = urllib.parse.urlsplit(stack.env["NODUS_API"])
    connection = http.client.HTTPConnection(api.hostname, api.port, timeout=60)
    connection.request("GET", f"{api.path}/processes/{name}/attach?offset={offset}",
                       headers={"Authorization": f"Bearer {stack.env['NODUS_API_KEY']}"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    try:
        for line in response:
            yield json.loads(line)
    except (OSError, http.client.HTTPException, ValueError):
        return


@pytest.mark.parametrize("victim", ["nodusd", "lifecycle"])
def test_the_final_frame_comes_through_restarts(stack, victim):
    command = "i=0; while [ $i -lt 40 ]; do echo tick $i; i=$((i+1)); sleep 0.1; done; exit 5"
    name = start(stack, "sh", "-c", command)
    text, end, struck = b"", None, []

    def strike():
        time.sleep(1)
        stack.kill(victim)
        stack.up()
        struck.append(True)

    thread = threading.Thread(target=strike)
    thread.start()
    deadline = time.monotonic() + 90
    connections = 0
    while end is None:
        assert time.monotonic() < deadline
        try:
            for frame in follow(stack, name, len(text)):
                if "data" in frame:
                    assert frame["offset"] == len(text), "every byte once"
                    text += base64.b64decode(frame["data"])
                end = frame.get("end")
            connections += 1
        except (OSError, AssertionError):
            time.sleep(0.1)
    thread.join(120)
    assert struck
    assert text == b"".join(b"tick %d\n" % i for i in range(40))
    assert (end["reason"], end["exitCode"]) == ("NonZeroExit", 5)
    if victim == "nodusd":
        assert connections == 1, "lifecycle joins again by itself"
    assert ended(stack, name)["status"]["exitCode"] == 5
    assert log(stack, name) == text


@pytest.mark.parametrize("victim", ["lifecycle", "nodusd"])
@pytest.mark.parametrize("flags", [[], ["-i"]], ids=["frames", "websocket"])
def test_the_cli_goes_on_after_a_kill(stack, flags, victim):
    """The program is killed in the middle of a stream: the CLI attaches again by offset, loses and doubles no byte, and its
    exit code is the command's."""
    command = "i=0; while [ $i -lt 60 ]; do echo tick $i; echo tock $i >&2; i=$((i+1)); sleep 0.1; done; exit 5"
    running = stack.start_nodus("exec", *flags, "sb/c", "--", "sh", "-c", command)
    begun = "".join(running.stdout.readline() for _ in range(10))
    stack.kill(victim)
    stack.up()
    out, err = running.communicate(timeout=120)
    assert begun + out == "".join(f"tick {i}\n" for i in range(60))
    assert [line for line in err.splitlines() if line.startswith("tock")] == [f"tock {i}" for i in range(60)], err
    assert running.returncode == 5, err


def test_a_thousand_and_twenty_four_run_at_once(stack):
    stack.create_running("full", resources={"cpu": "2", "memory": "4Gi"}, lifecycle={"idleTimeout": "0s"})
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        names = list(pool.map(lambda _: start(stack, "sleep", "600", sandbox="full"), range(1024)))
    assert len(set(names)) == 1024
    for _ in range(3):
        status, _, body = stack.call("POST", "sandboxes/full/exec?wait=true", {"command": ["true"]})
        assert (status, body["reason"]) == (429, "TooManyRequests"), body
    assert stack.call("POST", f"processes/{names[500]}/cancel")[0] in (200, 202)

    def counted():  # one has ended, so the next one runs, and sees the others
        status, _, body = stack.call("POST", "sandboxes/full/exec?wait=true",
                                     {"command": ["sh", "-c", "grep -l '^sleep.600' /proc/[0-9]*/cmdline | wc -l"]})
        return status == 200 and body

    assert int(wait_until(counted, 60, "room for one more")["stdout"]) == 1023
    stack.delete("full")


def test_a_command_that_never_reached_its_machine(stack):
    """The node is away: the command is not started later, and its key runs it when the node is back."""
    stack.create_running("away")
    stack.kill("nodusd")
    key = str(uuid.uuid4())
    status, headers, body = stack.call("POST", "sandboxes/away/exec", {"command": ["sh", "-c", "echo >> /workspace/ran"]})
    assert (status, body["reason"], headers["Retry-After"]) == (503, "SandboxStarting", "2"), body
    _, _, body = stack.call("POST", "sandboxes/away/exec", {"command": ["true"]}, headers={"Idempotency-Key": key})
    assert body["reason"] == "SandboxStarting"
    items = stack.call("GET", "processes?sandbox=away")[2]["items"]
    assert [item["status"]["reason"] for item in items] == ["StartFailed", "StartFailed"], items
    stack.up()
    wait_until(lambda: stack.call("POST", "sandboxes/away/exec?wait=true", {"command": ["true"]},
                                  headers={"Idempotency-Key": key})[0] == 200, 60, "the repeat")
    assert run(stack, "cat", "/workspace/ran", sandbox="away")["exitCode"] == 1, "it never ran"
    stack.delete("away")
