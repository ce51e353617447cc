#!/usr/bin/python3
"""Bills, invoices and exports of a history, recomputed with exact fractions from the scheduler's facts; and the exports
judged by the column rules of FOCUS 1.2 (https://focus.finops.org/focus-specification/v1-2/).

    finance_oracle.py DIRECTORY     exits 1 at the first difference"""
import csv
import json
import re
import sys
from collections import Counter, defaultdict
from datetime import datetime, timezone
from fractions import Fraction
from math import floor
from pathlib import Path

PICO = 10**12
DAY = 86_400
PRICE = Fraction(8, PICO)  # a vCPU-second, and a GiB-second of storage; nothing else costs anything


def second(us):
    return -(-us // 1_000_000)


def month_of(at):
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m")


def bounds(month):
    year, number = map(int, month.split("-"))
    begin = datetime(year, number, 1, tzinfo=timezone.utc)
    end = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=timezone.utc)
    return int(begin.timestamp()), int(end.timestamp())


def instant(text):
    return int(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp())


def exact(text):
    assert re.fullmatch(r"-?\d+(\.\d+)?", text), f"not a plain decimal: {text!r}"
    return Fraction(text)


def same(what, got, expected):
    if got != expected:
        print(f"difference in {what}:\n  got      {got}\n  expected {expected}", file=sys.stderr)
        sys.exit(1)


def rate_of(quantity):
    return Fraction(floor(quantity * PRICE * Fraction(9, 8) * PICO + Fraction(1, 2)), PICO)


