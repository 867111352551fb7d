"""The stock book: one movement a line, one answer a line."""

from roastery.lots import OutOfStock, Stock


def euros(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def answers(lines):
    """`buy GRAMS CENTS_A_KILO`, `use GRAMS` and `stock`."""
    stock = Stock()
    for line in lines:
        verb, *numbers = line.split()
        if verb == "buy":
            stock.buy(*map(int, numbers))
        elif verb == "use":
            try:
                yield euros(stock.use(int(numbers[0])))
            except OutOfStock as error:
                yield f"out of stock: {error}"
        else:
            yield f"{stock.grams()} g in {len(stock.lots)} lots"
