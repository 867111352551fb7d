"""Quotes and keys of a TPM, with the emulator swtpm as the TPM and tpm2-tools as the other judge."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from attest import Refused, canonical, statement, verify
from attest.predicate import Tpm
from attest.signing import sign_record
from attest.tpm import AK_FORM, NO_CHALLENGE, check_quote, is_quoted, read_enrolled, tpm_check, with_quote
from attest.tpm_device import TpmDevice
from attest.trust.local import ISSUER, LocalTrust, init, open_or_init
from tests import record_builder as build
from tests.attest_forge import RECORD, claims
from tests.typed_cli import ROOT, Typed

pytestmark = pytest.mark.tpm
CHALLENGE = hashlib.sha256(b"nonce").hexdigest()
VENDORS_FIRMWARE = "0007005500112233"
EMULATORS_FIRMWARE = "2019102300163636"


@dataclass(frozen=True)
class Emulator:
    folder: Path

    @property
    def tcti(self) -> str:
        return f"swtpm:path={self.folder}/socket"

    @property
    def device(self) -> TpmDevice:
        return TpmDevice(self.tcti)

    def tool(self, *words: str, status: int = 0) -> str:
        """One of tpm2-tools. The emulator loses its transient keys between two of them."""
        ended = subprocess.run(
            [*words], cwd=self.folder, capture_output=True, text=True, check=False, env=self.environment, timeout=60
        )
        assert (ended.returncode == 0) == (status == 0), ended.stderr
        return ended.stdout

    @property
    def environment(self) -> dict[str, str]:
        return {"TPM2TOOLS_TCTI": self.tcti, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder)}


def manufactured(folder: Path) -> None:
    """Endorsement keys, and their certificates by a manufacturer of this folder's own."""
    environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "maker")}
    (folder / "maker").mkdir()
    for words in (
        ("--create-config-files", "root,skip-if-exist"),
        ("--tpm2", "--tpmstate", str(folder), "--create-ek-cert", "--pcr-banks", "sha256"),
    ):
        subprocess.run(["swtpm_setup", *words], env=environment, check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Short paths: a socket's name has room for 107 bytes."""
    folder = tmp_path_factory.mktemp("tpm")
    manufactured(folder)
    words = ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={folder}", "--flags", "not-need-init,startup-clear"]
    words += ["--server", f"type=unixio,path={folder}/socket", "--ctrl", f"type=unixio,path={folder}/socket.ctrl"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(500):
            if (folder / "socket").exists():
                break
            time.sleep(0.01)
        yield Emulator(folder)
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("trust") / "local")


def bare(challenge: str | None = CHALLENGE, **changes: Any) -> bytes:
    return statement.build("record.json", RECORD, {"challenge": challenge, **changes})


def changed(quoted: bytes, part: str, content: str) -> bytes:
    value = canonical.loads(quoted)
    value["predicate"]["tpm"][part] = content
    return canonical.dumps(value)


def said(quoted: bytes) -> dict[str, bytes]:
    return {part: base64.b64decode(text) for part, text in canonical.loads(quoted)["predicate"]["tpm"].items()}


class SoftKey:
    """A key in a file that poses as an AK: every byte of its quotes is as a TPM's, for it makes them itself."""

    def __init__(self, firmware: str, form: bytes = AK_FORM, magic: str = "ff5443478018", hierarchy: str = "4000000b"):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._firmware = firmware
        self._magic = magic
        self._hierarchy = hierarchy
        numbers = self._key.public_key().public_numbers()
        self.public = form + b"".join(b"\0\x20" + number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
        self.name = b"\0\x0b" + hashlib.sha256(self.public).digest()

    def quote(self, qualifying: bytes) -> Tpm:
        signer = b"\0\x0b" + hashlib.sha256(bytes.fromhex(self._hierarchy) + self.name).digest()
        quote = bytes.fromhex(self._magic) + b"\0\x22" + signer + len(qualifying).to_bytes(2, "big") + qualifying
        quote += bytes(17) + bytes.fromhex(self._firmware) + bytes(4) + b"\0\x20" + bytes(32)
        r, s = decode_dss_signature(self._key.sign(quote, ec.ECDSA(hashes.SHA256())))
        signature = bytes.fromhex("0018000b") + b"".join(b"\0\x20" + one.to_bytes(32, "big") for one in (r, s))
        parts = (base64.b64encode(one).decode() for one in (quote, signature, self.public))
        return Tpm(**dict(zip(("quote", "sig", "ak_pub"), parts, strict=True)))


def test_a_statement_that_a_tpm_quoted_verifies_and_is_labelled_emulated(emulator: Emulator, trust: LocalTrust) -> None:
    """The quote stands in what is signed, and is checked with it; swtpm vouches for nothing, and that is said."""
    bundle = sign_record(trust, RECORD, claims(), quoter=emulator.device)
    assert is_quoted(bundle)
    assert not is_quoted(sign_record(trust, RECORD, claims()))
    report = verify(RECORD, bundle, trust.root, trust.identity, ISSUER, [tpm_check()])
    last = report.outcomes[-1]
    assert (last.status, (last.why or "").partition(":")[0]) == ("noted", "emulated")


def test_tpm2_tools_take_the_same_quote_and_refuse_another_nonce(emulator: Emulator) -> None:
    """An independent reader of the TPM's structures."""
    quoted = with_quote(bare(), emulator.device)
    for part, content in said(quoted).items():
        (emulator.folder / part).write_bytes(content)
    numbers = said(quoted)["akPub"]
    size = len(numbers).to_bytes(2, "big")
    (emulator.folder / "akPub").write_bytes(size + numbers)
    challenged = hashlib.sha256(hashlib.sha256(bare()).digest() + bytes.fromhex(CHALLENGE)).hexdigest()
    words = ("tpm2_checkquote", "-u", "akPub", "-m", "quote", "-s", "sig", "-q")
    emulator.tool(*words, challenged)
    emulator.tool(*words, "00" * 32, status=1)


def test_a_machine_is_enrolled_as_the_docs_say_it(emulator: Emulator) -> None:
    """Every command of docs/tpm.md: the name that comes of it is the one of the key that quotes here."""
    made = emulator.folder / "maker/var/lib/swtpm-localca"
    for name, its in (("roots.pem", "swtpm-localca-rootca-cert.pem"), ("intermediates.pem", "issuercert.pem")):
        (emulator.folder / name).write_bytes((made / its).read_bytes())
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/tpm.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    emulator.tool("bash", "-euc", "".join(blocks))
    quoted = check_quote(with_quote(bare(), emulator.device))
    assert quoted is not None
    assert read_enrolled(emulator.folder / "keys.txt") == {quoted.ak_name}


def test_a_quote_of_another_statement_or_challenge_is_refused(emulator: Emulator) -> None:
    """Also where the record has none: zeros are no challenge of anybody's."""
    quoted = with_quote(bare(), emulator.device)
    value = canonical.loads(quoted)
    for other in (bare(None), bare(more=1), bare(hashlib.sha256(b"other").hexdigest())):
        taken = canonical.loads(other)
        taken["predicate"]["tpm"] = value["predicate"]["tpm"]
        with pytest.raises(Refused, match="another statement, or another challenge") as refused:
            check_quote(canonical.dumps(taken))
        assert refused.value.reason == "statement"
    assert check_quote(with_quote(bare(None), emulator.device)) is not None
    assert bytes.fromhex("00" * 32) == NO_CHALLENGE


def test_no_bit_of_quote_signature_or_key_can_be_changed(emulator: Emulator) -> None:
    """Each is refused with class `statement`, and nothing else is ever raised."""
    quoted = with_quote(bare(), emulator.device)
    for part, content in said(quoted).items():
        for bit in range(8 * len(content)):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            with pytest.raises(Refused) as refused:
                check_quote(changed(quoted, part, base64.b64encode(flipped).decode()))
            assert refused.value.reason == "statement"


@pytest.mark.parametrize("part", ["quote", "sig", "akPub"])
def test_what_is_cut_longer_or_spelled_otherwise_is_refused(emulator: Emulator, part: str) -> None:
    """One value has one form (as everywhere in a statement)."""
    quoted = with_quote(bare(), emulator.device)
    content = said(quoted)[part]
    text = base64.b64encode(content).decode()
    for other in (*(base64.b64encode(one).decode() for one in (b"", content[:-1], content + b"\0")), text + "\n", "?"):
        with pytest.raises(Refused) as refused:
            check_quote(changed(quoted, part, other))
        assert (refused.value.where or "").startswith("payload $.predicate.tpm.")


def test_a_key_that_may_sign_anything_is_no_ak() -> None:
    """An unrestricted key would sign a made-up quote; so would one that a TPM gives out."""
    for attributes in ("00040072", "00050070", "00050052", "00050062", "00030072"):
        form = AK_FORM[:4] + bytes.fromhex(attributes) + AK_FORM[8:]
        with pytest.raises(Refused, match="restricted"):
            with_quote(bare(), SoftKey(VENDORS_FIRMWARE, form))


def test_a_key_below_another_hierarchy_is_no_ak() -> None:
    """There a TPM blurs its firmware, and whoever owns the machine makes what keys he likes."""
    for hierarchy in ("40000001", "4000000c", "40000007"):
        with pytest.raises(Refused, match="no primary key of endorsement"):
            with_quote(bare(), SoftKey(VENDORS_FIRMWARE, hierarchy=hierarchy))


def test_a_part_has_one_spelling() -> None:
    """The last digit of base64 has bits that say nothing."""
    quoted = with_quote(bare(), SoftKey(VENDORS_FIRMWARE))
    text = canonical.loads(quoted)["predicate"]["tpm"]["akPub"]
    digits = text.rstrip("=")
    other = digits[:-1] + chr(ord(digits[-1]) + 1) + text[len(digits) :]
    assert base64.b64decode(other, validate=True) == base64.b64decode(text)
    with pytest.raises(Refused, match="more than one spelling"):
        check_quote(changed(quoted, "akPub", other))


def test_only_a_quote_is_one() -> None:
    """TPM_ST_ATTEST_CERTIFY, and what no TPM generated."""
    for magic in ("ff5443478017", "ff5443488018"):
        with pytest.raises(Refused, match="no quote"):
            with_quote(bare(), SoftKey(VENDORS_FIRMWARE, magic=magic))


def test_a_key_that_nobody_enrolled_is_hardware_unverified_at_most(tmp_path: Path) -> None:
    """A key in a file that lies in every byte looks like a TPM's: `hardware` is what a verifier has enrolled only."""
    liar = SoftKey(VENDORS_FIRMWARE)
    quoted = with_quote(bare(), liar)
    found = check_quote(quoted)
    assert found is not None
    assert found.label == "hardware-unverified"
    enrolled = tmp_path / "keys"
    enrolled.write_text(f"# our machines\n\n{liar.name.hex()}  # rack 3\n")
    found = check_quote(quoted, read_enrolled(enrolled))
    assert found is not None
    assert found.label == "hardware"


def test_an_emulators_key_stays_emulated_whoever_enrols_it() -> None:
    """Its firmware is the reference implementation's; of a machine that is itself in a virtual one, no more is true."""
    soft = SoftKey(EMULATORS_FIRMWARE)
    found = check_quote(with_quote(bare(), soft), frozenset({soft.name.hex()}))
    assert found is not None
    assert found.label == "emulated"


@pytest.mark.parametrize("line", ["000b12", "000B" + "0" * 64, "000c" + "0" * 64, "000b" + "0" * 64 + " rack"])
def test_a_line_that_names_no_key_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# keys\n{line}\n")
    with pytest.raises(Refused) as refused:
        read_enrolled(path)
    assert refused.value.where == f"{path}:2"


def test_the_key_of_the_ca_can_live_in_a_tpm(emulator: Emulator, tmp_path: Path) -> None:
    """No file has it, what it signs verifies, and the instance opens again; another instance there has another key."""
    for name in ("one", "other"):
        assert init(tmp_path / name, emulator.tcti)
        assert not (tmp_path / name / "keys/ca.pem").exists()
        trust = LocalTrust(tmp_path / name)
        trust.refuse_unready()
        bundle = sign_record(trust, RECORD, claims())
        verify(RECORD, bundle, LocalTrust(tmp_path / name).root, trust.identity, ISSUER)
    assert LocalTrust(tmp_path / "one").identity != LocalTrust(tmp_path / "other").identity


def test_an_instance_whose_tpm_is_gone_refuses_before_it_signs(emulator: Emulator, tmp_path: Path) -> None:
    """In words, and nothing is half-made where it never was there."""
    init(tmp_path / "local", emulator.tcti)
    place = tmp_path / "local/keys/tpm.json"
    place.write_bytes(place.read_bytes().replace(b"/socket", b"/gone"))
    with pytest.raises(Refused, match="no TPM answers") as refused:
        LocalTrust(tmp_path / "local").refuse_unready()
    assert refused.value.reason == "trust_root"
    with pytest.raises(Refused, match="no TPM answers"):
        init(tmp_path / "never", f"swtpm:path={tmp_path}/gone")
    assert [path.name for path in tmp_path.iterdir() if "never" in path.name and path.is_dir()] == []


def test_sign_and_verify_as_they_are_typed(emulator: Emulator, tmp_path: Path) -> None:
    """`sign --tpm`, `verify`, `verify --tpm-keys`; a TPM that is not there leaves the record unsigned."""
    typed = Typed(tmp_path)
    typed.keep(build.record(baselines=[build.baseline(output=None)]))
    for tcti, status in ((f"swtpm:path={tmp_path}/gone", 7), ("device:/dev/null/tpm", 7), ("tpm0", 2)):
        refused = typed("sign", str(typed.record), "--tpm", tcti, status=status)
        assert tcti in refused.stderr
        assert not typed.bundle.exists()
    typed("sign", str(typed.record), "--tpm", emulator.tcti)
    told = typed("verify", str(typed.record), "--trust", "local", "--allow-missing-blobs")
    assert "emulated: a TPM made of software" in told.stdout
    (tmp_path / "keys").write_text("nobody\n")
    typed("verify", str(typed.record), "--trust", "local", "--tpm-keys", "keys", status=7)


def test_trust_init_with_a_tpm_is_typed_once(emulator: Emulator, tmp_path: Path) -> None:
    """A second one is refused: keys do not move; and it is of the local instance alone."""
    typed = Typed(tmp_path)
    typed("trust", "init", "--tpm", f"swtpm:path={tmp_path}/gone", status=7)
    typed("trust", "init", "--tpm", emulator.tcti)
    typed("trust", "init", "--tpm", emulator.tcti, status=2)
    typed("trust", "init", "--public", "--tpm", emulator.tcti, status=2)
    typed.keep(build.record())
    typed("sign", str(typed.record))
    typed("verify", str(typed.record), "--trust", "local", "--allow-missing-blobs")
