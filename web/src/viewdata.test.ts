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
const request = (view: string, some: Partial<ViewState> = {}) =>
  viewRequest({ ...DEFAULT_STATE, ...some, view }, view, profile);
const view = <V extends keyof ViewData>(
  view: V,
  some: Partial<ViewState> = {},
  of: Partial<Stacks> = {},
  more: Partial<ViewRequest> = {},
) => {
  const { about, data } = computeView({ ...STACKS, ...of }, { ...request(view, some), ...more });
  return { about, data: data as ViewData[V] };
};
const treeOf = (node: Node): unknown => [node.name, node.module, node.total, node.self, node.children.map(treeOf)];

test("settings that only affect drawing do not change the request", () => {
  const same = (one: Partial<ViewState>, other: Partial<ViewState>, view: string) =>
    JSON.stringify(request(view, one)) === JSON.stringify(request(view, other));
  assert.ok(same({ zoom: "main\nf1", colour: "module" }, {}, "flame"));
  assert.ok(!same({ search: "f" }, {}, "functions"));
  for (const other of [{ focus: "f1" }, { module: "a.out" }, { type: "inuse_objects" }, { inverted: true }])
    assert.ok(!same(other, {}, "flame"));
});

test("a tree is unchanged after its transfer to another thread, and its buffers are moved", () => {
  for (const view of ["flame", "callers"] as const) {
    const one = computeView(STACKS, request(view, { function: "go" }));
    const expected = callTree(sortStacks(STACKS, selectStacks(STACKS, 1)));
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
    if (view === "flame") assert.deepEqual(treeOf(callTree((there.data as ViewData["flame"]).tree)), treeOf(expected));
    else
      assert.equal(callTree((there.data as ViewData["callers"]).callees!.tree).children[0]!.children.length, MANY / 2);
  }
  assert.doesNotThrow(() => computeView(STACKS, request("flame")), "the profile itself is still there");
});

test("every view has the profile's information", () => {
  const { about } = view("flame");
  assert.deepEqual(
    [about.total.value, about.unit, about.error, about.isComparison, about.t, about.comments],
    [WHOLE, "bytes", 20, false, 7, ["said"]],
  );
  assert.deepEqual(about.modules, ["a.out", "lib.so"]);
  assert.equal(view("flame", { focus: "^f1$" }).about.error, 0, "of a part it is not known");
  assert.equal(view("flame", { type: "inuse_objects" }).about.total.value, MANY);
  assert.deepEqual(view("flame", {}, {}, { kind: "deaths" }).about.freed, { known: WHOLE, all: WHOLE });
});

test("long tables are truncated, with the number of omitted rows", () => {
  const { data: figures } = view("functions", { sort: "cum" });
  assert.deepEqual([figures.rows.length, figures.omitted, figures.column], [500, MANY + 2 - 500, "cum"]);
  assert.deepEqual(
    figures.rows.slice(0, 3).map((row) => row.name),
    ["main", "go", "f699"],
  );
  assert.equal(view("functions", { sort: "-name" }).data.rows[0]!.name, "main", "turned round");
  const found = view("functions", { search: "^f69" }).data;
  assert.deepEqual([found.rows.length, found.omitted, found.rows[0]!.name], [11, 0, "f699"]);
  const base = STACKS.values.map(([objects], i) => [objects!, i < 600 ? 0 : 1]);
  const changed = view("changes", { what: "new" }, { base, base_errors: [1, 1] });
  assert.deepEqual(
    [changed.data.rows.length, changed.data.omitted, changed.data.totals.byType.grown.stacks],
    [500, 100, 100],
  );
  assert.equal(changed.about.isComparison, true);
  assert.deepEqual(view("changes").data.rows, [], "nothing is compared");
});

test("each other view has its data", () => {
  assert.equal(view("overview").data.topHolders[0]!.name, "f699");
  const { graph, picture } = view("graph", { most: 20, nodes: 0 }).data;
  assert.deepEqual([graph.nodes.length, picture.boxes.length], [20, 20]);
  const go = functionTable(STACKS, selectStacks(STACKS, 1)).find((row) => row.name === "go")!;
  const callers = view("callers", { function: "go" }).data;
  assert.deepEqual([callers.name, callers.value, callers.names[0]], ["go", go.cum, "main"]);
  assert.deepEqual(view("flame", { search: "^go$" }).data.matches, { value: go.cum, functions: 1 });
  assert.deepEqual(view("callers", { function: "go", search: "^main$" }).data.callees!.matches, {
    value: 0,
    functions: 0,
  });
  assert.deepEqual([view("callers", { function: "nobody" }).data.callers, view("callers").data.callees], [null, null]);
  const source = view("source").data;
  assert.deepEqual([source.name, source.parts[0]!.file, source.parts[0]!.total.cum], ["go", "go.cc", go.cum]);
});
