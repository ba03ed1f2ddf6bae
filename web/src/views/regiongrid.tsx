// The upper part of the heap map: all regions as cells.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { MapSums } from "../answers.ts";
import { drawCells } from "../draw/heapmap.ts";
import { describeSum, layoutGrid, sumRegions } from "../model/heapmap.ts";
import type { Change, ViewState } from "../state.ts";
import { isDark, useWidth } from "./canvas.ts";

const MAX_HEIGHT = 400; // px of the upper canvas

export function RegionGrid({ map, shown, change }: { map: MapSums; shown: ViewState; change: Change }) {
  const [canvas, width] = useWidth();
  const [hovered, setHovered] = useState(-1);
  const dark = isDark();
  const shape = useMemo(
    () => layoutGrid(map.regions.length, Math.max(width, 200), MAX_HEIGHT),
    [map.regions.length, width],
  );
  const cells = useMemo(() => sumRegions(map, shape.regionsPerCell), [map, shape.regionsPerCell]);
  const at = Math.max(0, map.addresses.indexOf(shown.region));
  const selected = Math.floor(at / shape.regionsPerCell);
  useEffect(() => {
    if (width > 0)
      drawCells(canvas.current!, width, cells, shape, selected, { dark, byClass: shown.paint === "class" });
  }, [cells, shape, width, selected, dark, shown.paint]);
  const select = (cell: number) => {
    const sum = cells[Math.min(Math.max(0, cell), cells.length - 1)];
    if (sum) change({ region: map.addresses[sum.first]! });
  };
  const cellAt = (event: MouseEvent) =>
    Math.floor(event.offsetY / shape.cellSize) * shape.columns + Math.floor(event.offsetX / shape.cellSize);
  const STEPS: Record<string, number> = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -shape.columns,
    ArrowDown: shape.columns,
    Home: -cells.length,
    End: cells.length,
  };
  const detailCell = cells[hovered] ?? cells[selected];
  return (
    <>
      <p class="detail all" aria-live="polite">
        {detailCell && describeSum(map, detailCell)}
      </p>
      <canvas
        ref={canvas}
        class="map all"
        tabIndex={0}
        role="img"
        aria-label={`All ${map.regions.length} regions in ${cells.length} cells. The arrow keys move the selection; the table below has the parts of the selected regions.`}
        onMouseMove={(event) => setHovered(cellAt(event))}
        onMouseLeave={() => setHovered(-1)}
        onClick={(event) => select(cellAt(event))}
        onKeyDown={(event) => {
          const step = STEPS[event.key];
          if (step === undefined) return;
          select(selected + step);
          event.preventDefault();
        }}
      />
    </>
  );
}
