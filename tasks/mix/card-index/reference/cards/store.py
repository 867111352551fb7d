"""Cards by key, with indexes over some of their fields, and changes that can be taken back."""

from cards.index import FieldIndex


class Store:
    def __init__(self, *indexed):
        self._cards = {}
        self._indexes = {field: FieldIndex(field) for field in indexed}
        self._open = []

    # ---- reading

    def get(self, key):
        """A copy of a card; changing it changes nothing here."""
        card = self._cards.get(key)
        return None if card is None else dict(card)

    def keys(self):
        return sorted(self._cards)

    def find(self, field, value):
        """The keys of all cards with this value, in order."""
        return self._indexes[field].keys(value)

    def values(self, field):
        return self._indexes[field].values()

    # ---- writing

    def put(self, key, card):
        self._set(key, dict(card))

    def update(self, key, **fields):
        """Changes some fields of a card."""
        self._set(key, {**self._cards[key], **fields})

    def delete(self, key):
        if key not in self._cards:
            raise KeyError(key)
        self._set(key, None)

    # ---- transactions, one inside the other

    def begin(self):
        self._open.append([])

    def commit(self):
        """Keeps what was done since the last `begin`, as part of the transaction around it."""
        done = self._open.pop()
        if self._open:
            self._open[-1].extend(done)

    def rollback(self):
        """Takes back what was done since the last `begin`."""
        for key, card in reversed(self._open.pop()):
            self._swap(key, card)

    def _set(self, key, card):
        before = self._swap(key, card)
        if self._open:
            self._open[-1].append((key, before))

    def _swap(self, key, card):
        """Puts a card (None: no card) in the place of the one that it returns. Cards are never changed in place."""
        before = self._cards.pop(key, None)
        for index in self._indexes.values():
            if before is not None:
                index.remove(key, before)
            if card is not None:
                index.add(key, card)
        if card is not None:
            self._cards[key] = card
        return before
