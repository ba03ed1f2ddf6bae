import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "../answers.ts";
import {
  acceptsAll,
  blocksType,
  callersOfHolder,
  findNode,
  functionTable,
  memoryHolders,
  type Node,
  packTexts,
  pathOf,
  patternError,
  type SelectedStack,
  searchMatches,
  selectStacks,
  sortStacks,
  splitAt,
  sumStacks,
  type TreeOptions,
  callTree as treeOf,
  unpackText,
} from "./stacks.ts";

// main → parse → node, main → serve → serve → cache (recursive), and one that is only in the base.
const STACKS: Stacks = {
  types: [
    { name: "inuse_objects", unit: "objects", what: "" },
    { name: "inuse_space", unit: "bytes", what: "" },
  ],
  default: 1,
  period: 1,
  t: 0,
  comments: null,
  errors: [0, 0],
  frames: [
    { n: "main", m: "a.out" },
    { n: "parse", m: "a.out" },
    { n: "node", m: "lib.so" },
    { n: "serve", m: "a.out" },
    { n: "cache", m: "lib.so" },
  ],
  stacks: [
    [0, 1, 2],
    [0, 3, 3, 4],
    [0, 3],
    [0, 1],
  ],
  values: [
    [1, 100],
    [2, 300],
    [3, 50],
    [0, 0],
  ],
  base: [
    [1, 40],
    [2, 300],
    [0, 0],
    [4, 70],
  ],
};

const tree = (stacks: Stacks, all: SelectedStack[], shape?: TreeOptions) => treeOf(sortStacks(stacks, all, shape));

function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
}

function check(node: Node): void {
  const below = node.children.reduce((sum, child) => sum + child.total, 0);
  assert.equal(node.total, node.self + below, node.name);
  node.children.forEach(check);
}

test("memory is charged to the program's functions", () => {
  const frames = STACKS.frames.map((frame) => ({ ...frame, i: frame.n === "serve" })); // native code of an interpreter
  const owned: [number, number][] = [
    [0, 1],
    [1, 0],
    [1, 1],
    [0, 0],
  ];
  const charged = selectStacks({ ...STACKS, frames, owned }, 1);
  // The frame that owns is always shown.
  assert.deepEqual(
    charged.map((line) => line.frames),
    [[0, 1], [4], [0, 3], [0, 1]],
  );
  assert.deepEqual(sumStacks(charged), sumStacks(selectStacks(STACKS, 1)));
  assert.deepEqual(selectStacks({ ...STACKS, frames, owned }, 1, { raw: true }), selectStacks(STACKS, 1));
});

test("filters select stacks and remove functions from them", () => {
  assert.deepEqual(sumStacks(selectStacks(STACKS, 1)), { value: 450, base: 410, weight: 450 });
  assert.equal(sumStacks(selectStacks(STACKS, 1, { focus: "PARSE" })).value, 100);
  assert.equal(sumStacks(selectStacks(STACKS, 1, { ignore: "cache|node" })).value, 50);
  assert.equal(sumStacks(selectStacks(STACKS, 1, { module: "lib.so" })).value, 400);
  assert.deepEqual(selectStacks(STACKS, 1, { hide: "^serve$" })[1]!.frames, [0, 4]);
  assert.equal(sumStacks(selectStacks(STACKS, 1, { focus: "(" })).value, 450, "half typed: no filter yet");
  const errorText = (why: string) => `: expected a regular expression, read as JavaScript does: ${why}`;
  assert.deepEqual(
    ["", "a.b", "(", "(?i)a", "(?=a)"].map((text) => patternError("focus", text)),
    ["", "", "focus=(" + errorText("Unterminated group"), "focus=(?i)a" + errorText("Invalid group"), ""],
  );
});

test("a stack with several matching functions is counted once", () => {
  const all = selectStacks(STACKS, 1);
  assert.deepEqual(searchMatches(STACKS, all, /serve|cache/i), { value: 350, functions: 2 });
  assert.deepEqual(searchMatches(STACKS, all, /node/), { value: 100, functions: 1 });
  assert.deepEqual(searchMatches(STACKS, all, /nobody/), { value: 0, functions: 0 });
  assert.equal(searchMatches(STACKS, all, null), null);
});

