import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "./answers.ts";
import { callTree, functionTable, type Node, selectStacks, sortStacks } from "./model/stacks.ts";
import { DEFAULT_STATE, type ViewState } from "./state.ts";
import { computeView, transferables, type ViewData, type ViewRequest, viewRequest } from "./viewdata.ts";

const MANY = 700;

// main → f0 … f699, which hold 1 to 700 bytes. Half of them are called through "go".
const STACKS: Stacks = {
  types: [
    { name: "inuse_objects", unit: "objects", what: "" },
    { name: "inuse_space", unit: "bytes", what: "" },
  ],
  default: 1,
  period: 1,
  t: 7,
  comments: ["said"],
  errors: [1, 20],
  frames: [
    { n: "main", m: "a.out" },
    { n: "go", m: "lib.so", f: "go.cc", l: 3 },
    ...Array.from({ length: MANY }, (_, i) => ({ n: `f${i}`, m: "a.out" })),
  ],
  stacks: Array.from({ length: MANY }, (_, i) => (i % 2 ? [0, 1, i + 2] : [0, i + 2])),
  values: Array.from({ length: MANY }, (_, i) => [1, i + 1]),
};
const WHOLE = (MANY * (MANY + 1)) / 2;

const profile = { kind: "heap", at: 0, rows: "", isLive: true };
const question = (view: string, some: Partial<ViewState> = {}) =>
  viewRequest({ ...DEFAULT_STATE, ...some, view }, view, profile);
const look = <V extends keyof ViewData>(
  view: V,
  some: Partial<ViewState> = {},
  of: Partial<Stacks> = {},
  more: Partial<ViewRequest> = {},
) => {
  const { about, data: figures } = computeView({ ...STACKS, ...of }, { ...question(view, some), ...more });
  return { about, figures: figures as ViewData[V] };
};
const said = (node: Node): unknown => [node.name, node.module, node.total, node.self, node.children.map(said)];

test("what only decides how a view is drawn asks for nothing", () => {
  const same = (one: Partial<ViewState>, other: Partial<ViewState>, view: string) =>
    JSON.stringify(question(view, one)) === JSON.stringify(question(view, other));
  assert.ok(same({ zoom: "main\nf1", colour: "module" }, {}, "flame"));
  assert.ok(!same({ search: "f" }, {}, "functions"));
  for (const other of [{ focus: "f1" }, { module: "a.out" }, { type: "inuse_objects" }, { inverted: true }])
    assert.ok(!same(other, {}, "flame"));
});

test("a tree is the same once it has gone to another thread, and its memory has gone with it", () => {
  for (const view of ["flame", "callers"] as const) {
    const one = computeView(STACKS, question(view, { function: "go" }));
    const kept = callTree(sortStacks(STACKS, selectStacks(STACKS, 1)));
    const there = structuredClone(one, { transfer: transferables(one) });
    assert.equal(
      transferables(there).every((buffer) => buffer.byteLength > 0),
      true,
    );
    assert.equal(
      transferables(one).every((buffer) => buffer.byteLength === 0),
      true,
      "none of it is copied",
    );
    if (view === "flame") assert.deepEqual(said(callTree((there.data as ViewData["flame"]).tree)), said(kept));
    else
      assert.equal(callTree((there.data as ViewData["callers"]).callees!.tree).children[0]!.children.length, MANY / 2);
  }
  assert.doesNotThrow(() => computeView(STACKS, question("flame")), "the profile itself is still there");
});

test("what is told beside every view", () => {
  const { about } = look("flame");
  assert.deepEqual(
    [about.total.value, about.unit, about.error, about.isComparison, about.t, about.comments],
    [WHOLE, "bytes", 20, false, 7, ["said"]],
  );
  assert.deepEqual(about.modules, ["a.out", "lib.so"]);
  assert.equal(look("flame", { focus: "^f1$" }).about.error, 0, "of a part it is not known");
  assert.equal(look("flame", { type: "inuse_objects" }).about.total.value, MANY);
  assert.deepEqual(look("flame", {}, {}, { kind: "deaths" }).about.freed, { known: WHOLE, all: WHOLE });
});

test("of long tables the first rows are sent, in order, and how many more there are", () => {
  const { figures } = look("functions", { sort: "cum" });
  assert.deepEqual([figures.rows.length, figures.omitted, figures.column], [500, MANY + 2 - 500, "cum"]);
  assert.deepEqual(
    figures.rows.slice(0, 3).map((row) => row.name),
    ["main", "go", "f699"],
  );
  assert.equal(look("functions", { sort: "-name" }).figures.rows[0]!.name, "main", "turned round");
  const found = look("functions", { search: "^f69" }).figures;
  assert.deepEqual([found.rows.length, found.omitted, found.rows[0]!.name], [11, 0, "f699"]);
  const base = STACKS.values.map(([objects], i) => [objects!, i < 600 ? 0 : 1]);
  const changed = look("changes", { what: "new" }, { base, base_errors: [1, 1] });
  assert.deepEqual(
    [changed.figures.rows.length, changed.figures.omitted, changed.figures.totals.byType.grown.stacks],
    [500, 100, 100],
  );
  assert.equal(changed.about.isComparison, true);
  assert.deepEqual(look("changes").figures.rows, [], "nothing is compared");
});

test("each other view has its figures", () => {
  assert.equal(look("overview").figures.topHolders[0]!.name, "f699");
  const { graph, picture } = look("graph", { most: 20, nodes: 0 }).figures;
  assert.deepEqual([graph.nodes.length, picture.boxes.length], [20, 20]);
  const go = functionTable(STACKS, selectStacks(STACKS, 1)).find((row) => row.name === "go")!;
  const callers = look("callers", { function: "go" }).figures;
  assert.deepEqual([callers.name, callers.value, callers.names[0]], ["go", go.cum, "main"]);
  assert.deepEqual(look("flame", { search: "^go$" }).figures.matches, { value: go.cum, functions: 1 });
  assert.deepEqual(look("callers", { function: "go", search: "^main$" }).figures.callees!.matches, {
    value: 0,
    functions: 0,
  });
  assert.deepEqual(
    [look("callers", { function: "nobody" }).figures.callers, look("callers").figures.callees],
    [null, null],
  );
  const source = look("source").figures;
  assert.deepEqual([source.name, source.parts[0]!.file, source.parts[0]!.total.cum], ["go", "go.cc", go.cum]);
});
