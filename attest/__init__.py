"""Attestations of records: statements, signing, trust, verification. Imports nothing of the appliance.

bundle = signing.sign_record(trust.local.open_or_init(folder), record_bytes, claims)
report = verify(record_bytes, bundle, root, identity, issuer, checks)
"""

from attest.checks import Check, Noted, NotRun, Outcome, Verified
from attest.errors import REASON_CLASSES, Refused
from attest.verification import Report, verify

__all__ = ["REASON_CLASSES", "Check", "NotRun", "Noted", "Outcome", "Refused", "Report", "Verified", "verify"]
