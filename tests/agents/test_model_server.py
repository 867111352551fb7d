"""The real engine with the model that is shipped: equal questions get equal answers, trial by trial."""

from __future__ import annotations

import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from appliance.engine.docker import connect
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.images.weights import weights
from appliance.ports import RUN_LABEL
from appliance.trials.model_server import LOG, ModelServer, server_argv
from tests.engine_bench import new_run
from tests.gateway_bench import planned_server

pytestmark = [pytest.mark.agents, pytest.mark.docker, pytest.mark.slow]


def asked(path: Path, words: str) -> dict[str, Any]:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(300)
    sock.connect(os.fspath(path))
    connection = http.client.HTTPConnection("localhost")
    connection.sock = sock
    body = {"messages": [{"role": "user", "content": words}], "max_tokens": 12}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200
    found: dict[str, Any] = json.load(answer)
    connection.close()
    return found


def test_equal_trials_get_equal_answers_and_none_finds_anothers_prompt(tmp_path: Path) -> None:
    """Temperature 0, one seed, one slot that is emptied: the same words each time, and no token of a prompt that was
    read before; within a trial what was read is used again (M10, M11)."""
    found, engine = weights("smollm2-135m"), connect()
    pin = Catalog.default().lock("llama").pin
    image = ImageLibrary(engine).ensure([pin])[pin.config]
    planned = planned_server(found.path, image=pin, threads=2)
    with ModelServer(
        engine,
        planned,
        argv=server_argv(planned, found.name),
        image=image,
        weights=found.path,
        folder=tmp_path / "server",
        labels={RUN_LABEL: new_run("llama")},
        cgroup=None,
        log=tmp_path / LOG,
    ) as server:
        answers = []
        for _ in range(3):
            server.make_fresh()
            answers.append(asked(server.socket, "Name three colours."))
        again = asked(server.socket, "Name three colours.")
    texts = [one["choices"][0]["message"]["content"] for one in (*answers, again)]
    assert len(set(texts)) == 1
    assert texts[0]
    assert [one["timings"]["cache_n"] for one in answers] == [0, 0, 0]
    assert again["timings"]["cache_n"] > 0
