"""Which zones are summed."""

from __future__ import annotations

import pytest

from appliance.energy.zones import Zone, mirrored, summable


def names(*zones: tuple[str, str]) -> list[Zone]:
    return [Zone(path, name) for path, name in zones]


def test_twelve_packages_are_twelve_with_hexadecimal_ids() -> None:
    """(ZN1)"""
    found = summable(names(*((f"intel-rapl:{number:x}", f"package-{number}") for number in range(12))))
    assert len(found.zones) == 12
    assert found.zones["package-11"].path == "intel-rapl:b"


def test_the_platforms_zone_is_a_cross_check() -> None:
    """psys is never added to a package (ZN2)."""
    found = summable(names(("intel-rapl:0", "package-0"), ("intel-rapl:1", "psys")))
    assert list(found.zones) == ["package-0"]
    assert [zone.name for zone in found.cross_check] == ["psys"]


def test_memory_of_two_sockets_is_summed_under_two_keys() -> None:
    """(ZN3 J45)"""
    found = summable(
        names(
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "dram"),
            ("intel-rapl:1", "package-1"),
            ("intel-rapl:1:0", "dram"),
        )
    )
    assert set(found.zones) == {"package-0", "package-0/dram", "package-1", "package-1/dram"}
    assert found.scope == "package+dram"


def test_a_counter_seen_by_two_roads_is_counted_once() -> None:
    """The MSR zone is kept, in whatever order they are listed (ZN4)."""
    zones = names(("intel-rapl-mmio:0", "package-0"), ("intel-rapl:0", "package-0"))
    for listed in (zones, zones[::-1]):
        found = summable(listed)
        assert [zone.path for zone in found.zones.values()] == ["intel-rapl:0"]
        assert [zone.path for zone in found.duplicates] == ["intel-rapl-mmio:0"]


def test_cores_and_uncore_lie_inside_the_package() -> None:
    """No memory is invented where there is none (ZN6 J45)."""
    found = summable(names(("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "uncore")))
    assert list(found.zones) == ["package-0"]
    assert found.scope == "package"


def test_without_a_package_the_platform_is_what_the_figure_is_of() -> None:
    """And without either, nothing is (ZN7)."""
    found = summable(names(("intel-rapl:0", "psys")))
    assert (list(found.zones), found.scope) == (["psys"], "psys")
    assert summable([]).scope == "none"


def test_two_dies_that_show_one_counter_are_told_by_their_steps() -> None:
    """(ZN5)"""
    assert mirrored(1_000_000_000, 1_000_900_000, 500, 500)
    assert not mirrored(1_000_000_000, 1_000_900_000, 500, 501)
    assert not mirrored(1_000_000_000, 1_002_000_000, 500, 500)


@pytest.mark.parametrize("path", ["", "intel-rapl", "intel-rapl:g", "dtpm:0", "intel-rapl:0:0:0", "../intel-rapl:0"])
def test_a_path_that_is_no_zone_is_a_value_error(path: str) -> None:
    """An invalid one cannot exist."""
    with pytest.raises(ValueError, match="no zone"):
        Zone(path, "package-0")
