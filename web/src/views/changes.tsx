// What has changed between two moments, or two files: totals, and the stacks that are new, gone, grown and shrunk.
import { useMemo } from "preact/hooks";
import { amount, count, percent } from "../model/format.ts";
import { WHATS, type What, changes } from "../model/changes.ts";
import { pattern } from "../model/stacks.ts";
import type { ViewProps } from "../state.ts";
import { Path } from "./path.tsx";

const MOST = 500;

const MEANS: Record<string, string> = {
  new: "Stacks that held nothing then.",
  grown: "Stacks that hold more than then.",
  shrunk: "Stacks that hold less than then, but something.",
  gone: "Stacks that hold nothing any more.",
};

export function Changes({ stacks, all, unit, shown, change }: ViewProps) {
  const sums = useMemo(() => changes(stacks, all), [stacks, all]);
  if (stacks.base === undefined) return <section><p class="note">Choose two moments, or two files: the later one in <em>at</em>, the earlier one in <em>compared with</em>. Of a process that runs, <em>compare from now on</em> keeps this moment and shows what changes after it.</p></section>;
  const search = pattern(shown.search);
  const chosen = sums.rows.filter((row) => (!shown.what || row.what === shown.what) && (!search || row.stack.some((name) => search.test(name))));
  const show = (what: string) => change({ what: shown.what === what ? "" : what });
  return (
    <section>
      <table class="figures" aria-label="Totals">
        <tbody>
          <tr><td class="name">then</td><td>{amount(sums.base, unit)}</td><td /><td /></tr>
          {WHATS.map((what: What) => (
            <tr key={what}>
              <td class="name"><button class="link" aria-pressed={shown.what === what} title={`${MEANS[what]} Shows these alone.`} onClick={() => show(what)}>{what}</button></td>
              <td class={mark(sums.parts[what].change)}>{amount(sums.parts[what].change, unit, true)}</td>
              <td>{percent(sums.parts[what].change, sums.base)}</td>
              <td>{count(sums.parts[what].stacks)} {sums.parts[what].stacks === 1 ? "stack" : "stacks"}</td>
            </tr>
          ))}
          <tr><td class="name"><strong>now</strong></td><td><strong>{amount(sums.value, unit)}</strong></td><td>{percent(sums.value - sums.base, sums.base)}</td><td>{amount(sums.value - sums.base, unit, true)} in all</td></tr>
        </tbody>
      </table>
      <h2>{shown.what ? `Stacks that are ${shown.what}` : "Stacks that changed"}</h2>
      <table class="figures stacked" style={{ "--columns": 4 }} aria-label="Stacks">
        <thead><tr><th scope="col">change</th><th scope="col">then</th><th scope="col">now</th><th scope="col">what</th><th scope="col">allocated in</th></tr></thead>
        <tbody>
          {chosen.slice(0, MOST).map((row) => (
            <tr key={row.stack.join("\n")}>
              <td class={mark(row.value - row.base)}>{amount(row.value - row.base, unit, true)}</td>
              <td>{amount(row.base, unit)}</td>
              <td>{amount(row.value, unit)}</td>
              <td>{row.what}</td>
              <td class="name"><Path stack={row.stack} change={change} most={6} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {chosen.length === 0 && <p class="note">No stack.</p>}
      {chosen.length > MOST && <p class="note">{count(chosen.length - MOST)} more: search or filter to see them.</p>}
      <p class="note">Both sides are estimates from samples: a small stack may be new, or gone, by chance. <code>seemalloc diff</code> says of each how sure it is.</p>
    </section>
  );
}

function mark(change: number): string {
  return change > 0 ? "more" : change < 0 ? "less" : "";
}
