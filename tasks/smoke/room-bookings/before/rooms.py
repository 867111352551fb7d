"""Free slots of a meeting room, for the screen in the lobby.

Times are "HH:MM" on one day; a booking is a pair (start, end).
"""

OPENS = "08:00"
CLOSES = "18:00"


def busy_periods(bookings):
    """Bookings merged where they overlap or touch, in order."""
    merged = []
    for start, end in sorted(bookings):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def free_slots(bookings, opens=OPENS, closes=CLOSES):
    """What is left of the opening hours."""
    slots = []
    at = opens
    for start, end in busy_periods(bookings):
        if at < start:
            slots.append((at, start))
        at = end
    if at < closes:
        slots.append((at, closes))
    return slots


def screen_text(bookings):
    slots = free_slots(bookings)
    if not slots:
        return "booked all day"
    return "free " + ", ".join(f"{start}-{end}" for start, end in slots)
