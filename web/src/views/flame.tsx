// Flame graph. A click zooms in; a click on the root or Esc zooms out. The arrow keys move the selection and Enter
// zooms, so that no mouse is needed.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { originColour } from "../draw/colour.ts";
import { boxAt, draw, firstMatch, layout, originsOf, ROW, svgOf, top as topOf } from "../draw/flame.ts";
import { SavePicture } from "../draw/picture.tsx";
import { amount, percent } from "../model/format.ts";
import { callTree, compilePattern, findNode, type Node, type Origin, pathOf } from "../model/stacks.ts";
import type { Change, ViewState } from "../state.ts";
import type { FlameData, ProfileInfo } from "../viewdata.ts";
import type { ViewProps } from "../viewprops.ts";
import { TreeControls } from "./treecontrols.tsx";

const MAX_MODULES = 4; // in the legend, of each origin

const ORIGIN_TEXTS: Record<Origin, [string, string]> = {
  program: ["program", "Functions of the program itself, and interpreted functions"],
  library: ["libraries", "Functions of shared libraries"],
  runtime: [
    "runtime",
    "Functions that only pass memory on: containers, language runtimes, wrappers of malloc, start-up",
  ],
};

/** The node in the direction of an arrow key. */
function neighbour(node: Node, key: string): Node | null {
  const siblings = node.parent?.children ?? [];
  const position = siblings.indexOf(node);
  switch (key) {
    case "ArrowUp":
      return node.parent;
    case "ArrowDown":
      return node.children.reduce<Node | null>((most, one) => (most && most.total >= one.total ? most : one), null);
    case "ArrowLeft":
      return siblings[position - 1] ?? null;
    case "ArrowRight":
      return siblings[position + 1] ?? null;
  }
  return null;
}

/** The inverted tree has no self values. */
export function describe(node: Node, whole: number, unit: string, isComparison: boolean, inverted = false): string {
  const now = `${amount(node.total, unit)}, ${percent(node.total, whole)}`;
  const change = isComparison ? `, ${amount(node.total - node.base, unit, true)} since` : "";
  return `${node.name}: ${now}${change}${inverted ? "" : `; itself ${amount(node.self, unit)}`}`;
}

export function Flame({ about, data, shown, change }: ViewProps<"flame">) {
  return <FlameGraph about={about} data={data} shown={shown} change={change} />;
}

