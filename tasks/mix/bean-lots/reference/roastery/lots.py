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
        short = grams - self.grams()
        if short > 0:
            raise OutOfStock(f"{short} g short")
        thousandths = 0
        while grams > 0:
            lot = self.lots[0]
            taken = min(lot.grams, grams)
            thousandths += taken * lot.cents_a_kilo
            lot.grams -= taken
            grams -= taken
            if lot.grams == 0:
                del self.lots[0]
        return (thousandths + 500) // 1000
