// The table of functions: flat and cum, sortable by any column. A comparison also shows the earlier values.
import { amount, percent } from "../model/format.ts";
import type { Column } from "../model/table.ts";
import type { ViewProps } from "../viewprops.ts";
import { Pieces } from "./pieces.tsx";
import { Word } from "./word.tsx";

export function Functions({ about: { unit, compares, sum }, figures: { rows, more, by, turned }, change }: ViewProps<"functions">) {
  const whole = sum.weight;
  const head = (column: Column, text: preact.ComponentChildren) => (
    <th aria-sort={by !== column ? "none" : (column === "name") === turned ? "descending" : "ascending"}>
      <button onClick={() => change({ sort: by === column && !turned ? `-${column}` : column })}>{text}</button>
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
          <Pieces rows={rows} piece={100} each={(row) => (
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
          )} />
        </tbody>
      </table>
      {more > 0 && <p class="note">{more} more: search or filter to see them.</p>}
      {rows.length === 0 && <p class="note">No function passes the filters.</p>}
    </section>
  );
}

function mark(change: number): string {
  return change > 0 ? "more" : change < 0 ? "less" : "";
}
