"""Which credit is used first, and what of a Grant is left at its instant: told by docs/credits.md."""

from facts import usd

NEVER = 1 << 60


class Lot:
    def __init__(self, name, left, priority, expires, number):
        self.name, self.left, self.priority, self.expires, self.number = name, left, priority, expires, number
        self.over = False  # its instant has come

    def copy(self):
        lot = Lot(self.name, self.left, self.priority, self.expires, self.number)
        lot.over = self.over
        return lot


class Lots:
    """What was used comes from the smallest priority, then the earliest expiry, then the oldest. It is reckoned where it
    matters: when a credit comes, and when a Grant expires. What a lost machine gives back after that is the customer's:
    the next use is not taken from any credit until it has made up for it."""

    def __init__(self, lots=(), counted=0):
        self.lots, self.counted = [lot.copy() for lot in lots], counted

    def copy(self):
        return Lots(self.lots, self.counted)

    def count(self, used):
        rest, self.counted = max(0, used - self.counted), max(used, self.counted)
        for lot in self.lots:
            taken = min(lot.left, rest)
            lot.left -= taken
            rest -= taken
        self.lots = [lot for lot in self.lots if lot.left]

    def add(self, name, amount, priority, expires, used):
        self.count(used)
        self.lots.append(Lot(name, amount, priority, expires or NEVER, len(self.lots) + used))
        self.lots.sort(key=lambda lot: (lot.priority, lot.expires))  # stable: the oldest first

    def take_back(self, amount, used):
        """From what would be used last; before all, from what never expires. What is in no credit is what a lost machine gave
        back: that much less is to be made up for."""
        self.count(used)
        for lot in sorted(self.lots[::-1], key=lambda lot: lot.expires != NEVER):
            taken = min(lot.left, amount)
            lot.left -= taken
            amount -= taken
        self.counted -= amount
        self.lots = [lot for lot in self.lots if lot.left]

    def expire(self, at, used, free):
        """What leaves the balance at this second: (name, amount) each. What holds of funded starts need (`free` is what they
        leave) stays until they let go of it."""
        gone = []
        for lot in [lot for lot in self.lots if lot.expires <= at]:
            if not lot.over:
                self.count(used)
            lot.over = True
            amount = max(0, min(lot.left, free))
            lot.left -= amount
            free -= amount
            if amount:
                gone.append((lot.name, amount))
        self.lots = [lot for lot in self.lots if lot.left]
        return gone

    def expires_at(self, at):
        return any(lot.expires == at for lot in self.lots)

    def next(self, after):
        return min((lot.expires for lot in self.lots if after < lot.expires < NEVER), default=NEVER)

    def seconds(self, at, rate, remaining, used, aside, most):
        """How many seconds from `at` on the credits pay this rate, at most `most`."""
        if rate == 0:
            return most
        if self.next(at) > at + most:
            return min(most, (remaining - aside) // rate) if remaining > aside else 0
        then = self.copy()
        for passed in range(most):
            for _, amount in then.expire(at + passed, used, remaining - aside) if passed else ():
                remaining -= amount
            if rate > remaining - aside:
                return passed
            remaining, used = remaining - rate, used + rate
        return most


class Credited:
    """What comes to one organization's balance and leaves it without a start."""

    def expire(self, at):
        for name, amount in self.lots.expire(at, self.used, self.remaining - self.set_aside()):
            self.credits -= amount
            self.remaining -= amount
            self.out.append(f"expired {name} {usd(amount)} {at}")

    def credit(self, now, at):
        self.expire(at)
        self.credit_number += 1
        name, amount = f"g{self.credit_number}", self.rng.randrange(1, self.unit * 600)
        priority = self.rng.choice([1, 5, 5, 9])
        expires = at + self.rng.choice([1, self.rng.randrange(1, 300)]) if self.rng.random() < 0.5 else 0
        self.facts.append(f"C {now} org {name} {usd(amount)} {priority} {expires}")
        self.credits += amount
        self.remaining += amount
        self.lots.add(name, amount, priority, expires, self.used)

    def take_away(self, now, at):
        """An Adjustment: at most what is available."""
        self.expire(at)
        most = self.remaining - self.set_aside() - sum(s.hold for s in self.live())
        if most <= 0:
            return
        self.credit_number += 1
        self.taken_away += 1
        amount = self.rng.choice([most, self.rng.randrange(1, most + 1)])
        self.facts.append(f"C {now} org a{self.credit_number} {usd(-amount)}")
        self.credits -= amount
        self.remaining -= amount
        self.lots.take_back(amount, self.used)
