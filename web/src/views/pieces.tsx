// The rows of a long table, drawn in pieces, one per frame: 200 rows of stacks are 12,000 elements, which take 150 ms
// to create and lay out. Each piece shows its previous content until it is redrawn.
import { Fragment, type VNode } from "preact";
import { useEffect, useReducer, useRef } from "preact/hooks";
import { inTurn } from "../draw/turns.ts";

interface Props<T> {
  rows: T[]; // a different array whenever `each` would draw something else
  each: (row: T) => VNode; // with a key
  piece: number; // rows
}

export function Pieces<T>({ rows, each, piece }: Props<T>) {
  const kept = useRef<{ rows: T[] | null; drawn: number; pieces: VNode[] }>({ rows: null, drawn: 0, pieces: [] });
  const [, again] = useReducer((count: number, _: void) => count + 1, 0);
  const one = kept.current;
  const count = Math.ceil(rows.length / piece);
  if (one.rows !== rows) Object.assign(one, { rows, drawn: 0, pieces: one.pieces.slice(0, count) });
  if (one.drawn < count) {
    const i = one.drawn++;
    one.pieces[i] = <Fragment key={i}>{rows.slice(i * piece, (i + 1) * piece).map(each)}</Fragment>;
  }
  useEffect(() => (one.drawn < count ? inTurn(() => again()) : undefined));
  return <>{[...one.pieces]}</>;
}
