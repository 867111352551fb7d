"""Runs of an agent against a scripted model, through the real gateway and forwarder; the agent is some Python."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from appliance.digests import sha256_of_file
from appliance.records.plan import PlannedBudget, PlannedServer, PlannedUpstream
from appliance.records.words import Provider
from appliance.solvers.definition import SolverDefinition, read_definition
from appliance.trials.adapters import images_here
from tests.scripted_model import Run, Say
from tests.trials_suites import write_solver

MODEL = "scripted"
_SERVE = """
import sys, threading
from pathlib import Path
from tests import scripted_model
from tests.scripted_model import Run, Say, ScriptedModel

posted = scripted_model._Handler.do_POST


def do_post(self):
    if self.path.startswith("/slots/"):
        self._json(200, {{}})
    else:
        posted(self)


scripted_model._Handler.do_POST = do_post
{turns}
with ScriptedModel(*turns, llama=True, unix=Path("/run/model/llama.sock"), model={model!r}):
    print("the stub is listening", flush=True)
    {after}
"""
FIX = Run("printf '#!/bin/sh\\nexit 0\\n' > program.sh")
DONE = Say("Done.")

AGENT = r"""
import json, subprocess, sys, time, urllib.error, urllib.request

base, key, model = sys.argv[1:4]
patient = "--patient" in sys.argv
tool = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}
messages = [{"role": "user", "content": "mend it"}]
for _ in range(20):
    body = json.dumps({"model": model, "messages": messages, "tools": [tool]}).encode()
    request = urllib.request.Request(
        base + "/v1/chat/completions", body, {"authorization": "Bearer " + key, "content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as answer:
            message = json.load(answer)["choices"][0]["message"]
    except (OSError, ValueError) as error:
        print("failed:", error)
        if patient:
            time.sleep(0.1)
            continue
        sys.exit(1)
    messages.append(message)
    if not message.get("tool_calls"):
        print(message["content"])
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        ended = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": ended.stdout + ended.stderr})
"""


def agent(
    folder: Path, name: str = "toy", script: str = AGENT, *, asks: str = "{model}", words: str = "", more: str = ""
) -> SolverDefinition:
    """A solver that runs `script` with the gateway's URL, the dummy key and the model that it asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(script)
    argv = f'["python3", "{{home}}/agent.py", "{{base_url}}", "{{dummy_key}}", "{asks}"{words}]'
    text = (
        f'model = "required"\nwire = "openai-chat"\nargv = {argv}\n{more}\n[files]\n"{{home}}/agent.py" = "{name}.py"\n'
    )
    # Braces of a program are no placeholders unless a word stands in them, and none does here.
    return read_definition(write_solver(folder, name, text))


def upstream(
    url: str | None,
    *,
    provider: Provider = "compatible",
    budget: PlannedBudget | None = None,
    run_budget: PlannedBudget | None = None,
    server: PlannedServer | None = None,
) -> PlannedUpstream:
    library = images_here(lambda _words: None, needs_engine=True)
    return PlannedUpstream(
        provider=provider,
        base_url=url,
        forwarder=library.pin("base")[0],
        server=server,
        budget=budget or PlannedBudget(),
        run_budget=run_budget or PlannedBudget(),
    )


def stub_server(path: Path, *, turns: str = "", after: str = "threading.Event().wait()", model: str = MODEL) -> Path:
    """A scripted model in the place of a llama-server and its weights: a file that Python runs where it is mounted.

    `turns`: code that says what is answered; `after`: code that runs once it listens.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).parent
    chosen = turns or f"turns = ({FIX!r}, {DONE!r})"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tests/__init__.py", "")
        for name in ("scripted_model.py", "scripted_forms.py"):
            archive.write(here / name, f"tests/{name}")
        archive.writestr("__main__.py", _SERVE.format(turns=chosen, after=after, model=model))
    path.chmod(0o644)
    return path


def stub_argv(planned: PlannedServer, model: str) -> tuple[str, ...]:
    """`Adapters.server_argv` of a `stub_server`."""
    del planned, model
    return ("python3", "-I", "/run/weights.gguf")


def planned_server(weights: Path, **changes: Any) -> PlannedServer:
    library = images_here(lambda _words: None, needs_engine=True)
    value: dict[str, Any] = {
        "weights": sha256_of_file(weights),
        "image": library.pin("base")[0],
        "slots": 1,
        "threads": 1,
        "context": 4096,
        "gpus": False,
        "sampling": {"temperature": 0.0, "seed": 42.0},
    }
    return PlannedServer(**(value | changes))
