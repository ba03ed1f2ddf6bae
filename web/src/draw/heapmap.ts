// The heap map on canvases: cells for all regions, and strips for the spans of some regions.
import type { MapPart, MapRegion } from "../answers.ts";
import { type Grid, occupancy, type RegionSums, totalBytes } from "../model/heapmap.ts";

export const STRIP = 26; // px per region
export const STRIP_GAP = 4;

export const LIVE = "#2563eb";
export const FREE = "#f59e0b";
export const DIRTY = "#8b8b8b";
export const LARGE = "#0d9488";

export interface HeapMapStyle {
  dark: boolean;
  byClass: boolean;
  isSelected?: (part: MapPart) => boolean; // all others are drawn faint; absent: all are drawn alike
}

const FAINT_ALPHA = 0.12;

/** One hue for each doubling of the size, with shades in between. */
export function sizeClassColour(size: number, dark: boolean): string {
  if (size <= 0) return size < 0 ? "transparent" : LARGE;
  const step = Math.log2(size);
  const hue = Math.round((step - 3) * 47) % 360;
  return dark ? `hsl(${hue} 55% 52%)` : `hsl(${hue} 62% 46%)`;
}

function prepare(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * Each cell is filled from the bottom: live, free in spans, free pages that have not been purged; the rest has
 * no memory.
 */
export function drawCells(
  canvas: HTMLCanvasElement,
  width: number,
  cells: RegionSums[],
  shape: Grid,
  selected: number,
  style: HeapMapStyle,
): void {
  const context = prepare(canvas, width, shape.rows * shape.cellSize);
  const inner = shape.cellSize - 1;
  cells.forEach((cell, i) => {
    const x = (i % shape.columns) * shape.cellSize;
    const bottom = Math.floor(i / shape.columns) * shape.cellSize + inner;
    const all = Math.max(1, totalBytes(cell));
    context.fillStyle = style.dark ? "#2b2b2b" : "#e7e5e4";
    context.fillRect(x, bottom - inner, inner, inner);
    let y = bottom;
    const fill = (part: number, colour: string) => {
      const height = (inner * part) / all;
      y -= height;
      context.fillStyle = colour;
      context.fillRect(x, y, inner, height);
    };
    fill(cell.live, style.byClass ? sizeClassColour(cell.mainBlockSize, style.dark) : LIVE);
    fill(cell.free, FREE);
    fill(cell.dirty, DIRTY);
    if (cell.huge > 0 && inner >= 6) {
      context.fillStyle = style.dark ? "#fff" : "#000";
      context.fillRect(x, bottom - inner, inner, 2);
    }
    if (i === selected) {
      context.strokeStyle = style.dark ? "#fff" : "#000";
      context.lineWidth = 2;
      context.strokeRect(x + 1, bottom - inner + 1, inner - 2, inner - 2);
    }
  });
}

const PAGES = 256;

function drawPart(
  context: CanvasRenderingContext2D,
  part: MapPart,
  y: number,
  page: number,
  osPages: number,
  style: HeapMapStyle,
): void {
  const alpha = style.isSelected && !style.isSelected(part) ? FAINT_ALPHA : 1;
  context.globalAlpha = alpha;
  const x = part.page * page;
  const width = Math.max(1, part.pages * page - (part.pages * page > 4 ? 1 : 0));
  const full = occupancy(part);
  if (full === null) {
    if (part.is === "dirty" || part.is === "lazy" || part.is === "kept" || part.is === "taken") {
      context.fillStyle = DIRTY;
      context.fillRect(x, y + STRIP / 3, width, (2 * STRIP) / 3);
    } else if (part.is === "purged") {
      context.fillStyle = style.dark ? "#555" : "#bbb";
      context.fillRect(x, y + STRIP - 2, width, 2);
    }
    return;
  }
  const colour = sizeClassColour(part.size ?? 0, style.dark);
  context.globalAlpha = 0.28 * alpha;
  context.fillStyle = colour;
  context.fillRect(x, y, width, STRIP);
  context.globalAlpha = alpha;
  const height = full === 0 ? 0 : Math.max(2, STRIP * full);
  context.fillRect(x, y + STRIP - height, width, height);
  // Purged holes, which have no memory.
  context.fillStyle = style.dark ? "#161616" : "#fff";
  for (let i = 0; i < 32 && part.holes; i++) {
    if ((part.holes >>> i) & 1) context.fillRect(x + i * page * osPages, y, Math.max(1, page * osPages), STRIP / 2);
  }
}

/** A part of a region (MapPart), by its indices in the list of regions and in the region. */
export interface PartPosition {
  region: number;
  part: number;
}

export function drawStrips(
  canvas: HTMLCanvasElement,
  width: number,
  regions: MapRegion[],
  osPages: number,
  selected: PartPosition | null,
  style: HeapMapStyle,
): void {
  const context = prepare(canvas, width, regions.length * (STRIP + STRIP_GAP));
  const page = width / PAGES;
  regions.forEach((region, row) => {
    const y = row * (STRIP + STRIP_GAP);
    context.fillStyle = style.dark ? "#242424" : "#f1f0ef";
    context.fillRect(0, y, width, STRIP);
    for (const part of region.parts ?? []) drawPart(context, part, y, page, osPages, style);
    context.globalAlpha = 1;
    if (region.huge) {
      context.fillStyle = style.dark ? "#fff" : "#000";
      context.fillRect(0, y + STRIP, width, 2);
    }
  });
  const part = selected && regions[selected.region]?.parts?.[selected.part];
  if (selected && part) {
    context.strokeStyle = style.dark ? "#fff" : "#000";
    context.lineWidth = 2;
    context.strokeRect(
      part.page * page + 1,
      selected.region * (STRIP + STRIP_GAP) + 1,
      Math.max(2, part.pages * page - 2),
      STRIP - 2,
    );
  }
}

/** The region and its page at this position of the strips. */
export function stripAt(x: number, y: number, width: number): { region: number; page: number } {
  return { region: Math.floor(y / (STRIP + STRIP_GAP)), page: Math.min(PAGES - 1, Math.floor((x / width) * PAGES)) };
}
