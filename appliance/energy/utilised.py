"""A shared board's joules by the utilisation of its SMs: only where that was asked for, and labelled so (row G8).

Over the whole window at once: the driver samples some times a second at most, so that a step of a tenth of a second
mostly has no sample, and joules all the same. What the percentages are of, and why this is no measurement: decision 19.
"""

from __future__ import annotations

from appliance.energy.idle import Unfit
from appliance.energy.occupancy import Occupancy
from appliance.energy.readings import Header
from appliance.energy.split import shares_of
from appliance.energy.tracks import Track


def split_by_utilisation(track: Track, header: Header, gpus: Occupancy) -> bool:
    """False where it is not to be split, or cannot be: it was not asked for, the trial was alone on it, its clients
    cannot be told apart (MIG, MPS, row G10), a query failed, or there was no sample at all. It stays as it was then.

    Else `gross = idle + system + others + sum(own)` anew, with the processes of no cgroup of ours as the system.
    """
    zone = track.zone
    wanted = header.gpu_sharing == "sm_utilisation" and zone.domain == "gpu" and gpus.shared(zone.id)
    percent, foreign = gpus.utilisation(zone.id)
    if not wanted or isinstance(track.idle, Unfit) or track.broken is not None or foreign + sum(percent.values()) == 0:
        return False
    own = {one.id for one in header.cgroups if one.trial == "own"}
    ids = sorted(percent)
    idle_uj, system_uj, shares = shares_of(track.gross_uj, track.rest_uj, [percent[one] for one in ids], foreign)
    by_id = dict(zip(ids, shares, strict=True))
    track.idle_uj, track.system_uj = idle_uj, system_uj
    track.own_uj = {one: share for one, share in by_id.items() if one in own}
    track.others_uj = sum(share for one, share in by_id.items() if one not in own)
    return True
