"""Ten thousand malformed and mutated requests, slow clients and floods against a running stack: nothing crashes, no 5xx
but SandboxStarting, no answer without a request, and others are served meanwhile."""
import concurrent.futures
import json
import os
import random
import resource
import socket
import threading
import time

import pytest

import hostile
from stack import PROGRAMS, running_stack, wait_until

REQUESTS = int(os.environ.get("NODUS_HOSTILE_REQUESTS", "10000"))


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with running_stack(tmp_path_factory.mktemp("stack"), 23040) as running:
        running.create_running("keeper")
        assert running.call("PUT", "sandboxes/keeper/files?path=/workspace/kept", b"kept")[0] == 200
        yield running


def api_port(stack):
    return int(stack.env["NODUS_API"].split("//")[1].split("/")[0].rsplit(":", 1)[1])


def serves(stack):
    """What others need meanwhile."""
    assert stack.call("GET", "sandboxes/keeper")[0] == 200
    status, _, body = stack.call("GET", "sandboxes/keeper/files?path=/workspace/kept")
    assert status in (200, 503) and (status != 200 or body == b"kept"), (status, body)


def pids(stack):
    return {program: stack.pid(program) for program in PROGRAMS}


def judge(request, raw, ended):
    """None, or what is wrong with the answers to one stream of bytes."""
    if not ended and not raw.startswith((b"HTTP/1.1 200", b"HTTP/1.1 101")):  # a watch or a stream goes on
        return f"the connection was not ended after {len(raw)} bytes: {raw[:300]!r}"
    whole, rest = hostile.count_requests(request)
    heads = {number for number, line in enumerate(request.split(b"\r\n\r\n")) if line.startswith(b"HEAD ")}
    try:
        answers = hostile.read_answers(raw, heads if len(heads) and request.startswith(b"HEAD ") else set())
    except AssertionError as fault:
        return f"not HTTP: {fault}" if not heads else None  # which answers have no body is not known for sure
    if len(answers) > whole + rest:
        return f"{len(answers)} answers to at most {whole + rest} requests"
    for answer in answers:
        starting = answer.status == 503 and b"SandboxStarting" in answer.body
        if answer.status >= 500 and not starting:
            return f"{answer.status}: {answer.body[:300]!r}"
        if answer.status >= 400 and answer.whole and answer.body:
            status = json.loads(answer.body)
            if status.get("kind") != "Status" or not status.get("reason"):
                return f"no Status: {answer.body[:300]!r}"
    return None


def fire(port, corpus, seed, count):
    faults = []

    def one(request):
        fault = judge(request, *hostile.exchange(port, request))
        if fault:
            faults.append((fault, request[:2000]))

    requests = hostile.stream(corpus, seed)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, (next(requests) for _ in range(count))))
    assert not faults, f"seed {seed}: {len(faults)} faults; the first: {faults[:3]}"


def test_mutated_requests(stack):
    seed = int(os.environ.get("NODUS_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"NODUS_SEED={seed}")
    before = pids(stack)
    uid = stack.sandbox("keeper")["metadata"]["uid"]
    project = stack.env["NODUS_API"].split("/namespaces/")[1] if "/namespaces/" in stack.env["NODUS_API"] else "default"
    public = hostile.load("requests", {"KEY": stack.env["NODUS_API_KEY"], "PROJECT": project})
    fire(api_port(stack), public, seed, REQUESTS * 7 // 10)
    serves(stack)
    node = hostile.load("requests_node", {"KEY": node_token(stack), "UID": uid})
    fire(api_port(stack) + 10, node, seed + 1, REQUESTS * 3 // 10)
    serves(stack)
    assert pids(stack) == before
    for program in PROGRAMS:
        os.kill(before[program], 0)


def node_token(stack):
    """The test stack's own node, from the file that dev/up wrote."""
    for line in (stack.home / "etc/secrets.env").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "NODUS_NODE_TOKEN":
            return value
    raise AssertionError("etc/secrets.env names no node token")


def test_slow_clients_cost_others_nothing(stack):
    """A slow header, a slow body and a slow reader, many of each, while others are served."""
    port, key = api_port(stack), stack.env["NODUS_API_KEY"]
    base = stack.env["NODUS_API"].split(f":{port}")[1]
    stack.call("PUT", "sandboxes/keeper/files?path=/workspace/big", b"b" * (30 << 20))
    heads = [b"GET /livez HTTP/1.1\r\nHost: x\r\n",
             f"PUT {base}/sandboxes/keeper/files?path=/workspace/slow HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
             "Content-Length: 1000\r\n\r\n".encode(),
             f"POST {base}/sandboxes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: 1000\r\n\r\n".encode(),
             f"GET {base}/sandboxes/keeper/files?path=/workspace/big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
             .encode()]
    over = threading.Event()
    connections = []
    for number in range(120):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        # Of the Sandbox's own files only a few are slow: its forty turns are its own.
        connection.sendall(heads[number % 4] if number < 40 else heads[number % 2 * 2])
        connections.append(connection)

    def trickle():
        while not over.wait(0.2):
            for number, connection in enumerate(connections):
                try:
                    connection.send(b"x" if number % 4 else b"A: b\r\n")
                except OSError:
                    pass

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        for _ in range(20):
            serves(stack)
            assert stack.call("GET", "sandboxes")[0] == 200
    finally:
        over.set()
        thread.join()
        for connection in connections:
            connection.close()
    serves(stack)


def test_a_flood_of_connections_costs_others_nothing(stack):
    """More connections than the server holds, all silent or half a header: who asks is answered."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(12_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
                                                resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    flood = []
    try:
        for number in range(5_000):
            connection = socket.socket()
            connection.connect(("127.0.0.1", api_port(stack)))
            if number % 2:
                connection.send(b"GET / HT")
            flood.append(connection)
            if number % 1_000 == 999:
                # A connection may lose its place in the race for it: asking again is enough.
                wait_until(lambda: answered(stack), 30, "an answer during the flood")
    finally:
        for connection in flood:
            connection.close()
    wait_until(lambda: answered(stack), 30, "an answer after the flood")
    serves(stack)


def answered(stack):
    try:
        return stack.call("GET", "sandboxes/keeper")[0] == 200
    except OSError:
        return False
