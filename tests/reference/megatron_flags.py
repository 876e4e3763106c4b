#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""List flags of Megatron-LM with their choices: megatron_flags.py FOLDER FLAG... > tests/data/megatron_flags.txt

FOLDER is an unpacked megatron-core wheel (pip download megatron-core==0.19.2).  A flag is an
argument of its parsers or a field of a dataclass from which it generates one.
"""
import ast
import pathlib
import sys


def choices(node):
    """The words of a list, or of a Literal[...] inside an annotation."""
    words = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    literal = isinstance(node, ast.List) or "Literal" in ast.dump(node)
    return words if literal else []


def flags(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            names = [a.value for a in node.args if isinstance(a, ast.Constant)]
            found = [k.value for k in node.keywords if k.arg == "choices"]
            for name in names:
                yield str(name), choices(found[0]) if found else []
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield "--" + node.target.id.replace("_", "-"), choices(node.annotation)


found = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("megatron/**/*.py")):
    parsed = path.match("training/*.py") or path.match("training/config/*.py")
    if parsed or path.name in ("transformer_config.py", "model_parallel_config.py",
                               "distributed_data_parallel_config.py"):
        for name, words in flags(ast.parse(path.read_text())):
            found[name] = words or found.get(name, [])
for name in sorted(sys.argv[2:]):
    if name in found:
        print(name, *found[name])
