"""The pay slip at the end of the month."""

from payroll.clock import hours_text
from payroll.shifts import at_night, worked

BONUS_PERCENT = 25


def pay_cents(all_minutes, night_minutes, cents_an_hour):
    """Night minutes are paid with the bonus on top; half a cent is rounded up."""
    hundredths = all_minutes * cents_an_hour * 100 + night_minutes * cents_an_hour * BONUS_PERCENT
    return (2 * hundredths + 6000) // 12000


def slip(name, shifts, cents_an_hour):
    """`shifts` are texts like "08:00-16:30"."""
    spans = [shift.split("-") for shift in shifts]
    total = sum(worked(start, end) for start, end in spans)
    night = sum(at_night(start, end) for start, end in spans)
    pay = pay_cents(total, night, cents_an_hour)
    return f"{name}: {hours_text(total)} h, {hours_text(night)} h at night, {pay // 100}.{pay % 100:02d}"
