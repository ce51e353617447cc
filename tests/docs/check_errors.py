#!/usr/bin/python3
"""Every reason that the code can emit has a page in docs/errors, and every page has a reason in the code.

Reasons are the literals beside a Code (`fail(Code::kNotFound, "NotFound", …)`). Those of Code::kInternal are left
out: a client is told InternalError instead. A page says the HTTP status that the code gives, what it means, what the
cause is and what to do next."""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/errors"
STATUS = {"BadRequest": 400, "Unauthenticated": 401, "PaymentRequired": 402, "Forbidden": 403, "NotFound": 404,
          "Conflict": 409, "PreconditionFailed": 412, "TooLarge": 413, "Invalid": 422, "TooManyRequests": 429,
          "Internal": 500, "Unavailable": 503, "DeadlineExceeded": 504}
# Reasons that reach a client from a variable: the literal is elsewhere.
CARRIED = {"InsufficientCredits": "PaymentRequired", "BudgetExceeded": "PaymentRequired"}
PARTS = ("**Meaning.** ", "**Cause.** ", "**Next step.** ")


def sources():
    for top in ("libs", "services"):
        for path in sorted((ROOT / top).rglob("*.?pp")):
            yield path.relative_to(ROOT), path.read_text()


def collect():
    """reason → {HTTP status: a file}"""
    found = defaultdict(dict)
    own = {}
    for path, text in sources():
        text = re.sub(r"//[^\n]*", "", text)  # an example in a comment emits nothing
        for code, reason in re.findall(r'Code::k(\w+)\s*,\s*"([A-Z][A-Za-z0-9]+)"', text):
            if code != "Internal":
                found[reason].setdefault(STATUS[code], path)
        for reason in CARRIED:
            if f'"{reason}"' in text:
                found[reason].setdefault(STATUS[CARRIED[reason]], path)
        if path == Path("libs/http/status.cpp"):
            table = text[text.index("kOwnStatus"):text.index("}};")]
            own = {reason: int(status) for reason, status in re.findall(r'\{"(\w+)",\s*(\d+)\}', table)}
    for reason, status in own.items():
        for path in list(found[reason].values())[:1]:
            found[reason] = {status: path}
        if not found[reason]:
            del found[reason]
    found["InternalError"] = {500: Path("libs/http/status.cpp")}
    return found


def faults_of(reason, statuses, page):
    if not page.exists():
        yield f"{reason} ({', '.join(str(p) for p in statuses.values())}) has no page: write docs/errors/{reason}.md"
        return
    lines = page.read_text().splitlines()
    if lines[:1] != [f"# {reason}"]:
        yield f"{page.name}: the first line is \"# {reason}\""
    head = lines[1] if len(lines) > 1 else ""
    said = {int(number) for number in re.findall(r"\b[45]\d\d\b", head)}
    if said - set(statuses):
        yield f"{page.name}: says HTTP {sorted(said - set(statuses))}, the code gives {sorted(statuses)}"
    if not head.startswith(("HTTP ", "No HTTP status")) or (head.startswith("HTTP") and set(statuses) - said):
        yield f"{page.name}: the second line says \"HTTP {', '.join(map(str, sorted(statuses)))}.\""
    text = "\n".join(lines)
    for part in PARTS:
        body = text.partition(part)[2].split("\n\n")[0].strip()
        if len(body) < 10:
            yield f"{page.name}: no {part.strip()}"


def main():
    found = collect()
    faults = [fault for reason in sorted(found) for fault in faults_of(reason, found[reason], PAGES / f"{reason}.md")]
    for page in sorted(PAGES.glob("*.md")):
        if page.stem not in found and page.stem != "README":
            faults.append(f"docs/errors/{page.name} is stale: no code emits this reason")
    print("\n".join(faults))
    print(f"{len(found)} reasons, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