/** fixed: it cannot be inverted. */
export function FlameGraph({
  about,
  data,
  shown,
  change,
  fixed = false,
}: {
  about: ProfileInfo;
  data: FlameData;
  shown: ViewState;
  change: Change;
  fixed?: boolean;
}) {
  const { unit, isComparison } = about;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [ownPath, setOwnPath] = useState<string[]>([]); // for a flame graph beside another one; otherwise the path is in the address
  const path = useMemo(() => (fixed ? ownPath : shown.zoom.split("\n").filter(Boolean)), [fixed, ownPath, shown.zoom]);
  const [selectedPath, setSelectedPath] = useState<string[] | null>(null); // by names, because the tree is rebuilt every few seconds
  const [pointer, setPointer] = useState<{ x: number; y: number } | null>(null);
  const up = shown.flames;
  const root = useMemo(() => callTree(data.tree), [data]);
  const top = useMemo(() => findNode(root, path), [root, path]);
  const selected = useMemo(() => selectedPath && findNode(root, selectedPath), [root, selectedPath]);
  const { boxes, rows } = useMemo(() => layout(top, width, isComparison), [top, width, isComparison]);
  const whole = Math.max(root.weight, 1);
  const byChange = isComparison && shown.colour !== "module";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const style = { width, rootAtBottom: up, byChange, search: compilePattern(shown.search), dark, selected };

  useEffect(() => {
    const element = canvas.current!;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (width > 0) draw(canvas.current!, boxes, rows, style);
  }, [boxes, rows, width, up, byChange, shown.search, dark, selected]);

  // A new search selects the first match, and scrolls to it.
  useEffect(() => {
    const search = compilePattern(shown.search);
    const first = search && !fixed && firstMatch(boxes, search);
    if (!first) return;
    setSelectedPath(pathOf(first.node));
    const y = canvas.current!.getBoundingClientRect().top + topOf(first, rows, up);
    if (y < innerHeight / 4 || y + ROW > innerHeight) scrollBy({ top: y - innerHeight / 2 });
  }, [shown.search, width > 0]);

  const boxUnder = (event: MouseEvent) => boxAt(boxes, rows, up, event.offsetX, event.offsetY);
  const zoom = (node: Node) => {
    if (fixed) setOwnPath(pathOf(node));
    else change({ zoom: pathOf(node).join("\n") });
    setSelectedPath(pathOf(node));
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Escape") zoom(root);
    else if (event.key === "Enter" && selected) zoom(selected);
    else {
      const next = neighbour(selected ?? top, event.key);
      if (!next) return;
      setSelectedPath(pathOf(next));
    }
    event.preventDefault();
  };
  const hoveredNode = pointer && boxAt(boxes, rows, up, pointer.x, pointer.y)?.node;
  const detailNode = hoveredNode ?? selected ?? top;
  const found = data.matches;
  const origins = useMemo(() => originsOf(boxes), [boxes]);
  return (
    <section>
      <div class="bar">
        <label>
          <input type="checkbox" checked={up} onChange={() => change({ flames: !up })} /> flames (root at the bottom)
        </label>
        {isComparison && (
          <label>
            colour by{" "}
            <select
              value={byChange ? "change" : "module"}
              onChange={(event) => change({ colour: event.currentTarget.value })}
            >
              <option value="change">change</option>
              <option value="module">program and libraries</option>
            </select>
          </label>
        )}
        <TreeControls shown={shown} change={change} hideDirection={fixed} />
        <button disabled={path.length === 0} onClick={() => zoom(root)}>
          whole picture
        </button>
        <button disabled={!detailNode.parent} onClick={() => change({ view: "callers", function: detailNode.name })}>
          callers of {detailNode.parent ? "it" : "…"}
        </button>
        <SavePicture
          name="seemalloc.flame"
          draw={() => ({
            svg: svgOf(boxes, rows, style, (node) => describe(node, whole, unit, isComparison, shown.inverted)),
            width,
            height: rows * ROW,
          })}
        />
      </div>
      <p class="detail" aria-live="polite">
        {describe(detailNode, whole, unit, isComparison, shown.inverted)}
      </p>
      {found && (
        <p class="note matches" role="status">
          search: {found.functions} {found.functions === 1 ? "function matches" : "functions match"}, with{" "}
          {amount(found.value, unit)}, {percent(found.value, whole)}
        </p>
      )}
      <div class="flame-container">
        <canvas
          ref={canvas}
          class="flame"
          tabIndex={0}
          role="img"
          aria-label={`Flame graph of ${boxes.length} frames; the table under Functions has the same figures. Arrows move, Enter zooms, Escape shows all.`}
          onMouseMove={(event) => setPointer({ x: event.offsetX, y: event.offsetY })}
          onMouseLeave={() => setPointer(null)}
          onClick={(event) => {
            const box = boxUnder(event);
            if (box) zoom(box.node);
          }}
          onKeyDown={key}
        />
        {hoveredNode && (
          <div
            class="tip"
            aria-hidden="true"
            style={{
              top: `${pointer!.y + 18}px`,
              ...(pointer!.x < width / 2 ? { left: `${pointer!.x + 8}px` } : { right: `${width - pointer!.x + 8}px` }),
            }}
          >
            {describe(hoveredNode, whole, unit, isComparison, shown.inverted)}
            {hoveredNode.parent && (
              <small>{[hoveredNode.file, hoveredNode.module].filter(Boolean).join(", in ")}</small>
            )}
          </div>
        )}
      </div>
      {!byChange && origins.length > 0 && (
        <p class="legend">
          {origins.map(({ origin, modules }) => (
            <span key={origin} class="entry" title={ORIGIN_TEXTS[origin][1]}>
              <i style={{ background: originColour(origin, "", dark) }} />
              {ORIGIN_TEXTS[origin][0]}
              <small>
                {": "}
                {modules
                  .slice(0, MAX_MODULES)
                  .map((module) => module || "no module")
                  .join(", ")}
                {modules.length > MAX_MODULES && ` and ${modules.length - MAX_MODULES} more`}
              </small>
            </span>
          ))}
        </p>
      )}
      {byChange && (
        <p class="legend">
          <span class="grown" /> grown <span class="shrunk" /> shrunk
        </p>
      )}
    </section>
  );
}
