"""When a customer's next invoices are due."""

from calendar import monthrange
from datetime import date


def next_due(signup: date, last_due: date) -> date:
    """The due date in the month after `last_due`: the day of the month the customer signed up, or the month's last."""
    year, month = (last_due.year + 1, 1) if last_due.month == 12 else (last_due.year, last_due.month + 1)
    last_day = monthrange(year, month)[1]
    return date(year, month, min(signup.day, last_day))


def due_dates(signup: date, count: int) -> list[date]:
    """The first `count` due dates; the first one is a month after the customer signed up."""
    dates = []
    last = signup
    for _ in range(count):
        last = next_due(signup, last)
        dates.append(last)
    return dates
