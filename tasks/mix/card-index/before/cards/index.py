"""Which keys have which value in one field."""


class FieldIndex:
    def __init__(self, field):
        self.field = field
        self._keys = {}

    def add(self, key, card):
        if self.field in card:
            self._keys.setdefault(card[self.field], set()).add(key)

    def remove(self, key, card):
        if self.field in card:
            self._keys[card[self.field]].discard(key)

    def keys(self, value):
        return sorted(self._keys.get(value, ()))

    def values(self):
        """Every value that a card has, in order."""
        return sorted(self._keys)
