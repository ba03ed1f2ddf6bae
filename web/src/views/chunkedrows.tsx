// The rows of a long table, drawn in pieces, one per frame: 200 rows of stacks are 12,000 elements, which take 150 ms
// to create and lay out. Each piece shows its previous content until it is redrawn.
import { Fragment, type VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { queueFrame } from "../draw/framequeue.ts";

interface Props<T> {
  rows: T[]; // a different array whenever renderRow would draw something else
  renderRow: (row: T) => VNode; // with a key
  chunkSize: number; // rows
}

export function ChunkedRows<T>({ rows, renderRow, chunkSize }: Props<T>) {
  const ref = useRef<{ rows: T[] | null; drawn: number; pieces: VNode[] }>({ rows: null, drawn: 0, pieces: [] });
  const [, setDraws] = useState(0); // a change redraws the component
  const drawing = ref.current;
  const count = Math.ceil(rows.length / chunkSize);
  if (drawing.rows !== rows) Object.assign(drawing, { rows, drawn: 0, pieces: drawing.pieces.slice(0, count) });
  if (drawing.drawn < count) {
    const i = drawing.drawn++;
    drawing.pieces[i] = <Fragment key={i}>{rows.slice(i * chunkSize, (i + 1) * chunkSize).map(renderRow)}</Fragment>;
  }
  useEffect(() => (drawing.drawn < count ? queueFrame(() => setDraws((draws) => draws + 1)) : undefined));
  return <>{[...drawing.pieces]}</>;
}
