// A flame graph on a canvas. Only visible frames are drawn, so that 100,000 frames remain smooth.
import { type Node, ORIGINS, type Origin } from "../model/stacks.ts";
import { changeColour, originColour } from "./colour.ts";
import { escapeXml } from "./save.ts";

export const ROW = 20; // px
const MIN_WIDTH = 0.5; // px: narrower frames are not drawn

export interface Box {
  node: Node;
  x: number;
  y: number;
  width: number;
}

export interface FlameStyle {
  width: number;
  rootAtBottom: boolean; // flames: the root at the bottom; otherwise icicles
  byChange: boolean; // coloured by change and not by origin
  search: RegExp | null;
  dark: boolean;
  selected: Node | null;
}

/**
 * The value that determines a frame's width. In a comparison it is the larger of the two values, so that freed memory is
 * visible too.
 */
export function size(node: Node, isComparison: boolean): number {
  return Math.max(0, isComparison ? Math.max(node.total, node.base) : node.weight);
}

/** The boxes of the subtree of `top`, and of its callers above it at full width. */
export function layout(top: Node, width: number, isComparison: boolean): { boxes: Box[]; rows: number } {
  const boxes: Box[] = [];
  const path: Node[] = [];
  for (let node: Node | null = top.parent; node; node = node.parent) path.unshift(node);
  for (const [row, node] of path.entries()) boxes.push({ node, x: 0, y: row, width });
  let rows = path.length;
  const place = (node: Node, x: number, row: number, available: number) => {
    if (available < MIN_WIDTH) return;
    boxes.push({ node, x, y: row, width: available });
    rows = Math.max(rows, row + 1);
    const whole = Math.max(
      size(node, isComparison),
      node.children.reduce((sum, child) => sum + size(child, isComparison), 0),
    );
    if (whole === 0) return;
    for (const child of node.children) {
      const part = (available * size(child, isComparison)) / whole;
      place(child, x, row + 1, part);
      x += part;
    }
  };
  place(top, 0, path.length, width);
  return { boxes, rows };
}

/** The origins of the visible boxes, with their modules, those with the widest frames first. */
export function originsOf(boxes: Box[]): { origin: Origin; modules: string[] }[] {
  return ORIGINS.map((origin) => {
    const widths = new Map<string, number>();
    for (const { node, width } of boxes)
      if (node.origin === origin) widths.set(node.module, (widths.get(node.module) ?? 0) + width);
    return { origin, modules: [...widths].sort((a, b) => b[1] - a[1]).map(([module]) => module) };
  }).filter(({ modules }) => modules.length > 0);
}

/** The first box that matches a search: the outermost one, and of these the widest. */
export function firstMatch(boxes: Box[], search: RegExp): Box | null {
  const isBefore = (one: Box, other: Box | null) =>
    !other || one.y < other.y || (one.y === other.y && one.width > other.width);
  return boxes.reduce<Box | null>(
    (first, box) => (box.node.parent && search.test(box.node.name) && isBefore(box, first) ? box : first),
    null,
  );
}

function truncate(context: CanvasRenderingContext2D, text: string, available: number): string {
  if (context.measureText(text).width <= available) return text;
  const letters = Math.floor(available / 7);
  return letters < 3 ? "" : text.slice(0, letters - 1) + "…";
}

function boxColours(node: Node, style: FlameStyle): { fill: string; ink: string } {
  if (style.search?.test(node.name)) return { fill: "#c026d3", ink: "#fff" };
  const fill =
    style.byChange || node.total < 0
      ? changeColour(node.total, node.base, style.dark)
      : originColour(node.origin, node.name, style.dark);
  return { fill, ink: style.dark ? "#fff" : "#111" };
}

/** The graph that `draw` draws, as SVG. Each box has a tooltip, the `title` of its node. */
export function svgOf(boxes: Box[], rows: number, style: FlameStyle, title: (node: Node) => string): string {
  const height = rows * ROW;
  const letter = 7.2; // px per letter in a 12 px monospaced font
  const parts = boxes.map((box) => {
    const y = top(box, rows, style.rootAtBottom);
    const { fill, ink } = boxColours(box.node, style);
    const letters = Math.floor((box.width - 8) / letter);
    const name =
      box.node.name.length <= letters ? box.node.name : letters >= 3 ? box.node.name.slice(0, letters - 1) + "…" : "";
    const text =
      name && `<text x="${(box.x + 4).toFixed(1)}" y="${y + ROW / 2 + 4}" fill="${ink}">${escapeXml(name)}</text>`;
    return `<g><title>${escapeXml(title(box.node))}</title><rect x="${box.x.toFixed(1)}" y="${y}" width="${Math.max(box.width - 0.5, 0.5).toFixed(1)}" height="${ROW - 1}" fill="${fill}"/>${text}</g>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${Math.ceil(style.width)}" height="${height}" viewBox="0 0 ${Math.ceil(style.width)} ${height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"><rect width="100%" height="100%" fill="${style.dark ? "#161616" : "#ffffff"}"/>\n${parts.join("\n")}\n</svg>\n`;
}

export function draw(canvas: HTMLCanvasElement, boxes: Box[], rows: number, style: FlameStyle): void {
  const scale = devicePixelRatio || 1;
  const height = rows * ROW;
  canvas.width = Math.round(style.width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.clearRect(0, 0, style.width, height);
  context.font = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
  context.textBaseline = "middle";
  for (const box of boxes) {
    const y = top(box, rows, style.rootAtBottom);
    const { node } = box;
    const colours = boxColours(node, style);
    context.fillStyle = colours.fill;
    context.fillRect(box.x, y, Math.max(box.width - 0.5, 0.5), ROW - 1);
    if (node === style.selected) {
      context.strokeStyle = style.dark ? "#fff" : "#000";
      context.lineWidth = 2;
      context.strokeRect(box.x + 1, y + 1, box.width - 2.5, ROW - 3);
    }
    if (box.width > 24) {
      context.fillStyle = colours.ink;
      context.fillText(truncate(context, node.name, box.width - 8), box.x + 4, y + ROW / 2);
    }
  }
}

/** The distance of a box from the upper edge of the canvas. */
export function top(box: Box, rows: number, up: boolean): number {
  return (up ? rows - 1 - box.y : box.y) * ROW;
}

/** The box at this position of the canvas. */
export function boxAt(boxes: Box[], rows: number, up: boolean, x: number, y: number): Box | null {
  const row = up ? rows - 1 - Math.floor(y / ROW) : Math.floor(y / ROW);
  return boxes.find((box) => box.y === row && x >= box.x && x < box.x + box.width) ?? null;
}
