// Renders a part of the page as SVG: its texts, lines and coloured boxes at their positions, drawings unchanged, and
// canvases as images. Controls are left out.
import { escapeXml, type Picture } from "./save.ts";

const EXCLUDED = "button:not(.link), label, select, input, .save, .u-over";
const MARGIN = 8; // px around it

interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
}

const colourCache = new Map<string, string>();

/** Converts any CSS colour to attributes that all SVG viewers support; "": invisible. */
function paint(colour: string): string {
  let text = colourCache.get(colour);
  if (text === undefined) {
    const context = new OffscreenCanvas(1, 1).getContext("2d")!;
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data as unknown as [
      number,
      number,
      number,
      number,
    ];
    text =
      alpha === 0
        ? ""
        : `fill="rgb(${red},${green},${blue})"${alpha < 255 ? ` fill-opacity="${(alpha / 255).toFixed(2)}"` : ""}`;
    colourCache.set(colour, text);
  }
  return text;
}

function attributes(place: Partial<Rect>): string {
  return Object.entries(place)
    .map(([name, value]) => `${name}="${Math.round(10 * value) / 10}"`)
    .join(" ");
}

/** The pieces of a text that are each on one line. A name may be broken anywhere. */
function linesOf(text: Text): { text: string; place: DOMRect }[] {
  const range = document.createRange();
  const lines: { begin: number; end: number; place: DOMRect }[] = [];
  const add = (begin: number, end: number) => {
    range.setStart(text, begin);
    range.setEnd(text, end);
    const rects = range.getClientRects();
    if (rects.length > 1 && end - begin > 1) {
      const middle = (begin + end) >> 1;
      add(begin, middle);
      add(middle, end);
      return;
    }
    const place = rects[rects.length - 1];
    if (!place || place.width === 0) return;
    const last = lines[lines.length - 1];
    if (last && Math.abs(last.place.top - place.top) < 1) {
      last.end = end;
      last.place = new DOMRect(last.place.x, last.place.y, place.right - last.place.x, last.place.height);
    } else lines.push({ begin, end, place });
  };
  for (const word of text.data.matchAll(/\S+/g)) add(word.index, word.index + word[0].length);
  return lines.map(({ begin, end, place }) => ({ text: text.data.slice(begin, end).replace(/\s+/g, " "), place }));
}

/** A picture of an element with all its visible content. */
export function snapshot(root: Element): Picture {
  const origin = root.getBoundingClientRect();
  const parts: string[] = [];
  let [width, height] = [origin.width, 0];
  const at = ({ x, y, width: wide, height: high }: Rect): Rect => {
    const place = { x: x - origin.x + MARGIN, y: y - origin.y + MARGIN, width: wide, height: high };
    width = Math.max(width, place.x + wide - MARGIN); // a wide table is scrolled on the page
    height = Math.max(height, place.y + high - MARGIN);
    return place;
  };
  const box = (place: Rect, fill: string) =>
    fill && place.width > 0 && place.height > 0 && parts.push(`<rect ${attributes(at(place))} ${fill}/>`);
  const edges = (style: CSSStyleDeclaration, { x, y, width: wide, height: high }: DOMRect) => {
    for (const side of ["Top", "Right", "Bottom", "Left"] as const) {
      const thick = style[`border${side}Style`] === "none" ? 0 : parseFloat(style[`border${side}Width`]);
      if (thick === 0) continue;
      const across = side === "Top" || side === "Bottom";
      box(
        {
          x: side === "Right" ? x + wide - thick : x,
          y: side === "Bottom" ? y + high - thick : y,
          width: across ? wide : thick,
          height: across ? thick : high,
        },
        paint(style[`border${side}Color`]),
      );
    }
  };
  const write = (text: Text) => {
    const style = getComputedStyle(text.parentElement!);
    const size = parseFloat(style.fontSize);
    const bold = Number(style.fontWeight) > 500 ? ' font-weight="600"' : "";
    for (const line of linesOf(text)) {
      const { x, y, width: wide, height: high } = at(line.place);
      parts.push(
        `<text ${attributes({ x, y: y + high / 2 + 0.35 * size })} textLength="${wide.toFixed(1)}" lengthAdjust="spacingAndGlyphs" font-size="${size}" font-family="${escapeXml(style.fontFamily)}"${bold} ${paint(style.color)}>${escapeXml(line.text)}</text>`,
      );
    }
  };
  const walk = (node: Node): void => {
    if (node instanceof Text) {
      write(node);
      return;
    }
    if (!(node instanceof Element) || node.matches(EXCLUDED) || !node.checkVisibility({ visibilityProperty: true }))
      return;
    const style = getComputedStyle(node);
    const rect = node.getBoundingClientRect();
    if (node instanceof SVGSVGElement) {
      const copy = node.cloneNode(true) as SVGSVGElement;
      for (const [name, value] of Object.entries(at(rect))) copy.setAttribute(name, String(value));
      copy.setAttribute("color", style.color);
      parts.push(new XMLSerializer().serializeToString(copy));
      return;
    }
    if (node instanceof HTMLCanvasElement) {
      if (rect.width > 0 && node.width > 0 && node.height > 0)
        parts.push(`<image ${attributes(at(rect))} href="${node.toDataURL()}"/>`);
      return;
    }
    box(rect, paint(style.backgroundColor));
    edges(style, rect);
    node.childNodes.forEach(walk);
  };
  walk(root);
  [width, height] = [Math.ceil(width + 2 * MARGIN), Math.ceil(height + 2 * MARGIN)];
  const paper = paint(getComputedStyle(document.documentElement).backgroundColor);
  return {
    width,
    height,
    svg: `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">\n<rect width="100%" height="100%" ${paper}/>\n${parts.join("\n")}\n</svg>\n`,
  };
}
