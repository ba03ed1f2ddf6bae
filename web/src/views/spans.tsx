// The lower part of the heap map: the spans of some regions, as strips and as a table, with the stacks that pin them.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { MapPart, MapRegion, MapSums } from "../answers.ts";
import { drawStrips, type PartPosition, STRIP, STRIP_GAP, sizeClassColour, stripAt } from "../draw/heapmap.ts";
import { bytes, count, percent } from "../model/format.ts";
import { describePart, formatAge, occupancy, partAt } from "../model/heapmap.ts";
import type { Change } from "../state.ts";
import { isDark, useWidth } from "./canvas.ts";
import { ChunkedRows } from "./chunkedrows.tsx";
import { Path } from "./path.tsx";
import { Term } from "./term.tsx";

export const DETAILED_REGIONS = 16;

/** By the stack's id: the number of its innermost functions that belong to a standard library. */
type InnerCounts = Record<string, number> | undefined;

/** The stack that pins memory, with links to the callers. */
export function PinningStack({
  part,
  stacks,
  inner,
  change,
}: {
  part: MapPart | { stack?: string; samples?: number; age_ms?: number };
  stacks: Record<string, string[]>;
  inner: InnerCounts;
  change: Change;
}) {
  const stack = part.stack ? stacks[part.stack] : undefined;
  if (!stack) return null;
  return (
    <>
      {stack.length ? (
        <Path stack={stack} inner={inner?.[part.stack!] ?? 0} change={change} maxNames={4} />
      ) : (
        "(no stack)"
      )}{" "}
      <small>
        {formatAge(part.age_ms ?? 0)} old{(part.samples ?? 1) > 1 && `, and ${count(part.samples! - 1)} more samples`}
      </small>
    </>
  );
}

/**
 * Whether a span has blocks of the selected sizes and is pinned by the selected functions; undefined without
 * filters.
 */
export type SpanFilter = ((part: MapPart) => boolean) | undefined;

export function SpanStrips({
  map,
  regions,
  isSelected,
  stacks,
  inner,
  change,
}: {
  map: MapSums;
  regions: MapRegion[];
  isSelected: SpanFilter;
  stacks: Record<string, string[]>;
  inner: InnerCounts;
  change: Change;
}) {
  const [canvas, width] = useWidth();
  const [focused, setFocused] = useState<PartPosition | null>(null);
  const [hovered, setHovered] = useState<PartPosition | null>(null);
  const dark = isDark();
  useEffect(() => {
    if (width > 0)
      drawStrips(canvas.current!, width, regions, map.os_page_bytes / map.page_bytes, focused, {
        dark,
        byClass: true,
        isSelected,
      });
  }, [regions, width, focused, dark, isSelected]);
  const positionAt = (event: MouseEvent): PartPosition | null => {
    const { region, page } = stripAt(event.offsetX, event.offsetY, width);
    return regions[region] ? { region, part: partAt(regions[region]!, page) } : null;
  };
  const move = (event: KeyboardEvent) => {
    const now = focused ?? { region: 0, part: -1 };
    const parts = regions[now.region]?.parts ?? [];
    const page = parts[now.part]?.page ?? 0;
    let next: PartPosition | null = null;
    if (event.key === "ArrowRight") next = { region: now.region, part: Math.min(now.part + 1, parts.length - 1) };
    else if (event.key === "ArrowLeft") next = { region: now.region, part: Math.max(now.part - 1, 0) };
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const region = Math.min(Math.max(0, now.region + (event.key === "ArrowDown" ? 1 : -1)), regions.length - 1);
      next = { region, part: regions[region] ? partAt(regions[region]!, page) : -1 };
    }
    if (!next) return;
    setFocused(next);
    event.preventDefault();
  };
  const detailPosition = hovered ?? focused;
  const region = detailPosition && regions[detailPosition.region];
  const part = detailPosition && region?.parts?.[detailPosition.part];
  return (
    <>
      <p class="detail part" aria-live="polite">
        {part ? (
          <>
            {region!.region} + {bytes(part.page * map.page_bytes)}, {describePart(part, map.page_bytes)}{" "}
            <PinningStack part={part} stacks={stacks} inner={inner} change={change} />
          </>
        ) : (
          "Point at a span, or move to it with the arrow keys, for its size class, how full it is, how long it has been idle, and the stack that pins it."
        )}
      </p>
      <canvas
        ref={canvas}
        class="map parts"
        tabIndex={0}
        role="img"
        aria-label={`The spans of ${regions.length} regions. Left and right move between spans, up and down between regions; the table below has the same data.`}
        height={DETAILED_REGIONS * (STRIP + STRIP_GAP)}
        onMouseMove={(event) => setHovered(positionAt(event))}
        onMouseLeave={() => setHovered(null)}
        onClick={(event) => setFocused(positionAt(event))}
        onKeyDown={move}
      />
    </>
  );
}

export function SpanTable({
  map,
  region,
  isSelected,
  stacks,
  inner,
  change,
}: {
  map: MapSums;
  region: MapRegion;
  isSelected: SpanFilter;
  stacks: Record<string, string[]>;
  inner: InnerCounts;
  change: Change;
}) {
  const parts = useMemo(() => (region.parts ?? []).filter(isSelected ?? (() => true)), [region, isSelected, stacks]);
  return (
    <table class="figures parts stacked" style={{ "--columns": 4 }}>
      <caption>
        {region.region}
        {region.huge ? ", on a huge page" : ""}
      </caption>
      <thead>
        <tr>
          <th scope="col">page</th>
          <th scope="col">bytes</th>
          <th scope="col" class="name">
            <Term name="what" />
          </th>
          <th scope="col">
            <Term name="size class" />
          </th>
          <th scope="col">
            <Term name="live blocks">live</Term>
          </th>
          <th scope="col">blocks</th>
          <th scope="col">full</th>
          <th scope="col">
            <Term name="idle for" />
          </th>
          <th scope="col">
            <Term name="pinned by" />
          </th>
        </tr>
      </thead>
      <tbody>
        <ChunkedRows
          rows={parts}
          chunkSize={64}
          renderRow={(part) => {
            const full = occupancy(part);
            return (
              <tr key={part.page}>
                <td>{part.page}</td>
                <td>{bytes(part.pages * map.page_bytes)}</td>
                <td class="name">
                  {part.is} {part.state}
                </td>
                <td>
                  {part.size && <span class="swatch" style={{ background: sizeClassColour(part.size, isDark()) }} />}{" "}
                  {part.size && bytes(part.size)}
                </td>
                <td>{part.blocks && count(part.live ?? 0)}</td>
                <td>{part.blocks && count(part.blocks)}</td>
                <td>{full === null ? "" : percent(full, 1) || "0 %"}</td>
                <td>{part.idle_ms === undefined ? "" : formatAge(part.idle_ms)}</td>
                <td class="name">
                  <PinningStack part={part} stacks={stacks} inner={inner} change={change} />
                </td>
              </tr>
            );
          }}
        />
      </tbody>
    </table>
  );
}
