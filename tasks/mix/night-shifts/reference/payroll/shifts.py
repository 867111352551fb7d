"""What a shift is worth: minutes in all, and minutes at night."""

from payroll.clock import minutes

DAY = minutes("24:00")
NIGHT_STARTS = minutes("22:00")
NIGHT_ENDS = minutes("06:00")


def worked(start, end):
    """Minutes from `start` to `end`, two times of day; an end that is not after the start is tomorrow's."""
    return (minutes(end) - minutes(start) - 1) % DAY + 1


def at_night(start, end):
    """How many of these minutes are night work."""
    begins = minutes(start)
    ends = begins + worked(start, end)
    nights = [(day + NIGHT_STARTS, day + DAY + NIGHT_ENDS) for day in (-DAY, 0, DAY)]
    return sum(max(0, min(ends, until) - max(begins, since)) for since, until in nights)
