#!/usr/bin/python3
"""The rules of the house as a test: format, who may include what, sizes, dead files, scripts.

    tests/style/check_style.py [ROOT]      prints every fault as path:line: what, and exits 1 when there is one
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[2]).resolve()
SKIPPED = {"corpus", ".git", ".nodus", "build", "__pycache__", ".pytest_cache", ".cache", "node_modules"}
CODE = {".cpp", ".hpp", ".c", ".h", ".py", ".sql", ".sh"}
MAX_LINES = 400
# clang-format keeps C++ within 110; only a string that it cannot break may be longer.
MAX_COLUMNS = {".cpp": 140, ".hpp": 140, ".c": 140, ".h": 140, ".py": 130, ".sql": 120, ".sh": 140, "": 140}

# A third-party header is included only under the directories that own it.
OWNERS = {
    "boost/asio": ["libs/http", "services/executor/process", "tests"],
    "boost/beast": ["libs/http"],
    "boost/url": ["libs/http", "services/*/config.cpp", "cli"],
    "boost/json": ["libs/http", "services", "cli", "tests"],
    "pqxx/": ["libs/pg", "libs/eventlog", "libs/bus", "tests"],
    "librdkafka/": ["libs/bus"],
    "spdlog/": ["libs/telemetry"],
    "prometheus/": ["libs/telemetry"],
    "yaml-cpp/": ["libs/config", "cli"],
    "CLI/": ["services/*/main.cpp", "services/*/admin.cpp", "cli", "bench"],
    "curl/": ["libs/http"],
    "archive": ["services/executor", "tests"],
    "zstd": ["services/executor"],
    "seccomp": ["libs/linux", "services/executor", "tests"],
    "nftables/": ["libs/linux"],
    "openssl/": ["libs", "services/executor/snapshot"],
    "date/": ["libs/base"],
    "google/protobuf": ["services/*/adapters", "tests"],
    "gtest/": ["tests"],
    "gmock/": ["tests"],
}
# What a pure domain may not name: clocks, randomness, I/O, threads, floating point.
IMPURE_HEADERS = {"chrono", "random", "thread", "mutex", "fstream", "iostream", "filesystem", "atomic", "future",
                  "condition_variable", "cstdio", "ctime"}
IMPURE_WORDS = re.compile(r"\b(float|double|rand|time|getenv|system_clock|steady_clock|random_device)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Written in pieces so that this file obeys its own rules.
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
MACHINE_PATH = re.compile(r"(?<![\w./}$-])/(wo" + r"rk|ro" + r"ot|ho" + r"me)/")
REGISTRIES = ["deb.deb" + "ian.org", "registry.np" + "mjs.org", "proxy.go" + "lang.org", "repo1.ma" + "ven.org",
              "repo.ma" + "ven.apache.org", "py" + "pi.org", "pythonho" + "sted.org"]

faults = []


def fault(path, line, what):
    faults.append(f"{path.relative_to(ROOT)}:{line}: {what}")


def tree():
    for directory, names, files in os.walk(ROOT):
        names[:] = sorted(n for n in names if n not in SKIPPED)
        yield from (Path(directory) / f for f in sorted(files) if f != ".git")


def text_of(path):
    data = path.read_bytes()
    if b"\0" in data:
        return None
    return data.decode("utf-8")


def is_script(path, text):
    return text.startswith("#!")


def owned(relative, owners):
    return any(re.match(re.escape(owner).replace(r"\*", "[^/]+") + "(/|$)", relative) for owner in owners)


def check_text(path, text):
    generated = path.name == "schema.sql"  # dev/migrate --write-schema
    code = path.suffix in CODE and not generated or is_script(path, text)
    lines = text.split("\n")
    if text and not text.endswith("\n"):
        fault(path, len(lines), "the last line does not end")
    if code and len(lines) - 1 > MAX_LINES:
        fault(path, len(lines), f"{len(lines) - 1} lines; split it before {MAX_LINES}")
    for number, line in enumerate(lines, 1):
        if "\t" in line and path.name not in ("go.mod", "go.sum"):
            fault(path, number, "a tab")
        if line != line.rstrip():
            fault(path, number, "blanks at the end of the line")
        if code and len(line) > MAX_COLUMNS.get(path.suffix, 120):
            fault(path, number, f"{len(line)} columns")
        if UNFINISHED.search(line):
            fault(path, number, "unfinished work: finish it or open an issue")
        if MACHINE_PATH.search(line):
            fault(path, number, "a path of one machine")
        for host in REGISTRIES:
            if host in line and path.name not in ("go.sum",):
                fault(path, number, f"the address of a registry ({host}); use the client's own configuration")


def check_includes(path, text):
    relative = str(path.relative_to(ROOT))
    parts = relative.split("/")
    service = parts[1] if parts[0] == "services" else None
    domain = service and parts[2] == "domain"
    if path.suffix == ".hpp" and "#pragma once" not in text:
        fault(path, 1, "a header without #pragma once")
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if not match:
            if domain and IMPURE_WORDS.search(line.split("//")[0]):
                fault(path, number, "domain code is pure: no clock, randomness, environment or floating point")
            continue
        name = match.group(2)
        if service and name.startswith("services/") and not name.startswith(f"services/{service}/"):
            fault(path, number, f"a service does not include another ({name})")
        if parts[0] == "libs" and name.startswith(("services/", "cli/")):
            fault(path, number, f"a library does not include a program ({name})")
        if domain:
            own = name.startswith(("libs/base/", "libs/money/", f"services/{service}/domain/", "fmt/"))
            standard = match.group(1) == "<" and "/" not in name and "." not in name and name not in IMPURE_HEADERS
            if not own and not standard:
                fault(path, number, f"domain code includes only libs/base, libs/money and itself ({name})")
        for prefix, owners in OWNERS.items():
            precompiled = parts[0] == "cmake"  # parsed for all, still named by who uses it
            if match.group(1) == "<" and name.startswith(prefix) and not precompiled and not owned(relative, owners):
                fault(path, number, f"<{name}> belongs to {', '.join(owners)}")


def check_dead(sources, headers, texts):
    """Every .cpp is in a CMakeLists.txt, every header is included somewhere."""
    for path in sources:
        lists, directory = [], path.parent
        while directory != ROOT:
            cmake = directory / "CMakeLists.txt"
            if cmake.exists():
                lists.append((directory, cmake.read_text()))
            directory = directory.parent
        names = [r"(?<![\w./-])" + re.escape(str(path.relative_to(d))) + r"(?![\w.-])" for d, _ in lists]
        if lists and not any(re.search(name, text) for name, (_, text) in zip(names, lists)):
            fault(path, 1, "no CMakeLists.txt builds this file")
    included = {m.group(2) for t in texts.values() for m in map(INCLUDE.match, t.split("\n")) if m}
    for path in headers:
        built = (path.parent / "CMakeLists.txt").exists()
        if built and str(path.relative_to(ROOT)) not in included and path.name not in included:
            fault(path, 1, "nothing includes this header")


def check_format(paths):
    def one(group):
        run = subprocess.run(["clang-format-19", "--dry-run", "--Werror", "--style=file", *map(str, group)],
                             capture_output=True, text=True, cwd=ROOT)
        hits = re.findall(r"^(\S+?):(\d+):\d+: error: ", run.stderr, re.M)
        return hits or ([("clang-format", run.stderr)] if run.returncode else [])

    groups = [paths[i::4] for i in range(4) if paths[i::4]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = set()
        for name, line in (hit for hits in pool.map(one, groups) for hit in hits):
            if name not in seen:
                seen.add(name)
                faults.append(f"{os.path.relpath(name, ROOT)}:{line}: not formatted; run dev/format")


def check_scripts(scripts):
    for path, text in scripts:
        if path.suffix != ".py" and not os.access(path, os.X_OK):
            fault(path, 1, "a script that cannot be executed (chmod +x)")
    shell = [str(p.relative_to(ROOT)) for p, t in scripts if re.match(r"#!.*\b(ba)?sh\b", t)]
    if shell:
        # Not followed: sourced files (1091). Not wrong: A && B || C (2015), $ in single quotes (2016).
        command = ["shellcheck", "-f", "gcc", "-e", "SC1091,SC2015,SC2016", *shell]
        run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        faults.extend(run.stdout.splitlines() or ([run.stderr] if run.returncode else []))


def main():
    code, scripts, texts = [], [], {}
    for path in tree():
        text = text_of(path)
        if text is None:
            continue
        check_text(path, text)
        if path.suffix in (".cpp", ".hpp", ".c", ".h"):
            code.append(path)
            texts[path] = text
            check_includes(path, text)
        elif is_script(path, text):
            scripts.append((path, text))
    check_dead([p for p in code if p.suffix in (".cpp", ".c")], [p for p in code if p.suffix in (".hpp", ".h")], texts)
    check_format(code)
    check_scripts(scripts)
    for line in faults:
        print(line)
    print(f"{len(code)} C++ files, {len(scripts)} scripts, {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
