"""Exec over WebSocket with the real Kubernetes Python client: its own generated call, only the path is ours."""
import json
import threading
import time

import kubernetes_api  # noqa: F401  where the client is installed
import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream as over_websocket
from kubernetes.stream.ws_client import ERROR_CHANNEL, RESIZE_CHANNEL, STDIN_CHANNEL

from stack import running_stack, wait_until


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("stream"), 22550) as running:
        running.create_running("c")
        yield running


class Sandboxes(client.ApiClient):
    """The client of Pods, sent to Sandboxes, and to their Processes when `process` is set."""

    extra = ()
    process = None

    def param_serialize(self, method, resource_path, **arguments):
        assert resource_path == "/api/v1/namespaces/{namespace}/pods/{name}/exec"
        resource_path = "/apis/nodus.dev/v1/namespaces/{namespace}/" + (
            "processes/{name}/attach" if self.process else "sandboxes/{name}/exec")
        arguments["query_params"] = list(arguments["query_params"]) + list(self.extra)
        return super().param_serialize(method, resource_path, **arguments)


def api(stack, extra=(), process=False):
    configuration = client.Configuration()
    configuration.host = stack.env["NODUS_API"].split("/apis/")[0]
    configuration.api_key["BearerToken"] = stack.env["NODUS_API_KEY"]
    configuration.api_key_prefix["BearerToken"] = "Bearer"
    sandboxes = Sandboxes(configuration)
    sandboxes.extra, sandboxes.process = extra, process
    return client.CoreV1Api(sandboxes)


def opened(stack, *command, name="c", stdin=False, tty=False, extra=(), protocol=None, **options):
    headers = {"sec-websocket-protocol": protocol} if protocol else None
    return over_websocket(api(stack, extra).connect_get_namespaced_pod_exec, name, "default", command=list(command),
                          stdin=stdin, stdout=True, stderr=True, tty=tty, _preload_content=False, _headers=headers,
                          **options)


def joined(stack, process, offset=0, stdin=False):
    return over_websocket(api(stack, (("offset", offset),), True).connect_get_namespaced_pod_exec, process, "default",
                          stdin=stdin, stdout=True, stderr=True, _preload_content=False)


def finish(connection, seconds=60):
    """(stdout, stderr, the final Status)"""
    connection.run_forever(timeout=seconds)
    assert not connection.is_open(), "the final frame always comes"
    return (connection.read_channel(1), connection.read_channel(2), json.loads(connection.read_channel(ERROR_CHANNEL)))


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io", "v5.channel.k8s.io,v4.channel.k8s.io"])
def test_output_and_exit_code(stack, protocol):
    connection = opened(stack, "sh", "-c", "echo out; echo err >&2; exit 3", protocol=protocol)
    assert connection.subprotocol == protocol.split(",")[0]
    out, err, status = finish(connection)
    assert (out, err) == ("out\n", "err\n")
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode"), status
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert status["details"]["reason"] == "NonZeroExit" and status["details"]["process"].startswith("sb-c-")
    connection = opened(stack, "true")
    connection.run_forever(timeout=60)
    assert connection.returncode == 0


def test_the_whole_output_by_one_call(stack):
    text = over_websocket(api(stack).connect_get_namespaced_pod_exec, "c", "default",
                          command=["sh", "-c", "i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done"],
                          stdout=True, stderr=True, stdin=False, tty=False)
    assert text == "".join(f"{i}\n" for i in range(5000))


def test_input_and_its_end(stack):
    connection = opened(stack, "sh", "-c", "cat; echo end", stdin=True)
    connection.write_stdin("one\n")
    assert connection.readline_stdout(timeout=30) == "one"
    connection.write_stdin("x" * 200_000 + "\n")
    connection.close_channel(STDIN_CHANNEL)
    out, _, status = finish(connection)
    assert out == "x" * 200_000 + "\nend\n" and status["status"] == "Success"


def test_a_terminal(stack):
    connection = opened(stack, "sh", stdin=True, tty=True, extra=[("rows", 30), ("cols", 90)])
    connection.write_stdin("stty size; tty\n")
    seen = []

    def first_size():  # as it was opened, before the resize
        connection.update(timeout=1)
        seen.append(connection.read_stdout() if connection.peek_stdout() else "")
        return "30 90" in "".join(seen)

    wait_until(first_size, 30, "the size that the terminal was opened with")
    connection.write_channel(RESIZE_CHANNEL, json.dumps({"Width": 101, "Height": 41}))
    connection.write_stdin("stty size\n")
    connection.write_stdin("exit 6\n")
    out, _, status = finish(connection)
    out = "".join(seen) + out
    assert "41 101" in out and "/dev/pts/" in out, out
    assert status["details"]["causes"][0]["message"] == "6"
    found = stack.call("GET", f"processes/{status['details']['process']}")[2]
    assert found["spec"]["tty"] is True and found["spec"]["timeout"] == "24h"


