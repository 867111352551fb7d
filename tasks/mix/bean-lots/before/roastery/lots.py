"""Green coffee in lots: what was bought first is used first."""

from dataclasses import dataclass


class OutOfStock(Exception):
    pass


@dataclass
class Lot:
    grams: int
    cents_a_kilo: int


class Stock:
    def __init__(self):
        self.lots = []

    def grams(self):
        return sum(lot.grams for lot in self.lots)

    def buy(self, grams, cents_a_kilo):
        self.lots.append(Lot(grams, cents_a_kilo))

    def use(self, grams):
        """Takes coffee from the oldest lots and says what it had cost, in cents, half a cent rounded up."""
        cost = 0
        while grams > 0:
            if not self.lots:
                raise OutOfStock(f"{grams} g short")
            lot = self.lots.pop(0)
            taken = min(lot.grams, grams)
            cost += (taken * lot.cents_a_kilo + 500) // 1000
            grams -= taken
        return cost
