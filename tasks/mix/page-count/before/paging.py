"""The page links below a table."""


def page_count(entries, per_page):
    """How many pages it takes to show all entries."""
    return entries // per_page + 1


def page_links(entries, per_page):
    return " ".join(str(page) for page in range(1, page_count(entries, per_page) + 1))
