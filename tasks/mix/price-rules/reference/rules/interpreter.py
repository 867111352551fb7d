"""Runs the tree that the parser makes."""

import operator

from rules.lexer import RuleError
from rules.parser import parse


class Scope:
    def __init__(self, outer=None):
        self.values = {}
        self.outer = outer

    def get(self, name):
        scope = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise RuleError(f"unknown name {name}")

    def let(self, name, value):
        self.values[name] = value

    def set(self, name, value):
        scope = self
        while scope is not None:
            if name in scope.values:
                scope.values[name] = value
                return
            scope = scope.outer
        raise RuleError(f"unknown name {name}")


class Function:
    def __init__(self, names, body, scope):
        self.names = names
        self.body = body
        self.scope = scope


class Returned(Exception):
    def __init__(self, value):
        self.value = value


class Interpreter:
    def __init__(self, write):
        self.write = write

    # ---- statements

    def block(self, statements, scope):
        for statement in statements:
            self.statement(statement, scope)

    def statement(self, statement, scope):
        kind, *parts = statement
        if kind == "let":
            scope.let(parts[0], self.value(parts[1], scope))
        elif kind == "set":
            scope.set(parts[0], self.value(parts[1], scope))
        elif kind == "print":
            self.write(shown(self.value(parts[0], scope)))
        elif kind == "do":
            self.value(parts[0], scope)
        elif kind == "return":
            raise Returned(self.value(parts[0], scope))
        elif kind == "if":
            condition, yes, no = parts
            self.block(yes if is_true(self.value(condition, scope)) else no, Scope(scope))
        else:
            condition, body = parts
            while is_true(self.value(condition, scope)):
                self.block(body, Scope(scope))

    # ---- expressions

    def value(self, tree, scope):
        kind, *parts = tree
        if kind in ("number", "text"):
            return parts[0]
        if kind in CONSTANTS:
            return CONSTANTS[kind]
        if kind == "name":
            return scope.get(parts[0])
        if kind == "fn":
            return Function(*parts, scope)
        if kind == "call":
            called = self.value(parts[0], scope)
            return self.call(called, [self.value(given, scope) for given in parts[1]])
        if kind == "not":
            return not is_true(self.value(parts[0], scope))
        left = self.value(parts[0], scope)
        if kind in ("and", "or"):
            decided = is_true(left) == (kind == "or")
            return left if decided else self.value(parts[1], scope)
        return compute(kind, left, self.value(parts[1], scope))

    def call(self, called, given):
        if not isinstance(called, Function):
            raise RuleError(f"{shown(called)} is no function")
        if len(given) != len(called.names):
            raise RuleError(f"{len(called.names)} values wanted, {len(given)} given")
        inner = Scope(called.scope)
        for name, value in zip(called.names, given):
            inner.let(name, value)
        try:
            self.block(called.body, inner)
        except Returned as returned:
            return returned.value
        return None


CONSTANTS = {"true": True, "false": False, "nil": None}
COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def is_true(value):
    return value is not None and value is not False


def same(left, right):
    return type(left) is type(right) and left == right


def compute(sign, left, right):
    if sign == "==":
        return same(left, right)
    if sign == "!=":
        return not same(left, right)
    if type(left) is not type(right) or type(left) not in (int, str):
        raise RuleError(f"{shown(left)} {sign} {shown(right)} makes no sense")
    if sign in COMPARISONS:
        return COMPARISONS[sign](left, right)
    if sign == "+":
        return left + right
    if type(left) is str:
        raise RuleError(f"{shown(left)} {sign} {shown(right)} makes no sense")
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if right == 0:
        raise RuleError("division by 0")
    whole = abs(left) // abs(right)
    whole = whole if (left < 0) == (right < 0) else -whole
    return whole if sign == "/" else left - whole * right


def shown(value):
    if isinstance(value, Function):
        return "a function"
    return {None: "nil", True: "true", False: "false"}[value] if value is None or type(value) is bool else str(value)


def run(source, write):
    """Gives each printed value to `write`. Raises RuleError."""
    try:
        Interpreter(write).block(parse(source), Scope())
    except Returned:
        pass
