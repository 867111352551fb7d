"""The nightly file: one line an open invoice."""

from datetime import date

from billing.schedule import due_dates


def export_line(customer: str, signup: date, months: int) -> str:
    dates = ",".join(day.isoformat() for day in due_dates(signup, months))
    return f"{customer};{dates}"
