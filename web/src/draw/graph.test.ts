import assert from "node:assert/strict";
import test from "node:test";
import type { Graph } from "../model/graph.ts";
import { fontSizeFor, layout, layoutKey, svgPath, wrapName } from "./graph.ts";

function made(edges: [string, string, number][]): Graph {
  const names = [...new Set(edges.flatMap(([from, to, _]) => [from, to]))];
  return {
    nodes: names.map((name) => ({ name, file: "", module: "", flat: 0, cum: 10, flatBase: 0, cumBase: 0 })),
    edges: edges.map(([from, to, value]) => ({ from, to, value, base: 0, indirect: false })),
    total: 100,
    omittedNodes: 0,
    omittedEdges: 0,
  };
}

test("callers are above callees, and no two boxes overlap", () => {
  const {
    boxes,
    edges: ways,
    width,
    height,
  } = layout(
    made([
      ["main", "a", 5],
      ["main", "b", 5],
      ["a", "c", 5],
      ["b", "c", 5],
      ["c", "a", 1],
    ]),
  );
  const at = new Map(boxes.map((box) => [box.name, box]));
  assert.ok(
    at.get("main")!.y < at.get("a")!.y && at.get("main")!.y < at.get("b")!.y && at.get("b")!.y < at.get("c")!.y,
  );
  for (const one of boxes) {
    assert.ok(
      one.x - one.width / 2 >= 0 && one.x + one.width / 2 <= width && one.y + one.height / 2 <= height,
      one.name,
    );
    for (const other of boxes) {
      if (one === other) continue;
      assert.ok(
        Math.abs(one.x - other.x) >= (one.width + other.width) / 2 ||
          Math.abs(one.y - other.y) >= (one.height + other.height) / 2,
        `${one.name} ${other.name}`,
      );
    }
  }
  assert.equal(ways.length, 5, "also the one that closes a circle");
  for (const way of ways) assert.match(svgPath(way.points), /^M[\d.,-]+( Q[\d.,-]+ [\d.,-]+)+$|^M[\d.,-]+ L[\d.,-]+$/);
});

test("names of JavaScript's own properties are ordinary names", () => {
  assert.deepEqual(
    layout(
      made([
        ["constructor", "__proto__", 1],
        ["toString", "constructor", 1],
      ]),
    )
      .boxes.map((box) => box.name)
      .sort(),
    ["__proto__", "constructor", "toString"],
  );
});

test("an empty graph has a layout", () => assert.deepEqual(layout(made([])).boxes, []));

test("small changes keep the layout", () => {
  const [before, after, other] = [made([["a", "b", 10]]), made([["a", "b", 11]]), made([["a", "c", 10]])];
  assert.equal(layoutKey(before), layoutKey(after));
  assert.notEqual(layoutKey(before), layoutKey(other));
  assert.deepEqual([0, 0.07, 0.3, 0.6, 1].map(fontSizeFor), [11, 14, 17, 20, 20]);
});

test("long names are wrapped at word boundaries", () => {
  assert.deepEqual(wrapName("std::unordered_map<std::string, int>::operator[]"), [
    "std::unordered_map<std::string, ",
    "int>::operator[]",
  ]);
  assert.deepEqual(
    wrapName("x".repeat(200)).map((line) => line.length),
    [34, 34, 34],
  );
  assert.deepEqual(wrapName("main"), ["main"]);
});

test("80 functions and 200 calls are laid out in less than 3 s of CPU time", () => {
  const edges: [string, string, number][] = [];
  for (let i = 1; i < 80; i++) edges.push([`f${Math.floor(i / 3)}`, `f${i}`, 80 - i]);
  for (let i = 0; i < 120; i++) edges.push([`f${(i * 7) % 80}`, `f${(i * 13 + 1) % 80}`, 1]);
  const began = process.cpuUsage();
  assert.equal(layout(made(edges.filter(([from, to]) => from !== to))).boxes.length, 80);
  const { user, system } = process.cpuUsage(began);
  assert.ok(user + system < 3e6, `${user + system} µs`);
});
