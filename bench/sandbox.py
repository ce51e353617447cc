#!/usr/bin/python3
"""Cold start and exec, each beside a bare runtime in the same run. Needs a release build; root.

    bench/sandbox.py [ROUNDS]

cold start   POST of a Sandbox until its phase is Running (image cached)  ÷  `runsc run` of the same bundle until its
             helper listens
wake         `nodus exec` in a stopped Sandbox until its first byte    ÷  untar of the same /workspace, then `runsc run`
exec         `nodus exec sb/x -- echo hi` from process start to exit      ÷  `runsc exec` of the same echo, in its environment
exec (API)   one POST over a kept connection, to the final frame          ÷  the same `runsc exec`
inside       the same echo, spawned by a process of the Sandbox: what of exec (API) is gVisor running a program, whoever asks
a commit     of one small row beside them: what a durable start costs here at the least

On a quiet machine only, and at the priority that everything else has: the stack runs in sessions of its own, so a nice
value or an autogroup of this shell favours the bare runtime alone. Much of an `echo` inside gVisor is its own dynamic loader, on
both sides.
"""
import base64
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/system"))
os.environ.setdefault("NODUS_PRESET", "release")
from stack import Stack  # noqa: E402  the preset is read on import

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 15


def timed(action):
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def runtime_flags(slot):
    return ["--platform=systrap", "--directfs=false", "--overlay2=none", "--host-uds=create", "--network=sandbox",
            f"--root={slot}"]


