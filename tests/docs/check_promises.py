#!/usr/bin/python3
"""docs/promises.md is true: each row names at least one test, as file::name, and each test named is there.

    check_promises.py ROOT
"""
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
PAGE = "docs/promises.md"
PROOF = re.compile(r"`([\w./-]+)::([\w./-]+)`")


def stands_in(text, name):
    """A pytest function, or a GoogleTest as Suite.Name (TEST, TEST_F, TEST_P)."""
    suite, dot, case = name.partition(".")
    if not dot:
        return re.search(rf"\bdef {re.escape(name)}\(", text) is not None
    return re.search(rf"\bTEST(_[FP])?\(\s*{re.escape(suite)}\s*,\s*{re.escape(case)}\s*\)", text) is not None


def faults():
    for number, line in enumerate((ROOT / PAGE).read_text().splitlines(), 1):
        if not line.startswith("|") or line.startswith("|---") or line.startswith("| promise |"):
            continue
        proofs = PROOF.findall(line)
        if not proofs:
            yield f"{PAGE}:{number}: no test proves this row; name one as `file::name`"
        for path, name in proofs:
            file = ROOT / path
            if not file.is_file():
                yield f"{PAGE}:{number}: there is no {path}"
            elif not stands_in(file.read_text(), name):
                yield f"{PAGE}:{number}: {path} has no test {name}"


found = list(faults())
print("\n".join(found) or f"{PAGE}: every proof is there")
sys.exit(1 if found else 0)
