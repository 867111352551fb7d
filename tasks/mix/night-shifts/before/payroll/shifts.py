"""What a shift is worth: minutes in all, and minutes at night."""

from payroll.clock import minutes

NIGHT_STARTS = minutes("22:00")
NIGHT_ENDS = minutes("06:00")


def worked(start, end):
    """Minutes from `start` to `end`, two times of day."""
    return minutes(end) - minutes(start)


def at_night(start, end):
    """How many of these minutes are night work."""
    morning = min(minutes(end), NIGHT_ENDS) - minutes(start)
    evening = minutes(end) - max(minutes(start), NIGHT_STARTS)
    return max(morning, evening, 0)
