"""Any value in any place of a request or an answer: nothing is raised but what says that it is malformed."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.gateway.exchange import Asked
from appliance.gateway.forms.bodies import Malformed
from appliance.gateway.forms.queries import query_of
from appliance.gateway.forms.structure import structure_of
from appliance.gateway.forms.transcript import spoken
from tests.forms_answers import STREAMS, WHOLE, read, route, said
from tests.forms_requests import ANTHROPIC, CHAT, GEMINI, RESPONSES
from tests.scripted_forms import events, whole

REQUESTS = {"anthropic": ANTHROPIC, "openai-chat": CHAT, "openai-responses": RESPONSES, "gemini": GEMINI}
_LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", [], {}, [None], [[]], [{}], {"type": {}}, [{"type": []}], "x" * 70_000])
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


def _mutated(original: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    value = json.loads(json.dumps(original))
    places = [place for place in _places(value) if place]
    for place in draw(st.lists(st.sampled_from(places), min_size=1, max_size=4)):
        target = value
        with suppress(KeyError, IndexError, TypeError):  # an earlier one took its place away
            for key in place[:-1]:
                target = target[key]
            target[place[-1]] = deepcopy(draw(_LEAF))
    return value


@settings(max_examples=300)
@given(st.sampled_from(sorted(REQUESTS)), st.data())
def test_a_request_with_anything_anywhere_is_read_or_malformed(form: Any, draw: st.DataObject) -> None:
    """Rows M13, M14: agents are strangers' programs."""
    content = json.dumps(_mutated(REQUESTS[form] | {"model": "m", "stream": True}, draw.draw)).encode()
    with suppress(Malformed):
        for turn in structure_of(form, content).turns:
            assert isinstance(turn.role, str)
            assert all(isinstance(text, str) for call in turn.calls for text in (call.id, call.name, call.arguments))
    with suppress(Malformed):
        found = query_of(route(STREAMS[form]), Asked("POST", STREAMS[form], (), content))
        assert found.model is None or found.model.encode()
    json.dumps(spoken(form, content, []), ensure_ascii=False).encode()


@settings(max_examples=300)
@given(st.sampled_from(sorted(REQUESTS)), st.booleans(), st.data())
def test_an_answer_with_anything_anywhere_is_read(form: Any, streamed: bool, draw: st.DataObject) -> None:
    """Rows M13, M15: so may a provider's server be."""
    spoke = said("one ", "two", tool="Bash")
    values = (
        [json.loads(data) for _, data in events(form, spoke) if data != "[DONE]"] if streamed else [whole(form, spoke)]
    )
    values = _mutated(values, draw.draw)
    form_of = "data: {}\n\n".format if streamed else "{}".format
    content = "".join(form_of(json.dumps(value)) for value in values).encode()
    answer = read((STREAMS if streamed else WHOLE)[form], [content], stream=streamed)
    for text in (answer.stop, answer.why):
        assert text is None or (len(text) < 400 and text.encode())
    if answer.usage is not None:
        answer.usage.canonical()
        assert answer.usage.cache_read_tokens + answer.usage.cache_write_tokens <= answer.usage.input_tokens
    json.dumps(spoken(form, b"{}", [content]), ensure_ascii=False).encode()
