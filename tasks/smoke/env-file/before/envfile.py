"""Settings from .env files."""


class EnvFileError(Exception):
    pass


def parse_line(text, number):
    """`(name, value)` of a line, None for one that sets nothing."""
    text = text.split("#")[0].strip()
    if not text:
        return None
    if text.startswith("export "):
        text = text[len("export "):]
    parts = text.split("=")
    if len(parts) < 2:
        raise EnvFileError(f"line {number}: no = in {text!r}")
    name, value = parts[0].strip(), parts[1].strip()
    if not name:
        raise EnvFileError(f"line {number}: no name")
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return name, value


def load_env(text):
    """The settings of a whole file; a name that stands twice has its last value."""
    settings = {}
    for number, line in enumerate(text.splitlines(), 1):
        pair = parse_line(line, number)
        if pair:
            settings[pair[0]] = pair[1]
    return settings
