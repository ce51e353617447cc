#!/usr/bin/python3
"""The bill recomputed by another method: seconds are walked one by one with exact fractions, straight from the facts.

    oracle.py REPLAY [--intervals N] [--seed S]     exits 1 at the first difference, with the history that shows it

Two kinds of histories. "Rich": much credit, many Sandboxes, price changes and caps; messages of different Sandboxes are
mixed at random, repeated, and old ones come again. "Poor": one organization whose balance and caps end again and
again; facts come in order, deadlines on time; its project has Budgets with thresholds that are changed, caps are raised,
Grants have priorities and expire, credit is taken away, machines are lost, and what stopped Sandboxes store is paid,
waived and paid again. In both, idle stops are declined."""
import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter

from facts import CAUSES
from poor import Poor
from rich import rich

ENDS = [*CAUSES.values(), "MaxCostReached"]


def run(replay, facts):
    done = subprocess.run([replay], input="\n".join(facts) + "\n", capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.exit(f"the replay failed: {done.stderr}")
    return done.stdout.splitlines()


def differ(what, facts, wanted, got):
    for number, (a, b) in enumerate(zip(wanted + ["(end)"], got + ["(end)"])):
        if a != b:
            uid = a.split()[1] if len(a.split()) > 1 else "?"
            print(f"{what}, output {number}:\n  oracle  {a}\n  metering {b}\nfacts of {uid}:")
            print("\n".join(f for f in facts if f" {uid} " in f or f.startswith(("P", "C")))[:4_000])
            with tempfile.NamedTemporaryFile("w", prefix="oracle-", suffix=".facts", delete=False) as whole:
                whole.write("\n".join(facts) + "\n")
            print(f"the whole history: {whole.name}")
            sys.exit(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("replay")
    parser.add_argument("--intervals", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seed = options.seed or random.SystemRandom().randrange(1, 10**9)
    print(f"seed {seed}", flush=True)
    rng = random.Random(seed)
    intervals = poor = 0
    seen = Counter()
    while intervals < options.intervals:
        facts, expected = rich(rng, sandboxes=100, starts=6)
        got = {uid: [] for uid in expected}
        for line in run(options.replay, facts):
            word, uid = line.split()[:2]
            if word in ("error", "exhausted", "refused"):
                differ("rich", facts, [], [line])
            if word in ("funded", "closed", "stored"):
                got[uid].append(line)
        for uid, wanted in expected.items():
            differ("rich", facts, wanted, got[uid])
            intervals += sum(line.startswith("closed") for line in wanted)
            recovered = [line for line in wanted if "PlatformRecovery" in line]
            seen["restarted"] += len(recovered)
            seen["restarted, capped"] += sum("MaxCostReached" in line for line in recovered)
        for _ in range(4):
            world = Poor(rng, sandboxes=5, length=1500)
            wanted, got = world.out + [world.project(), world.account()], run(options.replay, world.facts)
            differ("poor", world.facts, sorted(wanted), sorted(got))
            closed = sum(line.startswith("closed") for line in world.out)
            poor += closed
            intervals += closed
            seen["declined"] += sum(fact.startswith("D") for fact in world.facts)
            seen["raised"] += sum(fact.startswith("M") for fact in world.facts)
            seen["lost"] += world.lost
            seen["taken away"] += world.taken_away
            seen["dropped"] += sum(fact.startswith("K") for fact in world.facts)
            seen["stored again"] += world.resumed
            seen["stored late"] += world.stored_late
            for line in world.out:
                marks = [w for w in ("balance", "cap", "maxCostUSD", "budget", *ENDS) if w in line]
                seen[" ".join([line.split()[0]] + marks)] += 1
    print(f"{intervals} intervals, {poor} of them where money was short: no difference")
    print("where money was short: " + ", ".join(f"{n} {what}" for what, n in sorted(seen.items())))
    needed = {"exhausted", "until", "declined", "stop balance", "stop cap", "refused balance", "refused maxCostUSD", "full",
              "stop budget", "refused budget", "raised", "expired", "lost", "taken away", "threshold", "recovered",
              "restarted", "restarted, capped", "dropped", "stored", "stored again", "stored late",
              *(f"stored {cause}" for cause in CAUSES.values()), *(f"closed {cause}" for cause in ENDS)}
    missed = sorted(what for what in needed if not seen[what])
    if intervals >= 5000 and missed:
        sys.exit("the histories did not reach: " + ", ".join(missed))


if __name__ == "__main__":
    main()
