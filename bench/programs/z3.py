"""z3: timetables (integer differences) and products of bit vectors. Millions of small terms and clauses are allocated and
freed.

The file is generated, the same each time, and z3 is deterministic: every allocator gets the same work.
"""
import random

from .process import expect
from .row import Row

JOBS, MACHINES, BITS = 10, 8, 6
# Seed → the answers for the requested lengths: there is a plan down to about 80.
LENGTHS = range(140, 60, -10)
ANSWERS = {1: "sat sat sat sat sat sat unsat unsat", 2: "sat sat sat sat sat unsat unsat unsat",
           3: "sat sat sat sat sat unsat unsat unsat"}


def timetable(seed):
    """Jobs that pass through all machines, each in its own order; is there a plan of at most that length?"""
    chance = random.Random(seed)
    lines, tasks = ["(push)", "(declare-const end Int)"], {}
    for job in range(JOBS):
        before = "0"
        for machine in chance.sample(range(MACHINES), MACHINES):
            start, length = f"start_{job}_{machine}", chance.randrange(2, 12)
            lines += [f"(declare-const {start} Int)", f"(assert (>= {start} {before}))"]
            tasks[job, machine] = start, length
            before = f"(+ {start} {length})"
        lines.append(f"(assert (<= {before} end))")
    for machine in range(MACHINES):
        for one in range(JOBS):
            for two in range(one):
                (start, length), (other, its_length) = tasks[one, machine], tasks[two, machine]
                lines.append(f"(assert (or (<= (+ {start} {length}) {other}) (<= (+ {other} {its_length}) {start})))")
    for length in LENGTHS:
        lines += ["(push)", f"(assert (<= end {length}))", "(check-sat)", "(pop)"]
    return [*lines, "(pop)"]


def products():
    """(a · b) · c = a · (b · c) for all vectors of BITS bits: there is no counterexample."""
    return ["(push)", *(f"(declare-const {name} (_ BitVec {BITS}))" for name in "abcpq"),
            "(assert (= p (bvmul a b)))", "(assert (= q (bvmul b c)))",
            "(assert (not (= (bvmul p c) (bvmul a q))))", "(check-sat)", "(pop)"]


def once(run):
    path = run.folder / "work.smt2"
    path.write_text("\n".join([line for seed in ANSWERS for line in timetable(seed)] + products()) + "\n")
    figures, printed = run.measure(["z3", path])
    expect("what z3 answers", printed.split(), [*" ".join(ANSWERS.values()).split(), "unsat"])
    return {**figures, "metrics": {}}


ROWS = [Row("z3", 1, (("z3", "z3"),), once)]
