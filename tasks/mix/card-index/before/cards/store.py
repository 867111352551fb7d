"""Cards by key, with indexes over some of their fields, and changes that can be taken back."""

from cards.index import FieldIndex


class Store:
    def __init__(self, *indexed):
        self._cards = {}
        self._indexes = {field: FieldIndex(field) for field in indexed}
        self._open = []

    # ---- reading

    def get(self, key):
        return self._cards.get(key)

    def keys(self):
        return sorted(self._cards)

    def find(self, field, value):
        """The keys of all cards with this value, in order."""
        return self._indexes[field].keys(value)

    def values(self, field):
        return self._indexes[field].values()

    # ---- writing

    def put(self, key, card):
        self._remember(key)
        self._cards[key] = card
        for index in self._indexes.values():
            index.add(key, card)

    def update(self, key, **fields):
        """Changes some fields of a card."""
        self._remember(key)
        self._cards[key].update(fields)

    def delete(self, key):
        card = self._cards.pop(key)
        for index in self._indexes.values():
            index.remove(key, card)

    # ---- transactions, one inside the other

    def begin(self):
        self._open.append([])

    def commit(self):
        """Keeps what was done since the last `begin`, as part of the transaction around it."""
        self._open.pop()

    def rollback(self):
        """Takes back what was done since the last `begin`."""
        for key, card in self._open.pop():
            if card is None:
                self._cards.pop(key, None)
            else:
                self._cards[key] = card

    def _remember(self, key):
        if self._open:
            self._open[-1].append((key, self._cards.get(key)))