def test_environment_and_directory(stack):
    out, _, _ = finish(opened(stack, "sh", "-c", "echo $A; pwd", extra=[("env", "A=b=c"), ("workingDir", "/tmp")]))
    assert out == "b=c\n/tmp\n"


@pytest.mark.parametrize("name, command, extra, status", [
    ("none", ["true"], (), 404), ("c", [], (), 422), ("c", ["x"] * 1025, (), 422), ("c", ["true"], (("timeout", "25h"),), 422),
])
def test_faults_come_before_the_upgrade(stack, name, command, extra, status):
    with pytest.raises(ApiException) as raised:
        opened(stack, *command, name=name, extra=extra)
    assert f"Handshake status {status} " in str(raised.value)


def test_a_stopped_sandbox_answers_starting_and_wakes(stack):
    stack.create_running("asleep")
    stack.nodus("stop", "sb/asleep")
    with pytest.raises(ApiException) as raised:
        opened(stack, "true", name="asleep")
    assert "Handshake status 503 " in str(raised.value) and "SandboxStarting" in str(raised.value)
    wait_until(lambda: stack.phase("asleep") == "Running", 60, "the wake")
    stack.delete("asleep")


def test_attach_by_offset_and_after_the_end(stack):
    command = "for i in 1 2 3; do echo $i; sleep 0.5; done; read line; echo got $line"
    first = opened(stack, "sh", "-c", command, stdin=True)
    assert first.readline_stdout(timeout=30) == "1"
    name = stack.call("GET", "processes?sandbox=c&limit=1")[2]["items"][0]["metadata"]["name"]
    first.close()
    second = joined(stack, name, offset=2, stdin=True)
    assert second.readline_stdout(timeout=30) == "2"
    second.write_stdin("hello\n")
    out, _, status = finish(second)
    assert out.endswith("3\ngot hello\n") and status["status"] == "Success"
    for _ in range(2):
        out, _, status = finish(joined(stack, name))
        assert out == "1\n2\n3\ngot hello\n" and status["details"] == {"process": name, "reason": ""}


def test_attach_after_a_stop(stack):
    stack.create_running("gone")
    connection = opened(stack, "sh", "-c", "echo before; sleep 1000", name="gone")
    assert connection.readline_stdout(timeout=30) == "before"
    stack.nodus("stop", "sb/gone")
    name = stack.call("GET", "processes?sandbox=gone")[2]["items"][0]["metadata"]["name"]
    wait_until(lambda: stack.phase("gone") == "Stopped", 60, "the stop")
    out, _, status = finish(joined(stack, name))
    assert out == "before\n" and status["details"]["reason"] == "ParentStopped", status
    assert status["details"]["causes"][0]["message"] == "137"
    assert stack.phase("gone") == "Stopped", "reading wakes nothing"
    stack.delete("gone")


def test_a_quiet_stream_is_kept_alive(stack):
    """Longer than any idle time on the way (60 s)."""
    connection = opened(stack, "sh", "-c", "sleep 70; echo late")
    out, _, status = finish(connection, 100)
    assert out == "late\n" and status["status"] == "Success"


def test_a_client_that_vanishes_ends_nothing(stack):
    connection = opened(stack, "sh", "-c", "echo here; sleep 2; echo done", stdin=True)
    assert connection.readline_stdout(timeout=30) == "here"
    name = stack.call("GET", "processes?sandbox=c&limit=1")[2]["items"][0]["metadata"]["name"]
    connection.sock.sock.close()  # without a close frame
    wait_until(lambda: stack.call("GET", f"processes/{name}")[2]["status"]["phase"] == "Ended", 30, "its end")
    assert stack.call("GET", f"processes/{name}/log")[2] == b"here\ndone\n"


def test_many_at_once(stack):
    results = []

    def one(i):
        out, _, status = finish(opened(stack, "sh", "-c", f"sleep 1; echo {i}"))
        results.append((i, out, status["status"]))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(32)]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join(90)
    assert sorted(results) == [(i, f"{i}\n", "Success") for i in range(32)]
