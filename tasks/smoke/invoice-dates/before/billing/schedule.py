"""When a customer's next invoices are due."""

from datetime import date


def next_due(signup: date, last_due: date) -> date:
    """The due date in the month after `last_due`, on the day of the month the customer signed up."""
    if last_due.month == 12:
        return date(last_due.year + 1, 1, signup.day)
    return date(last_due.year, last_due.month + 1, signup.day)


def due_dates(signup: date, count: int) -> list[date]:
    """The first `count` due dates; the first one is a month after the customer signed up."""
    dates = []
    last = signup
    for _ in range(count):
        last = next_due(signup, last)
        dates.append(last)
    return dates