test("a recursive function counts once", () => {
  const rows = new Map(functionTable(STACKS, selectStacks(STACKS, 1)).map((row) => [row.name, row]));
  assert.deepEqual([rows.get("serve")!.flat, rows.get("serve")!.cum], [50, 350]);
  assert.deepEqual([rows.get("main")!.flat, rows.get("main")!.cum], [0, 450]);
  assert.deepEqual([rows.get("parse")!.cum, rows.get("parse")!.cumBase, rows.get("parse")!.flatBase], [100, 110, 70]);
});

test("memory is attributed to the caller of a library", () => {
  const frames = STACKS.frames.map((frame) => ({ ...frame, p: frame.n === "node" || frame.n === "cache" }));
  assert.deepEqual(memoryHolders({ ...STACKS, frames }, selectStacks(STACKS, 1)), [
    { name: "serve", value: 350 },
    { name: "parse", value: 100 },
  ]);
  const all = STACKS.frames.map((frame) => ({ ...frame, p: true }));
  assert.deepEqual(
    memoryHolders({ ...STACKS, frames: all }, selectStacks(STACKS, 1))[0],
    { name: "cache", value: 300 },
    "there are no others",
  );
  assert.deepEqual(memoryHolders({ ...STACKS, stacks: [[]], values: [[1, 5]] }, [{ frames: [], value: 5, base: 0 }]), [
    { name: "(no stack)", value: 5 },
  ]);
});

test("memory of a helper is broken down by its callers", () => {
  const stacks: Stacks = {
    ...STACKS,
    frames: [
      { n: "main" },
      { n: "parse" },
      { n: "serve" },
      { n: "filled" },
      { n: "std::function", p: true },
      { n: "std::vector", p: true },
    ],
    // Direct, through a library, recursive, and from main itself.
    stacks: [
      [0, 1, 3],
      [0, 2, 4, 3, 5],
      [0, 1, 3, 3],
      [0, 3],
      [0, 1],
    ],
    values: [
      [1, 10],
      [1, 70],
      [1, 30],
      [1, 5],
      [1, 1000],
    ],
  };
  const all = selectStacks(stacks, 1);
  assert.deepEqual(callersOfHolder(stacks, all, "filled"), [
    { name: "serve", value: 70 },
    { name: "parse", value: 40 },
    { name: "main", value: 5 },
  ]);
  assert.deepEqual(callersOfHolder(stacks, all, "parse"), [], "it has one caller: that says nothing");
  assert.deepEqual(callersOfHolder(stacks, all, "main"), []);
});

test("the tree folds recursion and can be inverted", () => {
  const all = selectStacks(STACKS, 1);
  const serve = (root: Node) => root.children[0]!.children.find((one) => one.name === "serve")!;
  assert.equal(serve(tree(STACKS, all)).children[0]!.name, "serve");
  assert.equal(serve(tree(STACKS, all, { folded: "direct" })).children[0]!.name, "cache");
  const inverted = tree(STACKS, all, { inverted: true });
  assert.deepEqual(
    inverted.children.map((one) => one.name),
    ["cache", "node", "parse", "serve"],
  );
  check(inverted);
});

test("packed texts are unpacked unchanged, also empty ones", () => {
  const texts = ["", "a", "\n", "ünï → 𝄞", ""];
  const joined = packTexts(texts);
  assert.deepEqual(
    texts.map((_, i) => unpackText(joined, i)),
    texts,
  );
});

// f → g → f → g → f → h and f → g → f, which when folded consist of the memory of f, and the memory of h for f.
const INDIRECT: Stacks = {
  ...STACKS,
  frames: [{ n: "main" }, { n: "f" }, { n: "g" }, { n: "h" }],
  stacks: [
    [0, 1, 2, 1, 2, 1, 3],
    [0, 1, 2, 1],
    [0, 1, 1, 2],
  ],
  values: [
    [1, 100],
    [1, 30],
    [1, 7],
  ],
  base: undefined,
};