def days_of(a, b):
    """[a, b) cut at midnights."""
    cuts = [a, *range(a // DAY * DAY + DAY, b, DAY), b]
    return zip(cuts, cuts[1:]) if a < b else ()


class Start:
    def __init__(self, fact):
        self.__dict__.update(fact)
        self.rate = rate_of(Fraction(self.cpuMilli, 1000))
        self.storage_rate = rate_of(Fraction(self.saved, 2**30))

    def released_by(self, closings):
        return 0 <= self.heard <= closings

    def pieces(self, at, closings):
        """(kind, from, to, reason) as known after so many months were closed, up to the second `at`, cut at midnights."""
        begin = second(self.reserved)
        known = self.released_by(closings)
        end = max(begin, second(self.released)) if known else max(begin, at)
        stop = min(max(second(self.stopping), begin), end) if known else end
        run = min(max(second(self.started), begin), stop)
        paid = begin + floor(Fraction(self.cap) / self.rate) if self.cap else end
        for kind, a, b in (("Starting", begin, run), ("Running", run, stop), ("Stopping", stop, end)):
            cut = min(max(paid, a), b)
            yield from ((kind, x, y, "Charged") for x, y in days_of(a, cut))
            yield from ((kind, x, y, "MaxCostReached") for x, y in days_of(cut, b))
        if known and self.saved >= 0:  # no cap counts for what is stored
            gone = 0 <= self.dropHeard <= closings
            yield from (("Storage", x, y, "Charged") for x, y in days_of(end, max(end, second(self.dropped) if gone else at)))

    def is_open(self, kind):
        return (self.dropHeard if kind == "Storage" else self.heard) < 0


def amount(start, kind, a, b, reason):
    rate = start.storage_rate if kind == "Storage" else start.rate
    return rate * (b - a) if reason == "Charged" else Fraction(0)


def check_bills(starts, bills):
    for bill in bills:
        query, answer = bill["query"], bill["answer"]
        low = instant(query["from"]) if "from" in query else 0
        high = instant(query["to"]) if "to" in query else 10**12
        at = instant(answer["at"])
        groups, total, lines = defaultdict(lambda: [0, 0, Fraction(0), Fraction(0)]), Fraction(0), []
        for s in starts:
            if query.get("project") and s.project != "acme/" + query["project"]:
                continue
            if "label" in query and s.labels.get("team") != "web":
                continue
            for kind, a, b, reason in s.pieces(at, 99):
                a, b = max(a, low), min(b, high)
                if a >= b:
                    continue
                cost = amount(s, kind, a, b, reason)
                total += cost
                lines.append((s.uid, kind, a, b, reason, cost))
                key = {"project": s.project.split("/")[1], "sandbox": s.uid, "day": a // DAY, "reason": reason,
                       "label:team": s.labels.get("team")}.get(query["by"])
                group = groups[key]
                group[0 if reason == "Charged" else 1] += b - a
                group[2] += cost
                group[3] += cost if s.is_open(kind) else 0
        same(f"total of {query}", exact(answer["total"]), total)
        if query["by"] == "line":
            same(f"lines of {query}", sorted((x["sandboxUid"], x["kind"], instant(x["from"]), instant(x["to"]), x["reason"],
                                              exact(x["amount"])) for x in answer["lines"]), sorted(lines))
            continue
        got = {}
        for g in answer["groups"]:
            key = {"project": g.get("project"), "sandbox": g.get("sandboxUid"), "reason": g.get("reason"),
                   "day": g.get("day") and instant(g["day"] + "T00:00:00Z") // DAY, "label:team": g.get("label")}[query["by"]]
            got[key] = [g["seconds"], g["waivedSeconds"], exact(g["amount"]), exact(g["open"])]
        same(f"groups of {query}", got, dict(groups))


def known_after(starts, closing, invoice):
    """Seconds and amount by (month, project, kind, reason), of months that are closed, as known at that closing."""
    _, end = bounds(invoice["month"])
    sums = defaultdict(lambda: [0, Fraction(0)])
    for s in starts:
        if s.heard < 0 and s.reserved // 1_000_000 > end + 10**6:
            continue
        for kind, a, b, reason in s.pieces(instant(invoice["provenTo"]), closing):
            if b <= end:
                entry = sums[month_of(a), s.project.split("/")[1], kind, reason]
                entry[0] += b - a
                entry[1] += amount(s, kind, a, b, reason)
    return sums


def check_invoices(starts, invoices):
    before = {}
    for closing, invoice in enumerate(invoices):
        heard = [s for s in starts if not (s.heard > closing and second(s.reserved) >= bounds(invoice["month"])[1])]
        now = known_after(heard, closing, invoice)
        expected = {}
        for key in {*now, *before}:
            seconds = now.get(key, [0, 0])[0] - before.get(key, [0, 0])[0]
            cost = now.get(key, [0, 0])[1] - before.get(key, [0, 0])[1]
            if seconds or cost:
                expected["Usage" if key[0] == invoice["month"] else "Correction", *key] = [seconds, cost]
        got = {(x["type"], x["month"], x["project"], x["kind"], x["reason"]): [x["seconds"], exact(x["amount"])]
               for x in invoice["lines"] if x["type"] != "Rounding"}
        same(f"invoice {invoice['number']}", got, expected)
        total = sum(exact(x["amount"]) for x in invoice["lines"])
        same(f"total of {invoice['number']}", exact(invoice["total"]), total)
        assert (total * 100).denominator == 1, "whole cents"
        assert sum(x["type"] == "Rounding" for x in invoice["lines"]) == 1
        raw = sum(x[1] for x in expected.values())
        assert abs(total - raw) <= Fraction(1, 200), "rounded once"
        before = now


# ---- FOCUS 1.2

MANDATORY = """BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory
ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost
PricingQuantity PricingUnit ProviderName PublisherName ServiceCategory ServiceName""".split()
# Recommended, and conditional ones whose condition holds here: sub accounts, resources, tags, unit prices, usage measured.
OTHERS = """ChargeFrequency InvoiceId ServiceSubcategory SubAccountId SubAccountName ResourceId ResourceName ResourceType Tags
ListUnitPrice ContractedUnitPrice PricingCategory ConsumedQuantity ConsumedUnit SkuId SkuMeter SkuPriceId
SkuPriceDetails""".split()
NOT_NULL = set(MANDATORY) - {"BillingAccountName", "ChargeClass", "ChargeDescription", "PricingQuantity", "PricingUnit"}
DECIMALS = {"BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "ListUnitPrice", "ContractedUnitPrice",
            "PricingQuantity", "ConsumedQuantity"}
INSTANTS = {"BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"}
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"", "Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"", "Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases",
                        "Developer Tools", "Multicloud", "Identity", "Integration", "Internet of Things",
                        "Management and Governance", "Media", "Migration", "Mobile", "Networking", "Security", "Storage",
                        "Web", "Other"},
    "BillingCurrency": {"USD"},
}
SUBCATEGORIES = {
    "Compute": {"Containers", "End User Computing", "Quantum Compute", "Serverless Compute", "Virtual Machines",
                "Other (Compute)"},
    "Storage": {"Backup Storage", "Block Storage", "File Storage", "Object Storage", "Storage Platforms", "Other (Storage)"},
}


def check_row(row):
    for column in NOT_NULL:
        assert row[column] != "", f"{column} is null"
    for column, values in ALLOWED.items():
        assert row[column] in values, f"{column} {row[column]!r}"
    assert row["ServiceSubcategory"] in SUBCATEGORIES[row["ServiceCategory"]], row["ServiceSubcategory"]
    assert (row["ServiceCategory"] == "Storage") == (row["x_LineKind"] == "Storage")
    for column in DECIMALS:
        if row[column]:
            exact(row[column])
    for column in INSTANTS:
        instant(row[column])
    assert row["BillingPeriodStart"] < row["BillingPeriodEnd"] and row["ChargePeriodStart"] < row["ChargePeriodEnd"]
    usage, correction = row["ChargeCategory"] == "Usage", row["ChargeClass"] == "Correction"
    assert (row["ConsumedQuantity"] != "") == (row["ConsumedUnit"] != "") == usage
    assert (row["PricingQuantity"] != "") == (row["PricingUnit"] != "")
    if usage and not correction:
        for column in ("ListUnitPrice", "ContractedUnitPrice", "PricingCategory", "PricingQuantity", "SkuId", "SkuPriceId"):
            assert row[column] != "", f"{column} is null"
    if not usage:
        assert row["ChargeFrequency"] != "Usage-Based"
    if row["PricingQuantity"]:
        quantity = exact(row["PricingQuantity"])
        assert exact(row["ListUnitPrice"]) * quantity == exact(row["ListCost"]), "ListCost"
        assert exact(row["ContractedUnitPrice"]) * quantity == exact(row["ContractedCost"]), "ContractedCost"
        assert exact(row["ListUnitPrice"]) >= 0 and exact(row["ContractedUnitPrice"]) >= 0
    assert (row["ResourceId"] == "") == (row["ResourceName"] == "") == (row["ResourceType"] == "")
    assert (row["SubAccountId"] == "") == (row["SubAccountName"] == "")
    assert row["SkuId"] or not row["SkuPriceId"]
    for column in ("Tags", "SkuPriceDetails"):
        if row[column]:
            pairs = json.loads(row[column])
            assert isinstance(pairs, dict) and all(not isinstance(v, (dict, list)) for v in pairs.values())
    for column, value in row.items():
        assert re.fullmatch(r"(x_)?[A-Z][A-Za-z0-9]{0,49}", column), f"column {column}"
        assert value == value.strip(), f"{column} has blanks around it"
        if column not in DECIMALS:
            assert not re.match(r"[=+\-@\t\r]", value), f"{column} {value!r} is a formula"


def check_focus(starts, folder, month, invoice):
    with open(folder / f"focus-{month.replace('-', '')}.csv", newline="") as file:
        text = file.read()
    assert text.count("\r\n") == text.count("\n"), "lines end with CRLF, and no cell breaks one"
    rows = list(csv.DictReader(text.splitlines(), strict=True))
    for column in MANDATORY + OTHERS:
        assert column in rows[0], f"{column} is missing"
    begin, end = bounds(month)
    for row in rows:
        check_row(row)
        same("billing period", (instant(row["BillingPeriodStart"]), instant(row["BillingPeriodEnd"])), (begin, end))
        same("invoice id", row["InvoiceId"], invoice["number"] if invoice else "")
        if row["ChargeClass"] != "Correction":
            assert begin <= instant(row["ChargePeriodStart"]) < instant(row["ChargePeriodEnd"]) <= end
    seen = Counter((r["ResourceId"], r["ChargePeriodStart"]) for r in rows if r["ChargeClass"] == "" and r["ResourceId"])
    assert max(seen.values()) == 1, "each line once"
    labels = {s.uid: s.labels for s in starts}
    for row in rows:
        if row["ResourceId"]:
            same("tags", json.loads(row["Tags"]), labels[row["ResourceId"]])
    if invoice:
        same(f"BilledCost of {month}", sum(exact(r["BilledCost"]) for r in rows), exact(invoice["total"]))
        by_type = Counter()
        for row in rows:
            kind = "Rounding" if row["ChargeCategory"] == "Adjustment" else row["ChargeClass"] or "Usage"
            by_type[kind] += exact(row["BilledCost"])
        for kind in ("Usage", "Correction", "Rounding"):
            same(f"{kind} of {month}", by_type[kind], sum(exact(x["amount"]) for x in invoice["lines"] if x["type"] == kind))
    with open(folder / f"lines-{month.replace('-', '')}.csv", newline="") as file:
        plain = list(csv.DictReader(file, strict=True))
    same(f"amounts of {month}", [exact(r["Amount"]) for r in plain], [exact(r["BilledCost"]) for r in rows])


def main():
    folder = Path(sys.argv[1])
    starts = [Start(fact) for fact in json.loads((folder / "facts.json").read_text())]
    invoices = json.loads((folder / "invoices.json").read_text())
    bills = json.loads((folder / "bills.json").read_text())
    check_bills(starts, bills)
    check_invoices(starts, invoices)
    for month, invoice in zip(("2027-01", "2027-02", "2027-03"), [*invoices, None]):
        check_focus(starts, folder, month, invoice)
    stored = Counter(x["type"] for invoice in invoices for x in invoice["lines"] if x["kind"] == "Storage")
    assert stored["Usage"], "some storage is invoiced"
    print(f"{len(starts)} starts, {len(bills)} bills, {len(invoices)} invoices, {stored['Correction']} corrections of storage: "
          "no difference")


main()
