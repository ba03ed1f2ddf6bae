// Flame graph: a click zooms in, one on the root or Esc out; arrows move, Enter zooms, so that no mouse is needed.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { draw, hit, layout, svgOf, ROW } from "../draw/flame.ts";
import { amount, percent } from "../model/format.ts";
import { type Node, find, pathOf, pattern, tree } from "../model/stacks.ts";
import type { ViewProps } from "../state.ts";
import { SavePicture } from "./picture.tsx";

/** Where an arrow leads from a node. */
function neighbour(node: Node, key: string): Node | null {
  const siblings = node.parent?.children ?? [];
  const place = siblings.indexOf(node);
  switch (key) {
    case "ArrowUp": return node.parent;
    case "ArrowDown": return node.children.reduce<Node | null>((most, one) => (most && most.total >= one.total ? most : one), null);
    case "ArrowLeft": return siblings[place - 1] ?? null;
    case "ArrowRight": return siblings[place + 1] ?? null;
  }
  return null;
}

/** What a function allocated itself is not known of the tree from the inside out. */
export function describe(node: Node, whole: number, unit: string, compares: boolean, inverted = false): string {
  const now = `${amount(node.total, unit)}, ${percent(node.total, whole)}`;
  const change = compares ? `, ${amount(node.total - node.base, unit, true)} since` : "";
  return `${node.name}: ${now}${change}${inverted ? "" : `; itself ${amount(node.self, unit)}`}`;
}

/** Fixed: it may not be turned around. */
export function Flame({ stacks, all, unit, shown, change, fixed = false }: ViewProps & { fixed?: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [ownPath, setOwnPath] = useState<string[]>([]); // of one beside another; else it is in the address
  const path = useMemo(() => (fixed ? ownPath : shown.zoom.split("\n").filter(Boolean)), [fixed, ownPath, shown.zoom]);
  const [chosenPath, setChosenPath] = useState<string[] | null>(null); // by names: the tree is made anew every few seconds
  const [pointer, setPointer] = useState<{ x: number; y: number } | null>(null);
  const up = shown.flames;
  const compares = stacks.base !== undefined;
  const root = useMemo(() => tree(stacks, all, shown), [stacks, all, shown.inverted, shown.folded]);
  const top = useMemo(() => find(root, path), [root, path]);
  const chosen = useMemo(() => chosenPath && find(root, chosenPath), [root, chosenPath]);
  const { boxes, rows } = useMemo(() => layout(top, width, compares), [top, width, compares]);
  const whole = Math.max(root.weight, 1);
  const byChange = compares && shown.colour !== "module";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const look = { width, up, byChange, search: pattern(shown.search), dark, chosen };

  useEffect(() => {
    const element = canvas.current!;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (width > 0) draw(canvas.current!, boxes, rows, look);
  }, [boxes, rows, width, up, byChange, shown.search, dark, chosen]);

  const at = (event: MouseEvent) => hit(boxes, rows, up, event.offsetX, event.offsetY);
  const zoom = (node: Node) => {
    if (fixed) setOwnPath(pathOf(node));
    else change({ zoom: pathOf(node).join("\n") });
    setChosenPath(pathOf(node));
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Escape") zoom(root);
    else if (event.key === "Enter" && chosen) zoom(chosen);
    else {
      const next = neighbour(chosen ?? top, event.key);
      if (!next) return;
      setChosenPath(pathOf(next));
    }
    event.preventDefault();
  };
  const told = (pointer && hit(boxes, rows, up, pointer.x, pointer.y)?.node) ?? chosen ?? top;
  return (
    <section>
      <div class="bar">
        <label><input type="checkbox" checked={up} onChange={() => change({ flames: !up })} /> flames (root at the bottom)</label>
        {compares && (
          <label>colour by <select value={byChange ? "change" : "module"} onChange={(event) => change({ colour: event.currentTarget.value })}>
            <option value="change">change</option>
            <option value="module">module</option>
          </select></label>
        )}
        {!fixed && <label><input type="checkbox" checked={shown.inverted} onChange={() => change({ inverted: !shown.inverted, zoom: "", open: "" })} /> from the allocating function to its callers</label>}
        <label><input type="checkbox" checked={shown.folded} onChange={() => change({ folded: !shown.folded })} /> fold recursion</label>
        <button disabled={path.length === 0} onClick={() => zoom(root)}>whole picture</button>
        <button disabled={!told.frame} onClick={() => change({ view: "callers", function: told.name })}>callers of {told.frame ? "it" : "…"}</button>
        <SavePicture name="seemalloc.flame" draw={() => ({ svg: svgOf(boxes, rows, look, (node) => describe(node, whole, unit, compares, shown.inverted)), width, height: rows * ROW })} />
      </div>
      <p class="told" aria-live="polite">{describe(told, whole, unit, compares, shown.inverted)}</p>
      <canvas
        ref={canvas}
        class="flame"
        tabIndex={0}
        role="img"
        aria-label={`Flame graph of ${boxes.length} frames; the table under Functions has the same figures. Arrows move, Enter zooms, Escape shows all.`}
        onMouseMove={(event) => setPointer({ x: event.offsetX, y: event.offsetY })}
        onMouseLeave={() => setPointer(null)}
        onClick={(event) => {
          const box = at(event);
          if (box) zoom(box.node);
        }}
        onKeyDown={key}
      />
      {byChange && <p class="legend"><span class="grown" /> grown <span class="shrunk" /> shrunk</p>}
    </section>
  );
}