test("indirect recursion is folded, and each function's bytes count once", () => {
  const all = selectStacks(INDIRECT, 1);
  const treeText = (node: Node): string =>
    `${node.name} ${node.total}/${node.self}${node.children.length ? ` (${node.children.map(treeText).join(", ")})` : ""}`;
  assert.equal(
    treeText(tree(INDIRECT, all, { folded: "all" })),
    "all 137/0 (main 137/0 (f 137/30 (g 7/7, h 100/100)))",
  );
  assert.equal(
    treeText(tree(INDIRECT, all, { folded: "all", inverted: true })),
    "all 137/0 (f 30/0 (main 30/30), g 7/0 (f 7/0 (main 7/7)), h 100/0 (f 100/0 (main 100/100)))",
  );
  assert.equal(
    treeText(tree(INDIRECT, all, { folded: "direct" })),
    "all 137/0 (main 137/0 (f 137/0 (g 137/7 (f 130/30 (g 100/0 (f 100/0 (h 100/100)))))))",
  );
});

const SHAPES: TreeOptions[] = (["", "direct", "all"] as const).flatMap((folded) => [
  { folded },
  { folded, inverted: true },
]);

/** A tree built step by step, as the reference for each node. */
function grown(
  profile: Stacks,
  all: SelectedStack[],
  shape: TreeOptions,
): Map<string, [number, number, number, number]> {
  const nodes = new Map<string, [number, number, number, number]>();
  for (const line of all) {
    let names = line.frames.map((index) => profile.frames[index]!.n);
    if (shape.folded === "direct") names = names.filter((name, i) => name !== names[i - 1]);
    if (shape.folded === "all")
      for (let i = 0; i < names.length; i++) names.splice(i + 1, names.lastIndexOf(names[i]!) - i);
    if (shape.inverted) names.reverse();
    for (let depth = 0; depth <= names.length; depth++) {
      const path = names.slice(0, depth).join("\n");
      const node = nodes.get(path) ?? [0, 0, 0, 0];
      nodes.set(path, [
        node[0] + line.value,
        node[1] + (depth === names.length ? line.value : 0),
        node[2] + Math.abs(line.value),
        node[3] + line.base,
      ]);
    }
  }
  return nodes;
}

test("a tree has the nodes and sums of its stacks, in every shape", () => {
  const seed = Number(process.env.SEEMALLOC_SEED ?? Date.now() % 1e9);
  const next = random(seed);
  for (let round = 0; round < 40; round++) {
    const names = 1 + Math.floor(next() * 6);
    const frames = Array.from({ length: 12 }, (_, i) => ({
      n: `f${i % names}`,
      l: i,
      m: `m${i % names}`,
      f: `${i % names}.cc`,
    }));
    const stacks = Array.from({ length: Math.floor(next() * 200) }, () =>
      Array.from({ length: Math.floor(next() * 7) }, () => Math.floor(next() * 12)),
    );
    const column = () => stacks.map(() => [0, Math.floor(next() * 2000) - 500]);
    const profile: Stacks = { ...STACKS, frames, stacks, values: column(), base: column() };
    const all = selectStacks(profile, 1);
    for (const shape of SHAPES) {
      const expected = grown(profile, all, shape);
      let seen = 0;
      const walk = (node: Node) => {
        seen++;
        const path = pathOf(node);
        const about = `seed ${seed}, round ${round}: ${path.join(" ")}`;
        if (all.length > 0)
          assert.deepEqual([node.total, node.self, node.weight, node.base], expected.get(path.join("\n")), about);
        assert.equal(node.depth, path.length, about);
        if (node.parent)
          assert.deepEqual([node.module, node.file], [`m${node.name.slice(1)}`, `${node.name.slice(1)}.cc`], about);
        assert.deepEqual(
          node.children.map((one) => one.name),
          [...new Set(node.children.map((one) => one.name))].sort(),
          about,
        );
        node.children.forEach(walk);
      };
      walk(tree(profile, all, shape));
      assert.equal(seen, Math.max(1, expected.size), `seed ${seed}, round ${round}`);
    }
  }
});

test("splitAt returns the callers and the callees of a function", () => {
  const { callers, callees } = splitAt(STACKS, selectStacks(STACKS, 1), "serve");
  assert.equal(sumStacks(callers).value, 350);
  assert.deepEqual(callers[0]!.frames, [0, 3]);
  assert.deepEqual(callees[0]!.frames, [3, 3, 4]);
});

