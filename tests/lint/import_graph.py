"""The include graph of core/ and the import graph of web/src: used by tests/lint/run and tests/metrics/run.

A module is a header with its source file of the same name. Test files and *_for_test.h are left out.
"""
import collections
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
# import … from "./x", export … from "./x", import "./x", import("./x")
IMPORT = re.compile(r"""^\s*(?:import|export)\b[^;"']*?\bfrom\s+["'](\.[^"']+)["']|\bimport\s*\(?\s*["'](\.[^"']+)["']""", re.M)


def is_product(path):
    return not re.search(r"(_test|_for_test|_model|_fuzz|_benchmark|\.test)\.", path.name) and "test_" not in path.name


def sources(root, folder):
    return sorted(p for p in (root / folder).rglob("*") if p.suffix in (".h", ".cc", ".c") and p.is_file())


def module_of(name):
    return re.sub(r"\.(h|cc|c|tsx?)$", "", name)


def core_graph(root):
    graph = collections.defaultdict(set)
    for path in sources(root, "core"):
        if is_product(path):
            name = module_of(path.relative_to(root).as_posix())
            graph[name].update(module_of(m) for m in INCLUDE.findall(path.read_text()) if m.startswith("core/"))
            graph[name].discard(name)
    return graph


def page_graph(root):
    graph = collections.defaultdict(set)
    for path in sorted((root / "web/src").rglob("*.ts*")):
        if is_product(path):
            name = module_of(path.relative_to(root).as_posix())
            for target in (a or b for a, b in IMPORT.findall(path.read_text())):
                graph[name].add(module_of((path.parent / target).resolve().relative_to(root.resolve()).as_posix()))
    return graph


def cycles(graph):
    """Strongly connected sets of more than one module (Tarjan), largest first."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in on_stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack.discard(members[-1])
            if len(members) > 1:
                found.append(sorted(members))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda c: (-len(c), c))
