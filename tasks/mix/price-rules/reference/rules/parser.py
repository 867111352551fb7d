"""Tokens to a tree of tuples, whose first entry says what they are."""

from rules.lexer import RuleError, tokens


class Parser:
    def __init__(self, source):
        self.tokens = tokens(source)
        self.at = 0

    # ---- tokens

    def next(self):
        token = self.tokens[self.at]
        self.at += 1
        return token

    def sees(self, *texts):
        kind, text = self.tokens[self.at]
        return kind in ("word", "sign") and text in texts

    def takes(self, *texts):
        return self.next()[1] if self.sees(*texts) else None

    def need(self, text):
        if not self.takes(text):
            raise RuleError(f"{text} expected before {self.tokens[self.at][1]}")

    def name(self):
        kind, text = self.next()
        if kind != "name":
            raise RuleError(f"a name expected before {text}")
        return text

    # ---- statements

    def program(self):
        statements = []
        while self.tokens[self.at][0] != "end":
            statements.append(self.statement())
        return statements

    def block(self):
        self.need("{")
        statements = []
        while not self.sees("}"):
            statements.append(self.statement())
        self.need("}")
        return statements

    def statement(self):
        if self.takes("let"):
            name = self.name()
            self.need("=")
            return self.ended(("let", name, self.expression()))
        if self.sees("fn") and self.tokens[self.at + 1][0] == "name":
            self.next()
            name = self.name()
            return ("let", name, self.function())
        if self.takes("return"):
            return self.ended(("return", ("nil",) if self.sees(";") else self.expression()))
        if self.takes("print"):
            return self.ended(("print", self.expression()))
        if self.takes("if"):
            return self.choice()
        if self.takes("while"):
            return ("while", self.expression(), self.block())
        if self.tokens[self.at][0] == "name" and self.tokens[self.at + 1] == ("sign", "="):
            name = self.name()
            self.next()
            return self.ended(("set", name, self.expression()))
        return self.ended(("do", self.expression()))

    def ended(self, statement):
        self.need(";")
        return statement

    def choice(self):
        condition, yes = self.expression(), self.block()
        if not self.takes("else"):
            return ("if", condition, yes, [])
        return ("if", condition, yes, [self.choice()] if self.takes("if") else self.block())

    def function(self):
        self.need("(")
        names = []
        while not self.takes(")"):
            names.append(self.name())
            if not self.sees(")"):
                self.need(",")
        return ("fn", names, self.block())

    # ---- expressions, from the loosest to the tightest

    def expression(self):
        left = self.both()
        while self.takes("or"):
            left = ("or", left, self.both())
        return left

    def both(self):
        left = self.negation()
        while self.takes("and"):
            left = ("and", left, self.negation())
        return left

    def negation(self):
        return ("not", self.negation()) if self.takes("not") else self.comparison()

    def comparison(self):
        left = self.sum()
        sign = self.takes("==", "!=", "<", "<=", ">", ">=")
        return (sign, left, self.sum()) if sign else left

    def sum(self):
        left = self.product()
        while sign := self.takes("+", "-"):
            left = (sign, left, self.product())
        return left

    def product(self):
        left = self.signed()
        while sign := self.takes("*", "/", "%"):
            left = (sign, left, self.signed())
        return left

    def signed(self):
        return ("-", ("number", 0), self.signed()) if self.takes("-") else self.call()

    def call(self):
        called = self.value()
        while self.takes("("):
            given = []
            while not self.takes(")"):
                given.append(self.expression())
                if not self.sees(")"):
                    self.need(",")
            called = ("call", called, given)
        return called

    def value(self):
        if self.takes("("):
            inner = self.expression()
            self.need(")")
            return inner
        if self.takes("fn"):
            return self.function()
        kind, text = self.next()
        if kind == "number":
            return ("number", int(text))
        if kind == "text":
            return ("text", text[1:-1])
        if kind == "name":
            return ("name", text)
        if text in ("true", "false", "nil"):
            return (text,)
        raise RuleError(f"a value expected before {text}")


def parse(source):
    return Parser(source).program()
