// The table of functions: flat and cum, sorted by any column; a change has what it was before beside it.
import { useMemo } from "preact/hooks";
import { amount, percent } from "../model/format.ts";
import { type Row, pattern, table, total } from "../model/stacks.ts";
import type { ViewProps } from "../state.ts";
import { Word } from "./word.tsx";

const MOST = 500;

type Column = "flat" | "cum" | "flatChange" | "cumChange" | "name";

const VALUES: Record<Column, (row: Row) => number | string> = {
  flat: (row) => row.flat,
  cum: (row) => row.cum,
  flatChange: (row) => row.flat - row.flatBase,
  cumChange: (row) => row.cum - row.cumBase,
  name: (row) => row.name,
};

/** The one that the address names, if it is there. */
function column(name: string, compares: boolean): Column {
  if (name in VALUES && (compares || !name.endsWith("Change"))) return name as Column;
  return compares ? "flatChange" : "flat";
}

function sorted(rows: Row[], by: Column): Row[] {
  const value = VALUES[by];
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (typeof x === "string" || typeof y === "string") return String(x) < String(y) ? -1 : 1;
    return Math.abs(y) - Math.abs(x) || b.flat - a.flat;
  });
}

export function Functions({ stacks, all, unit, shown, change }: ViewProps) {
  const compares = stacks.base !== undefined;
  const by = column(shown.sort, compares);
  const search = pattern(shown.search);
  const rows = useMemo(() => sorted(table(stacks, all), by), [stacks, all, by]);
  const passing = search ? rows.filter((row) => search.test(row.name)) : rows;
  const whole = total(all).weight;
  const head = (column: Column, text: preact.ComponentChildren) => (
    <th aria-sort={by === column ? (column === "name" ? "ascending" : "descending") : "none"}>
      <button onClick={() => change({ sort: column })}>{text}</button>
    </th>
  );
  return (
    <section>
      <table class="figures stacked" style={{ "--columns": compares ? 6 : 4 }}>
        <thead>
          <tr>
            {head("flat", <Word name="flat" />)}
            <th scope="col">%</th>
            {head("cum", <Word name="cum" />)}
            <th scope="col">%</th>
            {compares && head("flatChange", "flat since")}
            {compares && head("cumChange", "cum since")}
            {head("name", "function")}
          </tr>
        </thead>
        <tbody>
          {passing.slice(0, MOST).map((row) => (
            <tr key={row.name}>
              <td>{amount(row.flat, unit)}</td>
              <td>{percent(row.flat, whole)}</td>
              <td>{amount(row.cum, unit)}</td>
              <td>{percent(row.cum, whole)}</td>
              {compares && <td class={mark(row.flat - row.flatBase)}>{amount(row.flat - row.flatBase, unit, true)}</td>}
              {compares && <td class={mark(row.cum - row.cumBase)}>{amount(row.cum - row.cumBase, unit, true)}</td>}
              <td class="name">
                <button class="link" onClick={() => change({ view: "callers", function: row.name })}>{row.name}</button>
                <small> {row.file || row.module}</small>
                {compares && row.cumBase === 0 && <em> new</em>}
                {compares && row.cum === 0 && <em> gone</em>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {passing.length > MOST && <p class="note">{passing.length - MOST} more: search or filter to see them.</p>}
      {passing.length === 0 && <p class="note">No function passes the filters.</p>}
    </section>
  );
}

function mark(change: number): string {
  return change > 0 ? "more" : change < 0 ? "less" : "";
}
