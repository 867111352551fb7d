"""A store that is driven by lines of text, for imports and for trying things out.

    put KEY FIELD=VALUE...    update KEY FIELD=VALUE...    delete KEY
    begin    commit    rollback
    get KEY    keys    find FIELD VALUE    values FIELD
"""

from cards.store import Store


def fields(words):
    return dict(word.split("=", 1) for word in words)


def shown(card):
    return "none" if card is None else " ".join(f"{name}={card[name]}" for name in sorted(card))


def run(lines, *indexed):
    """The answers to all lines that ask for something."""
    store = Store(*indexed)
    for line in lines:
        verb, *words = line.split()
        if verb == "put":
            store.put(words[0], fields(words[1:]))
        elif verb == "update":
            store.update(words[0], **fields(words[1:]))
        elif verb == "get":
            yield shown(store.get(words[0]))
        elif verb in ("keys", "find", "values"):
            yield " ".join(getattr(store, verb)(*words)) or "none"
        else:
            getattr(store, verb)(*words)
