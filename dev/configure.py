#!/usr/bin/python3
"""Writes the configuration of a stack. Called by dev/up; values that differ from the defaults only where a stack of
one machine needs them.

    configure.py STACK NODE ASSETS BIN PORTS BUS DATABASE_URL [SERVICE.KEY=VALUE ...]

DATABASE_URL holds %s for the role. What is in etc/secrets.env (0600) is kept."""
import hashlib
import hmac
import os
import secrets
import sys
from pathlib import Path

import yaml

MACHINE = "dev-1"
ORG = "dev"  # whom it serves
stack, node_state, assets, binaries = (Path(p) for p in sys.argv[1:5])
ports, bus, database = int(sys.argv[5]), sys.argv[6], sys.argv[7]
etc = stack / "etc"


def listen(offset):
    return f"127.0.0.1:{ports + offset}"


def url(offset):
    return f"http://{listen(offset)}"


def service(name, offset):
    transport = {"kind": bus}
    if bus == "kafka":
        transport["kafkaBrokers"] = listen(20)
    return {"http": {"listen": listen(offset)}, "database": {"url": database.replace("%s", name)}, "bus": transport}


configs = {
    "lifecycle": service("lifecycle", 0) | {
        "metering": {"url": url(2)},
        "output": {"directory": str(stack / "output")},
        "images": {"directory": str(assets / "images")},
        "audit": {"spool": str(stack / "audit.spool")},
    },
    "scheduler": service("scheduler", 1) | {"scheduler": {"machines": [f"{MACHINE}={ORG}"]}},
    "metering": service("metering", 2),
    "nodusd": {
        "http": {"listen": listen(10)},
        "machine": MACHINE,
        "profile": "dev",
        "scheduler": {"url": url(1)},
        "lifecycle": {"url": url(0)},
        "dataPath": listen(10),
        "state": {"directory": str(node_state)},
        "store": {"directory": str(stack / "store")},
        "images": {"directory": str(assets / "images")},
        "network": {"pool": f"10.{100 + ports // 10 % 120}.0.0/16"},  # two stacks on a machine need two
        "runtime": {"directory": str(assets / "tools/bin")},
        "helper": str(binaries / "nodus-helper"),
    },
}


def override(text):
    path, _, value = text.partition("=")
    name, *keys = path.split(".")
    if name not in configs or not keys or not _:
        sys.exit(f"dev/up: --set takes SERVICE.KEY=VALUE with a service of {', '.join(configs)}, not {text}")
    node = configs[name]
    for key in keys[:-1]:
        node = node.setdefault(key, {})
    node[keys[-1]] = yaml.safe_load(value)


def write(path, text, mode=0o644):
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(new, mode)
    new.rename(path)


for text in sys.argv[8:]:
    override(text)
etc.mkdir(parents=True, exist_ok=True)
for name, config in configs.items():
    write(etc / f"{name}.yaml", yaml.safe_dump(config, sort_keys=False))
secrets_file = etc / "secrets.env"
values = dict(line.split("=", 1) for line in secrets_file.read_text().splitlines()) if secrets_file.exists() else {}
made = set(values)
for name in ("NODUS_NODE_SECRET", "NODUS_IDENTITY_SECRET", "NODUS_ENV_KEY", "NODUS_STRIPE_SECRET", "NODUS_OPERATOR_TOKEN"):
    values.setdefault(name, secrets.token_hex(32))
if "NODUS_NODE_TOKEN" not in values:
    mac = hmac.new(values["NODUS_NODE_SECRET"].encode(), f"node/{MACHINE}".encode(), hashlib.sha256)
    values["NODUS_NODE_TOKEN"] = MACHINE + "." + mac.hexdigest()
if set(values) != made:
    write(secrets_file, "".join(f"{name}={value}\n" for name, value in values.items()), 0o600)
