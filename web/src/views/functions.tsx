// The table of functions: flat and cum, sortable by any column. A comparison also shows the earlier values.
import { amount, percent } from "../model/format.ts";
import type { Column } from "../model/table.ts";
import type { ViewProps } from "../viewprops.ts";
import { ChunkedRows } from "./chunkedrows.tsx";
import { Term } from "./term.tsx";

export function Functions({
  about: { unit, isComparison, total: sum },
  data: { rows, omitted, column: by, reversed },
  shown,
  change,
}: ViewProps<"functions">) {
  const whole = sum.weight;
  const header = (column: Column, text: preact.ComponentChildren) => (
    <th aria-sort={by !== column ? "none" : (column === "name") === reversed ? "descending" : "ascending"}>
      <button onClick={() => change({ sort: by === column && !reversed ? `-${column}` : column })}>{text}</button>
    </th>
  );
  return (
    <section>
      <table class="figures stacked" style={{ "--columns": isComparison ? 6 : 4 }}>
        <thead>
          <tr>
            {header("flat", <Term name="flat" />)}
            <th scope="col">%</th>
            {header("cum", <Term name="cum" />)}
            <th scope="col">%</th>
            {isComparison && header("flatChange", "flat since")}
            {isComparison && header("cumChange", "cum since")}
            {header("name", "function")}
          </tr>
        </thead>
        <tbody>
          <ChunkedRows
            rows={rows}
            chunkSize={100}
            renderRow={(row) => (
              <tr key={row.name}>
                <td>{amount(row.flat, unit)}</td>
                <td>{percent(row.flat, whole)}</td>
                <td>{amount(row.cum, unit)}</td>
                <td>{percent(row.cum, whole)}</td>
                {isComparison && (
                  <td class={changeClass(row.flat - row.flatBase)}>{amount(row.flat - row.flatBase, unit, true)}</td>
                )}
                {isComparison && (
                  <td class={changeClass(row.cum - row.cumBase)}>{amount(row.cum - row.cumBase, unit, true)}</td>
                )}
                <td class="name">
                  <button class="link" onClick={() => change({ view: "callers", function: row.name })}>
                    {row.name}
                  </button>
                  <small> {row.file || row.module}</small>
                  {isComparison && row.cumBase === 0 && <em> new</em>}
                  {isComparison && row.cum === 0 && <em> gone</em>}
                </td>
              </tr>
            )}
          />
        </tbody>
      </table>
      {omitted > 0 && <p class="note">{omitted} more: search or filter to see them.</p>}
      {rows.length === 0 && (
        <p class="note">
          {shown.search
            ? `No function matches the search “${shown.search}”.`
            : "No stack has a function: all are hidden."}
        </p>
      )}
    </section>
  );
}

function changeClass(change: number): string {
  return change > 0 ? "increase" : change < 0 ? "decrease" : "";
}
