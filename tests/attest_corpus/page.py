"""docs/hostile-corpus.md: the corpus as a table, with what sigstore-python alone said when it was measured."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from attest import REASON_CLASSES
from tests.attest_corpus import NOT_ASKED
from tests.attest_corpus.families import families
from tests.attest_corpus.workshop import Workshop

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/hostile-corpus.md"
_HEAD: Final = """\
# The hostile corpus

{count} bundles, records and papers around them, each with one defect and the class that `appliance verify` (or whatever
reads it) refuses it for. Nothing of it is stored: it is built of genuine instances each time (`tests/attest_corpus`);
those of the later tables are signed with the genuine key: only our own checks can refuse them.

*alone* is what sigstore-python says of the same bytes by itself, its `Verifier.verify_dsse` with an exact name and
issuer: measured by the test that holds this page to the corpus, not written by hand. It refuses {refuses}, accepts
{accepts}, and ends {breaks} in an error that is none of its own; {unasked} are no bundles. What it accepts is no fault
of it where its documentation leaves that to the caller: payload type, statement, subject and record are the caller's.

*rows* names the acceptance row (V, P, H, J), the section of the acceptance page, or the published bug that a case
mirrors. The tables are written by `python -m tests.attest_corpus`.
"""

_NOT_MIRRORED: Final = {
    "CVE-2026-24408 (OAuth state), CVE-2026-24137 (TUF client), CVE-2025-52556 (timestamps)": (
        "of the libraries' own side: a test holds the installed versions above the ones that mended them"
    ),
    "CVE-2026-22772, CVE-2025-66506 (Fulcio); CVE-2026-24117, CVE-2026-48702 (Rekor); CVE-2026-49835 (TSA)": (
        "of services that answer strangers: the embedded instance listens to nobody"
    ),
    "cosign's and sigstore-go's thresholds over several logs or keys": (
        "one log entry and one certificate are all that a bundle has here "
        "(`two-log-entries`, `public-key-instead-of-certificate`)"
    ),
}


def text(shop: Workshop) -> str:
    alone = {case.name: shop.made(case).alone() for cases in families().values() for case in cases}
    said = Counter(word.partition(":")[0] for word in alone.values())
    parts = [
        _HEAD.format(
            count=len(alone),
            refuses=said["refuses"],
            accepts=said["accepts"],
            breaks=said["breaks"],
            unasked=said[NOT_ASKED],
        )
    ]
    for title, cases in families().items():
        parts.append(
            f"\n## {title}\n\n{len(cases)} cases.\n\n| name | defect | class | alone | rows |\n|---|---|---|---|---|\n"
        )
        parts += [
            f"| `{case.name}` | {_cell(case.defect)} | {case.reason} ({REASON_CLASSES.get(case.reason, '-')}) "
            f"| {alone[case.name]} | {_cell(case.rows)} |\n"
            for case in cases
        ]
    parts.append("\n## Published bugs that no case mirrors\n\n| bug | why not |\n|---|---|\n")
    parts += [f"| {bug} | {why} |\n" for bug, why in _NOT_MIRRORED.items()]
    return "".join(parts)


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ").replace("\0", "\\0")
