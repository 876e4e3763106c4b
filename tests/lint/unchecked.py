# SPDX-License-Identifier: BSD-3-Clause
"""unchecked.py FILE...: prints the conditions of shell scripts whose failure goes unnoticed.

In bats, as in any script under `set -e`, a failure ends the script except at `! a`, at an `a` of
`a && b`, and anywhere in a function that is called as a condition: by `||`, `if`, `run` or `again`.
The first two are fine where something reads the status: at the end of a function or a subshell,
and before `||`.  shfmt parses.
"""
import json
import re
import subprocess
import sys

# Commands that are called for their status alone.
TESTS = re.compile(r"(\[|test|grep|cmp|diff|run (!|-\d+)) ")
# What reads the status of a statement: set -e alone, the caller of what ends here, or a condition.
NOBODY, CALLER, CONDITION = range(3)


class Script:
    def __init__(self, path):
        self.path = path
        self.off = ""  # the function that is looked at, if it is called where set -e is off
        self.functions = {}
        self.conditions = set()
        with open(path, "rb") as f:
            self.text = f.read()
        # Every dialect of the tree is one of bats.
        tree = subprocess.run(["shfmt", "-ln", "bats", "--to-json"], input=self.text, check=True,
                              stdout=subprocess.PIPE).stdout
        self.body(json.loads(tree).get("Stmts"), NOBODY)
        while names := self.conditions & self.functions.keys():
            self.off = names.pop()
            self.statement(self.functions.pop(self.off), CALLER)

    def source(self, node):
        return self.text[node["Pos"]["Offset"]:node["End"]["Offset"]].decode()

    def report(self, statement, what):
        line = statement["Pos"]["Line"]
        print(f"{self.path}:{line}: {what}: {self.source(statement).splitlines()[0]}")

    def body(self, statements, reader):
        for s in statements or []:
            self.statement(s, reader if s is statements[-1] else NOBODY)

    def statement(self, s, reader):
        command = s.get("Cmd") or {}
        kind = command.get("Type", "")
        operator = b""
        if kind == "BinaryCmd":
            operator = self.text[command["OpPos"]["Offset"]:][:2]
        if s.get("Background"):
            reader = CALLER  # wait
        words = []
        if kind == "CallExpr":
            words = [self.source(w).strip("\"'") for w in command.get("Args") or []]
        if reader == NOBODY and not self.off:
            if s.get("Negated"):
                self.report(s, "nothing checks a negated command, expected run ! or ||")
            elif operator == b"&&":
                self.report(s, "nothing checks what fails before &&, expected a line for each condition")
        elif reader == NOBODY and (kind == "TestClause" or TESTS.match(" ".join(words))):
            self.report(s, f"nothing checks it where {self.off} is a condition, expected || return")
        if words:
            called = words
            if words[0] in ("run", "again"):
                called = [w for w in words[1:] if w[:1] not in "-!"]
            if called is not words or reader == CONDITION or self.off:
                self.conditions.update(called[:1])
        self.substitutions(s.get("Redirs"))
        if s.get("Negated"):
            reader = CONDITION
        self.parts(command, kind, operator, reader)

    def parts(self, command, kind, operator, reader):
        """The statements within a command."""
        if kind == "BinaryCmd":
            self.statement(command["X"], CONDITION if operator in (b"&&", b"||") else CALLER)
            self.statement(command["Y"], reader if operator != b"&&" or reader else CALLER)
        elif kind == "Block":
            self.body(command.get("Stmts"), reader)
        elif kind == "Subshell":
            self.body(command.get("Stmts"), reader or CALLER)
        elif kind == "IfClause":
            while command:
                self.body(command.get("Cond"), CONDITION)
                self.body(command.get("Then"), reader)
                command = command.get("Else")
        elif kind in ("WhileClause", "ForClause"):
            self.body(command.get("Cond"), CONDITION)
            self.substitutions(command.get("Loop"))
            for s in command.get("Do") or []:
                self.statement(s, NOBODY)
        elif kind == "CaseClause":
            self.substitutions(command.get("Word"))
            for item in command.get("Items") or []:
                self.body(item.get("Stmts"), reader)
        elif kind in ("FuncDecl", "TestDecl"):
            if kind == "FuncDecl":
                self.functions[command["Name"]["Value"]] = command["Body"]
            self.statement(command["Body"], CALLER)
        else:
            self.substitutions(command)

    def substitutions(self, node):
        """The statements of $(...), <(...) and >(...) within words."""
        if isinstance(node, list):
            for n in node:
                self.substitutions(n)
        elif isinstance(node, dict):
            if node.get("Type") in ("CmdSubst", "ProcSubst"):
                self.body(node.get("Stmts"), CALLER)
            else:
                self.substitutions(list(node.values()))


for path in sys.argv[1:]:
    Script(path)
