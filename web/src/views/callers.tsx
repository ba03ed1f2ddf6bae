// One function: who calls it, and what it calls (sandwich).
import { useMemo } from "preact/hooks";
import { amount } from "../model/format.ts";
import { around, table, total } from "../model/stacks.ts";
import type { ViewProps } from "../state.ts";
import { Flame } from "./flame.tsx";

export function Callers(props: ViewProps) {
  const { stacks, all, unit, shown, change } = props;
  const names = useMemo(() => table(stacks, all).sort((a, b) => b.cum - a.cum).map((row) => row.name), [stacks, all]);
  const { callers, callees } = useMemo(() => around(stacks, all, shown.function), [stacks, all, shown.function]);
  return (
    <section>
      <div class="bar">
        <label>
          function <input list="functions" value={shown.function} size={50} onChange={(event) => change({ function: event.currentTarget.value })} />
        </label>
        <button disabled={callers.length === 0} onClick={() => change({ view: "source", function: shown.function })}>source of it</button>
        <datalist id="functions">{names.slice(0, 2000).map((name) => <option key={name} value={name} />)}</datalist>
      </div>
      {callers.length === 0 ? (
        <p class="note">{shown.function ? `No stack has ${shown.function}.` : "Choose a function, here or by a click in a table or a picture."}</p>
      ) : (
        <>
          <h2>{shown.function}: {amount(total(callers).value, unit)}</h2>
          <h3>called by</h3>
          <Flame {...props} fixed all={callers} shown={{ ...shown, inverted: true }} />
          <h3>calls</h3>
          <Flame {...props} fixed all={callees} shown={{ ...shown, inverted: false }} />
        </>
      )}
    </section>
  );
}
