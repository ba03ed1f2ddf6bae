import assert from "node:assert/strict";
import test from "node:test";
import type { Node, Origin } from "../model/stacks.ts";
import { boxAt, type FlameStyle, firstMatch, layout, originsOf, svgOf } from "./flame.ts";

function node(name: string, total: number, base: number, children: Node[] = []): Node {
  const self = total - children.reduce((sum, child) => sum + child.total, 0);
  const one: Node = {
    name,
    module: "",
    file: "",
    self,
    total,
    weight: Math.abs(self) + children.reduce((sum, child) => sum + child.weight, 0),
    base,
    blocks: 0,
    origin: "program",
    depth: 0,
    parent: null,
    children,
  };
  for (const child of children) child.parent = one;
  return one;
}

test("boxes are inside their caller's box, by their share", () => {
  const b = node("b", 30, 0, [node("c", 10, 0)]);
  const root = node("all", 100, 0, [node("a", 50, 0), b]);
  const { boxes, rows } = layout(root, 1000, false);
  assert.equal(rows, 3);
  assert.deepEqual(
    boxes.map((box) => [box.node.name, box.x, box.y, box.width]),
    [
      ["all", 0, 0, 1000],
      ["a", 0, 1, 500],
      ["b", 500, 1, 300],
      ["c", 500, 2, 100],
    ],
  );
  assert.equal(boxAt(boxes, rows, false, 650, 25)?.node.name, "b");
  assert.equal(boxAt(boxes, rows, false, 900, 25), null);
  assert.equal(boxAt(boxes, rows, true, 650, 25)?.node.name, "b", "the middle row of three is the same upside down");
  assert.equal(boxAt(boxes, rows, true, 550, 5)?.node.name, "c");
});

test("callers of the zoomed node have full width", () => {
  const b = node("b", 30, 0);
  const root = node("all", 100, 0, [node("a", 70, 0), b]);
  assert.deepEqual(
    layout(b, 400, false).boxes.map((box) => [box.node.name, box.width]),
    [
      ["all", 400],
      ["b", 400],
    ],
  );
  assert.equal(root.children.length, 2);
});

test("freed memory is visible in a comparison, and no box is wider than its caller", () => {
  const root = node("all", 10, 100, [node("gone", 0, 90), node("new", 10, 0), node("same", 0, 10)]);
  const { boxes } = layout(root, 1000, true);
  const inside = boxes.filter((box) => box.y === 1);
  assert.ok(inside.find((box) => box.node.name === "gone")!.width > 700);
  assert.ok(inside.reduce((sum, box) => sum + box.width, 0) <= 1000.001);
});

test("100,000 frames that are too narrow are omitted", () => {
  const wide = node(
    "all",
    100_000,
    0,
    Array.from({ length: 100_000 }, (_, i) => node(`f${i}`, 1, 0)),
  );
  const { boxes } = layout(wide, 1200, false);
  assert.equal(boxes.length, 1);
});

test("the SVG has the position, colour and title of each box; names are escaped", () => {
  const root = node("all", 100, 50, [node("a<script>&\u0001", 60, 0), node("b", 40, 50)]);
  const { boxes, rows } = layout(root, 500, true);
  const style: FlameStyle = {
    width: 500,
    rootAtBottom: false,
    byChange: true,
    search: null,
    dark: false,
    selected: null,
  };
  const svg = svgOf(boxes, rows, style, (one) => `${one.name}: ${one.total}`);
  assert.equal(svg.match(/<g>/g)?.length, 3);
  assert.ok(svg.includes("<title>b: 40</title>"), svg);
  assert.ok(!svg.includes("<script>") && svg.includes("a&#60;script&#62;&#38;?"), svg);
  const fills = (text: string) => [...text.matchAll(/height="19" fill="([^"]+)"/g)].map((match) => match[1]);
  assert.match(fills(svg)[1]!, /^hsl\(8 85%/, "all of it is new: red");
  assert.match(fills(svg)[2]!, /^hsl\(212 /, "shrunk: blue");
  assert.notDeepEqual(fills(svgOf(boxes, rows, { ...style, byChange: false }, () => "")), fills(svg));
  assert.match(
    svgOf(boxes, rows, { ...style, rootAtBottom: true }, () => ""),
    /y="20" width="499.5"/,
    "flames have their root at the bottom",
  );
});

test("losses have the same width as gains", () => {
  const { boxes } = layout(node("all", 10, 0, [node("gained", 60, 0), node("lost", -50, 0)]), 110, false);
  assert.deepEqual(
    boxes.map((box) => [box.node.name, Math.round(box.width)]),
    [
      ["all", 110],
      ["gained", 60],
      ["lost", 50],
    ],
  );
});

test("the legend lists the visible modules of each origin, the widest first", () => {
  const of = (name: string, origin: Origin, module: string, total: number, children: Node[] = []) =>
    Object.assign(node(name, total, 0, children), { module, origin });
  const root = Object.assign(
    node("all", 1000, 0, [
      of("main", "program", "a.out", 800, [
        of("make", "library", "libx.so", 800, [of("grow", "runtime", "libx.so", 800)]),
      ]),
      of("other", "library", "liby.so", 100),
      of("start", "runtime", "libc.so", 0.1),
    ]),
    { origin: "" },
  );
  assert.deepEqual(originsOf(layout(root, 1000, false).boxes), [
    { origin: "program", modules: ["a.out"] },
    { origin: "library", modules: ["libx.so", "liby.so"] },
    { origin: "runtime", modules: ["libx.so"] },
  ]);
});

test("the first match is the outermost, and the widest of these", () => {
  const root = node("all", 100, 0, [
    node("a", 20, 0, [node("found deep", 20, 0)]),
    node("found", 30, 0),
    node("found too", 50, 0),
  ]);
  const { boxes } = layout(root, 1000, false);
  assert.equal(firstMatch(boxes, /found/)?.node.name, "found too");
  assert.equal(firstMatch(boxes, /deep/)?.node.name, "found deep");
  assert.equal(firstMatch(boxes, /all/), null, "the root is not a function");
});
