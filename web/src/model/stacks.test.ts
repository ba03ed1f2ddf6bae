import assert from "node:assert/strict";
import test from "node:test";
import type { Stacks } from "../api.ts";
import { type Node, around, find, heldFor, holders, isPattern, isWhole, lines, pathOf, table, total, tree } from "./stacks.ts";

// main → parse → node, main → serve → serve → cache (recursive), and one that is only in the base.
const STACKS: Stacks = {
  types: [{ name: "inuse_objects", unit: "objects", what: "" }, { name: "inuse_space", unit: "bytes", what: "" }],
  default: 1, period: 1, t: 0, comments: null, errors: [0, 0],
  frames: [{ n: "main", m: "a.out" }, { n: "parse", m: "a.out" }, { n: "node", m: "lib.so" }, { n: "serve", m: "a.out" }, { n: "cache", m: "lib.so" }],
  stacks: [[0, 1, 2], [0, 3, 3, 4], [0, 3], [0, 1]],
  values: [[1, 100], [2, 300], [3, 50], [0, 0]],
  base: [[1, 40], [2, 300], [0, 0], [4, 70]],
};

function random(seed: number): () => number {
  return () => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) / 0x7fffffff;
}

function check(node: Node): void {
  const below = node.children.reduce((sum, child) => sum + child.total, 0);
  assert.equal(node.total, node.self + below, node.name);
  node.children.forEach(check);
}

test("filters choose stacks, and take functions out of them", () => {
  assert.deepEqual(total(lines(STACKS, 1)), { value: 450, base: 410, weight: 450 });
  assert.equal(total(lines(STACKS, 1, { focus: "PARSE" })).value, 100);
  assert.equal(total(lines(STACKS, 1, { ignore: "cache|node" })).value, 50);
  assert.equal(total(lines(STACKS, 1, { module: "lib.so" })).value, 400);
  assert.deepEqual(lines(STACKS, 1, { hide: "^serve$" })[1]!.frames, [0, 4]);
  assert.equal(total(lines(STACKS, 1, { focus: "(" })).value, 450, "half typed: no filter yet");
  assert.equal(isPattern("("), false);
});

test("a recursive function counts once", () => {
  const rows = new Map(table(STACKS, lines(STACKS, 1)).map((row) => [row.name, row]));
  assert.deepEqual([rows.get("serve")!.flat, rows.get("serve")!.cum], [50, 350]);
  assert.deepEqual([rows.get("main")!.flat, rows.get("main")!.cum], [0, 450]);
  assert.deepEqual([rows.get("parse")!.cum, rows.get("parse")!.cumBase, rows.get("parse")!.flatBase], [100, 110, 70]);
});

test("who holds memory is the function that uses the library, not the library", () => {
  const frames = STACKS.frames.map((frame) => ({ ...frame, p: frame.n === "node" || frame.n === "cache" }));
  assert.deepEqual(holders({ ...STACKS, frames }, lines(STACKS, 1)), [{ name: "serve", value: 350 }, { name: "parse", value: 100 }]);
  const all = STACKS.frames.map((frame) => ({ ...frame, p: true }));
  assert.deepEqual(holders({ ...STACKS, frames: all }, lines(STACKS, 1))[0], { name: "cache", value: 300 }, "nobody else is there");
  assert.deepEqual(holders({ ...STACKS, stacks: [[]], values: [[1, 5]] }, [{ frames: [], value: 5, base: 0 }]), [{ name: "(no stack)", value: 5 }]);
});

test("a helper holds for those who call it", () => {
  const stacks: Stacks = {
    ...STACKS,
    frames: [{ n: "main" }, { n: "parse" }, { n: "serve" }, { n: "filled" }, { n: "std::function", p: true }, { n: "std::vector", p: true }],
    // Directly, by way of a library, recursive, and from main itself.
    stacks: [[0, 1, 3], [0, 2, 4, 3, 5], [0, 1, 3, 3], [0, 3], [0, 1]],
    values: [[1, 10], [1, 70], [1, 30], [1, 5], [1, 1000]],
  };
  const all = lines(stacks, 1);
  assert.deepEqual(heldFor(stacks, all, "filled"), [{ name: "serve", value: 70 }, { name: "parse", value: 40 }, { name: "main", value: 5 }]);
  assert.deepEqual(heldFor(stacks, all, "parse"), [], "it has one caller: that says nothing");
  assert.deepEqual(heldFor(stacks, all, "main"), []);
});