class BareRuntime:
    """`runsc run` of a running slot's bundle, in a netns and on a disk directory of its own."""

    def __init__(self, stack, runsc):
        self.runsc, self.work = runsc, Path(tempfile.mkdtemp(prefix="nodus-bench-"))
        slot = next((stack.node_state() / "slots").iterdir())
        self.slot_id = slot.name
        self.config = json.loads((slot / "bundle/config.json").read_text())
        self.lower = next((stack.node_state() / "images").glob("*/rootfs"))
        self.state = self.work / "state"

    def round(self, number):
        bundle = self.work / f"bundle{number}"
        run, upper, inner, merged = (self.work / f"{part}{number}" for part in ("run", "upper", "inner", "merged"))
        for path in (bundle, run, upper, inner, merged):
            path.mkdir()
        name = f"nodusbench{number}"
        subprocess.run(["ip", "netns", "add", name], check=True)
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir={self.lower},upperdir={upper},workdir={inner}", str(merged)], check=True)
        config = json.loads(json.dumps(self.config))
        config["root"]["path"] = str(merged)
        config["linux"].pop("cgroupsPath", None)
        for namespace in config["linux"]["namespaces"]:
            if namespace["type"] == "network":
                namespace["path"] = f"/run/netns/{name}"
        for mount in config["mounts"]:
            if mount["destination"] == "/.run":
                mount["source"] = str(run)
        (bundle / "config.json").write_text(json.dumps(config))
        command = [self.runsc, *runtime_flags(self.state), "--ignore-cgroups", "run", "--detach", "--bundle", str(bundle), name]

        def start():
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            end = time.monotonic() + 20
            while not (run / "helper.sock").exists():
                assert time.monotonic() < end, "the helper did not listen"
                time.sleep(0.001)

        try:
            return timed(start)
        finally:
            subprocess.run([self.runsc, *runtime_flags(self.state), "delete", "--force", name],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run(["umount", str(merged)], check=True)
            subprocess.run(["ip", "netns", "delete", name], check=True)

    def close(self):
        for mount in Path("/proc/mounts").read_text().splitlines():
            if str(self.work) in mount:
                subprocess.run(["umount", "-l", mount.split()[1]])
        shutil.rmtree(self.work, ignore_errors=True)


def cold_start(stack, number):
    name = f"cold-{number}"

    def start():
        status, _, body = stack.create(name, image="nodus/agent-tools")
        assert status == 201, body
        while stack.phase(name) != "Running":
            time.sleep(0.002)

    took = timed(start)
    stack.delete(name)
    return took


class Sleeper:
    """A Sandbox with an agent's workspace (500 small files and 16 MiB that do not compress), stopped."""

    def __init__(self, stack, work):
        self.stack, self.work = stack, work
        self.tree = work / "workspace"
        for number in range(500):
            path = self.tree / f"src/part{number // 50}/file{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"value = {number}\n" * 50)
        (self.tree / "data.bin").write_bytes(os.urandom(16 << 20))
        stack.create_running("sleeper", image="nodus/agent-tools")
        made = stack.nodus("cp", "-r", str(self.tree), "sb/sleeper:/workspace/tree")
        assert made.code == 0, made
        self.tar = work / "workspace.tar.zst"
        subprocess.run(["tar", "--zstd", "-cf", self.tar, "-C", self.tree, "."], check=True)

    def wake(self):
        assert self.stack.nodus("stop", "sb/sleeper").code == 0
        while self.stack.phase("sleeper") != "Stopped":
            time.sleep(0.02)

        def first_byte():
            running = self.stack.start_nodus("exec", "sb/sleeper", "--", "/bin/echo", "hi")
            assert running.stdout.read(1) in (b"h", "h")
            self.running = running

        took = timed(first_byte)
        self.running.wait(timeout=60)
        return took

    def untar(self, number):
        into = self.work / f"untar{number}"
        into.mkdir()
        took = timed(lambda: subprocess.run(["tar", "--zstd", "-xf", self.tar, "-C", into], check=True))
        shutil.rmtree(into)
        return took


class Api:
    """One kept connection, as an agent's SDK has."""

    def __init__(self, stack):
        address = urllib.parse.urlsplit(stack.env["NODUS_API"])
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = {"Authorization": f"Bearer {stack.env['NODUS_API_KEY']}", "Content-Type": "application/json"}
        self.path = f"{address.path}/sandboxes/warm/exec"

    def echo(self):
        self.connection.request("POST", self.path, json.dumps({"command": ["/bin/echo", "hi"]}), self.headers)
        answer = self.connection.getresponse()
        lines = [json.loads(line) for line in answer.read().splitlines()]
        assert answer.status == 200 and lines[-1]["end"]["exitCode"] == 0, lines
        assert base64.b64decode("".join(line.get("data", "") for line in lines)) == b"hi\n", lines


INSIDE = """
import subprocess, time
for _ in range(%d):
    began = time.perf_counter()
    subprocess.run(["/bin/echo", "hi"], stdout=subprocess.PIPE, check=True)
    print((time.perf_counter() - began) * 1000)
"""


class Commit:
    def __init__(self, stack):
        self.psql = subprocess.Popen([ROOT / "dev/postgres", "psql", "-qAtX"], stdin=subprocess.PIPE, text=True,
                                     stdout=subprocess.PIPE, env=os.environ | {"NODUS_HOME": str(stack.home)})
        self.once()

    def once(self):
        self.psql.stdin.write("SELECT pg_logical_emit_message(true, 'bench', 'x') IS NULL;\n")
        self.psql.stdin.flush()
        assert self.psql.stdout.readline() == "f\n"

    def close(self):
        self.psql.stdin.close()
        self.psql.wait()


def report(name, ours, bare, limit):
    a, b = statistics.median(ours), statistics.median(bare)
    print(f"{name:<12} ours p50 {a:7.1f} ms   bare p50 {b:7.1f} ms   ratio {a / b:4.2f}   (at most {limit})")


def main():
    home = Path(tempfile.mkdtemp(prefix="nodus-bench-stack-"))
    stack = Stack(home, 27800)
    bare = commit = None
    try:
        stack.up()
        stack.create_running("warm", image="nodus/agent-tools")
        runsc = os.environ.get("NODUS_HOME", str(ROOT / ".nodus")) + "/tools/bin/runsc"
        bare = BareRuntime(stack, runsc)
        api, commit = Api(stack), Commit(stack)
        api.echo()
        sleeper = Sleeper(stack, bare.work)
        wake, untar = [], []
        cold, plain, ours, theirs, calls, commits = [], [], [], [], [], []
        # The same echo: LANG alone, which the image sets, makes it read a dozen files more.
        variables = stack.nodus("exec", "sb/warm", "--", "env").out.split()
        execute = [runsc, *runtime_flags(stack.node_state() / "runsc"), "exec", "--user", "1000:1000", "--cwd", "/workspace",
                   *(part for one in variables for part in ("--env", one)), bare.slot_id, "/bin/echo", "hi"]
        for number in range(ROUNDS):
            plain.append(bare.round(number))
            cold.append(cold_start(stack, number))
            untar.append(sleeper.untar(number) + plain[-1])
            wake.append(sleeper.wake())
            ours.append(timed(lambda: stack.nodus("exec", "sb/warm", "--", "/bin/echo", "hi")))
            theirs.append(timed(lambda: subprocess.run(execute, check=True, stdout=subprocess.DEVNULL)))
            calls.append(timed(api.echo))
            commits.append(timed(commit.once))
        report("cold start", cold, plain, 2)
        report("wake", wake, untar, 1.5)
        report("exec", ours, theirs, 2.5)
        inside = [float(line) for line in
                  stack.nodus("exec", "sb/warm", "--", "python3", "-c", INSIDE % ROUNDS).out.splitlines()]
        report("exec (API)", calls, theirs, 0.6)
        print(f"inside       p50 {statistics.median(inside):7.1f} ms   of that bare exec "
              f"{statistics.median(inside) / statistics.median(theirs):4.2f}")
        print(f"a commit     p50 {statistics.median(commits):7.1f} ms")
    finally:
        bare.close() if bare else None
        commit.close() if commit else None
        stack.down()
        shutil.rmtree(home, ignore_errors=True)


main()
