import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "../answers.ts";
import { callGraph, exactPattern, heaviest } from "./graph.ts";
import { functionTable, selectStacks } from "./stacks.ts";

// main → parse → node; main → serve → serve → cache; main → serve; freed: main → parse.
const STACKS: Stacks = {
  types: [{ name: "inuse_space", unit: "bytes", what: "" }],
  default: 0,
  period: 1,
  t: 0,
  comments: null,
  errors: [0],
  frames: [{ n: "main" }, { n: "parse" }, { n: "node" }, { n: "serve" }, { n: "cache" }],
  stacks: [
    [0, 1, 2],
    [0, 3, 3, 4],
    [0, 3],
    [0, 1],
  ],
  values: [[100], [300], [50], [0]],
  base: undefined,
};
const ALL = { nodes: 0, edges: 0, maxNodes: 100 };
const edgeText = (one: { from: string; to: string; value: number; indirect: boolean }) =>
  `${one.from}→${one.to} ${one.value}${one.indirect ? "~" : ""}`;

test("edges have the value of their stacks; recursion makes no edge to itself", () => {
  const { nodes, edges, total: whole } = callGraph(STACKS, selectStacks(STACKS, 0), ALL);
  assert.equal(whole, 450);
  assert.deepEqual(
    nodes.map((node) => [node.name, node.flat, node.cum]),
    [
      ["main", 0, 450],
      ["serve", 50, 350],
      ["cache", 300, 300],
      ["node", 100, 100],
      ["parse", 0, 100],
    ],
  );
  assert.deepEqual(edges.map(edgeText).sort(), [
    "main→parse 100",
    "main→serve 350",
    "parse→node 100",
    "serve→cache 300",
  ]);
});

test("a call through omitted functions is marked as indirect", () => {
  const hidden = callGraph(STACKS, selectStacks(STACKS, 0), { ...ALL, maxNodes: 3 });
  assert.deepEqual(hidden.edges.map(edgeText).sort(), ["main→serve 350", "serve→cache 300"]);
  assert.equal(hidden.omittedNodes, 2);
  const skip: Stacks = { ...STACKS, stacks: [[0, 1, 2], [0, 3, 3, 4], [0, 2], [0]], values: [[100], [10], [50], [0]] };
  const over = callGraph(skip, selectStacks(skip, 0), { ...ALL, maxNodes: 2 });
  assert.deepEqual(over.edges.map(edgeText), ["main→node 150~"]);
});

test("limits are shares of the total", () => {
  assert.deepEqual(
    callGraph(STACKS, selectStacks(STACKS, 0), { ...ALL, nodes: 0.5 }).nodes.map((node) => node.name),
    ["main", "serve", "cache"],
  );
  const few = callGraph(STACKS, selectStacks(STACKS, 0), { ...ALL, edges: 0.5 });
  assert.deepEqual(few.edges.map(edgeText).sort(), ["main→serve 350", "serve→cache 300"]);
  assert.equal(few.omittedEdges, 2);
});

test("freed memory counts in a comparison", () => {
  const change: Stacks = { ...STACKS, base: [[100], [0], [0], [70]] };
  const { nodes, edges } = callGraph(change, selectStacks(change, 0), ALL);
  assert.equal(nodes.find((node) => node.name === "parse")!.cumBase, 170);
  assert.deepEqual(
    edges.find((edge) => edge.to === "parse"),
    { from: "main", to: "parse", value: 100, base: 170, indirect: false },
  );
});

test("heaviest returns the edge with the largest value", () => {
  const { edges } = callGraph(STACKS, selectStacks(STACKS, 0), ALL);
  assert.equal(heaviest(edges, "main", "out")?.to, "serve");
  assert.equal(heaviest(edges, "cache", "in")?.from, "serve");
  assert.equal(heaviest(edges, "main", "in"), null);
});

test("exactPattern matches only its name", () => {
  for (const name of ["std::vector<int*>::push_back(int* const&)", "operator[]", "a+b|c", "{closure#0}", "$x^"]) {
    assert.ok(new RegExp(exactPattern(name)).test(name), name);
    assert.ok(!new RegExp(exactPattern(name)).test(name + "2"), name);
  }
});

test("random profiles: nodes equal the function table, and no edge exceeds its nodes", () => {
  const seed = Number(process.env.SEEMALLOC_SEED ?? Date.now() % 1e9);
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
  for (let round = 0; round < 50; round++) {
    const frames = Array.from({ length: 12 }, (_, i) => ({ n: `f${i}` }));
    const stacks = Array.from({ length: 40 }, () =>
      Array.from({ length: 1 + Math.floor(next() * 8) }, () => Math.floor(next() * 12)),
    );
    const profile: Stacks = { ...STACKS, frames, stacks, values: stacks.map(() => [1 + Math.floor(next() * 1000)]) };
    const all = selectStacks(profile, 0);
    const { nodes, edges } = callGraph(profile, all, ALL);
    const rows = new Map(functionTable(profile, all).map((row) => [row.name, row]));
    assert.equal(nodes.length, rows.size);
    for (const edge of edges) {
      assert.ok(edge.value <= Math.min(rows.get(edge.from)!.cum, rows.get(edge.to)!.cum), `seed ${seed}`);
      const direct = all.filter((line) =>
        line.frames.some(
          (frame, i) => i > 0 && frames[line.frames[i - 1]!]!.n === edge.from && frames[frame]!.n === edge.to,
        ),
      );
      assert.equal(
        edge.value,
        direct.reduce((sum, line) => sum + line.value, 0),
        `seed ${seed}`,
      );
    }
  }
});