test("sums of random profiles agree with the stacks", () => {
  const seed = Number(process.env.SEEMALLOC_SEED ?? Date.now() % 1e9);
  const next = random(seed);
  const frames = Array.from({ length: 20 }, (_, i) => ({ n: `f${i}`, m: `m${i % 3}` }));
  for (let round = 0; round < 50; round++) {
    const stacks = Array.from({ length: 60 }, () =>
      Array.from({ length: 1 + Math.floor(next() * 8) }, () => Math.floor(next() * 20)),
    );
    const profile: Stacks = {
      ...STACKS,
      frames,
      stacks,
      values: stacks.map(() => [0, Math.floor(next() * 1000)]),
      base: undefined,
    };
    const all = selectStacks(profile, 1);
    const sum = sumStacks(all).value;
    const rows = functionTable(profile, all);
    assert.equal(
      rows.reduce((flat, row) => flat + row.flat, 0),
      sum,
      `seed ${seed}`,
    );
    for (const shape of SHAPES) {
      const root = tree(profile, all, shape);
      assert.equal(root.total, sum, `seed ${seed}`);
      check(root);
    }
    const name = `f${Math.floor(next() * 20)}`;
    assert.equal(
      sumStacks(splitAt(profile, all, name).callees).value,
      rows.find((row) => row.name === name)?.cum ?? 0,
      `seed ${seed}`,
    );
  }
});

test("the selected node is found in the next tree, with its new value", () => {
  const selected = tree(STACKS, selectStacks(STACKS, 1)).children[0]!.children.find((one) => one.name === "serve")!;
  assert.deepEqual(pathOf(selected), ["main", "serve"]);
  const later: Stacks = { ...STACKS, values: STACKS.values.map(([objects, bytes]) => [objects!, 2 * bytes!]) };
  const again = findNode(tree(later, selectStacks(later, 1)), pathOf(selected));
  assert.deepEqual([again.name, again.total], ["serve", 2 * selected.total]);
  const without: Stacks = {
    ...STACKS,
    values: [
      [1, 100],
      [0, 0],
      [0, 0],
      [0, 0],
    ],
    base: undefined,
  };
  assert.equal(
    findNode(tree(without, selectStacks(without, 1)), pathOf(selected)).name,
    "main",
    "gone: the nearest that is there",
  );
});

test("gains and losses have equal weight", () => {
  const since: Stacks = {
    ...STACKS,
    values: [
      [1, 100],
      [2, -300],
      [3, 50],
      [0, 0],
    ],
    base: undefined,
  };
  const all = selectStacks(since, 1);
  assert.deepEqual(sumStacks(all), { value: -150, base: 0, weight: 450 });
  const main = tree(since, all).children[0]!;
  assert.deepEqual([main.total, main.weight], [-150, 450]);
});

test("a filter does not accept all stacks", () => {
  assert.deepEqual([{}, { focus: "(" }, { hide: "x" }].map(acceptsAll), [true, true, true]);
  assert.deepEqual([{ focus: "a" }, { ignore: "a" }, { module: "a" }].map(acceptsAll), [false, false, false]);
});

test("each function has an origin, and its bytes the number of their blocks", () => {
  const frames = STACKS.frames.map((frame) => ({ ...frame, p: frame.n === "node" }));
  const blocks = blocksType(STACKS.types, 1);
  const root = tree({ ...STACKS, frames }, selectStacks({ ...STACKS, frames }, 1, {}, blocks));
  const origin = (...path: string[]) => findNode(root, path).origin;
  assert.equal(root.origin, "");
  assert.equal(origin("main", "parse"), "program");
  assert.equal(origin("main", "parse", "node"), "runtime");
  assert.equal(origin("main", "serve", "serve", "cache"), "library");
  assert.equal(root.blocks, 6);
  assert.equal(findNode(root, ["main", "serve"]).blocks, 5);
  assert.equal(tree(STACKS, selectStacks(STACKS, 1)).blocks, 0, "they are not known");
  assert.equal(blocksType(STACKS.types, 0), -1, "objects have no blocks");
});
