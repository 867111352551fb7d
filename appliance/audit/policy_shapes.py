"""policy.toml as shapes: every rule with its default, and the default's reason. The published schema is made of these.

Keys are written as they stand in the file. What a policy does not say has the default; no default is another's to
choose, so a schema that is read tells what a policy file means.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from appliance.audit.plausible_shapes import Plausibility
from appliance.pins import Digest, Sha256
from appliance.records.energy import Flag
from appliance.records.words import Provenance
from appliance.tasks.model import Network
from appliance.wire import Moment

Tier = Literal["reported", "auditable", "verified"]
Assurance = Literal["local", "private", "public"]
BlobKind = Literal["suite", "journal", "readings", "diff", "streams", "baselines", "cassette", "artifacts"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class Toml(BaseModel):
    """A table of the file: its keys as written, nothing else."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class Signer(Toml):
    """Whose records count: all three exactly, and never a pattern."""

    root_sha256: Sha256
    """Of the trusted root's bytes, as `appliance trust show` prints it."""
    identity: Text
    issuer: Text
    assurance: Assurance = "local"
    """The least level that the root has here. The default adds nothing: the root was chosen by its digest."""


class Verifier(Signer):
    """Whose verdicts make a record `verified`."""

    id: Text
    """The `verifier.id` of its summaries: a signer and an id count only together."""
    least_compared_share: Share = 0.0
    """Of a record's trials, that were run again. None by default, but never no trial at all: a sample is drawn by the
    record's own digest, which nobody chooses cheaply, and its summary says how large it was."""


class Revoked(Toml):
    """Exactly one of identity, serial and root_sha256.

    What the root's own clock puts before `after` stands, where that clock is somebody else's (assurance private or
    public). Under assurance local the clock is the signer's: whoever has the key sets it, so nothing that is revoked
    stands, but for records that somebody else's clock saw earlier (an anchored log, a receipt in a store's index).
    """

    identity: Text | None = None
    """Of a signer or verifier that stands above: another name is a slip, by which somebody would not be revoked."""
    serial: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f]{1,40}$")] | None = None
    """Of one certificate, hex: a number, whatever its case and the zeros before it."""
    root_sha256: Sha256 | None = None
    """Everybody under this root."""
    after: Moment
    """From this moment on nothing of it counts."""
    reason: Text

    @property
    def serial_number(self) -> int | None:
        return None if self.serial is None else int(self.serial, 16)


class LimitPins(Toml):
    """A limit that is not named here is not pinned here."""

    wall_seconds: float | None = Field(default=None, gt=0)
    cpus: float | None = Field(default=None, gt=0)
    memory_mib: int | None = Field(default=None, ge=16)
    pids: int | None = Field(default=None, ge=8)
    disk_mib: int | None = Field(default=None, ge=8)
    test_seconds: float | None = Field(default=None, gt=0)

    @property
    def pinned(self) -> bool:
        return any(getattr(self, name) is not None for name in type(self).model_fields)


class TaskPins(Toml):
    """Of one task, before those of its suite."""

    digest: Sha256 | None = None
    """Of the task's folder."""
    network: Network | None = None
    image: Digest | None = None
    """Config digest of the image that it is solved on and graded by."""
    limits: LimitPins = LimitPins()


class SuiteRule(Toml):
    """One suite that counts, and what its trials ran under."""

    name: Text
    digest: Sha256
    network: Network | None = None
    """Of every task; not said: what the suite's own files say."""
    limits: LimitPins = LimitPins()
    """Of every task; not said: what the suite's own files say, for which the blob `suite` is required."""
    images: tuple[Digest, ...] = ()
    """Config digests of the images of tasks; every task runs on one of them."""
    any_image: bool = False
    """True: the images are the publisher's word, who can have put an answer into one. Needs to be said outright."""
    composed_images: tuple[Digest, ...] = ()
    """Config digests of images that a solver with an image of its own runs in: a task's, and its own layers on it."""
    any_composed_image: bool = False
    """True: those layers are the publisher's word, as any_image. Graded is on the task's image all the same."""
    tasks: dict[str, TaskPins] = Field(default_factory=dict)
    """By name. Where any stands here, the record's plan has these tasks and no other."""
    any_tasks: bool = False
    """True: which tasks the suite has, what they ask and how they are tested is the publisher's word, who can have
    left some out or made them easier. Needs to be said outright where neither the blob `suite` is required nor every
    task is pinned by its digest."""
    may_lack: tuple[Text, ...] = ()
    """Tasks that a plan may leave out, as quarantined or filtered. None by default: what is left out lifts a rate."""


