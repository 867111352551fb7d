"""Times of day as minutes since midnight."""


def minutes(text):
    hours, _, rest = text.partition(":")
    return int(hours) * 60 + int(rest)


def hours_text(amount):
    return f"{amount // 60}:{amount % 60:02d}"