test("the tree folds recursion and turns around", () => {
  const all = lines(STACKS, 1);
  const serve = (root: Node) => root.children[0]!.children.find((one) => one.name === "serve")!;
  assert.equal(serve(tree(STACKS, all)).children[0]!.name, "serve");
  assert.equal(serve(tree(STACKS, all, { folded: true })).children[0]!.name, "cache");
  const inverted = tree(STACKS, all, { inverted: true });
  assert.deepEqual(inverted.children.map((one) => one.name), ["cache", "node", "parse", "serve"]);
  check(inverted);
});

test("around a function are its callers and what it calls", () => {
  const { callers, callees } = around(STACKS, lines(STACKS, 1), "serve");
  assert.equal(total(callers).value, 350);
  assert.deepEqual(callers[0]!.frames, [0, 3]);
  assert.deepEqual(callees[0]!.frames, [3, 3, 4]);
});

test("sums of random profiles agree with the stacks", () => {
  const seed = Number(process.env.SEEMALLOC_SEED ?? Date.now() % 1e9);
  const next = random(seed);
  const frames = Array.from({ length: 20 }, (_, i) => ({ n: `f${i}`, m: `m${i % 3}` }));
  for (let round = 0; round < 50; round++) {
    const stacks = Array.from({ length: 60 }, () => Array.from({ length: 1 + Math.floor(next() * 8) }, () => Math.floor(next() * 20)));
    const profile: Stacks = { ...STACKS, frames, stacks, values: stacks.map(() => [0, Math.floor(next() * 1000)]), base: undefined };
    const all = lines(profile, 1);
    const sum = total(all).value;
    const rows = table(profile, all);
    assert.equal(rows.reduce((flat, row) => flat + row.flat, 0), sum, `seed ${seed}`);
    for (const shape of [{}, { inverted: true }, { folded: true }]) {
      const root = tree(profile, all, shape);
      assert.equal(root.total, sum, `seed ${seed}`);
      check(root);
    }
    const name = `f${Math.floor(next() * 20)}`;
    assert.equal(total(around(profile, all, name).callees).value, rows.find((row) => row.name === name)?.cum ?? 0, `seed ${seed}`);
  }
});

test("what is chosen is found again in the next tree, with its new figures", () => {
  const chosen = tree(STACKS, lines(STACKS, 1)).children[0]!.children.find((one) => one.name === "serve")!;
  assert.deepEqual(pathOf(chosen), ["main", "serve"]);
  const later: Stacks = { ...STACKS, values: STACKS.values.map(([objects, bytes]) => [objects!, 2 * bytes!]) };
  const again = find(tree(later, lines(later, 1)), pathOf(chosen));
  assert.deepEqual([again.name, again.total], ["serve", 2 * chosen.total]);
  const without: Stacks = { ...STACKS, values: [[1, 100], [0, 0], [0, 0], [0, 0]], base: undefined };
  assert.equal(find(tree(without, lines(without, 1)), pathOf(chosen)).name, "main", "gone: the nearest that is there");
});

test("gains and losses are weighed alike", () => {
  const since: Stacks = { ...STACKS, values: [[1, 100], [2, -300], [3, 50], [0, 0]], base: undefined };
  const all = lines(since, 1);
  assert.deepEqual(total(all), { value: -150, base: 0, weight: 450 });
  const main = tree(since, all).children[0]!;
  assert.deepEqual([main.total, main.weight], [-150, 450]);
});

test("a part is not the whole", () => {
  assert.deepEqual([{}, { focus: "(" }, { hide: "x" }].map(isWhole), [true, true, true]);
  assert.deepEqual([{ focus: "a" }, { ignore: "a" }, { module: "a" }].map(isWhole), [false, false, false]);
});