class Blobs(Toml):
    required: tuple[BlobKind, ...] = ("journal",)
    """By what of a record they are; each has to be named by the record and to be given. The default is what nobody
    can recompute a record without: the journal it was folded from."""


class Completeness(Toml):
    complete: bool = True
    """The run came to its end: nobody stops where it looks best."""
    most_missing_share: Share = 0.0
    """Of planned trials that were cancelled or never ran; looked at where `complete = false`. 0: a policy that takes
    broken runs says how broken."""


class Exclusions(Toml):
    """Shares of planned trials, over all passes: what is excluded is in no rate."""

    most_share: Share = 0.1
    """Excluded for whatever reason. A tenth: engines fail now and then; more of it chooses the trials."""
    most_after_subject_share: Share = 0.0
    """Excluded after the solver had been at work, when its answer could be known. None is innocent by itself."""
    most_errored_share: Share = 0.1
    """Errored: a provider or a protocol that failed. A tenth, as above."""


class Freshness(Toml):
    challenge: Literal["required", "optional"] = "optional"
    """Only a challenge shows that trials are younger than something. Optional, since a record may be older than any
    board; one that is named has to be good either way."""
    most_age_seconds: float | None = Field(default=None, gt=0)
    """From the first trial to now, by the record's own clock: it keeps honest old records out, and no liar. No bound
    by default: a record does not spoil."""


class HostRules(Toml):
    fitness: Literal["any", "no_error", "no_warning"] = "no_error"
    """The worst check of a host, before and after the trials. Errors are what a run itself would not begin with."""
    noisy: Literal["allowed", "refused"] = "allowed"
    """Something else was at work there. Allowed, for it changes joules and seconds, seldom an answer: a board that
    ranks by joules refuses it."""


class Stamps(Toml):
    """What is publishable: who reads it can get the same thing."""

    commit: Literal["required", "optional"] = "required"
    """Of the system under test: known, and not dirty. `source: release` counts as known by its version."""
    harness: Literal["clean", "any"] = "clean"
    """Ours: from a release, or from a commit without changes. Others run what nobody else has."""


class HarnessRules(Toml):
    versions: tuple[Text, ...] = ()
    """Exactly; none named: any. A version is the record's own word, a digest is too: they keep honest runs alike."""
    digests: tuple[Sha256, ...] = ()


class ProvenanceRules(Toml):
    floor: Provenance = "estimator"
    """The worst that the joules of a counted trial may come from: hw_shunt, model_based, estimator, simulated. The
    default takes everything of a machine; `simulated` is of none, for tests and demonstrations."""
    energy: Literal["required", "optional"] = "required"
    """Every counted trial has a figure of energy: what is left out would be the worst ones."""
    refused_flags: tuple[Flag, ...] = ()
    """Flags that no counted trial's joules may carry, in their total or in a zone: `shared` for a board on which
    somebody else was, `contended` for a machine. None by default: a flag is told wherever its figure stands."""


class PolicyToml(Toml):
    """Which records a receiver takes, as what. `appliance verify --policy` and `appliance submission` judge by it."""

    schema_: Literal["policy-v1"] = Field(alias="schema")
    name: Name
    version: int = Field(ge=1, le=2**53 - 1)
    """Rises with every change: a receiver that saw a later one takes no earlier one."""
    uri: Text | None = None
    """Where it is published; verdicts name it. By default made of name and version."""
    least_tier: Tier = "auditable"
    """reported: unsigned, with a journal; auditable: signed, with blobs; verified: run again by a listed verifier.
    auditable: below it there is nobody to hold to his word."""
    least_assurance: Assurance = "local"
    """Of any signer's root. local: roots are chosen by digest below, which says more than a level."""
    signers: tuple[Signer, ...] = ()
    verifiers: tuple[Verifier, ...] = ()
    revoked: tuple[Revoked, ...] = ()
    suites: Annotated[tuple[SuiteRule, ...], Field(min_length=1)]
    """At least one: a rate over no agreed tasks says nothing."""
    blobs: Blobs = Blobs()
    completeness: Completeness = Completeness()
    exclusions: Exclusions = Exclusions()
    freshness: Freshness = Freshness()
    host: HostRules = HostRules()
    stamps: Stamps = Stamps()
    harness: HarnessRules = HarnessRules()
    provenance: ProvenanceRules = ProvenanceRules()
    plausibility: Plausibility = Plausibility()
