"""Many records in one command: shared out over the processors, told in the order they were named."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from appliance.cli.verify_words import told
from appliance.cli.verifying import Asked, Terms, judge
from appliance.errors import AttestationRefused, Refusal

if TYPE_CHECKING:
    from appliance.submissions.published import Listed

_WORTH_A_PROCESS: Final = 24
"""Records: fewer are verified before another process is there."""
_MOST_PROCESSES: Final = 8
_FORKS: Final = sys.platform.startswith("linux")


@dataclass(frozen=True)
class Item:
    record: Path
    in_folder: bool
    """Somebody else named it: a symbolic link is none."""
    refusal: Refusal | None = None
    """Of a path that leads to no record that could be looked at."""
    unlisted: bool = False
    """It lies in a published folder, and the index that was held there does not name it."""
    listed: Listed | None = None
    """What that index says of it."""


Document = dict[str, Any]
"""What `--json` says of one of many records: all that is kept of it. Checks that passed are counted, not listed."""


def verify_all(items: Sequence[Item], asked: Asked, terms: Terms, ended: Callable[[int], None]) -> Iterator[Document]:
    """In the order of `items`; `ended` is told how many are done. A process that dies leaves refusals, never gaps."""
    if len(items) >= _WORTH_A_PROCESS:
        # What was imported is shared with the children, and no collection looks through it for every record again.
        gc.freeze()
    processes = min(_processors(), _MOST_PROCESSES, len(items) // (_WORTH_A_PROCESS // 2)) if _FORKS else 1
    if processes < 2:
        for number, item in enumerate(items, start=1):
            line = _told(item, asked, terms)
            ended(number)
            yield line
        return
    yield from _in_processes(items, asked, terms, processes, ended)


@contextmanager
def uncollected() -> Iterator[None]:
    """A record is read into trees without a cycle, which end with it: whatever a collection looked through meanwhile,
    it would find alive. One at most comes after it, for what its refusal holds on to."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _told(item: Item, asked: Asked, terms: Terms) -> Document:
    with uncollected():
        return _line(item, asked, terms)


def _line(item: Item, asked: Asked, terms: Terms) -> Document:
    if item.refusal is not None:
        return _unread(item, item.refusal, terms)
    if item.unlisted:
        refusal = AttestationRefused(
            "no line of the signed index names it",
            where=str(item.record),
            mend="verify it by itself; where publishing was cut off: appliance publish once more",
            reason="replay",
        )
        return _unread(item, refusal, terms)
    verdict = judge(item.record, asked, terms, follow=not item.in_folder, listed=item.listed)
    standing = verdict.standing if terms.policy is not None else None
    document = told(item.record, verdict.report, verdict.refusal, standing)
    if "checks" in document:
        kept = [check for check in document["checks"] if check["status"] != "passed"]
        document |= {"passed": len(document["checks"]) - len(kept), "checks": kept}
    return document


def _unread(item: Item, refusal: Refusal, terms: Terms) -> Document:
    return told(item.record, None, refusal, "excluded" if terms.policy is not None else None)


def _in_processes(
    items: Sequence[Item], asked: Asked, terms: Terms, processes: int, ended: Callable[[int], None]
) -> Iterator[Document]:
    """Each has every n-th record, so that a later one is never long ahead of what is printed."""
    context = multiprocessing.get_context("fork")
    readers: list[Connection] = []
    workers = []
    try:
        for number in range(processes):
            reader, writer = context.Pipe(duplex=False)
            readers.append(reader)
            share = items[number::processes]
            worker = context.Process(target=_work, args=(share, asked, terms, writer, tuple(readers)), daemon=True)
            worker.start()
            workers.append(worker)
            writer.close()
        yield from _collected(items, terms, readers, ended)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _collected(
    items: Sequence[Item], terms: Terms, readers: Sequence[Connection], ended: Callable[[int], None]
) -> Iterator[Document]:
    """Lines as soon as all before them are there."""
    came: dict[int, Document] = {}
    at = {reader: number for number, reader in enumerate(readers)}
    told_so_far = done = 0
    while at:
        for reader in cast("list[Connection]", wait(list(at))):
            number = at[reader]
            try:
                came[number] = reader.recv()
                at[reader] = number + len(readers)
            except EOFError:
                del at[reader]
                continue
            done += 1
            ended(done)
        while told_so_far in came:
            yield came.pop(told_so_far)
            told_so_far += 1
    for number in range(told_so_far, len(items)):
        yield came.get(number) or _unfinished(items[number], terms)


def _unfinished(item: Item, terms: Terms) -> Document:
    refusal = AttestationRefused(
        "the process that verified it was ended", where=str(item.record), reason="internal", mend="verify it alone"
    )
    return _unread(item, refusal, terms)


def _work(share: Sequence[Item], asked: Asked, terms: Terms, writer: Connection, readers: Sequence[Connection]) -> None:
    # A signal to all of us is the parent's to act on; it ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    for reader in readers:
        reader.close()  # so that a parent's end is seen by the next line that is sent
    with suppress(BrokenPipeError):
        for item in share:
            writer.send(_told(item, asked, terms))
    writer.close()
    os._exit(0)


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
