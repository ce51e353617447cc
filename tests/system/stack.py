"""A running stack, as people have it: dev/up in a directory of its own, the `nodus` CLI and the API."""
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PRESET = os.environ.get("NODUS_PRESET", "dev")
PROGRAMS = ("metering", "scheduler", "lifecycle", "nodusd")


@dataclass
class Ran:
    code: int
    out: str
    err: str


def wait_until(condition, seconds=60.0, what="the condition"):
    """The condition's first true value; fails after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not come true within {seconds} s"
        time.sleep(0.05)


@contextlib.contextmanager
def running_stack(home, ports, bus="log", settings=()):
    """A stack for as long as the block runs; also a start that failed is ended."""
    stack = Stack(home, ports, bus, settings)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


class Stack:
    def __init__(self, home, ports, bus="log", settings=()):
        self.home, self.ports, self.bus, self.settings = Path(home), ports, bus, list(settings)
        self.env = {}

    def up(self):
        command = [ROOT / "dev/up", "--home", self.home, "--ports", self.ports, "--bus", self.bus, "--preset", PRESET]
        for setting in self.settings:
            command += ["--set", setting]
        self._dev(command)
        text = self._dev([ROOT / "dev/env", "--home", self.home]).stdout
        shell = subprocess.run(["bash", "-c", text + "\nenv -0"], capture_output=True, text=True, check=True)
        self.env = dict(line.split("=", 1) for line in shell.stdout.split("\0") if "=" in line)

    def down(self):
        self._dev([ROOT / "dev/down", "--home", self.home, "--forget"])

    def _dev(self, command):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done

    def node_state(self):
        return Path((self.home / "node.at").read_text().strip())

    def logs(self, lines=15):
        parts = []
        for path in sorted((self.home / "log").glob("*.log")):
            parts.append(f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:]))
        return "\n".join(parts)

    def pid(self, program):
        if program == "kafka":
            return int((self.home / "kafka-data/pid").read_text().split()[0])
        return int((self.home / f"run/{program}.pid").read_text().split()[0])

    def kill(self, program):
        """kill -9, and wait until it is gone."""
        pid = self.pid(program)
        os.kill(pid, signal.SIGKILL)

        def gone():
            # Its threads too: while one of them still ends, its sockets still take on what nobody will read.
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
                return state == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1
            except (FileNotFoundError, ProcessLookupError):
                return True

        wait_until(gone, 10, f"the end of {program}")

    def sql(self, query):
        """The first column of a query to the stack's database."""
        done = subprocess.run([str(ROOT / "dev/postgres"), "psql", "-At", "-c", query], text=True,
                              capture_output=True, check=True, env=os.environ | {"NODUS_HOME": str(self.home)})
        return done.stdout.split()

    def operator(self, service, *arguments):
        """An operator's command of a service, such as `nodus-scheduler … machines`."""
        command = [str(ROOT / f"build/{PRESET}/bin/nodus-{service}"), "--config", str(self.home / f"etc/{service}.yaml"),
                   *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | self.secrets(),
                              check=False)
        return Ran(done.returncode, done.stdout, done.stderr)

    def secrets(self):
        lines = (self.home / "etc/secrets.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    @contextlib.contextmanager
    def another_machine(self, name, offset, pool):
        """A second nodusd on this computer, with a port, a state and a network of its own."""
        state = Path(tempfile.mkdtemp(prefix="node-", dir="/var/lib/nodus"))
        config = yaml.safe_load((self.home / "etc/nodusd.yaml").read_text())
        listen = f"127.0.0.1:{self.ports + offset}"
        config |= {"machine": name, "http": {"listen": listen}, "dataPath": listen, "state": {"directory": str(state)},
                   "network": {"pool": pool}}
        file = self.home / f"etc/{name}.yaml"
        file.write_text(yaml.safe_dump(config))
        mac = hmac.new(self.secrets()["NODUS_NODE_SECRET"].encode(), f"node/{name}".encode(), hashlib.sha256)
        command = [str(ROOT / f"build/{PRESET}/bin/nodusd"), "--config", str(file)]
        env = os.environ | {"NODUS_NODE_TOKEN": f"{name}.{mac.hexdigest()}"}
        with open(self.home / f"log/{name}.log", "a", encoding="utf-8") as log:
            node = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                yield node
            finally:
                node.terminate()
                node.wait(30)
                subprocess.run([*command, "purge"], env=env, stdout=log, stderr=log, timeout=120, check=False)
                shutil.rmtree(state, ignore_errors=True)

    # ---- the CLI

    def nodus(self, *arguments, cwd=None, stdin=None, timeout=180):
        command = ["nodus", *map(str, arguments)]
        done = subprocess.run(command, env=self.env, cwd=cwd, input=stdin, capture_output=True, text=True,
                              timeout=timeout, stdin=None if stdin is not None else subprocess.DEVNULL)
        return Ran(done.returncode, done.stdout, done.stderr)

    def start_nodus(self, *arguments, cwd=None):
        return subprocess.Popen(["nodus", *map(str, arguments)], env=self.env, cwd=cwd, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    # ---- the API

    def call(self, method, path, body=None, key=None, headers=None, timeout=60):
        """(status, headers, parsed JSON or bytes) of one request below NODUS_API; a path with "/apis" is taken whole."""
        base = self.env["NODUS_API"]
        url = base.split("/apis/")[0] + path if path.startswith("/") else f"{base}/{path}"
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers=dict(headers or {}))
        key = self.env["NODUS_API_KEY"] if key is None else key
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        if data is not None and not request.has_header("Content-type"):
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return self._answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return self._answer(error.code, error.headers, error.read())

    @staticmethod
    def _answer(status, headers, content):
        if headers.get("Content-Type", "").startswith("application/json"):
            return status, headers, json.loads(content)
        return status, headers, content

    def sandbox(self, name):
        status, _, body = self.call("GET", f"sandboxes/{name}")
        return body if status == 200 else None

    def phase(self, name):
        sandbox = self.sandbox(name)
        return sandbox["status"]["phase"] if sandbox else None

    def create(self, name, image="nodus/busybox", **spec):
        manifest = {"apiVersion": "nodus.dev/v1", "kind": "Sandbox", "metadata": {"name": name},
                    "spec": {"image": image, **spec}}
        return self.call("POST", "sandboxes", manifest)

    def create_running(self, name, **spec):
        status, _, body = self.create(name, **spec)
        assert status in (200, 201), body
        wait_until(lambda: self.phase(name) == "Running", 60, f"{name} Running")

    def delete(self, name):
        self.call("DELETE", f"sandboxes/{name}")
        wait_until(lambda: self.sandbox(name) is None, 60, f"{name} gone")
