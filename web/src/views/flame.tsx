// Flame graph. A click zooms in; a click on the root or Esc zooms out. The arrow keys move the selection and Enter
// zooms, so that no mouse is needed.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ofModule } from "../draw/colour.ts";
import { draw, hit, layout, modulesOf, svgOf, ROW } from "../draw/flame.ts";
import { SavePicture } from "../draw/picture.tsx";
import { amount, percent } from "../model/format.ts";
import { type Node, find, pathOf, pattern, tree } from "../model/stacks.ts";
import type { About, FlameFigures } from "../look.ts";
import type { Change, Shown } from "../state.ts";
import type { ViewProps } from "../viewprops.ts";
import { ShapeOfTree } from "./shape.tsx";

const MOST_MODULES = 8; // in the legend

/** The node in the direction of an arrow key. */
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

/** The inverted tree has no self values. */
export function describe(node: Node, whole: number, unit: string, compares: boolean, inverted = false): string {
  const now = `${amount(node.total, unit)}, ${percent(node.total, whole)}`;
  const change = compares ? `, ${amount(node.total - node.base, unit, true)} since` : "";
  return `${node.name}: ${now}${change}${inverted ? "" : `; itself ${amount(node.self, unit)}`}`;
}

export function Flame({ about, figures, shown, change }: ViewProps<"flame">) {
  return <Flames about={about} of={figures} shown={shown} change={change} />;
}

/** fixed: it cannot be inverted. */
export function Flames({ about, of, shown, change, fixed = false }: { about: About; of: FlameFigures; shown: Shown; change: Change; fixed?: boolean }) {
  const { unit, compares } = about;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [ownPath, setOwnPath] = useState<string[]>([]); // for a flame graph beside another one; otherwise the path is in the address
  const path = useMemo(() => (fixed ? ownPath : shown.zoom.split("\n").filter(Boolean)), [fixed, ownPath, shown.zoom]);
  const [chosenPath, setChosenPath] = useState<string[] | null>(null); // by names, because the tree is rebuilt every few seconds
  const [pointer, setPointer] = useState<{ x: number; y: number } | null>(null);
  const up = shown.flames;
  const root = useMemo(() => tree(of.tree), [of]);
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
  const under = pointer && hit(boxes, rows, up, pointer.x, pointer.y)?.node;
  const told = under ?? chosen ?? top;
  const found = of.found;
  const modules = useMemo(() => modulesOf(boxes), [boxes]);
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
        <ShapeOfTree shown={shown} change={change} fixed={fixed} />
        <button disabled={path.length === 0} onClick={() => zoom(root)}>whole picture</button>
        <button disabled={!told.parent} onClick={() => change({ view: "callers", function: told.name })}>callers of {told.parent ? "it" : "…"}</button>
        <SavePicture name="seemalloc.flame" draw={() => ({ svg: svgOf(boxes, rows, look, (node) => describe(node, whole, unit, compares, shown.inverted)), width, height: rows * ROW })} />
      </div>
      <p class="told" aria-live="polite">{describe(told, whole, unit, compares, shown.inverted)}</p>
      {found && <p class="note found" role="status">search: {found.functions} {found.functions === 1 ? "function matches" : "functions match"}, with {amount(found.value, unit)}, {percent(found.value, whole)}</p>}
      <div class="flamebox">
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
      {under && (
        <div class="tip" aria-hidden="true" style={{ top: `${pointer!.y + 18}px`, ...(pointer!.x < width / 2 ? { left: `${pointer!.x + 8}px` } : { right: `${width - pointer!.x + 8}px` }) }}>
          {describe(under, whole, unit, compares, shown.inverted)}
          {under.parent && <small>{[under.file, under.module].filter(Boolean).join(", in ")}</small>}
        </div>
      )}
      </div>
      {!byChange && modules.length > 1 && (
        <p class="legend">
          {modules.slice(0, MOST_MODULES).map((module) => <span key={module} class="entry"><i style={{ background: ofModule(module, dark) }} />{module || "(no module)"}</span>)}
          {modules.length > MOST_MODULES && `and ${modules.length - MOST_MODULES} more modules`}
        </p>
      )}
      {byChange && <p class="legend"><span class="grown" /> grown <span class="shrunk" /> shrunk</p>}
    </section>
  );
}
