"""The solution runs in a process of its own, behind /run/appliance/subject; only text comes back."""

import json
import subprocess

DRIVER = """
import json, os, sys
sys.path.insert(0, os.getcwd())
from cards.store import Store
WORDS = ("Oslo", "Rome", "Bonn", "cook", "baker")
store = Store("city", "role")
kept = {}
def look():
    every = {key: store.get(key) for key in store.keys()}
    found = {
        field: {value: store.find(field, value) for value in WORDS if store.find(field, value)}
        for field in ("city", "role")
    }
    values = {field: store.values(field) for field in ("city", "role")}
    print(json.dumps([every, found, values], sort_keys=True))
for verb, *words in json.load(sys.stdin):
    if verb == "look":
        look()
    elif verb == "take":
        kept[words[0]] = store.get(words[0])
    elif verb == "scribble":
        kept[words[0]].update(words[1])
    elif verb == "give":
        store.put(words[0], kept.setdefault(words[0], words[1]))
    elif verb == "update":
        store.update(words[0], **words[1])
    else:
        try:
            getattr(store, verb)(*words)
        except KeyError as error:
            print("KeyError", error)
"""


def looks(*steps):
    """What the store holds at each `look`: its cards, and what its indexes say of them."""
    done = subprocess.run(
        ["/run/appliance/subject", "python3", "-c", DRIVER],
        input=json.dumps([step if isinstance(step, (list, tuple)) else [step] for step in steps]),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) if line.startswith("[") else line for line in done.stdout.splitlines()]


def holding(cards):
    """The one right `look` at a store with these cards."""
    found = {"city": {}, "role": {}}
    for key in sorted(cards):
        for field in found:
            if field in cards[key]:
                found[field].setdefault(cards[key][field], []).append(key)
    return [cards, found, {field: sorted(found[field]) for field in found}]


ADA, BO, CY = {"city": "Oslo", "role": "cook"}, {"city": "Rome", "role": "cook"}, {"city": "Oslo"}
THREE = (("put", "ada", ADA), ("put", "bo", BO), ("put", "cy", CY))


def test_a_replaced_card_is_found_by_what_it_says_now():
    assert looks(*THREE, ("put", "ada", {"city": "Bonn"}), "look", ("put", "cy", {"role": "baker"}), "look") == [
        holding({"ada": {"city": "Bonn"}, "bo": BO, "cy": CY}),
        holding({"ada": {"city": "Bonn"}, "bo": BO, "cy": {"role": "baker"}}),
    ]


def test_an_updated_card_is_found_by_what_it_says_now():
    assert looks(*THREE, ("update", "ada", {"city": "Rome", "age": 36}), ("update", "cy", {"role": "baker"}), "look") == [
        holding({"ada": {"city": "Rome", "role": "cook", "age": 36}, "bo": BO, "cy": {"city": "Oslo", "role": "baker"}})
    ]


def test_values_are_those_of_cards():
    assert looks(*THREE, ("delete", "bo"), "look", ("delete", "ada"), "look", ("delete", "cy"), "look") == [
        holding({"ada": ADA, "cy": CY}),
        holding({"cy": CY}),
        holding({}),
    ]


def test_a_rollback_takes_back_the_indexes_too():
    assert looks(
        *THREE,
        "begin",
        ("put", "dee", {"city": "Bonn", "role": "baker"}),
        ("put", "ada", {"city": "Bonn"}),
        ("update", "bo", {"role": "baker"}),
        "look",
        "rollback",
        "look",
    ) == [
        holding({"ada": {"city": "Bonn"}, "bo": {"city": "Rome", "role": "baker"}, "cy": CY, "dee": {"city": "Bonn", "role": "baker"}}),
        holding({"ada": ADA, "bo": BO, "cy": CY}),
    ]


def test_a_deleted_card_comes_back():
    assert looks(*THREE, "begin", ("delete", "ada"), ("delete", "cy"), ("put", "cy", BO), "look", "rollback", "look") == [
        holding({"bo": BO, "cy": BO}),
        holding({"ada": ADA, "bo": BO, "cy": CY}),
    ]


def test_several_changes_of_one_card():
    assert looks(
        ("put", "ada", ADA),
        "begin",
        ("update", "ada", {"city": "Rome"}),
        ("update", "ada", {"city": "Bonn"}),
        ("delete", "ada"),
        ("put", "ada", {"role": "baker"}),
        ("put", "new", {"city": "Rome"}),
        ("update", "new", {"city": "Bonn"}),
        "rollback",
        "look",
    ) == [holding({"ada": ADA})]


def test_the_outer_transaction_takes_back_what_the_inner_one_kept():
    assert looks(
        *THREE,
        "begin",
        ("update", "ada", {"city": "Rome"}),
        "begin",
        ("update", "ada", {"city": "Bonn"}),
        ("delete", "bo"),
        "begin",
        ("put", "eve", ADA),
        "commit",
        "commit",
        "look",
        "rollback",
        "look",
    ) == [
        holding({"ada": {"city": "Bonn", "role": "cook"}, "cy": CY, "eve": ADA}),
        holding({"ada": ADA, "bo": BO, "cy": CY}),
    ]


def test_the_inner_transaction_alone_is_taken_back():
    assert looks(
        *THREE,
        "begin",
        ("update", "ada", {"city": "Rome"}),
        "begin",
        ("update", "ada", {"city": "Bonn"}),
        ("delete", "cy"),
        "rollback",
        "look",
        "commit",
        "look",
    ) == [holding({"ada": {"city": "Rome", "role": "cook"}, "bo": BO, "cy": CY})] * 2


def test_a_card_that_was_handed_out_is_not_the_store_s():
    assert looks(
        ("put", "ada", ADA),
        ("take", "ada"),
        ("scribble", "ada", {"city": "Bonn"}),
        "look",
        ("give", "bo", BO),
        ("scribble", "bo", {"role": "baker"}),
        "look",
    ) == [holding({"ada": ADA}), holding({"ada": ADA, "bo": BO})]


def test_a_card_that_is_not_there():
    assert looks(("put", "ada", ADA), "begin", ("delete", "nobody"), "look", "rollback", ("delete", "none"), "look") == [
        "KeyError 'nobody'",
        holding({"ada": ADA}),
        "KeyError 'none'",
        holding({"ada": ADA}),
    ]


def test_no_transaction_no_trace():
    assert looks(*THREE, "look", "begin", "commit", "look", "begin", "rollback", "look") == [
        holding({"ada": ADA, "bo": BO, "cy": CY})
    ] * 3
