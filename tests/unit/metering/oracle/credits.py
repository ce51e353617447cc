"""Which credit is used first, and what of a Grant is left at its instant: told by docs/credits.md."""

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
