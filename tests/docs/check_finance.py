#!/usr/bin/python3
"""The worked example of docs/finance.md, recomputed with exact fractions from its facts."""
import re
import sys
from datetime import datetime, timezone
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[2] / "docs/finance.md").read_text()
PICO = 10**12


def usd(value):
    pico = value * PICO
    assert pico.denominator == 1
    return f"{'-' if pico < 0 else ''}{abs(pico.numerator) // PICO}.{abs(pico.numerator) % PICO:012d}"


def second(text):
    """Rounded up."""
    whole, _, part = text.partition(".")
    at = int(datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc).timestamp())
    return at + ceil(Fraction(int(part or 0), 1000))


def shown(at):
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def expected():
    rate = 4 * Fraction("0.0000035") + 8 * Fraction("0.0000014") + 50 * Fraction("0.0000000285")
    rate = Fraction(floor(rate * Fraction("1.125") * PICO + Fraction(1, 2)), PICO)
    reserved, started = second("2026-11-30T14:00:00.250"), second("2026-11-30T14:00:03.900")
    stopping, released, midnight = (second("2026-12-01T02:30:00"), second("2026-12-01T02:30:05.100"),
                                    second("2026-12-01T00:00:00"))
    yield "rate (USD a second)", usd(rate)
    yield "hold (75 s)", usd(rate * 75)
    months = {"November": Fraction(0), "December": Fraction(0)}
    for kind, a, b in (("Starting", reserved, started), ("Running", started, midnight), ("Running", midnight, stopping),
                       ("Stopping", stopping, released)):
        yield f"{kind} {shown(a)} {shown(b)} {b - a}", usd(rate * (b - a))
        months["November" if a < midnight else "December"] += rate * (b - a)
    yield "total", usd(sum(months.values()))
    for month, amount in months.items():
        cents = Fraction(floor(amount * 100 + Fraction(1, 2)), 100)
        yield f"invoice of {month}", usd(amount)
        yield "rounding", usd(cents - amount)
        yield f"total of {month}", usd(cents)


block = re.search(r"```\n(rate .*?)```", TEXT, re.S).group(1)
lines = [re.sub(r"\s+", " ", line).strip() for line in block.splitlines() if re.search(r"\d$", line)]
wanted = [f"{name} {value}" for name, value in expected()]
prose = ["35,966 running seconds", "0.000898593750"]
if lines != wanted or any(text not in TEXT for text in prose):
    print("docs/finance.md tells another example:", *wanted, sep="\n  ")
    sys.exit(1)
print(f"{len(wanted)} figures of docs/finance.md are right")
